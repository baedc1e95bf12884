// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Faulty DDP segments and RDMAP messages, and the Terminates that must answer them. A case depends on the program above
// only if a receive must be posted. RFC 5041 §5, §7.1, RFC 5040 §4, §5, §7, RFC 7306.
#include <algorithm>

#include <fmt/format.h>

#include "conform/core/both_roles.hpp"
#include "conform/core/judge.hpp"

namespace parley::conform {
namespace rdmap_table {
namespace {

using wire::DdpHeader;
using wire::RdmapOpcode;

const TermCode no_buffer{1, 2, 0x02};
constexpr std::string_view no_buffer_why = "no receive is posted, or none that the tester knows of (--recv-size)";

/// One faulty FPDU.
Task<Observation> one(Tester& b, Bytes ulpdu, TerminateDue due) {
  Provocation p;
  p.steps.push_back({std::move(ulpdu)});
  p.due = std::move(due);
  return provoke(b, std::move(p));
}

Bytes send_of(std::size_t size, DdpHeader header) { return tester::segment(header, Bytes(size, 0)); }

Task<Observation> ddp_version_untagged(Tester& b) {
  DdpHeader h = tester::send_header(1);
  h.ddp_version = 0;
  return one(b, send_of(16, h), {.codes = {{1, 2, 0x06}}});
}
Task<Observation> ddp_version_tagged(Tester& b) {
  DdpHeader h = tester::write_header(1, 0);
  h.ddp_version = 0;
  return one(b, tester::segment(h), {.codes = {{1, 1, 0x04}}});
}
Task<Observation> rdmap_version(Tester& b) { return one(b, wrong_version_segment(1), {.codes = {wrong_version}}); }

Bytes unassigned() {
  DdpHeader h = tester::send_header(1);
  h.opcode = static_cast<RdmapOpcode>(0xF);
  return send_of(8, h);
}
Task<Observation> opcode_f(Tester& b) { return one(b, unassigned(), {.codes = {{0, 2, 0x06}}}); }
Task<Observation> header_of_segment(Tester& b) {
  return one(b, unassigned(), {.codes = {{0, 2, 0x06}}, .parts_judged = true});
}

Task<Observation> qn_5(Tester& b) {
  DdpHeader h = tester::send_header(1);
  h.qn = 5;
  return one(b, send_of(16, h), {.codes = {{1, 2, 0x01}}});
}
Task<Observation> msn_2(Tester& b) {
  return one(b, send_of(16, tester::send_header(2)),
             {.codes = {{1, 2, 0x03}}, .unclear = {no_buffer}, .unclear_why = no_buffer_why});
}
Task<Observation> mo_4(Tester& b) {
  DdpHeader h = tester::send_header(1);
  h.mo = 4;
  TerminateDue due{.codes = {{1, 2, 0x04}}};
  // Without a receive, or with one of less than 8 octets, the peer may report that error first.
  if (!b.settings().recv_size) due.unclear = {no_buffer};
  if (b.settings().recv_size.value_or(0) < 8) due.codes = {{1, 2, 0x04}, {1, 2, 0x05}};
  due.unclear_why = no_buffer_why;
  return one(b, send_of(4, h), std::move(due));
}

Task<Observation> too_long(Tester& b) {
  const auto size = b.settings().recv_size;
  if (!size) co_return unclear("the size of the first receive is not known (--recv-size)");
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  const std::size_t most = 1400;
  if (*size + 1024 > most) co_return unclear("the first receive is longer than a segment");
  Provocation p;
  p.steps.push_back({send_of(*size + 1024, tester::send_header(conn->next_send()))});
  p.due.codes = {{1, 2, 0x05}};
  const Observation f = co_await provoke_on(b, *conn, std::move(p));
  co_return f;
}

Task<Observation> more_sends_than_buffers(Tester& b) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  const unsigned known = b.settings().recv_count.value_or(0);
  const std::size_t size = b.settings().recv_size.value_or(16);
  Provocation p;
  for (unsigned i = 0; i < known + 64; ++i)
    p.steps.push_back({send_of(std::min<std::size_t>(size, 16), tester::send_header(conn->next_send()))});
  p.one_write = true;
  p.due.codes = {no_buffer, {1, 2, 0x03}};
  p.due.header = false;
  const Observation f = co_await provoke_on(b, *conn, std::move(p));
  // A program may post receives faster than Sends come, or close on an unwanted Send: neither breaks a rule.
  if (f.verdict == Verdict::fail && f.observed.find("Terminate ") != 0)
    co_return unclear("the program above took the Sends, or closed: " + f.observed);
  co_return f;
}

Task<Observation> tagged_send(Tester& b) {
  // Read as if T were 0, STag, TO and 4 octets are queue 0, MSN 1 and MO 0: a Send that a careless peer accepts.
  DdpHeader h = tester::write_header(0, 1);
  h.opcode = RdmapOpcode::send;
  Bytes ulpdu = tester::segment(h, Bytes(4 + 16, 0));
  return one(b, std::move(ulpdu), {.codes = {{0, 2, 0x06}, {1, 0, 0x00}, {1, 1, 0x00}}});
}
Task<Observation> untagged_write(Tester& b) {
  DdpHeader h = tester::send_header(1);
  h.opcode = RdmapOpcode::rdma_write;
  return one(b, send_of(16, h), {.codes = {{0, 2, 0x06}, {1, 0, 0x00}, {1, 2, 0x01}}});
}

// ---- Writes --------------------------------------------------------------------------------------------------------

Task<Observation> write_bad_stag(Tester& b) {
  return one(b, tester::segment(tester::write_header(0x123456, 0), Bytes{'a', 'b', 'c', 'd'}),
             {.codes = {{1, 1, 0x00}}});
}

Task<Observation> write_outside(Tester& b, bool wrap) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  const auto region = co_await region_of(b, *conn);
  if (!region) co_return unclear("the peer names no memory of its own (--ulp rping)");
  Provocation p;
  const std::uint64_t to = wrap ? ~std::uint64_t{15} : region->to + (std::uint64_t{1} << 40);
  p.steps.push_back({tester::segment(tester::write_header(region->stag, to), Bytes(64, 0))});
  p.due.codes = {{1, 1, 0x01}};
  // An address range that wraps is out of bounds as well.
  if (wrap) p.due.codes = {{1, 1, 0x03}, {1, 1, 0x01}};
  // Nothing requires the sink of a Read to be open to Writes.
  for (const TermCode& code : not_for_writes)
    if (!b.initiator() || code.layer == PARLEY_RDMAP_LAYER_RDMAP) p.due.unclear.list[p.due.unclear.size++] = code;
  p.due.unclear_why = not_for_writes_why;
  const Observation f = co_await provoke_on(b, *conn, std::move(p));
  co_return f;
}
Task<Observation> write_out_of_bounds(Tester& b) { return write_outside(b, false); }
Task<Observation> write_wraps(Tester& b) { return write_outside(b, true); }

Task<Observation> zero_write(Tester& b) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  for (const std::uint32_t stag : {0U, 0x123456U}) conn->send_fpdu(tester::segment(tester::write_header(stag, 0xDEAD)));
  const auto wrong = co_await still_understands(b, *conn);
  co_return wrong ? failed(*wrong) : pass("no error");
}

// ---- Reads ---------------------------------------------------------------------------------------------------------

Task<Observation> zero_read(Tester& b) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  if (conn->ird == 0) co_return unclear("no IRD was negotiated, so that a Read may be refused");
  // RFC 5040 §5.5: responses come in the order of the requests; the first may be the one to an indication.
  unsigned others = conn->reads_asked();
  for (const std::uint32_t stag : {0U, 0x123456U}) {
    conn->send_fpdu(tester::read_request(
        conn->next_read(), {.sink_stag = 0x11, .sink_to = 0x22, .size = 0, .source_stag = stag, .source_to = 7}));
    Received received;
    for (unsigned i = 0; i < 8; ++i) {
      received = co_await conn->receive_fpdu(b.settings().reply);
      if (received.kind != Received::Kind::fpdu || received.is(RdmapOpcode::terminate)) break;
      if (received.is(RdmapOpcode::read_response) && others-- == 0) break;
    }
    others = 0;
    if (!received.is(RdmapOpcode::read_response))
      co_return failed(ending_text(received) + " instead of a Read Response");
    if (const std::string fault = sink_fault(received, 0x11, 0x22); !fault.empty()) co_return failed(fault);
  }
  co_return pass("answered by a Read Response of no octets, the sink copied");
}

Task<Observation> bad_read(Tester& b, bool parts) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  if (conn->ird == 0) co_return unclear("no IRD was negotiated, so that a Read may be refused for that");
  Provocation p;
  p.steps.push_back({tester::read_request(
      conn->next_read(), {.sink_stag = 0x11, .sink_to = 0x22, .size = 16, .source_stag = 0x10555555, .source_to = 0})});
  p.due.codes = {{0, 1, 0x00}};
  p.due.read_request = true;
  p.due.parts_judged = parts;
  const Observation f = co_await provoke_on(b, *conn, std::move(p));
  co_return f;
}
Task<Observation> read_bad_stag(Tester& b) { return bad_read(b, false); }
Task<Observation> read_header_of_segment(Tester& b) { return bad_read(b, true); }

Task<Observation> read_msn_2(Tester& b) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  Provocation p;
  p.steps.push_back({tester::read_request(conn->next_read() + 1, {.sink_stag = 1, .source_stag = 1})});
  p.due.codes = {{1, 2, 0x03}};
  const Observation f = co_await provoke_on(b, *conn, std::move(p));
  co_return f;
}

Task<Observation> read_on_queue_0(Tester& b) {
  Bytes body(PARLEY_RDMAP_READ_REQUEST_LEN);
  wire::ReadRequest{.sink_stag = 1, .source_stag = 1}.emit(body);
  DdpHeader h = tester::send_header(1);
  h.opcode = RdmapOpcode::read_request;
  Bytes ulpdu = tester::segment(h, body);
  return one(b, std::move(ulpdu), {.codes = {{1, 2, 0x01}, {0, 2, 0x06}}});
}

Task<Observation> reads_over_ird(Tester& b) {
  Conn* conn = co_await b.set_up({.ord = 1});
  if (conn == nullptr) co_return b.trouble();
  // Under revision 1 the peer announces no IRD, so its limit is unknown.
  const unsigned ird = conn->reply.enhanced     ? conn->reply.enhanced->ird
                       : conn->request.enhanced ? conn->request.enhanced->ird
                                                : 0;
  if (ird > 200) co_return unclear("the peer's IRD is too large to be exceeded, or not negotiated");
  const unsigned count = ird + 32;
  Provocation p;
  for (unsigned i = 0; i < count; ++i)
    p.steps.push_back({tester::read_request(conn->next_read(), {.sink_stag = 0x11, .source_stag = 1})});
  p.one_write = true;
  p.due.header = false;
  const Observation f = co_await provoke_on(b, *conn, std::move(p));
  if (f.verdict == Verdict::fail && f.silent && conn->passed_over >= count) co_return pass("all of them were answered");
  co_return f;
}

Task<Observation> unasked_read_response(Tester& b) {
  return one(b, tester::segment(tester::read_response_header(1, 0), Bytes{'a', 'b', 'c', 'd'}),
             {.codes = {{0, 2, 0x06}, {1, 1, 0x00}, {0, 1, 0x00}, {1, 1, 0x02}}});
}

Task<Observation> unasked_atomic_response(Tester& b) {
  DdpHeader h = tester::send_header(1);
  h.opcode = RdmapOpcode::atomic_response;
  h.qn = PARLEY_DDP_QN_ATOMIC_RESPONSE;
  return one(b, send_of(PARLEY_RDMAP_ATOMIC_RESPONSE_LEN, h), {.codes = {{0, 2, 0x06}, {1, 2, 0x01}, {1, 2, 0x03}}});
}

// ---- Sends of other kinds ------------------------------------------------------------------------------------------

Task<Observation> invalidate_foreign(Tester& b) {
  DdpHeader h = tester::send_header(1);
  h.opcode = RdmapOpcode::send_inv;
  h.stag = 0xDEADBE00;
  TerminateDue due{.codes = {{0, 1, 0x09}, {0, 2, 0x09}, {0, 1, 0x03}, {0, 1, 0x00}}};
  if (!b.settings().recv_size) due.unclear = {no_buffer};
  due.unclear_why = no_buffer_why;
  return one(b, send_of(16, h), std::move(due));
}

Task<Observation> immediate_7(Tester& b) {
  DdpHeader h = tester::send_header(1);
  h.opcode = RdmapOpcode::immediate;
  return one(b, send_of(7, h), {});
}

Task<Observation> atomic_misaligned(Tester& b) {
  wire::AtomicRequest request;
  request.aop = PARLEY_RDMAP_ATOMIC_FETCH_ADD;
  request.request_id = 1;
  request.stag = 1;
  request.to = 4;
  Bytes body(PARLEY_RDMAP_ATOMIC_REQUEST_LEN);
  request.emit(body);
  DdpHeader h = tester::send_header(1);
  h.opcode = RdmapOpcode::atomic_request;
  h.qn = PARLEY_DDP_QN_READ;
  // RFC 7306 §5.1: misalignment is 02 07; a peer without Atomics answers 02 06, and the STag is wrong as well.
  TerminateDue due{.codes = {{0, 2, 0x07}, {0, 2, 0x06}, {0, 1, 0x00}}};
  due.unclear = {{1, 2, 0x03}};
  due.unclear_why = "IRD 0, which is the first error found";
  return one(b, tester::segment(h, body), std::move(due));
}

// ---- the end -------------------------------------------------------------------------------------------------------

Task<Observation> silent_after_terminate(Tester& b) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  conn->send_fpdu(wrong_version_segment(conn->next_send()));
  const Received received = co_await conn->receive_terminate(b.settings().reply);
  if (!received.is(RdmapOpcode::terminate)) co_return unclear("no Terminate came: " + ending_text(received));
  conn->send_fpdu(tester::segment(tester::write_header(1, 0)));
  const Received after = co_await conn->receive_fpdu(b.settings().reply);
  if (after.kind == Received::Kind::fpdu) co_return failed(ending_text(after) + " after the Terminate");
  if (after.kind == Received::Kind::fin) co_return pass("FIN, nothing else");
  // RFC 5040 §6.2.1: a graceful close lets the Terminate arrive.
  if (after.kind == Received::Kind::rst) co_return pass("RST after the Terminate had arrived");
  co_return failed(ending_text(after) + ": the stream is not closed");
}

// RFC 5040 §6.2.1: the connection ends gracefully so that the Terminate is delivered. An RST makes TCP drop what the
// receiver has not read.
Task<Observation> terminate_then_fin(Tester& b) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  conn->send_fpdu(wrong_version_segment(conn->next_send()));
  const Received received = co_await conn->receive_terminate(b.settings().reply);
  if (received.kind == Received::Kind::rst) co_return failed("RST and no Terminate, or one that it overtook");
  if (!received.is(RdmapOpcode::terminate)) co_return unclear("no Terminate came: " + ending_text(received));
  const Received after = co_await conn->receive_fpdu(b.settings().reply);
  if (after.kind == Received::Kind::rst) co_return failed("RST straight after the Terminate, which it may overtake");
  if (after.kind == Received::Kind::fin) co_return pass("Terminate, then FIN");
  co_return unclear(ending_text(after) + " after the Terminate");
}

Task<Observation> terminate_received(Tester& b) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  wire::Terminate t;
  t.layer = PARLEY_RDMAP_LAYER_LLP;
  t.code = 5;
  Bytes body(t.size());
  t.emit(body);
  DdpHeader h = tester::send_header(1);
  h.opcode = RdmapOpcode::terminate;
  h.qn = PARLEY_DDP_QN_TERMINATE;
  conn->send_fpdu(tester::segment(h, body));
  // FPDUs that were in flight when the Terminate arrived are skipped.
  const Received after = co_await conn->receive_terminate(b.settings().reply);
  if (after.closed()) co_return pass(ending_text(after));
  co_return failed(ending_text(after) + " instead of the end of the connection");
}

// RFC 5044 §7.2: each half connection ends by itself. A Read requested before the FIN is answered after it.
Task<Observation> half_close(Tester& b) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  if (conn->ird == 0) co_return unclear("no IRD was negotiated, so that nothing can be asked for");
  conn->send_fpdu(tester::read_request(conn->next_read(), {.sink_stag = 0x11, .sink_to = 0x22, .source_stag = 1}));
  conn->send_fin();
  Received received;
  for (unsigned i = 0; i < 8; ++i) {
    received = co_await conn->receive_fpdu(b.settings().reply);
    if (received.kind != Received::Kind::fpdu || received.is(RdmapOpcode::terminate)) break;
    if (received.is(RdmapOpcode::read_response) && received.ddp->stag == 0x11) break;
  }
  if (received.closed()) co_return unclear("closed; the program above may have done so on hearing of the FIN");
  if (!received.is(RdmapOpcode::read_response))
    co_return failed(ending_text(received) + ", the Read before the FIN is not answered");
  const Received end = co_await conn->receive_terminate(b.settings().reply);
  if (end.kind == Received::Kind::silence) co_return pass("answered; the own half stays open");
  co_return pass("answered, then " + ending_text(end));
}

constexpr std::string_view ddp7 = "RFC 5041 §7.1", rd7 = "RFC 5040 §7.2";
constexpr Case table[] = {
    BOTH("49", "ddp-version-0-untagged", ddp7, must, "Send with DV=0", "Terminate 12 06", ddp_version_untagged),
    BOTH("49", "ddp-version-0-tagged", ddp7, must, "Write with DV=0", "Terminate 11 04", ddp_version_tagged),
    BOTH("50", "rdmap-version-0", rd7, must, "Send with RV=0", "Terminate 02 05", rdmap_version),
    BOTH("51", "opcode-f", rd7, must, "opcode F", "Terminate 02 06", opcode_f),
    BOTH("52", "queue-5", ddp7, must, "Send on queue 5", "Terminate 12 01", qn_5),
    BOTH("52", "msn-2-first", ddp7, must, "first Send with MSN 2", "Terminate 12 03", msn_2),
    BOTH("52", "mo-4-first", ddp7, must, "a message of one segment with MO 4", "Terminate 12 04", mo_4),
    BOTH("53", "message-too-long", ddp7, must, "Send 1024 octets longer than the receive", "Terminate 12 05", too_long),
    BOTH("54", "no-receive", ddp7, must, "64 more Sends than receives", "Terminate 12 02", more_sends_than_buffers),
    BOTH("55", "tagged-send", "RFC 5040 §4.1", must, "Send with T=1", "Terminate 02 06, or 10 00 or 11 00",
         tagged_send),
    BOTH("55", "untagged-write", "RFC 5040 §4.1", must, "Write with T=0", "Terminate 02 06, or 10 00 or 12 01",
         untagged_write),
    BOTH("56", "write-bad-stag", ddp7, must, "Write of 4 octets to STag 123456", "Terminate 11 00, length 18",
         write_bad_stag),
    BOTH("56", "write-out-of-bounds", ddp7, must, "Write far beyond memory that the peer advertised", "Terminate 11 01",
         write_out_of_bounds),
    // A peer that compares sums without regard to overflow may write outside its memory region.
    Case{"56", "write-wraps", Iut::responder, ddp7, Level::must, true, "Write beyond the end of the address space",
         "Terminate 11 03 (or 11 01)", write_wraps},
    Case{"56", "write-wraps", Iut::initiator, ddp7, Level::must, true, "Write beyond the end of the address space",
         "Terminate 11 03 (or 11 01)", write_wraps},
    BOTH("57", "zero-write-any-stag", "RFC 5041 §5.1", must, "zero-length Writes to STag 0 and 123456", "no error",
         zero_write),
    BOTH("58", "zero-read-any-stag", "RFC 5040 §5.2", must, "zero-length Reads from STag 0 and 123456",
         "zero-length Read Responses, the sink copied", zero_read),
    BOTH("59", "read-bad-stag", rd7, must, "Read of 16 octets from STag 10555555",
         "Terminate 01 00 E0 with the DDP and Read Request headers", read_bad_stag),
    BOTH("60", "reads-over-ird", "RFC 5040 §5.2.1", should, "32 more zero-length Reads than IRD in one write",
         "a Terminate (no code is assigned), or all are answered", reads_over_ird),
    BOTH("61", "invalidate-foreign-stag", rd7, must, "Send with Invalidate of STag DEADBE00",
         "Terminate 01 09 or 02 09", invalidate_foreign),
    BOTH("62", "msn-wrap", "RFC 5041 §4.3", must, "2^32 messages",
         "MSN 0 after FFFFFFFF; not testable on a live peer in reasonable time; Parley's unit tests cover it", nullptr),
    BOTH("63", "silent-after-terminate", "RFC 5040 §5.4", must, "an error, and a Write after it",
         "Terminate, nothing more, TCP closed", silent_after_terminate),
    BOTH("64", "half-close", "RFC 5044 §7.2", must, "zero-length Read, then FIN", "Read Response after the FIN",
         half_close),
    BOTH("68", "immediate-of-7-octets", "RFC 7306 §6.3", must, "Immediate Data of 7 octets", "a Terminate",
         immediate_7),
    BOTH("69", "atomic-misaligned", "RFC 7306 §5.1", must, "FetchAdd at TO 4 of STag 1",
         "Terminate 02 07; 02 06 without Atomics; 01 00 for the STag", atomic_misaligned),
    BOTH("80", "terminate-carries-segment-header", "RFC 5040 §4.8", should, "opcode F",
         "M and D set, with the header and the length of the segment", header_of_segment),
    BOTH("81", "terminate-carries-read-header", "RFC 5040 §4.8", should, "Read of 16 octets from STag 10555555",
         "M, D and R set: 70 octets", read_header_of_segment),
    BOTH("82", "terminate-received", "RFC 5040 §5.4", must, "a Terminate", "TCP closed, no further message",
         terminate_received),
    BOTH("83", "read-msn-2-first", ddp7, must, "first Read Request with MSN 2", "Terminate 12 03", read_msn_2),
    BOTH("84", "read-on-queue-0", ddp7, must, "Read Request on queue 0", "Terminate 12 01 or 02 06", read_on_queue_0),
    BOTH("85", "read-response-unasked", rd7, must, "a Read Response of 4 octets that was not requested",
         "Terminate 02 06, or 11 00, 11 02 or 01 00", unasked_read_response),
    BOTH("86", "atomic-response-unasked", "RFC 7306 §5.2", must, "an Atomic Response that was not requested",
         "Terminate 02 06, or 12 01 or 12 03", unasked_atomic_response),
    BOTH("95", "terminate-then-fin", "RFC 5040 §6.2.1", should, "an error, and nothing after it",
         "Terminate, then FIN; an RST may overtake it", terminate_then_fin),
};

}  // namespace
}  // namespace rdmap_table

std::span<const Case> rdmap_cases() { return rdmap_table::table; }

}  // namespace parley::conform
