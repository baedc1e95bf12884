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

/// A listener's answer to a REQ that exceeds ListenOptions::pending_max or ManagerOptions::endpoints_max.
enum class RoceWhenFull : std::uint8_t {
  /// An MRA, without keeping any state: every peer retransmits the same REQ after the MRA's service timeout of 0.54 s plus
  /// the packet lifetime.
  mra,
  /// REJ 28 with a retry-after to peers that announced support for it (offer_retry_after), an MRA to others. Removes the
  /// announcement from the private data of ConnectRequest.
  retry_after,
  refuse,  ///< REJ 3, no resources: the peer's set-up fails at once, or continues at its next address
  drop,    ///< no answer, as Linux does
};
std::string_view to_string(RoceWhenFull answer);  ///< "retry_after"

struct RoceProviderOptions {
  /// Largest payload of a packet. Choose a smaller one for a path with a smaller MTU: 1024 fits Ethernet's 1500.
  Mtu mtu = Mtu::octets_1024;
  /// Local ACK timeout of the queue pairs on both sides: 4.096 us * 2^n, n from 1 to 31. 16 is 268 ms. Linux requests 19.
  std::uint8_t ack_timeout = 16;
  /// How long the ACK of a short message is delayed so that one packet can acknowledge up to 16 messages; at most 10 ms. It
  /// saves one packet per message if programs answer a Send with a Send, but delays the completion of each Send. 0: no delay.
  Duration ack_delay{};
  /// Longest wait for the peer's answer to a REQ or REP, retransmissions included; ib::Options::reply_timeout overrides it.
  /// An MRA, with which the peer requests more time, extends it; a retry-after does not. More than 0.
  Duration reply_timeout = std::chrono::seconds(30);
  /// Retransmission of connection manager messages: first after resend_first, then after twice the previous wait, up to
  /// resend_cap. Each wait is shortened by a random part of up to half. Linux waits 6 s each time. More than 0.
  Duration resend_first = std::chrono::milliseconds(50);
  Duration resend_cap = std::chrono::seconds(2);
  /// Timers of IBA §12.9: connection manager messages are retransmitted after the response timeout announced in the REQ
  /// (4.3 s; Linux adds twice the packet lifetime, 6.4 s in total), at most 15 times. reply_timeout and resend_* are then
  /// ignored.
  bool spec_timers = false;
  /// For RC, UC and XRC. A UD peer gets SIDR status 3 (no queue pair available), which Retry treats as temporary.
  RoceWhenFull when_full = RoceWhenFull::mra;
  Duration retry_after = std::chrono::milliseconds(250);  ///< for RoceWhenFull::retry_after; 1 ms to 65535 ms
  /// REQs of this side announce in the last 8 octets of their private data that it supports a retry-after; 48 octets are
  /// left for the program. A listener that replies with a retry-after gets the REQ again after that time plus a random part
  /// of up to half, within reply_timeout. If the listener's when_full is another value, or it is not Parley, its program
  /// sees the 8 octets.
  bool offer_retry_after = false;
  /// Traffic class of both directions of connections that this side initiates: DSCP in the upper six bits, ECN in the lower
  /// two. 106 (DSCP 26, ECT(0)) is usual for networks whose switches mark congestion, like Linux's default_roce_tos. 0:
  /// packets cannot be marked.
  std::uint8_t traffic_class = 0;
  /// disconnect(): how long posted requests may take to complete, and then the longest wait for the peer's answer. More
  /// than 0.
  Duration linger = std::chrono::seconds(5);
  /// Identifies this host to its peers (IBA §12.6.5, Local CA GUID), and seeds its numbers. 0: the driver draws them.
  std::uint64_t ca_guid = 0, seed = 0;
  /// If not 0: the address of the first registered region; later regions follow it. The octets on the wire then do not
  /// depend on memory addresses. 0: addresses are memory addresses, as in verbs.
  std::uint64_t address_base = 0;
  /// Name of a peer implementation (`parley quirks`) whose deviations and timers this side plays, for tests: "ib_cm", "rxe".
  /// It then determines spec_timers and ack_timeout. Empty: follow the specification.
  std::string play_quirk{};
  /// Receives a trace of the connections (parley/trace.hpp). Not owned; must outlive the provider. Null: no trace.
  trace::Sink* trace = nullptr;
};

}  // namespace parley::cm
