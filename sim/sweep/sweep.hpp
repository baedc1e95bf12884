// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A sweep: many runs of one scenario, with a range of seeds or with every pattern of early losses. Its description has
// everything that its results depend on, so that other processes can do a part of the runs.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "parley/bytes.hpp"
#include "parley/sim.hpp"
#include "parley/time.hpp"
#include "sim/run/run.hpp"

namespace parley::sim {

/// Octets of a described sweep, at most: a scenario file and some more.
inline constexpr std::size_t sweep_octets_max = (1 << 20) + (1 << 16);

struct Sweep {
  enum class Kind : std::uint8_t { explore, exhaust };
  Kind kind = Kind::explore;
  std::string build;       ///< version and commit: "parley 0.1.0 (commit 1a2b3c4d5e6f)"
  std::string shown;       ///< the scenario as the user names it
  std::string path;        ///< of its file; may be another on each machine
  std::string text;        ///< of its file
  std::uint64_t last = 0;  ///< the runs are 0 to last
  std::uint64_t seed = 0;  ///< explore: of run 0; exhaust: of every run
  bool swarm = false, settled = false;
  Layer layer = Layer::tcp;  ///< exhaust: whose frames are counted
  std::uint64_t failures_max = 20;
  Duration time_budget{};
  bool operator==(const Sweep&) const = default;

  std::uint64_t seed_of(std::uint64_t run) const { return kind == Kind::explore ? seed + run : seed; }
  std::optional<DropMask> mask_of(std::uint64_t run) const {
    return kind == Kind::explore ? std::nullopt : std::optional(DropMask{run, layer});
  }
};

Bytes encode_sweep(const Sweep& sweep);
/// Nothing if the octets are not exactly one description, if its runs are not possible, or if a name in it has a control
/// character.
std::optional<Sweep> decode_sweep(ConstBytes octets);

/// The first difference between two sweeps as the user would name it: "the version", "the seeds". The path of the
/// scenario may differ. Empty if there is no difference.
std::string difference(const Sweep& a, const Sweep& b);

}  // namespace parley::sim
