// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Runs the hot paths one after the other. Under callgrind each leaves a profile of its counted operations alone; check.py reads
// them. Prints a line for each: name, operations.
#include <fmt/format.h>
#include <valgrind/callgrind.h>

#include <exception>
#include <string_view>

#include "bench/counts/paths.hpp"

using namespace parley::bench;

namespace {

void count(const Path& path) {
  const PathRun run = path.make();
  run(path.times / 4);
  CALLGRIND_ZERO_STATS;
  const std::uint64_t done = run(path.times);
  CALLGRIND_DUMP_STATS_AT(path.name.c_str());
  fmt::print("{} {}\n", path.name, done);
}

}  // namespace

/// Arguments: the paths to run; none: all.
int main(int argc, char** argv) {
  try {
    for (const auto& paths : {octet_paths(), simulated_paths()})
      for (const Path& path : paths) {
        bool wanted = argc == 1;
        for (int i = 1; i < argc; ++i) wanted = wanted || path.name == argv[i];
        if (wanted) count(path);
      }
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
