// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A peer that connected: how its connection ends, and what it does with answers to its own requests. IBA §12.6.10, §12.9, §9.7.5,
// §9.7.6.
#include "conform/ibcm/judge.hpp"
#include "conform/ibcm/table.hpp"

namespace parley::conform::ibcm {
namespace {

using wire::ib::CmDrep;
using wire::ib::CmDreq;
using wire::ib::CmRej;

Task<bool> ended(Tester& b, Link& link) {
  b.send_dreq(link);
  const Heard heard = co_await message(b, link, b.settings().reply);
  if (heard.as<CmDrep>() != nullptr) co_return true;
  // The RTU may have been on its way.
  if (heard.as<wire::ib::CmRtu>() == nullptr) co_return false;
  const Heard next = co_await message(b, link, b.settings().reply);
  co_return next.as<CmDrep>() != nullptr;
}

Task<Observation> disconnect(Tester& b) {
  Link* link = co_await accepted(b);
  if (link == nullptr) co_return b.trouble();
  b.send_dreq(*link);
  const Heard heard = co_await response(b, *link, b.settings().reply);
  const auto* drep = heard.as<CmDrep>();
  if (drep == nullptr) co_return failed(heard.words());
  co_return drep->local_comm_id == link->peer_id() ? pass("DREP")
                                                   : failed("DREP with a communication ID that is not its own");
}

Task<Observation> drep_transaction(Tester& b) {
  Link* link = co_await accepted(b);
  if (link == nullptr) co_return b.trouble();
  link->transaction_id ^= 0x5555;
  b.send_dreq(*link);
  const Heard heard = co_await response(b, *link, b.settings().reply);
  if (heard.as<CmDrep>() == nullptr) co_return unclear(heard.words());
  co_return heard.message->transaction_id == link->transaction_id ? pass("the DREQ's TransactionID")
                                                                  : failed("another TransactionID than the DREQ's");
}

Task<Observation> dreq_again(Tester& b) {
  Link* link = co_await accepted(b);
  if (link == nullptr) co_return b.trouble();
  const bool over = co_await ended(b, *link);
  if (!over) co_return unclear("the connection was not ended");
  b.send_dreq(*link);
  const Heard heard = co_await message(b, *link, b.settings().reply);
  co_return heard.as<CmDrep>() != nullptr ? pass("DREP again") : failed(heard.words());
}

Task<Observation> dreq_of_another_qp(Tester& b) {
  Link* link = co_await accepted(b);
  if (link == nullptr) co_return b.trouble();
  const CmDreq dreq{
      .local_comm_id = link->id(), .remote_comm_id = link->peer_id(), .remote_qpn = (link->peer_qpn() + 1) & 0xFFFFFF};
  b.send(*link, dreq);
  const Heard heard = co_await response(b, *link, b.settings().quiet);
  if (!heard.silence) co_return failed(heard.words());
  const std::string wrong = co_await still_serves(b, *link);
  co_return wrong.empty() ? pass("silence, and the connection stands")
                          : failed("then a request was answered by " + wrong);
}

Task<Observation> drep_for_standing(Tester& b) {
  Link* link = co_await accepted(b);
  if (link == nullptr) co_return b.trouble();
  b.send(*link, CmDrep{.local_comm_id = link->id(), .remote_comm_id = link->peer_id()});
  const Heard heard = co_await response(b, *link, b.settings().quiet);
  if (!heard.silence) co_return failed(heard.words());
  const std::string wrong = co_await still_serves(b, *link);
  co_return wrong.empty() ? pass("silence, and the connection stands")
                          : failed("then a request was answered by " + wrong);
}

/// The DREQ may overtake the RTU; the second one does not.
Task<Observation> dreq_with_rep(Tester& b) {
  Link* link = co_await b.asked();
  if (link == nullptr) co_return b.trouble();
  b.send_rep(*link);
  b.send_dreq(*link);
  const Heard heard = co_await response(b, *link, b.settings().quiet);
  if (heard.as<CmDrep>() != nullptr) co_return pass("DREP");
  b.send_dreq(*link);
  const Heard next = co_await response(b, *link, b.settings().reply);
  co_return next.as<CmDrep>() != nullptr ? pass("DREP") : failed(next.words());
}

Task<Observation> rep_after_end(Tester& b) {
  Link* link = co_await accepted(b);
  if (link == nullptr) co_return b.trouble();
  const bool over = co_await ended(b, *link);
  if (!over) co_return unclear("the connection was not ended");
  b.send_rep(*link);
  const Heard heard = co_await message(b, *link, b.settings().quiet);
  const bool refused = heard.as<CmRej>() != nullptr;
  co_return heard.silence || refused ? pass(heard.words()) : failed(heard.words());
}

Task<Observation> request_after_end(Tester& b) {
  Link* link = co_await accepted(b);
  if (link == nullptr) co_return b.trouble();
  const bool over = co_await ended(b, *link);
  if (!over) co_return unclear("the connection was not ended");
  co_await b.peer().sleep(b.settings().quiet);  // for the program above
  link->heard.clear();
  const Request request = nothing(link->next_psn());
  b.send_request(*link, request);
  const Heard heard = co_await response(b, *link, b.settings().quiet);
  co_return heard.is_ack() ? failed("it is acknowledged") : pass("not acknowledged");
}

Task<Observation> rej_of_standing(Tester& b) {
  Link* link = co_await accepted(b);
  if (link == nullptr) co_return b.trouble();
  link->heard.clear();
  b.send_rej(*link, CmReject::consumer, CmAbout::other);
  co_await b.peer().sleep(b.settings().quiet);
  link->heard.clear();
  const Request request = nothing(link->next_psn());
  b.send_request(*link, request);
  const Heard heard = co_await response(b, *link, b.settings().quiet);
  co_return heard.is_ack() ? failed("the connection stands") : pass("the connection is over");
}

// ---- its own requests ------------------------------------------------------------------------------------------------------

/// The peer's first request, which is not acknowledged. Silence: its program sends nothing by itself.
Task<Heard> first_request(Tester& b, Link& link) {
  link.acks = false;
  b.send_rep(link);
  for (unsigned i = 0; i < 8; ++i) {
    const Heard heard = co_await b.hear(link, b.settings().reply);
    if (heard.silence || heard.is_request()) co_return heard;
  }
  co_return Heard{};
}
constexpr std::string_view no_request = "its program sends nothing by itself (--ulp rping)";

/// Acknowledges what the peer repeats, so that it is left in order.
void settle(Tester& b, Link& link, const Heard& request) {
  link.acks = true;
  link.msn = 1;
  b.send_ack(link, request.bth.psn, PARLEY_IB_SYNDROME_ACK | PARLEY_IB_CREDITS_NONE);
}

Task<Observation> comes_again_after(Tester& b, std::uint8_t syndrome, bool says_so, Duration patience) {
  Link* link = co_await b.asked();
  if (link == nullptr) co_return b.trouble();
  const Heard first = co_await first_request(b, *link);
  if (first.silence) co_return unclear(std::string(no_request));
  if (says_so) b.send_ack(*link, first.bth.psn, syndrome);
  const Heard again = co_await response_of_peer(b, *link, patience);
  settle(b, *link, first);
  if (!again.is_request()) co_return failed(again.words());
  const bool same = again.bth.psn == first.bth.psn && again.payload == first.payload;
  co_return same ? pass("the same request again") : failed("another request");
}
Task<Observation> lost_ack(Tester& b) { return comes_again_after(b, 0, false, b.settings().timer); }
Task<Observation> sequence_nak(Tester& b) {
  return comes_again_after(b, PARLEY_IB_SYNDROME_NAK | static_cast<std::uint8_t>(Nak::psn_sequence_error), true,
                           b.settings().reply);
}
Task<Observation> rnr_nak(Tester& b) {
  return comes_again_after(b, PARLEY_IB_SYNDROME_RNR_NAK | 12, true, b.settings().reply);
}

/// IBA §12.6.6: nothing is sent before the time that the RNR NAK names.
Task<Observation> rnr_waits(Tester& b) {
  Link* link = co_await b.asked();
  if (link == nullptr) co_return b.trouble();
  const Heard first = co_await first_request(b, *link);
  if (first.silence) co_return unclear(std::string(no_request));
  b.send_ack(*link, first.bth.psn, PARLEY_IB_SYNDROME_RNR_NAK | 30);  // 327.68 ms
  const Heard early = co_await response_of_peer(b, *link, 250ms);
  if (!early.silence) {
    settle(b, *link, first);
    co_return failed(early.words() + " within 250 ms of 327 ms");
  }
  const Heard again = co_await response_of_peer(b, *link, b.settings().reply);
  settle(b, *link, first);
  co_return again.is_request() ? pass("the request again, not before its time") : failed(again.words());
}

/// After a NAK that is final no further request, and the connection is ended by its owner or not.
Task<Observation> final_nak(Tester& b) {
  Link* link = co_await b.asked();
  if (link == nullptr) co_return b.trouble();
  const Heard first = co_await first_request(b, *link);
  if (first.silence) co_return unclear(std::string(no_request));
  b.send_ack(*link, first.bth.psn, PARLEY_IB_SYNDROME_NAK | static_cast<std::uint8_t>(Nak::remote_operational_error));
  const Heard heard = co_await response_of_peer(b, *link, b.settings().quiet);
  if (heard.is_request()) co_return failed("the request comes again");
  co_return pass("no further request");
}

/// Both sides end the connection at once: the peer because its request failed.
Task<Observation> crossing_dreqs(Tester& b) {
  Link* link = co_await b.asked();
  if (link == nullptr) co_return b.trouble();
  const Heard first = co_await first_request(b, *link);
  if (first.silence) co_return unclear(std::string(no_request));
  b.send_ack(*link, first.bth.psn, PARLEY_IB_SYNDROME_NAK | static_cast<std::uint8_t>(Nak::remote_operational_error));
  Heard heard;
  for (unsigned i = 0; i < 8 && heard.as<CmDreq>() == nullptr; ++i) {
    heard = co_await message(b, *link, b.settings().reply);
    if (heard.silence) co_return unclear("its program does not end the connection");
  }
  const std::uint64_t theirs = heard.message->transaction_id;
  b.send_dreq(*link);
  const Heard answer = co_await message(b, *link, b.settings().reply);
  link->transaction_id = theirs;
  b.send(*link, CmDrep{.local_comm_id = link->id(), .remote_comm_id = link->peer_id()});
  link->ended = true;
  co_return answer.as<CmDrep>() != nullptr ? pass("DREP") : failed(answer.words());
}

/// IBA §12.9: a DREQ that nobody answers comes again.
Task<Observation> lost_drep(Tester& b) {
  Link* link = co_await b.asked();
  if (link == nullptr) co_return b.trouble();
  const Heard first = co_await first_request(b, *link);
  if (first.silence) co_return unclear(std::string(no_request));
  b.send_ack(*link, first.bth.psn, PARLEY_IB_SYNDROME_NAK | static_cast<std::uint8_t>(Nak::remote_operational_error));
  Heard heard;
  for (unsigned i = 0; i < 8 && heard.as<CmDreq>() == nullptr; ++i) {
    heard = co_await message(b, *link, b.settings().reply);
    if (heard.silence) co_return unclear("its program does not end the connection");
  }
  const CmDreq asked = *heard.as<CmDreq>();
  const Heard again = co_await message(b, *link, b.settings().timer);
  link->transaction_id = heard.message->transaction_id;
  b.send(*link, CmDrep{.local_comm_id = link->id(), .remote_comm_id = link->peer_id()});
  link->ended = true;
  const auto* dreq = again.as<CmDreq>();
  if (dreq == nullptr) co_return failed(again.words());
  if (asked.remote_qpn != link->qpn()) co_return failed("its DREQ names another queue pair than the tester's");
  co_return *dreq == asked ? pass("the same DREQ") : failed("a DREQ that differs from the first");
}

constexpr Case table[] = {
    asks("38", "disconnect", "IBA §12.6.11", must, "DREQ", "DREP with both communication IDs", disconnect),
    asks("39", "drep-transaction-id", "IBA §12.6.4", should, "DREQ", "the DREP has its TransactionID",
         drep_transaction),
    asks("40", "dreq-again", "IBA §12.9", must, "the DREQ again after the DREP", "DREP again", dreq_again),
    asks("41", "dreq-with-the-rep", "IBA §12.9", must, "REP and DREQ at once, and the DREQ again",
         "DREP to one of them at least", dreq_with_rep),
    asks("42", "dreq-of-another-queue-pair", "IBA §12.6.10", must, "DREQ with a Remote QPN that is not the peer's",
         "silence; the connection stands", dreq_of_another_qp),
    asks("43", "drep-without-dreq", "IBA §12.9", must, "DREP on a connection that stands",
         "silence; the connection stands", drep_for_standing),
    asks("44", "rep-after-the-end", "IBA §12.9", must, "REP again after the DREP", "silence or REJ; no RTU",
         rep_after_end),
    asks("45", "request-after-the-end", "IBA §12.9", must, "a request on the queue pair after the DREP", "no ACK",
         request_after_end),
    asks("46", "rej-of-a-standing-connection", "IBA §12.6.7", must, "REJ 28 on a connection that stands",
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

std::span<const Case> leaving_cases() { return table; }

}  // namespace parley::conform::ibcm
