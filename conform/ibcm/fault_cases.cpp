// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Requests on the queue pair of a connection that the peer must NAK or drop: IBA §9.6, §9.7.4.1.
#include "conform/ibcm/judge.hpp"
#include "conform/ibcm/table.hpp"

namespace parley::conform::ibcm {
namespace fault_table {
namespace {

bool invalid(const PeerPacket& h) { return h.is_nak(Nak::invalid_request); }
bool inoperable(const PeerPacket& h) { return h.is_nak(Nak::remote_operational_error); }
bool no_access(const PeerPacket& h) { return h.is_nak(Nak::remote_access_error); }

Request request_of(Operation operation, std::size_t payload) {
  Request request = nothing(0);
  request.operation = operation;
  request.payload = Bytes(payload, 0x5A);
  return request;
}
/// A request with an address and an R_Key that do not exist.
Request request_at(Operation operation, std::uint32_t length, std::size_t payload) {
  Request request = request_of(operation, payload);
  request.reth = {.va = 0x7E57AB1E0000, .r_key = 0xDEADBE00, .dma_length = length};
  return request;
}

Task<Observation> send_middle(Tester& b) { return answered(b, request_of(Operation::send_middle, 1024), invalid); }
Task<Observation> send_last(Tester& b) { return answered(b, request_of(Operation::send_last, 16), invalid); }
Task<Observation> write_middle(Tester& b) { return answered(b, request_of(Operation::write_middle, 1024), invalid); }
Task<Observation> write_last(Tester& b) { return answered(b, request_of(Operation::write_last, 16), invalid); }
Task<Observation> short_first(Tester& b) { return answered(b, request_of(Operation::send_first, 8), invalid); }
// If the receive is also too short, the NAK may be for that.
Task<Observation> beyond_mtu(Tester& b) {
  return answered(b, request_of(Operation::send_only, 1028),
                  [](const PeerPacket& h) { return invalid(h) || inoperable(h); });
}

// IBA §9.7.4.1 answers a reserved opcode with a NAK; §9.6 drops an opcode of no service. Both pass, an ACK does not.
Task<Observation> unassigned(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  const Request request = nothing(link.psn);
  b.send_request(link, request, {.opcode = 0x1F});
  const PeerPacket heard = co_await response(b, link, b.settings().quiet);
  if (invalid(heard)) co_return pass(heard.text());
  if (!heard.silence) co_return failed(heard.text());
  const std::string wrong = co_await still_serves(b, link);
  if (!wrong.empty()) co_return failed("silence, and then a valid request was answered by " + wrong);
  co_return pass("silence, and a valid request is acknowledged");
}

Task<Observation> write_bad_key(Tester& b) { return answered(b, request_at(Operation::write_only, 16, 16), no_access); }
Task<Observation> write_key_0(Tester& b) {
  Request request = request_at(Operation::write_only, 16, 16);
  request.reth.r_key = 0;
  return answered(b, std::move(request), no_access);
}
Task<Observation> write_longer(Tester& b) { return answered(b, request_at(Operation::write_only, 0, 16), invalid); }

Task<Observation> read_bad_key(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  Request request = request_at(Operation::read_request, 16, 0);
  request.psn = link.psn;
  b.send_request(link, request);
  const PeerPacket heard = co_await response(b, link, b.settings().reply);
  if (link.rep->responder_resources == 0 && invalid(heard)) co_return pass(heard.text() + ": the REP allows no Reads");
  co_return no_access(heard) ? pass(heard.text()) : failed(heard.text());
}

// IBA §9.7.4.1.2: a queue pair without atomics answers NAK invalid request before it checks the R_Key.
Task<Observation> atomic_bad_key(Tester& b) {
  Request request = nothing(0);
  request.operation = Operation::fetch_add;
  request.atomic = {.va = 0x7E57AB1E0000, .r_key = 0xDEADBE00, .swap_add = 1};
  return answered(b, request, [](const PeerPacket& h) { return no_access(h) || invalid(h); });
}
Task<Observation> atomic_askew(Tester& b) {
  Request request = nothing(0);
  request.operation = Operation::fetch_add;
  request.atomic = {.va = 0x7E57AB1E0003, .r_key = 0xDEADBE00, .swap_add = 1};
  return answered(b, request, [](const PeerPacket& h) { return no_access(h) || invalid(h); });
}

Task<Observation> dead_after_nak(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  Request request = request_at(Operation::write_only, 16, 16);
  request.psn = link.next_psn();
  b.send_request(link, request);
  const PeerPacket nak = co_await response(b, link, b.settings().reply);
  if (!no_access(nak)) co_return unclear(nak.text());
  for (const std::uint32_t psn : {request.psn, link.psn}) {
    const Request next = nothing(psn);
    b.send_request(link, next);
  }
  const PeerPacket heard = co_await response(b, link, b.settings().quiet);
  co_return heard.is_ack() ? failed("a later request is acknowledged") : pass("no later request is acknowledged");
}

/// Sends a First without its Last, then the start of another message.
Task<Observation> first_alone(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  Request first = request_of(Operation::send_first, 1024);
  first.psn = link.next_psn();
  b.send_request(link, first);
  const PeerPacket taken = co_await response(b, link, b.settings().reply);
  if (taken.is_rnr()) co_return unclear("RNR NAK: the peer has no receive posted");
  if (invalid(taken) || inoperable(taken)) co_return unclear("the receive is shorter than a First: " + taken.text());
  if (!taken.is_ack()) co_return failed(taken.text());
  const Request next = nothing(link.psn);
  b.send_request(link, next);
  const PeerPacket heard = co_await response(b, link, b.settings().reply);
  co_return invalid(heard) ? pass(heard.text()) : failed(heard.text());
}

// ---- dropped
// -----------------------------------------------------------------------------------------------------------

Task<Observation> p_key(Tester& b) { return request_dropped(b, nothing(0), {.p_key = 0x9234}); }
Task<Observation> tver(Tester& b) { return request_dropped(b, nothing(0), {.tver = 1}); }
Task<Observation> icrc(Tester& b) { return request_dropped(b, nothing(0), {.bad_icrc = true}); }
Task<Observation> unknown_qp(Tester& b) { return request_dropped(b, nothing(0), {.dest_qpn = 0xFFFF10}); }
Task<Observation> opcode_of_uc(Tester& b) {
  return request_dropped(b, request_of(Operation::send_only, 0),
                         {.opcode = wire::ib::opcode_of(wire::ib::Service::uc, Operation::send_only)});
}
Task<Observation> opcode_of_ud(Tester& b) {
  return request_dropped(b, request_of(Operation::send_only, 8),
                         {.opcode = wire::ib::opcode_of(wire::ib::Service::ud, Operation::send_only)});
}

Task<Observation> reserved(Tester& b) {
  return answered(b, nothing(0), [](const PeerPacket& h) { return h.is_ack(); }, {.reserved = true});
}

constexpr Case table[] = {
    row("100", "send-middle-without-first", "IBA §9.7.4.1", must, "a SEND Middle as the first packet",
        "NAK invalid request", send_middle),
    row("101", "send-last-without-first", "IBA §9.7.4.1", must, "a SEND Last as the first packet",
        "NAK invalid request", send_last),
    row("102", "write-middle-without-first", "IBA §9.7.4.1", must, "a WRITE Middle as the first packet",
        "NAK invalid request", write_middle),
    row("103", "write-last-without-first", "IBA §9.7.4.1", must, "a WRITE Last as the first packet",
        "NAK invalid request", write_last),
    row("104", "first-without-last", "IBA §9.7.4.1", must, "a SEND First, then a WRITE Only", "NAK invalid request",
        first_alone),
    row("105", "first-shorter-than-mtu", "IBA §9.7.4.1", must, "a SEND First of 8 octets", "NAK invalid request",
        short_first),
    row("106", "only-longer-than-mtu", "IBA §9.7.4.1", must, "a SEND Only of 1028 octets with a path MTU of 1024",
        "NAK invalid request, or remote operational error if the receive is too short", beyond_mtu),
    row("107", "unassigned-opcode", "IBA §9.7.4.1", must, "opcode 1F",
        "NAK invalid request, or silence (IBA §9.6: no service has the opcode)", unassigned),
    row("108", "write-bad-key", "IBA §9.7.4.1", must, "a Write of 16 octets with an unknown key",
        "NAK remote access error", write_bad_key),
    row("109", "write-key-0", "IBA §9.7.4.1", must, "a Write of 16 octets with R_Key 0", "NAK remote access error",
        write_key_0),
    // Linux 6.1's rxe copies to a memory region that it did not look up.
    destructive(row("110", "write-longer-than-it-says", "IBA §9.7.4.1", must, "a Write with 16 octets and DMA Length 0",
                    "NAK invalid request", write_longer)),
    row("111", "read-bad-key", "IBA §9.7.4.1", must, "a Read of 16 octets with an unknown key",
        "NAK remote access error, or invalid request if the REP allows no Reads", read_bad_key),
    row("112", "atomic-bad-key", "IBA §9.7.4.1", must, "a FetchAdd with an unknown key",
        "NAK remote access error, or invalid request if atomics are not allowed", atomic_bad_key),
    row("113", "atomic-not-aligned", "IBA §9.4.5", must, "a FetchAdd at an odd address",
        "NAK invalid request or remote access error", atomic_askew),
    row("114", "nothing-after-a-nak", "IBA §9.7.4.1", must, "requests after a NAK remote access error", "no ACK",
        dead_after_nak),
    row("115", "p-key-of-another", "IBA §9.6.1.4", must, "a Write with P_Key 9234", "dropped", p_key),
    row("116", "transport-version-1", "IBA §9.2.4", must, "a Write with TVer 1", "dropped", tver),
    row("117", "bad-icrc", "IBA §7.8.1", must, "a Write with a wrong ICRC", "dropped", icrc),
    row("118", "unknown-queue-pair", "IBA §9.6.1", must, "a Write to an unknown queue pair", "dropped", unknown_qp),
    row("119", "opcode-of-uc", "IBA §9.6.1.3", must, "a UC SEND Only", "dropped", opcode_of_uc),
    row("120", "opcode-of-ud", "IBA §9.6.1.3", must, "a UD SEND Only", "dropped", opcode_of_ud),
    row("121", "reserved-bits-of-the-bth", "IBA §9.2", must, "a Write with MigReq, FECN, BECN and all reserved bits",
        "ACK", reserved),
};

}  // namespace
}  // namespace fault_table

std::span<const Case> request_fault_cases() { return fault_table::table; }

}  // namespace parley::conform::ibcm
