// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The groups of sockets that the keeper opens and shares. It reads socket 0 of each group, those that no member has, and,
// until its connections are disconnected, that of a member that has ended; never a member's.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "parley/roce_host.hpp"
#include "preload/port/keeper.hpp"
#include "preload/port/wills.hpp"

namespace parley::preload::port {

class SocketGround final : public Ground {
 public:
  explicit SocketGround(int epoll) : epoll_(epoll) {}
  ~SocketGround() override;

  // Ground
  int extend(const Address& address, std::size_t size) override;
  bool adopt(const Address& address, std::size_t index, int file) override;
  void close(const Address& address) override;
  void give(const Address& address, std::size_t index, bool fresh) override;
  void take_back(const Address& address, std::size_t index) override;
  void steer(const Address& address, const std::vector<Instruction>& program) override;
  void keep_will(MemberId member, int file) override;
  void drop_will(MemberId member) override;
  bool mourn(Instant now, MemberId member, const std::vector<Address>& addresses, std::uint8_t prefix) override;

  /// A socket of a group, which stays the group's; -1: there is none.
  int socket(const Address& group, std::size_t index) const;
  /// False: `fd` is none of the sockets. Reads and answers what waits in it.
  bool serve(int fd);
  void handle_deadline(Instant now) { partings_.handle_deadline(now); }
  Instant next_deadline() const { return partings_.next_deadline(); }
  /// Sends what the partings say.
  void send_partings();
  struct Mourned {
    std::vector<Address> addresses{};
    std::uint8_t prefix = 0;
  };
  std::optional<Mourned> poll_mourned();

 private:
  enum class Reader : std::uint8_t {
    nobody,   // a member reads it, or may
    answers,  // socket 0, and those that no member has
    mourns,
  };
  struct Socket {
    int fd = -1;
    Reader reader = Reader::nobody;
    std::uint64_t mourning = 0;
  };
  using Group = std::vector<Socket>;

  void read_by(Socket& socket, Reader reader);
  bool take(const Address& address, const Socket& socket);
  void send(const Address& address, const Socket& socket, const Gid& peer, ConstBytes mad);

  int epoll_;
  std::map<Address, Group> groups_;
  std::map<int, std::pair<Address, std::size_t>> by_fd_;
  std::map<MemberId, int> wills_;
  std::map<std::uint64_t, Mourned> mourned_;
  std::uint64_t last_mourning_ = 0;
  Partings partings_;
};

}  // namespace parley::preload::port
