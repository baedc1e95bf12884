// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// XRC's broker on a Unix seqpacket socket: xrc::Server with sockets, and detection of dead processes.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "drivers/xrcd/place.hpp"
#include "xrc/server.hpp"

namespace parley::xrc {

struct BrokerOptions {
  std::string socket{};        ///< path; empty: default_socket()
  int listening = -1;          ///< an already listening socket, from systemd; then `socket` is its path
  RegistryOptions registry{};  ///< the broker sets the epoch and the first number itself
  ServerOptions server{};
  Duration idle{};  ///< the broker ends after this time without connections; 0: never
};

class Broker {
 public:
  /// Errors: busy (another broker has the socket), invalid, socket_foreign, lock_foreign, lock_unwritable, the
  /// system's.
  static Result<std::unique_ptr<Broker>> open(const BrokerOptions& options);
  ~Broker();

  /// Waits for at most `longest`, and does the pending work. False: idle for long enough.
  bool run_once(Duration longest);
  const std::string& socket() const { return options_.socket; }
  const Server& server() const { return server_; }
  std::uint32_t epoch() const { return tenure_.epoch(); }

 private:
  struct Connection {
    int fd = -1, process = -1;    // process: a pidfd, if the system supports it
    std::vector<Bytes> unsent{};  // messages_at_once
    std::uint32_t watched = 0;
    bool ended = false, more = false;  // more: it still has something to send
    bool talks = false;                // it had several messages last time
    unsigned turns = 0;
  };

  Broker(const BrokerOptions& options, BrokerLock tenure, Registry registry, int epoll, int listener);
  void accept_all();
  void admit(int fd);
  void read(ConnectionNumber number, bool to_the_end);
  std::size_t read_some(ConnectionNumber number, Connection& connection, std::size_t most);
  void send(ConnectionNumber number);
  void watch(ConnectionNumber number, Connection& connection);
  void drop(ConnectionNumber number);
  void settle();

  BrokerOptions options_;
  BrokerLock tenure_;
  Server server_;
  int epoll_, listener_;
  std::map<ConnectionNumber, Connection> connections_;  // ServerOptions::connections_max
  ConnectionNumber last_ = 0;
  Instant quiet_since_;
};

}  // namespace parley::xrc
