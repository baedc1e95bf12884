// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Plays one side of a recording over one live stream and compares the answers of the live side with those of the
// recorded one. A machine (base/machine.hpp) without a transport: replay/machine.hpp runs it on streams.
//
// A step is sent when two conditions hold. First, the live side has matched everything of the other side that the
// step's recorded sender had received by then (the TCP acknowledgment in its segment shows that). Second, the recorded
// time since then has passed, scaled. The step is sent as follows:
//   startup frame  as recorded; in a Reply, an IRD and ORD that echoed the Request's follow the live Request
//                  (RFC 6581 §9.1)
//   FPDU           framed again for the live connection's CRC and markers (RFC 5044 §4); a wrong CRC, pad or marker
//                  stays wrong; STags and TOs of the peer become the live peer's (mapping.hpp); MSNs do not count
//                  messages that could not be played; a Read Response uses the sink and the length of the live Read
//                  Request
//   raw, FIN, RST  as recorded
//   a gap          nothing; Reads and Atomics that were answered in it get zeros, so that the live side can continue
// Once something was omitted or made up, the live side has received other input than the recorded one. Its answers are
// then matched where possible, and only an item that no correct stream can provoke is a difference.
#pragma once
#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/stream_port.hpp"
#include "replay/answers.hpp"
#include "replay/compare.hpp"

namespace parley::replay {

struct PlayOptions {
  /// Recorded pauses are divided by speed_of / speed_in; speed_of 0: no pauses.
  std::uint32_t speed_of = 1, speed_in = 1;
  /// How long the live side may be silent, in addition to the time that the recorded one took.
  Duration patience = std::chrono::seconds(5);
  /// How long to wait for further items after the end of the recording.
  Duration linger = std::chrono::milliseconds(200);
  /// Continue after a difference as far as possible; the first one is still reported.
  bool keep_going = false;
  /// The live side sends only what the recording holds of it: after a gap its MSNs do not count the lost messages.
  bool says_recorded_only = false;
  /// Differences in these are reported but do not count.
  Ignored ignored{};
};

/// One side of a difference.
struct Evidence {
  std::uint64_t frame = 0;  ///< of the recording; 0: live
  Duration at{};            ///< since the connection began
  std::string words;        ///< "Send, QN 0, MSN 3, 16 octets"; if nothing came, the missing item
  Bytes octets;             ///< the startup frame, or the message's first ULPDU; empty when there are none
  std::size_t known = 0;    ///< length of the head of `octets` that the recording holds
};

struct Difference {
  std::string what;
  std::string rule;
  std::optional<Evidence> recorded, live;
};

struct LogLine {
  Duration at{};
  bool played = false;      ///< by the player; false: by the live side
  std::uint64_t frame = 0;  ///< of the recording: the played frame, or that of the item it was compared with
  std::string text;
};

struct PlayResult {
  std::optional<Difference> difference;  ///< the first
  std::uint64_t differences = 0;         ///< more than one only with keep_going
  std::uint64_t steps = 0, steps_played = 0;
  std::uint64_t expected = 0, compared = 0;  ///< recorded items of the other side, and how many of them were compared
  std::uint64_t not_compared = 0;            ///< live items that are not in the recording
  std::uint64_t ignored = 0;                 ///< differences that were ignored as requested
  std::vector<std::string> ignored_words;    ///< descriptions of the first of them
  bool left_out = false;                     ///< some of the recorded side could not be played in full
  bool partial = false;                      ///< left_out, or the recording does not hold all of the connection
  std::vector<std::string> notes;            ///< items that were not played or compared, with reasons
  std::vector<LogLine> log;                  ///< at most log_max
  static constexpr std::size_t log_max = 20000;
};

class Player {
 public:
  enum class Close : std::uint8_t { none, shutdown, close, reset };

  /// `recording` must outlive the player.
  Player(const Recording& recording, capture::Side side, const PlayOptions& options);

  /// Memory of the live side that the caller knows although it is not announced on the wire.
  void set_live_stag(std::uint32_t recorded, std::uint32_t live) { map_.learn_stag(recorded, live); }
  void set_live_to(std::uint32_t stag, std::uint64_t recorded, std::uint64_t live) {
    map_.learn_to(stag, recorded, live);
  }

  void start(Instant now, std::uint16_t emss);
  void handle_bytes(Instant now, ConstBytes in);
  void handle_end(Instant now, StreamEnd end);
  void handle_deadline(Instant now);
  /// The live side could not be reached, or did not connect.
  void fail(const std::string& why);

  ConstBytes output() const { return ConstBytes(out_).subspan(out_begin_); }
  void written(Instant now, std::size_t n);
  /// What to do with the stream once output() is written; returned once.
  Close take_close();

  Instant next_deadline() const { return done_ ? never : deadline_; }
  bool started() const { return started_; }
  bool done() const { return done_; }
  const PlayResult& result() const { return result_; }

 private:
  static constexpr std::size_t out_max = 4 << 20;    // octets waiting to be written; steps wait beyond it
  static constexpr std::size_t unrecorded_max = 64;  // waiting unrecorded requests, unless our IRD allows more
  static constexpr std::size_t aligned_max = 256;    // recorded answers that one live answer may skip
  static constexpr Duration gap_patience = std::chrono::milliseconds(300);
  static constexpr Duration unseen_patience = std::chrono::seconds(1);
  static constexpr std::uint64_t slowest = 128 << 10;  // octets per second; extends a wait for many octets

  static constexpr std::uint64_t never_lost = ~std::uint64_t{0};
  static constexpr std::size_t none = ~std::size_t{0};

  struct LaneState {
    std::vector<std::size_t> items;     // of the other side, in order
    std::vector<Instant> matched_at;    // one for each that was matched
    std::optional<std::size_t> unsure;  // position before a gap, while the live items since fit several positions
    std::size_t matched_unsure = 0;     // live messages since then
    std::size_t next() const { return matched_at.size(); }
    bool over() const { return matched_at.size() >= items.size(); }
  };
  /// A request of the live side that needs an answer.
  struct LiveRequest {
    std::size_t recorded = 0;  // item of the other side; `none`: not in the recording
    wire::ReadRequest read;    // of a Read
    std::uint32_t id = 0;      // of an Atomic
  };
  enum class RequestKind : std::uint8_t { read, atomic };
  /// The requests of a kind before `upto` that must be answered with zeros.
  struct ZeroResponses {
    RequestKind kind{};
    std::size_t upto = 0;  // index into asked_
  };
  /// A Read Response that is sent one segment at a time, as room permits.
  struct PartialResponse {
    wire::ReadRequest read;
    std::uint64_t at = 0;  // octets made
    bool repeats = false;  // repeat the first part to fill the response; else octets outside of all parts are zeros
    std::vector<std::pair<std::uint64_t, ConstBytes>> parts;  // of the recording, each with its offset
  };
  /// MSNs of one queue that we send (RFC 5041 §5.3).
  struct Numbering {
    std::uint32_t next = 1;  // as recorded
    std::uint32_t less = 0;  // messages that are not played
    std::uint64_t gaps = 0;  // gaps_ when `next` was known
  };
  /// MSNs of one queue that the live side sends.
  struct Answered {
    std::uint32_t less = 0;    // recorded messages that it did not send
    std::uint32_t passed = 0;  // skipped since the last match; it may still send them
  };
  struct Precondition {
    std::array<std::size_t, 2> count{};  // items of each lane
    std::uint64_t octets = 0;            // if the other side is unseen: octets of its FPDUs
    bool startup_needed = false;         // if the other side is unseen: its startup frame
    Duration delay{};
  };

  // player.cpp
  void plan();
  void plan_lanes();
  void plan_msn();
  Duration scaled(Duration d) const;
  enum class Readiness : std::uint8_t { yes, answer_missing, waiting };  // waiting: a deadline is set

  void advance(Instant now);
  bool try_step(Instant now);
  bool full() const { return out_.size() - out_begin_ >= out_max; }
  void wait_for_room(Instant now);
  Readiness check_precondition(const Precondition& need, Instant now, Instant& since);
  Readiness check_unseen_precondition(const Precondition& need, Instant now, Instant& since);
  Instant octets_there(Instant now);
  void progress(Instant now);
  Instant limit(Duration patience, std::uint64_t octets) const;
  void wait_until(Instant when) { deadline_ = std::min(deadline_, when); }
  void wait_for_answer(Instant now);
  const Item* next_known(const LaneState& lane) const;
  void pass(LaneState& lane, Instant now);
  void finish(Close close);
  void left_out(std::string text);
  void differ(Instant now, Mismatch mismatch, const Item* recorded, const Item* live, std::string missing = {});
  void note(std::string text);
  void log(Instant now, bool played, std::uint64_t frame, std::string text);
  const SideRecord& mine() const { return recording_.side(side_); }
  const SideRecord& other() const { return recording_.side(capture::other(side_)); }

  // player_live.cpp
  void read_live(Instant now);
  void live_item(Instant now, Item& item);
  void unexpected(Instant now, const Item& item);
  bool pass_gap(LaneState& lane, const Item& live, Instant now);
  bool align(LaneState& lane, const Item& live, Instant now);
  std::string half_said() const;
  std::optional<Mismatch> differs(std::size_t index, const Item& live, std::uint32_t less,
                                  std::vector<Mismatch>* ignored = nullptr) const;
  void report_ignored(Instant now, const std::vector<Mismatch>& ignored, const Item& recorded, const Item& live);
  void remember(Instant now, const Item& live, std::size_t recorded);
  bool too_many_ask(Instant now, const Item& live, RequestKind kind);
  void match(Instant now, LaneState& lane, const Item& live);
  void live_startup(const Item& item);
  void settle();
  std::span<const Field> fields_of(std::size_t item) const;

  // player_steps.cpp
  void play(Instant now, const Step& step);
  void play_startup(const Step& step);
  bool play_fpdu(const Step& step);
  void report_zeros(const Step& step);
  void pass_lost();
  bool name_lost(std::uint32_t stag, const Step& step) const;
  std::string why_left_out(const Item& item, const Step& step) const;
  bool leave_out(const Step& step, const Item& item);
  void number(wire::DdpHeader& h, bool first);
  std::optional<bool> answer(const Step& step, const Item& item);
  bool queue_zeros_before(const Step& step);
  void answer_lost(std::size_t request);
  bool has_response_to_send() const { return making_ || !owed_answers_.empty(); }
  void continue_response(Instant now);
  LiveRequest& pop_request(RequestKind kind);
  void make_answer(RequestKind kind);
  void make_segment();
  void map_header(Bytes& ulpdu, const Step& step);
  void frame(ConstBytes ulpdu, const Step& step);
  void send(ConstBytes octets) { out_.insert(out_.end(), octets.begin(), octets.end()); }
  const Item* item_of_step(std::size_t step) const;

  const Recording& recording_;
  capture::Side side_;
  PlayOptions options_;
  PlayResult result_;
  Names names_;
  NameMap map_;
  std::vector<Precondition> needs_;  // one for each step
  std::vector<std::size_t> item_;    // one for each step: the item of ours that it is part of; items.size(): none
  std::array<LaneState, 2> lanes_;

  bool started_ = false, done_ = false, ended_ = false, peer_fin_ = false;
  Instant begun_{}, last_sent_{}, last_live_{}, deadline_ = never;
  Instant last_made_{}, last_taken_{};  // when an answer was last made up; when the live side last read octets
  Instant idle_since_{};                // when something was last sent or matched; other octets do not extend waits
  std::uint64_t idle_octets_ = 0;       // live_octets_ at that time
  std::uint64_t matched_end_ = 0;       // end of the last matched item in the recorded stream
  std::optional<Instant> there_at_;     // when the octets that the next step needs had arrived
  std::size_t next_step_ = 0;
  std::uint16_t emss_ = 1460;
  Close close_ = Close::none;
  Bytes out_;
  std::size_t out_begin_ = 0;

  // The live connection.
  StepReader reader_;
  Assembler assembler_;
  std::size_t live_steps_ = 0;
  std::uint64_t live_octets_ = 0;
  std::string half_;  // the incomplete item when the stream ended
  std::optional<capture::StartupSeen> own_startup_, live_startup_;
  bool settled_ = false, tx_crc_ = true, tx_markers_ = false;
  std::uint64_t tx_position_ = 0;
  // By Asks, in order: recorded requests, and others, of which at most unrecorded_max or our IRD are unanswered.
  std::array<std::vector<LiveRequest>, 2> asked_;
  std::array<std::size_t, 2> answered_{};             // how many of them are answered
  std::array<std::size_t, 2> answering_{none, none};  // the one of them that the current response answers
  Answers answers_;                                   // our items that answer requests
  std::array<std::size_t, 2> unrecorded_{};           // unanswered ones that are not in the recording
  std::deque<ZeroResponses> owed_answers_;            // in order; at most one for each recorded request and response
  std::optional<PartialResponse> making_;
  std::set<std::size_t> owed_;    // recorded requests whose answer was lost and that have not arrived yet
  std::size_t made_item_ = none;  // the response that was sent in full at its first step
  std::size_t left_item_ = none;  // the message that is not played
  std::map<std::uint32_t, Numbering> numbering_;
  std::uint64_t gaps_ = 0;                    // passed so far on our side
  std::uint64_t lost_of_other_ = never_lost;  // position of the first octets of the other side that are missing
  bool other_stops_ = false;                  // the recording ends within the other side's stream
  std::map<std::uint32_t, Answered> live_numbering_;
  std::vector<std::uint32_t> msn_less_;  // for each item of the other side, with says_recorded_only
  std::uint64_t not_come_ = 0;           // recorded answers given up, after something was left out
};

}  // namespace parley::replay
