// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The checker's report on a capture: plain data, filled by the rules and capture/analyzer.hpp, printed by report/.
// This file is outside the folder report/ because the rules must not depend on printing.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capture/report_ib.hpp"
#include "capture/rule.hpp"
#include "parley/address.hpp"
#include "parley/bytes.hpp"
#include "parley/mpa.hpp"
#include "parley/time.hpp"
#include "wire/mpa.hpp"

namespace parley::capture {

struct Finding {
  std::uint64_t frame = 0;  ///< as Wireshark numbers it; 0: no single frame
  Severity severity = Severity::note;
  std::string rule;              ///< the clause, "RFC 5044 §7.1.2"; empty if the finding cites none
  std::string text;              ///< a sentence that names the side
  std::optional<Side> side{};    ///< the side at fault, or that the text is about; none: both or neither
  std::optional<Rule> broken{};  ///< the rule that was broken; none: the finding is a note without a rule
  std::string_view quirk{};      ///< name of the known departure, "takes-path-mtu"; static. Empty: none
  /// The id of `broken`, "mpa.crc"; static. Empty: none. Programs compare this; the texts may change.
  std::string_view key() const { return broken ? facts_of(*broken).id : std::string_view(); }
  /// The citation at the end of a text: " [RFC 5044 §4.4, mpa.crc]"; empty if there is no clause.
  std::string cited() const;
  /// The finding as one line of text: "frame 7: the initiator ... [RFC 5044 §4.4, mpa.crc]".
  std::string line() const;
};

/// The verdict on a connection or a file. Every report has it, and the exit code depends on it.
enum class Standing : std::uint8_t {
  passed,
  partial,  ///< not failed, but not all of it could be checked
  failed,
};
std::string_view to_string(Standing standing);
struct Judgement {
  Standing standing = Standing::passed;
  std::string why;  ///< "1 error", "400 octets are not in the capture"; empty when passed
};

enum class Outcome : std::uint8_t {
  established,   ///< an accepting Reply, and the agreed RTR if there is one
  rejected,      ///< a Reply with R=1
  failed,        ///< a peer ended the set-up: Terminate, FIN or RST, invalid frame
  incomplete,    ///< the capture ended during the set-up, or the connection ended then without a visible reason
  not_captured,  ///< FPDUs of a connection whose set-up was before the capture began or in a hole of it
};
std::string_view to_string(Outcome outcome);

/// A startup frame as captured.
struct StartupSeen {
  std::uint64_t frame = 0;
  Instant at{};
  wire::MpaKey key = wire::MpaKey::unknown;
  std::uint8_t flags = 0;
  std::uint8_t revision = 0;
  std::uint16_t pd_length = 0;
  std::optional<wire::MpaEnhanced> enhanced;
  bool enhanced_cut = false;        ///< the frame has enhanced data, but the capture lacks some or all of it
  Bytes private_data;               ///< the ULP's, without the enhanced data; the captured part of it
  bool private_data_whole = false;  ///< false: the capture lacks some of it
  bool m() const { return (flags & PARLEY_MPA_FLAG_M) != 0; }
  bool c() const { return (flags & PARLEY_MPA_FLAG_C) != 0; }
  bool r() const { return (flags & PARLEY_MPA_FLAG_R) != 0; }
  bool s() const { return (flags & PARLEY_MPA_FLAG_S) != 0; }
};

/// The first Terminate of a connection.
struct TerminateSeen {
  Side from = Side::initiator;
  std::uint64_t frame = 0;
};

/// Counts of one direction, named by its sender.
struct DirectionCounts {
  std::uint64_t octets = 0;  ///< TCP payload seen, without retransmissions
  std::uint64_t fpdus = 0;
  std::uint64_t messages = 0;  ///< RDMAP messages whose last segment was seen
  std::array<std::uint64_t, 16> messages_by_opcode{};
  std::uint64_t retransmissions = 0;  ///< TCP segments that held only octets already seen
  std::uint64_t out_of_order = 0;
  std::uint64_t missing_octets = 0;  ///< sent, but neither captured whole nor retransmitted
};

/// Durations of the set-up, as seen at the capture point.
struct Steps {
  std::optional<Duration> tcp;         ///< SYN to the SYN ACK
  std::optional<Duration> request;     ///< SYN ACK to the whole Request
  std::optional<Duration> reply;       ///< whole Request to the whole Reply
  std::optional<Duration> first_fpdu;  ///< whole Reply to the initiator's RTR or first FPDU
};

/// Name and value. A name without a value is a heading for the fields after it.
using Fields = std::vector<std::pair<std::string, std::string>>;

/// A line of the ladder, sent by one side.
struct LadderEvent {
  enum class Kind : std::uint8_t { tcp, startup, fpdu, terminate, repeated, gap };
  std::uint64_t frame = 0;
  Instant at{};
  Side from = Side::initiator;
  Kind kind = Kind::tcp;
  std::string text;
  std::size_t name = 0;  ///< length of the name at the beginning of `text`; 0: the whole text
  Fields fields;         ///< only with AnalyzerOptions::fields
};

struct ConnectionReport {
  std::uint64_t first_frame = 0, last_frame = 0;
  Instant first_at{}, last_at{};
  Address initiator, responder;
  std::optional<StartupSeen> request, reply, rtr_frame;
  std::uint8_t revision = 1;  ///< undefined if the set-up was not captured
  bool crc = false;
  bool markers_to_responder = false, markers_to_initiator = false;
  mpa::Rtr rtr = mpa::Rtr::none;         ///< as seen
  mpa::Rtr rtr_agreed = mpa::Rtr::none;  ///< none also if several kinds are agreed (then the initiator chooses)
  bool peer_to_peer = false;
  mpa::RtrSet rtr_common;          ///< under peer_to_peer: the kinds that both sides support
  std::uint16_t ird = 0, ord = 0;  ///< the initiator's, after negotiation; 0 if nothing was negotiated
  bool depths_negotiated = false;
  Steps steps;
  Outcome outcome = Outcome::incomplete;
  std::string end;  ///< "FIN by the initiator (frame 75), FIN by the responder (frame 76)"
  std::optional<TerminateSeen> terminate;
  Judgement judgement;
  DirectionCounts from_initiator, from_responder;
  /// Packets of any connection that the capture dropped while this one was followed; 0 if an MPA connection was seen
  /// whole.
  std::uint64_t dropped = 0;
  std::vector<Finding> findings;    ///< by frame
  std::vector<LadderEvent> events;  ///< by frame; only with AnalyzerOptions::events
  std::uint64_t events_dropped = 0;
  /// Set for a connection of InfiniBand's transport (RoCE), null for MPA. If set, `initiator` and `responder` have port
  /// 0, the members from `request` to `peer_to_peer` are undefined, and there are no FPDUs.
  std::shared_ptr<IbSeen> ib;
  std::size_t count(Severity severity) const;
  /// "192.0.2.1:7471"; for InfiniBand's transport "192.0.2.1:0x000011" (with the QPN), or the address alone if the QPN
  /// is not known.
  std::string end_text(Side side) const;
  /// Why the parameters above were not agreed: "nothing: no Reply is in the capture". Empty if the capture shows no
  /// such reason.
  std::string_view not_agreed() const;
  /// Datagrams to a multicast group: they have no set-up.
  bool to_group() const;
};

enum class NegOutcome : std::uint8_t {
  agreed,      ///< both sides have sent the last Turn of the last stage
  refused,     ///< the responder answered the Hello with an Abort
  failed,      ///< a later Abort, a broken rule, or a FIN or RST before the end
  incomplete,  ///< the capture does not show how it ended
};
std::string_view to_string(NegOutcome outcome);

struct QpMemory {
  std::uint32_t rkey = 0;
  std::uint64_t vaddr = 0, length = 0;
};
/// The attributes of a queue pair that one side sent (docs/negotiation.md, Wire format).
struct QpSeen {
  std::uint64_t frame = 0;
  Side side = Side::initiator;
  std::uint8_t version = 0, transport = 0;
  std::optional<std::uint32_t> qpn, psn, mtu, qkey, srqn, ini_qpn;
  std::optional<std::uint16_t> lid;
  std::optional<std::uint8_t> ird, ord;
  std::optional<std::array<std::uint8_t, 16>> gid;
  std::optional<QpMemory> memory;
  bool tests = false;
};

/// The first Abort of a negotiation. Its texts are printable.
struct NegAbortSeen {
  Side from = Side::initiator;
  std::uint64_t frame = 0;
  std::uint16_t error = 0;  ///< 0: the Abort has none
  std::string text, advice;
};

/// The Turns of one stage, by Side.
struct NegStageSeen {
  std::array<std::uint64_t, 2> turns{};
  std::array<bool, 2> last{};  ///< the side has sent its last Turn of the stage
  std::array<Instant, 2> last_at{};
  bool over() const { return last[0] && last[1]; }
};

/// One staged QP negotiation (docs/negotiation.md) on a TCP connection.
struct NegotiationReport {
  std::uint64_t first_frame = 0, last_frame = 0;
  Instant first_at{}, last_at{};
  Address initiator, responder;
  std::uint64_t hello_frame = 0, welcome_frame = 0;  ///< 0: not seen
  std::optional<Duration> connecting;                ///< SYN to the SYN ACK
  std::optional<Duration> welcoming;                 ///< whole Hello to the whole Welcome
  std::optional<Duration> took;                      ///< whole Hello to the last Turn of the negotiation, or the Abort
  std::string plugin, variant, label;                ///< printable; empty if the Hello was not seen
  std::optional<bool> done_announced;                ///< the stage done follows; none if the Hello was not seen
  std::array<NegStageSeen, 4> stages{};              ///< by number; [0] is never used
  std::vector<QpSeen> attributes;                    ///< of the variants verbs-* and manual
  std::optional<NegAbortSeen> abort;
  NegOutcome outcome = NegOutcome::incomplete;
  std::string end;  ///< as ConnectionReport::end
  Judgement judgement;
  DirectionCounts from_initiator, from_responder;  ///< without FPDUs
  std::uint64_t dropped = 0;                       ///< as ConnectionReport::dropped
  std::vector<Finding> findings;                   ///< by frame
  std::size_t count(Severity severity) const;
  /// The last stage with a Turn; 0: none.
  std::uint8_t stage() const;
};

/// Counts of negotiations.
struct NegotiationTally {
  std::uint64_t negotiations = 0;
  std::array<std::uint64_t, 3> findings{};   ///< by Severity
  std::array<std::uint64_t, 3> standings{};  ///< by Standing
  void add(const NegotiationReport& negotiation);
};

/// Counts of connections.
struct ConnectionTally {
  std::uint64_t connections = 0;
  std::array<std::uint64_t, 5> outcomes{};   ///< by Outcome
  std::array<std::uint64_t, 3> findings{};   ///< by Severity
  std::array<std::uint64_t, 3> standings{};  ///< by Standing
  std::uint64_t fpdus = 0;
  std::uint64_t ib = 0;  ///< those of InfiniBand's transport
  void add(const ConnectionReport& connection);
};

/// Packets other than TCP, by protocol.
struct OtherPackets {
  std::uint64_t rocev2 = 0, rocev1 = 0;
  std::uint64_t udp = 0;  ///< the rest of UDP
};

/// Number of findings by rule.
using RuleCounts = std::map<Rule, std::uint64_t>;
/// "3 findings ignored (cm.early)", "3 findings ignored (cm.early 2, mpa.crc 1)"; empty if there are none.
std::string ignored_text(const RuleCounts& ignored);

struct FileReport {
  std::uint64_t packets = 0;
  std::uint64_t tcp_packets = 0;
  std::uint64_t tcp_connections = 0;      ///< all, MPA or not
  std::uint64_t fragments = 0;            ///< IP fragments, which are not joined
  std::uint64_t cut_packets = 0;          ///< shorter in the capture than on the wire
  std::uint64_t unsupported_packets = 0;  ///< link type not decoded
  std::uint16_t unsupported_link_type = 0;
  OtherPackets other;
  std::uint64_t copies = 0;        ///< packets already captured at another interface
  std::uint64_t not_followed = 0;  ///< packets of connections beyond the limit of those followed at one time
  std::uint64_t dropped = 0;       ///< packets that the capture dropped
  RuleCounts ignored;              ///< findings that RulePolicy removed
  std::string unread;              ///< why the file was not read to its end; empty if it was
  Judgement judgement;
  std::deque<ConnectionReport> connections;    ///< MPA and RoCE, by first frame
  ConnectionTally unlisted;                    ///< MPA and RoCE, beyond the report's size limit
  ConnectionTally taken;                       ///< MPA and RoCE, handed out by take_connections() or on_connection
  std::deque<NegotiationReport> negotiations;  ///< by first frame
  NegotiationTally unlisted_negotiations;      ///< beyond the report's size limit
  NegotiationTally taken_negotiations;         ///< returned earlier by take_negotiations()
  std::vector<std::string> notes;              ///< about the file as a whole
  /// count() and the functions below cover all connections and negotiations: listed, unlisted and taken.
  std::size_t count(Severity severity) const;
  std::size_t count(Standing standing) const;
  std::size_t connections_of(Standing standing) const;
  std::size_t negotiations_of(Standing standing) const;
  std::uint64_t all_connections() const { return connections.size() + unlisted.connections + taken.connections; }
  /// The connections of InfiniBand's transport.
  std::uint64_t ib_connections() const;
  /// "2 MPA connections, 1 RoCE connection"
  std::string connections_text() const;
  std::uint64_t all_negotiations() const {
    return negotiations.size() + unlisted_negotiations.negotiations + taken_negotiations.negotiations;
  }
  std::uint64_t all_judged() const { return all_connections() + all_negotiations(); }
  /// Removes and returns the listed connections; `taken` counts them.
  std::vector<ConnectionReport> take_connections();
  std::vector<NegotiationReport> take_negotiations();
};

}  // namespace parley::capture
