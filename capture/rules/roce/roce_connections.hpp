// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whose a RoCE packet is: CM messages by their communication IDs, data by queue pairs. A queue pair that no CM message
// names is listed as a connection without its set-up. Two directions of such a one belong together where a UD header says
// so, or where an answer has the PSN of what was asked; nothing is judged by that.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "capture/rules/roce/roce_connection.hpp"
#include "capture/rules/roce/roce_host.hpp"

namespace parley::capture {

class RoceConnections {
 public:
  /// `no_icrc`: it is not looked at.
  /// `watch`: null, or outlives it.
  explicit RoceConnections(RoceHost& host, bool no_icrc = false, RoceWatch* watch = nullptr)
      : host_(host), no_icrc_(no_icrc), watch_(watch) {}

  /// A packet of RoCEv1 or RoCEv2.
  void packet(const wire::PacketView& view, const wire::CapturedPacket& captured);
  /// One that was read elsewhere.
  void take(RocePacket& p);
  /// One that ends before its headers do, or whose pad does not fit. `p` has frame, time, addresses and `wire_size`; `bth`: its octets
  /// from there on. False: no connection has it.
  bool malformed(const RocePacket& p, ConstBytes bth, std::string_view why);
  /// Those that were over, or silent for `idle`, by `now`.
  void end_silent(Instant now, Duration idle);
  void finish();
  std::uint64_t not_followed() const { return not_followed_; }
  std::uint64_t dropped_before = 0;  ///< the Analyzer's

 private:
  static constexpr std::size_t live_max = 16384;     // connections followed at one time
  static constexpr std::size_t gsi_max = 16384;      // ports whose management packets are counted
  static constexpr std::size_t candidates_max = 64;  // of one pair of addresses
  static constexpr std::uint64_t told_max = 10;      // packets that cannot be read
  static constexpr Duration over_quiet = std::chrono::seconds(3);
  static constexpr Duration reuse_after = std::chrono::minutes(10);

  struct Place {
    RoceConnection* connection = nullptr;
    Side side = Side::initiator;  // whose end the key names
  };
  struct KeyHash {
    std::size_t operator()(const RoceKey& key) const;
  };
  struct GsiLast {
    FrameRef ref;
    std::uint32_t psn = 0;
  };

  void gsi(const RocePacket& p);
  void odd_mad(const RocePacket& p);
  void cm(const RocePacket& p, CmSeen& m, const wire::ib::MadHeader& header);
  Place find_cm(const RocePacket& p, const wire::ib::CmMessage& m);
  Place find_by_ids(const Gid& from, const Gid& to, const CmIds& ids) const;
  Place begin_cm(const RocePacket& p, const wire::ib::CmMessage& m);
  void data(const RocePacket& p);
  Place find_data(const RocePacket& p);
  Place find_partner(const RocePacket& p);
  Place begin_data(const RocePacket& p);
  Place at(const RoceKey& key) const;
  RoceConnection* begin(const Gid& initiator, const Gid& responder, const RocePacket& p);
  void learn(RoceConnection& c);
  void put(const RoceKey& key, RoceConnection& c, Side side);
  void forget(const RoceKey& key);
  void retire(RoceConnection* c);
  bool make_room(Instant now);
  void unreadable(const wire::CapturedPacket& captured, RocePacket& p, const wire::PacketView& view);

  RoceHost& host_;
  bool no_icrc_;
  RoceWatch* watch_;
  RoceReader reader_;
  RoceBudget budget_;
  std::unordered_map<RoceConnection*, std::unique_ptr<RoceConnection>> live_;
  std::unordered_map<RoceKey, Place, KeyHash> places_;
  std::unordered_map<RoceKey, std::vector<RoceConnection*>, KeyHash> pairs_;  // number 0; a before b
  std::unordered_map<RoceKey, GsiLast, KeyHash> gsi_;                         // a alone
  std::uint64_t unreadable_ = 0, cut_ = 0, fragments_ = 0, not_followed_ = 0, mads_of_others_ = 0;
};

}  // namespace parley::capture
