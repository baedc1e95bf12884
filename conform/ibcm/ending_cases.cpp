// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The end of a connection, and connections that only one side remembers: IBA §12.6.10, §12.6.11, §12.9.
#include "conform/ibcm/ending.hpp"
#include "conform/ibcm/judge.hpp"
#include "conform/ibcm/table.hpp"

namespace parley::conform::ibcm {

using wire::ib::CmDrep;
using wire::ib::CmDreq;
using wire::ib::CmRej;
using wire::ib::CmRep;

// ---- of both roles
// -------------------------------------------------------------------------------------------------------

Task<Observation> disconnect(Tester& b) {
  Link* link = co_await established_link(b);
  if (link == nullptr) co_return b.trouble();
  b.send_dreq(*link);
  const PeerPacket heard = co_await response(b, *link, b.settings().reply);
  const auto* drep = heard.as<CmDrep>();
  if (drep == nullptr) co_return failed(heard.text());
  if (drep->local_comm_id != link->peer_id()) co_return failed("DREP with a communication ID that is not its own");
  co_return pass("DREP");
}

Task<Observation> drep_transaction(Tester& b) {
  Link* link = co_await established_link(b);
  if (link == nullptr) co_return b.trouble();
  link->transaction_id ^= 0x5555;
  b.send_dreq(*link);
  const PeerPacket heard = co_await response(b, *link, b.settings().reply);
  if (heard.as<CmDrep>() == nullptr) co_return unclear(heard.text());
  if (heard.message->transaction_id != link->transaction_id) co_return failed("not the DREQ's TransactionID");
  co_return pass("the DREQ's TransactionID");
}

Task<Observation> dreq_again(Tester& b) {
  Link* link = co_await ended(b);
  if (link == nullptr) co_return b.trouble();
  b.send_dreq(*link);
  const PeerPacket heard = co_await response(b, *link, b.settings().reply);
  co_return heard.as<CmDrep>() != nullptr ? pass("DREP again") : failed(heard.text());
}

namespace {

/// Sends a DREQ that does not match this connection; the connection must stay up.
Task<Observation> not_this_one(Tester& b, CmDreq (*spoilt)(const Link& link), bool drep_is_fine) {
  Link* link = co_await established_link(b);
  if (link == nullptr) co_return b.trouble();
  const CmDreq dreq = spoilt(*link);
  b.send(*link, dreq);
  const PeerPacket heard = co_await response(b, *link, b.settings().quiet);
  if (!heard.silence && !(drep_is_fine && heard.as<CmDrep>() != nullptr)) co_return failed(heard.text());
  link->ended = false;
  const std::string wrong = co_await still_serves(b, *link);
  if (!wrong.empty()) co_return failed("then a request was answered by " + wrong);
  co_return pass(heard.text() + ", and the connection stays up");
}

}  // namespace

Task<Observation> dreq_of_another_qp(Tester& b) {
  return not_this_one(
      b,
      [](const Link& link) {
        return CmDreq{.local_comm_id = link.id(),
                      .remote_comm_id = link.peer_id(),
                      .remote_qpn = (link.peer_qpn() + 1) & 0xFFFFFF};
      },
      false);
}

Task<Observation> drep_for_standing(Tester& b) {
  Link* link = co_await established_link(b);
  if (link == nullptr) co_return b.trouble();
  b.send(*link, CmDrep{.local_comm_id = link->id(), .remote_comm_id = link->peer_id()});
  const PeerPacket heard = co_await response(b, *link, b.settings().quiet);
  if (!heard.silence) co_return failed(heard.text());
  const std::string wrong = co_await still_serves(b, *link);
  co_return wrong.empty() ? pass("silence, and the connection stays up")
                          : failed("then a request was answered by " + wrong);
}

Task<Observation> request_after_end(Tester& b) {
  Link* link = co_await ended(b);
  if (link == nullptr) co_return b.trouble();
  co_await b.peer().sleep(b.settings().quiet);  // gives the program above the peer time
  link->heard.clear();
  const Request request = nothing(link->next_psn());
  b.send_request(*link, request);
  const PeerPacket heard = co_await response(b, *link, b.settings().quiet);
  co_return heard.is_ack() ? failed("it was acknowledged") : pass("not acknowledged");
}

// ---- of a listener
// -------------------------------------------------------------------------------------------------------

namespace ending_table {
namespace {

Task<Observation> dreq_for_nobody(Tester& b) {
  Link& link = b.link();
  b.send(link, CmDreq{.local_comm_id = link.id(), .remote_comm_id = unknown_id(link), .remote_qpn = 0x77});
  const PeerPacket heard = co_await b.answer(link);
  const auto* drep = heard.as<CmDrep>();
  if (drep == nullptr) co_return failed(heard.text());
  co_return drep->local_comm_id == unknown_id(link) ? pass("DREP") : failed("DREP with another communication ID");
}

Task<Observation> dreq_before_rtu(Tester& b) {
  Link& link = b.link();
  const bool asked = co_await b.ask(link);
  if (!asked) co_return b.trouble();
  b.send_dreq(link);
  const PeerPacket heard = co_await response(b, link, b.settings().reply);
  // Linux leaves the DREP to the program, which may wait only for the RTU.
  if (heard.silence) co_return unclear("silence, which may be the program's");
  co_return heard.as<CmDrep>() != nullptr ? pass("DREP") : failed(heard.text());
}

Task<Observation> dreq_of_another_id(Tester& b) {
  return not_this_one(
      b,
      [](const Link& link) {
        return CmDreq{
            .local_comm_id = link.id(), .remote_comm_id = link.peer_id() ^ 0x80000000, .remote_qpn = link.peer_qpn()};
      },
      true);
}
Task<Observation> dreq_from_another_id(Tester& b) {
  return not_this_one(
      b,
      [](const Link& link) {
        return CmDreq{
            .local_comm_id = link.id() ^ 0x80000000, .remote_comm_id = link.peer_id(), .remote_qpn = link.peer_qpn()};
      },
      true);
}

Task<Observation> rtu_after_end(Tester& b) {
  Link* link = co_await ended(b);
  if (link == nullptr) co_return b.trouble();
  b.send_rtu(*link);
  const PeerPacket heard = co_await response(b, *link, b.settings().quiet);
  co_return heard.silence ? pass("silence") : failed(heard.text());
}

// ---- stale connections, and what is remembered
// --------------------------------------------------------------------------

/// A connection whose REQ has the queue pair of `old` and other IDs.
Link& same_queue_pair(Tester& b, const Link& old) {
  Link& link = b.link();
  link.req.local_qpn = old.req.local_qpn;
  return link;
}

/// The answer to a REQ on the queue pair of a connection that the peer still has. `old` hears all data packets.
Task<PeerPacket> stale_answer(Tester& b, Link& link) {
  b.send_req(link);
  return b.decision(link);
}

Task<Observation> stale(Tester& b) {
  Link& old = b.link();
  const bool up = co_await b.set_up(old);
  if (!up) co_return b.trouble();
  const std::string before = co_await still_serves(b, old);
  if (!before.empty()) co_return unclear("a request was answered by " + before);
  Link& link = same_queue_pair(b, old);
  const PeerPacket heard = co_await stale_answer(b, link);
  const auto* rej = heard.as<CmRej>();
  if (rej == nullptr || rej->reason != CmReject::stale_connection) co_return failed(heard.text());
  co_return pass(heard.text());
}

Task<Observation> stale_ends_old(Tester& b) {
  Link& old = b.link();
  const bool up = co_await b.set_up(old);
  if (!up) co_return b.trouble();
  const std::string before = co_await still_serves(b, old);
  if (!before.empty()) co_return unclear("a request was answered by " + before);
  Link& link = same_queue_pair(b, old);
  const PeerPacket refused = co_await stale_answer(b, link);
  if (refused.as<CmRej>() == nullptr) co_return unclear(refused.text());
  const PeerPacket heard = co_await response(b, old, b.settings().reply);
  co_return heard.as<CmDreq>() != nullptr ? pass("DREQ") : failed(heard.text());
}

Task<Observation> timewait_duplicate(Tester& b) {
  Link* link = co_await ended(b);
  if (link == nullptr) co_return b.trouble();
  b.send_req(*link);
  const PeerPacket heard = co_await b.rest(*link);
  link->ended = heard.as<CmRep>() == nullptr;
  if (const auto* rep = heard.as<CmRep>()) {
    link->rep = *rep;  // another connection under the old IDs; close() must end it
    co_return failed("REP: a REQ that comes late begins a new connection");
  }
  const auto* rej = heard.as<CmRej>();
  if (rej != nullptr && rej->reason != CmReject::stale_connection) co_return failed(heard.text());
  co_return pass(heard.text());
}

Task<Observation> after_reject(Tester& b) {
  Link& link = b.link();
  link.req.service_id ^= 0x8001;
  b.send_req(link);
  const PeerPacket refused = co_await b.decision(link);
  if (refused.as<CmRej>() == nullptr) co_return unclear(refused.text());
  link.req.service_id ^= 0x8001;
  link.ended = false;
  const bool up = co_await b.set_up(link);
  co_return up ? pass("REP") : failed(b.trouble().observed);
}

Task<Observation> new_ids_after_end(Tester& b) {
  const Link* old = co_await ended(b);
  if (old == nullptr) co_return b.trouble();
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  if (link.peer_id() == old->peer_id()) co_return failed("REP with the communication ID of the connection before");
  if (link.peer_qpn() == old->peer_qpn()) co_return failed("REP with the queue pair of the connection before");
  co_return pass("another communication ID and queue pair");
}

constexpr Case table[] = {
    row("62", "disconnect", "IBA §12.6.11", must, "DREQ", "DREP with both communication IDs", disconnect),
    row("63", "drep-transaction-id", "IBA §12.6.4", should, "DREQ", "the DREP has its TransactionID", drep_transaction),
    row("64", "dreq-again", "IBA §12.9", must, "the DREQ again after the DREP", "DREP again", dreq_again),
    row("65", "dreq-for-nobody", "IBA §12.9", must, "DREQ to an unknown communication ID", "DREP", dreq_for_nobody),
    row("66", "dreq-before-rtu", "IBA §12.9", must, "DREQ to the REP", "DREP", dreq_before_rtu),
    row("67", "dreq-of-another-queue-pair", "IBA §12.6.10", must, "DREQ with a Remote QPN that is not the peer's",
        "silence; the connection stays up", dreq_of_another_qp),
    row("68", "dreq-to-another-id", "IBA §12.6.10", must, "DREQ with another Remote Communication ID",
        "silence or DREP; the connection stays up", dreq_of_another_id),
    row("69", "dreq-from-another-id", "IBA §12.6.10", must, "DREQ with another Local Communication ID",
        "silence or DREP; the connection stays up", dreq_from_another_id),
    row("70", "drep-without-dreq", "IBA §12.9", must, "DREP on an established connection",
        "silence; the connection stays up", drep_for_standing),
    row("71", "rtu-after-the-end", "IBA §12.9", must, "RTU after the DREP", "silence", rtu_after_end),
    row("72", "request-after-the-end", "IBA §12.9", must, "a request on the queue pair after the DREP", "no ACK",
        request_after_end),
    row("73", "stale-connection", "IBA §12.9", must, "REQ with the queue pair of an established connection",
        "REJ 10 (stale connection)", stale),
    row("74", "stale-connection-is-ended", "IBA §12.9", must, "REQ with the queue pair of an established connection",
        "DREQ for the old connection", stale_ends_old),
    row("75", "late-req-in-timewait", "IBA §12.9", must, "the old REQ again after the DREP",
        "REJ 10 (stale connection) or silence", timewait_duplicate),
    row("76", "req-after-rej", "IBA §12.9", must, "a REQ that is rejected, then an acceptable one with the same IDs",
        "REP", after_reject),
    row("77", "numbers-rest-in-timewait", "IBA §12.9", must, "REQ right after the DREP of another connection",
        "REP with another communication ID and queue pair", new_ids_after_end),
};

}  // namespace
}  // namespace ending_table

std::span<const Case> ending_cases() { return ending_table::table; }

}  // namespace parley::conform::ibcm
