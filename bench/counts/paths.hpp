// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The hot paths whose instructions are counted: each on one thread, in memory, without a socket or a clock, and always the same.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace parley::bench {

/// Does about `times` operations of a path; returns how many it did.
using PathRun = std::function<std::uint64_t(std::uint64_t times)>;

struct Path {
  std::string name;               ///< as in counts.txt
  std::uint64_t times = 0;        ///< operations that are counted, after a quarter as many that are not
  std::function<PathRun()> make;  ///< prepares what the operations need
};

std::vector<Path> octet_paths();      ///< MPA, captures, management datagrams, XRC
std::vector<Path> simulated_paths();  ///< both ends of connections in the simulator

}  // namespace parley::bench
