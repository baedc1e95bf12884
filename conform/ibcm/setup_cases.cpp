// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Correct, lost and duplicate REQ, REP and RTU: IBA §12.6, §12.9.
#include <algorithm>

#include <fmt/format.h>

#include "conform/ibcm/judge.hpp"
#include "conform/ibcm/table.hpp"

namespace parley::conform::ibcm {
namespace setup_table {
namespace {

using wire::ib::CmMra;
using wire::ib::CmRej;
using wire::ib::CmRep;
using wire::ib::CmReq;

Task<Observation> plain(Tester& b) {
  Link& link = b.link();
  const bool asked = co_await b.ask(link);
  if (!asked) co_return b.trouble();
  const CmRep& rep = *link.rep;
  if (rep.local_comm_id == 0) co_return failed("REP with communication ID 0");
  if (rep.local_qpn < 2) co_return failed(fmt::format("REP that names queue pair {}", rep.local_qpn));
  b.send_rtu(link);
  const PeerPacket heard = co_await b.rest(link);
  co_return heard.silence ? pass("REP; silence after the RTU") : failed("after the RTU: " + heard.text());
}

/// Checks the packet of the REP.
Task<Observation> rep_packet(Tester& b, std::string (*wrong)(const Link& link, const PeerPacket& rep)) {
  Link& link = b.link();
  b.send_req(link);
  const PeerPacket heard = co_await b.decision(link);
  if (heard.as<CmRep>() == nullptr) co_return unclear(heard.text());
  b.send_rtu(link);
  const std::string fault = wrong(link, heard);
  co_return fault.empty() ? pass("as it should be") : failed(fault);
}

Task<Observation> rep_datagram(Tester& b) {
  return rep_packet(b, [](const Link&, const PeerPacket& rep) { return wrong_datagram(rep); });
}

Task<Observation> rep_mad_header(Tester& b) {
  return rep_packet(b, [](const Link&, const PeerPacket& rep) { return wrong_mad_header(rep); });
}

Task<Observation> rep_transaction(Tester& b) {
  return rep_packet(b, [](const Link& link, const PeerPacket& rep) -> std::string {
    return rep.message->transaction_id == link.transaction_id ? "" : "it has another TransactionID than the REQ";
  });
}

// ---- again and again
// ---------------------------------------------------------------------------------------------------

/// What is wrong with the answer to a duplicate REQ; empty: nothing.
std::string wrong_again(const Link& link, const PeerPacket& heard) {
  if (heard.silence || heard.as<CmMra>() != nullptr) return {};
  const auto* rep = heard.as<CmRep>();
  if (rep == nullptr) return heard.text();
  return *rep == *link.rep ? "" : "another REP than the first";
}

Task<Observation> duplicate_req(Tester& b) {
  Link& link = b.link();
  const bool asked = co_await b.ask(link);
  if (!asked) co_return b.trouble();
  b.send_req(link);
  const PeerPacket heard = co_await b.rest(link);
  const std::string fault = wrong_again(link, heard);
  if (!fault.empty()) co_return failed(fault);
  b.send_rtu(link);
  const std::string wrong = co_await still_serves(b, link);
  if (!wrong.empty()) co_return failed("then a request was answered by " + wrong);
  co_return pass(heard.silence ? "silence" : heard.text());
}

Task<Observation> duplicate_req_established(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  const std::string before = co_await still_serves(b, link);
  if (!before.empty()) co_return unclear("a request was answered by " + before);
  b.send_req(link);
  const PeerPacket heard = co_await b.rest(link);
  const std::string fault = wrong_again(link, heard);
  if (!fault.empty()) co_return failed(fault);
  const std::string wrong = co_await still_serves(b, link);
  if (!wrong.empty()) co_return failed("then a request was answered by " + wrong);
  co_return pass(heard.silence ? "silence" : heard.text());
}

/// The number of REPs within `time`, and a fault in one of them; empty: none.
struct RepCount {
  unsigned count = 0;
  std::string fault;
};
Task<RepCount> repeats(Tester& b, Link& link, Duration time) {
  RepCount out;
  const Instant limit = b.peer().now() + time;
  while (out.fault.empty() && out.count < 100) {
    const Duration left = std::max(limit - b.peer().now(), Duration{});
    const PeerPacket heard = co_await b.receive(link, left);
    if (heard.silence) break;
    const auto* rep = heard.as<CmRep>();
    ++out.count;
    if (rep == nullptr) out.fault = heard.text();
    if (rep != nullptr && !(*rep == *link.rep)) out.fault = "a REP that differs from the first";
  }
  co_return out;
}

Task<Observation> rep_again(Tester& b) {
  Link& link = b.link();
  const bool asked = co_await b.ask(link);
  if (!asked) co_return b.trouble();
  const PeerPacket again = co_await b.answer(link);
  const auto* rep = again.as<CmRep>();
  if (rep == nullptr) co_return failed(again.text() + " where the REP is expected again");
  if (!(*rep == *link.rep)) co_return failed("a REP that differs from the first");
  b.send_rtu(link);
  co_return pass("the same REP");
}

Task<Observation> rep_retries(Tester& b) {
  Link& link = b.link();
  link.req.max_cm_retries = 2;
  link.req.local_cm_response_timeout = 14;  // 67 ms
  const bool asked = co_await b.ask(link);
  if (!asked) co_return b.trouble();
  const RepCount found = co_await repeats(b, link, 10 * b.settings().quiet);
  if (found.fault == "DREQ") co_return pass("it ends by itself");
  if (found.count > 2 && found.fault.empty()) co_return failed("the REP is retransmitted more than twice");
  if (found.count == 0) co_return failed("the REP is not retransmitted");
  co_return found.fault.empty() || found.count > 1 ? pass("no more often than requested") : failed(found.fault);
}

Task<Observation> rtu_stops_rep(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  const RepCount found = co_await repeats(b, link, std::max(b.settings().quiet, Duration(600ms)));
  co_return found.count == 0 ? pass("silence") : failed(found.fault.empty() ? "the REP comes again" : found.fault);
}

Task<Observation> late_rtu(Tester& b) {
  Link& link = b.link();
  const bool asked = co_await b.ask(link);
  if (!asked) co_return b.trouble();
  const PeerPacket again = co_await b.answer(link);
  if (again.as<CmRep>() == nullptr) co_return unclear(again.text() + " where the REP is expected again");
  b.send_rtu(link);
  const std::string wrong = co_await still_serves(b, link);
  co_return wrong.empty() ? pass("the connection stays up") : failed("a request was answered by " + wrong);
}

Task<Observation> duplicate_rtu(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  b.send_rtu(link);
  b.send_rtu(link);
  const PeerPacket heard = co_await b.rest(link);
  if (!heard.silence) co_return failed(heard.text());
  const std::string wrong = co_await still_serves(b, link);
  co_return wrong.empty() ? pass("silence") : failed("then a request was answered by " + wrong);
}

Task<Observation> data_before_rtu(Tester& b) {
  Link& link = b.link();
  const bool asked = co_await b.ask(link);
  if (!asked) co_return b.trouble();
  const std::string wrong = co_await still_serves(b, link);
  b.send_rtu(link);
  co_return wrong.empty() ? pass("acknowledged") : failed(wrong);
}

Task<Observation> rtu_before_rep(Tester& b) {
  Link& link = b.link();
  b.send_rtu(link);
  b.send_req(link);
  b.send_rtu(link);
  const PeerPacket heard = co_await b.decision(link);
  if (heard.as<CmRep>() == nullptr) co_return failed(heard.text());
  b.send_rtu(link);
  const std::string wrong = co_await still_serves(b, link);
  co_return wrong.empty() ? pass("REP, and the connection stays up") : failed("a request was answered by " + wrong);
}

Task<Observation> mra_to_rep(Tester& b) {
  Link& link = b.link();
  link.req.local_cm_response_timeout = 14;
  const bool asked = co_await b.ask(link);
  if (!asked) co_return b.trouble();
  const CmMra mra{
      .local_comm_id = link.id(), .remote_comm_id = link.peer_id(), .about = CmSubject::rep, .service_timeout = 20};
  b.send(link, mra);
  co_await b.peer().sleep(50ms);
  link.heard.clear();  // packets that crossed it
  const RepCount found = co_await repeats(b, link, std::max(b.settings().quiet, Duration(500ms)));
  if (found.count > 0) co_return failed(found.fault.empty() ? "the REP comes again" : found.fault);
  b.send_rtu(link);
  const std::string wrong = co_await still_serves(b, link);
  co_return wrong.empty() ? pass("silence, and the connection stays up") : failed("a request was answered by " + wrong);
}

Task<Observation> rej_to_rep(Tester& b) {
  Link& link = b.link();
  link.req.local_cm_response_timeout = 14;
  const bool asked = co_await b.ask(link);
  if (!asked) co_return b.trouble();
  const CmRej rej{.local_comm_id = link.id(),
                  .remote_comm_id = link.peer_id(),
                  .about = CmSubject::rep,
                  .reason = CmReject::consumer};
  b.send(link, rej);
  co_await b.peer().sleep(50ms);
  link.heard.clear();
  const RepCount found = co_await repeats(b, link, std::max(b.settings().quiet, Duration(500ms)));
  link.ended = true;
  if (found.count > 0) co_return failed(found.fault.empty() ? "the REP comes again" : found.fault);
  co_return pass("silence");
}

// ---- fields that are right, if unusual
// ---------------------------------------------------------------------------------

Task<Observation> depths(Tester& b, std::uint8_t ird, std::uint8_t ord) {
  Link& link = b.link();
  link.req.responder_resources = ird;
  link.req.initiator_depth = ord;
  const bool asked = co_await b.ask(link);
  if (!asked) co_return b.trouble();
  b.send_rtu(link);
  const CmRep& rep = *link.rep;
  const std::string got = fmt::format("REP with responder resources {} and initiator depth {}", rep.responder_resources,
                                      rep.initiator_depth);
  if (rep.initiator_depth > ird) co_return failed(got + ": more Reads than the REQ allows");
  co_return pass(got);
}
Task<Observation> depths_some(Tester& b) { return depths(b, 4, 4); }
Task<Observation> depths_none(Tester& b) { return depths(b, 0, 0); }
Task<Observation> depths_most(Tester& b) {
  return accepts(b, [](CmReq& req) { req.responder_resources = req.initiator_depth = 255; });
}

Task<Observation> reserved_bits(Tester& b) {
  Link& link = b.link();
  Bytes mad = b.mad(link, link.req);
  // IBA §12.6.5: octets 24 to 27, the bits between flow label and rate, and those after the subnet local bit.
  constexpr std::pair<std::size_t, std::uint8_t> reserved[] = {{24, 0xFF}, {25, 0xFF}, {26, 0xFF}, {27, 0xFF},
                                                               {90, 0x0F}, {91, 0xC0}, {94, 0x07}, {95, 0x07}};
  for (const auto& [at, bits] : reserved) {
    MutBytes octet = MutBytes(mad).subspan(PARLEY_IB_MAD_HEADER_LEN + at, 1);
    octet.front() = static_cast<std::uint8_t>(octet.front() | bits);
  }
  const std::function<void()> asks = [&] { b.send_mad(link, "REQ with reserved bits set", mad); };
  asks();
  const PeerPacket heard = co_await b.decision(link, asks);
  if (heard.as<CmRep>() == nullptr) co_return failed(heard.text());
  b.send_rtu(link);
  co_return pass("REP");
}

Task<Observation> retries_least(Tester& b) {
  return accepts(b, [](CmReq& req) { req.retry_count = req.rnr_retry_count = req.max_cm_retries = 0; });
}
Task<Observation> retries_most(Tester& b) {
  return accepts(b, [](CmReq& req) { req.retry_count = req.rnr_retry_count = 7, req.max_cm_retries = 15; });
}
Task<Observation> private_data_whole(Tester& b) {
  return accepts(b, [](CmReq& req) {
    std::fill(req.private_data.begin() + PARLEY_CMA_HEADER_LEN, req.private_data.end(), std::uint8_t{0xFF});
  });
}
Task<Observation> mtu_256(Tester& b) {
  return accepts(b, [](CmReq& req) { req.path_mtu = 1; });
}
Task<Observation> psn_last(Tester& b) {
  return accepts(b, [](CmReq& req) { req.starting_psn = 0xFFFFFF; });
}

constexpr Case table[] = {
    row("1", "plain-set-up", "IBA §12.9", must, "REQ, and an RTU to the REP", "REP; silence after the RTU", plain),
    row("2", "rep-is-a-gsi-datagram", "IBA §13.5.1", must, "REQ",
        "the REP is a UD SEND Only from queue pair 1 with Q_Key 80010000", rep_datagram),
    row("3", "rep-mad-header", "IBA §13.4.2", must, "REQ", "the REP has 256 octets, Status 0 and ClassSpecific 0",
        rep_mad_header),
    row("4", "rep-transaction-id", "IBA §12.6.4", should, "REQ", "the REP has its TransactionID", rep_transaction),
    row("5", "duplicate-req", "IBA §12.9", must, "the same REQ again before the RTU",
        "the same REP, an MRA, or silence", duplicate_req),
    row("6", "duplicate-req-established", "IBA §12.9", must, "the same REQ again on an established connection",
        "the same REP, an MRA, or silence; the connection stays up", duplicate_req_established),
    row("7", "rep-comes-again", "IBA §12.9", must, "no RTU", "the same REP again", rep_again),
    row("8", "rep-retries-are-counted", "IBA §12.6.5", should, "no RTU, Max CM Retries 2",
        "the REP is retransmitted at most twice", rep_retries),
    row("9", "rtu-ends-the-reps", "IBA §12.9", must, "RTU", "no further REP", rtu_stops_rep),
    row("10", "rtu-after-two-reps", "IBA §12.9", must, "RTU to the second REP", "the connection stays up", late_rtu),
    row("11", "duplicate-rtu", "IBA §12.9", must, "the RTU three times", "silence; the connection stays up",
        duplicate_rtu),
    row("12", "data-before-rtu", "IBA §12.9", must, "a request on the queue pair, then the RTU",
        "the request is acknowledged", data_before_rtu),
    row("13", "rtu-before-rep", "IBA §12.9", must, "RTU, REQ and RTU at once", "REP; an RTU sent after it counts",
        rtu_before_rep),
    row("14", "mra-holds-the-rep", "IBA §12.6.6", must, "MRA of 4.3 s to the REP, then the RTU",
        "no REP meanwhile; the connection stays up", mra_to_rep),
    row("15", "rej-to-the-rep", "IBA §12.6.7", must, "REJ of the REP", "silence", rej_to_rep),
    row("16", "depths-within-the-request", "IBA §12.6.8", must, "REQ with 4 Reads in each direction",
        "Initiator Depth of the REP at most 4", depths_some),
    row("17", "depths-of-none", "IBA §12.6.8", must, "REQ with no Reads in each direction",
        "Initiator Depth of the REP 0", depths_none),
    row("18", "depths-beyond-the-limit", "IBA §12.6.8", must, "REQ with 255 Reads in each direction", "REP",
        depths_most),
    row("19", "reserved-bits-ignored", "IBA §12.6.5", must, "REQ with all reserved bits set", "REP", reserved_bits),
    row("20", "retry-counts-of-0", "IBA §12.6.5", must, "REQ with all retry counts 0", "REP", retries_least),
    row("21", "retry-counts-of-7", "IBA §12.6.5", must, "REQ with the greatest retry counts", "REP", retries_most),
    row("22", "private-data-of-92", "IBA §12.6.5", must, "REQ whose private data is full", "REP", private_data_whole),
    row("23", "path-mtu-256", "IBA §12.6.5", must, "REQ with path MTU 1", "REP", mtu_256),
    row("24", "starting-psn-ffffff", "IBA §12.6.5", must, "REQ with Starting PSN FFFFFF", "REP", psn_last),
};

}  // namespace
}  // namespace setup_table

std::span<const Case> setup_cases() { return setup_table::table; }

}  // namespace parley::conform::ibcm
