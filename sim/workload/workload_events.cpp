// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// HostApp: the events of the connection manager and the completion queue, and the user's reactions.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/workload/workload_host.hpp"

namespace parley::sim {
namespace {

// An id is kept this long after its end was reported, so that a surplus event is detected.
constexpr Duration grace = std::chrono::milliseconds(50);

bool closes(const ScenarioConnect& spec, mpa::Role role) {
  // On UD the peer does not notice.
  if (spec.closer == ClosingSide::both || (spec.qp == QpKind::ud && spec.closer != ClosingSide::nobody)) return true;
  return spec.closer == (role == mpa::Role::initiator ? ClosingSide::initiator : ClosingSide::responder);
}

}  // namespace

void HostApp::on_turn(Host& host) {
  if (!running_) return;
  turn_targets();
  while (auto event = host.cm().poll_event()) {
    // Completions first: they precede the event.
    drain_completions();
    if (groups_ && groups_->handle(*event)) continue;
    if (handle_xrc(*event)) continue;
    dispatch(*event);
  }
  drain_completions();
  if (groups_) groups_->turn();
  turn_targets();
}

void HostApp::drain_completions() {
  std::array<WorkCompletion, 32> done;
  while (const std::size_t n = cq_->poll(done)) {
    for (std::size_t i = 0; i < n; ++i) {
      const auto at = by_qp_.find(done[i].qp_num);
      OpenEnd* end = at == by_qp_.end() ? nullptr : find(at->second);
      if (end == nullptr || !end->transfer) continue;
      end->transfer->completed(done[i], host_.now());
      after_progress(*end);
    }
  }
}

void HostApp::dispatch(cm::Event& event) {
  std::visit([this](auto& e) { on(e); }, event);
}

void HostApp::record_event(OpenEnd& end, check::CmEventRecord event) {
  event.at = host_.now();
  end.record->told.push_back(std::move(event));
  end.progress_at = host_.now();
  learn_address(end);
}

void HostApp::record_failure(OpenEnd& end, check::CmEventKind what, const cm::Failure& why) {
  record_event(end, {.what = what,
                     .has_code = static_cast<bool>(why.code),
                     .in_close = why.stage() == cm::Stage::closing,
                     .words = why.to_string()});
}

void HostApp::stray(std::string_view event, const cm::Id& id) {
  workload_.judge_.add("settlement", host_.now(), {},
                       fmt::format("{} got the event {} for an id ({}) that it does not have", host_.name(), event,
                                   id.number() & 0xFFFFFFFF));
}

void HostApp::on(cm::Listening& event) { (void)event; }

void HostApp::on(cm::ConnectRequest& event) {
  std::size_t index = workload_.scenario_.listens.size();
  for (const auto& [number, listen] : listening_)
    if (number == event.listener.number()) index = listen;
  if (index == workload_.scenario_.listens.size() || find(event.id) != nullptr)
    return stray("ConnectRequest", event.id);
  const ScenarioListen& listen = workload_.scenario_.listens[index];
  const auto local = event.id.local_address();
  check::Attempt* known = local ? workload_.find_attempt(event.peer, *local) : nullptr;
  check::Attempt& attempt = known != nullptr ? *known : workload_.stray(event.peer, *this, listen);
  attempt.responders.push_back(std::make_unique<check::End>());
  check::End& record = *attempt.responders.back();
  record.role = mpa::Role::responder;
  record.peer = event.peer;
  record.private_data_got = event.private_data;
  record.quirky = !listen.mpa.play_quirk.empty();
  OpenEnd& end = add(attempt, record, workload_.scenario_.connects[attempt.connect]);
  end.listen = &listen;
  end.id = event.id;
  by_id_[event.id.number()] = end.serial;
  record_event(end, {.what = check::CmEventKind::request});
  const std::uint32_t seen = ++workload_.requests_seen_[index];
  end.reject = listen.reject_every != 0 && seen % listen.reject_every == 0;
  if (!end.reject) {
    if (!prepare(end)) return;
    const auto qp = end.id.create_qp(end.transfer->qp_init(pd_, cq_.get()));
    if (!qp) return;  // the peer is gone meanwhile; ConnectFailed follows
    by_qp_[(*qp)->qp_num()] = end.serial;
    end.transfer->use(**qp, host_.now());
  }
  if (listen.accept_after == Duration{}) return decide(end);
  set_timer(host_.now() + listen.accept_after, Timer::decide, end.serial);
  workload_.intend(host_.now() + listen.accept_after);
}

void HostApp::decide(OpenEnd& end) {
  if (end.over) return;
  workload_.intend(host_.now());
  const std::string& text = end.listen->private_data;
  end.record->private_data_given.assign(text.begin(), text.end());
  const ConstBytes data = end.record->private_data_given;
  const auto decided =
      end.reject ? end.id.reject(data) : end.id.accept({.transport = {}, .private_data = data, .qp = {}});
  if (!decided) {
    // The peer is gone meanwhile: ConnectFailed follows. Any other error is the workload's fault.
    if (decided.error() != make_error_code(Errc::wrong_state))
      workload_.judge_.add(
          "workload", host_.now(), end.attempt->label,
          fmt::format("{} was refused: {}", end.reject ? "reject()" : "accept()", decided.error().message()));
    return;
  }
  (end.reject ? end.record->refused : end.record->accepted) = true;
  if (end.reject)
    end_of(end);  // its user gets no more events
  else
    set_timer(host_.now() + workload_.patience(*end.spec), Timer::watch, end.serial);
}

void HostApp::on(cm::Established& event) {
  OpenEnd* end = find(event.id);
  if (end == nullptr) return stray("Established", event.id);
  record_event(*end, {.what = check::CmEventKind::established});
  end->record->setup = event.steps.established;
  if (event.mpa() != nullptr) end->record->parameters = *event.mpa();
  end->record->parameters.reasons = {};
  if (const auto* ib = std::get_if<ib::Parameters>(&event.parameters)) {
    end->record->ib = *ib;
    end->record->parameters.ird = event.ird;
    end->record->parameters.ord = event.ord;
    end->record->parameters.depths_negotiated = true;
  }
  if (end->record->role == mpa::Role::initiator) end->record->private_data_got = std::move(event.private_data);
  if (end->over) return;
  set_timer(host_.now() + workload_.patience(*end->spec), Timer::watch, end->serial);
  end->transfer->established(end->record->parameters, host_.now());
  after_progress(*end);
  await(*end);
}

void HostApp::on(cm::Rejected& event) {
  OpenEnd* end = find(event.id);
  if (end == nullptr) return stray("Rejected", event.id);
  end->record->private_data_got = std::move(event.private_data);
  record_failure(*end, check::CmEventKind::rejected, event.why);
  end_of(*end);
}

void HostApp::on(cm::ConnectFailed& event) {
  for (const auto& [number, listen] : listening_) {
    if (number != event.id.number()) continue;
    workload_.judge_.add("workload", host_.now(), {},
                         fmt::format("{} cannot listen: {}", host_.name(), event.why.to_string()));
    return;
  }
  OpenEnd* end = find(event.id);
  // A peer that fails before its ConnectRequest is reported with an id that was never known (docs/cm.md).
  if (end == nullptr && event.responder) {
    if (!event.why.code || event.why.to_string().empty())
      workload_.judge_.add("settlement", host_.now(), {},
                           host_.name() + " was notified of a failed peer without a reason");
    return;
  }
  if (end == nullptr) return stray("ConnectFailed", event.id);
  record_failure(*end, check::CmEventKind::failed, event.why);
  end_of(*end);
}

void HostApp::on(cm::Retrying& event) {
  OpenEnd* end = find(event.id);
  if (end == nullptr) return stray("Retrying", event.id);
  if (event.peer.port != 0) end->record->peer = event.peer;  // first: its address may be known by now
  record_failure(*end, check::CmEventKind::retrying, event.why);
  end->learned = false;
  learn_later(*end);
}

void HostApp::on(cm::Disconnected& event) {
  OpenEnd* end = find(event.id);
  if (end == nullptr) return stray("Disconnected", event.id);
  if (event.graceful)
    record_event(*end, {.what = check::CmEventKind::disconnected, .graceful = true});
  else
    record_failure(*end, check::CmEventKind::disconnected, event.why);
  end->record->told.back().hung_up = roce_ && event.why.code == make_error_code(Errc::peer_closed);
  if (end->transfer) end->transfer->ended(host_.now());
  end_of(*end);
}

// Those peers had no id; their initiators learn it from TCP.
void HostApp::on(cm::TurnedAway& event) {
  if (event.gave_way + event.refused == 0 || !event.why.code || event.why.to_string().empty())
    workload_.judge_.add("settlement", host_.now(), {},
                         host_.name() + " was notified of dropped requests without a number or a reason");
}

void HostApp::after_progress(OpenEnd& end) {
  if (end.transfer->progress() != end.progress) {
    end.progress = end.transfer->progress();
    end.progress_at = host_.now();
  }
  if (end.over || !end.record->established() || !end.transfer->finished()) return;
  end.record->transfers_done = true;
  if (end.spec->closer == ClosingSide::nobody && !end.resting) {
    end.resting = true;
    ++resting_;
    --workload_.ends_open_;
    if (end.record->role == mpa::Role::initiator) workload_.attempt_rests(*end.attempt);
  }
  if (end.closing || !closes(*end.spec, end.record->role)) return;
  end.closing = true;
  if (end.spec->close_after == Duration{}) return close(end);
  set_timer(host_.now() + end.spec->close_after, Timer::close, end.serial);
  workload_.intend(host_.now() + end.spec->close_after);
}

void HostApp::close(OpenEnd& end) {
  if (end.over) return;
  workload_.intend(host_.now());
  if (end.id.disconnect()) end.record->asked_to_close = true;  // else it has ended, and the event is on its way
}

// No progress: a program would close after a while instead of waiting for ever for a peer that is gone.
void HostApp::watch(OpenEnd& end) {
  if (end.over || end.resting) return;
  const Duration patience = workload_.patience(*end.spec);
  // A permanent fault must not keep its user waiting for ever.
  const Instant since = std::min(std::max(end.progress_at, end.attempt->touched_at), end.progress_at + patience);
  const Instant due = since + patience;
  if (host_.now() < due) return set_timer(due, Timer::watch, end.serial);
  give_up(end);
}

// The awaited datagrams may be lost; then it continues without them.
void HostApp::await(OpenEnd& end) {
  if (end.over || end.closing || end.resting) return;
  const auto longest = end.transfer->longest_silence();
  if (!longest) return;
  if (host_.now() >= end.progress_at + *longest) {
    end.transfer->silent(host_.now());
    end.progress_at = host_.now();
    after_progress(end);
    if (end.closing || end.resting) return;
  }
  set_timer(end.progress_at + *end.transfer->longest_silence(), Timer::silence, end.serial);
}

void HostApp::give_up(OpenEnd& end) {
  if (end.record->gave_up) return;
  end.record->gave_up = true;
  if (!end.attempt->touched)
    workload_.judge_.add(
        "convergence", host_.now(), end.attempt->label,
        fmt::format("the {} waited {} s without success and closed by itself, though no fault touched the "
                    "connection; {}",
                    end.record->role == mpa::Role::initiator ? "initiator" : "responder",
                    workload_.patience(*end.spec) / std::chrono::seconds(1), end.transfer->pending()));
  if (end.record->established()) return close(end);
  end.record->dropped = true;
  end.id.destroy();
  end_of(end);
}

void HostApp::end_of(OpenEnd& end) {
  if (end.over) return;
  end.over = true;
  if (end.resting)
    --resting_, end.resting = false;
  else
    --workload_.ends_open_;
  set_timer(host_.now() + grace, Timer::forget, end.serial);
  if (end.record->role == mpa::Role::initiator) workload_.attempt_over(*end.attempt);
}

void HostApp::forget(OpenEnd& end) {
  by_id_.erase(end.id.number());
  if (QueuePair* qp = end.id.qp()) by_qp_.erase(qp->qp_num());
  end.id.destroy();
  if (end.transfer)
    if (const auto closed = end.transfer->close(host_.device()); !closed)
      workload_.judge_.add("bounds", host_.now(), end.attempt->label,
                           "a memory region is still held after its queue pair is gone: " + closed.error().message());
  live_[end.serial].reset();
}

}  // namespace parley::sim
