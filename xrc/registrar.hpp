// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A member's interface to a registry, either in this program or in memory that processes share.
#pragma once
#include "xrc/registry.hpp"

namespace parley::xrc {

/// Errors: see registry.hpp.
class Registrar {
 public:
  virtual ~Registrar() = default;
  virtual Result<Created> reserve(std::optional<Peer> peer) = 0;
  virtual Result<TgtId> publish(TgtId id, std::uint32_t qpn) = 0;
  virtual Result<Registered> enlist(TgtId id) = 0;
  virtual Result<std::uint32_t> unregister(TgtId id) = 0;
  virtual Result<bool> modify(TgtId id, State to, std::uint64_t digest) = 0;
  virtual Result<TgtView> query(TgtId id) = 0;
  virtual Result<void> report(TgtId id, EventKind kind, std::uint32_t reason) = 0;
  virtual Result<void> add_srq(std::uint32_t srqn) = 0;
  virtual Result<void> remove_srq(std::uint32_t srqn) = 0;
  virtual std::optional<Event> poll_event() = 0;
};

/// For a registry in this program. Calls use `now` as their time. `registry` and `now` must outlive this object.
class LocalRegistrar final : public Registrar {
 public:
  LocalRegistrar(Registry& registry, MemberId member, const Instant& now)
      : registry_(registry), member_(member), now_(now) {}
  Result<Created> reserve(std::optional<Peer> peer) override {
    return registry_.create(now_, member_, {.peer = peer, .reserve = true});
  }
  Result<TgtId> publish(TgtId id, std::uint32_t qpn) override { return registry_.publish(now_, member_, id, qpn); }
  Result<Registered> enlist(TgtId id) override { return registry_.enlist(now_, member_, id); }
  Result<std::uint32_t> unregister(TgtId id) override { return registry_.unregister(now_, member_, id); }
  Result<bool> modify(TgtId id, State to, std::uint64_t digest) override {
    return registry_.modify(now_, member_, id, to, digest);
  }
  Result<TgtView> query(TgtId id) override { return registry_.query(now_, member_, id); }
  Result<void> report(TgtId id, EventKind kind, std::uint32_t reason) override {
    return registry_.report(now_, id, kind, reason);
  }
  Result<void> add_srq(std::uint32_t srqn) override { return registry_.add_srq(member_, srqn); }
  Result<void> remove_srq(std::uint32_t srqn) override { return registry_.remove_srq(member_, srqn); }
  std::optional<Event> poll_event() override { return registry_.poll_event(member_); }
  MemberId member() const { return member_; }

 private:
  Registry& registry_;
  MemberId member_;
  const Instant& now_;
};

}  // namespace parley::xrc
