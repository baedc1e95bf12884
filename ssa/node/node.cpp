// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Commands, deadlines, and what a node sends without being asked. node_messages.cpp has what it receives.
#include "ssa/node/node.hpp"

#include <algorithm>

#include "base/after.hpp"

namespace parley::ssa {

using wire::mad::Method;
using wire::mad::SsaChild;
using wire::mad::SsaChildLost;
using wire::mad::SsaEndpoint;
using wire::mad::SsaHello;
using wire::mad::SsaHookup;
using wire::mad::SsaLeave;
using wire::mad::SsaParent;
namespace node_flags = wire::mad::ssa_node_flags;

Node::Node(NodeOptions options)
    : options_(std::move(options)),
      rng_(options_.seed),
      level_(options_.level),
      children_(options_.children_max, options_.timers.heartbeat),
      report_(options_.timers, options_.children_max),
      transmits_(64 + options_.children_max),
      events_(16 + 2 * options_.children_max) {
  options_.endpoint.set(SsaEndpoint::gid, options_.gid);
  if (options_.p_keys.size() > PARLEY_SSA_P_KEYS_MAX) options_.p_keys.resize(PARLEY_SSA_P_KEYS_MAX);
}

NodeState Node::state() const {
  if (!running_) return NodeState::idle;
  if (options_.is_root) return NodeState::connected;
  switch (parent_.stage()) {
    case Uplink::Stage::none: break;
    case Uplink::Stage::waiting: return NodeState::have_parent;
    case Uplink::Stage::hooking: return NodeState::connecting;
    case Uplink::Stage::up: return NodeState::connected;
  }
  return greeted_ ? NodeState::orphan : NodeState::joining;
}

std::uint8_t Node::flags() const {
  unsigned out = 0;
  if (parent_.is_up()) out |= node_flags::has_parent;
  if (backup_.is_up()) out |= node_flags::has_backup;
  if (bad_parent_ != Gid{}) out |= node_flags::parent_lost;
  if (parent_.is_up() && !backup_.exists()) out |= node_flags::backup_lost;
  if (!is_ready()) out |= node_flags::not_ready;
  return static_cast<std::uint8_t>(out);
}

bool Node::is_ready() const { return running_ && database_.is_valid() && (options_.is_root || parent_.is_up()); }

bool Node::is_current() const {
  if (!running_ || !database_.is_valid()) return false;
  return options_.is_root ? root_current_ : parent_.is_up() && parent_.epoch == database_;
}

void Node::start(Instant now, const mad::Address& master) {
  if (running_) return;
  running_ = true;
  master_ = master;
  if (!options_.is_root) join(now, options_.timers.join_spread);
}

void Node::handle_port_down(Instant) {
  if (!running_) return;
  for (Uplink* uplink : {&parent_, &backup_}) {
    if (uplink->is_up())
      notify(uplink == &parent_ ? NodeEvent::Kind::parent_lost : NodeEvent::Kind::backup_lost, uplink->gid());
    uplink->clear();
  }
  children_.each([this](const Children::Child& child) { notify(NodeEvent::Kind::child_lost, child.gid); });
  children_.clear();
  report_.clear();
  transmits_.clear();
  hello_ = {};
  running_ = greeted_ = handover_ = false;
  ticket_ = 0;
  bad_parent_ = {};
}

void Node::leave(Instant now) {
  if (!running_) return;
  Uplink old_parent = parent_, old_backup = backup_;
  const std::uint64_t ticket = ticket_;
  handle_port_down(now);
  for (Uplink* uplink : {&old_parent, &old_backup})
    if (uplink->exists())
      send<Method::delete_>(address_of(uplink->endpoint()), hookup_to(*uplink), draw_transaction_id(rng_));
  if (!options_.is_root)
    send<Method::delete_>(master_,
                          SsaLeave{}
                              .set(SsaLeave::epoch, wire_of(database_))
                              .set(SsaLeave::ticket, ticket)
                              .set(SsaLeave::port_gid, options_.gid),
                          draw_transaction_id(rng_));
}

void Node::handle_master(Instant now, const mad::Address& master) {
  master_ = master;
  if (!running_ || options_.is_root) return;
  if (parent_.exists())
    greet_successor(now);
  else
    join(now, options_.timers.join_spread);
}

void Node::handle_parent_lost(Instant now, const Gid& gid) {
  for (Uplink* uplink : {&parent_, &backup_})
    if (uplink->exists() && uplink->gid() == gid) {
      uplink->clear();
      return lose(now, *uplink, gid);
    }
}

void Node::handle_child_lost(Instant now, const Gid& child) {
  if (!children_.remove(child)) return;
  ++counters_.children_lost;
  report_.add(now, child);
}

void Node::handle_database(Instant, Epoch epoch) {
  if (epoch == database_) return;
  database_ = epoch;
  announced_ = epoch;
  children_.each([this](const Children::Child& child) {
    if (child.is_backup) return;
    send<Method::send>(
        child.from, SsaHookup{}.set(SsaHookup::epoch, wire_of(database_)).set(SsaHookup::endpoint, options_.endpoint),
        draw_transaction_id(rng_));
  });
}

void Node::handle_pull_failed(const Gid& parent) {
  if (parent_.exists() && parent_.gid() == parent) announced_ = database_;
}

Instant Node::next_deadline() const {
  return std::min({hello_.deadline, parent_.next_deadline(), backup_.next_deadline(), children_.next_deadline(),
                   report_.next_deadline()});
}

void Node::handle_deadline(Instant now) {
  if (!running_) return;
  if (now >= hello_.deadline) send_hello(now);
  run(now, parent_);
  run(now, backup_);
  while (const auto child = children_.pop_silent(now)) {
    ++counters_.children_lost;
    notify(NodeEvent::Kind::child_lost, child->gid);
    report_.add(now, child->gid);
  }
  if (report_.handle_deadline(now, rng_)) send_report();
}

/// Carries out what an uplink's deadline asks for.
void Node::run(Instant now, Uplink& uplink) {
  const Gid gid = uplink.gid();
  switch (uplink.handle_deadline(now, rng_)) {
    case Uplink::Step::hook:
      return send<Method::set>(address_of(uplink.endpoint()), hookup_to(uplink), uplink.transaction_id());
    case Uplink::Step::heartbeat:
      return send<Method::get>(address_of(uplink.endpoint()), hookup_to(uplink), uplink.transaction_id());
    case Uplink::Step::lost: return lose(now, uplink, gid);
    case Uplink::Step::connected:
    case Uplink::Step::nothing: return;
  }
}

void Node::connected(Instant now, Uplink& uplink) {
  const bool is_parent = &uplink == &parent_;
  if (is_parent)
    announced_ = database_;  // what another parent, or its last connection, has announced may not have come
  notify(is_parent ? NodeEvent::Kind::parent_connected : NodeEvent::Kind::backup_connected, uplink.gid(),
         uplink.endpoint());
  if (is_parent && backup_.stage() == Uplink::Stage::waiting)
    backup_.hook_at(after(now, within(rng_, options_.timers.heartbeat)));
  plan_hello(now);
}

/// `uplink` is cleared already.
void Node::lose(Instant now, Uplink& uplink, const Gid& gid) {
  if (&uplink == &backup_) {
    ++counters_.backups_lost;
    notify(NodeEvent::Kind::backup_lost, gid);
    return plan_hello(now);
  }
  ++counters_.parents_lost;
  notify(NodeEvent::Kind::parent_lost, gid);
  bad_parent_ = gid;
  if (!backup_.exists()) return join(now, options_.timers.join_spread);
  parent_ = backup_;
  backup_.clear();
  parent_.promote(now);
}

void Node::release(Uplink& uplink) {
  if (!uplink.exists()) return;
  send<Method::delete_>(address_of(uplink.endpoint()), hookup_to(uplink), draw_transaction_id(rng_));
  if (&uplink == &parent_) notify(NodeEvent::Kind::parent_released, uplink.gid());
  uplink.clear();
}

void Node::assign(Instant now, const SsaEndpoint& parent, const SsaEndpoint& backup) {
  const Duration heartbeat = options_.timers.heartbeat;
  if (parent_.exists() && parent_.endpoint() == parent) {
    // No-op: the parent is the present one.
  } else if (backup_.exists() && backup_.endpoint() == parent) {
    std::swap(parent_, backup_);
    parent_.promote(now);
    if (backup_.exists()) notify(NodeEvent::Kind::parent_released, backup_.gid());
  } else {
    release(parent_);
    parent_.assign(parent, false, heartbeat, after(now, within(rng_, heartbeat / 8)));
  }
  if (backup_.exists() && backup_.is_backup() && backup_.endpoint() == backup) return;
  if (backup_.exists() && backup_.endpoint() != backup) release(backup_);
  if (backup.get(SsaEndpoint::gid) == Gid{}) return backup_.clear();
  backup_.assign(backup, true, heartbeat, parent_.is_up() ? after(now, within(rng_, heartbeat)) : never);
}

/// It has no parent and wants one.
void Node::join(Instant now, Duration spread) {
  greeted_ = handover_ = false;
  hello_ = {0, 0, after(now, within(rng_, spread))};
}

/// Parents greet a new master before their children, so that it knows them when the children name them.
void Node::greet_successor(Instant now) {
  namespace roles = wire::mad::ssa_roles;
  const int sooner = (options_.roles & (roles::core | roles::distribution)) != 0 ? 30
                     : (options_.roles & roles::access) != 0                     ? 6
                                                                                 : 1;
  handover_ = true;
  hello_ = {0, 0, after(now, within(rng_, options_.timers.handover_spread / sooner))};
}

/// A connected node without a backup asks for one from time to time; one with a backup greets rarely.
void Node::plan_hello(Instant now) {
  if (options_.is_root || !parent_.exists() || handover_) return;
  const NodeTimers& t = options_.timers;
  if (backup_.is_up()) {
    backup_rounds_ = 0;
    hello_ = {0, 0, after(now, jittered(rng_, t.hello_refresh))};
  } else if (parent_.is_up() && hello_.transaction == 0) {
    const Duration wait = doubled(t.backup_wait, backup_rounds_++, t.backup_wait_max);
    hello_ = {0, 0, std::min(hello_.deadline, after(now, jittered(rng_, wait)))};
  }
}

void Node::send_hello(Instant now) {
  greeted_ = false;
  if (hello_.transaction == 0) hello_.transaction = draw_transaction_id(rng_);
  const NodeTimers& t = options_.timers;
  hello_.deadline = after(now, jittered(rng_, doubled(t.hello_first, hello_.tries++, t.hello_max)));
  SsaHello hello = SsaHello{}
                       .set(SsaHello::epoch, wire_of(database_))
                       .set(SsaHello::ticket, ticket_)
                       .set(SsaHello::port_gid, options_.gid)
                       .set(SsaHello::node_guid, options_.node_guid)
                       .set(SsaHello::parent_gid, parent_.exists() ? parent_.gid() : Gid{})
                       .set(SsaHello::bad_parent_gid, bad_parent_)
                       .set(SsaHello::roles, options_.roles)
                       .set(SsaHello::node_flags, flags())
                       .set(SsaHello::level, options_.level)
                       .set(SsaHello::qpn, options_.endpoint.get(SsaEndpoint::qpn))
                       .set(SsaHello::port, options_.endpoint.get(SsaEndpoint::port))
                       .set(SsaHello::p_key_count, static_cast<std::uint16_t>(options_.p_keys.size()))
                       .set(SsaHello::tree, options_.tree);
  for (std::size_t i = 0; i < options_.p_keys.size(); ++i) hello.set_at(SsaHello::p_key, i, options_.p_keys[i]);
  send<Method::set>(master_, hello, hello_.transaction);
}

void Node::send_report() {
  const std::vector<Gid> lost = report_.batch();
  SsaChildLost body = SsaChildLost{}
                          .set(SsaChildLost::epoch, wire_of(database_))
                          .set(SsaChildLost::port_gid, options_.gid)
                          .set(SsaChildLost::child_count, static_cast<std::uint16_t>(lost.size()));
  for (std::size_t i = 0; i < lost.size(); ++i)
    body.set_at(SsaChildLost::child, i, SsaChild{}.set(SsaChild::gid, lost[i]));
  send<Method::report>(master_, body, report_.transaction_id());
}

SsaHookup Node::hookup_to(const Uplink& uplink) const {
  return SsaHookup{}
      .set(SsaHookup::epoch, wire_of(database_))
      .set(SsaHookup::ticket, ticket_)
      .set(SsaHookup::endpoint, options_.endpoint)
      .set(SsaHookup::is_backup, uplink.is_backup());
}

SsaParent Node::parents() const {
  SsaParent out = SsaParent{}
                      .set(SsaParent::ssa_key, options_.key)
                      .set(SsaParent::epoch, wire_of(database_))
                      .set(SsaParent::ticket, ticket_)
                      .set(SsaParent::port_gid, options_.gid)
                      .set(SsaParent::roles, options_.roles)
                      .set(SsaParent::node_flags, flags())
                      .set(SsaParent::level, level_);
  if (parent_.exists()) out.set(SsaParent::parent, parent_.endpoint());
  if (backup_.exists()) out.set(SsaParent::backup, backup_.endpoint());
  return out;
}

void Node::notify(NodeEvent::Kind kind, const Gid& gid, const SsaEndpoint& endpoint, Epoch epoch) {
  events_.push({kind, gid, endpoint, epoch});
}

}  // namespace parley::ssa
