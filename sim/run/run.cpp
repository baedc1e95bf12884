// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/run/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "cm/providers/iwarp/iwarp.hpp"
#include "sim/check/agreement.hpp"
#include "sim/check/bounds.hpp"
#include "sim/check/congestion.hpp"
#include "sim/check/delivery.hpp"
#include "sim/check/expectation.hpp"
#include "sim/check/faults.hpp"
#include "sim/check/settlement.hpp"
#include "sim/net/engine.hpp"
#include "sim/run/run_watch.hpp"
#include "sim/run/run_world.hpp"

namespace parley::sim {
namespace {

constexpr std::size_t pending_max = 100, outcomes_max = 10'000;  // limits in RunReport
constexpr std::uint64_t look_every = 1024;                       // events between two calls of keep_going
/// After everything has settled, TCP may still have to close or give up; the network becomes silent within this time.
constexpr Duration silence_time = std::chrono::hours(2);
constexpr std::uint64_t silence_events = 2'000'000;

void add_ends(World& world, const std::string& name, std::uint16_t port, std::set<Address>& out) {
  const Host* host = world.find_host(name);
  if (host == nullptr) return;
  for (std::uint16_t p = 0; p < host->nic_count(); ++p) {
    for (Address a :
         {host->address(Address::Family::v4, p), host->address(Address::Family::v6, p), host->link_local(p)}) {
      a.scope_id = 0;
      a.port = port;
      out.insert(a);
    }
  }
}

check::WireOptions wire_options(const Scenario& scenario, World& world) {
  check::WireOptions out;
  out.fence = scenario.bounds.fence;
  for (const ScenarioHost& h : scenario.hosts)
    if (!h.options.hca.play_quirk.empty()) add_ends(world, h.name, 0, out.quirky);
  for (const ScenarioListen& l : scenario.listens)
    if (!l.mpa.play_quirk.empty()) add_ends(world, l.host, l.port, out.quirky);
  for (const ScenarioConnect& c : scenario.connects) {
    if (!c.mpa.play_quirk.empty()) add_ends(world, c.from, 0, out.quirky);
    if (c.mpa.rtr_by_s && c.mpa.rtr != mpa::Rtr::frame) add_ends(world, c.from, 0, out.announce_by_s);
  }
  return out;
}

/// First the members, then the sends.
std::vector<GroupOutcome> group_outcomes(const Scenario& scenario, const GroupWork& work) {
  std::vector<GroupOutcome> out;
  for (std::size_t i = 0; i < scenario.members.size(); ++i) {
    GroupOutcome& one = out.emplace_back();
    one.label = member_label(scenario, i);
    std::set<std::pair<std::uint32_t, std::uint32_t>> heard;  // in all lives of its host
    for (const check::GroupReceiver& receiver : work.history.receivers) {
      if (receiver.label != one.label) continue;
      for (const auto& [datagram, times] : receiver.heard) heard.insert(datagram);
      one.octets += receiver.octets;
    }
    one.datagrams = heard.size();
  }
  for (std::size_t i = 0; i < scenario.sends.size(); ++i) {
    const ScenarioSend& send = scenario.sends[i];
    const std::uint64_t posted = work.sent[i].posted;
    out.push_back({.label = fmt::format("{} to {} (send {})", send.from, group_text(send.group), i + 1),
                   .sends = true,
                   .datagrams = posted,
                   .octets = posted * send.octets});
  }
  return out;
}

/// One scenario in its own world.
class Run {
 public:
  Run(const Scenario& scenario, const RunOptions& options)
      : scenario_(scenario), options_(options), world_(options.seed), workload_(scenario, world_, judge_) {}

  RunReport carry_out() {
    report_.scenario = scenario_.name;
    report_.seed = options_.seed;
    report_.bounds = bounds_of(scenario_);
    if (const auto ready = prepare(); !ready) {
      judge_.add("scenario", world_.now(), {}, ready.error());
    } else {
      until_settled();
      const std::vector<FaultTally> when_settled = world_.fault_tallies();
      report_.finished_at = world_.now();
      if (report_.end == RunEnd::settled)
        workload_.leave_halted();
      else
        report_.pending = workload_.pending(pending_max);
      judge_attempts();
      until_silent();
      judge_world();
      const bool masked = options_.drop_mask && options_.drop_mask->bits != 0;  // may drop the frames that a fault
                                                                                // would hit
      if (report_.end == RunEnd::settled && !masked)
        check::check_faults(scenario_, when_settled, world_.fault_tallies(), world_.now(), judge_);
    }
    summarise();
    return std::move(report_);
  }

 private:
  Checked<void> prepare() {
    if (auto built = build_world(scenario_, world_, options_.trace); !built) return built;
    if (auto attached = workload_.attach(); !attached) return attached;
    wire_.emplace(wire_options(scenario_, world_));
    convergence_.emplace(scenario_);
    const bool marks = std::any_of(scenario_.hosts.begin(), scenario_.hosts.end(),
                                   [](const ScenarioHost& node) { return node.switching.ecn_threshold != 0; });
    if (marks) congestion_.emplace();
    watch_.emplace(world_, workload_, *wire_, *convergence_, congestion_ ? &*congestion_ : nullptr, options_.tap);
    world_.set_tap(&*watch_);
    if (options_.drop_mask) world_.set_drop_mask(options_.drop_mask->bits, options_.drop_mask->layer);
    if (options_.on_world) options_.on_world(world_);
    return {};
  }

  void until_settled() {
    const Instant end = world_.now() + report_.bounds.time;
    report_.end = RunEnd::settled;
    for (std::uint64_t events = 0;; ++events) {
      if (events > 0 && workload_.quiet() && workload_.settled()) return;
      if (events >= *report_.bounds.events) return stop(RunEnd::event_bound);
      if (!world_.step(end)) return nothing_happens();
      if (world_.now() > convergence_->deadline(workload_.last_intent())) {
        (void)convergence_->overdue(world_.now(), workload_.last_intent(), workload_.pending(pending_max), judge_);
        return stop(RunEnd::converge_bound);
      }
      if (events % look_every == 0 && options_.keep_going && !options_.keep_going()) return stop(RunEnd::stopped);
    }
  }

  void stop(RunEnd how) { report_.end = how; }

  /// No event is pending within the time limit. If there is none at all, hosts that are down need not be awaited.
  void nothing_happens() {
    if (world_.counters().exhausted) {
      judge_.add("bounds", world_.now(), {}, exhausted_text(scenario_.neighbours));
      return stop(RunEnd::exhausted);
    }
    if (world_.counters().events_pending == 0) workload_.nothing_left();
    if (!workload_.quiet() || !workload_.settled()) stop(RunEnd::time_bound);
  }

  /// The workload has ended: runs the remaining network traffic until no event is left.
  void until_silent() {
    if (report_.end != RunEnd::settled) return;
    const Instant end = world_.now() + silence_time;
    for (std::uint64_t events = 0; events < silence_events; ++events)
      if (!world_.step(end)) break;
    silent_ = world_.counters().events_pending == 0;
    workload_.leave_halted();  // also ends that a frame on its way has made since
    // Kernels probe the window of a stopped process for ever (RFC 9293 §3.8.6.1).
    if (!silent_ && !workload_.halts())
      judge_.add("bounds", world_.now(), {},
                 fmt::format("everything is over, but the network does not fall silent: {} events are pending",
                             world_.counters().events_pending));
  }

  void judge_attempts() {
    const bool ended = report_.end == RunEnd::settled;
    for (const check::Attempt& attempt : workload_.attempts()) {
      check::check_agreement(attempt, ended, world_.now(), judge_);
      if (!ended) continue;
      check::check_complete(attempt, world_.now(), judge_);
      if (attempt.last) check::check_expectation(attempt, scenario_.connects[attempt.connect], world_.now(), judge_);
    }
  }

  void judge_world() {
    const bool ended = report_.end == RunEnd::settled;
    for (const check::Attempt& attempt : workload_.attempts()) {
      const bool stays = scenario_.connects[attempt.connect].closer == ClosingSide::nobody;
      check::check_settlement(attempt.initiator, attempt.label, ended, stays, world_.now(), judge_);
      check::check_timewait(attempt, judge_);
      for (const auto& r : attempt.responders)
        check::check_settlement(*r, attempt.label, ended, stays, world_.now(), judge_);
    }
    judge_groups(ended);
    if (ended)
      for (const check::XrcState& state : workload_.xrc_states()) check::check_xrc(state, world_.now(), judge_);
    wire_->finish(workload_.stream_labels(), judge_);
    if (congestion_) congestion_->finish(workload_.attempts(), judge_);
    check::check_frames(world_.counters(), report_.bounds, world_.now(), judge_);
    for (std::size_t i = 0; i < world_.host_count(); ++i) {
      Host& host = world_.host(i);
      check::HostState state{.name = host.name(),
                             .up = host.up() && !host.paused() && !host.process_stopped(),
                             .counters = host.counters(),
                             .endpoints_expected = workload_.endpoints_expected(host.name()),
                             .streams_expected = workload_.resting(host.name())};
      if (state.up) {
        (void)host.cm();  // any access from outside makes the host run its pending work
        state.endpoints = host.endpoint_count();
      }
      check::check_queues(state, report_.bounds, world_.now(), judge_);
      if (ended) check::check_left_over(state, silent_, world_.now(), judge_);
    }
  }

  void judge_groups(bool ended) {
    if (!workload_.groups().used || !ended) return;
    workload_.groups().history.judge(world_.now(), judge_);
    const std::vector<GroupOutcome> outcomes = group_outcomes(scenario_, workload_.groups());
    for (std::size_t i = 0; i < scenario_.members.size(); ++i) {
      const auto& expect = scenario_.members[i].expect;
      if (expect && outcomes[i].datagrams != *expect)
        judge_.add("expectation", world_.now(), outcomes[i].label,
                   fmt::format("got {} datagrams, and {} were expected", outcomes[i].datagrams, *expect));
    }
  }

  /// A connection has the outcome of its last attempt.
  void count(const check::Attempt& attempt) {
    if (!workload_.is_last(attempt)) {
      ++report_.retries;
      return;
    }
    const check::End& i = attempt.initiator;
    if (i.established())
      ++report_.established;
    else if (i.find(check::CmEventKind::rejected) != nullptr)
      ++report_.rejected;
    else if (i.over())
      ++report_.failed;
  }

  void summarise() {
    report_.groups = group_outcomes(scenario_, workload_.groups());
    report_.xrc = workload_.xrc_outcomes();
    for (const check::Attempt& attempt : workload_.attempts()) {
      count(attempt);
      if (report_.outcomes.size() >= outcomes_max) continue;
      const check::End& i = attempt.initiator;
      const check::End* r = attempt.responder();
      report_.outcomes.push_back({.label = attempt.label,
                                  .initiator = check::outcome_text(&i),
                                  .responder = check::outcome_text(r),
                                  .setup = i.setup,
                                  .octets = i.octets_got + (r != nullptr ? r->octets_got : 0)});
    }
    report_.streams = workload_.stream_attempts();
    std::erase_if(report_.streams, [this](const auto& stream) { return stream.second >= report_.outcomes.size(); });
    report_.faults_hit = watch_ ? watch_->faults() : 0;
    report_.lost_at_hosts = watch_ ? watch_->lost_at_hosts() : 0;
    report_.queue_drops = watch_ ? watch_->queue_drops() : 0;
    report_.counters = world_.counters();
    for (std::size_t i = 0; i < world_.host_count(); ++i) {
      const HostCounters host = std::as_const(world_).host(i).counters();
      report_.cnp_sent += host.cnp_sent;
      report_.cnp_held += host.cnp_held;
      report_.cnp_received += host.cnp_received;
    }
    report_.violations = judge_.take();
    std::stable_sort(report_.violations.begin(), report_.violations.end(),
                     [](const Violation& a, const Violation& b) { return a.at < b.at; });
    world_.set_tap(nullptr);
  }

  const Scenario& scenario_;
  const RunOptions& options_;
  RunReport report_;
  check::Judge judge_;
  World world_;
  Workload workload_;  // after the world: the workload's objects use devices of its hosts
  std::optional<check::WireCheck> wire_;
  std::optional<check::Convergence> convergence_;
  std::optional<check::Congestion> congestion_;  // only if switches mark congestion
  std::optional<RunWatch> watch_;
  bool silent_ = false;
};

}  // namespace

std::string connections_text(const RunReport& report) {
  std::string text;
  const auto add = [&text](std::uint64_t n, std::string_view word) {
    if (n > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, word);
  };
  add(report.established, "established");
  add(report.rejected, "rejected");
  add(report.failed, "failed");
  std::uint64_t made = 0, sent = 0, received = 0;
  for (const XrcOutcome& node : report.xrc) made += node.created;
  add(made, made == 1 ? "TGT queue pair" : "TGT queue pairs");
  for (const GroupOutcome& group : report.groups) (group.sends ? sent : received) += group.datagrams;
  if (report.groups.empty()) return text;
  return text + fmt::format("{}{} sent to groups, {} received", text.empty() ? "" : ", ", sent, received);
}

std::string exhausted_text(Neighbours neighbours) {
  return fmt::format(
      "the world takes no further step: it holds at most {} entries of pending events; write {}fewer hosts, or "
      "connections further apart (interval)",
      Engine::events_max, neighbours == Neighbours::known ? "" : "neighbours = \"known\", or ");
}

RunReport run_scenario(const Scenario& scenario, const RunOptions& options) {
  Run run(scenario, options);
  return run.carry_out();
}

}  // namespace parley::sim
