// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parley as a RoCEv2 NIC in software: the InfiniBand CM and transport over UDP port 4791, without root, kernel module or
// NIC. It interoperates with Linux's rxe and with itself. docs/roce.md lists its features and limits.
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
  /// Bytes of the sockets' buffers (SO_RCVBUF, SO_SNDBUF), as far as the system allows; 0: the system's default.
  std::size_t socket_buffer = 4 << 20;
  /// Several packets per system call and per pass through the network stack (UDP_SEGMENT, UDP_GRO), if the system can.
  bool offload = true;
};

/// Packets that went through the sockets, and packets that were dropped.
struct RoceCounters {
  std::uint64_t sent = 0, received = 0;  ///< packets
  std::uint64_t bad_icrc = 0;            ///< dropped; IBA §7.8
  std::uint64_t too_short = 0;           ///< dropped
  std::uint64_t unsent = 0;              ///< the system refused to send them; they count as lost
  std::uint64_t groups_not_joined = 0;   ///< failed joins on an address that was added after its group was joined
};

/// Packets that were received and dropped for one reason.
struct RoceDropped {
  std::string_view reason;  ///< "bad_icrc", "qpn", "p_key", ...: docs/operations.md lists all
  std::uint64_t packets = 0;
};

/// Messages of one type of InfiniBand's connection manager.
struct RoceMessages {
  std::string_view type;  ///< "ib_req", "ib_rep", "ib_mra", ...
  std::uint64_t received = 0;
  std::uint64_t sent = 0;    ///< includes retransmissions
  std::uint64_t resent = 0;  ///< retransmitted after a timeout, or in response to a duplicate
};

/// REJs of InfiniBand's connection manager with one reason; each transmission counts.
struct RoceRejects {
  /// "no_resources", "stale_connection", "consumer_reject" (from a program), "retry_after" (from a full listener), ...;
  /// "other"
  std::string_view reason;
  std::uint64_t received = 0, sent = 0;
};

/// One packet as sent or received on a socket, from the BTH to the ICRC, for pcapng writers.
struct PacketTapRecord {
  Instant at;
  Address local, peer;
  std::uint16_t source_port = 0;
  std::uint16_t identification = 0;  ///< of the IPv4 header; 0 for a received packet: unknown
  std::uint8_t traffic_class = 0;
  bool sent = false;
  ConstBytes octets{};  ///< valid during the call only
};
using PacketTap = std::function<void(const PacketTapRecord&)>;

class RoceHost : public Host {
 public:
  /// Errors: invalid_argument, no_space (no descriptors).
  static Result<std::unique_ptr<RoceHost>> open(const RoceHostOptions& options = {});
  /// `tap` is called with every packet; no cost if not set.
  virtual void set_tap(PacketTap tap) = 0;
  virtual RoceCounters counters() const = 0;
  /// Drops in the sockets and in the NIC above them: all known reasons, always in the same order.
  virtual std::vector<RoceDropped> dropped() const = 0;
  /// Messages of the connection manager: all known types, always in the same order.
  virtual std::vector<RoceMessages> messages() const = 0;
  /// REJs by reason, likewise.
  virtual std::vector<RoceRejects> rejects() const = 0;
};

}  // namespace parley
