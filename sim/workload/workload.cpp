// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/workload/workload.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/gid.hpp"
#include "base/text.hpp"
#include "sim/workload/workload_host.hpp"

namespace parley::sim {
namespace {

constexpr std::uint32_t no_wanted = ~std::uint32_t{0};
/// A restart tied to a frame may come this long after the crash; then the workload no longer waits for it.
constexpr Duration restart_wait = std::chrono::seconds(10);

/// It can connect, now or once it goes on: the host is up, and its process has not ended.
bool has_process(const Host& host) { return host.up() && !host.process_ended(); }

/// The host is paused, or its process stopped.
bool is_halted(const Host& host) { return has_process(host) && (host.paused() || host.process_stopped()); }

/// The action would end the state of a host that is down, halted or without a process.
bool revives(FaultAction action, const Host& host) {
  switch (action) {
    case FaultAction::restart: return true;
    case FaultAction::resume: return host.paused();
    case FaultAction::continue_process: return host.process_stopped();
    case FaultAction::crash:
    case FaultAction::end_process: return is_halted(host);  // the ends on it end then
    default: return false;
  }
}

std::string attempt_label(const Scenario& scenario, const check::Attempt& a) {
  const ScenarioConnect& c = scenario.connects[a.connect];
  std::string text = c.from;
  if (a.initiator.local.port != 0) text += fmt::format(":{}", a.initiator.local.port);
  text += fmt::format(" > {}:{} ({} of connect {}", c.to, c.port, ordinal(a.index + 1), a.connect + 1);
  if (a.attempt > 0) text += fmt::format(", {} try", ordinal(a.attempt + 1));
  return text + ")";
}

}  // namespace

Workload::Workload(const Scenario& scenario, World& world, check::Judge& judge)
    : scenario_(scenario),
      world_(world),
      judge_(judge),
      groups_(scenario),
      xrc_(scenario),
      next_index_(scenario.connects.size()),
      requests_seen_(scenario.listens.size()) {
  for (const ScenarioConnect& c : scenario.connects) wanted_total_ += c.count;
  for (const ScenarioFault& f : scenario.faults)
    if (f.link.empty()) last_host_fault_ = std::max(last_host_fault_, f.rule.from + f.rule.delay);
  holds_up_ = std::any_of(scenario.faults.begin(), scenario.faults.end(), [](const ScenarioFault& f) {
    return f.rule.action == FaultAction::delay && !f.rule.reorder;
  });
}

Workload::~Workload() = default;

Checked<void> Workload::attach() {
  const Segments segments = link_segments(scenario_);
  const RouteFinder finder(scenario_, segments);
  for (const ScenarioConnect& c : scenario_.connects) {
    auto route = finder.find(c);
    if (!route) return tl::unexpected(route.error());
    routes_.push_back(*route);
    intend(c.at);
  }
  know_hosts();
  for (const ScenarioExit& exit : scenario_.exits) intend(exit.at);
  for (std::size_t i = 0; i < world_.host_count(); ++i) {
    Host& host = world_.host(i);
    apps_.push_back(std::make_unique<HostApp>(*this, host, i, *finder.host(host.name())->host));
    host.set_app(apps_.back().get());
  }
  index_by_host();
  return {};
}

void Workload::index_by_host() {
  for (const auto& app : apps_) app_of_[app->host().name()] = app.get();
  connects_of_.resize(apps_.size());
  listens_of_.resize(apps_.size());
  faults_of_.resize(apps_.size());
  for (std::size_t i = 0; i < scenario_.connects.size(); ++i)
    if (const HostApp* app = find_app(scenario_.connects[i].from)) connects_of_[app->index()].push_back(i);
  for (std::size_t i = 0; i < scenario_.listens.size(); ++i)
    if (const HostApp* app = find_app(scenario_.listens[i].host)) listens_of_[app->index()].push_back(i);
  for (std::size_t i = 0; i < scenario_.faults.size(); ++i)
    if (const HostApp* app = find_app(scenario_.faults[i].host)) faults_of_[app->index()].push_back(i);
}

HostApp* Workload::find_app(std::string_view host) const {
  const auto found = app_of_.find(host);
  return found == app_of_.end() ? nullptr : found->second;
}

void Workload::know_hosts() {
  if (!groups_.used) return;
  for (std::size_t i = 0; i < world_.host_count(); ++i) {
    const Host& host = world_.host(i);
    for (std::uint16_t nic = 0; nic < host.nic_count(); ++nic)
      for (const Address& own :
           {host.address(Address::Family::v4, nic), host.address(Address::Family::v6, nic), host.link_local(nic)})
        groups_.history.add_host(gid_of(own), host.name());
  }
  for (const ScenarioMember& member : scenario_.members) intend(member.until == never ? member.at : member.until);
  for (const ScenarioSend& send : scenario_.sends)
    intend(send.at + send.interval * (send.messages == 0 ? 0 : send.messages - 1));
}

check::Attempt& Workload::new_attempt(std::uint32_t wanted, HostApp& app) {
  PlannedConnection& w = wanted_[wanted];
  check::Attempt& a = attempts_.emplace_back();
  a.number = static_cast<std::uint32_t>(attempts_.size() - 1);
  a.connect = w.connect;
  a.index = w.index;
  a.attempt = w.tries++;
  a.started = app.host().now();
  a.label = attempt_label(scenario_, a);
  a.initiator.host = app.host().name();
  a.initiator.incarnation = app.host().incarnation();
  const Host* peer = world_.find_host(scenario_.connects[w.connect].to);
  a.touched = peer == nullptr || !has_process(*peer) || is_halted(*peer);
  a.roce = app.roce();
  a.datagrams = scenario_.connects[w.connect].qp == QpKind::ud;
  a.xrc = scenario_.connects[w.connect].qp == QpKind::xrc;
  if (a.datagrams && misled_) {  // datagrams sent to a wrong neighbour are not retransmitted
    a.touched = a.misled = true;
    a.touched_at = a.started;
  }
  attempt_wanted_.push_back(wanted);
  w.attempt = &a;
  return a;
}

void Workload::bind(const Address& local, const Address& peer, check::Attempt& attempt) {
  const StreamName name = stream_name(local, peer);
  by_stream_[name] = &attempt;
  if (const auto at = touched_.find(name); at != touched_.end()) {
    attempt.touched = true;
    attempt.corrupted = attempt.corrupted || at->second.corrupted;
    touched_.erase(at);
  }
  if (attempt_wanted_[attempt.number] != no_wanted) attempt.label = attempt_label(scenario_, attempt);
}

check::Attempt* Workload::find_attempt(const Address& initiator, const Address& responder) {
  for (auto app = learning_.begin(); app != learning_.end();)
    app = apps_[*app]->learn() ? learning_.erase(app) : std::next(app);
  const auto at = by_stream_.find(stream_name(initiator, responder));
  return at == by_stream_.end() ? nullptr : at->second;
}

Duration Workload::longest_delay() const {
  Duration longest{};
  for (const ScenarioFault& fault : scenario_.faults)
    if (fault.rule.action == FaultAction::delay) longest = std::max(longest, fault.rule.delay + fault.rule.jitter);
  return longest;
}

/// The peer's address belongs to the initiator's host.
bool Workload::is_of(const Address& peer, const ScenarioConnect& spec) const {
  const Host* host = world_.find_host(spec.from);
  for (std::uint16_t nic = 0; host != nullptr && nic < host->nic_count(); ++nic)
    for (const Address& own :
         {host->address(Address::Family::v4, nic), host->address(Address::Family::v6, nic), host->link_local(nic)})
      if (own.family == peer.family && own.octets == peer.octets) return true;
  return false;
}

// A responder's end whose initiator is unknown: its host crashed before its address was known.
check::Attempt& Workload::stray(const Address& peer, HostApp& app, const ScenarioListen& listen) {
  check::Attempt& a = attempts_.emplace_back();
  a.number = static_cast<std::uint32_t>(attempts_.size() - 1);
  bool found = false;
  for (std::size_t i = 0; i < scenario_.connects.size(); ++i) {
    const ScenarioConnect& c = scenario_.connects[i];
    const bool asks = c.to == listen.host && c.port == listen.port && c.qp == listen.qp;
    const bool better = !found || is_of(peer, c);
    if (!asks || !better) continue;
    a.connect = static_cast<std::uint32_t>(i);
    found = true;
  }
  a.started = app.host().now();
  // The address in the request may be forged by a fault.
  a.corrupted = std::any_of(attempts_.begin(), attempts_.end(), [&](const check::Attempt& other) {
    const ScenarioConnect &mine = scenario_.connects[a.connect], &its = scenario_.connects[other.connect];
    return other.roce && other.corrupted && its.from == mine.from && its.to == mine.to;
  });
  a.label = fmt::format("{} > {}:{} (no known initiator)", peer.to_string(), app.host().name(), listen.port);
  a.initiator.crashed = true;
  a.touched = true;
  a.roce = app.roce();
  a.datagrams = scenario_.connects[a.connect].qp == QpKind::ud;
  a.xrc = scenario_.connects[a.connect].qp == QpKind::xrc;
  attempt_wanted_.push_back(no_wanted);
  return a;
}

bool Workload::wants_retry(const PlannedConnection& wanted) const {
  const ScenarioConnect& spec = scenario_.connects[wanted.connect];
  if (wanted.tries > spec.retries) return false;
  const check::End& end = wanted.attempt->initiator;
  if (end.crashed) return true;
  if (end.find(check::CmEventKind::rejected) != nullptr) return spec.expect == Expect::established;
  return !(end.established() && end.transfers_done && end.graceful());
}

bool Workload::is_last(const check::Attempt& attempt) const {
  const std::uint32_t index = attempt_wanted_[attempt.number];
  return index == no_wanted || wanted_[index].attempt == &attempt;
}

void Workload::attempt_over(check::Attempt& attempt) {
  const std::uint32_t index = attempt_wanted_[attempt.number];
  if (attempt.initiator.local.port == 0 && last_fault_ >= attempt.started && last_fault_ != Instant{})
    attempt.touched = true;  // its stream was never known; any fault may have hit it
  if (index == no_wanted || wanted_[index].attempt != &attempt || wanted_[index].done) return;
  PlannedConnection& wanted = wanted_[index];
  if (!wants_retry(wanted)) {
    wanted.done = true;
    attempt.last = true;
    --wanted_open_;
    return;
  }
  const ScenarioConnect& spec = scenario_.connects[wanted.connect];
  HostApp* app = find_app(spec.from);
  if (app != nullptr && has_process(app->host())) app->schedule_try(index, spec.retry_after);
}

// An attempt that neither side closes: it has reached its final state.
void Workload::attempt_rests(check::Attempt& attempt) {
  const std::uint32_t index = attempt_wanted_[attempt.number];
  if (index == no_wanted || wanted_[index].attempt != &attempt || wanted_[index].done) return;
  wanted_[index].done = true;
  attempt.last = true;
  --wanted_open_;
}

bool Workload::comes_back(const std::string& name) const {
  const HostApp* app = find_app(name);
  if (app == nullptr) return true;
  const Host& host = app->host();
  if (has_process(host) && !is_halted(host)) return true;
  if (nothing_left_) return false;
  for (const std::size_t index : faults_of_[app->index()]) {
    const ScenarioFault& fault = scenario_.faults[index];
    if (!revives(fault.rule.action, host)) continue;
    const Instant by_time = fault.rule.from + fault.rule.delay;
    const bool by_frame = !fault.link.empty();
    if (by_time > world_.now() || (by_frame && world_.now() < app->halted_at() + fault.rule.delay + restart_wait))
      return true;
  }
  return false;
}

Duration Workload::patience(const ScenarioConnect& spec) const {
  return scenario_.bounds.converge / 2 + spec.close_after;
}

bool Workload::stays_halted(const HostApp& app) const {
  return is_halted(app.host()) && !comes_back(app.host().name());
}

std::uint64_t Workload::ends_halted() const {
  std::uint64_t out = 0;
  for (const auto& app : apps_)
    if (halts_ && stays_halted(*app)) out += app->ends_open();
  return out;
}

bool Workload::settled() {
  if (ends_open_ > ends_halted()) return false;
  if (wanted_.size() < wanted_total_ || wanted_open_ > 0) {
    // Connections of a host that is down or halted for good will never exist, and their ends on it report nothing more.
    const auto& connects = scenario_.connects;
    while (all_started_ < connects.size() && next_index_[all_started_] >= connects[all_started_].count) ++all_started_;
    while (all_done_ < wanted_.size() && wanted_[all_done_].done) ++all_done_;
    for (std::size_t i = all_started_; i < connects.size(); ++i)
      if (next_index_[i] < connects[i].count && comes_back(connects[i].from)) return false;
    for (std::size_t i = all_done_; i < wanted_.size(); ++i)
      if (!wanted_[i].done && comes_back(connects[wanted_[i].connect].from)) return false;
  }
  if (!open_step().empty()) return false;
  bool resting = false;
  for (const auto& app : apps_) {
    app->wake_abandoned();
    resting = resting || app->resting() > 0;
  }
  // Connections that neither side closes must also survive the planned crashes.
  if (resting && world_.now() < last_host_fault_) return false;
  return ends_open_ <= ends_halted();
}

void Workload::leave_halted() {
  for (const auto& app : apps_)
    if (stays_halted(*app)) app->abandon();
}

std::string Workload::open_step() {
  for (std::size_t i = 0; i < scenario_.exits.size(); ++i)
    if (!xrc_.exits_done[i] && comes_back(scenario_.exits[i].host))
      return fmt::format("exit {} (process {} of {}:{}) has yet to come", i + 1, scenario_.exits[i].process,
                         scenario_.exits[i].host, scenario_.exits[i].port);
  if (!groups_.used) return {};
  for (std::size_t i = 0; i < groups_.sent.size(); ++i) {
    const ScenarioSend& send = scenario_.sends[i];
    const GroupWork::Sent& sent = groups_.sent[i];
    if ((sent.posted < send.messages || sent.completed < sent.posted) && comes_back(send.from))
      return fmt::format("send {} ({} to {}): {} of {} datagrams sent", i + 1, send.from, group_text(send.group),
                         sent.completed, send.messages);
  }
  for (std::size_t i = 0; i < groups_.stays.size(); ++i) {
    const ScenarioMember& member = scenario_.members[i];
    const bool done = groups_.stays[i] == GroupWork::MembershipState::over ||
                      (groups_.stays[i] == GroupWork::MembershipState::in && member.until == never);
    if (!done && comes_back(member.host))
      return fmt::format("member {} ({} in {}) has yet to {}", i + 1, member.host, group_text(member.group),
                         groups_.stays[i] == GroupWork::MembershipState::in ? "leave" : "join");
  }
  return nothing_left_ ? std::string() : groups_.history.waits_for();
}

std::vector<std::string> Workload::pending(std::size_t max) {
  std::vector<std::string> out;
  if (std::string open = open_step(); !open.empty() && max > 0) out.push_back(std::move(open));
  for (std::size_t i = 0; i < scenario_.connects.size() && out.size() < max; ++i) {
    const ScenarioConnect& c = scenario_.connects[i];
    if (next_index_[i] < c.count)
      out.push_back(fmt::format("connect {} ({} > {}:{}): {} of {} not started", i + 1, c.from, c.to, c.port,
                                c.count - next_index_[i], c.count));
  }
  for (const PlannedConnection& w : wanted_) {
    if (w.done || out.size() >= max || !w.attempt->initiator.over()) continue;
    out.push_back(fmt::format("{}: another try is expected", w.attempt->label));
  }
  for (const auto& app : apps_) app->pending(out, max);
  return out;
}

std::size_t Workload::endpoints_expected(const std::string& host) const {
  const HostApp* app = find_app(host);
  return app == nullptr ? 0 : app->listeners() + app->resting();
}

std::size_t Workload::resting(const std::string& host) const {
  const HostApp* app = find_app(host);
  return app == nullptr ? 0 : app->resting();
}

std::map<StreamName, std::string> Workload::stream_labels() const {
  std::map<StreamName, std::string> out;
  for (const auto& [name, attempt] : by_stream_) out[name] = attempt->label;
  return out;
}

std::vector<StreamName> Workload::open_streams(const std::string& host) const {
  std::vector<StreamName> out;
  for (const auto& [name, attempt] : by_stream_) {
    const ScenarioConnect& spec = scenario_.connects[attempt->connect];
    const check::End* r = attempt->responder();
    const bool open = !attempt->initiator.over() || (r != nullptr && !r->over());
    if (open && (spec.from == host || spec.to == host)) out.push_back(name);
  }
  return out;
}

std::map<StreamName, std::size_t> Workload::stream_attempts() const {
  std::map<StreamName, std::size_t> out;
  for (const auto& [name, attempt] : by_stream_) out[name] = attempt->number;
  return out;
}

void Workload::touch_host(const std::string& host) {
  if (!host.empty()) {
    groups_.history.touch(host, world_.now());  // groups use no neighbour resolution
    halts_ = std::any_of(apps_.begin(), apps_.end(), [](const auto& app) { return is_halted(app->host()); });
    if (HostApp* app = find_app(host)) app->touched(world_.now());
  }
  for (check::Attempt& a : attempts_) {
    const ScenarioConnect& c = scenario_.connects[a.connect];
    const check::End* r = a.responder();
    const bool open = !a.initiator.over() || (r != nullptr && !r->over());
    if (!open || (!host.empty() && c.from != host && c.to != host)) continue;
    a.touched = a.misled = true;
    a.touched_at = world_.now();
  }
}

/// Its queue is destroyed, which affects every end that sends to it.
void Workload::touch_process(const ScenarioExit& exit) {
  for (check::Attempt& a : attempts_) {
    const ScenarioConnect& c = scenario_.connects[a.connect];
    if (!a.xrc || c.to != exit.host || c.port != exit.port || (c.srq != 0 && c.srq != exit.process)) continue;
    const check::End* r = a.responder();
    if (a.initiator.over() && (r == nullptr || r->over())) continue;
    a.touched = true;
    a.touched_at = world_.now();
  }
}

std::vector<check::XrcState> Workload::xrc_states() const {
  std::vector<check::XrcState> out;
  for (const auto& app : apps_)
    for (const auto& target : app->targets()) out.push_back(target->state());
  return out;
}

std::vector<XrcOutcome> Workload::xrc_outcomes() const {
  std::vector<XrcOutcome> out;
  for (std::size_t i = 0; i < scenario_.listens.size(); ++i) {
    const ScenarioListen& listen = scenario_.listens[i];
    if (listen.qp != QpKind::xrc) continue;
    XrcOutcome& one = out.emplace_back();
    one.label = fmt::format("{}:{}", listen.host, listen.port);
    xrc::Counters counters = xrc_.counters[i];
    for (const auto& app : apps_)
      for (const auto& target : app->targets()) {
        if (target->listen() != i) continue;
        counters.created += target->counters().created;
        counters.destroyed += target->counters().destroyed;
        counters.reaped += target->counters().reaped;
      }
    one.created = counters.created;
    one.destroyed = counters.destroyed;
    one.reaped = counters.reaped;
    for (const XrcWork::Process& process : xrc_.processes[i])
      one.processes.push_back({.exited = process.exited, .messages = process.messages, .octets = process.octets});
  }
  return out;
}

void Workload::touch_hosts(const Address& a, const Address& b, bool forged) {
  const auto is = [](const Address& known, const Address& x) {
    return known.octets == x.octets || known.is_any();  // not known yet
  };
  for (check::Attempt& attempt : attempts_) {
    const check::End &i = attempt.initiator, *r = attempt.responder();
    if (!attempt.roce || (i.over() && r != nullptr && r->over())) continue;
    const bool theirs = (is(i.local, a) && is(i.peer, b)) || (is(i.local, b) && is(i.peer, a));
    if (!theirs && !holds_up_) continue;
    attempt.touched = true;
    attempt.touched_at = world_.now();
    attempt.corrupted = attempt.corrupted || (forged && theirs);
  }
}

void Workload::touch_stream(const Address& a, const Address& b, bool corrupted) {
  const StreamName name = stream_name(a, b);
  const auto at = by_stream_.find(name);
  if (at != by_stream_.end()) {
    at->second->touched = true;
    at->second->touched_at = world_.now();
    at->second->corrupted = at->second->corrupted || corrupted;
  }
  // A later connection may reuse the addresses and ports, and not be known yet.
  if (at == by_stream_.end() || (at->second->initiator.over() && touched_.size() < 65536))
    touched_[name].corrupted |= corrupted;
}

}  // namespace parley::sim
