// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parley as a RoCEv2 NIC in software: the InfiniBand CM and transport over UDP port 4791, without root, kernel module or
// NIC. Its peers are Linux's rxe and itself. docs/roce.md has what it can do and its limits.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "parley/host.hpp"
#include "parley/roce_options.hpp"

namespace parley {

struct RoceHostOptions {
  cm::ManagerOptions manager{};
  cm::RoceProviderOptions roce{};  ///< packets, timers, trace
  /// Octets of the sockets' buffers (SO_RCVBUF, SO_SNDBUF), as far as the system lets them grow; 0: the system's default.
  std::size_t socket_buffer = 4 << 20;
  /// Several packets in one system call and one pass through the system (UDP_SEGMENT, UDP_GRO), where it can.
  bool offload = true;
};

/// What went over the sockets, and what was dropped.
struct RoceCounters {
  std::uint64_t sent = 0, received = 0;  ///< packets
  std::uint64_t bad_icrc = 0;            ///< dropped; IBA §7.8
  std::uint64_t too_short = 0;           ///< dropped
  std::uint64_t unsent = 0;              ///< the system refused them; they count as lost
  std::uint64_t groups_not_joined =
      0;  ///< multicast groups, each on an address that came after they had been joined elsewhere
};

/// Packets that were received and dropped for one reason.
struct RoceDropped {
  std::string_view reason;  ///< "bad_icrc", "qpn", "p_key", ...: docs/operations.md has them all
  std::uint64_t packets = 0;
};

/// Messages of InfiniBand's connection manager of one kind.
struct RoceMessages {
  std::string_view type;  ///< "ib_req", "ib_rep", "ib_mra", ...
  std::uint64_t received = 0;
  std::uint64_t sent = 0;    ///< those sent again included
  std::uint64_t resent = 0;  ///< because nothing came, or for a duplicate
};

/// REJs of InfiniBand's connection manager for one reason, each as often as it was sent.
struct RoceRejects {
  /// "no_resources", "stale_connection", "consumer_reject" of a program, "retry_after" of a listener without room, ...; "other"
  std::string_view reason;
  std::uint64_t received = 0, sent = 0;
};

/// One packet as it went over a socket, from the BTH to the ICRC, for pcapng writers.
struct PacketTapRecord {
  Instant at;
  Address local, peer;
  std::uint16_t source_port = 0;
  std::uint16_t identification = 0;  ///< of the IPv4 header; 0 of a packet that was received: not known
  std::uint8_t traffic_class = 0;
  bool sent = false;
  ConstBytes octets{};  ///< valid during the call only
};
using PacketTap = std::function<void(const PacketTapRecord&)>;

class RoceHost : public Host {
 public:
  /// Errors: invalid_argument, no_space (no descriptors).
  static Result<std::unique_ptr<RoceHost>> open(const RoceHostOptions& options = {});
  /// Sees every packet; costs nothing when not set.
  virtual void set_tap(PacketTap tap) = 0;
  virtual RoceCounters counters() const = 0;
  /// By the sockets and behind them, by the NIC: each reason that there is, always in the same order.
  virtual std::vector<RoceDropped> dropped() const = 0;
  /// Of the connection manager: each kind that there is, always in the same order.
  virtual std::vector<RoceMessages> messages() const = 0;
  /// Likewise of the reasons of REJs.
  virtual std::vector<RoceRejects> rejects() const = 0;
};

}  // namespace parley
