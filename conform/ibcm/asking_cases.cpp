// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A peer that connects: its REQ, how it handles a REP, its RTU. IBA §12.6.5, §12.6.8, §12.6.9, §12.9.
#include <fmt/format.h>

#include <algorithm>

#include "base/gid.hpp"
#include "base/text.hpp"
#include "conform/ibcm/judge.hpp"
#include "conform/ibcm/table.hpp"

namespace parley::conform::ibcm {
namespace asking_table {
namespace {

using wire::ib::CmRep;
using wire::ib::CmReq;
using wire::ib::CmRtu;

// ---- the REQ
// -------------------------------------------------------------------------------------------------------------

/// Checks the packet of the REQ, then accepts the REQ.
Task<Observation> req_packet(Tester& b, std::string (*wrong)(const Link& link)) {
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return b.trouble();
  const std::string fault = wrong(*link);
  const bool up = co_await accept(b, *link);
  if (!fault.empty()) co_return failed(fault);
  co_return up ? pass("as it should be") : b.trouble();
}

Task<Observation> req_datagram(Tester& b) {
  return req_packet(b, [](const Link& link) {
    const std::string wrong = wrong_datagram(link.first);
    return wrong.empty() ? wrong_mad_header(link.first) : wrong;
  });
}

Task<Observation> req_fields(Tester& b) {
  return req_packet(b, [](const Link& link) -> std::string {
    const CmReq& req = link.asked;
    if (req.local_comm_id == 0) return "its communication ID is 0";
    if (req.local_qpn < 2 || req.local_qpn > 0xFFFFFE) return fmt::format("it names queue pair {}", req.local_qpn);
    if (req.local_ca_guid == 0) return "its CA GUID is 0";
    if (req.path_mtu < PARLEY_IB_MTU_CODE_MIN || req.path_mtu > PARLEY_IB_MTU_CODE_MAX)
      return fmt::format("its path MTU is {}", req.path_mtu);
    if ((req.p_key & 0x7FFF) == 0) return "its P_Key is none";
    if (req.service != wire::ib::CmService::rc) return "it requests a service other than RC";
    if (req.primary.local_gid != gid_of(link.first.from)) return "its local GID is not where it comes from";
    if (req.primary.remote_gid != gid_of(link.first.to)) return "its remote GID is not where it goes to";
    return {};
  });
}

Task<Observation> req_header(Tester& b) {
  return req_packet(b, [](const Link& link) -> std::string {
    const auto service = wire::ib::cma_service_of(link.asked.service_id);
    if (!service || service->space != wire::ib::PortSpace::tcp) return "its service ID is none of rdma_cm's TCP ports";
    const auto header = wire::ib::CmaHeader::parse(link.asked.private_data);
    if (!header) return header.error().sentence();
    if (gid_of(header->source) != gid_of(link.first.from)) return "its source address is not where it comes from";
    if (gid_of(header->destination) != gid_of(link.first.to)) return "its destination address is not where it goes to";
    return {};
  });
}

Task<Observation> req_again(Tester& b) {
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return b.trouble();
  const PeerPacket heard = co_await message(b, *link, b.settings().timer, true);
  const auto* req = heard.as<CmReq>();
  Observation out = pass("the same REQ");
  if (req == nullptr) out = failed(heard.text() + " where the REQ is expected again");
  if (req != nullptr && !(*req == link->asked)) out = failed("a REQ that differs from the first");
  if (req != nullptr && heard.message->transaction_id != link->transaction_id)
    out = failed("the REQ again with another TransactionID");
  const bool up = co_await accept(b, *link);
  if (!up && out.verdict == Verdict::pass) co_return failed("the same REQ, and its REP is answered by silence");
  co_return out;
}

/// The longest time until the peer has retransmitted its REQ as often as Max CM Retries allows.
Duration until_given_up(const CmReq& req) {
  const Duration each =
      wire::ib::timeout_of(req.remote_cm_response_timeout) + wire::ib::timeout_of(req.primary.local_ack_timeout);
  return each * (std::int64_t{req.max_cm_retries} + 2);
}

Task<Observation> req_retries(Tester& b) {
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return b.trouble();
  const Duration due = until_given_up(link->asked);
  if (due > 10 * b.settings().timer) {
    b.send_rej(*link, CmReject::consumer);
    co_return unclear(fmt::format("it would take {}: raise --timer to a tenth of that", duration_text(due)));
  }
  const Instant limit = b.peer().now() + due;
  unsigned again = 0;
  for (unsigned i = 0; i < 100; ++i) {
    const PeerPacket heard = co_await message(b, *link, std::max(limit - b.peer().now(), Duration{}), true);
    if (heard.silence) break;
    if (heard.as<CmReq>() != nullptr) ++again;
    if (heard.as<wire::ib::CmRej>() != nullptr) break;  // it gives up
  }
  link->ended = true;
  co_await b.peer().sleep(b.settings().quiet);  // so that other waiting REQs of the peer also time out
  if (again > link->asked.max_cm_retries)
    co_return failed(
        fmt::format("the REQ {} times again, though Max CM Retries is {}", again, link->asked.max_cm_retries));
  if (again == 0 && link->asked.max_cm_retries > 0) co_return failed("the REQ is not retransmitted");
  co_return pass("no more often than it says");
}

Task<Observation> silent_before_rep(Tester& b) {
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return b.trouble();
  const Instant limit = b.peer().now() + b.settings().quiet;
  PeerPacket heard = co_await b.receive(*link, b.settings().quiet);
  for (unsigned i = 0; i < 100 && heard.as<CmReq>() != nullptr; ++i)
    heard = co_await b.receive(*link, std::max(limit - b.peer().now(), Duration{}));
  const bool up = co_await accept(b, *link);
  if (!heard.silence) co_return failed(heard.text());
  co_return up ? pass("only REQs") : b.trouble();
}

// ---- the RTU
// ----------------------------------------------------------------------------------------------------------------

/// Sends a changed REP and expects the RTU.
Task<Observation> rtu_to(Tester& b, void (*spoil)(CmRep& rep)) {
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return b.trouble();
  spoil(link->reply);
  const bool up = co_await accept(b, *link);
  if (!up) co_return failed(b.trouble().observed);
  co_return pass("RTU");
}
Task<Observation> plain(Tester& b) {
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return b.trouble();
  b.send_rep(*link);
  const PeerPacket heard = co_await message(b, *link, b.settings().reply);
  const auto* rtu = heard.as<CmRtu>();
  if (rtu == nullptr) co_return failed(heard.text());
  if (rtu->local_comm_id != link->peer_id()) co_return failed("RTU with a communication ID that is not its own");
  b.note_accepted();
  const PeerPacket rest = co_await message(b, *link, b.settings().quiet);
  co_return rest.silence ? pass("RTU, and no further message") : failed("after the RTU: " + rest.text());
}
Task<Observation> rtu_transaction(Tester& b) {
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return b.trouble();
  b.send_rep(*link);
  const PeerPacket heard = co_await message(b, *link, b.settings().reply);
  if (heard.as<CmRtu>() == nullptr) co_return unclear(heard.text());
  co_return heard.message->transaction_id == link->transaction_id ? pass("the REQ's TransactionID")
                                                                  : failed("not the REQ's TransactionID");
}
Task<Observation> rep_full(Tester& b) {
  return rtu_to(b, [](CmRep& rep) { rep.private_data.fill(0xFF); });
}
Task<Observation> rep_depths_none(Tester& b) {
  return rtu_to(b, [](CmRep& rep) { rep.responder_resources = rep.initiator_depth = 0; });
}
Task<Observation> rep_psn_last(Tester& b) {
  return rtu_to(b, [](CmRep& rep) { rep.starting_psn = 0xFFFFFF; });
}
Task<Observation> rep_retries_none(Tester& b) {
  return rtu_to(b, [](CmRep& rep) { rep.rnr_retry_count = 0; });
}
Task<Observation> rep_delay_longest(Tester& b) {
  return rtu_to(b, [](CmRep& rep) { rep.target_ack_delay = 15; });
}

Task<Observation> rep_reserved(Tester& b) {
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return b.trouble();
  Bytes mad = b.mad(*link, link->reply);
  // IBA §12.6.8: the reserved bits after SRQ.
  MutBytes octet = MutBytes(mad).subspan(PARLEY_IB_MAD_HEADER_LEN + 27, 1);
  octet.front() = static_cast<std::uint8_t>(octet.front() | 0x0F);
  link->replied = true;
  b.send_mad(*link, "REP with reserved bits set", mad);
  const PeerPacket heard = co_await message(b, *link, b.settings().reply);
  co_return heard.as<CmRtu>() != nullptr ? pass("RTU") : failed(heard.text());
}

/// IBA §12.9: the RTU was lost.
Task<Observation> rep_again(Tester& b) {
  Link* link = co_await accepted(b);
  if (link == nullptr) co_return b.trouble();
  link->heard.clear();
  b.send_rep(*link);
  const PeerPacket heard = co_await message(b, *link, b.settings().reply);
  if (heard.as<CmRtu>() == nullptr) co_return failed(heard.text() + " where the RTU is expected again");
  const std::string wrong = co_await still_serves(b, *link);
  co_return wrong.empty() ? pass("the RTU again") : failed("then a request was answered by " + wrong);
}

Task<Observation> rep_many(Tester& b) {
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return b.trouble();
  for (int i = 0; i < 3; ++i) b.send_rep(*link);
  const PeerPacket heard = co_await message(b, *link, b.settings().reply);
  if (heard.as<CmRtu>() == nullptr) co_return failed(heard.text());
  const std::string wrong = co_await still_serves(b, *link);
  co_return wrong.empty() ? pass("RTU, and the connection stays up") : failed("a request was answered by " + wrong);
}

Task<Observation> first_psn(Tester& b) {
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return b.trouble();
  b.send_rep(*link);
  for (unsigned i = 0; i < 8; ++i) {
    const PeerPacket heard = co_await b.receive(*link, b.settings().quiet);
    if (heard.silence) break;
    if (!heard.is_request()) continue;
    if (heard.bth.psn != link->reply.starting_psn) co_return failed("not the PSN requested in the REP");
    if ((heard.bth.p_key & 0x7FFF) != (link->asked.p_key & 0x7FFF)) co_return failed("not the REQ's P_Key");
    co_return pass("the PSN requested in the REP");
  }
  co_return unclear("its program sends nothing by itself (--ulp rping)");
}

constexpr Case table[] = {
    asks("1", "req-is-a-gsi-datagram", "IBA §13.5.1", must, "nothing",
         "the REQ is a MAD of 256 octets in a UD SEND Only from queue pair 1 with Q_Key 80010000", req_datagram),
    asks("2", "req-fields", "IBA §12.6.5", must, "nothing",
         "the REQ has IDs, a queue pair, a P_Key, a path MTU of 1 to 5, and the GIDs of its packet", req_fields),
    asks("3", "req-cma-header", "IBA §A11", must, "nothing",
         "the REQ has the header of RDMA IP CM with the addresses of its packet", req_header),
    asks("4", "req-comes-again", "IBA §12.9", must, "no answer",
         "the same REQ is retransmitted; the REP to it is accepted", req_again),
    asks("5", "req-retries-are-counted", "IBA §12.6.5", should, "no answer",
         "the REQ is retransmitted at most Max CM Retries times", req_retries),
    asks("6", "silent-before-the-rep", "IBA §12.9", must, "no answer for a while, then the REP",
         "only REQs before the REP", silent_before_rep),
    asks("7", "plain-set-up", "IBA §12.9", must, "REP", "one RTU with both communication IDs", plain),
    asks("8", "rtu-transaction-id", "IBA §12.6.4", should, "REP", "the RTU has the REQ's TransactionID",
         rtu_transaction),
    asks("9", "rep-private-data-196", "IBA §12.6.8", must, "REP whose private data is full", "RTU", rep_full),
    asks("10", "rep-depths-of-none", "IBA §12.6.8", must, "REP that grants no Reads in either direction", "RTU",
         rep_depths_none),
    asks("11", "rep-starting-psn-ffffff", "IBA §12.6.8", must, "REP with Starting PSN FFFFFF", "RTU", rep_psn_last),
    asks("12", "rep-rnr-retry-count-0", "IBA §12.6.8", must, "REP with RNR Retry Count 0", "RTU", rep_retries_none),
    asks("13", "rep-target-ack-delay-15", "IBA §12.6.8", must, "REP with Target ACK Delay 15", "RTU",
         rep_delay_longest),
    asks("14", "rep-reserved-bits-ignored", "IBA §12.6.8", must, "REP with reserved bits set", "RTU", rep_reserved),
    asks("15", "rep-again", "IBA §12.9", must, "the REP again, as if the RTU had been lost", "the RTU again",
         rep_again),
    asks("16", "rep-three-times", "IBA §12.9", must, "the REP three times at once", "RTU; the connection stays up",
         rep_many),
    asks("17", "first-psn", "IBA §9.7.3", must, "REP", "the peer's first request has the PSN requested in the REP",
         first_psn),
};

}  // namespace
}  // namespace asking_table

std::span<const Case> asking_cases() { return asking_table::table; }

}  // namespace parley::conform::ibcm
