// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// MPA startup: from an open TCP connection to full operation, or to the reason for its failure.
// Implements RFC 5044 §7.1, RFC 6581 and OFA 2007-10 Rtr, both roles. It does not make FPDUs: if one must be sent first
// (the RTR forms, a Terminate), the event names it and the queue pair sends it.
//
// Transitions (tests/states/mpa_startup.txt has every state with every input):
//
//   state           | input                          | next            | output
//   ----------------+--------------------------------+-----------------+-----------------------------------------------
//   wait_reply      | Reply R=0                      | open            | established; Rtr frame if S was agreed
//                   | Reply R=0, no common RTR, IRD  | failed          | terminate 7, 6
//                   | Reply R=1                      | rejected        | rejected
//                   | Reply Rev 1 or S=0 to a Rev 2  | failed          | retry_v1 if fall_back_to_v1, else failed
//                   | Reply with octets after it     | failed          | failed (rule 4)
//                   | RST, FIN                       | failed          | retry_v1 under Rev 2, else failed
//   wait_request    | Request                        | ulp_decision    | request
//                   | Rev 0                          | failed          | Reply Rev 1 with R=1; failed
//   ulp_decision    | accept                         | wait_first_fpdu | Reply; fpdu_mode
//                   | accept, S agreed on Rev 1      | wait_rtr_frame  | Reply
//                   | reject                         | rejected        | Reply with R=1; rejected
//                   | octets                         | failed          | failed
//   wait_rtr_frame  | Rtr frame                      | open            | established
//                   | head of an FPDU                | wait_first_fpdu | fpdu_mode; leftover()
//   wait_first_fpdu | handle_first_fpdu              | open            | established
//   any of these    | wrong octets, FIN, RST,        | failed          | failed
//                   | deadline                       |                 |
//   open            | anything                       | open            | none: the octets belong to the deframer
//   rejected,failed | anything                       | same            | none: octets are dropped
#pragma once
#include <optional>
#include <vector>

#include "base/machine.hpp"
#include "mpa/negotiate.hpp"
#include "mpa/quirks.hpp"
#include "mpa/startup_options.hpp"
#include "parley/mpa.hpp"

namespace parley::trace {
struct Scope;
}

namespace parley::mpa {

enum class StartupState : std::uint8_t {
  wait_reply,       // initiator: Request sent
  wait_request,     // responder
  ulp_decision,     // responder: a valid Request waits for accept() or reject()
  wait_rtr_frame,   // responder: Reply sent with S on revision 1
  wait_first_fpdu,  // responder: Reply sent; transmit is fenced (RFC 5044 §7.1.2 rule 4)
  open,             // full operation
  rejected,         // R=1 sent or received
  failed,
};
std::string_view to_string(StartupState state);

struct StartupEvent {
  enum class Kind : std::uint8_t {
    request,      ///< responder: decide with accept() or reject()
    fpdu_mode,    ///< responder: Reply sent, inbound octets are FPDUs; transmit fenced until handle_first_fpdu.
                  ///< First feed leftover() to the deframer, then the octets that handle_bytes did not take
    established,  ///< full operation; initiator: send parameters.rtr (if an FPDU form) as the very first FPDU.
                  ///< Responder with an Rtr frame: no fpdu_mode precedes it
    rejected,     ///< R=1, sent or received; initiator: has private_data and raw depths of the Reply
    terminate,    ///< initiator: send a Terminate with layer LLP, `terminate_code`, then close (RFC 6581 §8)
    failed,       ///< send the octets of poll_transmit, then close the connection as in `close`
    retry_v1,     ///< initiator: close, reconnect with revision 1 (RFC 6581 §10); `failure` has the reason
  };
  enum class Close : std::uint8_t { none, graceful, reset };
  Kind kind = Kind::failed;
  Parameters parameters{};
  Bytes private_data{};
  cm::Failure failure{};
  std::uint8_t terminate_code = 0;
  Close close = Close::none;
};
std::string_view to_string(StartupEvent::Kind kind);

/// The machine (base/machine.hpp). One per connection attempt; created when TCP is up.
class Startup {
 public:
  /// private_data: the Request's (initiator only). Errors: invalid_argument (contradictory options),
  /// bad_private_data.
  static Result<Startup> create(Role role, const StartupOptions& options, ConstBytes private_data, Instant now);

  /// Octets of private data that fit into an initiator's Request (RFC 5044 §7.1.1, RFC 6581 §6). `options` must have
  /// passed check_options.
  static std::size_t request_room(const StartupOptions& options);

  /// Records the startup frames, sent (when they are polled) and received, in `trace`; not owned.
  void set_trace(const trace::Scope* trace) { trace_ = trace; }

  /// Feeds octets of the peer's stream; returns the number taken. The caller feeds the others to the deframer
  /// (wait_first_fpdu, open). Octets where the protocol allows none are a failure.
  std::size_t handle_bytes(Instant now, ConstBytes in);
  /// The peer's FIN or RST during startup.
  void handle_end(Instant now, bool reset);
  void handle_deadline(Instant now);
  /// Responder in wait_first_fpdu: the deframer delivered a valid FPDU; `form` is its RTR form, none for a ULP message.
  void handle_first_fpdu(Instant now, Rtr form);
  /// A local failure that the peer cannot know. An initiator under revision 2 with an accepting Reply, now or later,
  /// gets `terminate` with code 5 (RFC 6581 §9.2). A responder, and an initiator under revision 1, gets `failed` with a
  /// reset. `what` becomes the failure's advice.
  void handle_local_error(Instant now, std::string_view what);

  /// Errors: wrong_state, invalid_argument, bad_private_data (over 512 octets, or 508 with enhanced data).
  Result<void> accept(Instant now, const StartupOptions& options, ConstBytes private_data);
  Result<void> reject(Instant now, ConstBytes private_data);

  /// The octets to send, all of them; empty if there are none.
  Bytes poll_transmit();
  std::optional<StartupEvent> poll_event();
  Instant next_deadline() const { return deadline_; }

  StartupState state() const { return state_; }
  /// The current step, as failures name it.
  cm::Step step() const;
  const Parameters& parameters() const { return parameters_; }
  /// Octets (at most 3) that earlier calls took as the possible head of an Rtr frame, but that are the head of an FPDU.
  /// Filled by the handle_bytes that raises fpdu_mode, valid until the next handle_bytes.
  ConstBytes leftover() const { return leftover_; }
  /// Octets of private data that fit into a responder's Reply; valid from the event `request` on.
  std::size_t reply_room() const;
  /// The quirk that the peer is known for, and the one that this side plays; by default an entry without departures.
  const Quirk& peer_quirk() const { return *peer_; }
  const Quirk& play_quirk() const { return *play_; }

 private:
  Startup(Role role, const StartupOptions& options, const Quirk& peer, const Quirk& play);

  // Common to both roles (startup.cpp).
  std::size_t read_frame(Instant now, ConstBytes in);
  std::size_t handle_rtr_frame(ConstBytes in);
  void trace_frame(bool sent, const wire::MpaFrameView& frame) const;
  bool check_head();
  bool check_revision(std::uint8_t revision);
  bool check_lengths(const wire::MpaFrameView& frame);
  std::size_t frame_wanted() const;
  std::size_t private_data_limit(const wire::MpaFrameView& frame) const;
  bool enhanced(const wire::MpaFrameView& frame) const;
  void enter(StartupState state, Instant deadline);
  void emit(StartupEvent::Kind kind, Bytes private_data = {});
  void fail_with(Errc code, std::string_view rule, std::string received, std::string advice,
                 StartupEvent::Close close = StartupEvent::Close::graceful, std::uint64_t offset = 0);
  StartupEvent& queue(StartupEvent::Kind kind);
  void finish(StartupEvent event);
  void bad_key(std::size_t at);

  // Initiator (startup_initiator.cpp).
  Result<void> send_request(Instant now, ConstBytes private_data);
  std::size_t judge_reply(Instant now, const wire::MpaFrameView& frame, std::size_t taken, std::size_t fed);
  bool reply_revision_is_bad(std::uint8_t revision);
  void retry_or_fail(Errc code, std::string_view rule, std::string received, std::string advice, std::uint64_t offset,
                     StartupEvent::Close close);
  void terminate_with(std::uint8_t code, Errc errc, std::string_view rule, std::string received, std::string advice);
  void send_rtr_frame();

  // Responder (startup_responder.cpp).
  void judge_request(Instant now, const wire::MpaFrameView& frame);
  bool request_revision_is_bad(std::uint8_t revision);
  Result<void> reply(const StartupOptions& options, ConstBytes private_data, bool accepting, bool& frame_follows);

  Role role_;
  StartupOptions options_;
  const Quirk* peer_;
  const Quirk* play_;
  const trace::Scope* trace_ = nullptr;
  Instant deadline_ = never;
  Duration waiting_{};  // the time limit of the current wait, for messages
  StartupState state_ = StartupState::wait_request;
  Parameters parameters_;
  bool request_s_ = false;      // S of the Request, our own or the peer's
  bool peer_enhanced_ = false;  // the Request carried enhanced data
  wire::MpaEnhanced request_enhanced_{};
  std::string local_error_;  // initiator: a local failure before the Reply
  Bytes in_;                 // the startup frame so far; at most 532 octets, or 20 of an Rtr frame
  Bytes leftover_;           // at most 3 octets
  Bytes transmit_;           // at most two startup frames
  // At most 4: request, then an end; or fpdu_mode, established. Usually only one at a time.
  std::optional<StartupEvent> event_;
  std::vector<StartupEvent> more_events_;
};

}  // namespace parley::mpa
