// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a node receives. A message is refused before anything follows from it: its form, the key, who sent it, its epoch and
// ticket, in this order; each refusal has a counter.
#include "base/after.hpp"
#include "ssa/node/node.hpp"

namespace parley::ssa {

using wire::mad::Method;
using wire::mad::SsaChildLost;
using wire::mad::SsaEndpoint;
using wire::mad::SsaHello;
using wire::mad::SsaHookup;
using wire::mad::SsaLeave;
using wire::mad::SsaParent;

namespace {

constexpr std::uint32_t not_ready_wait_ms = 500;

Duration milliseconds(std::uint32_t ms) { return std::chrono::milliseconds(ms); }

}  // namespace

void Node::handle_message(Instant now, const mad::Address& from, ConstBytes octets) {
  if (!running_) {
    ++counters_.unexpected;
    return;
  }
  const auto message = parse_message(octets);
  if (!message) {
    ++counters_.malformed;
    return;
  }
  if (key_of(*message) != options_.key) {
    ++counters_.wrong_key;
    return;
  }
  const Received r{now, from, *message, octets};
  std::visit([&](const auto& body) { take(r, body); }, message->body);
}

/// Whether the message is the present master's, and not an older one. A greater incarnation is a new master's.
bool Node::take_master(const Received& r, Epoch epoch) {
  if (!mad::same_port(r.from, master_)) {
    ++counters_.wrong_master;
    return false;
  }
  const bool older = epoch.incarnation == master_epoch_.incarnation ? epoch.counter < master_epoch_.counter
                                                                    : epoch.incarnation < master_epoch_.incarnation;
  if (!epoch.is_valid() || older) {
    ++counters_.replayed;
    return false;
  }
  const bool is_new = epoch.incarnation > master_epoch_.incarnation;
  master_epoch_ = epoch;
  if (is_new) {
    ticket_ = 0;
    announce();
  }
  return true;
}

void Node::take(const Received& r, const SsaHello& body) {
  if (!r.message.is_answer || hello_.transaction == 0 || r.message.transaction_id != hello_.transaction) {
    ++counters_.unexpected;
    return;
  }
  if (r.message.status != 0) {  // the next hello is planned already
    counters_.refused += 1;
    return;
  }
  if (!take_master(r, epoch_of(body.get(SsaHello::epoch)))) return;
  ticket_ = std::max(ticket_, body.get(SsaHello::ticket));
  const Duration wait = milliseconds(body.get(SsaHello::wait));
  handover_ = false;
  hello_ = {0, 0, after(r.now, wait * 3 / 2 + within(rng_, wait))};
  if (!parent_.exists())
    greeted_ = true;
  else
    plan_hello(r.now);
}

void Node::take(const Received& r, const SsaParent& body) {
  if (r.message.is_answer || options_.is_root) {
    ++counters_.unexpected;
    return;
  }
  const bool assigns = r.message.method == Method::set;
  if (assigns && body.get(SsaParent::port_gid) != options_.gid) {
    ++counters_.wrong_node;
    return;
  }
  if (!take_master(r, epoch_of(body.get(SsaParent::epoch)))) return;
  AnswerStatus status = AnswerStatus::ok;
  if (assigns && body.get(SsaParent::ticket) < ticket_) {
    ++counters_.replayed;
    return;
  }
  if (assigns && body.get(SsaParent::ticket) > ticket_) status = take_assignment(r, body);
  answer(transmits_, r, parents().octets(), status);
}

AnswerStatus Node::take_assignment(const Received& r, const SsaParent& body) {
  const SsaEndpoint parent = body.get(SsaParent::parent), backup = body.get(SsaParent::backup);
  if (parent.get(SsaEndpoint::gid) == options_.gid || backup.get(SsaEndpoint::gid) == options_.gid ||
      children_.has(parent.get(SsaEndpoint::gid))) {
    ++counters_.wrong_parent;
    return AnswerStatus::denied;
  }
  ticket_ = body.get(SsaParent::ticket);
  level_ = body.get(SsaParent::level);
  hello_ = {};
  greeted_ = handover_ = false;
  bad_parent_ = {};
  assign(r.now, parent, backup);
  plan_hello(r.now);
  return AnswerStatus::ok;
}

/// The uplink that a message of a parent is from. Null: from another node.
Uplink* Node::uplink_of(const Received& r, const SsaHookup& body) {
  const Gid gid = body.get(SsaHookup::endpoint).get(SsaEndpoint::gid);
  for (Uplink* uplink : {&parent_, &backup_})
    if (uplink->exists() && uplink->gid() == gid && mad::same_port(r.from, address_of(uplink->endpoint())))
      return uplink;
  ++counters_.wrong_parent;
  return nullptr;
}

void Node::take(const Received& r, const SsaHookup& body) {
  if (r.message.method == Method::send) return take_push(r, body);
  if (!r.message.is_answer) return take_child(r, body);
  if (r.message.method == Method::get_resp) return take_hookup_answer(r, body);
  // DeleteResp: the release was sent without waiting for it.
}

void Node::take_hookup_answer(const Received& r, const SsaHookup& body) {
  const std::uint32_t id = r.message.transaction_id;
  Uplink* uplink = parent_.transaction_id() == id ? &parent_ : backup_.transaction_id() == id ? &backup_ : nullptr;
  if (id == 0 || uplink == nullptr) {
    ++counters_.unexpected;
    return;
  }
  // A refusal has what the request had: this node's own endpoint. Only its address shows who refuses.
  const bool refusal = r.message.status != 0;
  if (refusal ? !mad::same_port(r.from, address_of(uplink->endpoint())) : uplink_of(r, body) != uplink) {
    counters_.wrong_parent += refusal ? 1 : 0;
    return;
  }
  counters_.refused += refusal ? 1 : 0;
  const Gid gid = uplink->gid();
  const Duration heartbeat = milliseconds(body.get(SsaHookup::heartbeat));
  const auto step = uplink->handle_answer(r.now, static_cast<AnswerStatus>(r.message.status), heartbeat, rng_);
  if (step == Uplink::Step::lost) return lose(r.now, *uplink, gid);
  if (step == Uplink::Step::connected) connected(r.now, *uplink);
  if (refusal) return;
  // Not only newer ones: the parent may have started again, or have named a version that does not exist.
  uplink->epoch = epoch_of(body.get(SsaHookup::epoch));
  take_epoch(r.now, uplink->epoch);
}

void Node::take_push(const Received& r, const SsaHookup& body) {
  Uplink* uplink = uplink_of(r, body);
  if (uplink == nullptr) return;
  const Epoch epoch = epoch_of(body.get(SsaHookup::epoch));
  const EpochOrder order = compare(epoch, uplink->epoch);
  if (!epoch.is_valid() || order == EpochOrder::older || order == EpochOrder::same ||
      epoch.incarnation < uplink->epoch.incarnation) {
    ++counters_.replayed;
    return;
  }
  uplink->epoch = epoch;
  take_epoch(r.now, epoch);
}

/// A parent has this version. Only the master can make its own incarnation the present one; until it has, a parent's
/// greater one makes the node greet the master, and nothing is pulled.
void Node::take_epoch(Instant now, Epoch epoch) {
  if (epoch.incarnation > master_epoch_.incarnation && epoch.incarnation != hinted_incarnation_) {
    hinted_incarnation_ = epoch.incarnation;
    greet_successor(now);
  }
  announce();
}

void Node::announce() {
  const Epoch epoch = parent_.epoch;
  if (!parent_.is_up() || epoch.incarnation > master_epoch_.incarnation || epoch.number() <= announced_.number())
    return;
  announced_ = epoch;
  notify(NodeEvent::Kind::new_epoch, parent_.gid(), parent_.endpoint(), epoch);
}

void Node::take_child(const Received& r, const SsaHookup& body) {
  const Gid child = body.get(SsaHookup::endpoint).get(SsaEndpoint::gid);
  if (children_.is_elsewhere(child, r.from)) {
    ++counters_.wrong_child;
    return;
  }
  AnswerStatus status = AnswerStatus::ok;
  if (r.message.method == Method::set) {
    status = hook_child(r, body);
  } else if (r.message.method == Method::get) {
    if (!children_.refresh(r.now, child)) status = AnswerStatus::unknown_node;
  } else if (children_.remove(child)) {
    notify(NodeEvent::Kind::child_left, child);
  }
  counters_.children_refused += status != AnswerStatus::ok ? 1 : 0;
  const bool waits = status == AnswerStatus::not_ready;
  answer(transmits_, r,
         SsaHookup{}
             .set(SsaHookup::ssa_key, options_.key)
             .set(SsaHookup::epoch, wire_of(epoch_for(body)))
             .set(SsaHookup::endpoint, options_.endpoint)
             .set(SsaHookup::is_backup, body.get(SsaHookup::is_backup))
             .set(SsaHookup::heartbeat, waits ? not_ready_wait_ms : whole_milliseconds(options_.timers.heartbeat))
             .octets(),
         status);
}

/// The version in the answer to a child. A node that is not current has none to a child that has the same: it cannot say
/// that this is the newest. Other children get it all the same.
Epoch Node::epoch_for(const SsaHookup& child) const {
  return is_current() || epoch_of(child.get(SsaHookup::epoch)) != database_ ? database_ : Epoch{};
}

AnswerStatus Node::hook_child(const Received& r, const SsaHookup& body) {
  constexpr unsigned takes_children =
      wire::mad::ssa_roles::core | wire::mad::ssa_roles::distribution | wire::mad::ssa_roles::access;
  const Gid child = body.get(SsaHookup::endpoint).get(SsaEndpoint::gid);
  if ((options_.roles & takes_children) == 0 || child == options_.gid) return AnswerStatus::denied;
  if ((parent_.exists() && child == parent_.gid()) || (backup_.exists() && child == backup_.gid()))
    return AnswerStatus::denied;  // a loop
  if (!is_ready()) return AnswerStatus::not_ready;
  const auto hooked = children_.hook(r.now, {child, r.from, body.get(SsaHookup::is_backup) != 0});
  if (hooked == Children::Hooked::full) return AnswerStatus::full;
  report_.remove(child);
  if (hooked == Children::Hooked::added) notify(NodeEvent::Kind::child_connected, child, body.get(SsaHookup::endpoint));
  return AnswerStatus::ok;
}

void Node::take(const Received& r, const SsaChildLost&) {
  if (!r.message.is_answer) {
    ++counters_.unexpected;
  } else if (!mad::same_port(r.from, master_)) {
    ++counters_.wrong_master;
  } else if (r.message.status != 0) {  // it is sent again
    ++counters_.refused;
  } else if (!report_.handle_answer(r.now, r.message.transaction_id)) {
    ++counters_.unexpected;
  }
}

void Node::take(const Received& r, const SsaLeave&) {
  if (!r.message.is_answer) ++counters_.unexpected;
}

}  // namespace parley::ssa
