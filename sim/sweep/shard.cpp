// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/sweep/shard.hpp"

#include <charconv>
#include <system_error>

#include <fmt/format.h>

namespace parley::sim {
namespace {

using Environment = std::function<const char*(const char*)>;

std::optional<std::uint64_t> decimal(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Two variables: the number of this process, counted from `first`, and how many there are.
struct Pair {
  const char *number, *count;
  std::uint64_t first;
  bool of_task;
};

tl::expected<DetectedShard, std::string> from_pair(const Environment& environment, const Pair& pair) {
  const char* const number_text = environment(pair.number);
  const char* const count_text = environment(pair.count);
  const std::string source =
      fmt::format("{}={} of {}={}", pair.number, number_text, pair.count, count_text == nullptr ? "" : count_text);
  const auto number = decimal(number_text);
  const auto count = decimal(count_text == nullptr ? "" : count_text);
  if (!number || !count || *count == 0 || *count > shards_max || *number < pair.first || *number - pair.first >= *count)
    return tl::unexpected(fmt::format("auto: {} is not a shard; give --shard I/N", source));
  return DetectedShard{{*number - pair.first + 1, *count}, source, pair.of_task};
}

/// A Slurm array may have gaps (1,3,7); then its tasks have no number that counts them.
tl::expected<DetectedShard, std::string> from_array(const Environment& environment) {
  const auto value = [&environment](const char* name) {
    const char* const text = environment(name);
    return decimal(text == nullptr ? "" : text);
  };
  const auto id = value("SLURM_ARRAY_TASK_ID"), min = value("SLURM_ARRAY_TASK_MIN"),
             max = value("SLURM_ARRAY_TASK_MAX");
  const auto count = value("SLURM_ARRAY_TASK_COUNT");
  const auto step = environment("SLURM_ARRAY_TASK_STEP") == nullptr ? 1 : value("SLURM_ARRAY_TASK_STEP");
  const bool regular = id && min && max && count && step && *step != 0 && *count != 0 && *count <= shards_max &&
                       *min <= *id && *id <= *max && (*max - *min) / *step + 1 == *count && (*id - *min) % *step == 0;
  if (!regular)
    return tl::unexpected(
        std::string("auto: the indices of this Slurm array (SLURM_ARRAY_TASK_ID, _MIN, _MAX, _STEP, _COUNT) are not "
                    "evenly spaced; give --shard I/N"));
  return DetectedShard{{(*id - *min) / *step + 1, *count},
                       fmt::format("SLURM_ARRAY_TASK_ID={} of SLURM_ARRAY_TASK_COUNT={}", *id, *count),
                       false};
}

}  // namespace

std::string to_text(const Shard& shard) { return fmt::format("{}/{}", shard.number, shard.count); }

tl::expected<Shard, std::string> parse_shard(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto number = decimal(text.substr(0, slash));
  const auto count = slash == std::string_view::npos ? std::nullopt : decimal(text.substr(slash + 1));
  if (!number || !count) return tl::unexpected(fmt::format("'{}' is not a shard; write I/N, as in 2/4, or auto", text));
  if (*count == 0 || *count > shards_max)
    return tl::unexpected(fmt::format("'{}': there are 1 to {} shards", text, shards_max));
  if (*number == 0 || *number > *count)
    return tl::unexpected(fmt::format("'{}': the shards of {} are numbered 1 to {}", text, *count, *count));
  return Shard{*number, *count};
}

tl::expected<DetectedShard, std::string> detect_shard(const Environment& environment) {
  if (environment("SLURM_ARRAY_TASK_ID") != nullptr) return from_array(environment);
  for (const Pair& pair :
       {Pair{"SLURM_PROCID", "SLURM_NTASKS", 0, true}, Pair{"CI_NODE_INDEX", "CI_NODE_TOTAL", 1, false}})
    if (environment(pair.number) != nullptr) return from_pair(environment, pair);
  return tl::unexpected(
      std::string("auto: none of SLURM_ARRAY_TASK_ID, SLURM_PROCID (Slurm) and CI_NODE_INDEX (GitLab) is set; give "
                  "--shard I/N"));
}

}  // namespace parley::sim
