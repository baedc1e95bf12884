// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Who is told of RoCE connections as they begin and end: the Analyzer.
#pragma once
#include <string>

#include "capture/rules/mpa/connection.hpp"

namespace parley::capture {

class RoceConnection;

class RoceHost {
 public:
  /// What to collect of one that begins with this frame.
  virtual EventLimits roce_begins(std::uint64_t frame) = 0;
  virtual void roce_ended(RoceConnection& connection) = 0;
  /// Something about the file.
  virtual void roce_note(std::string text) = 0;

 protected:
  ~RoceHost() = default;
};

}  // namespace parley::capture
