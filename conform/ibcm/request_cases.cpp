// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// REQs that the peer cannot accept, and the required reason in the REJ: IBA §12.6.7.2.
#include <fmt/format.h>

#include "conform/ibcm/judge.hpp"
#include "conform/ibcm/table.hpp"

#include "base/gid.hpp"
#include "wire/ib/mad.hpp"

namespace parley::conform::ibcm {
namespace request_table {
namespace {

using wire::ib::CmRej;
using wire::ib::CmReq;
using wire::ib::CmService;

Task<Observation> unknown_service(Tester& b) {
  return refuses(
      b, [](CmReq& req) { req.service_id ^= 0x8001; }, CmReject::invalid_service_id);
}
Task<Observation> foreign_service(Tester& b) {
  return refuses(
      b, [](CmReq& req) { req.service_id = 0x1000000000ABCDEF; }, CmReject::invalid_service_id);
}

Task<Observation> rej_fields(Tester& b) {
  Link& link = b.link();
  link.req.service_id ^= 0x8001;
  b.send_req(link);
  const PeerPacket heard = co_await b.decision(link);
  const auto* rej = heard.as<CmRej>();
  if (rej == nullptr) co_return unclear(heard.text());
  if (rej->info_length > PARLEY_IBCM_INFO_LEN) co_return failed(fmt::format("Reject Info Length {}", rej->info_length));
  if (heard.message->transaction_id != link.transaction_id) co_return failed("not the REQ's TransactionID");
  co_return pass("as it should be");
}

// IBA §12.6.7.2: the REJ has the largest supported MTU. The codes 0 and 6 to 15 are not assigned.
Task<Observation> mtu_0(Tester& b) {
  return refuses(
      b, [](CmReq& req) { req.path_mtu = 0; }, CmReject::invalid_path_mtu);
}
Task<Observation> mtu_7(Tester& b) {
  return refuses(
      b, [](CmReq& req) { req.path_mtu = 7; }, CmReject::invalid_path_mtu);
}
Task<Observation> mtu_4096(Tester& b) {
  Link& link = b.link();
  link.req.path_mtu = 5;
  b.send_req(link);
  const PeerPacket heard = co_await b.decision(link);
  if (heard.as<wire::ib::CmRep>() != nullptr) {
    b.send_rtu(link);
    co_return pass("REP");
  }
  const auto* rej = heard.as<CmRej>();
  if (rej == nullptr || rej->reason != CmReject::invalid_path_mtu) co_return failed(heard.text());
  co_return pass(heard.text());
}

Task<Observation> reliable_datagram(Tester& b) {
  return refuses(
      b, [](CmReq& req) { req.service = CmService::rd; }, CmReject::invalid_transport_service);
}
Task<Observation> extended_5(Tester& b) {
  return refuses(
      b, [](CmReq& req) { req.service = CmService::extended, req.extended_service = 5; },
      CmReject::invalid_transport_service);
}
Task<Observation> unreliable(Tester& b) {
  return refuses(
      b, [](CmReq& req) { req.service = CmService::uc; }, CmReject::invalid_transport_service, true);
}

Task<Observation> foreign_gid(Tester& b) {
  Link& link = b.link();
  link.req.primary.remote_gid = gid_of(Address::v4(198, 51, 100, 77, 0));
  b.send_req(link);
  const PeerPacket heard = co_await b.decision(link);
  const auto* rej = heard.as<CmRej>();
  if (rej == nullptr || rej->reason != CmReject::primary_gid) co_return failed(heard.text());
  if (rej->info_length != 16) co_return failed(heard.text() + " without a GID that would do");
  co_return pass(heard.text());
}

Task<Observation> cma_version(Tester& b) {
  return refuses(
      b, [](CmReq& req) { req.private_data.front() = 0x10; }, CmReject::consumer, true);
}
Task<Observation> ip_version(Tester& b) {
  return refuses(
      b, [](CmReq& req) { std::next(req.private_data.begin())[0] = 0x50; }, CmReject::consumer, true);
}
Task<Observation> header_missing(Tester& b) {
  return refuses(
      b, [](CmReq& req) { req.private_data = {}; }, CmReject::consumer, true);
}

Task<Observation> class_version(Tester& b, std::uint8_t version) {
  Link& link = b.link();
  Bytes mad = b.mad(link, link.req);
  auto header = *wire::ib::MadHeader::parse(mad);
  header.class_version = version;
  header.emit(mad);
  b.send_mad(link, fmt::format("REQ of class version {}", version), mad);
  const PeerPacket heard = co_await b.answer(link);
  const auto* rej = heard.as<CmRej>();
  if (rej == nullptr || rej->reason != CmReject::unsupported_class_version) co_return failed(heard.text());
  if (rej->info_length != 1 || rej->info.front() != PARLEY_IB_CLASS_CM_VERSION)
    co_return failed(heard.text() + " without the version that would do");
  co_return pass(heard.text());
}
Task<Observation> class_version_1(Tester& b) { return class_version(b, 1); }
Task<Observation> class_version_3(Tester& b) { return class_version(b, 3); }

constexpr Case table[] = {
    row("25", "unknown-service", "IBA §12.6.7.2", must, "REQ for a port without a listener",
        "REJ 8 (invalid service ID) of the REQ", unknown_service),
    row("26", "foreign-service", "IBA §12.6.7.2", must, "REQ for a service ID outside of rdma_cm's",
        "REJ 8 (invalid service ID) of the REQ", foreign_service),
    row("27", "rej-fields", "IBA §12.6.7", must, "REQ for a port without a listener",
        "REJ with the TransactionID of the REQ and a Reject Info Length of at most 72", rej_fields),
    row("28", "path-mtu-0", "IBA §12.6.7.2", must, "REQ with path MTU 0", "REJ 26 (invalid path MTU)", mtu_0),
    row("29", "path-mtu-7", "IBA §12.6.7.2", must, "REQ with path MTU 7", "REJ 26 (invalid path MTU)", mtu_7),
    row("30", "path-mtu-4096", "IBA §12.6.7.2", must, "REQ with path MTU 5", "REP, or REJ 26 (invalid path MTU)",
        mtu_4096),
    row("31", "service-type-rd", "IBA §12.6.7.2", must, "REQ with transport service type 2 (RD)",
        "REJ 9 (invalid transport service type)", reliable_datagram),
    row("32", "service-type-extended-5", "IBA §12.6.7.2", must,
        "REQ with transport service type 3, extended transport type 5", "REJ 9 (invalid transport service type)",
        extended_5),
    row("33", "service-type-uc", "IBA §12.6.7.2", must, "REQ with transport service type 1 (UC)",
        "REJ: the service is an RC service", unreliable),
    row("34", "gid-of-another", "IBA §12.6.7.2", must, "REQ whose primary remote GID is not one of the peer's",
        "REJ 12 with one of the peer's GIDs", foreign_gid),
    row("35", "cma-version-1", "IBA §A11", must, "REQ whose IP CM header has version 1.0", "REJ", cma_version),
    row("36", "cma-ip-version-5", "IBA §A11", must, "REQ whose IP CM header has IP version 5", "REJ", ip_version),
    row("37", "cma-header-of-zeros", "IBA §A11", must, "REQ without private data", "REJ", header_missing),
    row("38", "class-version-1", "IBA §12.6.7.2", must, "REQ of class version 1",
        "REJ 31 (unsupported class version) with version 2", class_version_1),
    row("39", "class-version-3", "IBA §12.6.7.2", must, "REQ of class version 3",
        "REJ 31 (unsupported class version) with version 2", class_version_3),
};

}  // namespace
}  // namespace request_table

std::span<const Case> request_cases() { return request_table::table; }

}  // namespace parley::conform::ibcm
