// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Who follows, packet by packet, what is made of RoCE: a program that shows packets asks where each belongs and what was found.
#pragma once
#include "capture/report.hpp"

namespace parley::capture {

class RoceConnection;
struct RocePacket;
struct CmSeen;

class RoceWatch {
 public:
  /// A message of the CM, or a packet of data, before it is judged. `from`: the side that sent it.
  virtual void message(RoceConnection& connection, Side from, const RocePacket& p, const CmSeen& m) = 0;
  virtual void data(RoceConnection& connection, Side from, const RocePacket& p) = 0;
  /// As it is found, in any order of frames: also what the report leaves out since it says the same again. Without a text: a known
  /// departure of which the report has one.
  virtual void found(RoceConnection& connection, const Finding& finding) = 0;
  virtual void ended(RoceConnection& connection, const ConnectionReport& report) = 0;

 protected:
  ~RoceWatch() = default;
};

}  // namespace parley::capture
