// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RequestFlow: end-to-end flow control (IBA vol. 1 §9.7.7.2). MSN and credits of an ACK give the last message for which
// the responder has a receive. Only Sends and Writes with immediate data consume a receive, so only these are counted.
// A requester may count all messages; then it stops earlier. It may send one message more, to which the responder
// answers with its new credits.
// The capture may lack an ACK, and with it the credits for later messages. But posted receives do not disappear: if a
// later ACK has no greater limit, no earlier one had.
#include <fmt/format.h>

#include "base/text.hpp"
#include "capture/rules/roce/operations.hpp"
#include "capture/rules/roce/request_flow.hpp"

namespace parley::capture {

using wire::ib::Operation;

namespace {

bool is_ahead(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) > 0; }

/// Whether a message that consumes a receive begins with this packet. A Write consumes it with its last packet.
bool begins_to_take(Operation o) {
  const bool ends_several = o == Operation::send_last || o == Operation::send_last_imm || o == Operation::send_last_inv;
  return o == Operation::send_first || (consumes_receive(o) && !ends_several);
}

}  // namespace

/// The last request that an ACK with this PSN and MSN reports as executed; end() unless all before it were seen.
RequestFlow::Requests::iterator RequestFlow::executed(ExtendedPsn place, std::uint32_t msn) {
  auto it = covering(place);
  if (it == seen_.end() || !it->second.completed) return seen_.end();
  for (auto next = std::next(it); next != seen_.end() && next->second.completed; ++next) {
    if (is_behind(msn, *next->second.completed)) break;
    it = next;
  }
  return it;
}

// Updates the limit from an ACK. A capture with several queues may show an ACK after the requests that it allowed.
void RequestFlow::handle_credits(const RocePacket& p, ExtendedPsn place) {
  const std::uint32_t msn = p.packet.aeth.msn;
  const auto credits = wire::ib::credits_of(p.packet.aeth.syndrome & PARLEY_IB_SYNDROME_VALUE);
  const auto last = credits ? executed(place, msn) : seen_.end();
  if (last == seen_.end()) {
    credits_.open = true;
    excess_.reset();
    return;
  }
  const Request& r = last->second;
  const std::uint32_t receives = r.receives + (is_behind(msn, *r.completed) ? 0 : (msn - *r.completed) & 0xFFFFFF);
  const std::uint32_t limit = receives + *credits;
  if (!credits_.limit || is_ahead(limit, *credits_.limit)) {
    credits_.limit = limit;
    credits_.frame = p.frame;
  }
  // In the middle of a Send, its receive is consumed but the message is not yet counted.
  if (excess_) settle_excess(p, receives, ends_message(r.operation));
}

// A credit code means its number of credits or more, but fewer than the next code. An ACK captured at nearly the same
// time may have been sent before the request. A Read or Atomic response may be an old one for a retransmitted request.
void RequestFlow::settle_excess(const RocePacket& p, std::uint32_t receives, bool between_messages) {
  const RequestBeyondCredits& e = *excess_;
  const auto next = wire::ib::credits_of((p.packet.aeth.syndrome & PARLEY_IB_SYNDROME_VALUE) + 1);
  const bool beyond = next && is_ahead(e.number, receives + *next);
  const bool proves = between_messages && p.operation() == Operation::acknowledge && p.at - e.ref.at >= paths_apart;
  if (beyond && !proves) return;
  if (beyond) {
    credits_.told = true;
    findings_.report(
        IbRule::ib_credit_limit, e.ref.frame, requester_,
        fmt::format(" sent {} with PSN {:#08x}, number {} of what takes a receive; it has credits up to "
                    "number {} (frame {}), its peer has receives up to number {} still in frame {}, and one "
                    "more may ask for others",
                    with_article(operation_text(e.operation)), e.psn, e.number, *e.credits.limit, e.credits.frame,
                    receives + *next - 1, p.frame));
  }
  excess_.reset();
}

void RequestFlow::check_credits(const RocePacket& p, const Request& r, const FlowTerms& terms) {
  if (!terms.obeys_credits || credits_.open || credits_.told || !credits_.limit || excess_ || !r.completed) return;
  if (!begins_to_take(r.operation)) return;
  const std::uint32_t number = r.receives + (consumes_receive(r.operation) ? 0 : 1);
  if (!is_ahead(number, *credits_.limit + 1)) return;
  excess_ = RequestBeyondCredits{{p.frame, p.at}, r.operation, p.packet.bth.psn, number, credits_};
}

}  // namespace parley::capture
