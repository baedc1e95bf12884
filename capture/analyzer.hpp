// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// From captured packets to verdicts: the front door of this room. Push packets in file order, then finish().
// Memory is bounded by the constants below whatever the file holds; what does not fit is named in the notes.
// A capture that goes on has no end to wait for: take_ended() hands connections out as they end, and forgets them.
// A packet that the capture shows at several places and says so (pcapng's epb_packetid) is judged where it came first.
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
  bool events = false;                ///< collect what the ladder draws
  bool fields = false;                ///< with every field of it
  std::vector<std::uint64_t> only{};  ///< only of connections that begin with these frames, in order; empty: of all
  std::size_t drawn_max = 1024;       ///< only of so many connections, the first ones
  std::size_t events_max = 20'000;    ///< of one connection; a ladder longer than that nobody reads
  /// Connections to these ports carry MPA: if their set-up is not captured, FPDUs are believed without a good CRC too.
  std::vector<std::uint16_t> mpa_ports{};
  StreamTap* tap = nullptr;            ///< is told what is understood of each stream; outlives the Analyzer
  RoceWatch* roce_watch = nullptr;     ///< receives the analysis of each RoCE packet; must outlive the Analyzer
  Severity fail_on = Severity::error;  ///< findings as grave as that fail a connection
  std::uint64_t expect = 0;            ///< a file with fewer connections has failed
  RulePolicy policy{};                 ///< which findings are left out, or have another severity
  /// What the listed verdicts may take in memory without their ladders; a quarter is kept for those with findings.
  std::size_t report_octets_max = 24 << 20;
  bool no_icrc = false;  ///< RoCE: the ICRC is not looked at
  /// Takes each connection when it has ended and is judged, in about the order of their ends. The report then lists none
  /// and counts all, so that no bound on its size leaves connections out.
  std::function<void(ConnectionReport&&)> on_connection{};
  Duration idle = std::chrono::hours(1);  ///< take_ended() hands out a connection that was silent for this long
};

class RoceConnections;

class Analyzer final : RejectedSetUps, RoceHost {
 public:
  explicit Analyzer(const AnalyzerOptions& options = {});
  ~Analyzer();
  Analyzer(const Analyzer&) = delete;
  Analyzer& operator=(const Analyzer&) = delete;

  void push(const wire::CapturedPacket& packet);
  /// Something to be told about the file: it is truncated, for instance.
  void note(std::string text);
  /// The packets that were pushed are not all: the file is damaged, for instance. A note as well.
  void unread(std::string why);
  FileReport finish();
  /// For packets that were read elsewhere, in file order.
  RoceConnections& roce() { return *roce_; }

  /// The connections that have ended by `now`, in the clock of the packets, in about the order of their ends. finish()
  /// counts them, and lists the rest. Called often enough, it keeps memory within the bounds below for good.
  std::vector<ConnectionReport> take_ended(Instant now);
  /// The negotiations that had ended by the last take_ended().
  std::vector<NegotiationReport> take_negotiations() { return report_.take_negotiations(); }
  /// The capture lost `n` packets since the last call or, as it has queues, about then. Called regularly, with 0 too.
  void dropped(std::uint64_t n);

 private:
  using Slot = std::optional<MpaConnection>;
  using Key = ConnectionKey;
  struct Known {
    Slot* slot = nullptr;     // null: not MPA as far as is known, or over
    bool may_be_mpa = false;  // its set-up may not be in the capture: FPDUs of it are looked for
    // Carries a staged QP negotiation, or may, as long as it is not known to be MPA.
    std::unique_ptr<NegConnection> negotiation;
    bool may_be_negotiation = false;  // its beginning may not be in the capture: messages are looked for

    bool negotiates() const { return slot == nullptr && negotiation != nullptr && negotiation->confirmed(); }
    bool followed() const { return slot != nullptr || negotiates(); }
    // Of one that is followed.
    bool closed() const { return slot != nullptr ? (*slot)->closed() : negotiation->closed(); }
    bool settled() const { return slot != nullptr ? (*slot)->settled() : negotiation->settled(); }
    Instant last_at() const { return slot != nullptr ? (*slot)->last_at() : negotiation->last_at(); }
    std::uint64_t first_frame() const { return slot != nullptr ? (*slot)->first_frame() : negotiation->first_frame(); }
  };
  using Connections = std::unordered_map<Key, Known, ConnectionKeyHash>;

  static constexpr std::size_t live_max = 65536;     // connections followed at one time
  static constexpr std::size_t known_max = 1 << 17;  // addresses and ports remembered, with those of no interest
  static constexpr std::size_t closed_few = 64;      // so many closed connections may always see late packets,
  static constexpr std::size_t closed_max = 1024;    // and so many at most; between the two
  static constexpr Duration closed_quiet = std::chrono::seconds(3);  // a silence as long as that ends it
  // take_ended(): a silence as long as that ends a closed connection of which nothing is due,
  static constexpr Duration settled_quiet = std::chrono::seconds(1);
  static constexpr Duration undecided_quiet = std::chrono::minutes(1);  // and one that may or may not become MPA.
  static constexpr Duration sweep_every = std::chrono::seconds(5);
  static constexpr std::size_t reports_max = 65536;          // verdicts listed in one report
  static constexpr std::size_t ladder_octets_max = 1 << 29;  // what they may take with their ladders

  static constexpr std::size_t packet_ids_max = 1 << 16;  // a packet is not longer on its way than so many others take

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
  bool told_port(const Key& key) const;
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
  void tell_unlisted();
  void make_room();

  AnalyzerOptions options_;
  ReassemblyBudget budget_;
  std::deque<Slot> slots_;   // what connections are followed in, used again and again; at most live_max
  std::vector<Slot*> free_;  // of slots_
  Connections connections_;
  PickUps pick_ups_;
  Fifo<Key> closed_;  // by the time of closing; some may have been followed by others on their addresses and ports
  ReassemblyBudget negotiation_budget_;
  std::size_t live_ = 0, reports_octets_ = 0, negotiations_ = 0;
  std::size_t drawn_ = 0;
  Instant next_sweep_{};
  std::uint64_t dropped_before_ = 0;  // so many packets were dropped for sure before what comes now
  std::uint64_t altered_copies_ = 0;
  // The last packet_ids_max of them, each with a digest of its octets; packet_id_ring_ tells their order.
  struct PacketSeen {
    std::uint64_t digest = 0;
    std::uint32_t interface = 0;
    bool of_many = false;  // several packets have the number
  };
  std::unordered_map<std::uint64_t, PacketSeen> packet_ids_;
  std::vector<std::uint64_t> packet_id_ring_;
  std::size_t packet_id_next_ = 0;
  FileReport report_;
  std::unique_ptr<RoceConnections> roce_;
};

}  // namespace parley::capture
