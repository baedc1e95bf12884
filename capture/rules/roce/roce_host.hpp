// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Receives the beginning and the end of RoCE connections. Implemented by the Analyzer.
#pragma once
#include <string>

#include "capture/rules/mpa/connection.hpp"

namespace parley::capture {

class RoceConnection;

class RoceHost {
 public:
  /// A connection begins with this frame. Returns which events to collect.
  virtual EventLimits roce_begins(std::uint64_t frame) = 0;
  virtual void roce_ended(RoceConnection& connection) = 0;
  /// A note about the file.
  virtual void roce_note(std::string text) = 0;

 protected:
  ~RoceHost() = default;
};

}  // namespace parley::capture
