// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A domain whose TGT queue pairs are identified by name and not held by objects: a registration lasts until it is ended
// by name, or with the membership. For the C library; docs/xrc.md lists the refusals of each call.
#pragma once
#include "drivers/xrcd/link.hpp"

namespace parley::xrc {

struct Joined {
  TgtView tgt{};
  bool already = false;  ///< it existed already, or the caller was already registered
};

class Membership {
 public:
  /// Like Domain::open().
  static Result<Membership> open(int fd, const DomainOptions& options);

  Result<Joined> create(const std::optional<Peer>& peer, bool reserve);
  Result<Joined> publish(TgtId id, std::uint32_t qpn);
  Result<Joined> enlist(TgtId id);
  /// The errors of Link.
  Result<std::uint64_t> unregister(TgtId id) { return link_->unregister(id); }
  Result<bool> modify(TgtId id, State to, std::uint64_t digest) { return link_->modify(id, to, digest); }
  Result<TgtView> query(TgtId id) { return link_->query(id); }
  Result<void> report(TgtId id, EventKind kind, std::uint32_t reason) { return link_->report(id, kind, reason); }
  Result<void> note(RequestType what, std::uint32_t number) { return link_->note(what, number); }
  Result<std::optional<Event>> poll_event() { return link_->wait_event({}); }
  Result<int> fd() { return link_->fd(); }
  Result<void> close(bool force) { return link_->close(force); }

 private:
  explicit Membership(std::shared_ptr<Link> link) : link_(std::move(link)) {}
  std::shared_ptr<Link> link_;
};

}  // namespace parley::xrc
