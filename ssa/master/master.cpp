// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Members, lines and requests. master_messages.cpp has what the master receives.
#include "ssa/master/master.hpp"

#include <algorithm>

#include "base/after.hpp"
#include "ssa/node/options.hpp"

namespace parley::ssa {

using wire::mad::Method;
using wire::mad::SsaParent;

namespace {

constexpr Placement::Id root_id = 0;
constexpr unsigned ask_tries = 6;
constexpr Duration pace_max = std::chrono::milliseconds(50);  // at least 20 assignments a second

}  // namespace

Master::Master(MasterOptions options)
    : options_(std::move(options)), rng_(options_.seed), placement_(options_.topology, options_.placement) {
  Record root;
  root.gid = options_.root;
  root.endpoint = options_.root_endpoint;
  root.endpoint.set(wire::mad::SsaEndpoint::gid, root.gid);
  root.roles = options_.root_roles | wire::mad::ssa_roles::core;
  root.address = address_of(root.endpoint);
  root.used = true;
  root.stage = MemberStage::confirmed;
  records_.push_back(root);
  placement_.add(root_id, root.gid, root.roles, true);
}

void Master::start(Instant now) {
  started_ = now;
  settled_ = after(now, options_.timers.settle);
  next_rebalance_ = after(now, options_.timers.rebalance);
}

Master::Id Master::find(const Gid& gid) const {
  if (gid == options_.root) return root_id;
  const auto found = by_gid_.find(gid);
  return found == by_gid_.end() ? Placement::none : found->second;
}

Master::Id Master::new_slot() {
  if (free_.empty()) {
    free_.push_back(static_cast<Id>(records_.size()));
    records_.emplace_back();
  }
  const Id id = free_.back();
  free_.pop_back();
  records_[id] = {};
  records_[id].used = true;
  return id;
}

std::size_t Master::count(MemberStage stage) const {
  return static_cast<std::size_t>(std::count_if(records_.begin() + 1, records_.end(), [stage](const Record& record) {
    return record.used && record.stage == stage;
  }));
}

std::optional<MemberStage> Master::stage_of(const Gid& gid) const {
  const Id id = find(gid);
  if (id == Placement::none) return std::nullopt;
  return records_[id].stage;
}

std::pair<Gid, Gid> Master::parents_of(const Gid& gid) const {
  const Id id = find(gid);
  if (id == Placement::none) return {};
  const auto [parent, backup] = placement_.of(id);
  return {parent == Placement::none ? Gid{} : records_[parent].gid,
          backup == Placement::none ? Gid{} : records_[backup].gid};
}

MemberFacts Master::facts_of(Id id) const {
  const Record& record = records_[id];
  const auto [parent, backup] = parents_of(record.gid);
  return {record.gid, parent, backup, record.roles, record.stage, placement_.load(id)};
}

std::size_t Master::children_of(const Gid& gid) const {
  const Id id = find(gid);
  return id == Placement::none ? 0 : placement_.load(id);
}

void Master::remove(Instant now, Id id, MasterEvent::Kind why) {
  Record& record = records_[id];
  if (record.stage == MemberStage::asked) answered(id);
  const std::uint8_t layer = layer_of(record.roles);
  if (record.in_line) {
    --in_lines_;
    std::erase(lines_[layer], id);  // the id is used again
  }
  leave_parked(id);
  deadlines_.set(id, never);
  by_gid_.erase(record.gid);
  placement_.remove(id);
  events_.push({why, record.gid, 0});
  counters_.lost += why == MasterEvent::Kind::lost ? 1 : 0;
  record = {};
  if (layer < consumer_layer) repair(now, id);
  free_.push_back(id);
  if (!parked_.empty())
    unpark_at_ = std::min(unpark_at_, after(unparked_, options_.timers.unpark));  // its place is free
}

/// Its children go to their backups, and get new ones; so do those that had it as their backup.
void Master::repair(Instant now, Id gone) {
  for (Id id = 1; id < records_.size(); ++id) {
    if (!records_[id].used) continue;
    if (records_[id].bad == gone) records_[id].bad = Placement::none;
    const auto [parent, backup] = placement_.of(id);
    if (parent != gone && backup != gone) continue;
    placement_.assign(id, {parent == gone ? backup : parent, Placement::none});
    line_up(now, id);
  }
}

void Master::line_up(Instant now, Id id) {
  Record& record = records_[id];
  if (record.stage == MemberStage::asked) {
    record.reassign = true;
    return;
  }
  record.stage = MemberStage::waiting;
  record.wanted = {};
  deadlines_.set(id, never);
  leave_parked(id);
  if (record.in_line) return;
  record.in_line = true;
  ++in_lines_;
  const std::uint8_t layer = layer_of(record.roles);
  lines_[layer].push_back(id);
  if (layer == consumer_layer) {
    const auto length = static_cast<Duration::rep>(lines_[layer].size());
    const Duration wanted = std::min(pace_max, options_.timers.spread / length);
    pace_ = pace_ == Duration{} ? wanted : std::min(pace_, wanted);
    next_assignment_ = std::max(next_assignment_, now);
  }
}

/// No parent has room for it.
void Master::park(Instant now, Id id) {
  placement_.assign(id, {});
  records_[id].parked = true;
  parked_.push_back(id);
  wait_for_hello(now, id);
}

void Master::leave_parked(Id id) {
  if (std::exchange(records_[id].parked, false)) std::erase(parked_, id);
}

/// It has no place, and is lost if it does not greet again. A node greets within 2.5 times the wait in the answer to its hello.
void Master::wait_for_hello(Instant now, Id id) {
  const MasterTimers& t = options_.timers;
  Record& record = records_[id];
  if (record.unplaced_until == never) record.unplaced_until = after(now, 3 * (wait_margin + t.settle + t.spread));
  deadlines_.set(id, record.unplaced_until);
}

bool Master::is_first_of_layer(Id id) const {
  const std::uint8_t layer = layer_of(records_[id].roles);
  for (Id other = 1; other < records_.size(); ++other)
    if (other != id && records_[other].used && layer_of(records_[other].roles) == layer) return false;
  return true;
}

void Master::unpark(Instant now) {
  unparked_ = now;
  unpark_at_ = never;
  const std::vector<Id> parked = std::exchange(parked_, {});
  for (const Id id : parked) records_[id].parked = false;
  for (const Id id : parked) line_up(now, id);
}

/// Chooses parent and backup; what it has already stays, unless it is bad. A bad one is chosen if there is no other: the
/// fault may be over. False: no parent has room.
bool Master::place(Id id) {
  Record& record = records_[id];
  const Id bad = std::exchange(record.bad, Placement::none);
  const auto [parent, backup] = placement_.of(id);
  Placement::Choice next;
  const bool keeps = parent != Placement::none && parent != bad && placement_.can_be_parent(id, parent);
  next.parent = keeps ? parent : placement_.choose_parent(id, bad);
  if (next.parent == Placement::none) next.parent = placement_.choose_parent(id);
  if (next.parent == Placement::none) return false;
  const bool keeps_backup = backup != Placement::none && backup != bad && backup != next.parent;
  next.backup = keeps_backup ? backup : placement_.choose_backup(id, next.parent, bad);
  placement_.assign(id, next);
  return true;
}

void Master::advance(Instant now) {
  if (now >= unpark_at_) unpark(now);
  for (std::size_t layer = 0; layer < lines_.size(); ++layer) {
    const bool paced = layer == consumer_layer;
    if (layer >= access_layer && now < settled_) return;
    std::deque<Id>& line = lines_[layer];
    while (!line.empty()) {
      if (outstanding_ >= options_.window || (paced && now < next_assignment_)) return;
      const Id id = line.front();
      line.pop_front();
      Record& record = records_[id];
      record.in_line = false;
      --in_lines_;
      if (place(id)) {
        ask(now, id, false);
        if (paced) next_assignment_ = after(now, pace_);
      } else {
        park(now, id);
      }
    }
    if (paced) pace_ = {};
  }
}

void Master::ask(Instant now, Id id, bool probes) {
  Record& record = records_[id];
  record.stage = MemberStage::asked;
  record.probes = probes;
  record.reassign = false;
  record.tries = 0;
  record.wanted = {};
  record.unplaced_until = never;
  do record.transaction = draw_transaction_id(rng_);
  while (!by_transaction_.emplace(record.transaction, id).second);
  if (!probes) record.ticket = ++tickets_;
  ++outstanding_;
  ++(probes ? counters_.probes : counters_.assignments);
  send_request(now, id);
}

void Master::send_request(Instant now, Id id) {
  Record& record = records_[id];
  counters_.retransmitted += record.tries > 0 ? 1 : 0;
  const MasterTimers& t = options_.timers;
  deadlines_.set(id, after(now, jittered(rng_, doubled(t.answer_first, record.tries++, 4 * t.answer_first))));
  SsaParent body = SsaParent{}
                       .set(SsaParent::ssa_key, options_.key)
                       .set(SsaParent::epoch, wire_of(options_.epoch))
                       .set(SsaParent::ticket, record.ticket)
                       .set(SsaParent::port_gid, record.gid)
                       .set(SsaParent::roles, record.roles)
                       .set(SsaParent::level, layer_of(record.roles));
  const wire::mad::RequestOptions options{.transaction_id = record.transaction};
  if (record.probes) {
    transmits_.push({record.address, wire::mad::request<wire::mad::MgmtClass::ssa, Method::get>(body, options)});
    return;
  }
  const auto [parent, backup] = placement_.of(id);
  if (parent != Placement::none) body.set(SsaParent::parent, records_[parent].endpoint);
  if (backup != Placement::none) body.set(SsaParent::backup, records_[backup].endpoint);
  transmits_.push({record.address, wire::mad::request<wire::mad::MgmtClass::ssa, Method::set>(body, options)});
}

/// The request to a member has ended, with or without an answer.
void Master::answered(Id id) {
  Record& record = records_[id];
  record.stage = MemberStage::waiting;
  by_transaction_.erase(record.transaction);
  record.transaction = 0;
  deadlines_.set(id, never);
  --outstanding_;
}

void Master::handle_member(Instant now, Id id) {
  Record& record = records_[id];
  switch (record.stage) {
    case MemberStage::asked:
      if (record.tries >= ask_tries) return remove(now, id, MasterEvent::Kind::lost);
      // The choice that was sent is not the present one: the next request has the present one, and a new ticket.
      if (record.reassign) {
        answered(id);
        return line_up(now, id);
      }
      return send_request(now, id);
    case MemberStage::assigned:
      if (outstanding_ < options_.window) return ask(now, id, true);
      return deadlines_.set(id, after(now, within(rng_, pace_max) + pace_max));
    case MemberStage::waiting:
      if (now >= record.unplaced_until) return remove(now, id, MasterEvent::Kind::lost);
      return line_up(now, id);  // the parent that it names has not come
    case MemberStage::confirmed: return;
  }
}

void Master::rebalance(Instant now) {
  next_rebalance_ = after(now, options_.timers.rebalance);
  if (in_lines_ > 0) return;
  for (const Id id : placement_.rebalance(options_.moves_max)) {
    ++counters_.moved;
    line_up(now, id);
  }
  for (Id id = 1; id < records_.size(); ++id) {
    if (!records_[id].used || records_[id].stage != MemberStage::confirmed) continue;
    const auto [parent, backup] = placement_.of(id);
    if (backup == Placement::none && placement_.choose_backup(id, parent) != Placement::none) line_up(now, id);
  }
}

void Master::handle_deadline(Instant now) {
  while (const auto id = deadlines_.pop_due(now)) handle_member(now, *id);
  if (now >= next_rebalance_) rebalance(now);
  advance(now);
}

Instant Master::next_deadline() const {
  Instant out = std::min({deadlines_.next(), next_rebalance_, unpark_at_});
  if (in_lines_ == 0 || outstanding_ >= options_.window) return out;
  const bool paced = lines_[access_layer].empty();  // the higher layers have no line while there is room in the window
  return std::min(out, paced ? std::max(next_assignment_, settled_) : settled_);
}

}  // namespace parley::ssa
