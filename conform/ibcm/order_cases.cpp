// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Requests on the queue pair of a connection: PSNs and their answers, IBA §9.7. Most are zero-length Writes, which need
// neither a receive nor memory of the peer.
#include <fmt/format.h>

#include "conform/ibcm/judge.hpp"
#include "conform/ibcm/table.hpp"

namespace parley::conform::ibcm {
namespace order_table {
namespace {

Task<Observation> acknowledged(Tester& b) {
  return answered(b, nothing(0), [](const PeerPacket& h) { return h.is_ack(); });
}

Task<Observation> ack_form(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  const Request request = nothing(link.next_psn());
  b.send_request(link, request);
  const PeerPacket heard = co_await response(b, link, b.settings().reply);
  if (!heard.is_ack()) co_return unclear(heard.text());
  if (heard.bth.p_key != PARLEY_IB_P_KEY_DEFAULT) co_return failed(fmt::format("P_Key {:04x}", heard.bth.p_key));
  if (heard.bth.solicited || heard.bth.tver != 0 || heard.bth.pad_count != 0 || !heard.payload.empty())
    co_return failed("it has a pad, a payload or SE");
  if (heard.bth.ack_req) co_return failed("it asks for an acknowledgment itself");
  const bool credits = link.req.flow_control && link.rep->flow_control;  // IBA §9.7.7.2: only if both sides want them
  const unsigned granted = heard.aeth.syndrome & PARLEY_IB_CREDITS_NONE;
  if (!credits && granted != PARLEY_IB_CREDITS_NONE)
    co_return failed(fmt::format("it has credits (code {}) where none were agreed on", granted));
  co_return pass("as it should be");
}

Task<Observation> msn(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  for (std::uint32_t n = 1; n <= 3; ++n) {
    const Request request = nothing(link.next_psn());
    b.send_request(link, request);
    const PeerPacket heard = co_await response(b, link, b.settings().reply);
    if (!heard.is_ack()) co_return unclear(heard.text());
    if (heard.aeth.msn != n) co_return failed(fmt::format("MSN {} after {} requests", heard.aeth.msn, n));
  }
  co_return pass("1, 2, 3");
}

Task<Observation> coalesced(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  std::uint32_t last = 0;
  for (unsigned i = 0; i < 8; ++i) {
    Request request = nothing(link.next_psn());
    request.ack_req = i == 7;
    last = request.psn;
    b.send_request(link, request);
  }
  for (unsigned i = 0; i < 8; ++i) {
    const PeerPacket heard = co_await response(b, link, b.settings().reply);
    if (!heard.is_ack()) co_return failed(heard.text());
    if (heard.bth.psn == last && heard.aeth.msn == 8) co_return pass("an ACK of the last, with MSN 8");
    if (heard.bth.psn == last) co_return failed(fmt::format("MSN {} with the last ACK", heard.aeth.msn));
  }
  co_return failed("no ACK of the last");
}

Task<Observation> duplicate(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  const Request request = nothing(link.next_psn());
  for (unsigned i = 0; i < 2; ++i) {
    b.send_request(link, request);
    const PeerPacket heard = co_await response(b, link, b.settings().reply);
    if (!heard.is_ack()) co_return i == 0 ? unclear(heard.text()) : failed(heard.text());
    if (heard.bth.psn != request.psn) co_return failed("an ACK of another PSN");
    if (heard.aeth.msn != 1) co_return failed(fmt::format("MSN {} after one request", heard.aeth.msn));
  }
  const std::string wrong = co_await still_serves(b, link);
  co_return wrong.empty() ? pass("ACK again, with the MSN as before")
                          : failed("then a request was answered by " + wrong);
}

Task<Observation> old_duplicate(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  const std::uint32_t first = link.psn;
  for (unsigned i = 0; i < 3; ++i) {
    const std::string wrong = co_await still_serves(b, link);
    if (!wrong.empty()) co_return unclear(wrong);
  }
  const Request request = nothing(first);
  b.send_request(link, request);
  const PeerPacket heard = co_await response(b, link, b.settings().reply);
  if (!heard.is_ack()) co_return failed(heard.text());
  // IBA §9.7.5.1.3: the ACK has the most recent PSN, which includes those before it.
  co_return heard.bth.psn == psn_after(first, 2) || heard.bth.psn == first ? pass("ACK")
                                                                           : failed("an ACK of another PSN");
}

Task<Observation> gap(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  const Request request = nothing(psn_after(link.psn, 1));
  b.send_request(link, request);
  const PeerPacket heard = co_await response(b, link, b.settings().reply);
  if (!heard.is_nak(Nak::psn_sequence_error)) co_return failed(heard.text());
  co_return heard.bth.psn == link.psn ? pass(heard.text()) : failed(heard.text() + " that names another PSN");
}

Task<Observation> gap_once(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  const Request first = nothing(psn_after(link.psn, 1)), second = nothing(psn_after(link.psn, 2));
  b.send_request(link, first);
  const PeerPacket nak = co_await response(b, link, b.settings().reply);
  if (!nak.is_nak(Nak::psn_sequence_error)) co_return unclear(nak.text());
  b.send_request(link, second);
  const PeerPacket heard = co_await response(b, link, b.settings().quiet);
  co_return heard.silence ? pass("silence") : failed(heard.text());
}

Task<Observation> gap_filled(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  const Request ahead = nothing(psn_after(link.psn, 1));
  b.send_request(link, ahead);
  const PeerPacket nak = co_await response(b, link, b.settings().reply);
  if (!nak.is_nak(Nak::psn_sequence_error)) co_return unclear(nak.text());
  for (unsigned i = 0; i < 2; ++i) {
    const std::string wrong = co_await still_serves(b, link);
    if (!wrong.empty()) co_return failed(wrong);
  }
  const Request again = nothing(psn_after(link.psn, 1));
  b.send_request(link, again);
  const PeerPacket heard = co_await response(b, link, b.settings().reply);
  if (!heard.is_nak(Nak::psn_sequence_error)) co_return failed("after a second gap: " + heard.text());
  co_return pass("ACKs, and another NAK for another gap");
}

/// A PSN more than half of the PSN space ahead counts as a duplicate.
Task<Observation> half_round(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  const std::string first = co_await still_serves(b, link);
  if (!first.empty()) co_return unclear(first);
  const Request request = nothing(psn_after(link.psn, (1 << 23) + 1));
  b.send_request(link, request);
  const PeerPacket heard = co_await response(b, link, b.settings().quiet);
  if (!heard.silence && !heard.is_ack()) co_return failed(heard.text());
  const std::string wrong = co_await still_serves(b, link);
  co_return wrong.empty() ? pass("taken for a duplicate") : failed("then a request was answered by " + wrong);
}

Task<Observation> send(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  Request request = nothing(link.next_psn());
  request.operation = Operation::send_only;
  request.payload = Bytes(16);
  b.send_request(link, request);
  const PeerPacket heard = co_await response(b, link, b.settings().reply);
  if (!heard.is_ack() && !heard.is_rnr()) co_return failed(heard.text());
  if (heard.bth.psn != request.psn) co_return failed(heard.text() + " of another PSN");
  co_return pass(heard.is_ack() ? "ACK" : "RNR NAK");
}

/// Sends until the peer has no receive. The request that finds none is not executed, and later ones wait.
Task<Observation> without_receive(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  for (unsigned i = 0; i < 32; ++i) {
    Request request = nothing(link.psn);
    request.operation = Operation::send_only;
    request.payload = Bytes(16);
    b.send_request(link, request);
    const PeerPacket heard = co_await response(b, link, b.settings().reply);
    if (heard.is_ack()) {
      (void)link.next_psn();
      continue;
    }
    if (!heard.is_rnr()) co_return unclear(heard.text());
    co_return heard.bth.psn == request.psn ? pass("an RNR NAK for the Send without a receive")
                                           : failed("an RNR NAK of another PSN");
  }
  co_return unclear("the peer has a receive for each of 32 Sends");
}

Task<Observation> read_nothing(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  if (link.rep->responder_resources == 0) co_return unclear("the REP allows no Reads");
  Request request = nothing(link.next_psn());
  request.operation = Operation::read_request;
  b.send_request(link, request);
  const PeerPacket heard = co_await response(b, link, b.settings().reply);
  if (!heard.is(Operation::read_response_only)) co_return failed(heard.text());
  if (heard.bth.psn != request.psn) co_return failed("a response with another PSN");
  co_return heard.payload.empty() ? pass("a zero-length response") : failed("a response with octets");
}

Task<Observation> read_again(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  if (link.rep->responder_resources == 0) co_return unclear("the REP allows no Reads");
  Request request = nothing(link.next_psn());
  request.operation = Operation::read_request;
  for (unsigned i = 0; i < 2; ++i) {
    b.send_request(link, request);
    const PeerPacket heard = co_await response(b, link, b.settings().reply);
    if (heard.is(Operation::read_response_only) && heard.bth.psn == request.psn) continue;
    co_return i == 0 ? unclear(heard.text()) : failed(heard.text());
  }
  co_return pass("the same response");
}

/// An answer to a request that the peer did not make.
Task<Observation> ghost(Tester& b, std::uint8_t syndrome) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  b.send_ack(link, psn_after(link.req.starting_psn, 100), syndrome);
  const PeerPacket heard = co_await response(b, link, b.settings().quiet);
  if (!heard.silence) co_return failed(heard.text());
  const std::string wrong = co_await still_serves(b, link);
  co_return wrong.empty() ? pass("silence") : failed("then a request was answered by " + wrong);
}
Task<Observation> ghost_ack(Tester& b) { return ghost(b, PARLEY_IB_CREDITS_NONE); }
Task<Observation> ghost_nak(Tester& b) { return ghost(b, PARLEY_IB_SYNDROME_NAK); }

/// The tester acts as rping's client; rping's server then reads the memory that a Send advertises.
Task<Observation> first_psn(Tester& b) {
  if (b.settings().ulp != Ulp::rping) co_return unclear("the peer's program is not known to send (--ulp rping)");
  Link& link = b.link();
  link.req.starting_psn = 0xFFFFFF;
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  Request request = nothing(link.next_psn());
  request.operation = Operation::send_only;
  request.payload = rping_advertisement();
  b.send_request(link, request);
  for (unsigned i = 0; i < 4; ++i) {
    const PeerPacket heard = co_await b.answer(link);
    if (heard.is_ack()) continue;
    if (!heard.is(Operation::read_request)) co_return unclear(heard.text());
    if (heard.bth.psn != 0xFFFFFF) co_return failed("its first request has another PSN");
    const Region region = rping_region(request.payload);
    const bool as_asked =
        heard.reth.va == region.to && heard.reth.r_key == region.stag && heard.reth.dma_length == region.length;
    co_return as_asked ? pass("a Read with that PSN, of the advertised memory") : failed("a Read of other memory");
  }
  co_return unclear("no request of the peer");
}

constexpr Case table[] = {
    row("83", "write-acknowledged", "IBA §9.7.5.1.2", must, "a zero-length Write with AckReq", "ACK with its PSN",
        acknowledged),
    row("84", "ack-form", "IBA §9.7.5.1", must, "a zero-length Write with AckReq",
        "ACK with P_Key FFFF, without SE, AckReq, pad and payload, and without credits", ack_form),
    row("85", "msn-counts", "IBA §9.7.7.1", must, "three zero-length Writes", "MSN 1, 2 and 3", msn),
    row("86", "ack-of-several", "IBA §9.7.5.1.2", must, "eight Writes, AckReq on the last",
        "ACK of the last with MSN 8", coalesced),
    row("87", "duplicate-write", "IBA §9.7.5.1.4", must, "the same Write again", "ACK again; MSN as before", duplicate),
    row("88", "old-duplicate-write", "IBA §9.7.5.1.4", must, "the first of three Writes again", "ACK", old_duplicate),
    row("89", "psn-gap", "IBA §9.7.5.2.1", must, "a Write with the PSN after the expected one",
        "NAK PSN sequence error with the expected PSN", gap),
    row("90", "psn-gap-told-once", "IBA §9.7.5.2.1", must, "another Write beyond the gap", "silence", gap_once),
    row("91", "psn-gap-filled", "IBA §9.7.5.2.1", must, "the Writes that were missing, then another gap",
        "ACKs, then a NAK again", gap_filled),
    row("92", "psn-half-round", "IBA §9.7.1", must, "a Write with a PSN 2^23 - 1 behind",
        "no NAK; a duplicate is not a gap", half_round),
    row("93", "send-answered", "IBA §9.7.5.2.8", must, "a Send of 16 octets", "ACK, or RNR NAK, with its PSN", send),
    row("94", "send-without-receive", "IBA §9.7.5.2.8", must, "Sends until no receive is left",
        "RNR NAK with the PSN of the one that found none", without_receive),
    row("95", "read-of-nothing", "IBA §9.7.4.1", must, "a zero-length Read with R_Key 0", "a zero-length response",
        read_nothing),
    row("96", "duplicate-read", "IBA §9.7.5.1.4", must, "the same Read again", "the same response again", read_again),
    row("97", "ack-for-nothing", "IBA §9.7.6", must, "an ACK without a request from the peer",
        "silence; the connection stays up", ghost_ack),
    row("98", "nak-for-nothing", "IBA §9.7.6", must, "a NAK without a request from the peer",
        "silence; the connection stays up", ghost_nak),
    row("99", "first-psn-of-the-peer", "IBA §12.6.5", must, "Starting PSN FFFFFF in the REQ, and rping's first Send",
        "a Read with PSN FFFFFF of the advertised memory", first_psn),
};

}  // namespace
}  // namespace order_table

std::span<const Case> request_order_cases() { return order_table::table; }

}  // namespace parley::conform::ibcm
