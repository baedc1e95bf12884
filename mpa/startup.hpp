// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// MPA startup: from an open TCP connection to full operation, or to a reason why not.
// Speaks RFC 5044 §7.1, RFC 6581 and OFA 2007-10 Rtr, both roles. It does not make FPDUs: where an FPDU must go first (the
// RTR forms, a Terminate), the event says which and the queue pair sends it.
#pragma once
#include <deque>
#include <optional>

#include "base/machine.hpp"
#include "parley/mpa.hpp"

namespace parley::mpa {

enum class StartupState : std::uint8_t {
  wait_reply,       // initiator: Request sent
  wait_request,     // responder
  ulp_decision,     // responder: a good Request waits for accept() or reject()
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
    fpdu_mode,    ///< responder: the Reply is out, inbound octets are FPDUs; transmit fenced until handle_first_fpdu
    established,  ///< full operation; initiator: send parameters.rtr (if an FPDU form) as the very first FPDU
    rejected,     ///< R=1; private_data and raw depths of the Reply are in here
    terminate,    ///< initiator: send a Terminate with layer LLP, `terminate_code`, then close (RFC 6581 §8)
    failed,       ///< close the connection as `close` says
    retry_v1,     ///< initiator: reconnect with revision 1 (RFC 6581 §10); `failure` says why
  };
  enum class Close : std::uint8_t { none, graceful, reset };
  Kind kind = Kind::failed;
  Parameters parameters{};
  Bytes private_data{};
  Failure failure{};
  std::uint8_t terminate_code = 0;
  Close close = Close::none;
};

/// The machine (base/machine.hpp). One per connection attempt; made when TCP is up.
class Startup {
 public:
  /// private_data: the Request's (initiator only). Errors: invalid_argument (options that contradict), bad_private_data.
  static Result<Startup> create(Role role, const Options& options, ConstBytes private_data, Instant now);

  /// Feeds octets of the peer's stream; the number taken. Octets after it belong to the deframer, once the state says so;
  /// where the protocol allows none, they are a failure here.
  std::size_t handle_bytes(Instant now, ConstBytes in);
  /// The peer's FIN or RST during startup.
  void handle_end(Instant now, bool reset);
  void handle_deadline(Instant now);
  /// Responder in wait_first_fpdu: the deframer passed a valid FPDU; `form` is the RTR form it has, none for a ULP message.
  void handle_first_fpdu(Instant now, Rtr form);

  Result<void> accept(Instant now, const Options& options, ConstBytes private_data);
  Result<void> reject(Instant now, ConstBytes private_data);

  /// The octets to send, whole; empty when none.
  Bytes poll_transmit();
  std::optional<StartupEvent> poll_event();
  Instant next_deadline() const { return deadline_; }

  StartupState state() const { return state_; }
  const Parameters& parameters() const { return parameters_; }

 private:
  Instant deadline_ = never;
  StartupState state_ = StartupState::wait_request;
  Parameters parameters_;
  std::deque<StartupEvent> events_;  // at most 4
};

}  // namespace parley::mpa
