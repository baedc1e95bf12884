// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Serves a simulated subnet to the programs on this machine, by ibsim's protocol. One thread, one epoll. No client can
// delay another: datagrams that a client does not read are queued; if its queue is full, they are dropped and counted.
#pragma once
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <memory>

#include "drivers/asio/descriptor.hpp"
#include "drivers/clock.hpp"
#include "drivers/ibsim/protocol.hpp"
#include "sim/subnet/subnet.hpp"
#include "tools/options.hpp"

namespace parley::tools {

struct ServerStatistics {
  std::uint64_t clients = 0, clients_most = 0;  ///< in total, at once
  std::uint64_t died = 0;                       ///< ended without disconnecting
  std::uint64_t refused = 0;                    ///< attempts to connect
  std::uint64_t received = 0, sent = 0;         ///< datagrams with MADs
  std::uint64_t dropped = 0;                    ///< for clients whose queue was full
  std::uint64_t unreadable = 0;                 ///< datagrams that do not follow the protocol
};

class FabricServer {
 public:
  static constexpr std::size_t queue_max = 16384;  ///< datagrams queued for one client

  /// Errors: environment (the name is taken, no sockets).
  static Or<std::unique_ptr<FabricServer>> open(sim::subnet::Subnet& subnet, const std::string& name, Output& out);
  ~FabricServer();

  /// One turn of the loop; waits at most `wait`.
  void turn(Duration wait);
  const ServerStatistics& statistics() const { return statistics_; }

 private:
  struct Client {
    Client(int data, int of_process) : socket(data), process(of_process) {}
    asio_driver::Descriptor socket, process;
    std::uint32_t id = 0;   ///< chosen by the client
    std::uint32_t pid = 0;  ///< 0: unknown
    std::string node;
    std::vector<ibsim::Data> waiting;  // at most queue_max
    std::size_t sent = 0;              // how many of them were sent
    unsigned alone = 0;                ///< turns left in which one datagram is read from it
    std::uint64_t dropped = 0;
    bool full = false;  ///< its socket is full: wait for EPOLLOUT
  };
  struct Sender {
    sockaddr_un address{};
    socklen_t length = 0;
    std::uint32_t pid = 0;
  };

  FabricServer(sim::subnet::Subnet& subnet, std::string name, Output& out, int epoll, int control);
  void read_control();
  void answer_control(ibsim::Control& control, const Sender& sender);
  bool connect(ibsim::Control& control, const Sender& sender);
  bool tell(ibsim::Control& control, sim::subnet::ClientId client, ibsim::ControlType type);
  bool receive(ibsim::Control& control, sim::subnet::ClientId client);
  bool command(ibsim::Control& control);
  void read_client(sim::subnet::ClientId id);
  int wait_for(Duration wait);
  void drain();
  void flush(sim::subnet::ClientId id);
  void end(sim::subnet::ClientId id, bool died);
  Client* find(std::size_t id) { return id < clients_.size() ? clients_[id].get() : nullptr; }
  static Instant now() { return clock_now(); }

  sim::subnet::Subnet& subnet_;
  const std::string name_;
  Output& out_;
  asio_driver::Descriptor epoll_, control_;
  std::vector<std::unique_ptr<Client>> clients_;  // by ClientId; null: none
  ibsim::Data buffer_{};                          // receive buffer
  std::array<epoll_event, 64> events_{};
  bool has_read_ = false;                            // a datagram was read from a client in the last turn
  unsigned looks_in_vain_ = 0, looks_left_out_ = 0;  // of wait_for()
  ServerStatistics statistics_;
};

}  // namespace parley::tools
