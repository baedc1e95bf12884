// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Datagrams on queue pair 1 that are not messages of the CM, or messages about unknown connections: IBA §9.6, §12.6,
// §13.5.
#include <fmt/format.h>

#include "conform/ibcm/judge.hpp"
#include "conform/ibcm/table.hpp"

#include "wire/ib/mad.hpp"

namespace parley::conform::ibcm {
namespace datagram_table {
namespace {

using wire::ib::CmDrep;
using wire::ib::CmMra;
using wire::ib::CmRej;
using wire::ib::CmRep;
using wire::ib::CmRtu;
using wire::ib::MadHeader;

/// A REQ whose MAD header was changed.
Task<Observation> header_dropped(Tester& b, std::string words, void (*spoil)(MadHeader& header)) {
  Link& link = b.link();
  Bytes mad = b.mad(link, link.req);
  auto header = *MadHeader::parse(mad);
  spoil(header);
  header.emit(mad);
  return drops(b, link, std::move(words), std::move(mad));
}
Task<Observation> base_version(Tester& b) {
  return header_dropped(b, "REQ of base version 2", [](MadHeader& h) { h.base_version = 2; });
}
Task<Observation> other_class(Tester& b) {
  return header_dropped(b, "a MAD of class 30", [](MadHeader& h) { h.mgmt_class = 0x30; });
}
Task<Observation> unknown_attribute(Tester& b) {
  return header_dropped(b, "a MAD with attribute 0030", [](MadHeader& h) { h.attribute_id = 0x30; });
}
Task<Observation> response_bit(Tester& b) {
  return header_dropped(b, "REQ with the R bit", [](MadHeader& h) { h.method |= PARLEY_IB_MAD_RESPONSE; });
}

// IBA §13.4.5: an unsupported method may be answered with a status, but not with a REP.
Task<Observation> other_method(Tester& b) {
  Link& link = b.link();
  Bytes mad = b.mad(link, link.req);
  auto header = *MadHeader::parse(mad);
  header.method = 0x02;
  header.emit(mad);
  b.send_mad(link, "REQ with method Set", mad);
  const PeerPacket heard = co_await b.rest(link);
  if (heard.message) co_return failed(heard.text());
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  co_return pass(heard.silence ? "silence, and a valid REQ is answered" : heard.text());
}

/// A REQ of another length.
Task<Observation> length_dropped(Tester& b, std::size_t size) {
  Link& link = b.link();
  Bytes mad = b.mad(link, link.req);
  mad.resize(size);
  return drops(b, link, fmt::format("{} octets of a REQ", size), std::move(mad));
}
Task<Observation> truncated(Tester& b) { return length_dropped(b, 200); }
Task<Observation> empty(Tester& b) { return length_dropped(b, 0); }

/// A REQ in a faulty packet.
Task<Observation> packet_dropped(Tester& b, Faults faults) {
  Link& link = b.link();
  return drops(b, link, "REQ", b.mad(link, link.req), faults);
}
Task<Observation> q_key(Tester& b) { return packet_dropped(b, {.q_key = 0x11111111}); }
Task<Observation> q_key_0(Tester& b) { return packet_dropped(b, {.q_key = 0}); }
Task<Observation> p_key(Tester& b) { return packet_dropped(b, {.p_key = 0x9234}); }
Task<Observation> icrc(Tester& b) { return packet_dropped(b, {.bad_icrc = true}); }
Task<Observation> tver(Tester& b) { return packet_dropped(b, {.tver = 1}); }
Task<Observation> to_qp_0(Tester& b) { return packet_dropped(b, {.dest_qpn = 0}); }
Task<Observation> rc_opcode(Tester& b) {
  return packet_dropped(b, {.opcode = wire::ib::opcode_of(wire::ib::Service::rc, Operation::send_only)});
}
Task<Observation> unassigned_opcode(Tester& b) { return packet_dropped(b, {.opcode = 0x7F}); }
Task<Observation> pad(Tester& b) { return packet_dropped(b, {.pad_count = 3}); }

Task<Observation> reserved_bth(Tester& b) {
  Link& link = b.link();
  const std::function<void()> asks = [&b, &link] { b.send(link, link.req, {.reserved = true}); };
  asks();
  const PeerPacket heard = co_await b.decision(link, asks);
  if (heard.as<CmRep>() == nullptr) co_return failed(heard.text());
  b.send_rtu(link);
  co_return pass("REP");
}

/// A message about an unknown connection must get no answer; then a REQ on the same connection must be answered.
Task<Observation> ignored(Tester& b, Link& link, CmBody body) {
  b.send(link, body);
  const PeerPacket heard = co_await b.rest(link);
  if (!heard.silence) co_return failed(heard.text());
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  co_return pass("silence, and a REQ is answered");
}
Task<Observation> rtu_for_nobody(Tester& b) {
  Link& link = b.link();
  return ignored(b, link, CmRtu{.local_comm_id = link.id(), .remote_comm_id = unknown_id(link)});
}
Task<Observation> rej_for_nobody(Tester& b) {
  Link& link = b.link();
  return ignored(b, link,
                 CmRej{.local_comm_id = link.id(),
                       .remote_comm_id = unknown_id(link),
                       .about = CmSubject::rep,
                       .reason = CmReject::consumer});
}
Task<Observation> mra_for_nobody(Tester& b) {
  Link& link = b.link();
  return ignored(b, link,
                 CmMra{.local_comm_id = link.id(),
                       .remote_comm_id = unknown_id(link),
                       .about = CmSubject::rep,
                       .service_timeout = 20});
}
Task<Observation> drep_for_nobody(Tester& b) {
  Link& link = b.link();
  return ignored(b, link, CmDrep{.local_comm_id = link.id(), .remote_comm_id = unknown_id(link)});
}

Task<Observation> rep_for_nobody(Tester& b) {
  Link& link = b.link();
  CmRep rep;
  rep.local_comm_id = link.id();
  rep.remote_comm_id = unknown_id(link);
  rep.local_qpn = link.req.local_qpn;
  rep.local_ca_guid = link.req.local_ca_guid;
  b.send(link, rep);
  const PeerPacket heard = co_await b.rest(link);
  const auto* rej = heard.as<CmRej>();
  if (rej == nullptr) co_return failed(heard.text());
  if (rej->reason != CmReject::invalid_comm_id || rej->about != CmSubject::rep) co_return failed(heard.text());
  co_return pass(heard.text());
}

constexpr Case table[] = {
    row("40", "base-version-2", "IBA §13.4.2", must, "REQ with MAD base version 2", "dropped", base_version),
    row("41", "class-of-another", "IBA §13.4.2", must, "a MAD of a vendor class", "dropped", other_class),
    row("42", "unknown-attribute", "IBA §12.6", must, "a MAD of the CM with attribute 0030", "dropped",
        unknown_attribute),
    row("43", "response-bit", "IBA §13.4.2", must, "REQ with the R bit", "dropped", response_bit),
    row("44", "method-set", "IBA §12.6", must, "REQ with method Set", "no message of the CM", other_method),
    row("45", "mad-of-200-octets", "IBA §13.4.2", must, "REQ cut to 200 octets", "dropped", truncated),
    row("46", "mad-of-0-octets", "IBA §13.4.2", must, "a datagram without payload", "dropped", empty),
    row("47", "q-key-of-another", "IBA §9.6.1.5", must, "REQ with Q_Key 11111111", "dropped", q_key),
    row("48", "q-key-0", "IBA §9.6.1.5", must, "REQ with Q_Key 0", "dropped", q_key_0),
    row("49", "gsi-p-key-of-another", "IBA §9.6.1.4", must, "REQ with P_Key 9234 in its BTH", "dropped", p_key),
    row("50", "gsi-bad-icrc", "IBA §7.8.1", must, "REQ with a wrong ICRC", "dropped", icrc),
    row("51", "gsi-transport-version-1", "IBA §9.2.4", must, "REQ with TVer 1 in its BTH", "dropped", tver),
    row("52", "gsi-reserved-bits", "IBA §9.2", must, "REQ with MigReq, FECN, BECN and all reserved bits of the BTH",
        "REP", reserved_bth),
    row("53", "gsi-queue-pair-0", "IBA §A17.9.1", must, "REQ to queue pair 0", "dropped", to_qp_0),
    row("54", "gsi-opcode-of-rc", "IBA §9.6.1.3", must, "REQ in an RC SEND Only", "dropped", rc_opcode),
    row("55", "gsi-unassigned-opcode", "IBA §9.6.1.3", must, "REQ with opcode 7F", "dropped", unassigned_opcode),
    row("56", "gsi-pad", "IBA §9.2", must, "REQ with PadCnt 3, which leaves 253 octets", "dropped", pad),
    row("57", "rep-for-nobody", "IBA §12.6.7.2", must, "REP to an unknown communication ID",
        "REJ 6 (invalid communication ID) of the REP", rep_for_nobody),
    row("58", "rtu-for-nobody", "IBA §12.9", must, "RTU to an unknown communication ID", "silence", rtu_for_nobody),
    row("59", "rej-for-nobody", "IBA §12.9", must, "REJ to an unknown communication ID", "silence", rej_for_nobody),
    row("60", "mra-for-nobody", "IBA §12.9", must, "MRA to an unknown communication ID", "silence", mra_for_nobody),
    row("61", "drep-for-nobody", "IBA §12.9", must, "DREP to an unknown communication ID", "silence", drep_for_nobody),
};

}  // namespace
}  // namespace datagram_table

std::span<const Case> datagram_cases() { return datagram_table::table; }

}  // namespace parley::conform::ibcm
