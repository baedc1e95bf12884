// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A peer that resolves a UD service: its SIDR_REQ, and how it handles the answer. IBA §12.11.
#include <fmt/format.h>

#include "conform/ibcm/judge.hpp"
#include "conform/ibcm/table.hpp"
#include "wire/ib/cma.hpp"

namespace parley::conform::ibcm {
namespace resolving_table {
namespace {

using wire::ib::CmSidrRep;
using wire::ib::CmSidrReq;
using wire::ib::SidrStatus;

CmSidrRep answer_to(Tester& b, const Link& link, SidrStatus status) {
  CmSidrRep rep{.request_id = link.resolving->request_id, .status = status, .service_id = link.resolving->service_id};
  if (status != SidrStatus::valid) return rep;
  rep.qpn = b.draw(0xFFFF00) + 0x20;
  rep.q_key = wire::ib::udp_q_key;
  return rep;
}

Task<Observation> request(Tester& b) {
  Link* link = co_await b.resolving();
  if (link == nullptr) co_return b.trouble();
  const CmSidrReq& req = *link->resolving;
  b.send(*link, answer_to(b, *link, SidrStatus::rejected));
  if (req.request_id == 0) co_return failed("its request ID is 0");
  if ((req.p_key & 0x7FFF) == 0) co_return failed("its P_Key is none");
  const auto service = wire::ib::cma_service_of(req.service_id);
  if (!service || service->space != wire::ib::PortSpace::udp)
    co_return failed("its service ID is not a UDP port of rdma_cm");
  const auto header = wire::ib::CmaHeader::parse(req.private_data);
  if (!header) co_return failed(header.error().sentence());
  co_return pass("as it should be");
}

/// The peer accepts an answer: it does not retransmit the SIDR_REQ.
Task<Observation> taken(Tester& b, SidrStatus status) {
  Link* link = co_await b.resolving();
  if (link == nullptr) co_return b.trouble();
  b.send(*link, answer_to(b, *link, status));
  const PeerPacket heard = co_await message(b, *link, b.settings().quiet);
  co_return heard.silence ? pass("silence") : failed(heard.text());
}
Task<Observation> found(Tester& b) { return taken(b, SidrStatus::valid); }
Task<Observation> refused(Tester& b) { return taken(b, SidrStatus::rejected); }
Task<Observation> unknown_status(Tester& b) { return taken(b, static_cast<SidrStatus>(200)); }

Task<Observation> twice(Tester& b) {
  Link* link = co_await b.resolving();
  if (link == nullptr) co_return b.trouble();
  const CmSidrRep rep = answer_to(b, *link, SidrStatus::valid);
  b.send(*link, rep);
  b.send(*link, rep);
  const PeerPacket heard = co_await message(b, *link, b.settings().quiet);
  co_return heard.silence ? pass("silence") : failed(heard.text());
}

/// An answer to another request must not stop the retransmission of the SIDR_REQ.
Task<Observation> of_another(Tester& b) {
  Link* link = co_await b.resolving();
  if (link == nullptr) co_return b.trouble();
  CmSidrRep rep = answer_to(b, *link, SidrStatus::rejected);
  rep.request_id ^= 0x80000000;
  b.send(*link, rep);
  const PeerPacket heard = co_await message(b, *link, b.settings().timer);
  b.send(*link, answer_to(b, *link, SidrStatus::rejected));
  const auto* again = heard.as<CmSidrReq>();
  if (again == nullptr) co_return failed(heard.text() + " where the SIDR_REQ is expected again");
  co_return *again == *link->resolving ? pass("the same SIDR_REQ") : failed("a SIDR_REQ that differs from the first");
}

constexpr Case table[] = {
    asks("54", "sidr-request", "IBA §12.11.1", must, "nothing",
         "the SIDR_REQ has a request ID, a P_Key, a service ID and the header of RDMA IP CM", request),
    asks("55", "sidr-found", "IBA §12.11.2", must, "SIDR_REP with a queue pair", "the SIDR_REQ is not retransmitted",
         found),
    asks("56", "sidr-refused", "IBA §12.11.2", must, "SIDR_REP with status 2 (rejected)",
         "the SIDR_REQ is not retransmitted", refused),
    asks("57", "sidr-unassigned-status", "IBA §12.11.2", must, "SIDR_REP with status 200",
         "the SIDR_REQ is not retransmitted", unknown_status),
    asks("58", "sidr-rep-twice", "IBA §12.11", must, "the SIDR_REP twice", "silence", twice),
    asks("59", "sidr-rep-of-another", "IBA §12.11", must, "SIDR_REP to an unknown request ID",
         "the same SIDR_REQ again", of_another),
};

}  // namespace
}  // namespace resolving_table

std::span<const Case> resolving_cases() { return resolving_table::table; }

}  // namespace parley::conform::ibcm
