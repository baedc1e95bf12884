// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every congestion mark is answered: a host that acknowledges a packet received with CE has sent a Congestion
// Notification to the sender's queue pair, unless the last one was sent less than an interval before (IBA §A17.9.3).
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/gid.hpp"
#include "sim/check/history.hpp"
#include "sim/check/judge.hpp"

namespace parley::sim::check {

class Congestion {
 public:
  /// A frame that this host sent, or received without discarding it.
  void frame(const std::string& host, const TapFrame& frame);
  void finish(const std::deque<Attempt>& attempts, Judge& judge) const;

 private:
  /// A packet: its time and its PSN.
  struct Passed {
    Instant at{};
    std::uint32_t psn = 0;
  };
  /// Packets in one direction, between a host and a queue pair at a peer's address.
  struct Sent {
    std::optional<Passed> ack;  // the last one
    std::optional<Instant> cnp;
  };
  /// Packets that a host's queue pair received.
  struct Received {
    std::optional<Passed> first, last;  // with CE
  };
  void judge_end(const Attempt& attempt, const End& end, Judge& judge) const;

  std::map<std::pair<std::string, std::uint32_t>, Received> received_;          // by host and its queue pair
  std::map<std::pair<std::string, std::pair<Gid, std::uint32_t>>, Sent> sent_;  // by host and the peer's
};

}  // namespace parley::sim::check
