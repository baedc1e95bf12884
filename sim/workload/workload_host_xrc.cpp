// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// HostApp: both sides of XRC. An initiator asks for queues before it connects. A node's service answers by itself; the
// events passed to it show the events of its connections.
#include <fmt/format.h>

#include <algorithm>

#include "cm/core.hpp"
#include "cm/xrc/srqn.hpp"
#include "sim/workload/workload_host.hpp"
#include "sim/workload/workload_xrc.hpp"

namespace parley::sim {

// ---- the node ------------------------------------------------------------------------------------------------------

void HostApp::open_target(std::size_t index) {
  const ScenarioListen& listen = workload_.scenario_.listens[index];
  targets_.push_back(std::make_unique<XrcTarget>(
      XrcTarget::HostContext{.scenario = &workload_.scenario_,
                             .work = &workload_.xrc_,
                             .host = &host_,
                             .listen = index,
                             .judge = &workload_.judge_},
      [this, index](std::size_t process, ConstBytes message) { deliver(index, process, message); },
      [this] {
        return std::any_of(workload_.attempts_.begin(), workload_.attempts_.end(),
                           [](const check::Attempt& a) { return a.xrc && a.touched; });
      }));
  const auto family = listen.address == AddressKind::v4 ? Address::Family::v4 : Address::Family::v6;
  if (const auto started = targets_.back()->start(Address::any(family, listen.port)); !started) {
    workload_.judge_.add(
        "workload", host_.now(), {},
        fmt::format("{} cannot serve XRC on port {}: {}", host_.name(), listen.port, started.error().message()));
    targets_.pop_back();
    return;
  }
  for (std::size_t i = 0; i < workload_.scenario_.exits.size(); ++i) {
    const ScenarioExit& exit = workload_.scenario_.exits[i];
    if (exit.host != listen.host || exit.port != listen.port || workload_.xrc_.exits_done[i]) continue;
    set_timer(exit.at, Timer::exit, i);
  }
}

void HostApp::exit_process(std::size_t index) {
  const ScenarioExit& exit = workload_.scenario_.exits[index];
  for (const auto& target : targets_) {
    const ScenarioListen& listen = workload_.scenario_.listens[target->listen()];
    if (listen.port != exit.port || workload_.xrc_.exits_done[index]) continue;
    workload_.xrc_.exits_done[index] = true;
    workload_.touch_process(exit);
    target->exit(exit.process - 1, exit.how == ExitKind::kill);
  }
}

void HostApp::turn_targets() {
  if (targets_.empty()) return;
  while (const auto event = host_.device().poll_async_event())
    for (const auto& target : targets_) target->handle(*event);
  Instant next = never;
  for (const auto& target : targets_) {
    target->turn();
    next = std::min(next, target->next_deadline());
  }
  if (next != never && next != xrc_armed_) set_timer(xrc_armed_ = next, Timer::xrc, 0);
}

/// True: it belongs to the service, or answers a SIDR_REQ of this host.
bool HostApp::handle_xrc(cm::Event& event) {
  const std::uint64_t number = cm::endpoint_of(event);
  if (asked_.contains(number)) return answer(number, event), true;
  if (targets_.empty()) return false;
  if (const auto* request = std::get_if<cm::ConnectRequest>(&event)) {
    const auto* offered = std::get_if<ib::Parameters>(&request->offered);
    const auto local = request->id.local_address();
    for (const auto& target : targets_) {
      const std::size_t before = target->held();
      if (!target->handle(event)) continue;
      if (offered != nullptr && offered->qp_type != QpType::ud && local)  // the others ask for the number of a queue
        begin_held(*target, *request, *local, target->held() > before);
      return true;
    }
    return false;
  }
  bool taken = false;
  for (const auto& target : targets_) taken = target->handle(event) || taken;
  if (const auto at = held_.find(number); at != held_.end()) handle_xrc_event(at->second, event);
  return taken;
}

void HostApp::begin_held(const XrcTarget& target, const cm::ConnectRequest& request, const Address& local,
                         bool accepted) {
  const ScenarioListen& listen = workload_.scenario_.listens[target.listen()];
  check::Attempt* known = workload_.find_attempt(request.peer, local);
  check::Attempt& attempt = known != nullptr ? *known : workload_.stray(request.peer, *this, listen);
  attempt.responders.push_back(std::make_unique<check::End>());
  check::End& record = *attempt.responders.back();
  record.role = mpa::Role::responder;
  record.host = host_.name();
  record.incarnation = host_.incarnation();
  record.local = local;
  record.peer = request.peer;
  record.private_data_got = request.private_data;
  record.told.push_back({.what = check::CmEventKind::request, .at = host_.now()});
  (accepted ? record.accepted : record.refused) = true;
  if (!accepted) return;
  held_[request.id.number()] = {.attempt = &attempt, .record = &record, .listen = target.listen()};
  ++workload_.ends_open_;
  set_timer(host_.now() + workload_.patience(workload_.scenario_.connects[attempt.connect]), Timer::held,
            request.id.number() & held_mask);
}

void HostApp::handle_xrc_event(XrcConnection& held, const cm::Event& event) {
  if (held.over) return;
  check::End& record = *held.record;
  const auto failed = [&](check::CmEventKind what, const cm::Failure& why) {
    record.told.push_back({.what = what,
                           .at = host_.now(),
                           .has_code = static_cast<bool>(why.code),
                           .in_close = why.stage() == cm::Stage::closing,
                           .words = why.to_string()});
    end_of(held);
  };
  if (const auto* up = std::get_if<cm::Established>(&event)) {
    record.told.push_back({.what = check::CmEventKind::established, .at = host_.now()});
    record.setup = up->steps.established;
    if (const auto* ib = std::get_if<ib::Parameters>(&up->parameters)) record.ib = *ib;
    record.parameters.ird = up->ird;
    record.parameters.ord = up->ord;
    record.transfers_done = record.transfers_done || workload_.scenario_.connects[held.attempt->connect].messages == 0;
  } else if (const auto* over = std::get_if<cm::Disconnected>(&event)) {
    const bool hung_up = over->why.code == make_error_code(Errc::peer_closed);
    if (!over->graceful) {
      failed(check::CmEventKind::disconnected, over->why);
      record.told.back().hung_up = hung_up;
      return;
    }
    record.told.push_back(
        {.what = check::CmEventKind::disconnected, .at = host_.now(), .graceful = true, .hung_up = hung_up});
    end_of(held);
  } else if (const auto* why = std::get_if<cm::ConnectFailed>(&event)) {
    failed(check::CmEventKind::failed, why->why);
  }
}

void HostApp::end_of(XrcConnection& held) {
  if (held.over) return;
  held.over = true;
  --workload_.ends_open_;
}

/// A TGT queue pair does not learn that its peer's host has crashed (docs/xrc.md): its user stops waiting, and it
/// stays.
void HostApp::watch_held(std::uint64_t short_number) {
  for (auto& [number, held] : held_) {
    if ((number & held_mask) != short_number || held.over) continue;
    const Duration patience = workload_.patience(workload_.scenario_.connects[held.attempt->connect]);
    if (!held.attempt->initiator.over()) return set_timer(host_.now() + patience / 4, Timer::held, short_number);
    const Instant due = held.attempt->touched_at + patience;
    if (host_.now() < due) return set_timer(due, Timer::held, short_number);
    if (!held.attempt->touched)
      workload_.judge_.add("convergence", host_.now(), held.attempt->label,
                           "the service was never told of the end, though no fault touched the connection");
    held.record->gave_up = held.record->dropped = true;
    return end_of(held);
  }
}

void HostApp::deliver(std::size_t listen, std::size_t process, ConstBytes octets) {
  auto& attempts = workload_.attempts_;
  const auto refuse = [&](const std::string& label, const std::string& why) {
    const bool forged =
        std::any_of(attempts.begin(), attempts.end(), [](const check::Attempt& a) { return a.roce && a.corrupted; });
    if (!forged)
      workload_.judge_.add("delivery", host_.now(), label, fmt::format("process {} {}", process + 1, why), "IBA §A14");
  };
  const auto message = read_xrc_message(octets);
  if (!message || message->attempt >= attempts.size())
    return refuse({}, fmt::format("received {} octets that no peer sent", octets.size()));
  check::Attempt& attempt = attempts[message->attempt];
  const ScenarioConnect& spec = workload_.scenario_.connects[attempt.connect];
  const ScenarioListen& to = workload_.scenario_.listens[listen];
  if (!attempt.xrc || spec.to != to.host || spec.port != to.port || octets.size() != spec.octets ||
      message->message >= spec.messages || attempt.responders.empty())
    return refuse(attempt.label, fmt::format("got message {} that is not for it", message->message + 1));
  const bool to_each = spec.srq == 0 && workload_.scenario_.exits.empty();
  if ((spec.srq != 0 && spec.srq != process + 1) || (to_each && message->message % to.processes != process))
    return refuse(attempt.label, fmt::format("got message {} for another queue", message->message + 1));
  std::uint32_t& next = next_of_[{attempt.number, process}];
  if (message->message < next)
    return refuse(attempt.label,
                  fmt::format("got message {} behind a later one, or a second time", message->message + 1));
  next = message->message + 1;
  check::End& record = *attempt.responders.back();
  ++record.messages_got;
  record.octets_got += octets.size();
  record.transfers_done = record.messages_got == spec.messages;
  XrcWork::Process& of = workload_.xrc_.processes[listen][process];
  ++of.messages;
  of.octets += octets.size();
}

// ---- the initiator ------------------------------------------------------------------------------------------------

void HostApp::ask(OpenEnd& end) {
  const ScenarioConnect& spec = *end.spec;
  std::uint32_t processes = 1;
  for (const ScenarioListen& listen : workload_.scenario_.listens)
    if (listen.host == spec.to && listen.port == spec.port && listen.qp == QpKind::xrc) processes = listen.processes;
  const std::uint32_t first = spec.srq == 0 ? 1 : spec.srq, last = spec.srq == 0 ? processes : spec.srq;
  for (std::uint32_t process = first; process <= last; ++process) {
    const Bytes question = xrc::srqn_question(process);
    cm::ConnectOptions options;
    options.transport = ib::Options{.qp_type = QpType::ud};
    options.private_data = question;
    options.timeout = spec.timeout;
    const Route& route = workload_.routes_[end.attempt->connect];
    if (route.from_port != 0 && spec.address != AddressKind::link_local)
      options.local = host_.address(end.record->peer.family, route.from_port);
    const auto id = host_.cm().connect(end.record->peer, options);
    if (!id) {
      workload_.judge_.add("workload", host_.now(), end.attempt->label,
                           "connect() was refused: " + id.error().message());
      continue;
    }
    asked_[id->number()] = {.id = *id, .serial = end.serial, .process = process};
    ++end.asking;
  }
}

void HostApp::answer(std::uint64_t number, cm::Event& event) {
  const auto* up = std::get_if<cm::Established>(&event);
  const auto* rejected = std::get_if<cm::Rejected>(&event);
  const auto* failed = std::get_if<cm::ConnectFailed>(&event);
  if (up == nullptr && rejected == nullptr && failed == nullptr) return;  // it is asked again
  SidrQuery asked = asked_[number];
  asked_.erase(number);
  asked.id.destroy();
  OpenEnd* end = find(asked.serial);
  if (end == nullptr || end->over) return;
  --end->asking;
  const auto srqn = up != nullptr ? xrc::parse_srqn_answer(up->private_data) : std::nullopt;
  if (srqn) end->queues[asked.process] = *srqn;
  // A process that has exited has no queue; if others have one, these get all messages.
  if (rejected == nullptr && !srqn) {
    if (failed != nullptr)
      record_failure(*end, check::CmEventKind::failed, failed->why);
    else
      record_event(*end, {.what = check::CmEventKind::failed, .has_code = true, .words = "the answer names no queue"});
    return end_of(*end);
  }
  if (end->asking > 0) return;
  if (!end->queues.empty()) return connect_try(*end);
  record_failure(*end, check::CmEventKind::failed, rejected->why);
  end_of(*end);
}

}  // namespace parley::sim
