// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One connection of InfiniBand's transport in a capture, with or without its set-up, or one resolved UD service. It
// checks each packet by itself, passes CM messages to CmExchange and data to the RequestFlow of the requester, and
// makes the report.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "capture/read/roce/roce_packet.hpp"
#include "capture/rules/ibcm/cm_exchange.hpp"
#include "capture/rules/mpa/connection.hpp"
#include "capture/rules/roce/request_flow.hpp"

namespace parley::capture {

/// A key by which a connection is found. `a` is the GID of the end that `number` belongs to, `b` the other GID.
struct RoceKey {
  enum class Kind : std::uint8_t { comm_id, sidr, transaction, queue_pair } kind = Kind::comm_id;
  Gid a{}, b{};
  std::uint64_t number = 0;
  bool operator==(const RoceKey&) const = default;
};

class RoceConnection {
 public:
  /// Without a REQ or REP, `initiator` and `responder` may be assumed.
  RoceConnection(RoceBudget& budget, const Gid& initiator, const Gid& responder, bool v2, EventLimits events);
  RoceConnection(const RoceConnection&) = delete;
  RoceConnection& operator=(const RoceConnection&) = delete;
  /// `watch` receives each finding from now on.
  void watch(RoceWatch& watch) { findings_.forward_to(watch, *this); }

  /// A CM message from that side in a readable MAD.
  void cm(Side from, const RocePacket& p, const CapturedCm& m);
  /// Checks the ICRC. False: the packet must be ignored. `name`: of the message or operation.
  bool icrc_counts(Side from, const RocePacket& p, std::string_view name);
  /// Reports a CM MAD that receivers drop.
  void cm_condemned(Side from, const RocePacket& p, IbRule rule, std::string_view text);
  /// A packet to the queue pair of the other side.
  void data(Side from, const RocePacket& p);
  /// A packet whose headers are cut or inconsistent.
  void malformed(Side from, std::uint64_t frame, Instant at, std::string_view why);

  IbQp qp() const { return seen_->qp; }
  const std::optional<std::uint64_t>& service_id() const { return seen_->service_id; }
  const Gid& gid(Side side) const { return gids_[index_of(side)]; }
  const std::optional<std::uint32_t>& qpn(Side side) const { return seen_->ends[index_of(side)].qpn; }
  /// Assumes a QPN that no CM message has named so far. Rules that depend on it are not checked.
  void guess_qpn(Side side, std::uint32_t qpn);
  CmExchange& exchange() { return exchange_; }
  const RequestFlow& flow(Side requester) const { return *flows_[index_of(requester)]; }
  bool has_cm() const { return has_cm_; }
  bool sidr() const { return seen_->sidr; }
  /// Both queue pairs are known from CM messages.
  bool set_up_seen() const;
  /// The packet belongs to another use of these queue pairs.
  bool is_of_another(Side from, const RocePacket& p) const;
  /// A set-up connection that has not ended, and whose last packet of its own service is not long ago.
  bool is_live(Instant at) const;
  /// The packet is consistent with the REQ and REP, so it may belong to this connection.
  bool may_have(Side from, const RocePacket& p) const;
  /// Only late packets are expected.
  bool over() const { return exchange_.over() && !(seen_->sidr && !seen_->reject); }
  std::uint64_t first_frame() const { return first_frame_; }
  Instant last_at() const { return last_at_; }
  bool with_events() const { return events_.detail != EventDetail::none; }
  std::uint16_t udp_port() const { return udp_port_; }

  /// Call once, at the end.
  ConnectionReport finish();

  std::uint64_t dropped_before = 0;  ///< for the Analyzer, as MpaConnection::dropped_before
  bool sound_request = false;        ///< for RoceConnections: a REQ or SIDR_REQ came that its receiver need not drop
  std::vector<RoceKey> keys;         ///< for RoceConnections: the keys of this connection
  void* watched = nullptr;           ///< for the RoceWatch: its data on this connection

 private:
  static constexpr Duration another_use_after = std::chrono::seconds(1);

  void report_icrc(Side from);
  void report_absent_icrc();
  void seen(std::uint64_t frame, Instant at);
  void make_flows();
  bool settle_guesses(Side from, const CapturedCm& m);
  void check_by_itself(Side from, const RocePacket& p);
  void check_ends(Side from, const RocePacket& p);
  FlowTerms terms_of(Side requester) const;
  void check_order(Side from, const RocePacket& p);
  void check_late_ack(Side from, const RocePacket& p);
  void other_service(Side from, const RocePacket& p);
  void settle_stray(Side from, const RocePacket& p);
  void check_target(Side from, const RocePacket& p);
  std::string_view reason_to_drop(Side from, const RocePacket& p) const;
  void note_request(Side from, const RocePacket& p);
  void draw(Side from, const RocePacket& p, LadderEvent::Kind kind, std::string text, std::size_t name);
  void draw_data(Side from, const RocePacket& p, bool again);
  Outcome outcome() const;
  std::string describe_end() const;
  bool groundless(Side requester) const;
  void report_facts();
  void count_sides(ConnectionReport& r);

  RoceBudget& budget_;
  std::array<Gid, 2> gids_;
  std::shared_ptr<IbSeen> seen_;
  IbFindings findings_;
  CmExchange exchange_;
  std::array<std::unique_ptr<RequestFlow>, 2> flows_;
  EventLimits events_;
  std::vector<LadderEvent> drawn_;
  std::uint64_t events_dropped_ = 0;
  std::array<DirectionCounts, 2> counts_{};
  std::array<FrameRef, 2> first_data_{};
  /// ICRCs of one side.
  struct Icrc {
    bool right = false;     // a packet had the right ICRC
    bool answered = false;  // the peer answered while all ICRCs were wrong
    std::uint64_t wrong = 0;
    std::vector<std::pair<std::uint64_t, std::string>> pending;  // frame and text of findings, until one is right
  };
  static constexpr std::size_t icrc_pending_max = 16;
  std::array<Icrc, 2> icrcs_{};
  /// The first packet of another service, until later packets show whether the connection had ended.
  struct Stray {
    FrameRef ref;
    std::string text;
  };
  std::array<std::optional<Stray>, 2> strays_;  // by sender
  std::array<bool, 2> reported_stray_{};        // by sender
  std::array<bool, 2> guessed_{};               // the side's QPN is assumed
  std::uint64_t first_frame_ = 0, last_frame_ = 0, cnps_ = 0;
  Instant first_at_{}, last_at_{};
  Instant own_at_{};  // of the last CM message, or packet of the connection's service
  std::uint16_t udp_port_ = 0;
  bool has_cm_ = false, told_late_ = false, told_late_ack_ = false, reported_target_ = false;
};

}  // namespace parley::capture
