// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// This process as one of those that share UDP port 4791 of its addresses (preload/port/messages.hpp): its sockets, the
// services that it claims, and its will. A thread reads the keeper's messages, and rejoins when the keeper has ended.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "drivers/asio/descriptor.hpp"
#include "drivers/asio/packet_socket.hpp"
#include "preload/port/channel.hpp"
#include "preload/port/wills.hpp"
#include "preload/ucma/services.hpp"

namespace parley::preload {

class PortMember final : public asio_driver::PacketSockets, public ucma::Services {
 public:
  /// Null: no keeper is available here, for a reason that PARLEY_VERBS_LOG shows; the process then has the port alone. Errors:
  /// address_in_use (by a process that does not share), no_space (254 processes share it already).
  static Result<std::unique_ptr<PortMember>> join(const std::vector<Address>& addresses);
  ~PortMember() override;

  /// 1 to 254: the top octet of the QPNs and communication IDs of this process.
  std::uint8_t prefix() const { return prefix_; }
  /// The top octet is the prefix; the others are new in each process.
  std::uint32_t first_qpn() const { return first_qpn_; }
  /// The sockets are another process's: it got the prefix while this one was stopped and the keeper was replaced.
  bool is_lost() const { return lost_; }
  Result<int> open(const Address& local) override;
  /// `undecided` until settle_claim() has returned in this thread. Does not wait.
  int claim(std::uint64_t service, const std::vector<std::uint8_t>& gids) override;
  /// Waits for the keeper's answer to this thread's claim, at most 3 s. Not under the engine's lock.
  void settle_claim();
  /// Takes back a claim of this thread whose result was not read.
  void drop_claim() noexcept;
  void release(std::uint64_t service, const std::vector<std::uint8_t>& gids) noexcept override;
  /// A MAD of QP1, for the will.
  void sent(const Gid& local, const Gid& remote, ConstBytes mad);
  void received(const Gid& local, const Gid& remote, ConstBytes mad);
  /// Gives the prefix back, once the program's own copies of the sockets are closed: the ports are free afterwards if
  /// no other process shares them. Waits at most 200 ms.
  void leave() noexcept;

  /// While a thread forks: no descriptor changes.
  void before_fork() { lock_.lock(); }
  /// In the child: closes its copies, so that the keeper sees the end of the parent.
  void after_fork(bool in_child) noexcept;

 private:
  struct Asked {
    std::uint64_t service = 0;
    port::Positions positions{};
    std::uint32_t request = 0, keeper = 0;  // the last one, and of which of keepers_
    std::optional<int> result{};
  };

  explicit PortMember(const std::vector<Address>& addresses);
  Result<bool> enter(int fd, std::string& impossible);
  bool rejoin(int fd);
  bool offer(int fd);
  void run();
  bool serve();
  bool recover();
  void give_up_descriptors();
  void lose();
  void keep(const port::Sockets& at, std::vector<int>& files);
  void give_up(int fd);
  void close_sockets() noexcept;
  void close_all() noexcept;
  void write_will();
  bool has_all() const;
  void ask(Asked& asked);
  void send_release(std::uint64_t service, const port::Positions& positions);
  void answered(const port::Answer& answer);

  std::vector<Address> addresses_;
  std::uint8_t prefix_ = 0;
  std::uint32_t first_qpn_ = 0;
  int will_ = -1;
  MutBytes will_memory_{};  // of will_, which the program may close: its number may then be another file's
  port::WillBook book_;     // under the engine's lock
  asio_driver::Descriptor stop_;

  std::mutex lock_;  // guards what follows
  std::condition_variable news_;
  int keeper_ = -1;                        // -1: there is none now
  std::vector<std::vector<int>> sockets_;  // by position of the address and index in the group; -1: not had
  std::multimap<std::uint64_t, port::Positions> claims_;
  std::map<std::thread::id, Asked> asked_;  // claims that are not decided, or whose result is not read
  std::uint32_t last_request_ = 0, keepers_ = 0;
  bool left_ = false, leaving_ = false, closed_ = false;
  std::atomic<bool> lost_{false};
  std::thread thread_;
};

}  // namespace parley::preload
