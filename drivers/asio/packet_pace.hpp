// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The room in the receive buffers of RoCEv2 sockets of this host, including those of other processes. The system reports it
// through sock_diag(7), which needs no rights. A packet that does not fit into a full buffer is dropped silently. Peers on
// other hosts, and in other network namespaces, have no such socket here: packets to them are never held.
#pragma once
#include <netinet/in.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "base/packet_pace.hpp"
#include "drivers/asio/descriptor.hpp"
#include "parley/bytes.hpp"

namespace parley::asio_driver {

/// A receive buffer, in octets of the system's memory; a packet takes more than its own.
struct SocketRoom {
  std::size_t size = 0, used = 0;
};

class SocketPace final : public PacketPace {
 public:
  static constexpr std::size_t peers_max = 1024;  // remembered
  /// How often a full receiver is asked again.
  static constexpr Duration interval = std::chrono::microseconds(50);
  /// A receiver that takes nothing for so long does not stop its senders any more, until it has room again.
  static constexpr Duration patience = std::chrono::seconds(1);

  /// Null: the system does not report the buffers of the protocol's sockets, because sock_diag(7) or its module for the
  /// protocol (udp_diag) is missing. Each later question would look for the module again.
  static std::unique_ptr<SocketPace> open(int protocol = IPPROTO_UDP);

  Instant may_send(Instant now, const Gid& peer) override;
  void sent(const Gid& peer, std::size_t count, std::size_t size) noexcept override;

  /// For the socket that receives at the address, on UDP port 4791; if several share it, the fullest. None: no socket here is bound to
  /// this address alone.
  std::optional<SocketRoom> room_at(const Gid& address);

 private:
  struct Peer {
    std::ptrdiff_t credit = 0;  // may still be sent, by cost_of()
    Instant ask_at = Instant::min();
    std::optional<Instant> full_since{};
    std::size_t used = 0;                 // when it was asked last
    std::optional<std::uint64_t> only{};  // its socket, by the system's number, if no other shares the address
  };
  struct Sockets {
    std::optional<SocketRoom> fullest{};
    std::size_t count = 0;
    std::uint64_t last = 0;  // its number
  };
  SocketPace(int fd, int protocol) : socket_(fd), protocol_(protocol) {}
  bool answers() const;
  std::optional<SocketRoom> room_of(const Gid& address, Peer& at) const;
  Sockets ask(const Gid& address, std::uint16_t port, std::optional<std::uint64_t> only) const;
  static bool read_answer(ConstBytes octets, const Gid& address, Sockets& found, std::size_t& at);
  static std::ptrdiff_t cost_of(std::size_t count, std::size_t size);

  Descriptor socket_;
  int protocol_;
  std::map<Gid, Peer> peers_;
};

}  // namespace parley::asio_driver
