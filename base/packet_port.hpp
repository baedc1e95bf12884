// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The lower seam for RoCEv2: InfiniBand packets over UDP port 4791. A PacketMachine is protocol code (connection manager
// and queue pairs); a driver (UDP sockets, the simulator's IP, a test) owns the addresses, makes and checks the ICRC, which
// covers headers that only it knows, and moves the packets.
//
// Driver's loop: feed one handle_*; then drain poll_command() and poll_packet(); then arm next_deadline().
#pragma once
#include <cstdint>

#include "parley/address.hpp"
#include "parley/bytes.hpp"
#include "parley/result.hpp"
#include "parley/time.hpp"

namespace parley {

/// Names a use of an address; chosen by the machine, never reused. 0 is none.
using BindId = std::uint64_t;

/// How a packet goes, or came.
struct PacketPath {
  Address local, peer;             ///< their ports say nothing
  std::uint16_t source_port = 0;   ///< UDP, for packets that are sent; a driver may have to use another
  std::uint8_t traffic_class = 0;  ///< the low two bits are ECN
  std::uint8_t hop_limit = 64;     ///< of packets that are sent
  bool bad_icrc = false;           ///< of packets that are sent: a wrong ICRC is wanted, to see the peer drop it
  /// Not 0: packets with the same number have the same in all fields above but bad_icrc. Whoever gives packets numbers their ways.
  std::uint64_t way = 0;
};

struct PacketCommand {
  enum class Kind : std::uint8_t {
    bind,  ///< receive on `local`, or on the address that leads to `peer`; answered by handle_bound or handle_bind_failed
    release,  ///< `id` is done with its address, or with the wait for it
  };
  Kind kind = Kind::bind;
  BindId id = 0;
  Address local{};  ///< bind: where; any(): all addresses of the host if `peer` is any() too, else the one towards it
  Address peer{};   ///< bind: any() of its family: none
};

/// Packets one behind the other that go the same way and are equally long.
struct PacketRun {
  std::size_t size = 0;   ///< of each, from the BTH to its pad
  std::size_t count = 0;  ///< 0: there is none
  /// Not empty: only what stands before the payload has been written. An equal share of this comes behind it in each packet, in order.
  /// It is registered memory, and may be read until the machine gets its next call.
  ConstBytes payload{};
};

/// Where the payload of packets goes that stand behind one another.
struct PacketPlace {
  std::size_t count = 0;  ///< of so many packets, from the first on. 0: handle_packet() is for the first
  MutBytes memory{};      ///< an equal share for each payload, in order; it is in front of the ICRC
};

class PacketMachine {
 public:
  virtual ~PacketMachine() = default;

  /// `local` is the address, any() if it is all of them; its port says nothing.
  virtual void handle_bound(Instant now, BindId id, const Address& local) = 0;
  virtual void handle_bind_failed(Instant now, BindId id, const Error& why, const Address& local) = 0;
  /// `packet` is from the BTH to the ICRC, which was right.
  virtual void handle_packet(Instant now, const PacketPath& from, ConstBytes packet) = 0;
  /// The system says that nothing on `path` can be reached (an ICMP error, no route); advice, not proof.
  virtual void handle_unreachable(Instant now, const PacketPath& path, std::error_code why) = 0;
  virtual void handle_deadline(Instant now) = 0;
  /// handle_deadline() would do nothing, and poll_command() and poll_packets() give nothing, so that they need not be called: this
  /// tells the time as they do. Whoever has no quick answer says false.
  virtual bool is_quiet(Instant /*now*/) { return false; }

  virtual bool poll_command(PacketCommand& out) = 0;
  /// Writes the next packet, from the BTH to its pad and at most packet_max octets, into `out`, which has that room and four octets
  /// more for the driver's ICRC; returns its size, 0 when there is none.
  virtual std::size_t poll_packet(Instant now, PacketPath& to, MutBytes out) = 0;
  /// The next packets, at most `most`, each `run.size + 4` octets behind the one before it in `out`, which has room for `most` of the
  /// longest with four octets more for each. They are those that poll_packet() would give, one by one.
  virtual PacketRun poll_packets(Instant now, std::size_t most, PacketPath& to, MutBytes out) {
    const std::size_t size = most == 0 ? 0 : poll_packet(now, to, out);
    return {.size = size, .count = size == 0 ? std::size_t{0} : std::size_t{1}};
  }
  /// Where packets that stand behind one another, `size` octets from BTH to ICRC each, have their payload. Nobody has looked at their
  /// ICRC yet, and nothing changes. Who copies it there, of those alone whose ICRC is right, has each octet in the nearest cache.
  virtual PacketPlace place_of(const PacketPath& /*from*/, std::size_t /*size*/, ConstBytes /*packets*/) { return {}; }
  /// As handle_packet() for each of these, whose payload is in its place now: right after place_of(), the first of those that it counted.
  virtual void handle_placed(Instant /*now*/, const PacketPath& /*from*/, std::size_t /*size*/,
                             ConstBytes /*packets*/) {}
  virtual Instant next_deadline() const = 0;

  /// The largest MTU and all headers that can be before it.
  static constexpr std::size_t packet_max = 4096 + 64;
};

}  // namespace parley
