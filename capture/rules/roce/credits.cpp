// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RequestFlow: end-to-end flow control (IBA vol. 1 §9.7.7.2). An ACK says with its MSN and its credits up to which message its sender
// has receives. Only Sends and Writes with immediate data take one, so that they are counted, and not those that need none:
// who counts all, as he may, stops earlier. One message more may go, which makes the responder tell what it has by then.
#include <fmt/format.h>

#include "base/text.hpp"
#include "capture/rules/roce/operations.hpp"
#include "capture/rules/roce/request_flow.hpp"

namespace parley::capture {

using wire::ib::Operation;

namespace {

bool is_ahead(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) > 0; }

/// Here a message that takes a receive begins. A Write takes it with its last packet alone.
bool begins_to_take(Operation o) {
  const bool ends_several = o == Operation::send_last || o == Operation::send_last_imm || o == Operation::send_last_inv;
  return o == Operation::send_first || (takes_receive(o) && !ends_several);
}

}  // namespace

/// How many of the first `msn` messages have taken a receive. `place`: of one of them.
std::optional<std::uint32_t> RequestFlow::receives_of(Place place, std::uint32_t msn) {
  auto it = covering(place);
  if (it == seen_.end() || !it->second.completed) return {};
  if (is_behind(msn, *it->second.completed)) return it->second.receives;
  for (auto next = std::next(it); next != seen_.end() && next->second.completed; ++next) {
    if (is_behind(msn, *next->second.completed)) break;
    it = next;
  }
  return it->second.receives + ((msn - *it->second.completed) & 0xFFFFFF);
}

// An ACK of several queues may be captured behind what it allowed.
void RequestFlow::take_credits(const RocePacket& p, Place place) {
  const auto credits = wire::ib::credits_of(p.packet.aeth.syndrome & PARLEY_IB_SYNDROME_VALUE);
  const auto receives = credits ? receives_of(place, p.packet.aeth.msn) : std::nullopt;
  if (!receives) {
    credits_.open = true;
  } else if (const std::uint32_t limit = *receives + *credits; !credits_.limit || is_ahead(limit, *credits_.limit)) {
    credits_.limit = limit;
    credits_.frame = p.frame;
  }
  const bool enough = credits_.open || (credits_.limit && excess_ && !is_ahead(excess_->number, *credits_.limit + 1));
  if (excess_ && enough && p.at - excess_->ref.at < same_moment) excess_.reset();
}

void RequestFlow::check_credits(const RocePacket& p, const Request& r, const FlowTerms& terms) {
  if (!terms.obeys_credits || credits_.open || !credits_.limit || excess_ || !r.completed) return;
  if (!begins_to_take(r.operation)) return;
  const std::uint32_t number = r.receives + (takes_receive(r.operation) ? 0 : 1);
  if (!is_ahead(number, *credits_.limit + 1)) return;
  excess_ = Excess{{p.frame, p.at}, r.operation, p.packet.bth.psn, number, credits_};
}

// Credits that the capture lacks may have come where it lacks other packets.
void RequestFlow::tell_excess() {
  if (!excess_ || missing > 0) return;
  const Excess& e = *excess_;
  findings_.tell(
      IbRule::ib_credit_limit, e.ref.frame, requester_,
      fmt::format(" sent {} with PSN {:#08x}, number {} of what takes a receive; it has credits up to number {} "
                  "(frame {}), and one more may ask for others",
                  with_article(operation_text(e.operation)), e.psn, e.number, *e.credits.limit, e.credits.frame));
  excess_.reset();
}

}  // namespace parley::capture
