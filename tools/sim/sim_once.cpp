// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/sim/sim_once.hpp"

#include <algorithm>
#include <ctime>
#include <deque>
#include <filesystem>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "tools/command.hpp"
#include "tools/trace_sink.hpp"
#include "tools/version.hpp"

namespace parley::tools {

namespace {

std::uint64_t thread_cpu_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(now.tv_nsec) / 1000;
}

/// Stores the trace of one host until the run is printed.
class HostTrace final : public trace::Sink {
 public:
  HostTrace(std::string host, trace::Level level, SimResult& result, sim::PcapngTap* pcapng)
      : host_(std::move(host)), result_(result), pcapng_(pcapng) {
    up_to = level;
  }
  void record(const trace::Record& record) override {
    if (pcapng_ != nullptr) pcapng_->on_trace(host_, record);
    if (result_.trace.size() == trace_max) {
      ++result_.trace_left_out;
      return;
    }
    result_.trace.push_back({trace_text(record, Instant{}, host_), trace_json(record, Instant{}, host_)});
  }

 private:
  std::string host_;
  SimResult& result_;
  sim::PcapngTap* pcapng_;
};

}  // namespace

sim::Scenario scenario_of(const SimRun& run, std::vector<std::string>* drawn) {
  sim::Scenario scenario = run.swarm ? sim::draw_swarm(run.file->scenario, run.seed, drawn) : run.file->scenario;
  if (run.settled)
    for (sim::ScenarioConnect& connect : scenario.connects) connect.expect = sim::Expect::settled;
  if (run.settled || run.drop_mask)  // a datagram that the mask drops is not retransmitted
    for (sim::ScenarioMember& member : scenario.members) member.expect.reset();
  return scenario;
}

SimResult carry_out(const SimRun& run, const SimRecording& recording, const std::atomic<bool>& stop) {
  SimResult result;
  result.run = run;
  const std::uint64_t began = thread_cpu_us();
  const sim::Scenario scenario = scenario_of(run, &result.drawn);
  sim::RunOptions options;
  options.seed = run.seed;
  options.drop_mask = run.drop_mask;
  options.keep_going = [&stop] { return !stop.load(std::memory_order_relaxed); };
  std::optional<sim::PcapngTap> pcapng;
  std::optional<sim::LadderTap> ladder;
  sim::TapFan fan;
  const sim::RecordInfo info{application_text(), scenario.name, run.seed};
  if (recording.pcapng != nullptr || recording.hash) {
    pcapng.emplace(info,
                   [file = recording.pcapng](ConstBytes octets) { return file == nullptr || file->write(octets); });
    fan.add(&*pcapng);
  }
  if (recording.ladder) {
    ladder.emplace().set_info(info);
    fan.add(&*ladder);
  }
  if (pcapng || ladder) options.tap = &fan;
  options.on_world = [&](const sim::World& world) {
    if (pcapng) pcapng->begin(world);
    if (ladder) ladder->begin(world);
  };
  std::deque<HostTrace> traces;
  if (recording.trace)
    options.trace = [&](const std::string& host) {
      // Only a requested file has comments, so that a run's hash does not depend on them.
      return &traces.emplace_back(host, *recording.trace, result, recording.pcapng != nullptr ? &*pcapng : nullptr);
    };
  result.report = sim::run_scenario(scenario, options);
  if (pcapng) {
    pcapng->finish(&result.report);
    result.hash = pcapng->hash();
    if (recording.pcapng != nullptr) result.pcapng_file = recording.pcapng->path();
  }
  if (ladder) result.ladder = ladder->finish(&result.report);
  result.cpu_us = thread_cpu_us() - began;
  return result;
}

std::string seed_text(std::uint64_t seed) { return fmt::format("0x{:x}", seed); }

Or<std::uint64_t> parse_seed(std::string_view text) {
  const auto seed = sim::parse_seed(text);
  return seed ? Or<std::uint64_t>(*seed) : command_error(Exit::usage, seed.error());
}

Or<SeedRange> parse_seed_range(std::string_view text) {
  const auto seeds = sim::parse_seeds(text);
  return seeds ? Or<SeedRange>(*seeds) : command_error(Exit::usage, seeds.error());
}

Option add_seed(Command sub, const std::string& name, std::optional<std::uint64_t>& target, const std::string& help) {
  return sub
      .option(
          name,
          [name, &target](const std::string& text) {
            const auto seed = parse_seed(text);
            if (!seed) return seed.error().text;
            target = *seed;
            return std::string();
          },
          help)
      .type("N");
}

std::string mask_text(const sim::DropMask& mask) {
  const std::string bits = seed_text(mask.bits);
  return mask.layer == sim::Layer::tcp ? bits : fmt::format("{}:{}", sim::to_string(mask.layer), bits);
}

Or<sim::Layer> parse_mask_layer(std::string_view text) {
  if (const auto layer = sim::parse_layer(text)) return *layer;
  std::string known;
  for (int i = 0; sim::to_string(static_cast<sim::Layer>(i)) != "unknown"; ++i)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", sim::to_string(static_cast<sim::Layer>(i)));
  return command_error(Exit::usage, fmt::format("'{}' is not a layer; write one of {}", text, known));
}

void add_drop_mask(Command sub, std::optional<sim::DropMask>& target) {
  sub.option(
         "--drop-mask",
         [&target](const std::string& text) {
           const std::size_t colon = text.find(':');
           sim::DropMask mask;
           if (colon != std::string::npos) {
             const auto layer = parse_mask_layer(text.substr(0, colon));
             if (!layer) return layer.error().text;
             mask.layer = *layer;
           }
           const auto bits = parse_seed(text.substr(colon == std::string::npos ? 0 : colon + 1));
           if (!bits) return bits.error().text;
           mask.bits = *bits;
           target = mask;
           return std::string();
         },
         "Bit i loses the i-th frame, as 'sim exhaust' does; mpa:M counts frames with a message of MPA")
      .type("M");
}

void add_settled(Command sub, bool& settled) {
  sub.flag("--settled", settled,
           "Connections may also be rejected or fail, if both ends get an event; for more faults\n"
           "than the scenario was written for");
}

std::string file_word(const std::string& path) {
  return shell_word(path.starts_with('-') ? "./" + path : path);  // a dash would make it an option
}

std::string replay_command(const SimRun& run) {
  std::string command = fmt::format("parley sim replay {} --seed {}", file_word(run.file->shown), seed_text(run.seed));
  if (run.swarm) command += " --swarm";
  if (run.drop_mask) command += fmt::format(" --drop-mask {}", mask_text(*run.drop_mask));
  if (run.settled) command += " --settled";
  return command;
}

std::string file_stem(const SimRun& run) {
  std::string stem = std::filesystem::path(run.file->shown).stem().string() + "-" + seed_text(run.seed);
  if (run.swarm) stem += "-swarm";
  if (run.settled) stem += "-settled";
  if (run.drop_mask) stem += "-mask" + mask_text(*run.drop_mask);
  std::replace(stem.begin(), stem.end(), ':', '-');
  return stem;
}

Or<void> record_failure(SimResult& failed, const std::string& directory, const std::string& stem,
                        const std::atomic<bool>& stop, const draw::Provenance& report) {
  const std::string base = (std::filesystem::path(directory) / stem).string();
  auto pcapng = OutputFile::open(base + ".pcapng", false, Readers::owner);
  if (!pcapng) return tl::unexpected(pcapng.error());
  auto html = OutputFile::open(base + ".html");
  if (!html) return tl::unexpected(html.error());
  SimResult again = carry_out(failed.run, {.pcapng = &*pcapng, .ladder = true}, stop);
  if (again.stopped()) return {};
  html->write(std::string_view(draw::to_html(*again.ladder, &report)));
  for (OutputFile* file : {&*pcapng, &*html})
    if (const auto written = file->finish(); !written) return written;
  const sim::RunReport &a = failed.report, &b = again.report;
  if (a.violations.size() != b.violations.size() || a.finished_at != b.finished_at ||
      a.counters.events != b.counters.events)
    return command_error(Exit::failed,
                         fmt::format("run again, {} went another way: the run depends on more than its seed",
                                     replay_command(failed.run)));
  failed.hash = again.hash;
  failed.pcapng_file = pcapng->path();
  failed.html_file = html->path();
  return {};
}

}  // namespace parley::tools
