// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The faults of one way of a link: rules tried in order on every finished frame that crosses it.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "parley/sim.hpp"
#include "sim/frame.hpp"
#include "sim/meaning.hpp"

namespace parley::sim {

/// What is to happen to a frame. The frame's octets have been changed already where a rule says so.
struct FaultDecision {
  DropReason drop = DropReason::none;
  Duration extra{};                     ///< longer on the way
  bool overtakable = false;             ///< later frames need not wait for this one (FaultRule::reorder)
  std::uint32_t copies = 0;             ///< to be delivered besides
  bool reset = false;                   ///< inject a RST towards both ends after this frame
  bool fin = false;                     ///< cut_stream: the frame got FIN; nothing more of its sender's stream may pass
  std::vector<const FaultRule*> hosts;  ///< crash, restart, pause, resume to be carried out after rule.delay
  std::string note;                     ///< what was done, for the tap; empty: nothing
};

class FaultInjector {
 public:
  static constexpr std::size_t rules_max = 256;
  explicit FaultInjector(Rng rng);
  ~FaultInjector();
  /// Errors: too many rules, a rule that contradicts itself ("truncate needs octets").
  Checked<void> add(const FaultRule& rule);
  bool empty() const;
  /// May change the frame (never its capacity). `describe`: fill note (a tap listens).
  FaultDecision apply(Instant now, Frame& frame, bool describe);
  /// The RST segments for the connection of `frame`, towards its receiver and towards its sender.
  static std::pair<FramePtr, FramePtr> make_resets(FramePool& pool, const Frame& frame);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace parley::sim
