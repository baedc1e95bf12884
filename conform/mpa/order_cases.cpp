// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Segments of one message that are not in increasing order of MO or TO. RFC 5041 §5.3 requires that order of a Data
// Source only as a SHOULD, so a Data Sink should place them. The segment with the L bit is still the last one (§4.1).
#include <algorithm>

#include "conform/core/both_roles.hpp"
#include "conform/core/judge.hpp"

namespace parley::conform {
namespace order_table {
namespace {

using wire::DdpHeader;
using wire::RdmapOpcode;

/// Sends `payload` in three segments: the second third, the first, the last. MO and TO count from those of `header`.
void send_out_of_order(Conn& conn, const DdpHeader& header, ConstBytes payload) {
  const std::size_t third = payload.size() / 3;
  for (const std::size_t at : {third, std::size_t{0}, 2 * third}) {
    DdpHeader h = header;
    h.last = at == 2 * third;
    h.mo = static_cast<std::uint32_t>(header.mo + at);
    h.to = header.to + at;
    conn.send_fpdu(tester::segment(h, payload.subspan(at, h.last ? payload.size() - at : third)));
  }
}

/// Judges how the peer handled it by its answer to a following segment of RDMAP version 0. `open`: Terminates that have
/// another cause.
Task<Observation> judged_by_what_follows(Tester& b, Conn& conn, std::span<const TermCode> open = {}) {
  conn.send_fpdu(wrong_version_segment(conn.next_send()));
  const Received received = co_await conn.receive_terminate(b.settings().reply);
  if (means(received, wrong_version)) co_return pass("taken");
  // By then the program above has the message, and may close because of it.
  if (received.closed())
    co_return unclear(ending_text(received) + " without a Terminate; it may be the program's wish");
  for (const TermCode& code : open)
    if (means(received, code)) co_return unclear(ending_text(received) + ": " + std::string(not_for_writes_why));
  Observation f = failed(ending_text(received));
  f.silent = received.kind == Received::Kind::silence;
  co_return f;
}

Task<Observation> send_out_of_order(Tester& b) {
  const std::size_t size = std::min<std::size_t>(b.settings().recv_size.value_or(0), 16);
  if (size < 3) co_return unclear("no receive of three octets or more is known of (--recv-size)");
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  // The message names the memory that rping's server reads next, so its Read shows where the octets were placed.
  const bool named = b.settings().ulp == Ulp::rping && !b.initiator();
  const Bytes ad = rping_advertisement();
  send_out_of_order(*conn, tester::send_header(conn->next_send()), named ? ad : Bytes(size, 0));
  for (unsigned i = 0; named && i < 4; ++i) {
    const Received asked = co_await conn->receive_fpdu(b.settings().reply);
    if (asked.kind != Received::Kind::fpdu || asked.is(RdmapOpcode::terminate)) {
      Observation f = failed(ending_text(asked));
      f.silent = asked.kind == Received::Kind::silence;
      co_return f;
    }
    const auto read = asked.is(RdmapOpcode::read_request) ? wire::ReadRequest::parse(asked.payload())
                                                          : tl::unexpected(Errc::malformed);
    if (!read || read->size == 0) continue;
    const Region told = rping_region(ad);
    if (read->source_stag != told.stag || read->source_to != told.to)
      co_return failed("a Read of other memory than the message named: its octets are not where they belong");
    break;
  }
  const Observation f = co_await judged_by_what_follows(b, *conn);
  co_return f;
}

Task<Observation> write_out_of_order(Tester& b) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  const auto region = co_await region_of(b, *conn);
  if (!region || region->length < 3) co_return unclear("the peer names no memory of its own (--ulp rping)");
  send_out_of_order(*conn, tester::write_header(region->stag, region->to), Bytes(std::min(region->length, 48U), 0));
  const Observation f = co_await judged_by_what_follows(b, *conn, not_for_writes);
  co_return f;
}

Task<Observation> response_out_of_order(Tester& b) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  const auto sink = co_await region_of(b, *conn);
  if (!sink || sink->length < 3) co_return unclear("the peer asks for no Read (--ulp rping)");
  send_out_of_order(*conn, tester::read_response_header(sink->stag, sink->to), Bytes(sink->length, 0));
  const Observation f = co_await judged_by_what_follows(b, *conn);
  co_return f;
}

constexpr std::string_view clause = "RFC 5041 §5.3";
constexpr Case table[] = {
    BOTH("92", "send-segments-out-of-order", clause, should,
         "a Send in three segments, the second one first, the one with L last", "accepted, as if they were in order",
         send_out_of_order),
    BOTH("93", "write-segments-out-of-order", clause, should,
         "a Write in three segments, the second one first, to memory that the peer advertised",
         "accepted, as if they were in order", write_out_of_order),
    Case{"94", "read-response-out-of-order", Iut::responder, clause, Level::should, false,
         "a Read Response in three segments, the second one first", "accepted, as if they were in order",
         response_out_of_order},
};

}  // namespace
}  // namespace order_table

std::span<const Case> order_cases() { return order_table::table; }

}  // namespace parley::conform
