// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "bench/harness.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/json.hpp"

namespace parley::bench {
namespace {

std::string file_text(const char* path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string cpu_model() {
  std::istringstream lines(file_text("/proc/cpuinfo"));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string commit() {
  std::string text;
  if (FILE* pipe = popen("git -C " PARLEY_SOURCE_DIR " describe --always --dirty 2>/dev/null", "r")) {
    char buffer[128];
    while (fgets(buffer, sizeof buffer, pipe)) text += buffer;
    pclose(pipe);
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? "unknown" : text;
}

std::string goal_text(const Row& row) {
  switch (row.goal_kind) {
    case Row::Goal::ratio_at_least: return fmt::format(">= {:.2f}x", row.goal);
    case Row::Goal::ratio_at_most: return fmt::format("<= {:.2f}x", row.goal);
    case Row::Goal::difference_at_most: return fmt::format("<= +{:.2f} {}", row.goal, row.unit);
    case Row::Goal::none: break;
  }
  return "";
}

std::string human(double value) {
  if (value >= 1e9) return fmt::format("{:.2f} G", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.2f} M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.1f} k", value / 1e3);
  return fmt::format("{:.2f}", value);
}

template <class T>
bool number(const char* text, T& out) {
  const std::string_view view(text);
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), out);
  return error == std::errc{} && end == view.data() + view.size() && out > 0;
}

}  // namespace

double seconds_of(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double wall_now() { return seconds_of(CLOCK_MONOTONIC); }

void Stopwatch::restart() {
  wall_ = seconds_of(CLOCK_MONOTONIC);
  cpu_ = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

double Stopwatch::wall_s() const { return seconds_of(CLOCK_MONOTONIC) - wall_; }

Sample Stopwatch::stop(double count) const {
  return {.count = count, .wall_s = wall_s(), .cpu_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_};
}

std::vector<std::vector<Sample>> alternate(const std::vector<Contender>& contenders, int rounds) {
  std::vector<std::vector<Sample>> samples(contenders.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      // The order is reversed each round, so that a segment's leftovers (TIME_WAIT, caches) affect every contender.
      const std::size_t k = round % 2 == 0 ? i : contenders.size() - 1 - i;
      samples[k].push_back(contenders[k].run());
    }
  }
  return samples;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double read(const Sample& sample, Reading reading) {
  switch (reading) {
    case Reading::per_second: return sample.per_second();
    case Reading::per_cpu_second: return sample.per_cpu_second();
    case Reading::median_us: return sample.median_us;
  }
  return 0;
}

double median_of(const std::vector<Sample>& samples, Reading reading) {
  std::vector<double> values;
  for (const auto& sample : samples) values.push_back(read(sample, reading));
  return median(values);
}

double median_ratio(const std::vector<Sample>& figure, const std::vector<Sample>& limit, Reading reading) {
  std::vector<double> values;
  for (std::size_t i = 0; i < std::min(figure.size(), limit.size()); ++i) {
    const double below = read(limit[i], reading);
    if (below > 0) values.push_back(read(figure[i], reading) / below);
  }
  return median(values);
}

double median_difference(const std::vector<Sample>& figure, const std::vector<Sample>& limit, Reading reading) {
  std::vector<double> values;
  for (std::size_t i = 0; i < std::min(figure.size(), limit.size()); ++i) {
    values.push_back(read(figure[i], reading) - read(limit[i], reading));
  }
  return median(values);
}

bool Row::met() const {
  switch (goal_kind) {
    case Goal::ratio_at_least: return cpu_ratio.value_or(ratio) >= goal;
    case Goal::ratio_at_most: return cpu_ratio.value_or(ratio) <= goal;
    case Goal::difference_at_most: return difference <= goal;
    case Goal::none: break;
  }
  return true;
}

std::optional<Settings> parse_settings(int argc, char** argv, std::string_view usage) {
  Settings settings;
  const auto wrong = [&](std::string_view why) {
    fmt::print(stderr,
               "{}\n{}\n  --short            a few seconds in all; shows that everything runs\n"
               "  --rounds N         segments of each contender (default 7)\n"
               "  --seconds S        length of one segment (default 0.3)\n"
               "  --only TEXT        only groups whose name contains TEXT\n"
               "  --congestion NAME  TCP_CONGESTION of every socket\n"
               "  --json FILE        write the table as JSON too (also --benchmark_out=FILE)\n",
               why, usage);
    return std::nullopt;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--short") {
      settings.quick = true;
      settings.rounds = 1;
      settings.seconds = 0.05;
      continue;
    }
    if (name == "--help" || name == "-h") return wrong("");
    // Google Benchmark's spelling, so that one command line works for all benches.
    if (constexpr std::string_view out = "--benchmark_out="; name.starts_with(out)) {
      settings.json_path = name.substr(out.size());
      continue;
    }
    if (name == "--benchmark_out_format=json") continue;
    if (i + 1 >= argc) return wrong(fmt::format("{}: unknown option, or its value is missing", name));
    const char* value = argv[++i];
    if (name == "--rounds") {
      if (!number(value, settings.rounds)) return wrong("--rounds needs a positive number");
    } else if (name == "--seconds") {
      if (!number(value, settings.seconds)) return wrong("--seconds needs a positive number");
    } else if (name == "--only") {
      settings.only = value;
    } else if (name == "--congestion") {
      settings.congestion = value;
    } else if (name == "--json") {
      settings.json_path = value;
    } else {
      return wrong(fmt::format("{}: unknown option", name));
    }
  }
  return settings;
}

Report::Report(std::string bench, const Settings& settings) : bench_(std::move(bench)), settings_(settings) {
  utsname system{};
  uname(&system);
  fmt::print("{} at {}: {}, Linux {}, TCP_CONGESTION {}; {} rounds of {} s\n", bench_, commit(), cpu_model(),
             system.release, settings_.congestion.empty() ? "system default" : settings_.congestion, settings_.rounds,
             settings_.seconds);
}

void Report::section(const std::string& title) {
  section_ = title;
  fmt::print("\n{}\n  {:<44} {:>12} {:>12}  {:<18} {:>7} {:>7}  {:<12} {}\n", title, "figure", "Parley", "limit",
             "which limit", "ratio", "by CPU", "goal", "met");
}

void Report::add(const Row& row) {
  entries_.push_back({section_, row});
  const std::string cpu = row.cpu_ratio ? fmt::format("{:.2f}", *row.cpu_ratio) : "";
  const std::string ratio = row.goal_kind == Row::Goal::difference_at_most ? fmt::format("{:+.2f}", row.difference)
                            : row.limit > 0                                ? fmt::format("{:.2f}", row.ratio)
                                                                           : std::string();
  fmt::print("  {:<44} {:>12} {:>12}  {:<18} {:>7} {:>7}  {:<12} {}{}\n", row.what + ", " + row.unit, human(row.figure),
             row.limit > 0 ? human(row.limit) : "", row.limit_name, ratio, cpu, goal_text(row),
             row.goal_kind == Row::Goal::none ? "" : (row.met() ? "yes" : "NO"),
             row.note.empty() ? "" : "  (" + row.note + ")");
  std::fflush(stdout);
}

void Report::note(const std::string& text) {
  notes_.push_back(text);
  fmt::print("  note: {}\n", text);
}

int Report::finish() const {
  bool positive = !entries_.empty();
  Json rows = Json::array();
  for (const auto& [section, row] : entries_) {
    positive = positive && row.figure > 0 && (row.limit_name.empty() || row.limit > 0);
    Json entry{{"section", section}, {"figure", row.what},           {"unit", row.unit},   {"value", row.figure},
               {"limit", row.limit}, {"limit_name", row.limit_name}, {"ratio", row.ratio}, {"note", row.note}};
    if (row.cpu_ratio) entry["cpu_ratio"] = *row.cpu_ratio;
    if (row.goal_kind == Row::Goal::ratio_at_least) entry["goal_ratio"] = row.goal;
    if (row.goal_kind == Row::Goal::ratio_at_most) entry["goal_ratio_at_most"] = row.goal;
    if (row.goal_kind == Row::Goal::difference_at_most) {
      entry["goal_difference"] = row.goal;
      entry["difference"] = row.difference;
    }
    if (row.goal_kind != Row::Goal::none) entry["met"] = row.met();
    rows.push_back(std::move(entry));
  }
  if (!settings_.json_path.empty()) {
    utsname system{};
    uname(&system);
    const Json all{{"bench", bench_},
                   {"commit", commit()},
                   {"machine", Json{{"cpu", cpu_model()}, {"linux", system.release}}},
                   {"congestion", settings_.congestion},
                   {"rounds", settings_.rounds},
                   {"seconds", settings_.seconds},
                   {"short", settings_.quick},
                   {"notes", notes_},
                   {"rows", rows}};
    std::ofstream out(settings_.json_path);
    out << all.dump([](double value) { return fmt::format("{}", value); }, 2) << '\n';
    if (!out) {
      fmt::print(stderr, "{}: cannot be written\n", settings_.json_path);
      return 1;
    }
  }
  if (!positive) fmt::print(stderr, "a figure is missing or zero\n");
  return positive ? 0 : 1;
}

std::size_t raise_open_files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  rlimit wanted{.rlim_cur = std::max<rlim_t>(limit.rlim_max, 65536),
                .rlim_max = std::max<rlim_t>(limit.rlim_max, 65536)};
  if (setrlimit(RLIMIT_NOFILE, &wanted) != 0) {
    limit.rlim_cur = limit.rlim_max;  // Only a privileged process may raise the hard limit.
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<std::size_t>(limit.rlim_cur);
}

void pin_to_cpu(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);  // Refused on machines with fewer CPUs: then the scheduler chooses.
}

std::string preferred_congestion() {
  std::istringstream names(file_text("/proc/sys/net/ipv4/tcp_available_congestion_control"));
  for (std::string name; names >> name;) {
    if (name == "cubic") return name;
  }
  return {};
}

int guarded(const char* name, int (*run)(int, char**), int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 1;
  }
}

}  // namespace parley::bench
