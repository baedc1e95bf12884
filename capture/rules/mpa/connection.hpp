// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One TCP connection of a capture: detects whether it carries MPA, follows its set-up (RFC 5044 §7.1, RFC 6581, OFA
// 2007-10 Rtr) and its FPDUs, and makes the report. Driven by capture::Analyzer.
//
// Its phases and their inputs: capture/rules/mpa/set_up_phase.hpp (the connection), stream_phase.hpp (each direction);
// tests/states/capture_mpa.txt.
//
// If only FPDUs are in the capture, the connection is picked up at one of them (capture/read/fpdu/pick_up.hpp). Then
// both directions start in phase fpdus and search for FPDUs as after a loss, and the set-up is not judged.
#pragma once
#include <memory>
#include <optional>

#include "capture/fifo.hpp"
#include "capture/findings.hpp"
#include "capture/read/fpdu/fpdu_walker.hpp"
#include "capture/read/fpdu/pick_up.hpp"
#include "capture/read/stream_tap.hpp"
#include "capture/read/tcp/tcp_half.hpp"
#include "capture/rules/mpa/half_state.hpp"
#include "capture/rules/mpa/set_up_facts.hpp"
#include "capture/rules/mpa/set_up_phase.hpp"
#include "capture/rules/rdmap/rdmap_check.hpp"

namespace parley::capture {

/// What to collect for ladders: nothing, a line per event, or lines with all fields.
enum class EventDetail : std::uint8_t { none, lines, fields };
struct EventLimits {
  EventDetail detail = EventDetail::none;
  std::size_t max = 0;  ///< number of events; further ones are only counted
};

class MpaConnection;

/// Receives the reports of rejected set-ups after which the peers began again on the same TCP connection.
class RejectedSetUps {
 public:
  /// The report of the rejected set-up. `whole`: the capture lacks none of its octets. The next set-up begins with
  /// frame `next`. Returns which events to collect for it.
  virtual EventLimits set_up_rejected(MpaConnection& connection, ConnectionReport&& report, bool whole,
                                      std::uint64_t next) = 0;

 protected:
  ~RejectedSetUps() = default;
};

/// One set-up and its data phase. Reset when another set-up begins after a rejection.
struct SetUpState {
  SetUpPhase phase_ = SetUpPhase::nothing;
  std::uint64_t first_frame_ = 0;
  Instant earliest_{};              // need not be that of the first packet: packets may be captured late
  std::uint64_t after_reject_ = 0;  // the frame of the Reply that rejected the previous set-up; 0: there was none
  SetUpFacts facts_;
  bool s_unproven_reported_ = false;
  Findings findings_;
  std::vector<LadderEvent> events_;
  std::uint64_t events_dropped_ = 0;
};

class MpaConnection : SetUpState {
 public:
  /// `tap` receives the decoded frames; may be null.
  MpaConnection(ReassemblyBudget& budget, EventLimits events, RejectedSetUps& rejected, StreamTap* tap = nullptr)
      : budget_(budget), set_ups_(rejected), tap_(tap) {
    collect(events);
  }
  MpaConnection(const MpaConnection&) = delete;
  MpaConnection& operator=(const MpaConnection&) = delete;

  /// `from` is 0 for the end that the Analyzer calls a, 1 for b.
  void packet(unsigned from, const wire::TcpSegmentView& t, std::uint64_t frame, Instant at);
  /// Call before the first packet if the set-up is not in the capture. The first packet must be from `from` and begin
  /// with `fpdu`.
  void pick_up(unsigned from, const ProvenFpdu& fpdu);
  /// The capture may lack the set-up. Then octets other than a startup frame do not prove another protocol.
  bool may_lack_set_up() const;
  /// It is decided that the connection carries another protocol.
  bool not_mpa() const { return protocol_ == Protocol::other; }
  bool with_events() const { return with_events_; }
  bool is_mpa() const { return protocol_ == Protocol::mpa; }
  bool closed() const;
  /// Closed, and no new octets are expected. Later segments are retransmissions.
  bool settled() const;
  /// The capture holds the SYNs, both FINs and all octets between them. Packets that the capture dropped do not matter.
  bool whole() const;
  SetUpPhase set_up_phase() const { return phase_; }
  StreamPhase stream_phase(Side side) const {
    return halves_[side == Side::initiator ? initiator_ : 1 - initiator_].phase;
  }
  std::uint64_t first_frame() const { return first_frame_; }
  Instant last_at() const { return last_at_; }
  /// Whether this SYN begins another connection on the same addresses and ports.
  bool is_new_syn(unsigned from, const wire::TcpSegmentView& t) const;
  /// No packets follow. Delivers the octets held back; they may show whether this is MPA.
  void stop_waiting() { flush_streams(); }
  /// Call once, at the end. Requires is_mpa().
  ConnectionReport finish();

  std::uint64_t dropped_before = 0;  ///< for the Analyzer: packets that the capture had dropped before the first one

 private:
  enum class Protocol : std::uint8_t { undecided, mpa, other };
  struct LastSeen {
    std::uint64_t frame = 0;
    Instant at{};  // the latest time; need not be that of the last packet
  };
  /// The frame at which a step of the set-up is checked.
  struct CheckedAt {
    std::uint64_t frame = 0;
    mpa::Rtr form = mpa::Rtr::none;  // the FPDU's
    std::uint8_t code = 0;           // the Terminate's
  };
  struct Half final : HalfSink, FpduSink, HalfState {
    MpaConnection* owner = nullptr;
    unsigned index = 0;
    TcpHalf tcp;
    Address address;
    std::uint16_t mss = 0;
    bool timestamps = false;
    std::uint64_t fin_position = 0;  // stream position of its FIN
    std::uint64_t syn_frame = 0, fin_frame = 0, rst_frame = 0;
    Instant syn_at{}, fin_at{};
    std::uint64_t end_heard = 0;  // what it had acknowledged when it sent its FIN, or its RST if there was no FIN
    std::uint64_t read_to = 0;    // the stream position behind the octets that are being read
    std::uint32_t first_seq = 0;  // sequence number of stream position 0; only set with a tap

    /// Passes octets at stream position `at`, or if `missing` is not 0 a hole, to the walker.
    void feed(ConstBytes in, std::uint64_t missing, const SegmentRef& ref, bool start, std::uint64_t at);

    /// Read octets in order, or a hole among them, according to the phase.
    void read(ConstBytes in, const SegmentRef& ref, bool start);
    void read_missing(std::uint64_t n, const SegmentRef& ref, bool cut);

    void octets(ConstBytes in, const SegmentRef& ref, bool start) override;
    void missing(std::uint64_t n, const SegmentRef& ref, bool cut) override;
    void fpdu(const WalkedFpdu& f) override;
    void startup_frame(const wire::MpaFrameView& frame, const SegmentRef& ref) override;
    void bad_length(std::uint32_t length, const SegmentRef& ref) override;
    void markers_differ(bool present, const SegmentRef& ref) override;
    void resynchronised(std::uint64_t octets, const SegmentRef& ref) override;
  };
  static constexpr Duration half_a_hundredth = std::chrono::milliseconds(5);  // added before truncation, to round

  Half& half_of(Side s) { return halves_[s == Side::initiator ? initiator_ : 1 - initiator_]; }
  Side side_of(const Half& h) const { return h.index == initiator_ ? Side::initiator : Side::responder; }
  Half& peer_of(const Half& h) { return halves_[1 - h.index]; }

  // connection.cpp: TCP, ladders
  void begin(unsigned from, const wire::TcpSegmentView& t, std::uint64_t frame, Instant at);
  static SegmentRef acknowledged(Half& h, Half& peer, const wire::TcpSegmentView& t, SegmentRef ref);
  void forget(std::uint64_t frame);
  void tcp_flags(Half& h, const wire::TcpSegmentView& t, std::uint64_t frame, Instant at);
  void resume(const SegmentRef& ref);
  void classify(Half& h, SegmentClass c, const wire::TcpSegmentView& t, std::uint64_t frame, Instant at);
  void collect(const EventLimits& events);
  LadderEvent* event(std::uint64_t frame, Instant at, unsigned from, LadderEvent::Kind kind, std::string text);
  void tcp_event(Half& h, LadderEvent::Kind kind, const wire::TcpSegmentView& t, std::uint64_t frame, Instant at,
                 std::string text);
  void startup_event(const Half& h, const StartupSeen& seen, std::string_view name);
  TappedStream tapped(const Half& h) const;

  // connection_startup.cpp: Request and Reply
  void startup_octets(Half& h, ConstBytes in, const SegmentRef& ref, bool start);
  bool identify(Half& h);
  static bool may_be_startup(const Half& h, const wire::MpaFrameView& v);
  void settle_roles(const Half& h);
  bool rejection_may_be_lost() const;
  bool set_up_may_be_lost(const Half& responder, const SegmentRef& ref) const;
  void payload_like_startup(Half& h, const SegmentRef& ref, bool start);
  void whole_startup_frame(Half& h, std::size_t size, const SegmentRef& ref);
  void startup_missing(Half& h, std::uint64_t n, const SegmentRef& ref, bool cut);
  void reply_is_lost(Half& responder, std::uint64_t frame);
  void no_startup_frame(Half& h, const SegmentRef& ref, bool start);
  void begin_data();
  void startup_frame(Half& h, std::size_t size);
  StartupSeen read_startup(const Half& h, const wire::MpaFrameView& v) const;
  void request_seen(Half& h, StartupSeen seen);
  void reply_seen(Half& h, StartupSeen seen);
  void rejected(Half& responder, Half& initiator);
  void accepted(Half& responder, Half& initiator);
  void begin_without_request(Half& initiator);

  // connection_behind.cpp: octets of the initiator behind its Request
  void request_behind(Half& h, StartupSeen seen);
  void keep_early(Half& h, ConstBytes in, std::uint64_t missing, const SegmentRef& ref, bool cut, bool start);
  void replay(Half& h);
  void rtr_or_fpdu(Half& h);
  void startup_behind(Half& h, const wire::MpaFrameView& v, ConstBytes octets);
  void rtr_frame_seen(const Half& h, StartupSeen seen);
  void fpdus_from(Half& h, std::size_t skip, bool after_hole);
  void report_extra_octets(Half& h);
  void extra_octets(Half& h, std::size_t n, const SegmentRef& ref);

  // connection_again.cpp: another set-up after a rejection
  void find_answered_request(const Half& responder, Half& initiator);
  bool handle_kept_request(Half& initiator, std::uint64_t until);
  void kept_after_rejection(Half& initiator);
  void after_rejection(Half& h, ConstBytes in, const SegmentRef& ref, bool start);
  static std::uint64_t octets_behind(const Half& h);
  void check_second_reply(const Half& h, const SegmentRef& ref);
  bool may_begin_again(const Half& h, const SegmentRef& ref) const;
  void begin_again(Half& h, ConstBytes in, const SegmentRef& ref, bool start);
  ConnectionReport rejected_report(std::uint64_t next);

  // connection_data.cpp, connection_pick_up.cpp: FPDUs
  void on_fpdu(Half& h, const WalkedFpdu& f);
  static mpa::Rtr rtr_form(const WalkedFpdu& f);
  void fpdu_event(const Half& h, const WalkedFpdu& f, LadderEvent::Kind kind, std::string text);
  void check_frame(Half& h, const WalkedFpdu& f);
  void check_fence(Half& h, const WalkedFpdu& f);
  bool proven_fpdu(Half& h, const WalkedFpdu& f);
  void count_doubtful(Half& h, const WalkedFpdu& f);
  bool trusted(const Half& h) const;
  bool doubted(Half& h);
  void believe(Half& h, const WalkedFpdu& f);
  void count_unjudged(Half& h, const WalkedFpdu& f);
  void look_for_markers(Half& h, ConstBytes in, std::uint64_t at);

  // connection_set_up.cpp: runs the set-up's table
  void set_up(SetUpInput input, const CheckedAt& at);
  void set_up(SetUpInput input) { set_up(input, {}); }
  bool picked_up() const { return phase_ == SetUpPhase::not_captured; }
  void check(SetUpCheck what, const CheckedAt& at);
  SetUpInput input_of_agreement() const;
  std::optional<SetUpInput> input_of_first(const WalkedFpdu& f, mpa::Rtr form);
  std::optional<SetUpInput> input_of_leaving() const;
  SetUpInput input_of_end() const;
  SetUpCheck check_of_agreement() const;
  Outcome judge_outcome();
  void judge_first_fpdu(const WalkedFpdu& f);
  void judge_terminate(const Half& h, const WalkedFpdu& f);
  bool speaks_of_set_up(const Half& initiator, const WalkedFpdu& f, const wire::Terminate& t) const;
  bool answers_rtr_frame(const Half& responder, const WalkedFpdu& f, const wire::Terminate& t) const;
  void check_terminate_cause(const CheckedAt& at);
  void check_rtr_match_denied(std::uint64_t frame);
  void check_ird_denied(const wire::MpaEnhanced* q, const wire::MpaEnhanced& r, std::uint64_t frame);
  void check_rtr_frame();
  static std::string describe_form(mpa::Rtr form);
  void check_rtr_kind(const CheckedAt& at);
  void check_unannounced_rtr(const CheckedAt& at);
  void check_refusal();
  void suspect_echo(std::uint64_t frame);
  std::uint64_t no_more_from_initiator() const;
  void rtr_missing(Rule rule, std::string_view what);
  void finish_set_up();
  void check_extra_accepted();
  void check_no_rtr_terminate();
  void check_rtr_frame_reset();

  // connection_unanswered.cpp: no whole startup frame, or no Reply
  void finish_startup();
  void finish_head(Half& h);
  void check_cut_length(const Half& h, const wire::MpaFrameView& v);
  void finish_unanswered();
  void initiator_gave_up(std::uint64_t frame);
  void responder_closed(std::uint64_t frame);

  // connection_reaction.cpp: how each side reacted to the other's faults
  void remember_fpdu(Half& h, const WalkedFpdu& f);
  void check_after_reply(const WalkedFpdu& f);
  void check_reply_in_time(Half& initiator, const StartupSeen& reply, const SegmentRef& carrier);
  void judge_reactions();
  void judge_reaction(Side culprit);
  void judge_answer(Side culprit, std::uint64_t fault_end);
  void judge_silence(Side culprit, std::uint64_t fault_end);
  void judge_terminate_without_cause(Side terminator);
  void judge_end_of_terminated(const Half& h);

  // connection_finish.cpp: the report
  void flush_streams();
  void tap_head(const Half& h);
  void tap_rest();
  void report_unread();
  ConnectionReport report();
  void report_agreement(ConnectionReport& r);
  void report_framing(ConnectionReport& r) const;
  void suspect_lost_wakeup();
  void finish_halves();
  void report_reading(const Half& h);
  void report_fpdu_sizes(const Half& h);
  void report_waiting(const Half& h);
  std::string describe_end() const;
  std::optional<TerminateSeen> first_terminate() const;
  Steps steps() const;

  ReassemblyBudget& budget_;
  RejectedSetUps& set_ups_;
  StreamTap* tap_;
  bool with_events_ = false, with_fields_ = false;  // for the current set-up
  std::size_t events_max_ = 0;
  Protocol protocol_ = Protocol::undecided;
  bool roles_known_ = false;
  unsigned initiator_ = 0;
  Half halves_[2];
  bool wired_ = false;
  bool flushed_ = false;
  Known crc_ = Known::yes;        // if picked up: unknown only for AnalyzerOptions::mpa_ports
  std::uint64_t good_fpdus_ = 0;  // if picked up
  std::uint64_t tcp_first_frame_ = 0;
  Instant last_at_{};
  LastSeen seen_, before_packet_;    // up to now, and before the current packet
  LastSeen before_again_;            // before the octets with which another set-up may begin
  bool left_mpa_ = false;            // after a rejection, TCP carries another protocol
  std::optional<RdmapCheck> rdmap_;  // of the current set-up
};

}  // namespace parley::capture
