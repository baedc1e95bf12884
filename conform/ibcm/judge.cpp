// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "conform/ibcm/judge.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "wire/ib/mad.hpp"

namespace parley::conform::ibcm {

Task<Observation> accepts(Tester& tester, Spoil spoil) {
  Link& link = tester.link();
  spoil(link.req);
  const bool asked = co_await tester.ask(link);
  if (asked) {
    tester.send_rtu(link);
    co_return pass("REP");
  }
  // Does the peer reject only this REQ, or any REQ?
  const std::string got = tester.trouble().observed;
  Link& plain = tester.link();
  const bool others = co_await tester.set_up(plain);
  co_return others ? failed(got + ", where a plain REQ is accepted") : unclear(got);
}

Task<Observation> refuses(Tester& tester, Spoil spoil, CmReject reason, bool any) {
  Link& link = tester.link();
  spoil(link.req);
  tester.send_req(link);
  const PeerPacket heard = co_await tester.decision(link);
  const auto* rej = heard.as<wire::ib::CmRej>();
  if (rej == nullptr) co_return failed(heard.text());
  if (rej->about != CmSubject::req) co_return failed(heard.text() + ": the REQ is what it rejects");
  // IBA §12.6.7.2: the largest MTU that it takes, in the bits where the REQ has its own.
  const unsigned mtu = rej->info_length >= 1 ? rej->info[0] >> 4 : 0;
  if (rej->reason == CmReject::invalid_path_mtu && (mtu < PARLEY_IB_MTU_CODE_MIN || mtu > PARLEY_IB_MTU_CODE_MAX))
    co_return failed(heard.text() + " that names no MTU");
  co_return rej->reason == reason || any ? pass(heard.text()) : failed(heard.text());
}

Task<Observation> drops(Tester& tester, Link& link, std::string words, Bytes mad, Faults faults) {
  tester.send_mad(link, std::move(words), mad, faults);
  const PeerPacket heard = co_await tester.rest(link);
  if (!heard.silence) co_return failed(heard.text());
  const bool asked = co_await tester.set_up(link);
  if (!asked) co_return tester.trouble();
  co_return pass("silence, and a valid REQ is answered");
}

namespace {
/// IBA §12.6.6: the initiator asks for time before its RTU. It answers each duplicate REP in the same way.
bool holds_the_rep(const Link& link, const PeerPacket& heard) {
  const auto* mra = heard.as<wire::ib::CmMra>();
  return link.passive && mra != nullptr && mra->about == CmSubject::rep;
}
/// A set-up message of the initiator. Each may be repeated, and may arrive after messages that were sent later.
bool is_of_the_set_up(const Link& link, const PeerPacket& heard) {
  const bool first = heard.as<wire::ib::CmReq>() != nullptr || heard.as<wire::ib::CmRtu>() != nullptr;
  return link.passive && (first || holds_the_rep(link, heard));
}
}  // namespace

Task<PeerPacket> response(Tester& tester, Link& link, Duration patience) {
  const Instant limit = tester.peer().now() + patience;
  PeerPacket end;  // the DREQ; it may overtake the NAK that caused it
  for (unsigned i = 0;; ++i) {
    const Duration left = std::max(limit - tester.peer().now(), Duration{});
    PeerPacket heard = co_await tester.receive(link, left);
    const bool request = heard.is_request() && heard.bth.dest_qpn == link.qpn();
    const bool dreq = heard.as<wire::ib::CmDreq>() != nullptr;
    if (heard.silence && !end.silence) co_return end;
    if (i >= Tester::exchanges_max ||
        !(request || dreq || heard.as<wire::ib::CmRep>() != nullptr || is_of_the_set_up(link, heard)))
      co_return heard;
    if (!dreq) continue;
    const wire::ib::CmDrep drep{.local_comm_id = link.id(), .remote_comm_id = link.peer_id()};
    tester.send(link, drep);
    link.ended = true;
    if (end.silence) end = std::move(heard);
  }
}

Task<std::string> still_serves(Tester& tester, Link& link) {
  const std::uint32_t psn = link.next_psn();
  const Request request = nothing(psn);
  tester.send_request(link, request);
  const PeerPacket heard = co_await response(tester, link, tester.settings().reply);
  if (heard.is_ack() && heard.bth.psn == psn) co_return std::string();
  if (heard.is_ack()) co_return std::string("an ACK of another PSN");
  co_return heard.text();
}

namespace {
/// The next packet that `wanted` accepts; others are skipped.
Task<PeerPacket> next_of(Tester& tester, Link& link, Duration patience, std::function<bool(const PeerPacket&)> wanted) {
  const Instant limit = tester.peer().now() + patience;
  for (unsigned i = 0;; ++i) {
    const Duration left = std::max(limit - tester.peer().now(), Duration{});
    PeerPacket heard = co_await tester.receive(link, left);
    if (heard.silence || wanted(heard) || i >= Tester::exchanges_max) co_return heard;
  }
}
}  // namespace

Task<PeerPacket> message(Tester& tester, Link& link, Duration patience, bool reqs) {
  return next_of(tester, link, patience, [reqs, &link](const PeerPacket& heard) {
    return heard.message && !holds_the_rep(link, heard) && (reqs || heard.as<wire::ib::CmReq>() == nullptr);
  });
}

Task<PeerPacket> response_of_peer(Tester& tester, Link& link, Duration patience) {
  return next_of(tester, link, patience, [&link](const PeerPacket& heard) {
    return heard.is_request() || (heard.message && !is_of_the_set_up(link, heard));
  });
}

Task<bool> accept(Tester& tester, Link& link) {
  const Duration reply = tester.settings().reply;
  const Instant limit = tester.peer().now() + tester.settings().patience;
  Instant due = tester.peer().now() + reply;
  bool held = false;  // IBA §12.9: the peer has asked for time; retransmit the REP after it
  tester.send_rep(link);
  for (std::size_t i = 0; i < Tester::exchanges_max; ++i) {
    const PeerPacket heard = co_await tester.receive(link, std::max(due - tester.peer().now(), Duration{}));
    const Instant now = tester.peer().now();
    if (heard.as<wire::ib::CmRtu>() != nullptr || heard.is_request()) {
      tester.note_accepted();
      co_return true;
    }
    if (holds_the_rep(link, heard)) {
      const auto& mra = *heard.as<wire::ib::CmMra>();
      due = std::min(limit, now + time_asked_for(mra, link.asked.primary.local_ack_timeout));
      held = true;
      continue;
    }
    if (heard.silence && held && now < limit) {
      tester.send_rep(link);
      due = now + reply;
      held = false;
      continue;
    }
    // A retransmitted REQ has crossed the REP.
    if (heard.as<wire::ib::CmReq>() != nullptr) {
      if (!held) due = now + reply;
      continue;
    }
    tester.set_trouble("the REP is answered by " + heard.text());
    break;
  }
  co_return false;
}

Task<Link*> accepted(Tester& tester) {
  Link* link = co_await tester.await_request();
  if (link == nullptr) co_return nullptr;
  const bool up = co_await accept(tester, *link);
  co_return up ? link : nullptr;
}

Task<Link*> established_link(Tester& tester) {
  if (tester.settings().iut == Iut::initiator) {
    Link* link = co_await accepted(tester);
    const Settings& settings = tester.settings();
    if (link != nullptr)
      co_await tester.until_it_speaks(*link, settings.ulp == Ulp::rping ? settings.reply : settings.quiet);
    co_return link;
  }
  Link& link = tester.link();
  const bool up = co_await tester.set_up(link);
  co_return up ? &link : nullptr;
}

Task<Link*> ended(Tester& tester) {
  Link* link = co_await established_link(tester);
  if (link == nullptr) co_return nullptr;
  tester.send_dreq(*link);
  const PeerPacket heard = co_await response(tester, *link, tester.settings().reply);
  if (heard.as<wire::ib::CmDrep>() != nullptr) co_return link;
  tester.set_trouble("the connection was not ended");
  co_return nullptr;
}

std::string wrong_datagram(const PeerPacket& heard) {
  if (heard.bth.opcode != wire::ib::opcode_of(wire::ib::Service::ud, Operation::send_only))
    return "it is not a UD SEND Only";
  if (heard.deth.q_key != PARLEY_IB_GSI_Q_KEY) return fmt::format("its Q_Key is {:08x}", heard.deth.q_key);
  if (heard.deth.source_qpn != PARLEY_IB_GSI_QPN) return "it does not come from queue pair 1";
  if (heard.bth.tver != 0 || heard.bth.pad_count != 0) return "its BTH has a version or a pad";
  return {};
}

std::string wrong_mad_header(const PeerPacket& heard) {
  const auto header = wire::ib::MadHeader::parse(heard.payload);
  if (!header || heard.payload.size() != PARLEY_IB_MAD_LEN) return "it has not 256 octets";
  if (header->status != 0 || header->class_specific != 0) return fmt::format("its status is {:04x}", header->status);
  if (header->attribute_modifier != 0)
    return fmt::format("its attribute modifier is {:08x} (IBA §12.6.1)", header->attribute_modifier);
  if (header->reserved != 0) return fmt::format("its reserved field is {:04x}", header->reserved);
  return wrong_reserved_bits(heard);
}

std::string wrong_reserved_bits(const PeerPacket& heard) {
  if (!heard.message || heard.payload.size() != PARLEY_IB_MAD_LEN) return {};
  std::array<std::uint8_t, PARLEY_IB_MAD_LEN> without{};
  heard.message->emit(without);
  for (std::size_t at = PARLEY_IB_MAD_HEADER_LEN; at < without.size(); ++at)
    if (const unsigned bits = heard.payload[at] & ~unsigned{without[at]}; bits != 0)
      return fmt::format("reserved bits {:02x} of octet {} of its {} are set (IBA §12.6)", bits & 0xFF,
                         at - PARLEY_IB_MAD_HEADER_LEN, to_string(heard.message->type()));
  return {};
}

Task<Observation> answered(Tester& tester, Request request, std::function<bool(const PeerPacket&)> right,
                           Faults faults) {
  Link& link = tester.link();
  const bool up = co_await tester.set_up(link);
  if (!up) co_return tester.trouble();
  request.psn = link.psn;
  tester.send_request(link, request, faults);
  const PeerPacket heard = co_await response(tester, link, tester.settings().reply);
  if (heard.is_rnr() && !right(heard)) co_return unclear("RNR NAK: the peer has no receive posted");
  if (!right(heard)) co_return failed(heard.text());
  if (heard.bth.psn != request.psn) co_return failed(heard.text() + " with another PSN than the request's");
  co_return pass(heard.text());
}

Task<Observation> request_dropped(Tester& tester, Request request, Faults faults) {
  Link& link = tester.link();
  const bool up = co_await tester.set_up(link);
  if (!up) co_return tester.trouble();
  request.psn = link.psn;
  tester.send_request(link, request, faults);
  const PeerPacket heard = co_await response(tester, link, tester.settings().quiet);
  if (!heard.silence) co_return failed(heard.text());
  const std::string wrong = co_await still_serves(tester, link);
  if (!wrong.empty()) co_return failed("silence, and then a valid request was answered by " + wrong);
  co_return pass("silence, and a valid request is acknowledged");
}

}  // namespace parley::conform::ibcm
