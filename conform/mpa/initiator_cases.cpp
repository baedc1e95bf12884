// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// An initiator's Request, and how it handles Replies: RFC 5044 §7.1, RFC 6581 §9, §10.
#include <algorithm>

#include <fmt/format.h>

#include "conform/core/judge.hpp"

#include "base/text.hpp"

namespace parley::conform {
namespace initiator_table {
namespace {

using tester::StartupOctets;
using wire::MpaEnhanced;
using wire::MpaKey;

constexpr std::uint8_t flag_c = PARLEY_MPA_FLAG_C, flag_m = PARLEY_MPA_FLAG_M, flag_r = PARLEY_MPA_FLAG_R,
                       flag_s = PARLEY_MPA_FLAG_S;
constexpr unsigned A = PARLEY_MPA_ENH_A, B = PARLEY_MPA_ENH_B, C = PARLEY_MPA_ENH_C, D = PARLEY_MPA_ENH_D;
constexpr unsigned not_negotiated = PARLEY_MPA_ENH_NOT_NEGOTIATED;

constexpr TermCode insufficient_ird{2, 0, 6}, no_matching_rtr{2, 0, 7};

std::string offered_text(const Received& request) {
  if (!request.enhanced) return "the initiator's Request is not enhanced";
  return request.enhanced->a
             ? "the initiator offers " + fmt::format("{}{}{}", request.enhanced->b ? "B" : "",
                                                     request.enhanced->c ? "C" : "", request.enhanced->d ? "D" : "")
             : "the initiator does not ask for the peer-to-peer model";
}

/// Asks for CRC only if the initiator does: an initiator that refuses a Reply may not have enabled CRC yet.
StartupOctets fitting(Tester& b, const Received& request) {
  return b.fitting_reply(request, {.crc = (request.flags & flag_c) != 0});
}

/// A Reply with these enhanced words instead of the fitting ones.
StartupOctets enhanced_reply(Tester& b, const Received& request, unsigned ird_word, unsigned ord_word) {
  StartupOctets reply = fitting(b, request);
  reply.enhanced = tester::enhanced(ird_word, ord_word);
  return reply;
}

/// A hung peer and a peer whose program has nothing to send are both silent.
Observation silent_after_reply() { return unclear("silent: whether the Reply was taken does not show"); }

void reply(Conn& conn, const StartupOctets& frame) {
  conn.send_startup(frame);
  conn.full_operation(((conn.request.flags | frame.flags) & flag_c) != 0, (conn.request.flags & flag_m) != 0,
                      (frame.flags & flag_m) != 0);
}

// ---- the Request ---------------------------------------------------------------------------------------------------

Task<Observation> request_sound(Tester& b) {
  Conn* conn = co_await b.await_request();
  if (conn == nullptr) co_return b.trouble();
  const Received& q = conn->request;
  const std::string got = frame_text(q);
  if (q.revision != 1 && q.revision != 2) co_return failed(fmt::format("{}: revision {}", got, q.revision));
  if ((q.flags & flag_r) != 0) co_return failed(got + ": R is set");
  // RFC 5044 §7.1.1: reserved bits are 0. Under revision 1 S is one of them, unless it offers the Rtr frame.
  const unsigned res = q.flags & PARLEY_MPA_RES_V2;
  if (res != 0) co_return failed(fmt::format("{}: reserved bits {:02x} are set", got, res));
  if (q.revision >= 2 && (q.flags & flag_s) != 0 && !q.enhanced) co_return failed(got + ": S without enhanced data");
  if (q.enhanced && !q.enhanced->a && (q.enhanced->b || q.enhanced->c || q.enhanced->d))
    co_return failed(got + ": B, C or D is set although A is not");
  if (q.enhanced && q.enhanced->a && !q.enhanced->b && !q.enhanced->c && !q.enhanced->d)
    co_return failed(got + ": A without any kind of indication");
  if (!conn->stream().unread().empty()) co_return failed(got + ": octets follow it before the Reply");
  if (q.revision >= 2 || (q.flags & flag_s) == 0) co_return pass(got);
  // OFA 2007-10 Rtr §1: an initiator that sets S under revision 1 sends the Rtr frame once a Reply sets it too.
  StartupOctets granting = fitting(b, q);
  granting.flags |= flag_s;
  conn->send_startup(granting);
  const Received next = co_await conn->receive_startup(b.settings().reply);
  if (next.is(MpaKey::rtr) || next.is(MpaKey::rtr_hex)) co_return pass(got + "; the Rtr frame that S promises comes");
  Observation f = failed(fmt::format("{}: reserved bits {:02x} are set; S promises the Rtr frame of 2007, and {} came",
                                     got, flag_s, ending_text(next)));
  f.silent = next.kind == Received::Kind::silence;
  co_return f;
}

Task<Observation> crc_by_default(Tester& b) {
  Conn* conn = co_await b.await_request();
  if (conn == nullptr) co_return b.trouble();
  const std::string got = frame_text(conn->request);
  co_return (conn->request.flags & flag_c) != 0 ? pass(got) : failed(got + ": C is not set");
}

Task<Observation> silent_before_reply(Tester& b) {
  Conn* conn = co_await b.await_request();
  if (conn == nullptr) co_return b.trouble();
  const Received early = co_await conn->receive_anything(b.settings().quiet);
  if (early.kind == Received::Kind::silence) co_return pass("silent until the Reply");
  co_return failed(ending_text(early) + " before the Reply");
}

// ---- Replies that must end the connection --------------------------------------------------------------------------

/// RFC 5044 §8: the peer closes TCP at once, so it may send nothing before that.
Task<Observation> closes(Tester& b, StartupOctets frame) {
  Conn* conn = co_await b.await_request();
  if (conn == nullptr) co_return b.trouble();
  const Bytes private_data = std::move(frame.private_data);
  StartupOctets answer = fitting(b, conn->request);
  answer.key = frame.key;
  if (frame.revision != 0) answer.revision = frame.revision;
  answer.private_data = private_data;
  answer.trailing = frame.trailing;
  reply(*conn, answer);
  const Received received = co_await conn->receive_terminate(b.settings().reply);
  if (const auto t = received.terminate()) {
    const Observation octets = judge_terminate(received, {.codes = {{2, 0, 4}}, .header = false});
    co_return failed("a Terminate, where TCP is to be closed at once: " + octets.observed);
  }
  co_return judge_closed(received, b.settings().reply);
}
Task<Observation> bad_key(Tester& b) { return closes(b, {.key = "MPA ID Foo Frame", .revision = 0}); }
Task<Observation> request_key(Tester& b) { return closes(b, {.key = PARLEY_MPA_KEY_REQ, .revision = 0}); }
Task<Observation> revision_3(Tester& b) { return closes(b, {.key = PARLEY_MPA_KEY_REP, .revision = 3}); }
Task<Observation> pd_too_long(Tester& b) {
  return closes(b, {.key = PARLEY_MPA_KEY_REP, .revision = 0, .private_data = Bytes(600, 0x78)});
}

// RFC 5044 §7.1.2 rule 10: a side that waits for a startup frame gives up after a while.
Task<Observation> ends_by_timer(Tester& b, Conn& conn) {
  const Received end = co_await conn.receive_startup(b.settings().timer);
  if (end.kind == Received::Kind::silence)
    co_return failed(fmt::format("still waiting after {}", limit_text(b.settings().timer)));
  if (!end.closed() || !end.octets.empty())
    co_return failed(ending_text(end) + " instead of the end of the connection");
  co_return pass(ending_text(end));
}

Task<Observation> no_reply(Tester& b) {
  Conn* conn = co_await b.await_request();
  if (conn == nullptr) co_return b.trouble();
  const Observation ended = co_await ends_by_timer(b, *conn);
  co_return ended;
}

Task<Observation> half_reply(Tester& b) {
  Conn* conn = co_await b.await_request();
  if (conn == nullptr) co_return b.trouble();
  const Bytes whole = tester::startup(fitting(b, conn->request));
  conn->send("the first half of a Reply", ConstBytes(whole).first(10));
  const Observation ended = co_await ends_by_timer(b, *conn);
  co_return ended;
}

Task<Observation> rejected(Tester& b) {
  Conn* conn = co_await b.await_request();
  if (conn == nullptr) co_return b.trouble();
  StartupOctets frame = fitting(b, conn->request);
  frame.flags |= flag_r;
  frame.private_data = {'n', 'o'};
  reply(*conn, frame);
  const Received end = co_await conn->receive_anything(b.settings().reply);
  if (end.closed()) co_return pass(ending_text(end));
  if (end.kind != Received::Kind::silence) co_return failed("octets after the rejection");
  // RFC 5044 §7.1.2 rule 3 leaves TCP to the program, which may keep it. A peer that ignored R is also silent if it has
  // nothing to send. Only the latter understands FPDUs here.
  const auto not_taken = co_await still_understands(b, *conn);
  if (!not_taken) co_return failed("R is not seen: an FPDU behind the rejection is answered as in full operation");
  co_return unclear("kept open, then " + *not_taken +
                    ": whether TCP was left to the program or R was not seen does not show");
}

Task<Observation> fpdu_glued(Tester& b) {
  Conn* conn = co_await b.await_request();
  if (conn == nullptr) co_return b.trouble();
  StartupOctets frame = fitting(b, conn->request);
  tester::FpduWriter writer(true, (conn->request.flags & flag_m) != 0);
  frame.trailing = writer.write(tester::segment(tester::write_header(1, 0)));
  reply(*conn, frame);
  const Received received = co_await conn->receive_terminate(b.settings().reply);
  if (received.closed()) co_return pass(ending_text(received));
  if (received.terminate()) co_return pass(ending_text(received));
  co_return failed("the connection goes on: " + ending_text(received));
}

// ---- enhanced Replies ----------------------------------------------------------------------------------------------

Task<Observation> depths_not_negotiated(Tester& b) {
  Conn* conn = co_await b.await_request();
  if (conn == nullptr) co_return b.trouble();
  if (!conn->request.enhanced) co_return unclear(offered_text(conn->request));
  StartupOctets frame = fitting(b, conn->request);
  frame.enhanced = (*frame.enhanced & ~tester::enhanced(not_negotiated, not_negotiated)) |
                   tester::enhanced(not_negotiated, not_negotiated);
  reply(*conn, frame);
  const Received received = co_await conn->receive_fpdu(b.settings().reply);
  if (received.is(wire::RdmapOpcode::terminate)) co_return failed("3fff is taken as a depth: " + ending_text(received));
  if (received.kind == Received::Kind::fpdu) co_return pass("goes on with " + ending_text(received));
  if (received.kind == Received::Kind::silence) co_return silent_after_reply();
  co_return failed(ending_text(received));
}

Task<Observation> ord_over_ird(Tester& b) {
  Conn* conn = co_await b.await_request();
  if (conn == nullptr) co_return b.trouble();
  if (!conn->request.enhanced) co_return unclear(offered_text(conn->request));
  const MpaEnhanced& q = *conn->request.enhanced;
  if (q.ird == not_negotiated) co_return unclear("the initiator's IRD is 3fff: not negotiated");
  StartupOctets frame = fitting(b, conn->request);
  const unsigned ord = q.ird < 200 ? 200 : not_negotiated - 1U;
  frame.enhanced = (*frame.enhanced & ~tester::enhanced(0, not_negotiated)) | tester::enhanced(0, ord);
  reply(*conn, frame);
  const Received received = co_await conn->receive_fpdu(b.settings().reply);
  if (received.kind == Received::Kind::fpdu && !received.is(wire::RdmapOpcode::terminate))
    co_return pass("raises its IRD and goes on with " + ending_text(received));
  if (received.kind == Received::Kind::silence) co_return silent_after_reply();
  co_return judge_terminate(received, {.codes = {insufficient_ird}, .header = false});
}

Task<Observation> no_common_rtr(Tester& b) {
  Conn* conn = co_await b.await_request();
  if (conn == nullptr) co_return b.trouble();
  const auto& q = conn->request.enhanced;
  if (!q || !q->a) co_return unclear(offered_text(conn->request));
  const unsigned ird_bits = q->b ? 0 : B, ord_bits = q->b ? (q->c ? (q->d ? 0 : D) : C) : 0;
  if (ird_bits + ord_bits == 0)
    co_return unclear("the initiator offers all kinds, so that no answer has none in common");
  reply(*conn, enhanced_reply(b, conn->request, 8 | A | ird_bits, 1 | ord_bits));
  const Received received = co_await conn->receive_fpdu(b.settings().reply);
  co_return judge_terminate(received, {.codes = {no_matching_rtr}, .header = false});
}

Task<Observation> both_kinds_to_read_only(Tester& b) {
  Conn* conn = co_await b.await_request();
  if (conn == nullptr) co_return b.trouble();
  const auto& q = conn->request.enhanced;
  if (!q || !q->a) co_return unclear(offered_text(conn->request));
  if (q->c == q->d)
    co_return unclear(offered_text(conn->request) + "; the case needs one that offers only one of C and D");
  reply(*conn, enhanced_reply(b, conn->request, 8 | A, 1 | C | D));
  const Received received = co_await conn->receive_fpdu(b.settings().reply);
  const auto due = q->d ? wire::RdmapOpcode::read_request : wire::RdmapOpcode::rdma_write;
  if (received.is(due)) co_return pass("the kind in common is used: " + ending_text(received));
  co_return failed(ending_text(received) + ", where the kind in common is expected");
}

Task<Observation> reply_without_a(Tester& b, unsigned ord_bits) {
  Conn* conn = co_await b.await_request();
  if (conn == nullptr) co_return b.trouble();
  const auto& q = conn->request.enhanced;
  if (!q || !q->a) co_return unclear(offered_text(conn->request));
  reply(*conn, enhanced_reply(b, conn->request, 8, 1 | ord_bits));
  const Received received = co_await conn->receive_fpdu(b.settings().reply);
  co_return judge_terminate(received, {.codes = {no_matching_rtr}, .header = false});
}
Task<Observation> reply_a0(Tester& b) { return reply_without_a(b, 0); }
Task<Observation> reply_a0_with_kinds(Tester& b) { return reply_without_a(b, C | D); }

bool is_indication(const Received& received, const MpaEnhanced& answered) {
  if (received.is(wire::RdmapOpcode::rdma_write)) return answered.c && received.payload().empty();
  if (received.is(wire::RdmapOpcode::send)) return answered.b && received.payload().empty();
  if (!received.is(wire::RdmapOpcode::read_request)) return false;
  const auto read = wire::ReadRequest::parse(received.payload());
  return answered.d && read && read->size == 0;
}

Task<Observation> rtr_first(Tester& b) {
  Conn* conn = co_await b.await_request();
  if (conn == nullptr) co_return b.trouble();
  const auto& q = conn->request.enhanced;
  if (!q || !q->a) co_return unclear(offered_text(conn->request));
  const StartupOctets frame = fitting(b, conn->request);
  reply(*conn, frame);
  const Bytes octets = tester::startup(frame);
  const auto answered = MpaEnhanced::parse(ConstBytes(octets).subspan(PARLEY_MPA_HEADER_LEN));
  const Received received = co_await conn->receive_fpdu(b.settings().reply);
  if (answered && is_indication(received, *answered))
    co_return pass("first is the indication: " + ending_text(received));
  co_return failed("first is " + ending_text(received));
}

// ---- other answers -------------------------------------------------------------------------------------------------

Task<Observation> v1_answer(Tester& b) {
  Conn* conn = co_await b.await_request();
  if (conn == nullptr) co_return b.trouble();
  if (conn->request.revision < 2) co_return unclear("the initiator sends revision 1 itself");
  reply(*conn, {.key = PARLEY_MPA_KEY_REP, .flags = flag_c});
  const Received received = co_await conn->receive_fpdu(b.settings().reply);
  if (received.closed()) co_return pass("fails cleanly: " + ending_text(received));
  if (received.kind == Received::Kind::fpdu && !received.is(wire::RdmapOpcode::terminate))
    co_return pass("goes on under revision 1");
  if (received.kind == Received::Kind::silence) co_return silent_after_reply();
  co_return failed(ending_text(received));
}

Task<Observation> after_end(Tester& b, bool reset) {
  Conn* conn = co_await b.await_request();
  if (conn == nullptr) co_return b.trouble();
  if (conn->request.revision < 2) co_return unclear("the initiator sends revision 1 itself");
  if (reset) {
    conn->send("RST", {});
    conn->stream().reset();
  } else {
    conn->send_fin();
  }
  Conn* again = co_await b.open(std::min<Duration>(b.settings().reply, 3s));
  if (again == nullptr) co_return pass("no further attempt");
  const Received second = co_await again->receive_startup(b.settings().reply);
  if (!second.is(MpaKey::req)) co_return failed("connects again and sends " + ending_text(second));
  co_return pass(second.revision == 1 ? "tries again with revision 1" : "tries again with revision 2");
}
Task<Observation> after_rst(Tester& b) { return after_end(b, true); }
Task<Observation> after_fin(Tester& b) { return after_end(b, false); }

Task<Observation> enhanced_without_data(Tester& b) {
  Conn* conn = co_await b.await_request();
  if (conn == nullptr) co_return b.trouble();
  if (conn->request.revision < 2) co_return unclear("the initiator sends revision 1");
  reply(*conn, {.key = PARLEY_MPA_KEY_REP, .flags = flag_c | flag_s, .revision = 2});
  const Received received = co_await conn->receive_terminate(b.settings().reply);
  co_return judge_closed(received, b.settings().reply);
}

Task<Observation> reply_in_pieces(Tester& b) {
  Conn* conn = co_await b.await_request();
  if (conn == nullptr) co_return b.trouble();
  const Bytes whole = tester::startup(fitting(b, conn->request));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    conn->send(fmt::format("octet {} of the Reply", at), ConstBytes(whole).subspan(at, 1));
    co_await b.peer().sleep(20ms);
  }
  conn->full_operation((conn->request.flags & flag_c) != 0, (conn->request.flags & flag_m) != 0, false);
  const Received received = co_await conn->receive_fpdu(b.settings().reply);
  if (received.kind == Received::Kind::fpdu && !received.is(wire::RdmapOpcode::terminate))
    co_return pass("goes on with " + ending_text(received));
  if (received.kind == Received::Kind::silence) co_return silent_after_reply();
  co_return failed(ending_text(received));
}

// OFA 2007-10 Rtr §2: a Reply that copies the S bit may come from a peer that does not know the Rtr frame.
Task<Observation> echoing_peer(Tester& b) {
  Conn* conn = co_await b.await_request();
  if (conn == nullptr) co_return b.trouble();
  const Received& q = conn->request;
  if (q.revision != 1 || (q.flags & flag_s) == 0) co_return unclear("the initiator does not offer S under revision 1");
  conn->send_startup({.key = PARLEY_MPA_KEY_REP, .flags = static_cast<std::uint8_t>(flag_c | (q.flags & 0x1F))});
  const Received received = co_await conn->receive_startup(b.settings().reply);
  if (received.is(MpaKey::rtr) || received.is(MpaKey::rtr_hex)) co_return pass("sends the Rtr frame that S promised");
  co_return unclear(ending_text(received));
}

constexpr Case table[] = {
    Case{"9", "crc-by-default", Iut::initiator, "RFC 5044 §4.4", Level::must, false, "the Request",
         "C=1 unless an administrator disabled it", crc_by_default},
    Case{"10", "bad-key-closes", Iut::initiator, "RFC 5044 §7.1.2 rule 5", Level::must, false,
         "Reply with key \"MPA ID Foo Frame\"", "TCP closed at once", bad_key},
    Case{"11", "request-key-closes", Iut::initiator, "RFC 5044 §8 code 4", Level::must, false,
         "a Request as the answer: the peer is an initiator too", "TCP closed at once", request_key},
    Case{"20", "no-reply-times-out", Iut::initiator, "RFC 5044 §7.1.2 rule 10", Level::must, false, "silence",
         "TCP closed after a while", no_reply},
    Case{"21", "rejected-with-data", Iut::initiator, "RFC 5044 §7.1.2 rule 3", Level::must, false,
         "Reply with R=1 and 2 octets of private data; if TCP stays open, an FPDU",
         "TCP closed, or left to the program; no further octet and no FPDU accepted", rejected},
    Case{"23", "fpdu-glued-to-reply", Iut::initiator, "RFC 5044 §7.1.2 rule 4", Level::must, false,
         "Reply and an FPDU in one write", "the connection fails: a responder may not send yet", fpdu_glued},
    Case{"36", "depths-3fff-left-alone", Iut::initiator, "RFC 6581 §9.1", Level::must, false,
         "Reply with IRD 3FFF, ORD 3FFF", "the connection continues", depths_not_negotiated},
    Case{"37", "reply-ord-over-ird", Iut::initiator, "RFC 6581 §9.1", Level::must, false,
         "Reply with ORD 200, or more than the initiator's IRD", "IRD raised, or Terminate 20 06", ord_over_ird},
    Case{"38", "no-common-rtr", Iut::initiator, "RFC 6581 §9.2", Level::must, false,
         "Reply with A and a kind that was not offered", "Terminate 20 07, then closed", no_common_rtr},
    Case{"39", "both-kinds-to-one", Iut::initiator, "RFC 6581 §9.2", Level::must, false,
         "Reply with C and D to a Request with one of them", "the kind in common is sent first",
         both_kinds_to_read_only},
    Case{"40", "reply-without-a", Iut::initiator, "RFC 6581 §9.2", Level::must, false,
         "A=0 and no kinds in answer to A=1", "Terminate 20 07, then closed", reply_a0},
    Case{"40", "reply-without-a-with-kinds", Iut::initiator, "RFC 6581 §9.2", Level::must, false,
         "A=0, C and D in answer to A=1", "Terminate 20 07, then closed", reply_a0_with_kinds},
    Case{"41", "rtr-first", Iut::initiator, "RFC 6581 §9.2", Level::must, false, "a Reply that agrees to A",
         "the first FPDU is the agreed indication", rtr_first},
    Case{"45", "reply-enhanced-without-data", Iut::initiator, "RFC 6581 §6", Level::must, true,
         "Reply 50/02 with PD_Length 0", "TCP closed", enhanced_without_data},
    Case{"45", "reply-private-data-600", Iut::initiator, "RFC 5044 §7.1.2 rule 9", Level::must, true,
         "Reply with 600 octets of private data", "TCP closed", pd_too_long},
    Case{"46", "v1-answer-to-v2", Iut::initiator, "RFC 6581 §10", Level::must, false, "Reply 40/01/0000",
         "fails cleanly, or continues with revision 1", v1_answer},
    Case{"47", "rst-after-v2-request", Iut::initiator, "RFC 6581 §10", Level::may, false, "RST after the Request",
         "MAY try again with revision 1", after_rst},
    Case{"47", "fin-after-v2-request", Iut::initiator, "RFC 6581 §10", Level::may, false, "FIN after the Request",
         "MAY try again with revision 1", after_fin},
    Case{"66", "s-echoed", Iut::initiator, "OFA 2007-10 Rtr §2", Level::may, false,
         "the Request's reserved bits copied into the Reply", "an initiator that requested it sends the Rtr frame",
         echoing_peer},
    Case{"75", "request-sound", Iut::initiator, "RFC 5044 §7.1.1", Level::must, false, "the Request",
         "Rev 1 or 2, R=0, reserved bits 0, enhanced data consistent with S and A", request_sound},
    Case{"76", "silent-before-reply", Iut::initiator, "RFC 5044 §7.1.2 rule 1", Level::must, false,
         "the Reply is withheld", "no octet after the Request", silent_before_reply},
    Case{"77", "revision-3-closes", Iut::initiator, "RFC 5044 §7.1.1", Level::must, false, "Reply with Rev 3",
         "TCP closed", revision_3},
    Case{"78", "half-reply-times-out", Iut::initiator, "RFC 5044 §7.1.2 rule 10", Level::must, false,
         "10 octets of a Reply, then silence", "TCP closed after a while", half_reply},
    Case{"79", "reply-octet-by-octet", Iut::initiator, "RFC 5044 §7.1", Level::must, false,
         "Reply octet by octet, 20 ms apart", "accepted", reply_in_pieces},
};

}  // namespace
}  // namespace initiator_table

std::span<const Case> initiator_cases() { return initiator_table::table; }

}  // namespace parley::conform
