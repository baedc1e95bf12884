// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The cost of framing compared with the unavoidable work: memcpy and the bare CRC kernel over the same octets, in the
// same buffers of the same run. The repetitions of all benchmarks are interleaved at random and the fastest of each
// counts, so that a busy machine slows figure and limit equally. CPU time, one core, buffers that fit the second-level
// cache. Goals are printed, never asserted. Options are Google Benchmark's; --benchmark_format=json prints the raw
// figures and moves the table to stderr.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "mpa/crc32c.hpp"
#include "mpa/framer.hpp"

namespace {

using namespace parley;
using namespace parley::mpa;

constexpr std::size_t ring = 256 << 10;
constexpr std::size_t header_size = 18;  // of an untagged DDP segment; separate from the payload, as in real use

/// The CRC kernel for the limits: isa-l's if available.
CrcPath raw_path() {
  if (crc_path_available(CrcPath::isal)) return CrcPath::isal;
  return crc_path_available(CrcPath::sse42) ? CrcPath::sse42 : CrcPath::portable;
}

const Bytes& source() {
  static const Bytes octets = [] {
    Bytes out(ring);
    std::mt19937_64 random(7);
    for (auto& v : out) v = static_cast<std::uint8_t>(random());
    return out;
  }();
  return octets;
}

/// How many ULPDUs of this length one pass over the buffers has.
std::size_t per_pass(std::size_t ulpdu) { return (ring - 2048) / (ulpdu + 12 + ulpdu / 100); }

void finish(benchmark::State& state, std::size_t ulpdu) {
  const auto items = static_cast<std::int64_t>(state.iterations() * per_pass(ulpdu));
  state.SetItemsProcessed(items);
  state.SetBytesProcessed(items * static_cast<std::int64_t>(ulpdu));
}

// ---- limits

// The octets that the CRC of such an FPDU covers, in one piece.
void raw_crc(benchmark::State& state, CrcPath path) {
  const auto ulpdu = static_cast<std::size_t>(state.range(0));
  const std::size_t covered = fpdu::bare_size(ulpdu) - fpdu::crc_size;
  for (auto _ : state)
    for (std::size_t i = 0, n = per_pass(ulpdu); i < n; ++i)
      benchmark::DoNotOptimize(crc32c_extend_by(path, crc32c_init, ConstBytes(source()).subspan(i * ulpdu, covered)));
  finish(state, ulpdu);
}

void raw_copy_crc(benchmark::State& state) {
  // The bound avoids a false warning of g++ 12, which assumes a length of -1.
  const std::size_t ulpdu = std::min<std::size_t>(static_cast<std::size_t>(state.range(0)), PARLEY_MPA_ULPDU_MAX);
  const CrcPath path = raw_path();
  Bytes out(ring);
  for (auto _ : state) {
    for (std::size_t i = 0, n = per_pass(ulpdu); i < n; ++i) {
      std::memcpy(out.data() + i * ulpdu, source().data() + i * ulpdu, ulpdu);
      benchmark::DoNotOptimize(crc32c_extend_by(path, crc32c_init, ConstBytes(out).subspan(i * ulpdu, ulpdu)));
    }
    benchmark::ClobberMemory();
  }
  finish(state, ulpdu);
}

// ---- figures

void frame_copy(benchmark::State& state, bool markers) {
  const auto ulpdu = static_cast<std::size_t>(state.range(0));
  Bytes out(ring + 4096);
  const auto in = ConstBytes(source());
  for (auto _ : state) {
    Framer framer({.markers = markers});
    std::size_t at = 0;
    for (std::size_t i = 0, n = per_pass(ulpdu); i < n; ++i) {
      at += framer.frame(in.first(header_size), in.subspan(i * ulpdu, ulpdu - header_size), MutBytes(out).subspan(at));
    }
    benchmark::DoNotOptimize(at);
    benchmark::ClobberMemory();
  }
  finish(state, ulpdu);
}

void frame_gather(benchmark::State& state) {
  const auto ulpdu = static_cast<std::size_t>(state.range(0));
  const std::size_t side_size = Framer::side_size(header_size, ulpdu);
  Bytes side(per_pass(ulpdu) * side_size);
  std::vector<ConstBytes> pieces(Framer::gather_pieces(1, ulpdu));
  const auto in = ConstBytes(source());
  for (auto _ : state) {
    Framer framer({});
    for (std::size_t i = 0, n = per_pass(ulpdu); i < n; ++i) {
      const ConstBytes payload[] = {in.subspan(i * ulpdu, ulpdu - header_size)};
      std::size_t wire = 0;
      benchmark::DoNotOptimize(framer.gather(in.first(header_size), payload,
                                             MutBytes(side).subspan(i * side_size, side_size), pieces, wire));
    }
    benchmark::ClobberMemory();
  }
  finish(state, ulpdu);
}

void deframe(benchmark::State& state, bool markers, bool crc) {
  const auto ulpdu = static_cast<std::size_t>(state.range(0));
  const FramerOptions options{.crc = crc, .markers = markers};
  Bytes stream(ring + 4096);
  Framer framer(options);
  std::size_t size = 0;
  for (std::size_t i = 0; i < per_pass(ulpdu); ++i)
    size += framer.frame({}, ConstBytes(source()).subspan(i * ulpdu, ulpdu), MutBytes(stream).subspan(size));
  for (auto _ : state) {
    Deframer deframer(options);
    FpduView view;
    std::size_t found = 0;
    deframer.feed(ConstBytes(stream).first(size));
    while (deframer.next(view) == DeframeStatus::fpdu) {
      benchmark::DoNotOptimize(view.pieces.data());
      ++found;
    }
    if (found != per_pass(ulpdu)) state.SkipWithError("an FPDU was lost");
  }
  finish(state, ulpdu);
}

// ---- the table

/// Keeps the fastest run of each name, and passes medians on to Google Benchmark's printer.
template <class Printer>
class Collector : public Printer {
 public:
  void ReportRuns(const std::vector<benchmark::BenchmarkReporter::Run>& runs) override {
    std::vector<benchmark::BenchmarkReporter::Run> medians;
    for (const auto& run : runs) {
      if (run.aggregate_name == "median" || runs.size() == 1) medians.push_back(run);
      if (run.run_type != benchmark::BenchmarkReporter::Run::RT_Iteration || run.error_occurred) continue;
      const double rate = run.counters.at("items_per_second").value;
      double& best = best_[run.run_name.str()];
      best = std::max(best, rate);
    }
    if (!medians.empty()) Printer::ReportRuns(medians);
  }
  /// Nanoseconds per ULPDU; 0 if it did not run.
  double ns(const std::string& name) const {
    const auto found = best_.find(name);
    return found == best_.end() ? 0 : 1e9 / found->second;
  }

 private:
  std::map<std::string, double> best_;
};

struct Line {
  std::string figure, limit;
  double goal = 0;    ///< 0: for information
  bool cost = false;  ///< true: the goal is the maximum of figure/limit in time; false: the minimum of limit/figure
};

std::vector<Line> lines() {
  std::vector<Line> out;
  for (const int size : {1440, 4096, 16384})
    out.push_back({fmt::format("frame_copy/{}", size), fmt::format("raw_copy_crc/{}", size), 0.8});
  for (const int size : {1024, 1042, 1440, 4096, 16384})
    out.push_back({fmt::format("frame_gather/{}", size), fmt::format("raw_crc/{}", size), 0.8});
  for (const int size : {1024, 1440, 4096, 16384})
    out.push_back({fmt::format("deframe/{}", size), fmt::format("raw_crc/{}", size), 0.8});
  for (const int size : {1024, 1440, 4096, 16384})
    for (const char* figure : {"frame_gather", "deframe"})
      out.push_back({fmt::format("{}/{}", figure, size), fmt::format("own_crc/{}", size)});
  for (const int size : {64, 256, 1024, 1440, 4096, 16384})
    out.push_back({fmt::format("deframe_markers/{}", size), fmt::format("deframe/{}", size), 1.25, true});
  return out;
}

template <class Printer>
void print_table(std::FILE* to, const Collector<Printer>& runs) {
  constexpr double small_goal = 60e6;
  fmt::print(to, "\nCRC32c by {}; fastest of interleaved repetitions, CPU time, ns per ULPDU\n", crc_path_name());
  fmt::print(to, "{:<24}{:>9}  {:<20}{:>9}{:>8}  {:<9}\n", "figure", "ns", "limit", "ns", "ratio", "goal");
  for (const Line& line : lines()) {
    const double figure = runs.ns(line.figure), limit = runs.ns(line.limit);
    if (figure == 0 || limit == 0) continue;
    const double ratio = line.cost ? figure / limit : limit / figure;
    const bool met = line.cost ? ratio <= line.goal : ratio >= line.goal;
    const std::string goal =
        line.goal == 0 ? "" : fmt::format("{} {:.2f} {}", line.cost ? "<=" : ">=", line.goal, met ? "met" : "MISSED");
    fmt::print(to, "{:<24}{:>9.1f}  {:<20}{:>9.1f}{:>8.2f}  {}\n", line.figure, figure, line.limit, limit, ratio, goal);
  }
  if (const double small = runs.ns("deframe/64"); small != 0)
    fmt::print(to, "{:<24}{:>9.1f}  {:.1f} M FPDU/s, goal >= {:.0f} M/s {}\n", "deframe/64", small, 1e3 / small,
               small_goal / 1e6, 1e9 / small >= small_goal ? "met" : "MISSED");
}

void sizes(benchmark::internal::Benchmark* b) {
  for (const int size : {64, 256, 1024, 1042, 1440, 4096, 16384}) b->Arg(size);  // 1042: header and 1 KiB
}

template <class Printer>
int run(std::FILE* table) {
  Collector<Printer> collector;
  benchmark::RunSpecifiedBenchmarks(&collector);
  print_table(table, collector);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::RegisterBenchmark("raw_crc", raw_crc, raw_path())->Apply(sizes);
  benchmark::RegisterBenchmark("own_crc", raw_crc, CrcPath::automatic)->Apply(sizes);
  benchmark::RegisterBenchmark("raw_copy_crc", raw_copy_crc)->Apply(sizes);
  benchmark::RegisterBenchmark("frame_copy", frame_copy, false)->Apply(sizes);
  benchmark::RegisterBenchmark("frame_copy_markers", frame_copy, true)->Apply(sizes);
  benchmark::RegisterBenchmark("frame_gather", frame_gather)->Apply(sizes);
  benchmark::RegisterBenchmark("deframe", deframe, false, true)->Apply(sizes);
  benchmark::RegisterBenchmark("deframe_markers", deframe, true, true)->Apply(sizes);
  benchmark::RegisterBenchmark("deframe_no_crc", deframe, false, false)->Apply(sizes);

  // Defaults come first, so that the command line overrides them.
  std::vector<std::string> arguments = {argv[0], "--benchmark_repetitions=15", "--benchmark_min_time=0.01",
                                        "--benchmark_enable_random_interleaving=true"};
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    arguments.emplace_back(argv[i]);
    json = json || arguments.back() == "--benchmark_format=json";
  }
  std::vector<char*> pointers;
  for (auto& argument : arguments) pointers.push_back(argument.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) return 2;
  return json ? run<benchmark::JSONReporter>(stderr) : run<benchmark::ConsoleReporter>(stdout);
}
