// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A responder's answers to valid and invalid Requests: RFC 5044 §7.1.
#include <algorithm>

#include <fmt/format.h>

#include "conform/core/judge.hpp"

#include "base/text.hpp"

namespace parley::conform {
namespace startup_table {
namespace {

using tester::StartupOctets;
using wire::MpaKey;

constexpr std::uint8_t flag_m = PARLEY_MPA_FLAG_M, flag_c = PARLEY_MPA_FLAG_C, flag_r = PARLEY_MPA_FLAG_R,
                       flag_s = PARLEY_MPA_FLAG_S;

bool accepted(const Received& reply) { return reply.is(MpaKey::rep) && (reply.flags & flag_r) == 0; }

/// For a Request that was not accepted: fails if a plain Request, which must be treated in the same way, is accepted.
Task<Observation> not_accepted(Tester& b, std::string got) {
  const bool plain = co_await b.accepts_plain();
  if (plain) co_return failed(got + ", where a plain Request is accepted");
  co_return unclear(got + "; a plain Request is not accepted either");
}

/// Sends the Request; the Reply must accept. `wrong` returns what is wrong with the Reply; empty: nothing.
Task<Observation> answer(Tester& b, StartupOctets request, std::string (*wrong)(const Received& reply)) {
  Conn* conn = co_await b.ask(std::move(request));
  if (conn == nullptr) co_return b.trouble();
  const std::string got = frame_text(conn->reply);
  if (!accepted(conn->reply)) {
    const Observation f = co_await not_accepted(b, got);
    co_return f;
  }
  const std::string fault = wrong(conn->reply);
  co_return fault.empty() ? pass(got) : failed(got + ": " + fault);
}

std::string reserved_wrong(const Received& reply) {
  const unsigned res = reply.flags & PARLEY_MPA_RES_V1;
  return res == 0 ? "" : fmt::format("reserved bits {:02x} are set", res);
}

Task<Observation> plain_v1(Tester& b) {
  return answer(b, {.flags = flag_c}, [](const Received& reply) -> std::string {
    if (reply.revision != 1) return "Rev is not 1";
    return reserved_wrong(reply);
  });
}

Task<Observation> reserved_bits(Tester& b) { return answer(b, {.flags = flag_c | 0x0F}, reserved_wrong); }

// RFC 5044 §7.1.1 reserves the bit. The 2007 proposal uses it to offer the Rtr frame, which the peer must then accept.
Task<Observation> s_on_revision_1(Tester& b) {
  const StartupOctets request{.flags = flag_c | flag_s};
  Conn* conn = co_await b.ask(request);
  if (conn == nullptr) co_return b.trouble();
  const std::string got = frame_text(conn->reply);
  if (!accepted(conn->reply)) {
    const Observation f = co_await not_accepted(b, got);
    co_return f;
  }
  if ((conn->reply.flags & flag_s) == 0) co_return pass(got + ": S is taken as a reserved bit");
  conn->full_operation(true, (conn->reply.flags & flag_m) != 0, false);
  const auto wrong = co_await accepts_rtr_frame(b, *conn, PARLEY_MPA_KEY_RTR);
  if (wrong) co_return failed(got + ": S promises the Rtr frame of 2007; after it came " + *wrong);
  co_return pass(got + ": S is true, the Rtr frame was taken");
}

Task<Observation> r_in_request(Tester& b) {
  const StartupOctets request{.flags = flag_c | flag_r};
  Conn* conn = co_await b.ask(request);
  if (conn == nullptr) co_return b.trouble();
  const std::string got = frame_text(conn->reply);
  if (accepted(conn->reply)) co_return pass(got);
  const std::string with_r = got + ": R is set";
  const Observation f = co_await not_accepted(b, with_r);
  co_return f;
}

// ---- Requests that must be refused by closing ----------------------------------------------------------------------

Task<Observation> closes(Tester& b, StartupOctets request) {
  Conn* conn = co_await b.ask(std::move(request));
  if (conn == nullptr) co_return b.trouble();
  co_return judge_closed(conn->reply, b.settings().reply);
}

Task<Observation> bad_key(Tester& b) { return closes(b, {.key = "MPA ID Foo Frame", .flags = flag_c}); }
Task<Observation> reply_key(Tester& b) { return closes(b, {.key = PARLEY_MPA_KEY_REP, .flags = flag_c}); }

// RFC 5044 §7.1.1: the peer closes, with or without a prior Reply that has its own revision.
Task<Observation> unknown_revision(Tester& b, std::uint8_t revision) {
  const StartupOctets request{.flags = flag_c, .revision = revision};
  Conn* conn = co_await b.ask(request);
  if (conn == nullptr) co_return b.trouble();
  if (!conn->reply.is(MpaKey::rep)) co_return judge_closed(conn->reply, b.settings().reply);
  const std::string got = frame_text(conn->reply);
  if (conn->reply.revision == revision) co_return failed(got + ": answers a revision that is not defined");
  const Received end = co_await conn->receive_anything(b.settings().reply);
  co_return end.closed() ? pass(got + ", then " + ending_text(end)) : failed(got + ", then " + ending_text(end));
}
Task<Observation> revision_3(Tester& b) { return unknown_revision(b, 3); }
Task<Observation> revision_129(Tester& b) { return unknown_revision(b, 129); }

// RFC 5044 Appendix C: a permissive peer accepts Rev 0 with markers and CRC; others answer their own revision and
// close.
Task<Observation> revision_0(Tester& b) {
  const StartupOctets request{.flags = flag_m | flag_c, .revision = 0};
  Conn* conn = co_await b.ask(request);
  if (conn == nullptr) co_return b.trouble();
  const Received& reply = conn->reply;
  if (!reply.is(MpaKey::rep)) co_return judge_closed(reply, b.settings().reply);
  const std::string got = frame_text(reply);
  if (reply.revision == 0) {
    const bool permissive = (reply.flags & flag_m) != 0 && (reply.flags & flag_c) != 0 && !(reply.flags & flag_r);
    if (permissive) co_return pass(got);
    co_return failed(got + ": Rev 0 is answered by Rev 0, but not with M and C and without R");
  }
  const Received end = co_await conn->receive_anything(b.settings().reply);
  co_return end.closed() ? pass(got + ", then " + ending_text(end))
                         : failed(got + ", then " + ending_text(end) + " instead of the end of the connection");
}

// ---- private data and its length -----------------------------------------------------------------------------------

Task<Observation> pd_512(Tester& b) {
  return answer(b, {.flags = flag_c, .private_data = Bytes(PARLEY_MPA_PD_MAX, 0x78)},
                [](const Received&) { return std::string(); });
}
Task<Observation> pd_513(Tester& b) { return closes(b, {.flags = flag_c, .private_data = Bytes(513, 0x78)}); }
Task<Observation> pd_65535(Tester& b) {
  return closes(b, {.flags = flag_c, .private_data = Bytes(64, 0x78), .pd_length = 0xFFFF});
}

Task<Observation> waits_for_end(Tester& b, std::string words, Bytes octets) {
  Conn* conn = co_await b.open();
  if (conn == nullptr) co_return b.trouble();
  if (!octets.empty()) conn->send(std::move(words), octets);
  const Received end = co_await conn->receive_startup(b.settings().timer);
  if (end.kind == Received::Kind::silence)
    co_return failed(fmt::format("still open after {}", limit_text(b.settings().timer)));
  if (!end.closed()) co_return failed(ending_text(end) + " instead of the end of the connection");
  co_return pass(ending_text(end));
}
Task<Observation> pd_short(Tester& b) {
  return waits_for_end(b, "a Request with PD_Length 16 and 8 octets of private data",
                       tester::startup({.flags = flag_c, .private_data = Bytes(8, 0x78), .pd_length = 16}));
}
Task<Observation> half_request(Tester& b) {
  const Bytes whole = tester::startup({.flags = flag_c});
  return waits_for_end(b, "the first half of a Request", Bytes(whole.begin(), whole.begin() + 10));
}
Task<Observation> no_request(Tester& b) { return waits_for_end(b, {}, {}); }

Task<Observation> half_request_then_fin(Tester& b) {
  Conn* conn = co_await b.open();
  if (conn == nullptr) co_return b.trouble();
  const Bytes whole = tester::startup({.flags = flag_c});
  conn->send("the first half of a Request", ConstBytes(whole).first(10));
  conn->send_fin();
  const Received end = co_await conn->receive_startup(b.settings().reply);
  co_return judge_closed(end, b.settings().reply);
}

Task<Observation> extra_octets(Tester& b) { return closes(b, {.flags = flag_c, .trailing = {1, 2, 3, 4}}); }

Task<Observation> garbage(Tester& b) {
  Conn* conn = co_await b.open();
  if (conn == nullptr) co_return b.trouble();
  const std::string text = "GET / HTTP/1.1\r\nHost: responder.example\r\nAccept: */*\r\n\r\n";
  conn->send("a Request of HTTP", Bytes(text.begin(), text.end()));
  const Received end = co_await conn->receive_startup(b.settings().reply);
  co_return judge_closed(end, b.settings().reply);
}

// ---- how TCP cuts it ------------------------------------------------------------------------------------------------

Task<Observation> in_pieces(Tester& b, std::size_t piece, Duration gap) {
  Conn* conn = co_await b.open();
  if (conn == nullptr) co_return b.trouble();
  const Bytes whole = tester::startup({.flags = flag_c});
  for (std::size_t at = 0; at < whole.size(); at += piece) {
    conn->send(fmt::format("octets {} and on of a Request", at),
               ConstBytes(whole).subspan(at, std::min(piece, whole.size() - at)));
    co_await b.peer().sleep(gap);
  }
  conn->reply = co_await conn->receive_startup(b.settings().reply);
  const std::string got = frame_text(conn->reply);
  if (accepted(conn->reply)) co_return pass(got);
  const Observation f = co_await not_accepted(b, got);
  co_return f;
}
Task<Observation> octet_by_octet(Tester& b) { return in_pieces(b, 1, 20ms); }
Task<Observation> in_two_parts(Tester& b) { return in_pieces(b, 10, 300ms); }

// ---- rule 4 --------------------------------------------------------------------------------------------------------

Task<Observation> responder_waits(Tester& b) {
  const StartupOctets request{.flags = flag_c};
  Conn* conn = co_await b.ask(request);
  if (conn == nullptr) co_return b.trouble();
  if (!accepted(conn->reply)) co_return unclear("the responder accepts no connection: " + frame_text(conn->reply));
  conn->full_operation(true, (conn->reply.flags & flag_m) != 0, false);
  const Received early = co_await conn->receive_anything(std::max<Duration>(b.settings().quiet, 2s));
  if (early.kind == Received::Kind::bad) co_return failed("octets from the responder before it received an FPDU");
  if (early.kind != Received::Kind::silence) co_return unclear(ending_text(early) + " before the first FPDU");
  if (!b.settings().speaks_first)
    co_return unclear("silent, but it is not known to have anything to send; --speaks-first says that it has");
  co_return pass("silent until the first FPDU");
}

constexpr Case table[] = {
    Case{"1", "plain-v1", Iut::responder, "RFC 5044 §7.1.1", Level::must, false, "Request 40/01/0000",
         "Reply with R=0, Rev 1, reserved bits 0", plain_v1},
    Case{"2", "reserved-bits-ignored", Iut::responder, "RFC 5044 §7.1.1", Level::must, false,
         "Request 4F/01: all reserved bits but S", "accepted; reserved bits of the Reply 0", reserved_bits},
    Case{"3", "s-on-revision-1-truthful", Iut::responder, "RFC 5044 §7.1.1", Level::must, false, "Request 50/01",
         "Reply with S=0 (a reserved bit), or S=1 and then the Rtr frame of 2007 is accepted", s_on_revision_1},
    Case{"4", "r-in-request-ignored", Iut::responder, "RFC 5044 §7.1.1", Level::must, false, "Request 60/01",
         "Reply with R=0", r_in_request},
    Case{"10", "bad-key-closes", Iut::responder, "RFC 5044 §7.1.2 rule 5", Level::must, false,
         "key \"MPA ID Foo Frame\"", "TCP closed without an answer", bad_key},
    Case{"10", "reply-key-closes", Iut::responder, "RFC 5044 §7.1.2 rule 5", Level::must, false,
         "a Reply in place of the Request", "TCP closed without an answer", reply_key},
    Case{"12", "revision-3-closes", Iut::responder, "RFC 5044 §7.1.1", Level::must, false, "Request 40/03",
         "TCP closed, or a Reply with the peer's own Rev and then closed", revision_3},
    Case{"12", "revision-129-closes", Iut::responder, "RFC 5044 §7.1.1", Level::must, false, "Request 40/81",
         "TCP closed, or a Reply with the peer's own Rev and then closed", revision_129},
    Case{"13", "revision-0", Iut::responder, "RFC 5044 §7.1.1", Level::should, false, "Request C0/00",
         "Reply C0/00 (permissive, Appendix C), or a Reply with the peer's own Rev and then closed, or closed",
         revision_0},
    Case{"14", "private-data-512", Iut::responder, "RFC 5044 §7.1.1", Level::must, false,
         "Request with 512 octets of private data", "accepted", pd_512},
    Case{"15", "private-data-513-closes", Iut::responder, "RFC 5044 §7.1.2 rule 9", Level::must, false,
         "Request with PD_Length 513 and as many octets", "TCP closed", pd_513},
    Case{"15", "private-data-65535-closes", Iut::responder, "RFC 5044 §7.1.2 rule 9", Level::must, false,
         "Request with PD_Length 65535 and 64 octets", "TCP closed", pd_65535},
    Case{"16", "private-data-short-times-out", Iut::responder, "RFC 5044 §7.1.2 rule 10", Level::must, false,
         "PD_Length 16, 8 octets, then silence", "TCP closed after a while", pd_short},
    Case{"17", "octets-behind-request-close", Iut::responder, "RFC 5044 §7.1.2 rule 2", Level::must, false,
         "Request and 4 more octets in one write", "TCP closed: the initiator may send nothing before the Reply",
         extra_octets},
    Case{"18", "request-octet-by-octet", Iut::responder, "RFC 5044 §7.1", Level::must, false,
         "Request in 20 segments, 20 ms apart", "accepted", octet_by_octet},
    Case{"18", "request-in-two-segments", Iut::responder, "RFC 5044 §7.1", Level::must, false,
         "Request in 2 segments, 300 ms apart", "accepted", in_two_parts},
    Case{"19", "no-request-times-out", Iut::responder, "RFC 5044 §7.1.2 rule 8", Level::must, false,
         "TCP connection, then silence", "TCP closed after a while", no_request},
    Case{"22", "responder-waits-for-first-fpdu", Iut::responder, "RFC 5044 §7.1.2 rule 4", Level::must, false,
         "Request, then silence", "no octet from the responder", responder_waits},
    Case{"70", "half-request-times-out", Iut::responder, "RFC 5044 §7.1.2 rule 10", Level::must, false,
         "10 octets of a Request, then silence", "TCP closed after a while", half_request},
    Case{"71", "half-request-then-fin", Iut::responder, "RFC 5044 §7.1.2 rule 2", Level::must, false,
         "10 octets of a Request, then FIN", "TCP closed", half_request_then_fin},
    Case{"72", "foreign-protocol-closes", Iut::responder, "RFC 5044 §7.1.2 rule 5", Level::must, false,
         "a Request of HTTP", "TCP closed without an answer", garbage},
};

}  // namespace
}  // namespace startup_table

std::span<const Case> startup_cases() { return startup_table::table; }

}  // namespace parley::conform
