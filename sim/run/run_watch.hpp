// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The tap of a run: passes every frame to the recorder and the wire checkers, and notes which connections and hosts a
// fault has touched, because these may end differently.
#pragma once
#include <vector>

#include "sim/check/congestion.hpp"
#include "sim/check/convergence.hpp"
#include "sim/check/wire.hpp"
#include "sim/workload/workload.hpp"

namespace parley::sim {

class RunWatch final : public Tap {
 public:
  /// `congestion` and `next` may be null.
  RunWatch(const World& world, Workload& workload, check::WireCheck& wire, check::Convergence& convergence,
           check::Congestion* congestion, Tap* next);
  void on_frame(const TapFrame& frame) override;
  void on_note(Instant at, NodeId host, NoteKind kind, std::string_view text) override;
  std::uint64_t faults() const { return faults_; }
  std::uint64_t lost_at_hosts() const { return lost_at_hosts_; }
  std::uint64_t queue_drops() const { return queue_drops_; }

 private:
  void touched(const TapFrame& frame);
  void touched_roce(const Address& a, const Address& b, bool forged);

  const World& world_;
  Workload& workload_;
  check::WireCheck& wire_;
  check::Convergence& convergence_;
  check::Congestion* congestion_;
  Tap* next_;
  std::vector<const std::string*> host_of_;  // by link end; null: a switch
  std::uint64_t faults_ = 0, queue_drops_ = 0, lost_at_hosts_ = 0;
};

}  // namespace parley::sim
