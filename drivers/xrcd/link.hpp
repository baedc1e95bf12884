// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A member's connection to its broker: xrc::Client with a socket, which it opens again, and a broker started, as often as need be.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <optional>

#include "drivers/ready_set.hpp"
#include "parley/xrc_domain.hpp"
#include "xrc/client.hpp"

namespace parley::xrc {

class Link {
 public:
  /// `file`: of the domain, which is duplicated; -1: none. Errors: those of the broker, bad_descriptor, no_broker, timed_out.
  static Result<std::shared_ptr<Link>> open(const DomainOptions& options, bool member, int file);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Errors: what it was refused for; not_member in another process than the one that opened it.
  Result<Answer> call(const Request& request);
  Result<std::optional<Event>> wait_event(Duration longest);
  /// Readable when wait_event() has something to do; it stays the same over all sockets. Errors: not_member, no_space.
  Result<int> fd();
  bool is_own() const;
  /// Objects of this process that stand for one registration; how many are left.
  void hold(TgtId id) { ++held_[id.generation]; }
  std::size_t let_go(TgtId id);
  std::optional<Item> poll_item() { return client_.poll_item(); }
  std::uint32_t epoch() const { return client_.epoch(); }

 private:
  Link(const DomainOptions& options, const ClientOptions& client);
  void turn(Instant until);
  void show();
  void connect(Instant now);
  void send();
  void receive();
  void hang_up();
  std::optional<Answer> answer_to(std::uint64_t number);
  void start_broker() const;

  DomainOptions options_;
  Client client_;
  int file_ = -1, fd_ = -1;
  int owner_;  // pid
  bool blocked_ = false, connected_once_ = false;
  bool cut_off_ = false;  // and client_ is to be told
  std::array<std::uint8_t, message_max + 1> octets_{};
  std::size_t unread_ = 0;  // octets_ that client_ had no memory for yet
  std::optional<Client::Outgoing> unsent_{};
  std::map<std::uint64_t, std::size_t> held_;  // by generation
  Instant try_at_{}, started_at_{};
  std::unique_ptr<ReadySet> ready_;  // if somebody has asked for it
  int shown_ = -1;                   // of the sockets: the one that is in it
  bool shown_blocked_ = false;
};

}  // namespace parley::xrc
