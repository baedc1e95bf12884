// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The ranks of `mpirun -n N parley sim explore`: rank 0 leads and reports, all do runs (sim/sweep/leader.hpp).
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "drivers/mpi/mpi_world.hpp"
#include "sim/sweep/shard.hpp"
#include "sim/sweep/sweep.hpp"
#include "tools/sim/sim_once.hpp"

namespace parley::tools {

/// What rank 0 knows of the runs.
struct RankedSweep {
  const sim::Sweep& sweep;
  const sim::Shard& shard;
  const ScenarioFile& file;
  std::uint64_t last = 0;  ///< the positions are 0 to last
  unsigned jobs = 1;       ///< threads of this rank
  Duration silence{};      ///< a rank that is silent for so long is lost
};

class Ranks {
 public:
  /// Joins the ranks; a null pointer if no launcher started several. Errors: environment.
  static Or<std::unique_ptr<Ranks>> join();
  /// Rank 0 releases the others and ends MPI with them. If a rank is lost, they stay until then, so that the report comes
  /// first: a launcher may end all ranks when one ends without MPI.
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  bool leads() const { return world_->rank() == 0; }
  /// Another rank than 0: does runs until rank 0 ends the sweep. Prints why it gives up, if it does. Returns the exit
  /// code.
  int follow(unsigned jobs, Output& out);

  using Take = std::function<bool(std::uint64_t, SimResult&&)>;
  using Idle = std::function<bool()>;
  /// Rank 0: as in_order (tools/jobs.hpp), with all ranks; `take` and `idle` are called on another thread. Returns why the ranks cannot do this together; empty if they
  /// can.
  std::string in_order(const RankedSweep& ranked, const Take& take, const Idle& idle, Output& out);

 private:
  explicit Ranks(std::unique_ptr<mpi::World> world) : world_(std::move(world)) {}
  void release();
  void take_leave(bool together);

  std::unique_ptr<mpi::World> world_;
  bool together_ = true;  ///< the ranks can end MPI, for which each waits for all
  bool released_ = false, all_answered_ = false;
};

}  // namespace parley::tools
