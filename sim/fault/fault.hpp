// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The faults of one direction of a link: rules that are tried in order on every complete frame that crosses it. Frames
// are parsed only as deeply as the rules need; rules with only a probability or a mask cost a few comparisons per
// frame.
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

/// What to do with a frame. If a rule changes its octets, that has already been done.
struct FaultDecision {
  DropReason drop = DropReason::none;
  Duration extra{};          ///< additional delay
  bool overtakable = false;  ///< later frames need not wait for this one (FaultRule::reorder)
  std::uint32_t copies = 0;  ///< additional copies to deliver; at most copies_max
  bool reset = false;        ///< inject a RST towards both ends after this frame (make_resets)
  bool fin = false;          ///< cut_stream: the frame got a FIN; the injector holds back what its sender sends
                             ///< afterwards
  std::vector<const FaultRule*> hosts;  ///< crash, restart, pause, resume: to execute after rule.delay
  bool changes_stream = false;          ///< the octets that TCP delivers may differ from those sent
  std::string note;                     ///< description for the tap; empty: nothing was done
  static constexpr std::uint32_t copies_max = 256;
};

/// When a rule hits, in addition to parley/sim.hpp:
/// - Only frames in [from, until) are tried and counted. Each rule counts every frame that the sender put on the link,
///   including those that another rule drops, so that the 2nd frame does not depend on other rules. A rule with a
///   probability draws only for frames that are not lost yet. Frames that a cut_stream removed do not count.
/// - Each rule draws from its own generator, so that a rule that hits more or less often does not disturb the others.
/// - corrupt_mpa damages the message that begins in the matched frame, even if the field is in a later frame of it.
/// - cut_stream: the sender's stream ends with a FIN after `octets` of the message, at the latest one octet before its
///   end. (The FIN takes the sequence number of the first octet that is cut, so both TCPs stay in step.) Later segments
///   are reduced to acknowledgments, without payload and FIN; a RST passes. Retransmissions of octets before the cut
///   are cut in the same way.
/// - set_rate is executed by the link: it is checked and stored here, but no frame triggers it.
class FaultInjector {
 public:
  static constexpr std::size_t rules_max = 256;
  explicit FaultInjector(Rng rng);
  ~FaultInjector();
  /// Errors: too many rules, a rule that contradicts itself (check_rule).
  Checked<void> add(const FaultRule& rule);
  bool empty() const;
  /// Tracks the RoCE connections on the link, from both directions. Created if a rule selects one of them; otherwise
  /// null.
  std::shared_ptr<RoceConnections> roce_connections() const;
  /// Frames of this direction are also shown to it.
  void follow(std::shared_ptr<RoceConnections> connections);
  /// May change the frame (never its capacity). `describe`: a tap listens, so fill in the note.
  FaultDecision apply(Instant now, Frame& frame, bool describe);
  /// The frame is lost for another reason: it is counted, and no rule acts on it.
  void count(Instant now, const Frame& frame);
  /// Adds the tally of each rule that has a number (FaultRule::number).
  void add_tallies(std::vector<FaultTally>& by_number) const;
  /// The RST segments for the connection of `frame`, towards its receiver and towards its sender; empty if the frame is
  /// not a TCP segment or is itself a RST. Their sequence numbers are the ones the ends expect next (RFC 5961 §3.2):
  /// the octet after this frame, and what this frame acknowledges.
  static std::pair<FramePtr, FramePtr> make_resets(FramePool& pool, const Frame& frame);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace parley::sim
