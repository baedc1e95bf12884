// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "draw/ladder.hpp"
#include "parley/sim_trial.hpp"
#include "sim/record/record.hpp"

namespace parley::sim {

namespace {

constexpr std::size_t capture_octets_max = 64 << 20;

/// "a/p1 > b/p1: " in front of a fault.
std::string where(const World& world, LinkId link, LinkDirection way) {
  const std::string a = world.link_end(link, 0).name, b = world.link_end(link, 1).name;
  if (way == LinkDirection::backward) return fmt::format("{} > {}: ", b, a);
  return fmt::format("{} {} {}: ", a, way == LinkDirection::both ? "-" : ">", b);
}

/// Records what happens in a world, as ladder and capture.
class Recorder {
 public:
  Recorder(const TrialOptions& options, std::uint64_t seed)
      : ladder_(options.rows_max),
        pcapng_({"parley", "a test", seed}, [this](ConstBytes octets) { return keep(octets); }) {
    ladder_.set_info({"parley", "the run with the faults that it needs", seed});
    taps_.add(&ladder_);
    taps_.add(&pcapng_);
  }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void watch(World& world) {
    if (!std::exchange(begun_, true)) {
      ladder_.begin(world);
      pcapng_.begin(world);
    }
    world.set_tap(&taps_);
  }
  void finish(const TrialOptions& options, TrialsReport& report) {
    if (!begun_) return;
    pcapng_.finish(nullptr);
    const draw::Ladder drawn = ladder_.finish(nullptr);
    if (drawn.rows.empty()) return;
    report.ladder = draw::to_text(drawn, {.width = std::max<std::size_t>(options.width, 60), .ascii = options.ascii});
    report.pcapng = std::move(octets_);
  }

 private:
  bool keep(ConstBytes octets) {
    if (octets.size() > capture_octets_max - octets_.size()) return false;
    octets_.insert(octets_.end(), octets.begin(), octets.end());
    return true;
  }

  Bytes octets_;
  LadderTap ladder_;
  PcapngTap pcapng_;
  TapFan taps_;
  bool begun_ = false;
};

}  // namespace

struct Trial::Impl {
  std::uint64_t seed = 0;
  const std::set<std::size_t>* left_out = nullptr;  // by their order in calls of add_fault, from 0
  Recorder* recorder = nullptr;
  std::vector<std::string> faults{};  // all that were given

  bool leaves_out_next(std::string text) {
    faults.push_back(std::move(text));
    return left_out != nullptr && left_out->contains(faults.size() - 1);
  }
};

std::uint64_t Trial::seed() const { return impl_.seed; }

void Trial::watch(World& world) {
  if (impl_.recorder != nullptr) impl_.recorder->watch(world);
}

Checked<void> Trial::add_fault(World& world, LinkId link, LinkDirection way, const FaultRule& rule) {
  if (link >= world.link_count()) return world.add_fault(link, way, rule);  // its error
  const bool left_out = impl_.leaves_out_next(where(world, link, way) + rule.to_string());
  return left_out ? Checked<void>() : world.add_fault(link, way, rule);
}

Checked<void> Trial::add_fault(World& world, const FaultRule& host_rule) {
  FaultRule named = host_rule;
  if (named.host < world.node_count()) named.host_name = world.node_name(named.host);
  const bool left_out = impl_.leaves_out_next(named.to_string());
  return left_out ? Checked<void>() : world.add_fault(host_rule);
}

class TrialRuns {
 public:
  TrialRuns(const TrialOptions& options, const std::function<std::string(Trial&)>& test)
      : options_(options), test_(test) {}

  TrialsReport run() {
    const std::size_t failures_max = std::max<std::size_t>(options_.failures_max, 1);
    for (std::uint64_t seed = options_.seeds.first;; ++seed) {
      ++report_.runs;
      if (const Run run = once(seed); !run.why.empty()) failed(seed, run);
      if (seed >= options_.seeds.last) break;
      report_.cut_off = report_.failed.size() >= failures_max;
      if (report_.cut_off) break;
    }
    if (!report_.failed.empty()) make_smaller(report_.failed.front());
    return std::move(report_);
  }

 private:
  struct Run {
    std::string why;
    std::vector<std::string> faults;
  };

  Run once(std::uint64_t seed, const std::set<std::size_t>* left_out = nullptr, Recorder* recorder = nullptr) {
    Trial::Impl impl{seed, left_out, recorder};
    Trial trial(impl);
    std::string why;
    try {
      why = test_(trial);
    } catch (const std::exception& thrown) {
      why = fmt::format("the test threw an exception: {}\n", thrown.what());
    }
    return {std::move(why), std::move(impl.faults)};
  }

  void failed(std::uint64_t seed, const Run& run) {
    report_.failed.push_back(seed);
    if (report_.failed.size() > 1) return;
    report_.why = run.why;
    report_.faults = run.faults.size();
  }

  /// Leaves out halves of the faults, then quarters, down to single ones, as long as it fails (delta debugging).
  void make_smaller(std::uint64_t seed) {
    if (once(seed).why != report_.why) {
      report_.repeatable = false;
      return;
    }
    for (std::size_t size = std::max<std::size_t>(report_.faults, 1); size > 0; size /= 2)
      for (std::size_t end = report_.faults; end > 0;) {
        const std::size_t begin = end - std::min(size, end);
        leave_out(seed, begin, end);
        end = begin;
      }
    Recorder recorder(options_, seed);
    const Run last = once(seed, &left_out_, &recorder);
    report_.why_left = last.why;
    for (std::size_t i = 0; i < last.faults.size(); ++i)
      if (!left_out_.contains(i)) report_.faults_left.push_back(last.faults[i]);
    recorder.finish(options_, report_);
  }

  void leave_out(std::uint64_t seed, std::size_t begin, std::size_t end) {
    std::set<std::size_t> more = left_out_;
    for (std::size_t i = begin; i < end; ++i) more.insert(i);
    if (more.size() == left_out_.size()) return;
    if (shrink_runs_ >= options_.shrink_runs_max) {
      report_.shrink_cut_off = true;
      return;
    }
    ++shrink_runs_;
    if (!once(seed, &more).why.empty()) left_out_ = std::move(more);
  }

  TrialOptions options_;
  const std::function<std::string(Trial&)>& test_;
  TrialsReport report_;
  std::set<std::size_t> left_out_;
  std::uint32_t shrink_runs_ = 0;
};

TrialsReport run_trials(const TrialOptions& options, const std::function<std::string(Trial&)>& test) {
  return TrialRuns(options, test).run();
}

std::string TrialsReport::to_string() const {
  if (failed.empty()) return fmt::format("{} passed\n", counted(runs, "seed"));
  std::string text =
      fmt::format("{} of {} failed: {}{}\nseed {}:\n{}", failed.size(), counted(runs, "seed"), fmt::join(failed, ", "),
                  cut_off ? ", and the rest was not run" : "", failed.front(), why);
  if (!text.ends_with('\n')) text += '\n';
  if (!repeatable)
    return text + "The same seed gave another result when it was repeated: the test depends on more than its seed.\n";
  if (faults > 0) {
    text += fmt::format("faults that it needs{}: {} of {}\n", shrink_cut_off ? ", at most" : "", faults_left.size(),
                        faults);
    for (const std::string& fault : faults_left) text += fmt::format("  {}\n", fault);
  }
  if (why_left != why) text += fmt::format("with these alone:\n{}{}", why_left, why_left.ends_with('\n') ? "" : "\n");
  return text + (ladder.empty() ? "no ladder: the test did not call Trial::watch, or nothing was sent\n" : ladder);
}

}  // namespace parley::sim
