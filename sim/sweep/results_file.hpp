// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The file of results that one shard of a sweep leaves for `parley sim merge`:
//
//   16 octets  "parley results 1"
//   length, octets   the sweep (sim/sweep/sweep.hpp)
//   number, number   the shard and how many there are
//   length, octets   one record (sim/sweep/report_record.hpp) for each run, in the order of the shard's positions
//   0, number        the end: how it ended (ShardEnd)
//   8 octets   FNV-1a of all octets before, big-endian
//
// Numbers and lengths are LEB128. A file without the end belongs to a process that did not end.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "base/fnv1a.hpp"
#include "parley/bytes.hpp"
#include "sim/sweep/shard.hpp"
#include "sim/sweep/sweep.hpp"

namespace parley::sim {

/// Octets of one file, at most; and of all files of one sweep that are merged.
inline constexpr std::size_t results_file_max = std::size_t{1} << 30;
inline constexpr std::size_t results_merged_max = std::size_t{4} << 30;

/// The first octets of a file.
inline constexpr std::string_view results_magic = "parley results 1";

enum class ShardEnd : std::uint8_t { complete, enough_failures, time_budget, interrupted };

/// Makes the octets of a file, piece by piece.
class ResultsWriter {
 public:
  Bytes begin(const Sweep& sweep, const Shard& shard);
  Bytes add(ConstBytes record);
  Bytes end(ShardEnd how);

 private:
  Bytes summed(Bytes piece);
  std::uint64_t sum_ = fnv1a_start;
};

struct ShardResults {
  Sweep sweep;
  Shard shard;
  ShardEnd end = ShardEnd::complete;
  std::vector<ConstBytes> records;  ///< by position; views into the file
};
/// Errors: what is wrong, in words that follow the file's name. The records are not decoded.
tl::expected<ShardResults, std::string> parse_results(ConstBytes file);

/// What the user gave: a file's name and its results.
struct NamedResults {
  std::string name;
  ShardResults results;
};
/// Checks that the files are the shards of one sweep, each exactly once, and sorts them by their numbers. Returns the
/// first trouble in one line; empty if there is none.
std::string match_shards(std::vector<NamedResults>& files);

}  // namespace parley::sim
