// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A peer that connects and gets a REJ, an MRA, or a message for another connection. IBA §12.6.6, §12.6.7, §12.9.
#include "conform/ibcm/judge.hpp"
#include "conform/ibcm/table.hpp"

namespace parley::conform::ibcm {
namespace rejected_table {
namespace {

using wire::ib::CmMra;
using wire::ib::CmRej;
using wire::ib::CmRep;
using wire::ib::CmReq;
using wire::ib::CmRtu;

/// The peer's next packet after it must have received the REJ.
Task<PeerPacket> behind_rej(Tester& b, Link& link) {
  co_await b.peer().sleep(50ms);
  std::erase_if(link.heard,
                [](const PeerPacket& heard) { return heard.as<CmReq>() != nullptr; });  // these crossed the REJ
  const PeerPacket heard = co_await b.receive(link, b.settings().quiet);
  co_return heard;
}

/// After a REJ of its REQ the peer must send nothing more for that attempt. A new attempt has its own IDs.
Task<Observation> rejected(Tester& b, CmRej rej) {
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return b.trouble();
  rej.remote_comm_id = link->peer_id();
  b.send(*link, rej);
  link->ended = true;
  const PeerPacket heard = co_await behind_rej(b, *link);
  co_return heard.silence ? pass("silence") : failed("after the REJ: " + heard.text());
}
Task<Observation> rej_consumer(Tester& b) { return rejected(b, {.reason = CmReject::consumer}); }
Task<Observation> rej_service(Tester& b) { return rejected(b, {.reason = CmReject::invalid_service_id}); }
Task<Observation> rej_resources(Tester& b) { return rejected(b, {.reason = CmReject::no_resources}); }
Task<Observation> rej_stale(Tester& b) { return rejected(b, {.reason = CmReject::stale_connection}); }
Task<Observation> rej_gid(Tester& b) {
  CmRej rej{.info_length = 16, .reason = CmReject::primary_gid};
  return rejected(b, rej);
}
Task<Observation> rej_mtu(Tester& b) {
  CmRej rej{.info_length = 1, .reason = CmReject::invalid_path_mtu};
  rej.info[0] = 5 << 4;  // not smaller than the peer's MTU, so a retry makes no sense
  return rejected(b, rej);
}
Task<Observation> rej_redirect(Tester& b) {
  CmRej rej{.info_length = 72, .reason = static_cast<CmReject>(24)};
  return rejected(b, rej);
}
Task<Observation> rej_class(Tester& b) {
  CmRej rej{.info_length = 1, .reason = CmReject::unsupported_class_version};
  rej.info[0] = 1;
  return rejected(b, rej);
}
Task<Observation> rej_unassigned(Tester& b) { return rejected(b, {.reason = static_cast<CmReject>(0x1234)}); }
Task<Observation> rej_long_info(Tester& b) { return rejected(b, {.info_length = 127, .reason = CmReject::consumer}); }
Task<Observation> rej_full(Tester& b) {
  CmRej rej{.reason = CmReject::consumer};
  rej.private_data.fill(0xFF);
  return rejected(b, rej);
}

Task<Observation> rej_twice(Tester& b) {
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return b.trouble();
  b.send_rej(*link, CmReject::consumer);
  b.send_rej(*link, CmReject::consumer);
  const PeerPacket heard = co_await behind_rej(b, *link);
  co_return heard.silence ? pass("silence") : failed(heard.text());
}

/// IBA §12.6.7.2 reason 6: the peer no longer expects that REP.
Task<Observation> rep_after_rej(Tester& b) {
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return b.trouble();
  b.send_rej(*link, CmReject::consumer);
  const PeerPacket between = co_await behind_rej(b, *link);
  if (!between.silence) co_return unclear(between.text());
  b.send_rep(*link);
  link->ended = true;
  const PeerPacket heard = co_await message(b, *link, b.settings().reply);
  const auto* rej = heard.as<CmRej>();
  if (rej == nullptr) co_return failed(heard.text());
  co_return rej->reason == CmReject::invalid_comm_id ? pass(heard.text()) : failed(heard.text());
}

/// Nothing answers a message that is not for the peer, and the REP is accepted after it.
Task<Observation> then_taken(Tester& b, Link& link) {
  const PeerPacket heard = co_await message(b, link, b.settings().quiet);
  if (!heard.silence && heard.as<CmReq>() == nullptr) co_return failed(heard.text());
  const bool up = co_await accept(b, link);
  co_return up ? pass("silence, and the REP is accepted") : failed("then " + b.trouble().observed);
}

Task<Observation> rej_of_another(Tester& b) {
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return b.trouble();
  b.send(*link, CmRej{.remote_comm_id = link->peer_id() ^ 0x80000000, .reason = CmReject::consumer});
  co_return co_await then_taken(b, *link);
}

Task<Observation> rep_of_another(Tester& b) {
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return b.trouble();
  CmRep rep = link->reply;
  rep.remote_comm_id ^= 0x80000000;
  b.send(*link, rep);
  const PeerPacket heard = co_await message(b, *link, b.settings().reply);
  const bool up = co_await accept(b, *link);
  if (!up) co_return failed("then " + b.trouble().observed);
  const auto* rej = heard.as<CmRej>();
  if (rej == nullptr) co_return failed(heard.text());
  co_return rej->reason == CmReject::invalid_comm_id ? pass(heard.text()) : failed(heard.text());
}

Task<Observation> rtu_to_initiator(Tester& b) {
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return b.trouble();
  b.send_rtu(*link);
  co_return co_await then_taken(b, *link);
}

/// An MRA that asks for 4.3 s until the REP.
CmMra mra_of(const Link& link) {
  return {.local_comm_id = link.id(), .remote_comm_id = link.peer_id(), .about = CmSubject::req, .service_timeout = 20};
}

Task<Observation> mra_of_another(Tester& b) {
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return b.trouble();
  CmMra mra = mra_of(*link);
  mra.remote_comm_id ^= 0x80000000;
  b.send(*link, mra);
  co_return co_await then_taken(b, *link);
}

/// IBA §12.6.6: the REP may take that long.
Task<Observation> mra(Tester& b) {
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return b.trouble();
  b.send(*link, mra_of(*link));
  co_await b.peer().sleep(50ms);
  link->heard.clear();  // packets that crossed the MRA
  const PeerPacket heard = co_await b.receive(*link, b.settings().quiet);
  if (!heard.silence) co_return failed(heard.text() + " within the time that the MRA asked for");
  const bool up = co_await accept(b, *link);
  co_return up ? pass("silence, and the REP is accepted") : failed("then " + b.trouble().observed);
}

Task<Observation> rej_after_mra(Tester& b) {
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return b.trouble();
  b.send(*link, mra_of(*link));
  b.send_rej(*link, CmReject::consumer);
  const PeerPacket heard = co_await behind_rej(b, *link);
  co_return heard.silence ? pass("silence") : failed(heard.text());
}

/// IBA §12.9: the REP names a queue pair that another connection with this peer uses.
Task<Observation> stale_rep(Tester& b) {
  Link* old = co_await accepted(b);
  if (old == nullptr) co_return b.trouble();
  Link* link = co_await b.await_request();
  if (link == nullptr) co_return unclear("the peer opens no second connection while one is open");
  link->reply.local_qpn = old->reply.local_qpn;
  b.send_rep(*link);
  const PeerPacket heard = co_await message(b, *link, b.settings().reply);
  const auto* rej = heard.as<CmRej>();
  if (rej == nullptr || rej->reason != CmReject::stale_connection) co_return failed(heard.text());
  co_return pass(heard.text());
}

constexpr Case table[] = {
    asks("18", "rej-consumer", "IBA §12.6.7", must, "REJ 28 (consumer)", "no further message for that REQ",
         rej_consumer),
    asks("19", "rej-invalid-service-id", "IBA §12.6.7", must, "REJ 8", "no further message for that REQ", rej_service),
    asks("20", "rej-no-resources", "IBA §12.6.7", must, "REJ 3", "no further message for that REQ", rej_resources),
    asks("21", "rej-stale", "IBA §12.6.7", must, "REJ 10", "no further message for that REQ", rej_stale),
    asks("22", "rej-primary-gid", "IBA §12.6.7", must, "REJ 12 with a GID of zeros", "no further message for that REQ",
         rej_gid),
    asks("23", "rej-path-mtu", "IBA §12.6.7", must, "REJ 26 that gives 4096 octets", "no further message for that REQ",
         rej_mtu),
    asks("24", "rej-redirection", "IBA §12.6.7", must, "REJ 24 with a ClassPortInfo of zeros",
         "no further message for that REQ", rej_redirect),
    asks("25", "rej-class-version", "IBA §12.6.7", must, "REJ 31 that gives version 1",
         "no further message for that REQ", rej_class),
    asks("26", "rej-unassigned-reason", "IBA §12.6.7", must, "REJ 4660", "no further message for that REQ",
         rej_unassigned),
    asks("27", "rej-info-length-127", "IBA §12.6.7", must, "REJ 28 with Reject Info Length 127",
         "no further message for that REQ", rej_long_info),
    asks("28", "rej-private-data-148", "IBA §12.6.7", must, "REJ 28 whose private data is full",
         "no further message for that REQ", rej_full),
    asks("29", "rej-twice", "IBA §12.9", must, "the REJ twice", "silence", rej_twice),
    asks("30", "rep-after-rej", "IBA §12.6.7.2", must, "REP after the REJ of the REQ",
         "REJ 6 (invalid communication ID) of the REP", rep_after_rej),
    asks("31", "rej-of-another", "IBA §12.9", must, "REJ of an unknown communication ID, then the REP",
         "silence; the REP is accepted", rej_of_another),
    asks("32", "rep-of-another", "IBA §12.6.7.2", must, "REP to an unknown communication ID, then the right one",
         "REJ 6 (invalid communication ID) of the first; the second is accepted", rep_of_another),
    asks("33", "rtu-to-the-initiator", "IBA §12.9", must, "RTU, then the REP", "silence; the REP is accepted",
         rtu_to_initiator),
    asks("34", "mra-of-another", "IBA §12.9", must, "MRA for an unknown communication ID, then the REP",
         "silence; the REP is accepted", mra_of_another),
    asks("35", "mra-holds-the-req", "IBA §12.6.6", must, "MRA of 4.3 s, then the REP",
         "no REQ meanwhile; the REP is accepted", mra),
    asks("36", "rej-after-mra", "IBA §12.9", must, "MRA, then REJ 28", "no further message for that REQ",
         rej_after_mra),
    asks("37", "stale-rep", "IBA §12.9", must, "REP with the queue pair of another established connection",
         "REJ 10 (stale connection)", stale_rep),
};

}  // namespace
}  // namespace rejected_table

std::span<const Case> rejected_cases() { return rejected_table::table; }

}  // namespace parley::conform::ibcm
