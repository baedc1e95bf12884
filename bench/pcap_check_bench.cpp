// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley pcap check` compared with tshark: whole processes on the same file, user and system time, in turn. For each
// mix of bench/capture_mix.hpp and of bench/capture_roce.hpp the bench makes a capture, runs both on it, and deletes
// it. The number of FPDUs or messages in it is known, so the results of both are compared with it. docs/performance.md
// explains each figure.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/capture_mix.hpp"
#include "bench/capture_roce.hpp"
#include "bench/harness.hpp"
#include "wire/pcapng.hpp"

extern char** environ;

namespace parley::bench {
namespace {

namespace fs = std::filesystem;

constexpr double resident_goal_mb = 64;

struct Ran {
  double cpu_s = 0, resident_mb = 0;
  int status = 0;
};

/// Runs a program to its end, with its output in `out` (created or truncated) and its errors discarded. A child's
/// maximum resident memory includes what this program had when it started the child; capture_mix.hpp keeps that small.
Ran run_program(const std::vector<std::string>& arguments, const std::string& out) {
  std::vector<char*> pointers;
  for (const std::string& a : arguments) pointers.push_back(const_cast<char*>(a.c_str()));
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int error = posix_spawnp(&child, pointers[0], &files, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return {.status = 127};
  int status = 0;
  rusage used{};
  if (wait4(child, &status, 0, &used) != child) return {.status = 127};
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return {.cpu_s = seconds(used.ru_utime) + seconds(used.ru_stime),
          .resident_mb = static_cast<double>(used.ru_maxrss) / 1024,
          .status = WIFEXITED(status) ? WEXITSTATUS(status) : 128};
}

/// Writes the file piece by piece, so that its size does not matter. `make` passes its packets to the given sink.
template <class Make>
void write_capture(const fs::path& path, bool pcapng, Make make) {
  std::ofstream file(path, std::ios::binary);
  Bytes buffer;
  const auto drain = [&](std::size_t above) {
    if (buffer.size() <= above) return;
    file.write(reinterpret_cast<const char*>(buffer.data()), static_cast<std::streamsize>(buffer.size()));
    buffer.clear();
  };
  if (pcapng) {
    wire::PcapngWriter writer(buffer, {.application = "pcap_check_bench", .hardware = {}, .system = {}, .comment = {}});
    writer.add_interface("bench", 1);
    make([&](Instant at, ConstBytes frame) {
      writer.packet(0, at, frame);
      drain(1 << 20);
    });
  } else {
    wire::PcapWriter writer(buffer, 1);
    make([&](Instant at, ConstBytes frame) {
      writer.packet(at, frame);
      drain(1 << 20);
    });
  }
  drain(0);
  file.close();
  if (!file) throw std::runtime_error(fmt::format("{}: cannot be written", path.string()));
}

/// The sum of all numbers before `noun` in parley's output.
std::uint64_t found_by_parley(const fs::path& text, std::string_view noun) {
  std::ifstream in(text);
  std::uint64_t sum = 0;
  for (std::string line; std::getline(in, line);) {
    const std::size_t word = line.find(noun);
    if (word == std::string::npos ||
        (!line.starts_with("  initiator ") && !line.starts_with("  responder ") && !line.starts_with("note: ")))
      continue;
    const std::size_t begin = line.find_last_not_of("0123456789", word - 1) + 1;
    std::uint64_t n = 0;
    if (std::from_chars(line.data() + begin, line.data() + word, n).ec == std::errc{}) sum += n;
  }
  return sum;
}

/// The number of comma-separated values in the second column: all of them, or those equal to `value`.
std::uint64_t found_by_tshark(const fs::path& text, std::string_view value) {
  std::ifstream in(text);
  std::uint64_t sum = 0;
  for (std::string line; std::getline(in, line);) {
    const std::size_t tab = line.find('\t');
    if (tab == std::string::npos || tab + 1 == line.size()) continue;
    std::string_view rest = std::string_view(line).substr(tab + 1);
    for (bool more = true; more;) {
      const std::size_t comma = rest.find(',');
      sum += value.empty() || rest.substr(0, comma) == value;
      more = comma != std::string_view::npos;
      if (more) rest.remove_prefix(comma + 1);
    }
  }
  return sum;
}

struct Case {
  Mix mix;
  std::string_view name;
  bool pcapng;
};
constexpr Case cases[] = {
    {Mix::bulk, "bulk 1440, pcap", false},   {Mix::bulk, "bulk 1440, pcapng", true},
    {Mix::small, "small 64, pcapng", true},  {Mix::straddling, "straddling 16 KiB, pcap", false},
    {Mix::markers, "markers, pcapng", true}, {Mix::packed, "packed, pcap", false},
    {Mix::lossy, "lossy, pcapng", true},     {Mix::connections, "connections, pcap", false},
};

struct RoceCase {
  std::size_t payload;
  std::string_view name;
  bool pcapng;
};
constexpr RoceCase roce_cases[] = {{1024, "RoCEv2 1024, pcap", false}, {64, "RoCEv2 64, pcapng", true}};

/// A generated capture, its content, and how it is checked.
struct Job {
  std::string_view name;
  fs::path file;
  std::uint64_t packets = 0, wanted = 0;
  std::string_view noun, plural;  ///< of the counted items: in parley's output, and in the report
  std::string filter;             ///< tshark's -Y
  std::string field;              ///< the field that tshark's -T fields prints
  std::string value;              ///< the field's value to count; empty: any
  double goal_filter = 0, goal_fields = 0;
};

struct Bench {
  Settings settings;
  std::uint64_t packets = 100'000;
  std::string parley;
  fs::path folder;
  Report report;
  bool tshark = false;

  explicit Bench(const Settings& its_settings) : settings(its_settings), report("pcap_check_bench", its_settings) {}
  fs::path file(bool pcapng) const { return folder / (pcapng ? "capture.pcapng" : "capture.pcap"); }
  void measure(const Case& c);
  void measure(const RoceCase& c);
  void measure(const Job& job);
  void print_found(const Job& job, std::uint64_t found, double resident_mb);
};

Sample sample_of(const Ran& ran, std::uint64_t packets) {
  return {.count = static_cast<double>(packets), .wall_s = ran.cpu_s, .cpu_s = ran.cpu_s};
}

void Bench::print_found(const Job& job, std::uint64_t found, double resident_mb) {
  report.add({.what = fmt::format("{}, {} found", job.name, job.plural),
              .unit = std::string(job.plural),
              .figure = static_cast<double>(found),
              .limit_name = fmt::format("{} in it", job.plural),
              .limit = static_cast<double>(job.wanted),
              .ratio = static_cast<double>(found) / static_cast<double>(job.wanted),
              .goal_kind = Row::Goal::ratio_at_least,
              .goal = 1,
              .note = found == job.wanted ? "all" : fmt::format("{} of {}", found, job.wanted)});
  report.add({.what = fmt::format("{}, most resident", job.name),
              .unit = "MB",
              .figure = resident_mb,
              .limit_name = "bound",
              .limit = resident_goal_mb,
              .ratio = resident_mb / resident_goal_mb,
              .goal_kind = Row::Goal::ratio_at_most,
              .goal = 1});
}

void Bench::measure(const Case& c) {
  MixTotals made;
  write_capture(file(c.pcapng), c.pcapng, [&](auto sink) { made = CaptureMix(c.mix, packets, sink).run(); });
  report.section(fmt::format("{}: {} packets, {} octets, {} connections, {} FPDUs, {} segments late, {} twice", c.name,
                             made.packets, made.octets, made.connections, made.fpdus, made.late, made.again));
  measure({.name = c.name,
           .file = file(c.pcapng),
           .packets = made.packets,
           .wanted = made.fpdus,
           .noun = " FPDU",
           .plural = "FPDUs",
           .filter = "iwarp_mpa",
           .field = "iwarp_mpa.ulpdulength",
           .value = {},
           .goal_filter = 12,
           .goal_fields = 25});
}

void Bench::measure(const RoceCase& c) {
  RoceTotals made;
  write_capture(file(c.pcapng), c.pcapng, [&](auto sink) { made = CaptureRoce(c.payload, packets, sink).run(); });
  report.section(fmt::format("{}: {} packets, {} octets, {} connections, {} messages", c.name, made.packets,
                             made.octets, made.connections, made.messages));
  measure({.name = c.name,
           .file = file(c.pcapng),
           .packets = made.packets,
           .wanted = made.messages,
           .noun = " message",
           .plural = "messages",
           .filter = "infiniband",
           .field = "infiniband.bth.opcode",
           .value = "4",  // RC SEND Only
           .goal_filter = 10,
           .goal_fields = 20});
}

void Bench::measure(const Job& job) {
  const std::string file = job.file.string();
  const fs::path parley_text = folder / "parley.txt", tshark_text = folder / "tshark.txt";
  Ran ours;
  double resident = 0, theirs_resident = 0;
  // The output of each program's first run is kept to count its findings; that of the others is discarded.
  int parley_runs = 0, tshark_runs = 0;
  std::vector<Contender> contenders{{"parley", [&] {
                                       const std::string out = parley_runs++ == 0 ? parley_text.string() : "/dev/null";
                                       ours = run_program({parley, "pcap", "check", file}, out);
                                       if (ours.status != 0)
                                         throw std::runtime_error(fmt::format("parley ended with {}", ours.status));
                                       resident = std::max(resident, ours.resident_mb);
                                       return sample_of(ours, job.packets);
                                     }}};
  if (tshark) {
    contenders.push_back(
        {"-Y", [&] {
           return sample_of(run_program({"tshark", "-n", "-r", file, "-Y", job.filter}, "/dev/null"), job.packets);
         }});
    contenders.push_back(
        {"-T fields", [&] {
           const std::string out = tshark_runs++ == 0 ? tshark_text.string() : "/dev/null";
           const Ran ran =
               run_program({"tshark", "-n", "-r", file, "-T", "fields", "-e", "frame.number", "-e", job.field}, out);
           theirs_resident = std::max(theirs_resident, ran.resident_mb);
           return sample_of(ran, job.packets);
         }});
  }
  // Without the digest, because tshark does not make one either.
  contenders.push_back({"--no-digest", [&] {
                          const Ran ran = run_program({parley, "pcap", "check", "--no-digest", file}, "/dev/null");
                          if (ran.status != 0)
                            throw std::runtime_error(fmt::format("parley ended with {}", ran.status));
                          return sample_of(ran, job.packets);
                        }});
  const auto samples = alternate(contenders, settings.rounds);
  const double goals[] = {0, job.goal_filter, job.goal_fields};
  const auto add_rows = [&](const std::string& name, const auto& own) {
    const double figure = median_of(own, Reading::per_cpu_second);
    for (std::size_t i = 1; i + 1 < samples.size(); ++i) {
      const double ratio = median_ratio(own, samples[i], Reading::per_cpu_second);
      report.add({.what = fmt::format("{}, beside {}", name, contenders[i].name),
                  .unit = "packets/s",
                  .figure = figure,
                  .limit_name = fmt::format("tshark {}", contenders[i].name),
                  .limit = median_of(samples[i], Reading::per_cpu_second),
                  .ratio = ratio,
                  .cpu_ratio = ratio,
                  .goal_kind = Row::Goal::ratio_at_least,
                  .goal = goals[i]});
    }
    if (!tshark) report.add({.what = name, .unit = "packets/s", .figure = figure});
  };
  add_rows(std::string(job.name), samples.front());
  add_rows(fmt::format("{}, --no-digest", job.name), samples.back());
  print_found(job, found_by_parley(parley_text, job.noun), resident);
  if (tshark) {
    const std::uint64_t theirs = found_by_tshark(tshark_text, job.value);
    report.note(fmt::format("{}: tshark -T fields found {} of {} {} ({:.1f} %), {:.0f} MB resident", job.name, theirs,
                            job.wanted, job.plural,
                            100.0 * static_cast<double>(theirs) / static_cast<double>(job.wanted), theirs_resident));
  }
  fs::remove(job.file);
  fs::remove(parley_text);
  fs::remove(tshark_text);
}

/// A temporary folder, which is removed when the bench ends.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "pcap_check_bench.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error(fmt::format("{}: cannot be made", name));
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Removes an option and its value from the arguments; returns the value, or `otherwise`.
std::string take_option(std::vector<char*>& arguments, std::string_view name, std::string otherwise) {
  for (std::size_t i = 1; i + 1 < arguments.size(); ++i) {
    if (arguments[i] != name) continue;
    otherwise = arguments[i + 1];
    arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i),
                    arguments.begin() + static_cast<std::ptrdiff_t>(i + 2));
    return otherwise;
  }
  return otherwise;
}

int run(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  const fs::path beside = fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "bin" / "parley";
  const std::string parley = take_option(arguments, "--parley", beside.string());
  const std::string packets = take_option(arguments, "--packets", "");
  // Two rounds are enough for CPU times. The command line follows and overrides this.
  std::string rounds = "--rounds", two = "2";
  arguments.insert(arguments.begin() + 1, {rounds.data(), two.data()});
  const auto settings = parse_settings(static_cast<int>(arguments.size()), arguments.data(),
                                       "pcap_check_bench [--packets N (default 100000)] [--parley FILE]");
  if (!settings) return 2;
  const Folder folder;
  Bench bench(*settings);
  if (settings->quick) bench.packets = 2'000;
  if (!packets.empty()) bench.packets = std::strtoull(packets.c_str(), nullptr, 10);
  if (bench.packets == 0) {
    fmt::print(stderr, "--packets needs a positive number\n");
    return 2;
  }
  bench.parley = parley;
  bench.folder = folder.path();
  bench.tshark = run_program({"tshark", "--version"}, "/dev/null").status == 0;
  if (!bench.tshark) fmt::print("tshark is not there (Debian: tshark): its columns are left out\n");
  for (const Case& c : cases)
    if (settings->wants(c.name)) bench.measure(c);
  for (const RoceCase& c : roce_cases)
    if (settings->wants(c.name)) bench.measure(c);
  return bench.report.finish();
}

}  // namespace
}  // namespace parley::bench

int main(int argc, char** argv) { return parley::bench::guarded("pcap_check_bench", parley::bench::run, argc, argv); }
