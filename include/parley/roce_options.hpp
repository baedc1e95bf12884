// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Settings of the RoCE provider: the same on UDP sockets (parley/roce_host.hpp) and in the simulator.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "parley/qp.hpp"
#include "parley/time.hpp"

namespace parley::trace {
class Sink;
}

namespace parley::cm {

/// What a listener answers to a REQ for which ListenOptions::pending_max, or ManagerOptions::endpoints_max, leaves no room.
enum class RoceWhenFull : std::uint8_t {
  /// An MRA, for which nothing is kept: any peer sends the same REQ again after its service timeout of 0.54 s and the way.
  mra,
  /// REJ 28 with a retry-after to peers that offered to heed it (offer_retry_after), an MRA to others. Takes the offer out of
  /// the private data of ConnectRequest.
  retry_after,
  refuse,  ///< REJ 3, no resources: the peer's set-up fails at once, or goes to its next address
  drop,    ///< nothing, as Linux
};
std::string_view to_string(RoceWhenFull answer);  ///< "retry_after"

struct RoceProviderOptions {
  /// Largest payload of a packet. A path whose network has a smaller MTU needs less: 1024 fits Ethernet's 1500.
  Mtu mtu = Mtu::octets_1024;
  /// Local ACK timeout of the queue pairs on both sides: 4.096 us times 2^n; 1 to 31. 16: 268 ms. Linux asks for 19.
  std::uint8_t ack_timeout = 16;
  /// How long the ACK of a short message waits for further ones, so that one packet acknowledges up to 16; at most 10 ms. It is a
  /// packet less for each message of programs that answer a Send with a Send, and a send completes that much later. 0: at once.
  Duration ack_delay{};
  /// Longest wait for the peer's answer to a REQ or REP, retransmissions included; ib::Options::reply_timeout goes before it.
  /// An MRA, by which the peer asks for time, extends it; a retry-after does not. More than 0.
  Duration reply_timeout = std::chrono::seconds(30);
  /// When a message of the connection manager is sent again: first after this, then twice as long each time, up to resend_cap,
  /// each wait cut by up to half at random. Linux waits 6 s each time. More than 0.
  Duration resend_first = std::chrono::milliseconds(50);
  Duration resend_cap = std::chrono::seconds(2);
  /// As IBA §12.9 has it: messages of the connection manager are sent again after the response timeout that the REQ announces
  /// (4.3 s; Linux adds twice the packet lifetime, 6.4 s in all), 15 times at most. reply_timeout and resend_* do not count then.
  bool spec_timers = false;
  /// Of RC, UC and XRC; a UD peer is told that there is no queue pair for it (SIDR status 3), which Retry takes for passing.
  RoceWhenFull when_full = RoceWhenFull::mra;
  Duration retry_after = std::chrono::milliseconds(250);  ///< of RoceWhenFull::retry_after; 1 ms to 65535 ms
  /// REQs of this side say in the last 8 octets of their private data that it understands a retry-after, which leaves the
  /// program 48: a listener that says so has the REQ again after that time, and up to half as much at random, within
  /// reply_timeout. Its program sees the 8 octets if its when_full is another, or if it is not Parley.
  bool offer_retry_after = false;
  /// Of the packets of connections that this side asks for, in both directions: DSCP in the upper six bits, ECN in the lower two.
  /// 106 (DSCP 26, ECT(0)) is usual where switches mark congestion; as Linux's default_roce_tos sets it. 0: none can be marked.
  std::uint8_t traffic_class = 0;
  /// disconnect(): how long posted requests may take to complete, and then how long the peer's answer. More than 0.
  Duration linger = std::chrono::seconds(5);
  /// Names this host to its peers (IBA §12.6.5, Local CA GUID) and seeds its numbers. 0: the driver draws them.
  std::uint64_t ca_guid = 0, seed = 0;
  /// If not 0: the address of the first registered region. Regions follow one another from there, so that what goes over the
  /// wire does not depend on where memory lies. 0: addresses are those of the memory, as in verbs.
  std::uint64_t address_base = 0;
  /// A peer of `parley quirks` whose known departures and timers this side plays, for tests: "ib_cm", "rxe". Empty: the specification
  /// alone. spec_timers and ack_timeout are then that peer's.
  std::string play_quirk{};
  /// Gets what the connections do, step by step (parley/trace.hpp); not owned, and must outlive the provider. Null: nobody.
  trace::Sink* trace = nullptr;
};

}  // namespace parley::cm
