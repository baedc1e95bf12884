// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Peers that behave badly on purpose: plain sockets, non-blocking, on the thread that calls turn(). Each ends when the
// other side has closed or reset it, or ends itself; nobody forgets one.
#pragma once
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <map>

#include "base/rng.hpp"
#include "parley/address.hpp"

namespace parley::stress {

/// What a peer that listens does with each connection, once the first octets have come.
enum class Server : std::uint8_t {
  stalls,   ///< says nothing at all
  resets,   ///< RST
  garbage,  ///< random octets where the Reply is due
  floods,   ///< a Reply, and after the initiator's first FPDU 64 KiB of random octets
};
inline constexpr std::size_t server_count = 4;

/// What a peer that connects does.
enum class Client : std::uint8_t {
  silent,         ///< says nothing
  garbage,        ///< random octets where the Request is due
  half,           ///< half a Request, and then RST
  vanishes,       ///< a Request, and RST as soon as it is answered
  stays_silent,   ///< a Request, and after its Reply not a word
  closes_at_once  ///< FIN right behind the SYN
};
inline constexpr std::size_t client_count = 6;

class RawPeers {
 public:
  /// Throws std::system_error where the system does not give what is needed.
  explicit RawPeers(std::uint64_t seed);
  ~RawPeers();
  RawPeers(const RawPeers&) = delete;
  RawPeers& operator=(const RawPeers&) = delete;

  /// Where it listens, on every address of 127/8.
  std::uint16_t port(Server server) const { return ports_[static_cast<std::size_t>(server)]; }
  /// Where nobody listens, and nobody else can begin to.
  std::uint16_t nobody() const { return nobody_port_; }
  void connect(Client client, const Address& to);
  void turn();
  /// Connections that are not over.
  std::size_t open() const { return peers_.size(); }

 private:
  struct Peer {
    bool listens = false;
    Server server{};
    Client client{};
    unsigned heard = 0;  // how often
  };
  void accept_all(std::size_t server);
  void read(int fd, Peer& peer);
  void answer(int fd, const Peer& peer);
  void send_garbage(int fd, std::size_t octets);
  void send_request(int fd, std::size_t octets);
  void end(int fd, bool reset);

  Rng rng_;
  int epoll_ = -1, nobody_ = -1;
  std::uint16_t nobody_port_ = 0;
  std::array<int, server_count> listeners_{};
  std::array<std::uint16_t, server_count> ports_{};
  std::map<int, Peer> peers_;  // by descriptor
};

}  // namespace parley::stress
