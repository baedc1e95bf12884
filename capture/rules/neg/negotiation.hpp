// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One TCP connection of a capture that may carry a staged QP negotiation (docs/negotiation.md). Detects whether it
// does, extracts the messages of both directions, checks their order, and makes the verdict. Driven by
// capture::Analyzer.
//
//   state of each direction   octets seen                                    next
//   follow                    whole message                                  follow
//   follow                    no magic, or a header without a valid length   over
//   follow                    octets are missing                             lost
//   lost                      a segment that begins with a valid header      follow; stage and round are unknown
//
// Each rule uses the earlier messages of its own direction. If a rule depends on what the sender had received, the TCP
// acknowledgment must prove it. No rule depends on octets that the capture lacks.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "capture/findings.hpp"
#include "capture/read/stream_tap.hpp"
#include "capture/read/tcp/tcp_half.hpp"
#include "capture/rules/neg/message_check.hpp"

namespace parley::capture {

class NegConnection {
 public:
  /// `tap` receives the decoded messages; may be null.
  explicit NegConnection(ReassemblyBudget& budget, StreamTap* tap = nullptr) : budget_(budget), tap_(tap) {}
  ~NegConnection();
  NegConnection(const NegConnection&) = delete;
  NegConnection& operator=(const NegConnection&) = delete;

  /// Whether a segment inside a connection may begin with a message.
  static bool may_begin_with(ConstBytes payload);

  /// `from` is 0 for the end that the Analyzer calls a, 1 for b.
  void packet(unsigned from, const wire::TcpSegmentView& t, std::uint64_t frame, Instant at);
  /// The connection carries a negotiation.
  bool confirmed() const { return is_ == Kind::negotiation; }
  /// The captured octets are not those of a negotiation.
  bool refuted() const { return is_ == Kind::other; }
  /// Refuted, but the beginning may be missing from the capture.
  bool may_lack_begin() const { return may_lack_begin_; }
  bool closed() const;
  /// Closed, and no new octets are expected.
  bool settled() const;
  /// The capture holds the SYNs, both FINs and all octets between them.
  bool whole() const;
  std::uint64_t first_frame() const { return first_frame_; }
  Instant last_at() const { return last_at_; }
  /// Whether this SYN begins another connection on the same addresses and ports.
  bool is_new_syn(unsigned from, const wire::TcpSegmentView& t) const;
  /// No packets follow. Delivers the octets held back; they may confirm or refute the negotiation.
  void stop_waiting();
  /// Call once, at the end. Requires confirmed().
  NegotiationReport finish();

  std::uint64_t dropped_before = 0;  ///< for the Analyzer: packets that the capture had dropped before the first one

 private:
  enum class Kind : std::uint8_t { undecided, negotiation, other };
  enum class State : std::uint8_t { follow, lost, over };
  enum class Tristate : std::uint8_t { no, yes, unknown };

  struct Half final : HalfSink {
    NegConnection* owner = nullptr;
    unsigned index = 0;
    TcpHalf tcp;
    Address address;
    std::uint64_t syn_frame = 0, fin_frame = 0, rst_frame = 0;
    Instant syn_at{};
    std::optional<std::uint64_t> ends_at;  // stream position of its FIN or, without one, RST
    std::uint32_t first_seq = 0;           // sequence number of stream position 0; only set with a tap
    DirectionCounts counts;
    std::uint64_t lost_places = 0, first_lost_frame = 0, cut_segments = 0, first_again_frame = 0;

    State state = State::follow;
    // The message that is being received: its header and, up to body_max, its body.
    Bytes pending;
    std::uint64_t pending_at = 0;  // stream position of its first octet
    std::uint64_t skip = 0;        // octets still to skip of a body that is too long; `pending` is its header

    Bytes before_hole;  // the possible beginning of a header before a hole; shorter than a header
    std::uint64_t before_hole_at = 0;

    // Messages sent so far.
    Tristate begun = Tristate::no;  // its Hello or Welcome
    bool gap = false;               // stage and round are not known; the next Turn sets them
    bool holes = false;             // there was a gap or a fault: its messages prove nothing about its peer
    std::uint8_t stage = 1;
    std::uint16_t round = 0;
    bool last = false;
    std::array<std::uint64_t, 4> last_end{};  // stream position behind its last Turn of each stage; 0: not yet
    std::uint64_t abort_frame = 0;
    bool first_is_abort = false, told_after_abort = false;
    std::optional<NegAbortSeen> abort;

    void octets(ConstBytes in, const SegmentRef& ref, bool start) override;
    void missing(std::uint64_t n, const SegmentRef& ref, bool cut) override;
  };
  struct Message {
    NegHead head;
    ConstBytes body;
    bool body_kept = true;
    SegmentRef ref;         // of its last octet
    std::uint64_t end = 0;  // stream position behind it
  };

  /// The longest body that is checked: a session's default limit.
  static constexpr std::size_t body_max = 65536;
  static constexpr std::size_t attributes_max = 64;
  static constexpr unsigned unknown_side = 2;

  Half& half_of(Side s) { return halves_[s == Side::initiator ? initiator() : 1 - initiator()]; }
  /// Until the initiator is known, the end that sent the SYN, or the first packet, is assumed.
  unsigned initiator() const { return initiator_ != unknown_side ? initiator_ : likely_initiator_; }
  Side side_of(const Half& h) const { return h.index == initiator() ? Side::initiator : Side::responder; }
  Half& peer_of(const Half& h) { return halves_[1 - h.index]; }
  const Half& peer_of(const Half& h) const { return halves_[1 - h.index]; }

  void tcp_flags(Half& h, const wire::TcpSegmentView& t, std::uint64_t frame, Instant at);
  TappedStream tapped(const Half& h) const;
  bool decide(Half& h);
  void refute(bool may_lack_begin);
  /// While undecided: some octets may be the beginning of a header.
  bool began_like_one() const;

  void handle_messages(Half& h, const SegmentRef& ref);
  bool take_message(Half& h, const SegmentRef& ref);
  void skip_body(Half& h, ConstBytes& in, const SegmentRef& ref);
  void other_protocol(Half& h, const SegmentRef& ref);
  void message(Half& h, const Message& m);
  void judge(Half& h, const Message& m);
  void pass_to_tap(const Half& h, std::uint64_t at, ConstBytes octets) const;
  void learn_roles(const Half& h, const NegHead& head);

  /// Before the sides are known, findings use Side as an index of halves_.
  static Side place_of(const Half& h) { return h.index == 0 ? Side::initiator : Side::responder; }
  bool error(const Half& h, const Message& m, Rule rule, std::string text);
  bool judge_order(Half& h, const Message& m);
  bool first_due(const Half& h, bool of_initiator) const;
  bool handle_hello(Half& h, const Message& m);
  bool handle_welcome(Half& h, const Message& m);
  bool judge_turn(Half& h, const Message& m);
  bool judge_stage(Half& h, const Message& m);
  void handle_abort(Half& h, const Message& m);
  static void adopt_head(Half& h, const NegHead& head);
  std::optional<std::uint64_t> heard_of_peer(const Half& h, const Message& m) const;
  bool stage_was_over(const Half& h, const Message& m) const;
  bool went_on_alone(const Half& h, const Message& m) const;
  void count_turn(const Half& h, const Message& m);
  void judge_body(const Half& h, const Message& m);
  void read_attributes(const Half& h, const Message& m);

  void finish_half(const Half& h);
  void report_aborts();
  void name_sides();
  const Half* first_to_abort() const;
  NegOutcome outcome() const;
  std::uint8_t last_stage() const;
  std::string describe_end() const;
  void report_times(NegotiationReport& r) const;

  ReassemblyBudget& budget_;
  StreamTap* tap_;
  Kind is_ = Kind::undecided;
  bool may_lack_begin_ = false, wired_ = false, flushed_ = false, violated_ = false;
  Half halves_[2];
  unsigned initiator_ = unknown_side, opener_ = unknown_side, likely_initiator_ = 0;  // of halves_
  std::uint64_t first_frame_ = 0, last_frame_ = 0;
  Instant earliest_{}, last_at_{}, latest_{};
  QpTurns qp_ = QpTurns::unknown;
  Tristate done_ = Tristate::unknown;  // the stage done follows
  NegotiationReport report_;           // filled as messages arrive
  Instant hello_at_{}, welcome_at_{}, over_at_{};
  Findings findings_;  // until finish(), "initiator" means halves_[0]
};

}  // namespace parley::capture
