// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How connections end, as text.
#include <fmt/format.h>

#include "base/text.hpp"
#include "cm/providers/roce/roce_impl.hpp"
#include "wire/ib/packet.hpp"

namespace parley::cm::roce {
namespace {

constexpr const char* look_at_completions =
    "the first completion that failed has the status; docs/verbs.md explains it";
constexpr const char* look_at_peer = "look at the peer's log for its side of the story";

std::string retries_text(std::uint32_t n) { return n == 1 ? "1 retry" : fmt::format("{} retries", n); }

Errc code_of(wire::ib::Nak nak) {
  return nak == wire::ib::Nak::remote_access_error ? Errc::protection : Errc::terminated;
}

}  // namespace

Failure failure_of(const Connection& c, const nic::roce::QpFailure& why) {
  using Cause = nic::roce::QpFailure::Cause;
  const std::string peer = c.peer.to_string();
  const auto nak = static_cast<wire::ib::Nak>(why.code);
  const std::string elapsed = duration_text(why.elapsed);
  switch (why.cause) {
    case Cause::no_ack:
      return plain_failure(step::data, Errc::timed_out, "IBA §9.7.6.1",
                           fmt::format("no ACK of {} in {} over {}", peer, retries_text(why.retries), elapsed),
                           silent_peer_advice);
    case Cause::silence: return no_answer(step::data, {}, c.peer, " for " + elapsed);
    case Cause::unreachable:
      return plain_failure(
          step::data, Errc::peer_reset, {},
          fmt::format("ICMP: nothing receives UDP port 4791 at {} any more; silent for {}", peer, elapsed),
          "the peer's process has ended; look at its log, then connect again");
    case Cause::not_ready:
      return plain_failure(
          step::data, Errc::timed_out, "IBA §9.7.5.2.8",
          fmt::format("{} had no receive posted in {} over {} (RNR NAK)", peer, retries_text(why.retries), elapsed),
          "post receives before the peer sends, or raise rnr_retry_count");
    case Cause::nak:
      return plain_failure(step::data, code_of(nak), "IBA §9.7.5.2",
                           fmt::format("{} refused a request: NAK {} ({})", peer, why.code, to_string(nak)),
                           look_at_completions);
    case Cause::sent_nak:
      return plain_failure(step::data, code_of(nak), "IBA §9.7.4.1",
                           fmt::format("a request of {} was refused: NAK {} ({})", peer, why.code, to_string(nak)),
                           look_at_peer);
    case Cause::local:
    case Cause::none: break;
  }
  return plain_failure(step::data, Errc::terminated, {}, "the queue pair went to ERR", look_at_completions);
}

std::optional<Failure> not_all_delivered(const Connection& c, const Step& step) {
  using How = ibcm::EndNote::How;
  const How how = c.peer_end ? c.peer_end->how : How::delivered;
  if (how == How::abandoned)
    return plain_failure(step, Errc::peer_reset, {}, "a DREQ: the peer gave the connection up without a disconnect",
                         look_at_peer);
  if (how == How::failed)
    return plain_failure(step, Errc::peer_reset, {}, "a DREQ: the peer's queue pair failed", look_at_peer);
  if (how == How::incomplete)
    return plain_failure(step, Errc::peer_closed, {},
                         fmt::format("a DREQ: the peer disconnected with {} of its own not complete",
                                     counted(c.peer_end->left, "request")),
                         "see why they took so long, or raise the peer's linger");
  if (c.left == 0) return std::nullopt;
  return requests_left(step, c.left, c.peer_end || c.phase == Phase::closing);
}

const Step& step_of(const Connection& c) {
  if (c.initiator) return ib::step::wait_reply;
  return c.phase == Phase::deciding || c.phase == Phase::decided ? ib::step::ulp_decision : ib::step::wait_ready;
}

}  // namespace parley::cm::roce
