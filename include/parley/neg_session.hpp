// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One staged QP negotiation over a stream, from the first octet to the last stage or a failure. Pure: octets and a time
// in; octets, an end and a deadline out.
//
// state      | input                         | becomes   | what happens
// -----------+-------------------------------+-----------+-----------------------------------------------------------
// hello      | Hello (responder)             | talking   | the variant is created; Welcome is sent
// hello      | Welcome (initiator)           | talking   | the first Turn of info has already been sent
// talking    | Turn of the stage             | talking   | the variant's turn; its answer is sent
// talking    | Turn, both sides' last        | talking   | the next stage; the initiator speaks first
// talking    | a stage ends                  | working   | the variant works until it is done; then the next stage
// talking    | the last stage ends           | over      | completed, once the variant is done
// any        | Abort, FIN, RST, time limit   | over      | failed
// any        | a protocol violation          | over      | Abort is sent; failed
//
// In a stage the sides take turns, the initiator first. The flag `last` marks a side's last message of the stage; after it
// the side's Turns are empty. The stage is over when both sides have sent their last Turn, so each side knows it at the
// later of the two.
//
// A raw session (Framing::raw) has no Hello, no headers and no Abort. It starts in `talking`, the variant determines where
// a message of the peer ends, and a stage is over for each side when its own variant has completed it.
//
// "working" is not a State of its own. Input during it is kept until the next stage. An Abort takes effect at once. An end
// of the stream takes effect at the next stage, and is ignored if no stage follows.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parley/neg.hpp"

namespace parley::wire {
struct NegHeader;
enum class NegType : std::uint8_t;
}  // namespace parley::wire

namespace parley::neg {

/// The variant that an initiator requests.
struct Request {
  std::string plugin, variant;
  std::string label{};  ///< for the responder's log; at most 255 octets
};

class Session {
 public:
  enum class State : std::uint8_t { hello, talking, over };
  /// Creates the responder's variant once the Hello names it.
  using Chooser = std::function<Outcome<std::unique_ptr<Variant>>(const Request& request)>;

  /// Hello and the first Turn of info are then in poll_transmit(). If the variant fails before its first Turn, the session is
  /// over, and poll_transmit() has Hello and Abort. Errors: configuration_error.
  static Outcome<Session> initiate(const Request& request, std::unique_ptr<Variant> variant,
                                   const SessionOptions& options, Instant now);
  /// Errors: configuration_error.
  static Outcome<Session> respond(Chooser chooser, const SessionOptions& options, Instant now);

  /// Framing::raw: each side has its variant from the start. Errors: configuration_error, errors of the variant.
  static Outcome<Session> raw(Role role, const Request& request, std::unique_ptr<Variant> variant,
                              const SessionOptions& options, Instant now);

  /// The peer's stream, in order. Octets after the session's end are ignored.
  void handle_bytes(Instant now, ConstBytes in);
  /// The peer's stream has ended or is unusable; `how` goes into the failure unless the session was over.
  void handle_end(Instant now, std::string_view how);
  void handle_deadline(Instant now);
  /// Gives up and sends an Abort.
  void abort(Instant now, Failure why);

  Bytes poll_transmit() { return std::exchange(out_, {}); }
  Instant next_deadline() const;

  State state() const { return state_; }
  Stage stage() const { return stage_; }
  /// At least one complete message of the peer has arrived.
  bool heard() const { return heard_; }
  bool completed() const { return state_ == State::over && !failure_; }
  /// Null unless it has failed.
  const Failure* failure() const { return failure_ ? &*failure_ : nullptr; }
  /// The request; the responder's is empty before the Hello.
  const Request& request() const { return request_; }
  Variant* variant() { return variant_.get(); }
  /// The result of Variant::agreed(); empty without a variant. Errors: unexpected_exception.
  Outcome<std::vector<QpPair>> agreed() const;
  /// Only after the session is over.
  std::unique_ptr<Variant> take_variant() { return std::move(variant_); }
  const std::deque<Exchange>& history() const { return history_; }
  std::uint64_t history_dropped() const { return history_dropped_; }

 private:
  Session(Role role, const SessionOptions& options, Instant now);
  Outcome<void> adopt_variant(std::unique_ptr<Variant> variant);
  bool read_message();
  bool handle_raw();
  void handle_hello(ConstBytes body);
  void handle_welcome(ConstBytes body);
  void handle_abort(const wire::NegHeader& header, ConstBytes body);
  void handle_turn(const wire::NegHeader& header, ConstBytes body);
  void begin_stage(Stage stage);
  bool listen(ConstBytes peer);
  void run_turn(std::optional<ConstBytes> peer);
  void send(wire::NegType type, ConstBytes body, bool last = false);
  void note(bool sent, const wire::NegHeader& header, ConstBytes body);
  void end_stage();
  void work();
  void next_stage();
  void handle_messages();
  void look_for_abort();
  void await_answer();
  void violated(std::string text);
  void fail_with(Failure why, bool tell_peer);
  Failure here(Problem problem, std::string text, std::string advice = {}) const;

  Role role_;
  SessionOptions options_;
  Chooser chooser_;
  std::unique_ptr<Variant> variant_;
  Request request_;
  State state_ = State::hello;
  Stage stage_ = Stage::none;
  Framing framing_ = Framing::parley;
  bool done_stage_ = false, welcome_ = false, heard_ = false;
  bool said_last_ = false, heard_last_ = false;  // in the stage
  bool working_ = false;                         // the stage is over, and its variant is not done
  bool peer_works_ = false;                      // in the stage: Variant::peer_works()
  Instant work_at_ = never;                      // when the variant is called again
  std::optional<std::string> ended_;             // how the stream ended during the work
  std::uint16_t sent_rounds_ = 0, heard_rounds_ = 0;
  Instant now_{}, session_deadline_ = never, answer_deadline_ = never;
  Bytes in_, out_;
  std::optional<Failure> failure_;
  std::deque<Exchange> history_;
  std::uint64_t history_dropped_ = 0;
};

std::string_view to_string(Session::State state);

/// A session's messages in the private data of a connection's set-up, without trailing zeros: the InfiniBand CM pads private
/// data to 56, 196 or 148 octets. The messages are not validated; Session::handle_bytes() does that.
ConstBytes messages_in(ConstBytes private_data);

}  // namespace parley::neg
