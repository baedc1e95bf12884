// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "xrc/attachment.hpp"

namespace parley::xrc {
namespace {

/// Creating: the state cannot be requested.
State state_of(std::optional<QpState> state) {
  if (!state) return State::creating;
  switch (*state) {
    case QpState::reset: return State::reset;
    case QpState::init: return State::init;
    case QpState::rtr: return State::rtr;
    case QpState::rts: return State::rts;
    case QpState::err: return State::error;
    default: return State::creating;
  }
}

}  // namespace

Result<Created> Attachment::create(std::optional<Peer> peer) {
  const auto reserved = registrar_.reserve(peer);
  if (!reserved) return tl::unexpected(reserved.error());
  if (!reserved->existing) return make(*reserved);
  if (auto opened = device_.open_tgt(reserved->id.qpn); !opened) {
    (void)registrar_.unregister(reserved->id);
    return tl::unexpected(opened.error());
  }
  names_[reserved->id.qpn] = reserved->id;
  return *reserved;
}

Result<Created> Attachment::make(const Created& reserved) {
  const auto published = publish(reserved.id, device_.create_tgt());
  if (!published) return tl::unexpected(published.error());
  return Created{*published, State::reset, false};
}

Result<TgtId> Attachment::publish(TgtId reserved, const Result<std::uint32_t>& qpn) {
  const auto published = qpn ? registrar_.publish(reserved, *qpn) : Result<TgtId>(tl::unexpected(qpn.error()));
  if (!published) {
    if (qpn) device_.close_tgt(*qpn);
    (void)registrar_.unregister(reserved);
    return published;
  }
  names_[*qpn] = *published;
  creator_.insert(*qpn);
  return published;
}

Result<TgtId> Attachment::adopt(std::uint32_t qpn, std::optional<Peer> peer) {
  const auto reserved = registrar_.reserve(peer);
  if (!reserved) return tl::unexpected(reserved.error());
  if (reserved->existing) {
    if (!names_.contains(reserved->id.qpn)) (void)registrar_.unregister(reserved->id);
    return tl::unexpected(Error(Refusal::conflict));
  }
  return publish(reserved->id, device_.open_tgt(qpn).map([qpn] { return qpn; }));
}

Result<Registered> Attachment::attach(TgtId id) {
  const auto joined = registrar_.enlist(id);
  if (!joined) return joined;
  if (auto opened = device_.open_tgt(joined->id.qpn); !opened) {
    if (!joined->already) (void)registrar_.unregister(joined->id);
    return tl::unexpected(opened.error());
  }
  names_[joined->id.qpn] = joined->id;
  return joined;
}

// Closes the handle first, so that no handle is open when the registry ends the queue pair.
Result<std::uint32_t> Attachment::release(TgtId id) {
  ended(id);
  return registrar_.unregister(id);
}

void Attachment::ended(TgtId id) {
  const auto name = names_.find(id.qpn);
  if (name == names_.end() || name->second != id) return;
  names_.erase(name);
  creator_.erase(id.qpn);
  device_.close_tgt(id.qpn);
}

// If two processes move the same queue pair at once, the NIC accepts only one. The other call also succeeds if it asked
// for the same attributes.
Result<bool> Attachment::modify(TgtId id, const QpAttr& attr) {
  const State to = state_of(attr.state);
  QueuePair* qp = device_.tgt(id.qpn);
  if (qp == nullptr) return tl::unexpected(Error(Refusal::not_registered));
  if (to == State::creating) return tl::unexpected(Error(Refusal::invalid));
  if (const auto moved = qp->modify(attr); !moved) {
    const auto known = registrar_.query(id);
    if (!known) return tl::unexpected(known.error());
    if (known->state < to || known->state > State::rts) return tl::unexpected(moved.error());
  }
  return registrar_.modify(id, to, digest_of(attr));
}

Result<SharedReceiveQueue*> Attachment::create_srq(PdHandle pd, std::size_t capacity, CompletionQueue& cq) {
  auto srq = device_.create_srq(pd, capacity, cq);
  if (!srq) return srq;
  const std::uint32_t srqn = (*srq)->srq_num().value_or(0);
  if (auto added = registrar_.add_srq(srqn); !added) {
    device_.destroy_srq(srqn);
    return tl::unexpected(added.error());
  }
  return srq;
}

Result<void> Attachment::destroy_srq(std::uint32_t srqn) {
  device_.destroy_srq(srqn);
  return registrar_.remove_srq(srqn);
}

bool Attachment::handle(const AsyncEvent& event) {
  const auto news = device_.read(event);
  if (!news) return false;
  const auto name = names_.find(news->qpn);
  const bool each = news->kind == EventKind::fatal;  // each process reports it; only the first report has an effect
  if (name != names_.end() && news->kind != EventKind::none && (each || creator_.contains(news->qpn)))
    (void)registrar_.report(name->second, news->kind, 0);
  return true;
}

}  // namespace parley::xrc
