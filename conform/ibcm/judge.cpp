// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "conform/ibcm/judge.hpp"

#include <fmt/format.h>

namespace parley::conform::ibcm {

Task<Observation> accepts(Tester& tester, Spoil spoil) {
  Link& link = tester.link();
  spoil(link.req);
  const bool asked = co_await tester.ask(link);
  if (asked) {
    tester.send_rtu(link);
    co_return pass("REP");
  }
  // Whether it is this REQ that it does not like, or any.
  const std::string got = tester.trouble().observed;
  Link& plain = tester.link();
  const bool others = co_await tester.set_up(plain);
  co_return others ? failed(got + ", where a plain REQ is accepted") : unclear(got);
}

Task<Observation> refuses(Tester& tester, Spoil spoil, CmReject reason, bool any) {
  Link& link = tester.link();
  spoil(link.req);
  tester.send_req(link);
  const Heard heard = co_await tester.answer(link);
  const auto* rej = heard.as<wire::ib::CmRej>();
  if (rej == nullptr) co_return failed(heard.words());
  if (rej->about != CmAbout::req) co_return failed(heard.words() + ": the REQ is what it rejects");
  co_return rej->reason == reason || any ? pass(heard.words()) : failed(heard.words());
}

Task<Observation> drops(Tester& tester, Link& link, std::string words, Bytes mad, Faults faults) {
  tester.send_mad(link, std::move(words), mad, faults);
  const Heard heard = co_await tester.rest(link);
  if (!heard.silence) co_return failed(heard.words());
  const bool asked = co_await tester.set_up(link);
  if (!asked) co_return tester.trouble();
  co_return pass("silence, and a sound REQ is answered");
}

namespace {
/// Of the peer that connected: it may come again at any time.
bool is_rtu(const Link& link, const Heard& heard) { return link.passive && heard.as<wire::ib::CmRtu>() != nullptr; }
}  // namespace

Task<Heard> response(Tester& tester, Link& link, Duration patience) {
  const Instant limit = tester.peer().now() + patience;
  Heard end;  // what ended the connection, which may overtake the NAK that is the reason
  for (unsigned i = 0;; ++i) {
    const Duration left = std::max(limit - tester.peer().now(), Duration{});
    Heard heard = co_await tester.hear(link, left);
    const bool request = heard.is_request() && heard.bth.dest_qpn == link.qpn();
    const bool dreq = heard.as<wire::ib::CmDreq>() != nullptr;
    if (heard.silence && !end.silence) co_return end;
    if (i >= Tester::exchanges_max ||
        !(request || dreq || heard.as<wire::ib::CmRep>() != nullptr || is_rtu(link, heard)))
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
  const Heard heard = co_await response(tester, link, tester.settings().reply);
  if (heard.is_ack() && heard.bth.psn == psn) co_return std::string();
  if (heard.is_ack()) co_return std::string("an ACK of another PSN");
  co_return heard.words();
}

Task<Heard> message(Tester& tester, Link& link, Duration patience, bool reqs) {
  const Instant limit = tester.peer().now() + patience;
  for (unsigned i = 0;; ++i) {
    const Duration left = std::max(limit - tester.peer().now(), Duration{});
    Heard heard = co_await tester.hear(link, left);
    const bool crossing = !reqs && heard.as<wire::ib::CmReq>() != nullptr;
    if (heard.silence || (heard.message && !crossing) || i >= Tester::exchanges_max) co_return heard;
  }
}

Task<Heard> response_of_peer(Tester& tester, Link& link, Duration patience) {
  const Instant limit = tester.peer().now() + patience;
  for (unsigned i = 0;; ++i) {
    const Duration left = std::max(limit - tester.peer().now(), Duration{});
    Heard heard = co_await tester.hear(link, left);
    const bool wanted = heard.is_request() || (heard.message && heard.as<wire::ib::CmRtu>() == nullptr);
    if (heard.silence || wanted || i >= Tester::exchanges_max) co_return heard;
  }
}

Task<bool> accept(Tester& tester, Link& link) {
  tester.send_rep(link);
  for (std::size_t i = 0; i < Tester::exchanges_max; ++i) {
    const Heard heard = co_await tester.answer(link);
    if (heard.as<wire::ib::CmRtu>() != nullptr || heard.is_request()) {
      tester.note_accepted();
      co_return true;
    }
    // The REQ again: both were under way.
    if (heard.as<wire::ib::CmReq>() != nullptr) continue;
    tester.set_trouble("the REP is answered by " + heard.words());
    break;
  }
  co_return false;
}

Task<Link*> accepted(Tester& tester) {
  Link* link = co_await tester.asked();
  if (link == nullptr) co_return nullptr;
  const bool up = co_await accept(tester, *link);
  co_return up ? link : nullptr;
}

Task<Observation> answered(Tester& tester, Request request, std::function<bool(const Heard&)> right, Faults faults) {
  Link& link = tester.link();
  const bool up = co_await tester.set_up(link);
  if (!up) co_return tester.trouble();
  request.psn = link.psn;
  tester.send_request(link, request, faults);
  const Heard heard = co_await response(tester, link, tester.settings().reply);
  if (heard.is_rnr() && !right(heard)) co_return unclear("RNR NAK: the peer has no receive posted");
  if (!right(heard)) co_return failed(heard.words());
  if (heard.bth.psn != request.psn) co_return failed(heard.words() + " with another PSN than the request's");
  co_return pass(heard.words());
}

Task<Observation> request_dropped(Tester& tester, Request request, Faults faults) {
  Link& link = tester.link();
  const bool up = co_await tester.set_up(link);
  if (!up) co_return tester.trouble();
  request.psn = link.psn;
  tester.send_request(link, request, faults);
  const Heard heard = co_await response(tester, link, tester.settings().quiet);
  if (!heard.silence) co_return failed(heard.words());
  const std::string wrong = co_await still_serves(tester, link);
  if (!wrong.empty()) co_return failed("silence, and then a sound request was answered by " + wrong);
  co_return pass("silence, and a sound request is acknowledged");
}

}  // namespace parley::conform::ibcm
