// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The keeper's connections to its members, and its loop. It never waits for a member: what a member does not read is queued up to
// a bound, and then dropped or the member's connection closed.
#pragma once
#include <cstdint>
#include <deque>
#include <map>

#include "drivers/asio/descriptor.hpp"
#include "preload/keeper/ground.hpp"
#include "preload/port/keeper.hpp"

namespace parley::preload::port {

class Server {
 public:
  /// Owns `listener`, which listens.
  explicit Server(int listener);
  /// Runs until it has had no member for a while.
  void run();

 private:
  static constexpr std::size_t outputs_max = 64;  // for each connection
  struct Connection {
    int fd = -1;
    int process = -1;  // a pidfd; -1: not available. A fork of the member may hold the connection's other end
    std::deque<Output> outputs{};
  };

  bool accept_all();
  void receive(MemberId id);
  void drop(MemberId id);
  void carry_out();
  void flush(MemberId id);
  bool send(Connection& to, const Output& output);
  void watch(int fd, std::uint64_t data, std::uint32_t what) const;
  void wait();

  int accept();

  asio_driver::Descriptor listener_, epoll_;
  int spare_;  // to refuse connections with, at the limit of open files
  SocketGround ground_;
  Keeper keeper_;
  std::map<MemberId, Connection> connections_;
  MemberId last_ = 0;
};

}  // namespace parley::preload::port
