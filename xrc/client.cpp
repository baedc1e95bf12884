// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "xrc/client.hpp"

#include <algorithm>

#include "base/after.hpp"

namespace parley::xrc {

std::string_view to_string(Client::Phase phase) {
  constexpr std::array<std::string_view, 6> names{"down", "greeting", "opening", "restoring", "up", "refused"};
  return names.at(static_cast<std::size_t>(phase));
}

// ---- the connection ----------------------------------------------------------------------------------------------

void Client::send(Request request) {
  if (request.number == 0) request.number = ++last_number_;
  out_.push_back(std::move(request));
}

void Client::connected(Instant) {
  if (phase_ == Phase::refused) return;
  send({.ask = RequestType::hello,
        .reason = protocol_version,
        .other = protocol_version,
        .value = options_.process.start,
        .pid = options_.process.pid,
        .command = options_.process.command});
  phase_ = Phase::greeting;
}

void Client::disconnected() {
  if (phase_ == Phase::refused) return;
  phase_ = Phase::down;
  out_.clear();
  restoring_.clear();
  items_.clear();
  std::erase_if(pending_, [](const auto& p) { return p.second.abandoned; });  // their membership has ended
  for (auto& [number, pending] : pending_) pending.sent = false;
  release();
  for (auto& [generation, r] : registrations_)
    if (!std::exchange(r.told, true)) queue_event({r.id, r.why, r.reason, r.events, 0, true});
}

/// A disconnected member has no registrations at the broker, so its pending unregister and close requests are done. If
/// it declared those queue pairs again, it could revive ones that the old broker has ended.
void Client::release() {
  for (auto at = pending_.begin(); at != pending_.end();) {
    const Pending pending = at->second;
    const RequestType ask = pending.request.ask;
    const bool force = (pending.request.flags & Request::force) != 0;
    const bool leaves = ask == RequestType::unregister && registration_of(pending.request.tgt) != registrations_.end();
    const bool closes = ask == RequestType::close && (force || (registrations_.empty() && srqs_.empty()));
    if (!leaves && !closes) {
      ++at;
      continue;
    }
    settled(pending, {.number = pending.request.number, .about = ask, .tgt = pending.request.tgt, .epoch = epoch_});
    at = pending_.erase(at);
    if (closes) return refuse(Refusal::not_member);
  }
}

/// Final: another connection would be refused for the same reason.
void Client::refuse(Refusal refusal) {
  for (auto at = pending_.begin(); at != pending_.end(); at = pending_.erase(at))
    if (!at->second.abandoned)
      answers_.push_back({.number = at->first, .refusal = refusal, .about = at->second.request.ask});
  phase_ = Phase::refused;
  refusal_ = refusal;
  out_.clear();
}

std::optional<Client::Outgoing> Client::poll_transmit() {
  if (!out_.empty()) {
    Outgoing next{emit(out_.front()), out_.front().ask == RequestType::open && options_.shared};
    out_.pop_front();
    return next;
  }
  if (phase_ != Phase::up) return std::nullopt;
  const auto unsent = std::find_if(pending_.begin(), pending_.end(),
                                   [](const auto& p) { return !p.second.sent && p.second.again == never; });
  if (unsent == pending_.end()) return std::nullopt;
  Outgoing next{emit(unsent->second.request)};
  unsent->second.sent = true;
  return next;
}

void Client::handle_message(Instant now, ConstBytes octets) {
  if (phase_ == Phase::down || phase_ == Phase::refused) return;
  const auto message = parse(octets);
  if (!message) return refuse(static_cast<Refusal>(message.error().code().value()));
  if (const auto* answer = std::get_if<Answer>(&*message)) return on(now, *answer);
  if (const auto* event = std::get_if<Event>(&*message)) return on(*event);
  const auto* item = std::get_if<Item>(&*message);
  if (item == nullptr) return refuse(Refusal::bad_message);
  if (pending_.contains(item->number)) items_.push_back(*item);
}

// ---- a new broker ------------------------------------------------------------------------------------------------

void Client::greeted(const Answer& answer) {
  if (answer.refusal != Refusal::none) return refuse(answer.refusal);
  epoch_ = answer.epoch;
  if (!options_.member) {
    phase_ = Phase::up;
    return;
  }
  std::uint16_t flags = 0;
  if (options_.create || was_member_) flags |= Request::create;
  if (options_.exclusive && !was_member_) flags |= Request::exclusive;
  if (options_.shared) flags |= Request::shared;
  if (options_.carrier) flags |= Request::carrier;
  send({.ask = RequestType::open,
        .flags = flags,
        .reason = carriers_,
        .other = carriers_epoch_,
        .value = options_.device});
  phase_ = Phase::opening;
}

void Client::opened(const Answer& answer) {
  if (answer.refusal != Refusal::none) return refuse(answer.refusal);
  was_member_ = true;
  carriers_ = answer.reason;
  carriers_epoch_ = epoch_;
  declare();
  phase_ = restoring_.empty() ? Phase::up : Phase::restoring;
}

void Client::declare() {
  out_.clear();  // from an attempt that ran out of memory
  restoring_.clear();
  for (const auto& [ask, numbers] : {std::pair(RequestType::add_srq, &srqs_), {RequestType::note_other, &others_}})
    for (const std::uint32_t number : *numbers) {
      restoring_[++last_number_] = 0;
      out_.push_back({.ask = ask, .number = last_number_, .other = number});
    }
  for (const auto& [generation, r] : registrations_) {
    Request request{.ask = RequestType::restore,
                    .number = ++last_number_,
                    .flags = static_cast<std::uint16_t>(r.peer ? Request::has_peer : 0),
                    .state = r.state,
                    .kind = r.why,
                    .reason = r.reason,
                    .tgt = r.id,
                    .value = r.proof,
                    .peer = r.peer.value_or(Peer{}),
                    .attributes = r.attributes,
                    .events = r.events};
    restoring_[request.number] = generation;
    out_.push_back(std::move(request));
  }
}

void Client::restored(const Answer& answer) {
  const std::uint64_t generation = restoring_.at(answer.number);
  restoring_.erase(answer.number);
  if (answer.refusal == Refusal::none) {
    if (generation != 0) {
      remember(answer);
      registrations_.at(generation).proof = answer.value;
    }
  } else if (const auto lost = registrations_.find(generation); lost != registrations_.end()) {
    const TgtId id = lost->second.id;
    forget(id);
    queue_event({.tgt = id, .kind = EventKind::ended});
  }
  if (restoring_.empty()) phase_ = Phase::up;
}

// ---- answers and events ------------------------------------------------------------------------------------------

void Client::on(Instant now, const Answer& answer) {
  if (answer.number == 0) {
    // A new broker may be full for a moment. It closes the connection, and a former member connects again.
    const bool full = answer.refusal == Refusal::share_of_connections || answer.refusal == Refusal::no_memory;
    if (was_member_ && full) return;
    if (answer.refusal != Refusal::none) return refuse(answer.refusal);
    if (answer.about == RequestType::open) carriers_ = answer.reason;
    if (registrations_.contains(answer.tgt.generation)) remember(answer);
    return;
  }
  if (phase_ == Phase::greeting)
    return answer.about == RequestType::hello ? greeted(answer) : refuse(Refusal::bad_message);
  if (phase_ == Phase::opening)
    return answer.about == RequestType::open ? opened(answer) : refuse(Refusal::bad_message);
  if (restoring_.contains(answer.number)) return restored(answer);
  const auto found = pending_.find(answer.number);
  if (found == pending_.end()) return too_late(answer);
  if (found->second.abandoned) {
    undo(found->second.request, answer);
    pending_.erase(answer.number);  // by number: refuse() may have erased all
    return;
  }
  if (try_again(found->second, answer, now)) {
    found->second.sent = false;
    found->second.again = after(now, options_.retry);
    return;
  }
  settled(found->second, answer);
  pending_.erase(found);
  if (answer.about == RequestType::close && answer.refusal == Refusal::none) refuse(Refusal::not_member);
}

/// The request was reported as timed out, so the user assumes that it had no effect. Reverts it where possible.
void Client::too_late(const Answer& answer) {
  if (answer.refusal != Refusal::none) return;
  if (answer.about == RequestType::unregister) return forget(answer.tgt);  // cannot be reverted
  if (answer.about == RequestType::close) return refuse(Refusal::not_member);
  const bool joined = answer.about == RequestType::create || answer.about == RequestType::enlist ||
                      answer.about == RequestType::publish;
  if (joined && !registrations_.contains(answer.tgt.generation))
    send({.ask = RequestType::unregister, .tgt = answer.tgt});
}

/// The same for an abandoned request, whose parameters are still known.
void Client::undo(const Request& asked, const Answer& answer) {
  if (answer.refusal != Refusal::none) return;
  if (asked.ask == RequestType::add_srq && !srqs_.contains(asked.other))
    return send({.ask = RequestType::remove_srq, .other = asked.other});
  if (asked.ask == RequestType::remove_srq) srqs_.erase(asked.other);
  if (asked.ask == RequestType::modify && registrations_.contains(answer.tgt.generation)) remember(answer);
  too_late(answer);
}

void Client::abandon(std::uint64_t number) noexcept {
  const auto found = pending_.find(number);
  if (found == pending_.end()) return;
  if (!found->second.sent) {
    pending_.erase(found);
    return;
  }
  found->second.abandoned = true;
  found->second.deadline = found->second.again = never;
}

bool Client::has_abandoned() const {
  return std::any_of(pending_.begin(), pending_.end(), [](const auto& p) { return p.second.abandoned; });
}

bool may_pass(const Request& r) {
  const bool own_fault = r.ask == RequestType::close || (r.ask == RequestType::modify && r.state == State::reset) ||
                         (r.ask == RequestType::create && r.tgt.qpn != 0) || r.ask == RequestType::publish ||
                         r.ask == RequestType::list;
  return !own_fault;
}

bool Client::try_again(const Pending& pending, const Answer& answer, Instant now) const {
  return answer.refusal == Refusal::busy && may_pass(pending.request) && after(now, options_.retry) < pending.deadline;
}

/// Queues the answer and applies its effect; does neither if memory runs out.
void Client::settled(const Pending& pending, const Answer& answer) {
  answers_.push_back(answer);
  try {
    apply(pending.request, answer);
  } catch (...) {
    answers_.pop_back();
    throw;
  }
}

/// Allocates at most once, before it changes anything.
void Client::apply(const Request& asked, const Answer& answer) {
  const bool good = answer.refusal == Refusal::none;
  switch (asked.ask) {
    case RequestType::create:
    case RequestType::enlist:
    case RequestType::publish:
    case RequestType::modify:
      if (good) remember(answer);
      if (const auto made = registrations_.find(answer.tgt.generation);
          good && asked.ask != RequestType::modify && made != registrations_.end())
        made->second.proof = answer.value;
      break;
    case RequestType::unregister: {
      // E3: events of the queue pair that are already queued here are dropped, too. A user may have given only the
      // number, without the generation.
      const auto known = registration_of(asked.tgt);
      const TgtId id = known == registrations_.end() ? asked.tgt : known->second.id;
      if (good || answer.refusal == Refusal::gone) {
        answers_.back().value += std::erase_if(events_, [&id](const Event& e) { return e.tgt == id; });
        forget(id);
      }
      break;
    }
    case RequestType::add_srq:
      if (good) srqs_.insert(asked.other);
      break;
    case RequestType::remove_srq:
      if (good) srqs_.erase(asked.other);
      break;
    case RequestType::note_other:
      if (good) others_.insert(asked.other);
      break;
    case RequestType::close:
      if (good) {
        registrations_.clear();
        events_.clear();
        lost_ = false;  // refuse() is next: no broker hears of this member again
      }
      break;
    default: break;
  }
}

void Client::remember(const Answer& a) {
  if (a.tgt.generation == 0 || a.state == State::creating) return;
  const auto [known, is_new] = registrations_.try_emplace(a.tgt.generation);
  Registration& r = known->second;
  r.id = a.tgt;
  if (is_new) r.events = a.events;  // earlier events were not for this member
  r.state = std::max(a.state, State::reset);
  r.peer = (a.flags & Answer::has_peer) != 0 ? std::optional(a.peer) : r.peer;
  r.attributes = a.attributes;
  // The event of a new `why` is on its way. If this broker dies before it sends the event, disconnected() reports it.
  r.told = r.told && r.why == a.why;
  r.why = a.why;
  r.reason = a.reason;
  if (a.why == EventKind::none) r.told = true;
}

std::map<std::uint64_t, Client::Registration>::iterator Client::registration_of(TgtId id) {
  if (id.generation != 0) return registrations_.find(id.generation);
  return std::find_if(registrations_.begin(), registrations_.end(),
                      [&id](const auto& known) { return known.second.id.qpn == id.qpn; });
}

void Client::forget(TgtId id) { registrations_.erase(id.generation); }

void Client::on(const Event& event) {
  if (event.kind == EventKind::device_removed && event.tgt.generation == 0) carriers_ = 0;
  if (const auto known = registrations_.find(event.tgt.generation); known != registrations_.end()) {
    Registration& r = known->second;
    r.events = std::max(r.events, event.sequence);
    if (const auto to = leads_to(event.kind)) {
      r.state = *to;
      r.why = event.kind;
      r.reason = event.reason;
      r.told = true;
    }
  }
  queue_event(event);
}

void Client::queue_event(Event event) noexcept {
  if (events_.size() >= options_.events_max || event.kind == EventKind::events_lost) {
    lost_ = true;
    return;
  }
  try {
    events_.push_back(event);
  } catch (...) {
    lost_ = true;  // as if the queue were full
  }
}

// ---- the user ----------------------------------------------------------------------------------------------------

Result<std::uint64_t> Client::ask(Instant now, Request request) {
  if (phase_ == Phase::refused) return tl::unexpected(Error(refusal_));
  if (pending_.size() + answers_.size() >= options_.requests_max) return tl::unexpected(Error(Refusal::no_memory));
  request.number = ++last_number_;
  pending_[request.number] = {.request = request, .deadline = after(now, options_.patience)};
  return request.number;
}

std::optional<Answer> Client::poll_answer() {
  if (answers_.empty()) return std::nullopt;
  const Answer out = answers_.front();
  answers_.pop_front();
  return out;
}

std::optional<Event> Client::poll_event() {
  if (events_.empty()) {
    if (!std::exchange(lost_, false)) return std::nullopt;
    return Event{.kind = EventKind::events_lost};
  }
  const Event out = events_.front();
  events_.pop_front();
  return out;
}

std::optional<Item> Client::poll_item() {
  if (items_.empty()) return std::nullopt;
  Item out = std::move(items_.front());
  items_.pop_front();
  return out;
}

Instant Client::next_deadline() const {
  Instant due = never;
  for (const auto& [number, pending] : pending_) due = std::min({due, pending.deadline, pending.again});
  return due;
}

void Client::handle_deadline(Instant now) {
  for (auto at = pending_.begin(); at != pending_.end();) {
    Pending& pending = at->second;
    if (pending.again <= now) pending.again = never;
    if (pending.deadline > now) {
      ++at;
      continue;
    }
    answers_.push_back({.number = at->first, .refusal = Refusal::timed_out, .about = pending.request.ask});
    at = pending_.erase(at);
  }
}

}  // namespace parley::xrc
