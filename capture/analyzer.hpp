// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The entry point of this room: captured packets in, verdicts out. Call push() in file order, then finish().
// The constants below bound the memory for any file. The report's notes name what did not fit.
// Live captures: take_ended() returns the connections that have ended, and forgets them.
// A packet captured at several interfaces (same pcapng epb_packetid) is judged once, where it was captured first.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/read/fpdu/pick_up.hpp"
#include "capture/rule_policy.hpp"
#include "capture/rules/mpa/connection.hpp"
#include "capture/rules/neg/negotiation.hpp"
#include "capture/rules/roce/roce_host.hpp"
#include "capture/rules/roce/roce_watch.hpp"
#include "wire/pcap.hpp"

namespace parley::capture {

struct AnalyzerOptions {
  bool events = false;                ///< collect the events that a ladder draws
  bool fields = false;                ///< collect the fields of each event
  std::vector<std::uint64_t> only{};  ///< events only of connections with these first frames, ascending; empty: of all
  std::size_t drawn_max = 1024;       ///< events only of the first `drawn_max` connections
  std::size_t events_max = 20'000;    ///< events of one connection
  /// TCP ports that carry MPA: if the set-up is not captured, FPDUs are accepted even without a correct CRC.
  std::vector<std::uint16_t> mpa_ports{};
  StreamTap* tap = nullptr;            ///< receives the decoded parts of each stream; must outlive the Analyzer
  RoceWatch* roce_watch = nullptr;     ///< receives the interpretation of each RoCE packet; must outlive the Analyzer
  Severity fail_on = Severity::error;  ///< a finding of this severity or higher fails its connection
  std::uint64_t expect = 0;            ///< a file with fewer connections fails
  RulePolicy policy{};                 ///< rules that are ignored or have another severity
  /// Octets of memory for the listed verdicts without ladders. The last quarter is reserved for those with errors or
  /// warnings. Does not apply with `events`.
  std::size_t report_octets_max = 24 << 20;
  bool no_icrc = false;  ///< RoCE: do not check the ICRC
  /// Called with each connection when it has ended and is judged, in about the order of their ends. The report then
  /// lists no connection and counts all of them, so that its size bound does not apply.
  std::function<void(ConnectionReport&&)> on_connection{};
  Duration idle = std::chrono::hours(1);  ///< take_ended() ends a connection that was silent for this long
};

class RoceConnections;

class Analyzer final : RejectedSetUps, RoceHost {
 public:
  explicit Analyzer(const AnalyzerOptions& options = {});
  ~Analyzer();
  Analyzer(const Analyzer&) = delete;
  Analyzer& operator=(const Analyzer&) = delete;

  void push(const wire::CapturedPacket& packet);
  /// Adds a note about the file, for example that it is truncated.
  void note(std::string text);
  /// Reports that not all packets of the file were pushed, for example because it is damaged. Also adds a note.
  void unread(std::string why);
  FileReport finish();
  /// Entry for RoCE packets that the caller has parsed itself. Call it in file order.
  RoceConnections& roce() { return *roce_; }

  /// Returns the connections that have ended by `now` (the packets' clock), in about the order of their ends. finish()
  /// counts them and lists the remaining ones. Call it regularly to keep memory within the bounds below.
  std::vector<ConnectionReport> take_ended(Instant now);
  /// The negotiations that had ended by the last take_ended().
  std::vector<NegotiationReport> take_negotiations() { return report_.take_negotiations(); }
  /// The capture dropped `n` packets since the last call, or slightly earlier (packets are queued). Call it regularly,
  /// also with 0.
  void dropped(std::uint64_t n);

 private:
  using Slot = std::optional<MpaConnection>;
  using Key = ConnectionKey;
  struct Known {
    Slot* slot = nullptr;     // null: not known to be MPA, or over
    bool may_be_mpa = false;  // its set-up may be missing from the capture: search for FPDUs
    // Set while the connection carries, or may carry, a staged QP negotiation; null once it is known to be MPA.
    std::unique_ptr<NegConnection> negotiation;
    bool may_be_negotiation = false;  // its beginning may be missing from the capture: search for messages

    bool negotiates() const { return slot == nullptr && negotiation != nullptr && negotiation->confirmed(); }
    bool followed() const { return slot != nullptr || negotiates(); }
    // The functions below require followed().
    bool closed() const { return slot != nullptr ? (*slot)->closed() : negotiation->closed(); }
    bool settled() const { return slot != nullptr ? (*slot)->settled() : negotiation->settled(); }
    Instant last_at() const { return slot != nullptr ? (*slot)->last_at() : negotiation->last_at(); }
    std::uint64_t first_frame() const { return slot != nullptr ? (*slot)->first_frame() : negotiation->first_frame(); }
  };
  using Connections = std::unordered_map<Key, Known, ConnectionKeyHash>;

  static constexpr std::size_t live_max = 65536;     // connections followed at one time
  static constexpr std::size_t known_max = 1 << 17;  // address and port pairs remembered, also those not followed
  static constexpr std::size_t closed_few = 64;      // closed connections that are always kept for late packets
  static constexpr std::size_t closed_max = 1024;    // closed connections kept at most
  // Between closed_few and closed_max: a closed connection that lacks octets is kept until it was silent this long.
  static constexpr Duration closed_quiet = std::chrono::seconds(3);
  // take_ended(): this silence ends a closed connection that lacks no octets.
  static constexpr Duration settled_quiet = std::chrono::seconds(1);
  // take_ended(): this silence ends a connection that is not yet known to be MPA or a negotiation.
  static constexpr Duration undecided_quiet = std::chrono::minutes(1);
  static constexpr Duration sweep_every = std::chrono::seconds(5);
  static constexpr std::size_t reports_max = 65536;          // verdicts listed in one report
  static constexpr std::size_t ladder_octets_max = 1 << 29;  // memory of the listed verdicts with their ladders

  static constexpr std::size_t packet_ids_max = 1 << 16;  // latest packet IDs that are remembered

  EventDetail detail_of(std::uint64_t first_frame) const;
  RejectedSetUps& set_ups() { return *this; }
  EventLimits set_up_rejected(MpaConnection& connection, ConnectionReport&& report, bool whole,
                              std::uint64_t next) override;
  bool seen_before(const wire::CapturedPacket& packet);
  EventLimits roce_begins(std::uint64_t frame) override;
  void roce_ended(RoceConnection& connection) override;
  void roce_note(std::string text) override;
  void finish_roce();
  void end_silent_roce(Instant now);
  template <std::uint64_t OtherPackets::*Counter>
  void read_roce(const wire::PacketView& packet, const wire::CapturedPacket& captured);
  struct FlowReader;
  void dispatch(const wire::PacketView& packet, const wire::CapturedPacket& captured);
  template <std::uint64_t OtherPackets::*Counter>
  void count(const wire::PacketView& packet, const wire::CapturedPacket& captured);
  void read_tcp(const wire::PacketView& packet, const wire::CapturedPacket& captured);
  void tcp(const wire::TcpSegmentView& t, const wire::CapturedPacket& packet);
  void pick_up(const Key& key, Known& known, unsigned from, const wire::TcpSegmentView& t,
               const wire::CapturedPacket& packet);
  void closed_now(const Key& key, Instant now);
  bool is_mpa_port(const Key& key) const;
  Slot* take_slot();
  void drop(Slot*& c);
  void retire(Slot*& c);
  void retire(Known& known);
  bool negotiation(const Key& key, Known& known, bool fresh, unsigned from, const wire::TcpSegmentView& t,
                   const wire::CapturedPacket& packet);
  bool negotiation_found(const Key& key, Known& known, bool was_closed, Instant now);
  void forget_negotiation(Known& known);
  void retire_negotiation(Known& known);
  void end_silent_negotiation(Known& known, Instant now);
  void list(NegotiationReport&& r);
  void retire_closed(Instant now);
  void end_closed(Instant now);
  void end_silent(Instant now);
  void list(ConnectionReport&& r);
  void sort_reports();
  void report_unlisted();
  void make_room();

  AnalyzerOptions options_;
  ReassemblyBudget budget_;
  std::deque<Slot> slots_;   // storage of the followed connections, reused; at most live_max
  std::vector<Slot*> free_;  // of slots_
  Connections connections_;
  PickUps pick_ups_;
  Fifo<Key> closed_;  // by time of closing; a newer connection may use the same addresses and ports
  ReassemblyBudget negotiation_budget_;
  std::size_t live_ = 0, reports_octets_ = 0, negotiations_ = 0;
  std::size_t drawn_ = 0;
  Instant next_sweep_{};
  std::uint64_t dropped_before_ = 0;  // packets that were certainly dropped before the current packet
  std::uint64_t altered_copies_ = 0;
  // The last packet_ids_max IDs, each with a digest of the packet's octets. packet_id_ring_ has their order.
  struct PacketSeen {
    std::uint64_t digest = 0;
    std::uint32_t interface = 0;
    bool of_many = false;  // several packets have this ID
  };
  std::unordered_map<std::uint64_t, PacketSeen> packet_ids_;
  std::vector<std::uint64_t> packet_id_ring_;
  std::size_t packet_id_next_ = 0;
  FileReport report_;
  std::unique_ptr<RoceConnections> roce_;
};

}  // namespace parley::capture
