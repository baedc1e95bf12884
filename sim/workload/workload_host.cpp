// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// HostApp: listeners, starts, timers, and the end of incarnations. Reactions to events: workload_events.cpp.
#include "sim/workload/workload_host.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cm/providers/iwarp/mpa_options.hpp"
#include "sim/workload/workload_datagrams.hpp"
#include "sim/workload/workload_transfer.hpp"
#include "sim/workload/workload_xrc.hpp"

namespace parley::sim {
namespace {

// A cookie: kind, incarnation (a timer of an earlier one may still fire), index.
constexpr unsigned kind_shift = 56, incarnation_shift = 40;
constexpr std::uint64_t index_mask = (std::uint64_t{1} << incarnation_shift) - 1;
constexpr std::uint64_t incarnation_mask = 0xFFFF;

// Each queue pair reserves room for its posts; this is the total for all queue pairs of a host.
constexpr std::size_t completions_max = 1 << 20;
}  // namespace

HostApp::HostApp(Workload& workload, Host& host, std::size_t index, const ScenarioHost& spec)
    : workload_(workload), host_(host), index_(index), roce_(engine_of(spec) == NicEngine::roce) {
  const auto nic = workload.groups_.used ? only_roce_nic(workload.scenario_, spec) : std::nullopt;
  if (!nic) return;
  static constexpr Timer kinds[] = {Timer::join, Timer::leave, Timer::send};  // as GroupUser::Due
  groups_ = std::make_unique<GroupUser>(GroupUser::HostContext{.scenario = &workload.scenario_,
                                                               .work = &workload.groups_,
                                                               .host = &host,
                                                               .nic = *nic,
                                                               .judge = &workload.judge_},
                                        [this](Instant at, GroupUser::Due due, std::size_t number) {
                                          set_timer(at, kinds[static_cast<std::size_t>(due)], number);
                                        });
}
HostApp::~HostApp() = default;

template <class Options>
Options HostApp::options_of(const mpa::StartupOptions& mpa, QpKind qp) const {
  if (!roce_) return cm::with_mpa<Options>(mpa);
  Options options;
  if (qp == QpKind::ud) options.transport = ib::Options{.qp_type = QpType::ud};
  if (qp == QpKind::xrc) options.transport = ib::Options{.qp_type = QpType::xrc_ini};
  options.ird = mpa.ird;
  options.ord = mpa.ord;
  return options;
}

void HostApp::set_timer(Instant at, Timer kind, std::uint64_t index) {
  host_.set_timer(std::max(at, host_.now()), std::uint64_t{static_cast<std::uint8_t>(kind)} << kind_shift |
                                                 (host_.incarnation() & incarnation_mask) << incarnation_shift | index);
}

void HostApp::on_start(Host& host) {
  running_ = true;
  const bool restarted = host.incarnation() > 1;
  Device& device = host.device();
  if (const auto pd = device.alloc_pd()) pd_ = *pd;
  if (auto cq = device.create_cq(completions_max)) cq_ = std::move(*cq);
  for (const std::size_t i : workload_.listens_of_[index_]) {
    const ScenarioListen& listen = workload_.scenario_.listens[i];
    if (restarted && !listen.relisten) continue;
    if (listen.at <= host.now())
      open_listener(i);
    else
      set_timer(listen.at, Timer::listen, i);
  }
  if (groups_) groups_->start(restarted);
  schedule_all();
}

void HostApp::schedule_all() {
  const auto& connects = workload_.scenario_.connects;
  for (const std::size_t i : workload_.connects_of_[index_]) {
    const std::uint32_t next = workload_.next_index_[i];
    if (next < connects[i].count) set_timer(connects[i].at + connects[i].interval * next, Timer::next, i);
  }
  for (std::size_t i = 0; i < workload_.wanted_.size(); ++i) {
    const PlannedConnection& w = workload_.wanted_[i];
    if (!w.done && connects[w.connect].from == host_.name() && w.attempt->initiator.over())
      schedule_try(static_cast<std::uint32_t>(i), connects[w.connect].retry_after);
  }
}

void HostApp::schedule_try(std::uint32_t wanted, Duration after) {
  set_timer(host_.now() + after, Timer::start, wanted);
  workload_.intend(host_.now() + after);
}

void HostApp::on_crash(Host& host) {
  running_ = false;
  workload_.touch_host(host.name());
  std::vector<check::Attempt*> ended;
  for (auto& [number, held] : held_) {
    if (held.over) continue;
    held.record->crashed = true;
    end_of(held);
  }
  for (const auto& end : live_) {
    if (!end) continue;
    learn_address(*end);
    if (end->over) continue;
    end->record->crashed = true;
    if (!end->resting) --workload_.ends_open_;
    if (end->record == &end->attempt->initiator) ended.push_back(end->attempt);
  }
  live_.clear();
  by_id_.clear();
  by_qp_.clear();
  unlearned_.clear();
  listening_.clear();
  listeners_ = resting_ = 0;
  if (groups_) groups_->crash();
  asked_.clear();
  held_.clear();
  targets_.clear();
  xrc_armed_ = never;
  cq_.reset();
  for (check::Attempt* attempt : ended) workload_.attempt_over(*attempt);
}

void HostApp::on_timer(Host& host, std::uint64_t cookie) {
  if ((cookie >> incarnation_shift & incarnation_mask) != (host.incarnation() & incarnation_mask) || !running_) return;
  const auto kind = static_cast<Timer>(cookie >> kind_shift);
  const std::uint64_t index = cookie & index_mask;
  switch (kind) {
    case Timer::listen: return open_listener(index);
    case Timer::next: return start_next(static_cast<std::uint32_t>(index));
    case Timer::start: return start_try(static_cast<std::uint32_t>(index));
    case Timer::join: return groups_->due(GroupUser::Due::join, index);
    case Timer::leave: return groups_->due(GroupUser::Due::leave, index);
    case Timer::send: return groups_->due(GroupUser::Due::send, index);
    case Timer::exit: exit_process(index); return turn_targets();
    case Timer::held: return watch_held(index);
    case Timer::xrc: return turn_targets();
    default: break;
  }
  OpenEnd* end = find(index);
  if (end == nullptr) return;
  switch (kind) {
    case Timer::decide: decide(*end); break;
    case Timer::close: close(*end); break;
    case Timer::forget: forget(*end); break;
    case Timer::watch: watch(*end); break;
    case Timer::silence: await(*end); break;
    default: break;
  }
}

void HostApp::open_listener(std::size_t index) {
  const ScenarioListen& listen = workload_.scenario_.listens[index];
  if (listen.qp == QpKind::xrc) return open_target(index);
  const auto family = listen.address == AddressKind::v4 ? Address::Family::v4 : Address::Family::v6;
  auto options = options_of<cm::ListenOptions>(listen.mpa, listen.qp);
  options.pending_max = listen.pending_max;
  options.backlog = static_cast<int>(std::min<std::uint32_t>(listen.pending_max, 1 << 20));
  const auto id = host_.cm().listen(Address::any(family, listen.port), options);
  if (!id) {
    workload_.judge_.add(
        "workload", host_.now(), {},
        fmt::format("{} cannot listen on port {}: {}", host_.name(), listen.port, id.error().message()));
    return;
  }
  ++listeners_;
  listening_.push_back({id->number(), index});
}

void HostApp::start_next(std::uint32_t connect) {
  const ScenarioConnect& spec = workload_.scenario_.connects[connect];
  const std::uint32_t index = workload_.next_index_[connect]++;
  workload_.wanted_.push_back({.connect = connect, .index = index});
  ++workload_.wanted_open_;
  if (index + 1 < spec.count) {
    set_timer(spec.at + spec.interval * (index + 1), Timer::next, connect);
    workload_.intend(spec.at + spec.interval * (index + 1));
  }
  start_try(static_cast<std::uint32_t>(workload_.wanted_.size() - 1));
}

Address HostApp::peer_address(const ScenarioConnect& spec, const Route& route, std::uint16_t nic) const {
  const Host& to = *workload_.world_.find_host(spec.to);
  const auto family = spec.address == AddressKind::v4 ? Address::Family::v4 : Address::Family::v6;
  Address peer = spec.address == AddressKind::link_local ? to.link_local(nic) : to.address(family, nic);
  if (spec.address == AddressKind::link_local) peer.scope_id = host_.link_local(route.from_port).scope_id;
  peer.port = spec.port;
  return peer;
}

void HostApp::start_try(std::uint32_t wanted) {
  PlannedConnection& w = workload_.wanted_[wanted];
  if (w.done || (w.attempt != nullptr && !w.attempt->initiator.over())) return;
  const ScenarioConnect& spec = workload_.scenario_.connects[w.connect];
  const Route& route = workload_.routes_[w.connect];
  workload_.intend(host_.now());
  check::Attempt& attempt = workload_.new_attempt(wanted, *this);
  check::End& record = attempt.initiator;
  record.quirky = !spec.mpa.play_quirk.empty();
  record.private_data_given.assign(spec.private_data.begin(), spec.private_data.end());
  OpenEnd& end = add(attempt, record, spec);
  if (!prepare(end)) return;
  record.peer = peer_address(spec, route, route.to_port);
  spec.qp == QpKind::xrc ? ask(end) : connect_try(end);
}

void HostApp::connect_try(OpenEnd& end) {
  check::Attempt& attempt = *end.attempt;
  check::End& record = *end.record;
  const ScenarioConnect& spec = *end.spec;
  const Route& route = workload_.routes_[attempt.connect];
  if (auto* sender = dynamic_cast<XrcSend*>(end.transfer.get()))
    for (const auto& [process, srqn] : end.queues) sender->aim(srqn);
  const Address peer = record.peer;
  auto options = options_of<cm::ConnectOptions>(spec.mpa, spec.qp);
  options.private_data = record.private_data_given;
  options.qp = end.transfer->qp_init(pd_, cq_.get());
  options.transport_timeout = spec.transport_timeout;
  options.timeout = spec.timeout;
  for (const std::uint16_t port : route.backup_ports) options.backups.push_back(peer_address(spec, route, port));
  // With backups, each address is reached over the NIC that leads to it.
  if (route.from_port != 0 && spec.address != AddressKind::link_local && options.backups.empty())
    options.local = host_.address(peer.family, route.from_port);
  const auto id = host_.cm().connect(peer, options);
  if (!id) {
    workload_.judge_.add("workload", host_.now(), attempt.label, "connect() was refused: " + id.error().message());
    record.dropped = true;
    end_of(end);
    return;
  }
  end.id = *id;
  by_id_[id->number()] = end.serial;
  by_qp_[end.id.qp()->qp_num()] = end.serial;
  learn_later(end);
  end.transfer->use(*end.id.qp(), host_.now());
}

HostApp::OpenEnd& HostApp::add(check::Attempt& attempt, check::End& record, const ScenarioConnect& spec) {
  live_.push_back(std::make_unique<OpenEnd>());
  OpenEnd& end = *live_.back();
  end.serial = static_cast<std::uint32_t>(live_.size() - 1);
  end.attempt = &attempt;
  end.record = &record;
  end.spec = &spec;
  end.progress_at = host_.now();
  record.host = host_.name();
  record.incarnation = host_.incarnation();
  ++workload_.ends_open_;
  return end;
}

bool HostApp::prepare(OpenEnd& end) {
  TransferPlan plan{.kind = end.spec->transfer,
                    .messages = end.spec->messages,
                    .octets = end.spec->octets,
                    .both_ways = end.spec->both_ways,
                    .number = end.attempt->number,
                    .role = end.record->role,
                    .roce = roce_,
                    .touched = &end.attempt->touched};
  if (end.listen != nullptr) plan.ird = end.listen->mpa.ird == mpa::depth_not_negotiated ? 1 : end.listen->mpa.ird;
  if (end.spec->qp == QpKind::xrc)
    end.transfer =
        std::make_unique<XrcSend>(plan, *end.record, end.attempt->label, end.attempt->corrupted, workload_.judge_);
  else if (end.spec->qp == QpKind::ud)
    end.transfer =
        std::make_unique<DatagramEnd>(plan, workload_.patience(*end.spec), workload_.longest_delay(), *end.record,
                                      end.attempt->label, end.attempt->corrupted, workload_.judge_);
  else
    end.transfer =
        std::make_unique<TransferEnd>(plan, *end.record, end.attempt->label, end.attempt->corrupted, workload_.judge_);
  const auto opened = end.transfer->open(host_.device(), pd_);
  if (opened) return true;
  workload_.judge_.add("workload", host_.now(), end.attempt->label,
                       "memory could not be registered: " + opened.error().message());
  end.record->dropped = true;
  end_of(end);
  return false;
}

std::size_t HostApp::listeners() const {
  std::size_t out = listeners_ + (groups_ && running_ ? groups_->listeners() : 0);
  for (const auto& target : targets_) out += 2 + target->held();  // its service listens for REQs and for SIDR_REQs
  return out;
}

void HostApp::learn_later(const OpenEnd& end) {
  unlearned_.push_back(end.serial);
  workload_.learning_.insert(index_);
}

bool HostApp::learn() {
  for (std::size_t i = 0; i < unlearned_.size();) {
    OpenEnd* end = find(unlearned_[i]);
    if (end != nullptr && !end->learned) learn_address(*end);
    if (end == nullptr || end->learned)
      unlearned_.erase(unlearned_.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
  }
  return unlearned_.empty();
}

void HostApp::learn_address(OpenEnd& end) {
  if (end.learned || !end.id) return;
  const auto local = end.id.local_address();
  // On an HCA, a connection knows its port before its address.
  if (!local || local->port == 0 || local->is_any() || *local == end.record->local) return;
  end.learned = true;
  end.record->local = *local;
  if (end.record->role == mpa::Role::initiator) workload_.bind(*local, end.record->peer, *end.attempt);
}

HostApp::OpenEnd* HostApp::find(const cm::Id& id) {
  const auto at = by_id_.find(id.number());
  return at == by_id_.end() ? nullptr : find(at->second);
}

void HostApp::wake_abandoned() {
  for (const auto& end : live_) {
    if (!end || !end->resting) continue;
    const check::End* other =
        end->record->role == mpa::Role::initiator ? end->attempt->responder() : &end->attempt->initiator;
    if (other != nullptr && other->established() && !other->over()) continue;
    end->resting = false;
    --resting_;
    ++workload_.ends_open_;
    set_timer(host_.now(), Timer::watch, end->serial);
  }
}

std::size_t HostApp::ends_open() const {
  const auto live = std::count_if(live_.begin(), live_.end(), [](const std::unique_ptr<OpenEnd>& end) {
    return end != nullptr && !end->over && !end->resting;
  });
  const auto held = std::count_if(held_.begin(), held_.end(), [](const auto& at) { return !at.second.over; });
  return static_cast<std::size_t>(live + held);
}

void HostApp::abandon() {
  for (const auto& end : live_) {
    if (!end || end->over || end->resting) continue;
    end->record->stopped = true;
    if (end->record->role == mpa::Role::initiator) workload_.attempt_rests(*end->attempt);
    end_of(*end);
  }
  for (auto& [number, held] : held_) {
    if (held.over) continue;
    held.record->stopped = true;
    end_of(held);
  }
}

void HostApp::pending(std::vector<std::string>& out, std::size_t max) const {
  for (const auto& end : live_) {
    if (!end || end->over || end->resting || out.size() >= max) continue;
    const check::End& record = *end->record;
    out.push_back(fmt::format("{}: the {} on {} waits; last told {}; {}{}", end->attempt->label,
                              record.role == mpa::Role::initiator ? "initiator" : "responder", host_.name(),
                              record.told.empty() ? "nothing" : to_string(record.told.back().what),
                              end->transfer ? end->transfer->pending() : "nothing decided",
                              record.asked_to_close ? ", closing" : ""));
  }
  for (const auto& [number, held] : held_)
    if (!held.over && out.size() < max)
      out.push_back(fmt::format("{}: the service on {} waits; last told {}, {} messages came", held.attempt->label,
                                host_.name(), to_string(held.record->told.back().what), held.record->messages_got));
}

}  // namespace parley::sim
