// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The faults of a simulated subnet, selected by the meaning of MADs:
//
//   lose 3rd SubnGetResp(PortInfo) of S0007        at 2s reset S0007
//   lose 5% of SubnGet(*)                          at 500ms down S0007:3
//   delay 20ms every 10th *                        at 700ms up S0007:3
//   busy 1st SubnGet(NodeInfo) of H00003           duplicate 5% of *
//   reset 2nd SubnSet(LinearForwardingTable) of S0007   overrun S0007:3
//   vl15 8 20us of S0007
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "parley/bytes.hpp"
#include "parley/time.hpp"
#include "sim/subnet/state.hpp"

namespace parley::sim::subnet {

template <class T>
using Said = tl::expected<T, std::string>;

enum class FaultAction : std::uint8_t {
  lose,
  delay,
  duplicate,
  busy,
  reset,
  down,
  up,
  integrity,
  overrun,
  watchdog,
  vl15
};

/// The MADs that a rule selects.
struct FaultMatch {
  std::optional<std::uint8_t>
      mgmt_class;  ///< 0x01 includes directed route; the first class of a range includes the range
  std::optional<std::uint8_t> method;
  std::optional<std::uint16_t> attribute;
  std::uint32_t node = nowhere;  ///< the node whose agent or client received or sent it; nowhere: any
  std::uint32_t nth = 0;         ///< 0: by probability
  bool repeated = false;         ///< every nth
  Ratio chance{1, 1};
};

struct FaultRule {
  FaultAction action = FaultAction::lose;
  FaultMatch match;
  std::optional<Duration> at;    ///< time since the beginning, independent of traffic; none: when a MAD matches
  std::uint32_t port = nowhere;  ///< for actions on a port
  std::uint32_t buffers = 0;     ///< vl15: how many SMPs a node can buffer; it handles each one in `delay`
  Duration delay{};
  std::string text;  ///< original text
  std::uint64_t seen = 0, hits = 0;
};

inline constexpr std::size_t fault_rules_max = 256;
inline constexpr Duration fault_delay_max = std::chrono::seconds(60);

/// Errors: a sentence that names the part that is not understood.
Said<FaultRule> parse_fault(std::string_view text, const State& state);
/// "1%", "0.05%", "0"; at most 100%.
Said<Ratio> parse_percentage(std::string_view text);
/// "20ms", "1.5s".
Said<Duration> parse_span(std::string_view text);

/// What to do with a MAD.
struct FaultDecision {
  bool lost = false, busy = false, twice = false;
  Duration delay{};
  std::uint32_t reset = nowhere;  ///< the node to reset
};

class Faults {
 public:
  Faults(std::uint64_t seed, Ratio loss, Duration delay) : rng_(seed), loss_(loss), delay_(delay) {}
  void add(FaultRule rule) { rules_.push_back(std::move(rule)); }
  std::vector<FaultRule>& rules() { return rules_; }
  const std::vector<FaultRule>& rules() const { return rules_; }
  bool empty() const { return rules_.empty() && loss_.of == 0 && delay_ == Duration::zero(); }
  /// `node`: the node whose agent or client sends or receives it.
  FaultDecision judge(ConstBytes mad, std::uint32_t node);
  /// How fast the node handles SMPs; null: at once, without limit. Its hits are the SMPs that it drops.
  FaultRule* vl15_of(std::uint32_t node);

 private:
  bool hits(FaultRule& rule, ConstBytes mad, std::uint32_t node);

  Rng rng_;
  Ratio loss_;
  Duration delay_;
  std::vector<FaultRule> rules_;
};

}  // namespace parley::sim::subnet
