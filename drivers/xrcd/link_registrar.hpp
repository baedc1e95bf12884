// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The registry that processes share, as xrc::Attachment uses it: to register means to open a handle in the calling
// process (ibv_open_qp on a NIC of libibverbs), whichever process created the queue pair.
#pragma once
#include <memory>
#include <utility>

#include "drivers/xrcd/link.hpp"
#include "xrc/registrar.hpp"

namespace parley::xrc {

/// The registry does not assign numbers; devices do (RegistryOptions::assigns_numbers). A call waits for its answer;
/// the errors are those of Registry and of Link.
class LinkRegistrar final : public Registrar {
 public:
  explicit LinkRegistrar(std::shared_ptr<Link> link) : link_(std::move(link)) {}

  Result<Created> reserve(std::optional<Peer> peer) override {
    return link_->create(peer, true).map([](const Answer& a) {
      return Created{a.tgt, a.state, (a.flags & Answer::already) != 0};
    });
  }
  Result<TgtId> publish(TgtId id, std::uint32_t qpn) override {
    return link_->publish(id, qpn).map([](const Answer& a) { return a.tgt; });
  }
  Result<Registered> enlist(TgtId id) override {
    return link_->call({.ask = RequestType::enlist, .tgt = id}).map([](const Answer& a) {
      return Registered{a.tgt, a.state, (a.flags & Answer::already) != 0};
    });
  }
  Result<std::uint32_t> unregister(TgtId id) override {
    return link_->unregister(id).map([](std::uint64_t purged) { return static_cast<std::uint32_t>(purged); });
  }
  Result<bool> modify(TgtId id, State to, std::uint64_t digest) override { return link_->modify(id, to, digest); }
  /// Without the registrants: only administrators see who shares it.
  Result<TgtView> query(TgtId id) override { return link_->query(id); }
  Result<void> report(TgtId id, EventKind kind, std::uint32_t reason) override {
    return link_->report(id, kind, reason);
  }
  Result<void> add_srq(std::uint32_t srqn) override { return link_->note(RequestType::add_srq, srqn); }
  Result<void> remove_srq(std::uint32_t srqn) override { return link_->note(RequestType::remove_srq, srqn); }
  /// A pending event; a member that the registry has removed gets none.
  std::optional<Event> poll_event() override {
    auto event = link_->wait_event({});
    return event ? *event : std::nullopt;
  }

 private:
  std::shared_ptr<Link> link_;
};

}  // namespace parley::xrc
