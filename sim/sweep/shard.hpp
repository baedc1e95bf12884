// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One of several processes that share the runs of a sweep without talking to each other: shard I of N does each N-th run,
// from the I-th on.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

namespace parley::sim {

inline constexpr std::uint64_t shards_max = 65'536;

struct Shard {
  std::uint64_t number = 1;  ///< 1 to count
  std::uint64_t count = 1;   ///< at most shards_max
  bool operator==(const Shard&) const = default;

  /// How many of the runs 0 to `last` it has, less one; nothing if it has none.
  std::optional<std::uint64_t> last_position(std::uint64_t last) const {
    return last < number - 1 ? std::nullopt : std::optional((last - (number - 1)) / count);
  }
  /// The run at a position, from 0.
  std::uint64_t run_at(std::uint64_t position) const { return position * count + (number - 1); }
};

/// "2/4".
std::string to_text(const Shard& shard);
/// "2/4". Errors: one line for the user.
tl::expected<Shard, std::string> parse_shard(std::string_view text);

/// A shard and where it was read.
struct DetectedShard {
  Shard shard;
  std::string source;    ///< "SLURM_PROCID=1 of SLURM_NTASKS=4"
  bool of_task = false;  ///< each task of a job has its own: SLURM_PROCID
};
/// The shard that a job scheduler or a CI system gave this process. `environment` returns a variable's value, or null.
/// Errors: one line for the user.
tl::expected<DetectedShard, std::string> detect_shard(const std::function<const char*(const char*)>& environment);

}  // namespace parley::sim
