// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Assigns RoCE packets to connections: CM messages by their communication IDs, data by queue pairs. A queue pair that
// no CM message names is listed as a connection without set-up. Its two directions are paired by a UD header, or by an
// answer with the PSN of a request. No rule depends on this pairing.
#pragma once
#include <deque>
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
  /// `no_icrc`: do not check the ICRC. `watch` may be null; it must outlive this object.
  explicit RoceConnections(RoceHost& host, bool no_icrc = false, RoceWatch* watch = nullptr)
      : host_(host), no_icrc_(no_icrc), watch_(watch) {}

  /// A packet of RoCEv1 or RoCEv2.
  void packet(const wire::PacketView& view, const wire::CapturedPacket& captured);
  /// A packet that the caller has parsed.
  void take(RocePacket& p);
  /// A packet that ends before its headers, or whose pad is wrong. `p` must have frame, time, addresses and wire_size.
  /// `bth`: its octets from the BTH on. False: it belongs to no known connection.
  bool malformed(const RocePacket& p, ConstBytes bth, std::string_view why);
  /// Ends the connections that are over, or were silent for `idle`, at `now`.
  void end_silent(Instant now, Duration idle);
  void finish();
  std::uint64_t not_followed() const { return not_followed_; }
  std::uint64_t dropped_before = 0;  ///< set by the Analyzer; copied into new connections

 private:
  static constexpr std::size_t live_max = 16384;     // connections followed at one time
  static constexpr std::size_t gsi_max = 16384;      // ports whose last GSI packet is remembered
  static constexpr std::size_t candidates_max = 64;  // connections remembered for one pair of addresses
  static constexpr std::size_t dropped_max = 64;
  static constexpr std::uint64_t told_max = 10;  // malformed packets with a note of their own
  static constexpr Duration over_quiet = std::chrono::seconds(3);
  static constexpr Duration reuse_after = std::chrono::minutes(10);

  struct ConnectionSide {
    RoceConnection* connection = nullptr;
    Side side = Side::initiator;  // the side that the key identifies
  };
  struct KeyHash {
    std::size_t operator()(const RoceKey& key) const;
  };
  struct GsiLast {
    FrameRef ref;
    std::uint32_t psn = 0;
    bool icrc_right = false;  // a packet had the right ICRC
  };

  /// A REQ or SIDR_REQ that its receiver must drop.
  struct DroppedRequest {
    Gid from, to;
    std::uint64_t transaction = 0;
    FrameRef ref;
    std::string_view why;  // static
  };
  void remember_dropped(const RocePacket& p, ConstBytes mad, std::string_view why);
  void note_request(const RocePacket& p, const wire::ib::CmMessage& m, RoceConnection& c, std::string_view why);
  void check_answer_to_dropped(const RocePacket& p, const wire::ib::CmMessage& m, const ConnectionSide& place);
  std::string_view reason_to_drop(const RocePacket& p, const wire::ib::MadHeader& header) const;
  void gsi(const RocePacket& p);
  void odd_mad(const RocePacket& p);
  void cm(const RocePacket& p, CapturedCm& m, const wire::ib::MadHeader& header);
  ConnectionSide find_cm(const RocePacket& p, const wire::ib::CmMessage& m);
  ConnectionSide find_by_ids(const Gid& from, const Gid& to, const CmIds& ids) const;
  ConnectionSide begin_cm(const RocePacket& p, const wire::ib::CmMessage& m);
  void data(const RocePacket& p);
  ConnectionSide find_data(const RocePacket& p);
  ConnectionSide find_partner(const RocePacket& p);
  ConnectionSide begin_data(const RocePacket& p);
  ConnectionSide at(const RoceKey& key) const;
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
  std::unordered_map<RoceKey, ConnectionSide, KeyHash> places_;
  std::unordered_map<RoceKey, std::vector<RoceConnection*>, KeyHash> pairs_;  // keys with number 0 and a <= b
  std::unordered_map<RoceKey, GsiLast, KeyHash> gsi_;                         // keys with `a` alone: the sender
  std::deque<DroppedRequest> dropped_;  // at most dropped_max, then the oldest are removed
  std::uint64_t unreadable_ = 0, cut_ = 0, fragments_ = 0, not_followed_ = 0;
};

}  // namespace parley::capture
