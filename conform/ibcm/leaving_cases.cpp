// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A peer that connected: the end of its connection, and how it handles answers to its own requests. IBA §12.6.10,
// §12.9, §9.7.5, §9.7.6.
#include <optional>

#include "conform/ibcm/ending.hpp"
#include "conform/ibcm/judge.hpp"
#include "conform/ibcm/table.hpp"

namespace parley::conform::ibcm {
namespace leaving_table {
namespace {

using wire::ib::CmDrep;
using wire::ib::CmDreq;
using wire::ib::CmRej;

/// The DREQ may overtake the RTU; a second DREQ does not.
Task<Observation> dreq_with_rep(Tester& b) {
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return b.trouble();
  b.send_rep(*link);
  b.send_dreq(*link);
  const PeerPacket heard = co_await response(b, *link, b.settings().quiet);
  if (heard.as<CmDrep>() != nullptr) co_return pass("DREP");
  b.send_dreq(*link);
  const PeerPacket next = co_await response(b, *link, b.settings().reply);
  co_return next.as<CmDrep>() != nullptr ? pass("DREP") : failed(next.text());
}

Task<Observation> rep_after_end(Tester& b) {
  Link* link = co_await ended(b);
  if (link == nullptr) co_return b.trouble();
  b.send_rep(*link);
  const PeerPacket heard = co_await message(b, *link, b.settings().quiet);
  const bool refused = heard.as<CmRej>() != nullptr;
  co_return heard.silence || refused ? pass(heard.text()) : failed(heard.text());
}

Task<Observation> rej_of_standing(Tester& b) {
  Link* link = co_await accepted(b);
  if (link == nullptr) co_return b.trouble();
  link->heard.clear();
  b.send_rej(*link, CmReject::consumer, CmSubject::other);
  co_await b.peer().sleep(b.settings().quiet);
  link->heard.clear();
  const Request request = nothing(link->next_psn());
  b.send_request(*link, request);
  const PeerPacket heard = co_await response(b, *link, b.settings().quiet);
  co_return heard.is_ack() ? failed("the connection stays up") : pass("the connection is over");
}

// ---- its own requests
// ------------------------------------------------------------------------------------------------------

/// A packet, and the connection on which it came.
struct ReceivedRequest {
  Link* link = nullptr;  ///< null: nothing came, trouble() says why
  PeerPacket heard{};
};

/// The peer's first request, which is not acknowledged.
Task<ReceivedRequest> first_request(Tester& b) {
  ReceivedRequest came;
  came.link = co_await b.await_request();
  if (came.link == nullptr) co_return came;
  came.link->acks = false;
  b.send_rep(*came.link);
  for (unsigned i = 0; i < 8; ++i) {
    came.heard = co_await b.receive(*came.link, b.settings().reply);
    if (came.heard.is_request()) co_return came;
    if (came.heard.silence) break;
  }
  b.set_trouble("its program sends nothing by itself (--ulp rping)");
  co_return ReceivedRequest{};
}

constexpr std::uint8_t final_nak_syndrome =
    PARLEY_IB_SYNDROME_NAK | static_cast<std::uint8_t>(Nak::remote_operational_error);

void answer(Tester& b, const ReceivedRequest& first, std::uint8_t syndrome) {
  b.send_ack(*first.link, first.heard.bth.psn, syndrome);
}

/// Acknowledges the peer's retransmitted request, so that its queue pair is left in order.
void settle(Tester& b, const ReceivedRequest& first) {
  first.link->acks = true;
  first.link->msn = 1;
  answer(b, first, PARLEY_IB_SYNDROME_ACK | PARLEY_IB_CREDITS_NONE);
}

Task<Observation> comes_again_after(Tester& b, std::optional<std::uint8_t> syndrome, Duration patience) {
  const ReceivedRequest first = co_await first_request(b);
  if (first.link == nullptr) co_return b.trouble();
  if (syndrome) answer(b, first, *syndrome);
  const PeerPacket again = co_await response_of_peer(b, *first.link, patience);
  settle(b, first);
  if (!again.is_request()) co_return failed(again.text());
  const bool same = again.bth.psn == first.heard.bth.psn && again.payload == first.heard.payload;
  co_return same ? pass("the same request again") : failed("another request");
}
Task<Observation> lost_ack(Tester& b) { return comes_again_after(b, std::nullopt, b.settings().timer); }
Task<Observation> sequence_nak(Tester& b) {
  return comes_again_after(b, PARLEY_IB_SYNDROME_NAK | static_cast<std::uint8_t>(Nak::psn_sequence_error),
                           b.settings().reply);
}
Task<Observation> rnr_nak(Tester& b) {
  return comes_again_after(b, PARLEY_IB_SYNDROME_RNR_NAK | 12, b.settings().reply);
}

/// IBA §9.7.5.2.8: the peer must not retransmit before the time in the RNR NAK.
Task<Observation> rnr_waits(Tester& b) {
  const ReceivedRequest first = co_await first_request(b);
  if (first.link == nullptr) co_return b.trouble();
  answer(b, first, PARLEY_IB_SYNDROME_RNR_NAK | 30);  // 327.68 ms
  const PeerPacket early = co_await response_of_peer(b, *first.link, 250ms);
  if (!early.silence) {
    settle(b, first);
    co_return failed(early.text() + " within 250 ms of 327 ms");
  }
  const PeerPacket again = co_await response_of_peer(b, *first.link, b.settings().reply);
  settle(b, first);
  co_return again.is_request() ? pass("the request again, after the RNR timer") : failed(again.text());
}

/// After a fatal NAK the peer must send no further request; its program may end the connection.
Task<Observation> final_nak(Tester& b) {
  const ReceivedRequest first = co_await first_request(b);
  if (first.link == nullptr) co_return b.trouble();
  answer(b, first, final_nak_syndrome);
  const PeerPacket heard = co_await response_of_peer(b, *first.link, b.settings().quiet);
  if (heard.is_request()) co_return failed("the request comes again");
  co_return pass("no further request");
}

/// Makes the peer's request fail and waits for the DREQ with which the peer ends the connection.
Task<ReceivedRequest> first_dreq(Tester& b) {
  ReceivedRequest came = co_await first_request(b);
  if (came.link == nullptr) co_return came;
  answer(b, came, final_nak_syndrome);
  for (unsigned i = 0; i < 8; ++i) {
    came.heard = co_await message(b, *came.link, b.settings().reply);
    if (came.heard.as<CmDreq>() != nullptr) co_return came;
    if (came.heard.silence) break;
  }
  b.set_trouble("its program does not end the connection");
  co_return ReceivedRequest{};
}

void answer_dreq(Tester& b, const ReceivedRequest& dreq) {
  Link& link = *dreq.link;
  link.transaction_id = dreq.heard.message->transaction_id;
  b.send(link, CmDrep{.local_comm_id = link.id(), .remote_comm_id = link.peer_id()});
  link.ended = true;
}

Task<Observation> crossing_dreqs(Tester& b) {
  const ReceivedRequest theirs = co_await first_dreq(b);
  if (theirs.link == nullptr) co_return b.trouble();
  b.send_dreq(*theirs.link);
  const PeerPacket ours = co_await message(b, *theirs.link, b.settings().reply);
  answer_dreq(b, theirs);
  co_return ours.as<CmDrep>() != nullptr ? pass("DREP") : failed(ours.text());
}

/// IBA §12.9: the peer must retransmit a DREQ that gets no DREP.
Task<Observation> lost_drep(Tester& b) {
  const ReceivedRequest first = co_await first_dreq(b);
  if (first.link == nullptr) co_return b.trouble();
  const PeerPacket again = co_await message(b, *first.link, b.settings().timer);
  answer_dreq(b, first);
  const auto *asked = first.heard.as<CmDreq>(), *dreq = again.as<CmDreq>();
  if (dreq == nullptr) co_return failed(again.text());
  if (asked->remote_qpn != first.link->qpn()) co_return failed("its DREQ has a queue pair that is not the tester's");
  co_return *dreq == *asked ? pass("the same DREQ") : failed("a DREQ that differs from the first");
}

constexpr Case table[] = {
    asks("38", "disconnect", "IBA §12.6.11", must, "DREQ", "DREP with both communication IDs", disconnect),
    asks("39", "drep-transaction-id", "IBA §12.6.4", should, "DREQ", "the DREP has its TransactionID",
         drep_transaction),
    asks("40", "dreq-again", "IBA §12.9", must, "the DREQ again after the DREP", "DREP again", dreq_again),
    asks("41", "dreq-with-the-rep", "IBA §12.9", must, "REP and DREQ at once, and the DREQ again",
         "DREP to one of them at least", dreq_with_rep),
    asks("42", "dreq-of-another-queue-pair", "IBA §12.6.10", must, "DREQ with a Remote QPN that is not the peer's",
         "silence; the connection stays up", dreq_of_another_qp),
    asks("43", "drep-without-dreq", "IBA §12.9", must, "DREP on an established connection",
         "silence; the connection stays up", drep_for_standing),
    asks("44", "rep-after-the-end", "IBA §12.9", must, "REP again after the DREP", "silence or REJ; no RTU",
         rep_after_end),
    asks("45", "request-after-the-end", "IBA §12.9", must, "a request on the queue pair after the DREP", "no ACK",
         request_after_end),
    asks("46", "rej-of-a-standing-connection", "IBA §12.6.7", must, "REJ 28 on an established connection",
         "the connection is over: a request is not acknowledged", rej_of_standing),
    asks("47", "crossing-dreqs", "IBA §12.9", must, "DREQ in answer to the peer's DREQ", "DREP", crossing_dreqs),
    asks("48", "dreq-comes-again", "IBA §12.9", must, "no answer to the peer's DREQ", "the same DREQ again", lost_drep),
    asks("49", "request-comes-again", "IBA §9.7.6.1", must, "no ACK", "the same request again", lost_ack),
    asks("50", "resends-after-sequence-nak", "IBA §9.7.5.2.1", must, "NAK PSN sequence error of the first request",
         "the same request again", sequence_nak),
    asks("51", "resends-after-rnr-nak", "IBA §9.7.5.2.8", must, "RNR NAK of 0.64 ms", "the same request again",
         rnr_nak),
    asks("52", "rnr-nak-holds", "IBA §9.7.5.2.8", must, "RNR NAK of 327.68 ms",
         "nothing for 250 ms, then the request again", rnr_waits),
    asks("53", "final-nak", "IBA §9.7.5.2.4", must, "NAK remote operational error", "no further request", final_nak),
};

}  // namespace
}  // namespace leaving_table

std::span<const Case> leaving_cases() { return leaving_table::table; }

}  // namespace parley::conform::ibcm
