// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the master receives: hello, leave, reports of lost children, and answers to its own requests.
#include <algorithm>

#include "base/after.hpp"
#include "ssa/master/master.hpp"
#include "ssa/node/options.hpp"

namespace parley::ssa {

using wire::mad::SsaChild;
using wire::mad::SsaChildLost;
using wire::mad::SsaEndpoint;
using wire::mad::SsaHello;
using wire::mad::SsaHookup;
using wire::mad::SsaLeave;
using wire::mad::SsaParent;
namespace hello_flags = wire::mad::ssa_node_flags;

namespace {

constexpr unsigned probe_rounds = 3;
constexpr Duration content_wait = std::chrono::seconds(600);  // of a node that has what it can get

}  // namespace

bool is_for_master(const Message& message) {
  const bool answers_master = std::holds_alternative<SsaParent>(message.body);
  return !std::holds_alternative<SsaHookup>(message.body) && message.is_answer == answers_master;
}

void Master::handle_message(Instant now, const mad::Address& from, ConstBytes octets) {
  const auto message = parse_message(octets);
  if (!message) {
    ++counters_.malformed;
    return;
  }
  if (key_of(*message) != options_.key) {
    ++counters_.wrong_key;
    return;
  }
  if (!is_for_master(*message)) {
    ++counters_.unexpected;
    return;
  }
  const Received r{now, from, *message, octets};
  std::visit([&](const auto& body) { take(r, body); }, message->body);
  advance(now);
}

void Master::take(const Received&, const SsaHookup&) {}  // is_for_master() has refused it

AnswerStatus Master::check_hello(const Received& r, const SsaHello& body) {
  const Gid gid = body.get(SsaHello::port_gid);
  if (r.from.grh && r.from.grh->gid != gid) {
    ++counters_.wrong_node;
    return AnswerStatus::denied;
  }
  const std::uint8_t roles = body.get(SsaHello::roles);
  if (gid == options_.root || body.get(SsaHello::tree) != options_.tree ||
      (options_.roles_of && (roles & ~options_.roles_of(gid)) != 0)) {
    ++counters_.denied;
    return AnswerStatus::denied;
  }
  const std::size_t p_keys = body.get(SsaHello::p_key_count);
  for (std::size_t i = 0; i < p_keys && options_.has_p_key; ++i)
    if (!options_.has_p_key(gid, body.get(SsaHello::p_key, i))) {
      ++counters_.foreign_p_keys;
      return AnswerStatus::denied;
    }
  const Epoch epoch = epoch_of(body.get(SsaHello::epoch));
  if (epoch.incarnation > options_.epoch.incarnation) {
    ++counters_.newer_masters;
    events_.push({MasterEvent::Kind::newer_master, gid, epoch.incarnation});
    return AnswerStatus::not_master;
  }
  if (compare(epoch, options_.epoch) == EpochOrder::newer) {
    ++counters_.future_epochs;
    return AnswerStatus::denied;
  }
  if (!by_gid_.contains(gid) && by_gid_.size() >= options_.members_max) {
    ++counters_.full;
    return AnswerStatus::full;
  }
  return AnswerStatus::ok;
}

/// The record of the node that greets. A new one has no place yet.
Master::Id Master::member_of(const SsaHello& body) {
  const Gid gid = body.get(SsaHello::port_gid);
  const std::uint8_t roles = body.get(SsaHello::roles);
  Id id = find(gid);
  if (id != Placement::none) return id;
  id = new_slot();
  by_gid_.emplace(gid, id);
  records_[id].gid = gid;
  records_[id].roles = roles;
  records_[id].first_ticket = ++tickets_;
  placement_.add(id, gid, roles);
  return id;
}

void Master::take(const Received& r, const SsaHello& body) {
  SsaHello reply = body;
  if (const AnswerStatus status = check_hello(r, body); status != AnswerStatus::ok)
    return answer(transmits_, r, reply.octets(), status);
  ++counters_.hellos;
  const Gid gid = body.get(SsaHello::port_gid);
  if (const Id old = find(gid); old != Placement::none && records_[old].roles != body.get(SsaHello::roles))
    remove(r.now, old, MasterEvent::Kind::left);
  const bool is_new = find(gid) == Placement::none;
  const Id id = member_of(body);
  Record& record = records_[id];
  record.address = r.from;
  record.endpoint = SsaEndpoint{}
                        .set(SsaEndpoint::gid, gid)
                        .set(SsaEndpoint::node_guid, body.get(SsaHello::node_guid))
                        .set(SsaEndpoint::lid, r.from.grh ? std::uint16_t{0} : r.from.lid)
                        .set(SsaEndpoint::p_key, r.from.pkey)
                        .set(SsaEndpoint::qpn, body.get(SsaHello::qpn))
                        .set(SsaEndpoint::port, body.get(SsaHello::port));
  record.ticket = ++tickets_;
  if (layer_of(record.roles) < consumer_layer) parent_greets(r.now, id, is_new);
  greet(r.now, id, body);
  reply.set(SsaHello::epoch, wire_of(options_.epoch))
      .set(SsaHello::ticket, records_[id].ticket)
      .set(SsaHello::wait, whole_milliseconds(wait_of(r.now, id)));
  answer(transmits_, r, reply.octets(), AnswerStatus::ok);
}

/// A node that can have children: members without a place may get one.
void Master::parent_greets(Instant now, Id id, bool is_new) {
  placement_.set_available(id, true);
  if (!parked_.empty()) {
    if (is_new && is_first_of_layer(id)) settled_ = std::max(settled_, after(now, options_.timers.settle));
    unpark_at_ = std::min(unpark_at_, after(unparked_, options_.timers.unpark));
  }
  adopt_waiting(now, id);
}

void Master::greet(Instant now, Id id, const SsaHello& body) {
  Record& record = records_[id];
  const std::uint8_t flags = body.get(SsaHello::node_flags);
  const Gid named = body.get(SsaHello::parent_gid);
  const Id parent = find(named);
  // What was asked before the hello has an older ticket than the answer to it.
  if (record.stage == MemberStage::asked) answered(id);
  record.unplaced_until = never;
  const Id lost = (flags & hello_flags::parent_lost) != 0 ? find(body.get(SsaHello::bad_parent_gid)) : Placement::none;
  if (lost != Placement::none && placement_.can_be_parent(id, lost)) record.bad = lost;
  placement_.set_available(id, true);
  if ((flags & hello_flags::has_parent) == 0) return line_up(now, id);
  if (parent != Placement::none && parent != record.bad && placement_.can_be_parent(id, parent))
    return adopt(now, id, parent, (flags & hello_flags::has_backup) != 0);
  const Instant grace = after(started_, options_.timers.shape_grace);
  if (parent != Placement::none || now >= grace) return line_up(now, id);
  record.wanted = named;
  record.stage = MemberStage::waiting;
  deadlines_.set(id, grace);
}

/// It is connected to `parent` already. It gets a backup if it has none, or if it does not reach the one that it has.
void Master::adopt(Instant now, Id id, Id parent, bool has_backup) {
  Record& record = records_[id];
  const auto [before, old_backup] = placement_.of(id);
  const Id kept = old_backup == parent ? Placement::none : old_backup;
  Id backup = kept;
  if (!has_backup || kept == Placement::none) {
    const Id other = placement_.choose_backup(id, parent, kept);
    backup = other == Placement::none ? kept : other;
  }
  if (record.stage == MemberStage::asked) answered(id);
  placement_.assign(id, {parent, backup});
  record.wanted = {};
  // The backup is new, or the node has not heard of it, or has lost it.
  if (backup != kept || (!has_backup && backup != Placement::none)) return line_up(now, id);
  if (!record.in_line) confirm(id);
}

void Master::confirm(Id id) {
  Record& record = records_[id];
  leave_parked(id);
  record.stage = MemberStage::confirmed;
  record.rounds = 0;
  deadlines_.set(id, never);
  if (!std::exchange(record.joined, true)) events_.push({MasterEvent::Kind::joined, record.gid, 0});
}

/// `parent` has greeted: nodes that named it are its children.
void Master::adopt_waiting(Instant now, Id parent) {
  const Gid gid = records_[parent].gid;
  for (Id id = 1; id < records_.size(); ++id)
    if (records_[id].used && records_[id].wanted == gid) {
      if (placement_.can_be_parent(id, parent))
        adopt(now, id, parent, false);
      else
        line_up(now, id);
    }
}

/// How long a node should wait for its parent, at least.
Duration Master::wait_of(Instant now, Id id) const {
  const Record& record = records_[id];
  const MasterTimers& t = options_.timers;
  if (record.stage == MemberStage::confirmed) return content_wait;
  Duration out = wait_margin;
  if (now < settled_) out += settled_ - now;
  if (record.wanted != Gid{}) out += t.shape_grace;
  return out + t.spread;
}

void Master::take(const Received& r, const SsaParent& body) {
  const auto found = by_transaction_.find(r.message.transaction_id);
  if (found == by_transaction_.end()) {
    ++counters_.unexpected;
    return;
  }
  const Id id = found->second;
  Record& record = records_[id];
  if (!mad::same_port(r.from, record.address)) {
    ++counters_.wrong_node;
    return;
  }
  ++counters_.answers;
  const bool reassign = record.reassign;
  answered(id);
  placement_.set_available(id, true);
  if (reassign) return line_up(r.now, id);
  if (record.probes && r.message.status == 0) return take_probed(r.now, id, body);
  take_assigned(r.now, id, r.message);
}

void Master::take_assigned(Instant now, Id id, const Message& message) {
  Record& record = records_[id];
  if (message.status != 0) {  // the node does not accept this parent
    record.bad = placement_.of(id).parent;
    if (++record.rounds <= probe_rounds) return line_up(now, id);
    placement_.assign(id, {});
    return wait_for_hello(now, id);
  }
  probe_later(now, id);
}

/// It has time to hook up; then it is asked whether it has.
void Master::probe_later(Instant now, Id id) {
  records_[id].stage = MemberStage::assigned;
  deadlines_.set(id, after(now, options_.timers.confirm + within(rng_, options_.timers.confirm)));
}

void Master::take_probed(Instant now, Id id, const SsaParent& body) {
  Record& record = records_[id];
  const auto [parent, backup] = placement_.of(id);
  const std::uint8_t flags = body.get(SsaParent::node_flags);
  const Id named = find(body.get(SsaParent::parent).get(SsaEndpoint::gid));
  const bool has_parent = (flags & hello_flags::has_parent) != 0;
  if (has_parent && named == parent && parent != Placement::none) return confirm(id);
  if (has_parent && named != Placement::none && placement_.can_be_parent(id, named)) {
    record.bad = parent;
    placement_.assign(id, {named, named == backup ? Placement::none : backup});
    return line_up(now, id);
  }
  if (++record.rounds <= probe_rounds) return probe_later(now, id);
  record.rounds = 0;
  record.bad = parent;
  line_up(now, id);
}

void Master::take(const Received& r, const SsaChildLost& body) {
  const Id parent = find(body.get(SsaChildLost::port_gid));
  if (parent == Placement::none || !mad::same_port(r.from, records_[parent].address)) {
    ++counters_.wrong_node;
    return;
  }
  ++counters_.reports;
  for (std::size_t i = 0; i < body.get(SsaChildLost::child_count); ++i)
    lose_child(r.now, find(body.get(SsaChildLost::child, i).get(SsaChild::gid)), parent);
  answer(transmits_, r, body.octets(), AnswerStatus::ok);
}

/// The child is on its backup by now, or it is dead: its answer to the next assignment shows which.
void Master::lose_child(Instant now, Id child, Id parent) {
  if (child == Placement::none || child == 0) return;
  const auto [first, second] = placement_.of(child);
  if (first != parent && second != parent) return;
  records_[child].bad = parent;
  placement_.assign(child, {first == parent ? second : first, Placement::none});
  placement_.set_available(child, false);
  line_up(now, child);
}

void Master::take(const Received& r, const SsaLeave& body) {
  const Id id = find(body.get(SsaLeave::port_gid));
  if (id == Placement::none || id == 0 || !mad::same_port(r.from, records_[id].address) ||
      body.get(SsaLeave::ticket) < records_[id].first_ticket) {
    ++counters_.wrong_node;
    return;
  }
  answer(transmits_, r, body.octets(), AnswerStatus::ok);
  remove(r.now, id, MasterEvent::Kind::left);
}

}  // namespace parley::ssa
