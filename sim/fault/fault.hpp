// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The faults of one way of a link: rules tried in order on every finished frame that crosses it. Frames are looked into
// only as deeply as the rules ask: rules of chance or mask over all frames cost a few comparisons.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "parley/sim.hpp"
#include "sim/fault/fault_text.hpp"
#include "sim/fault/message_kind.hpp"
#include "sim/net/frame.hpp"

namespace parley::sim {

/// What is to happen to a frame. The frame's octets have been changed already where a rule says so.
struct FaultDecision {
  DropReason drop = DropReason::none;
  Duration extra{};          ///< longer on the way
  bool overtakable = false;  ///< later frames need not wait for this one (FaultRule::reorder)
  std::uint32_t copies = 0;  ///< to be delivered besides; at most copies_max
  bool reset = false;        ///< inject a RST towards both ends after this frame (make_resets)
  bool fin = false;          ///< cut_stream: the frame got FIN; the injector keeps back what its sender says later
  std::vector<const FaultRule*> hosts;  ///< crash, restart, pause, resume to be carried out after rule.delay
  bool changes_stream = false;          ///< what TCP delivers may differ from what was sent
  std::string note;                     ///< what was done, for the tap; empty: nothing
  static constexpr std::uint32_t copies_max = 256;
};

/// When a rule hits, in addition to parley/sim.hpp:
/// - Only frames in [from, until) are tried and counted; each frame that a rule drops is the last that later rules see.
/// - Each rule draws from a generator of its own, so a rule that hits more or less does not disturb the others.
/// - corrupt_mpa damages the message that the matched frame begins, even where the field lies in a later frame of it.
/// - cut_stream: the sender's stream ends with a FIN after `octets` of the message, one octet before its end at the
///   latest (the FIN takes the sequence number of the first octet cut, so both TCPs stay in step). What the sender says
///   later goes on as bare acknowledgements, without payload and FIN; its RST passes. Retransmissions of what came
///   before the cut are cut alike.
/// - set_rate is the link's own business: it is checked and kept, but no frame sets it off.
class FaultInjector {
 public:
  static constexpr std::size_t rules_max = 256;
  explicit FaultInjector(Rng rng);
  ~FaultInjector();
  /// Errors: too many rules, a rule that contradicts itself (check_rule).
  Checked<void> add(const FaultRule& rule);
  bool empty() const;
  /// May change the frame (never its capacity). `describe`: fill note (a tap listens).
  FaultDecision apply(Instant now, Frame& frame, bool describe);
  /// The RST segments for the connection of `frame`, towards its receiver and towards its sender; empty when the frame
  /// is no TCP segment or is a RST itself. Their sequence numbers are the ones the ends expect next (RFC 5961 §3.2):
  /// the octet after this frame, and what this frame acknowledges.
  static std::pair<FramePtr, FramePtr> make_resets(FramePool& pool, const Frame& frame);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace parley::sim
