// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The lower interface for RoCEv2: InfiniBand packets over UDP port 4791. A PacketMachine is protocol code (connection
// manager and queue pairs). A driver (UDP sockets, the simulator's IP, a test) owns the addresses, moves the packets,
// and computes and checks the ICRC, which covers headers that only the driver knows.
//
// Driver's loop: call one handle_*; then drain poll_command() and poll_packet(); then arm next_deadline().
#pragma once
#include <cstdint>

#include "parley/address.hpp"
#include "parley/bytes.hpp"
#include "parley/result.hpp"
#include "parley/time.hpp"

namespace parley {

/// Identifies a use of an address; chosen by the machine, never reused. 0: none.
using BindId = std::uint64_t;

/// The path of a packet, sent or received.
struct PacketPath {
  Address local, peer;             ///< their ports are not used
  std::uint16_t source_port = 0;   ///< UDP, for sent packets; a driver may have to use another one
  std::uint8_t traffic_class = 0;  ///< the low two bits are ECN
  std::uint8_t hop_limit = 64;     ///< for sent packets
  bool bad_icrc = false;           ///< for sent packets: send a wrong ICRC, to see the peer drop it
  /// Not 0: packets with the same number have the same values in all fields above except bad_icrc. Set by the sender.
  std::uint64_t way = 0;
};

struct PacketCommand {
  enum class Kind : std::uint8_t {
    /// Receive on `local`, or on the address that leads to `peer`. Answered by handle_bound or handle_bind_failed.
    bind,
    release,  ///< `id` no longer needs its address, or no longer waits for it
  };
  Kind kind = Kind::bind;
  BindId id = 0;
  /// bind: the local address. any(): all addresses of the host if `peer` is any() too, else the one towards `peer`.
  Address local{};
  Address peer{};  ///< bind: any() of its family: none
};

/// Consecutive packets with the same path and the same length.
struct PacketRun {
  std::size_t size = 0;   ///< octets of each, from the BTH to its pad
  std::size_t count = 0;  ///< 0: no packet
  /// Not empty: only the headers have been written. Each packet's payload is an equal share of this, in order. It is
  /// registered memory, and readable until the machine's next call.
  ConstBytes payload{};
};

/// The destination of the payload of consecutive packets.
struct PacketPlacement {
  std::size_t count = 0;  ///< for this many packets, from the first on. 0: use handle_packet() for the first
  MutBytes memory{};      ///< an equal share for each payload (the octets before the ICRC), in order
};

class PacketMachine {
 public:
  virtual ~PacketMachine() = default;

  /// `local` is the address, or any() for all of them; its port is not used.
  virtual void handle_bound(Instant now, BindId id, const Address& local) = 0;
  virtual void handle_bind_failed(Instant now, BindId id, const Error& why, const Address& local) = 0;
  /// `packet` is from the BTH to the ICRC, which is correct.
  virtual void handle_packet(Instant now, const PacketPath& from, ConstBytes packet) = 0;
  /// The system reports that `path` is unreachable (an ICMP error, no route); a hint, not proof.
  virtual void handle_unreachable(Instant now, const PacketPath& path, std::error_code why) = 0;
  virtual void handle_deadline(Instant now) = 0;
  /// True if handle_deadline() would do nothing, and poll_command() and poll_packets() would return nothing, so that
  /// the driver need not call them. Like these calls, it sets the machine's time. A machine without a quick answer
  /// returns false.
  virtual bool is_quiet(Instant /*now*/) { return false; }

  virtual bool poll_command(PacketCommand& out) = 0;
  /// Writes the next packet, from the BTH to its pad and at most packet_max octets, into `out`, which has room for that
  /// plus four octets for the driver's ICRC. Returns its size; 0: none.
  virtual std::size_t poll_packet(Instant now, PacketPath& to, MutBytes out) = 0;
  /// The next packets, at most `most`, at intervals of `run.size + 4` octets in `out`, which has room for `most`
  /// packets of the largest size plus four octets each. They are the packets that poll_packet() would return one by
  /// one.
  virtual PacketRun poll_packets(Instant now, std::size_t most, PacketPath& to, MutBytes out) {
    const std::size_t size = most == 0 ? 0 : poll_packet(now, to, out);
    return {.size = size, .count = size == 0 ? std::size_t{0} : std::size_t{1}};
  }
  /// Where to put the payload of consecutive packets, `size` octets from BTH to ICRC each. Their ICRC has not been
  /// checked, and the call changes nothing. A driver that copies the payload there, only for packets with a correct
  /// ICRC, then has it in the cache.
  virtual PacketPlacement place_of(const PacketPath& /*from*/, std::size_t /*size*/, ConstBytes /*packets*/) {
    return {};
  }
  /// Like handle_packet() for each of these packets, whose payload is already in place. Call it right after place_of(),
  /// with the first packets of its count.
  virtual void handle_placed(Instant /*now*/, const PacketPath& /*from*/, std::size_t /*size*/,
                             ConstBytes /*packets*/) {}
  virtual Instant next_deadline() const = 0;

  /// The largest MTU plus all possible headers.
  static constexpr std::size_t packet_max = 4096 + 64;
};

}  // namespace parley
