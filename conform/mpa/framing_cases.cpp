// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// FPDUs on the wire: CRC, markers, pad, lengths, and how TCP cuts them. RFC 5044 §4, §5, §7.1, §8.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "conform/core/both_roles.hpp"
#include "conform/core/judge.hpp"
#include "mpa/fpdu.hpp"

namespace parley::conform {
namespace framing_table {
namespace {

using wire::RdmapOpcode;

constexpr TermCode crc_error{2, 0, 2}, marker_error{2, 0, 3};
constexpr std::uint8_t flag_c = PARLEY_MPA_FLAG_C;

Bytes zero_write() { return tester::segment(tester::write_header(1, 0)); }

// ---- CRC -----------------------------------------------------------------------------------------------------------

Task<Observation> bad_crc(Tester& b) {
  Provocation p;
  p.steps.push_back({tester::segment(tester::write_header(1, 0)), {.bad_crc = true}});
  p.due = {.codes = {crc_error}, .header = false};
  return provoke(b, std::move(p));
}

Task<Observation> bad_crc_after_good(Tester& b) {
  Provocation p;
  for (unsigned i = 0; i < 3; ++i) p.steps.push_back({zero_write()});
  p.steps.push_back({zero_write(), {.bad_crc = true}});
  p.one_write = true;
  p.due = {.codes = {crc_error}, .header = false};
  return provoke(b, std::move(p));
}

// RFC 5044 §7.1.1: CRC in both directions if either side asks. The peer's Terminate shows whether it uses CRC: the
// tester accepts it only with a correct CRC.
Task<Observation> crc_if_one_asks(Tester& b, bool tester_asks) {
  Conn* conn = co_await b.set_up({.crc = tester_asks});
  if (conn == nullptr) co_return b.trouble();
  const Received& frame = b.initiator() ? conn->request : conn->reply;
  const bool peer_asks = (frame.flags & flag_c) != 0;
  if (!tester_asks && !peer_asks) co_return unclear("neither side asks for CRC");
  if (tester_asks && b.initiator() && peer_asks) co_return unclear("the initiator asks for CRC itself");
  conn->send_fpdu(zero_write(), {.bad_crc = true});
  const Received received = co_await conn->receive_terminate(b.settings().reply);
  if (means(received, crc_error)) co_return pass("a wrong CRC is noticed, and the answer's CRC is right");
  co_return failed("CRC was asked for, but after a wrong one came " + ending_text(received));
}
Task<Observation> crc_asked(Tester& b) { return crc_if_one_asks(b, true); }
Task<Observation> crc_asked_by_peer(Tester& b) { return crc_if_one_asks(b, false); }

Task<Observation> crc_off(Tester& b) {
  Conn* conn = co_await b.set_up({.crc = false});
  if (conn == nullptr) co_return b.trouble();
  if (conn->crc()) co_return unclear("the peer asks for CRC");
  Bytes octets = conn->out().write(zero_write());
  std::fill(octets.end() - PARLEY_MPA_CRC_LEN, octets.end(), std::uint8_t{0xFF});
  conn->send("zero-length Write with FFFFFFFF for the CRC", octets);
  const auto wrong = co_await still_understands(b, *conn);
  co_return wrong ? failed(*wrong) : pass("accepted");
}

// ---- pad and reserved bits -----------------------------------------------------------------------------------------

Task<Observation> nonzero_pad(Tester& b) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  // One octet of payload needs a pad of three; the answer shows whether the peer read the segment.
  wire::DdpHeader h = tester::send_header(conn->next_send());
  h.rdmap_version = 0;
  conn->send_fpdu(tester::segment(h, Bytes{1}), {.pad = 0xFF});
  const Received received = co_await conn->receive_terminate(b.settings().reply);
  if (means(received, wrong_version)) co_return pass("the segment was read");
  co_return failed(ending_text(received));
}

Task<Observation> reserved_ddp_bits(Tester& b) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  Bytes ulpdu = zero_write();
  ulpdu.front() |= PARLEY_DDP_RSVD;
  conn->send_fpdu(ulpdu);
  const auto wrong = co_await still_understands(b, *conn);
  co_return wrong ? failed(*wrong) : pass("ignored");
}

Task<Observation> wrong_length(Tester& b, Bytes ulpdu) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  // A peer that reads only whole headers needs more octets before it notices.
  conn->send_fpdu(ulpdu);
  conn->send_fpdu(zero_write());
  const Received received = co_await conn->receive_terminate(b.settings().reply);
  if (received.closed()) co_return pass(ending_text(received));
  // No code is assigned: a peer that reads on may find an invalid version, and MPA has a code for lengths that do not
  // fit.
  TerminateDue due;
  due.codes = {{1, 0, 0x00}, {2, 0, 0x03}, {1, 2, 0x06}, {1, 1, 0x04}, {0, 2, 0x05}, {0, 2, 0x06}, {0, 2, 0x07}};
  due.header = false;
  co_return judge_terminate(received, due);
}
Task<Observation> length_zero(Tester& b) { return wrong_length(b, {}); }
Task<Observation> length_4(Tester& b) { return wrong_length(b, {0x41, 0x43, 0, 0}); }

// ---- how TCP cuts it -----------------------------------------------------------------------------------------------

Task<Observation> cut_everywhere(Tester& b) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  const std::size_t size = mpa::fpdu::bare_size(PARLEY_DDP_TAGGED_LEN);
  for (std::size_t cut = 1; cut < size; ++cut) {
    const Bytes octets = conn->out().write(zero_write());
    conn->send(fmt::format("zero-length Write, the first {} octets", cut), ConstBytes(octets).first(cut));
    co_await b.peer().sleep(5ms);
    conn->send("the rest of it", ConstBytes(octets).subspan(cut));
    co_await b.peer().sleep(5ms);
  }
  const auto wrong = co_await still_understands(b, *conn);
  co_return wrong ? failed(*wrong) : pass("all decoded");
}

Task<Observation> many_in_one_segment(Tester& b) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  Bytes all;
  for (unsigned i = 0; i < 100; ++i) {
    const Bytes octets = conn->out().write(zero_write());
    all.insert(all.end(), octets.begin(), octets.end());
  }
  conn->send("100 zero-length Writes in one write", all);
  const auto wrong = co_await still_understands(b, *conn);
  co_return wrong ? failed(*wrong) : pass("all decoded");
}

Task<Observation> octet_by_octet(Tester& b) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  const Bytes octets = conn->out().write(zero_write());
  for (std::size_t at = 0; at < octets.size(); ++at) {
    conn->send(fmt::format("octet {} of a zero-length Write", at), ConstBytes(octets).subspan(at, 1));
    co_await b.peer().sleep(5ms);
  }
  const auto wrong = co_await still_understands(b, *conn);
  co_return wrong ? failed(*wrong) : pass("decoded");
}

void send_empty_read(Conn& conn, std::uint32_t sink) {
  conn.send_fpdu(tester::read_request(conn.next_read(), {.sink_stag = sink, .source_stag = 1}));
}
/// The Response to that Read, or what came instead. Unsolicited FPDUs of the peer are skipped.
Task<Received> receive_answer(Tester& b, Conn& conn, std::uint32_t sink) {
  Received received;
  for (unsigned n = 0; n < 8; ++n) {
    received = co_await conn.receive_fpdu(b.settings().reply);
    if (received.kind != Received::Kind::fpdu || received.is(RdmapOpcode::terminate)) break;
    if (received.is(RdmapOpcode::read_response) && received.ddp->stag == sink) break;
  }
  co_return received;
}

// ---- markers from the peer -----------------------------------------------------------------------------------------

/// A connection on which the peer must insert markers.
Task<Conn*> with_markers(Tester& b, bool enhanced, Observation& trouble) {
  Conn* conn = co_await b.set_up({.markers = true, .enhanced = enhanced});
  if (conn != nullptr) co_return conn;
  trouble = b.trouble();
  if (b.initiator()) {
    if (b.closed_early()) trouble = failed("a Reply with M=1 is not accepted, the initiator closes");
    co_return nullptr;
  }
  if (b.refused()) co_return nullptr;
  const std::string got = trouble.observed;
  const bool plain = co_await b.accepts_plain();
  if (plain) trouble = failed(got + ", where a Request without M is accepted");
  co_return nullptr;
}

Task<Observation> markers_asked(Tester& b, bool enhanced) {
  Observation trouble;
  Conn* conn = co_await with_markers(b, enhanced, trouble);
  if (conn == nullptr) co_return trouble;
  const auto wrong = co_await still_understands(b, *conn);
  if (wrong) co_return failed("its FPDUs, read with markers: " + *wrong);
  co_return pass("inserted, from the first octet on; the CRC covers them");
}
Task<Observation> markers_v1(Tester& b) { return markers_asked(b, false); }
Task<Observation> markers_any(Tester& b) { return markers_asked(b, true); }

// RFC 5044 §4.3: markers are inserted only in the direction for which they were requested.
Task<Observation> markers_not_asked(Tester& b) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  const auto wrong = co_await still_understands(b, *conn);
  if (wrong) co_return failed("its FPDUs, read without markers: " + *wrong);
  co_return pass(conn->markers_out() ? "it asks for markers and inserts none itself" : "none inserted");
}

/// Zero-length Reads until the peer has sent 2700 octets: its 20-octet responses then meet markers at every place of an
/// FPDU, including after the pad and between two FPDUs.
Task<Observation> markers_everywhere(Tester& b) {
  Observation trouble;
  Conn* conn = co_await with_markers(b, true, trouble);
  if (conn == nullptr) co_return trouble;
  if (conn->ird == 0) co_return unclear("no IRD was negotiated, so that the peer cannot be made to send");
  for (unsigned i = 0; i < 135; ++i) {
    send_empty_read(*conn, 0x11);
    const Received received = co_await receive_answer(b, *conn, 0x11);
    if (!received.is(RdmapOpcode::read_response))
      co_return failed(fmt::format("{} in place of Read Response {}", ending_text(received), i + 1));
  }
  co_return pass("5 markers and more at all places of an FPDU, pointers and CRC right");
}

// ---- markers from the tester ---------------------------------------------------------------------------------------

constexpr std::string_view no_markers_wanted = "the peer does not ask for markers";

Task<Observation> markers_received(Tester& b) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  if (!conn->markers_out()) co_return unclear(std::string(no_markers_wanted));
  for (unsigned i = 0; i < 135; ++i) conn->send_fpdu(zero_write());
  const auto wrong = co_await still_understands(b, *conn);
  co_return wrong ? failed(*wrong) : pass("all decoded");
}

Task<Observation> pointer_low_bits(Tester& b) {
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  if (!conn->markers_out()) co_return unclear(std::string(no_markers_wanted));
  for (unsigned i = 0; i < 60; ++i) conn->send_fpdu(zero_write(), {.fpduptr_add = 3});
  const auto wrong = co_await still_understands(b, *conn);
  co_return wrong ? failed(*wrong) : pass("treated as 0");
}

// RFC 5044 §8: no FPDU after the faulty one is passed up, so a Read after it gets no answer.
Task<Observation> wrong_pointer(Tester& b) {
  constexpr std::uint32_t before = 0x11, behind = 0x12;
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  if (!conn->markers_out()) co_return unclear(std::string(no_markers_wanted));
  // Later silence is evidence only if the peer answers a Read now.
  bool answers = false;
  if (conn->ird > 0) {
    send_empty_read(*conn, before);
    const Received alive = co_await receive_answer(b, *conn, before);
    answers = alive.is(RdmapOpcode::read_response);
  }
  for (unsigned i = 0; i < 30; ++i) conn->send_fpdu(zero_write(), {.fpduptr_add = 4});
  if (answers) {
    send_empty_read(*conn, behind);
  } else {
    conn->send_fpdu(wrong_version_segment(conn->next_send()));
  }
  const Received received = co_await receive_answer(b, *conn, behind);
  if (received.is(RdmapOpcode::read_response) || means(received, wrong_version))
    co_return failed("not noticed: what follows it is answered");
  if (received.closed()) co_return pass(ending_text(received) + "; nothing was made of the FPDU");
  if (received.kind != Received::Kind::silence)
    co_return judge_terminate(received, {.codes = {marker_error}, .header = false});
  co_return answers ? pass("dropped: a Read before it is answered, the one behind it is not")
                    : unclear("silence: dropped, or the peer hangs");
}

// ---- segmentation --------------------------------------------------------------------------------------------------

// RFC 5044 §4.5: MULPDU from the EMSS. rping's client has readable memory; its length is the option -S.
Task<Observation> mulpdu(Tester& b) {
  if (b.settings().ulp != Ulp::rping || !b.initiator())
    co_return unclear("the peer cannot be made to send much (an initiator that is rping can, --ulp rping)");
  Conn* conn = co_await b.set_up({});
  if (conn == nullptr) co_return b.trouble();
  const auto region = co_await rping_advertised(b, *conn);
  if (!region) co_return unclear("rping advertised nothing");
  const std::size_t emss = conn->stream().info().emss;
  const std::size_t most = std::max<std::size_t>(emss - 6 - emss % 4, PARLEY_MPA_MULPDU_MIN);
  if (region->length <= most)
    co_return unclear(
        fmt::format("rping's memory of {} octets fits into one FPDU; run it with a larger -S", region->length));
  conn->send_fpdu(tester::read_request(
      conn->next_read(),
      {.sink_stag = 0x11, .size = region->length, .source_stag = region->stag, .source_to = region->to}));
  const Instant limit = b.peer().now() + b.settings().timer;
  std::uint64_t got = 0;
  for (bool last = false; !last && got < region->length;) {
    const Duration left = limit - b.peer().now();
    if (left <= Duration{})
      co_return unclear(fmt::format("the Read Response did not end within {}", limit_text(b.settings().timer)));
    const Received received = co_await conn->receive_fpdu(std::min<Duration>(left, b.settings().reply));
    if (received.kind == Received::Kind::silence && b.peer().now() >= limit) continue;
    if (!received.is(RdmapOpcode::read_response))
      co_return failed(ending_text(received) + " instead of the Read Response");
    if (received.octets.size() > most) co_return failed("a ULPDU longer than MULPDU allows for this EMSS");
    got += received.payload().size();
    last = received.ddp->last;
  }
  if (got < region->length)
    co_return unclear("the Read Response is shorter than what was asked for: nothing was measured");
  co_return pass("no ULPDU longer than MULPDU");
}

constexpr std::string_view c44 = "RFC 5044 §4.4", c43 = "RFC 5044 §4.3";

constexpr Case table[] = {
    Case{"5", "markers-asked-v1", Iut::responder, c43, Level::must, false,
         "M=1 with revision 1, then an FPDU that requires a Terminate", "accepted; markers in what the peer sends",
         markers_v1},
    BOTH("5", "markers-asked", c43, must, "M=1, then an FPDU that requires a Terminate",
         "accepted; markers in what the peer sends", markers_any),
    BOTH("6", "markers-not-asked", c43, must, "M=0, then an FPDU that requires a Terminate",
         "no markers in what the peer sends, regardless of what it requested", markers_not_asked),
    BOTH("7", "crc-asked-by-tester", "RFC 5044 §7.1.1", must, "C=1 from the tester, then a wrong CRC",
         "CRC in both directions: the error is detected, and the Terminate's own CRC is right", crc_asked),
    BOTH("7", "crc-asked-by-peer", "RFC 5044 §7.1.1", must, "C=0 from the tester, C=1 from the peer, then a wrong CRC",
         "CRC in both directions: the error is detected, and the Terminate's own CRC is right", crc_asked_by_peer),
    BOTH("8", "crc-off", c44, must, "C=0 from both, FFFFFFFF for the CRC", "accepted", crc_off),
    BOTH("24", "cut-at-every-offset", "RFC 5044 §5", must, "19 FPDUs, each in two TCP segments, cut at each offset",
         "all decoded", cut_everywhere),
    BOTH("24", "many-fpdus-in-one-write", "RFC 5044 §5", must, "100 FPDUs in one write", "all decoded",
         many_in_one_segment),
    BOTH("24", "fpdu-octet-by-octet", "RFC 5044 §5", must, "an FPDU in segments of one octet", "decoded",
         octet_by_octet),
    BOTH("25-27", "markers-at-every-place-sent", c43, must, "M=1, then 135 zero-length Reads",
         "markers right at all places of an FPDU, the one before the CRC and the one between FPDUs included",
         markers_everywhere),
    BOTH("25-27", "markers-at-every-place-received", c43, must, "135 zero-length Writes with the requested markers",
         "all decoded", markers_received),
    BOTH("28", "wrong-fpduptr", "RFC 5044 §8", should, "FPDUPTR 4 too large, CRC right", "Terminate 20 03, or dropped",
         wrong_pointer),
    BOTH("29", "fpduptr-low-bits", c43, must, "the two low bits of FPDUPTR set", "treated as 0", pointer_low_bits),
    BOTH("30", "bad-crc", "RFC 5044 §8", must, "one bit of the CRC flipped", "Terminate 20 02", bad_crc),
    BOTH("30", "bad-crc-after-good", "RFC 5044 §8", must, "three good FPDUs and one with a wrong CRC in one write",
         "Terminate 20 02", bad_crc_after_good),
    BOTH("31", "nonzero-pad", "RFC 5044 §4.1", must, "pad of FF, CRC right", "ignored", nonzero_pad),
    Case{"67", "ulpdu-within-mulpdu", Iut::initiator, "RFC 5044 §4.5", Level::must, false,
         "a Read of memory that rping advertised", "no ULPDU longer than MULPDU", mulpdu},
    Case{"67", "ulpdu-within-mulpdu", Iut::responder, "RFC 5044 §4.5", Level::must, false, "-",
         "no ULPDU longer than MULPDU; no known program lets a responder send much; 'parley pcap check' checks it in a "
         "capture",
         nullptr},
    BOTH("87", "reserved-ddp-bits-ignored", "RFC 5041 §4.1", must, "zero-length Write with all reserved DDP bits set",
         "ignored", reserved_ddp_bits),
    BOTH("88", "ulpdu-length-0", "RFC 5044 §4.1", should, "ULPDU_Length 0", "a Terminate, or TCP closed", length_zero),
    BOTH("89", "ulpdu-length-4", "RFC 5041 §4", should, "ULPDU_Length 4: shorter than a DDP header",
         "a Terminate, or TCP closed", length_4),
};

}  // namespace
}  // namespace framing_table

std::span<const Case> framing_cases() { return framing_table::table; }

std::vector<const Case*> cases(Iut iut) {
  std::vector<const Case*> all;
  for (const auto& table_of :
       {startup_cases(), enhanced_cases(), initiator_cases(), framing_cases(), rdmap_cases(), order_cases()})
    for (const Case& c : table_of)
      if (c.iut == iut) all.push_back(&c);
  // Sorted by row; cases of one row stay in the tables' order.
  const auto row = [](const Case* c) {
    unsigned n = 0;
    for (const char digit : c->row) {
      if (digit < '0' || digit > '9') break;
      n = n * 10 + static_cast<unsigned>(digit - '0');
    }
    return n;
  };
  std::stable_sort(all.begin(), all.end(), [&](const Case* x, const Case* y) { return row(x) < row(y); });
  return all;
}

}  // namespace parley::conform
