// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Receives the interpretation of each RoCE packet: its connection, and its findings. For programs that display packets.
#pragma once
#include "capture/report.hpp"

namespace parley::capture {

class RoceConnection;
struct RocePacket;
struct CapturedCm;

class RoceWatch {
 public:
  /// A CM message, or a data packet, before it is judged. `from`: its sender.
  virtual void message(RoceConnection& connection, Side from, const RocePacket& p, const CapturedCm& m) = 0;
  virtual void data(RoceConnection& connection, Side from, const RocePacket& p) = 0;
  /// A finding, in any order of frames; also repeated findings that the report omits. A known departure has a text only
  /// the first time.
  virtual void found(RoceConnection& connection, const Finding& finding) = 0;
  virtual void ended(RoceConnection& connection, const ConnectionReport& report) = 0;

 protected:
  ~RoceWatch() = default;
};

}  // namespace parley::capture
