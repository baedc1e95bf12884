// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The wire as each host's own capture would show it, judged by capture/: the responder is silent before the first FPDU
// where the fence applies (RFC 5044 §7.1.2 rule 4), and no other MUST of RFC 5040, 5041, 5044 and 6581 is broken by an
// end without a quirk. The verdict shares the codecs with the code under test, but no decisions.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "capture/analyzer.hpp"
#include "sim/check/judge.hpp"

namespace parley::sim::check {

struct WireOptions {
  bool fence = true;           ///< ScenarioBounds::fence
  std::set<Address> quirky{};  ///< ends that emulate another vendor's departures; port 0: every end at that address
  /// Initiators that announce an FPDU form of the RTR by S under revision 1 (docs/mpa-rtr.md), which deviates from OFA
  /// 2007-10 Rtr §2.
  std::set<Address> announce_by_s{};
};

class WireCheck {
 public:
  explicit WireCheck(WireOptions options) : options_(std::move(options)) {}
  /// A frame that this host sent, or received without discarding it.
  void frame(const std::string& host, const TapFrame& frame);
  /// A fault changed MPA octets of this stream: they prove nothing against its ends.
  void corrupted(const Address& a, const Address& b);
  /// The same for RoCE, where ports do not distinguish the connections between two hosts.
  void forged(const Address& a, const Address& b);
  /// The host crashed, and its capture ended. Later frames are unrelated to earlier ones, except for these RoCE
  /// connections: late messages of their set-up may reach the next life, whose capture lacks the messages that they
  /// answer.
  void restarted(const std::string& host, const std::vector<std::pair<Address, Address>>& open);
  /// `label` names a connection by its two ends, or is empty.
  using Labels = std::map<std::pair<Address, Address>, std::string>;
  static std::pair<Address, Address> name(const Address& a, const Address& b);
  void finish(const Labels& labels, Judge& judge);

 private:
  struct Capture {
    capture::Analyzer analyzer;
    std::uint64_t frames = 0;
  };
  /// `life`: how often the host had crashed before.
  void judge_connection(const std::string& host, std::size_t life, const capture::ConnectionReport& report,
                        const Labels& labels, std::set<std::string>& said, Judge& judge) const;
  static std::pair<Address, Address> hosts(Address a, Address b);
  static bool is_one_of(const std::set<Address>& ends, const Address& end);

  WireOptions options_;
  std::map<std::string, Capture> captures_;                             // by host
  std::map<std::string, std::vector<capture::FileReport>> finished_;    // one for each life of a host, in order
  std::set<std::pair<std::string, std::pair<Address, Address>>> torn_;  // by a crash of this host
  std::set<std::pair<Address, Address>> corrupted_;
  std::set<std::pair<Address, Address>> forged_;  // without ports
};

}  // namespace parley::sim::check
