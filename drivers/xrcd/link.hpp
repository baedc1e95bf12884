// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A member's connection to its registry, and its implementation over a broker: xrc::Client with a socket, which it
// reopens, and a broker that it starts, as often as necessary. drivers/xrcshm has the other implementation.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <unordered_map>

#include "drivers/ready_set.hpp"
#include "drivers/xrcd/own_process.hpp"
#include "parley/xrc_domain.hpp"
#include "xrc/client.hpp"

namespace parley::xrc {

class Link {
 public:
  /// `file`: the domain's file, which is duplicated; -1: none. `member`: false for an administrator. Errors: those of
  /// the registry, bad_descriptor, and those of the form.
  static Result<std::shared_ptr<Link>> open(const DomainOptions& options, bool member, int file);
  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Errors: the reason of the refusal; not_member in another process than the one that opened it.
  virtual Result<Answer> call(const Request& request) = 0;
  virtual Result<std::optional<Event>> wait_event(Duration longest) = 0;
  /// Readable when wait_event() has work; the same descriptor for the life of this object. Errors: not_member,
  /// no_space.
  virtual Result<int> fd() = 0;
  virtual Result<Overview> overview() = 0;
  /// Like call() with these arguments, with a reduced answer: the name, and how many events were dropped.
  virtual Result<TgtId> enlist(TgtId id);
  virtual Result<std::uint64_t> unregister(TgtId id);
  virtual std::uint32_t epoch() const = 0;

  /// Like call() with these arguments.
  Result<Answer> create(const std::optional<Peer>& peer, bool reserve);
  Result<Answer> publish(TgtId id, std::uint32_t qpn);
  Result<bool> modify(TgtId id, State to, std::uint64_t digest);  ///< true: it was in that state already
  Result<TgtView> query(TgtId id);
  Result<void> report(TgtId id, EventKind kind, std::uint32_t reason);
  Result<void> note(RequestType what, std::uint32_t number);  ///< add_srq, remove_srq, note_other
  Result<void> close(bool force);

  /// Objects of this process that share one registration; let_go returns how many are left.
  void hold(TgtId id);
  std::size_t let_go(TgtId id);

 protected:
  Link() = default;

 private:
  using HoldCounts = std::unordered_map<std::uint64_t, std::size_t>;
  HoldCounts held_;              // by generation
  HoldCounts::node_type spare_;  // node of the last released one: the next one needs no memory
};

/// The view of a TGT queue pair in an answer.
TgtView view_of(const Answer& answer);

/// If `where` is set, it selects that form.
RegistryKind form_of(const DomainOptions& options);

class BrokerLink final : public Link {
 public:
  /// Errors: those of the broker, no_broker, timed_out.
  static Result<std::shared_ptr<Link>> open(const DomainOptions& options, bool member, int file);
  ~BrokerLink() override;

  Result<Answer> call(const Request& request) override;
  Result<std::optional<Event>> wait_event(Duration longest) override;
  Result<int> fd() override;
  Result<Overview> overview() override;
  std::uint32_t epoch() const override { return client_.epoch(); }

 private:
  BrokerLink(const DomainOptions& options, const ClientOptions& client);
  void turn(Instant until);
  void await(Instant until);
  void show();
  void connect(Instant now);
  void send();
  bool receive_one(int flags);
  void receive();
  void hang_up();
  std::optional<Answer> answer_to(std::uint64_t number);
  void start_broker() const;

  DomainOptions options_;
  Client client_;
  int file_ = -1, fd_ = -1;
  OwnProcess process_;
  bool blocked_ = false, connected_once_ = false;
  bool foreign_ = false;  // the listener there is neither root's nor the user's
  bool cut_off_ = false;  // and client_ must be notified
  std::array<std::uint8_t, message_max + 1> octets_{};
  std::size_t unread_ = 0;  // octets_ for which client_ had no memory yet
  std::optional<Client::Outgoing> unsent_{};
  Instant try_at_{}, started_at_{};
  std::unique_ptr<ReadySet> ready_;  // created on demand
  int shown_ = -1;                   // the socket that is in it
  bool shown_blocked_ = false;
};

}  // namespace parley::xrc
