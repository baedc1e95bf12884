// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Shared by the socket benches: alternating samples, medians, and a table of each figure with its limit. Contenders run
// in alternating segments of one process, so that other load on the machine disturbs all of them equally. A ratio is
// the median of the ratios of neighbouring segments. Goals are printed, never asserted: a bench fails only if it cannot
// run.
#pragma once
#include <cstdint>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace parley::bench {

/// The result of one segment: how many units of work, in how much time. CPU time is the whole process's, including the
/// kernel's part.
struct Sample {
  double count = 0;
  double wall_s = 0;
  double cpu_s = 0;
  double median_us = 0;  ///< latency benches: the median of one round trip
  double per_second() const { return wall_s > 0 ? count / wall_s : 0; }
  double per_cpu_second() const { return cpu_s > 0 ? count / cpu_s : 0; }
};

/// Measures from construction (or restart) to stop().
class Stopwatch {
 public:
  Stopwatch() { restart(); }
  void restart();
  double wall_s() const;
  Sample stop(double count) const;

 private:
  double wall_ = 0, cpu_ = 0;
};

double seconds_of(clockid_t clock);  ///< the clock's present time
double wall_now();

struct Contender {
  std::string name;
  std::function<Sample()> run;
};

/// Runs `rounds` segments of every contender, one after the other; the order is reversed each round.
/// [contender][round].
std::vector<std::vector<Sample>> alternate(const std::vector<Contender>& contenders, int rounds);

double median(std::vector<double> values);

/// The reading of a sample that is compared.
enum class Reading : std::uint8_t { per_second, per_cpu_second, median_us };
double read(const Sample& sample, Reading reading);
double median_of(const std::vector<Sample>& samples, Reading reading);
/// Median of figure/limit over the rounds.
double median_ratio(const std::vector<Sample>& figure, const std::vector<Sample>& limit, Reading reading);
/// Median of figure-limit over the rounds.
double median_difference(const std::vector<Sample>& figure, const std::vector<Sample>& limit, Reading reading);

/// One line of the table.
struct Row {
  enum class Goal : std::uint8_t { none, ratio_at_least, ratio_at_most, difference_at_most };
  std::string what;
  std::string unit;
  double figure = 0;
  std::string limit_name;
  double limit = 0;
  double ratio = 0;                   ///< figure to limit, wall clock
  std::optional<double> cpu_ratio{};  ///< the same by CPU time; if present, the goal applies to it
  Goal goal_kind = Goal::none;
  double goal = 0;
  double difference = 0;  ///< for difference_at_most
  std::string note{};
  bool met() const;
};

struct Settings {
  bool quick = false;      ///< --short: a few seconds in total; shows that it runs, but its figures mean little
  int rounds = 7;          ///< --rounds
  double seconds = 0.3;    ///< --seconds: length of one segment
  std::string json_path;   ///< --json
  std::string only;        ///< --only: groups whose name contains this
  std::string congestion;  ///< --congestion: TCP_CONGESTION of every socket; empty: the system's default
  bool wants(std::string_view group) const { return only.empty() || group.find(only) != std::string_view::npos; }
};

/// Reads the command line; none, after a message, if it is wrong. `usage` is the start of the help text.
std::optional<Settings> parse_settings(int argc, char** argv, std::string_view usage);

class Report {
 public:
  Report(std::string bench, const Settings& settings);
  void section(const std::string& title);
  void add(const Row& row);
  void note(const std::string& text);
  /// Writes the JSON file if requested. Returns 0 if every figure is positive, otherwise 1.
  int finish() const;

 private:
  std::string bench_;
  Settings settings_;
  std::string section_;
  struct Entry {
    std::string section;
    Row row;
  };
  std::vector<Entry> entries_;
  std::vector<std::string> notes_;
};

/// Raises RLIMIT_NOFILE as far as possible. Returns how many files may then be open.
std::size_t raise_open_files();
void pin_to_cpu(int cpu);
/// "cubic" if the system has it, for benches that must not depend on the system's default; otherwise empty.
std::string preferred_congestion();

/// The main function of a bench: an exception from `run` becomes one line and exit status 1.
int guarded(const char* name, int (*run)(int, char**), int argc, char** argv);

}  // namespace parley::bench
