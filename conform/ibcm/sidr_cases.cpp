// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Service ID resolution with a peer whose service is RC: IBA §12.11.
#include <algorithm>

#include <fmt/format.h>

#include "conform/ibcm/judge.hpp"
#include "conform/ibcm/table.hpp"

namespace parley::conform::ibcm {
namespace sidr_table {
namespace {

using wire::ib::CmSidrRep;
using wire::ib::CmSidrReq;
using wire::ib::PortSpace;
using wire::ib::SidrStatus;

CmSidrReq request(const Link& link, std::uint64_t service_id) {
  CmSidrReq req{.request_id = link.id(), .service_id = service_id};
  std::copy_n(link.req.private_data.begin(), PARLEY_CMA_HEADER_LEN, req.private_data.begin());
  return req;
}
std::uint64_t nobody(const Tester& b) {
  return wire::ib::service_id_of(PortSpace::udp, static_cast<std::uint16_t>(b.settings().target.port ^ 0x8001));
}

Task<Observation> unknown_service(Tester& b) {
  Link& link = b.link();
  b.send(link, request(link, nobody(b)));
  const PeerPacket heard = co_await b.answer(link);
  const auto* rep = heard.as<CmSidrRep>();
  if (rep == nullptr || rep->status != SidrStatus::unsupported_service_id) co_return failed(heard.text());
  co_return pass(heard.text());
}

Task<Observation> service_echoed(Tester& b) {
  Link& link = b.link();
  const std::uint64_t service = nobody(b);
  b.send(link, request(link, service));
  const PeerPacket heard = co_await b.answer(link);
  const auto* rep = heard.as<CmSidrRep>();
  if (rep == nullptr) co_return unclear(heard.text());
  if (rep->service_id != service) co_return failed(fmt::format("its ServiceID is {:016x}", rep->service_id));
  if (heard.message->transaction_id != link.transaction_id) co_return failed("another TransactionID");
  co_return pass("the request's ServiceID and TransactionID");
}

Task<Observation> of_rc_service(Tester& b) {
  Link& link = b.link();
  b.send(link, request(link, link.req.service_id));
  const PeerPacket heard = co_await b.answer(link);
  const auto* rep = heard.as<CmSidrRep>();
  if (rep == nullptr || rep->status == SidrStatus::valid) co_return failed(heard.text());
  co_return pass(heard.text());
}

Task<Observation> again(Tester& b) {
  Link& link = b.link();
  const CmSidrReq req = request(link, nobody(b));
  b.send(link, req);
  const PeerPacket first = co_await b.answer(link);
  const auto* rep = first.as<CmSidrRep>();
  if (rep == nullptr) co_return unclear(first.text());
  b.send(link, req);
  const PeerPacket heard = co_await b.answer(link);
  const auto* second = heard.as<CmSidrRep>();
  if (second == nullptr || second->status != rep->status) co_return failed(heard.text());
  co_return pass("the same status");
}

Task<Observation> rep_for_nobody(Tester& b) {
  Link& link = b.link();
  b.send(link, CmSidrRep{.request_id = link.id(), .qpn = 0x77, .service_id = nobody(b)});
  const PeerPacket heard = co_await b.rest(link);
  co_return heard.silence ? pass("silence") : failed(heard.text());
}

constexpr Case table[] = {
    row("78", "sidr-unknown-service", "IBA §12.11.2", must, "SIDR_REQ for an unknown service",
        "SIDR_REP with status 1 (service ID not supported)", unknown_service),
    row("79", "sidr-rep-fields", "IBA §12.11.2", must, "SIDR_REQ for an unknown service",
        "SIDR_REP with its ServiceID and TransactionID", service_echoed),
    row("80", "sidr-of-an-rc-service", "IBA §12.11.2", must, "SIDR_REQ for the service under test",
        "SIDR_REP with a status other than 0", of_rc_service),
    row("81", "sidr-again", "IBA §12.11", must, "the SIDR_REQ again after the SIDR_REP", "the same status", again),
    row("82", "sidr-rep-for-nobody", "IBA §12.11", must, "SIDR_REP without a SIDR_REQ", "silence", rep_for_nobody),
};

}  // namespace
}  // namespace sidr_table

std::span<const Case> sidr_cases() { return sidr_table::table; }

}  // namespace parley::conform::ibcm
