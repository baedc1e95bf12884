// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The faults of one direction of a link: rules tried in order on every finished frame that crosses it. Frames are
// parsed only as deeply as the rules need: rules of chance or mask over all frames cost a few comparisons.
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
#include "sim/fault/roce_connections.hpp"
#include "sim/net/frame.hpp"

namespace parley::sim {

/// What is to happen to a frame. If a rule changes its octets, that has already been done.
struct FaultDecision {
  DropReason drop = DropReason::none;
  Duration extra{};          ///< additional delay
  bool overtakable = false;  ///< later frames need not wait for this one (FaultRule::reorder)
  std::uint32_t copies = 0;  ///< to be delivered besides; at most copies_max
  bool reset = false;        ///< inject a RST towards both ends after this frame (make_resets)
  bool fin = false;          ///< cut_stream: the frame got a FIN; the injector holds back what its sender sends later
  std::vector<const FaultRule*> hosts;  ///< crash, restart, pause, resume to be carried out after rule.delay
  bool changes_stream = false;          ///< what TCP delivers may differ from what was sent
  std::string note;                     ///< what was done, for the tap; empty: nothing
  static constexpr std::uint32_t copies_max = 256;
};

/// When a rule hits, in addition to parley/sim.hpp:
/// - Only frames in [from, until) are tried and counted. Each rule counts every frame that the sender put on the link, also those that
///   another rule drops: which frame is the 2nd does not depend on other rules. Chance is
///   drawn only for frames that are still there. What a cut_stream has taken off counts for none.
/// - Each rule draws from its own generator, so a rule that hits more or less does not disturb the others.
/// - corrupt_mpa damages the message that begins in the matched frame, even if the field is in a later frame of it.
/// - cut_stream: the sender's stream ends with a FIN after `octets` of the message, one octet before its end at the
///   latest (the FIN takes the sequence number of the first octet cut, so both TCPs stay in step). What is sent
///   later continues as bare acknowledgements, without payload and FIN; its RST passes. Retransmissions of what came
///   before the cut are cut alike.
/// - set_rate is up to the link: it is checked and kept here, but no frame triggers it.
class FaultInjector {
 public:
  static constexpr std::size_t rules_max = 256;
  explicit FaultInjector(Rng rng);
  ~FaultInjector();
  /// Errors: too many rules, a rule that contradicts itself (check_rule).
  Checked<void> add(const FaultRule& rule);
  bool empty() const;
  /// Which RoCE connections pass, as both directions of the link see them. A rule that means one of them begins it; none: no rule
  /// does.
  std::shared_ptr<RoceConnections> roce_connections() const;
  /// Shows it what passes here as well.
  void follow(std::shared_ptr<RoceConnections> connections);
  /// May change the frame (never its capacity). `describe`: fill note (a tap listens).
  FaultDecision apply(Instant now, Frame& frame, bool describe);
  /// The frame is lost by other means: it counts, and nothing is done.
  void count(Instant now, const Frame& frame);
  /// Adds what came of each rule that has a number of its own (FaultRule::number).
  void add_tallies(std::vector<FaultTally>& by_number) const;
  /// The RST segments for the connection of `frame`, towards its receiver and towards its sender; empty if the frame
  /// is no TCP segment or is itself a RST. Their sequence numbers are the ones the ends expect next (RFC 5961 §3.2):
  /// the octet after this frame, and what this frame acknowledges.
  static std::pair<FramePtr, FramePtr> make_resets(FramePool& pool, const Frame& frame);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace parley::sim
