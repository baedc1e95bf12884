// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A responder's answers to enhanced Requests, the ready-to-receive indication, and the Rtr frame of 2007: RFC 6581,
// OFA 2007-10 Rtr.
#include <fmt/format.h>

#include "conform/core/judge.hpp"

#include "base/text.hpp"

namespace parley::conform {
namespace enhanced_table {
namespace {

using tester::StartupOctets;
using wire::MpaEnhanced;
using wire::MpaKey;

constexpr std::uint8_t flag_m = PARLEY_MPA_FLAG_M, flag_c = PARLEY_MPA_FLAG_C, flag_r = PARLEY_MPA_FLAG_R,
                       flag_s = PARLEY_MPA_FLAG_S;
constexpr unsigned A = PARLEY_MPA_ENH_A, B = PARLEY_MPA_ENH_B, C = PARLEY_MPA_ENH_C, D = PARLEY_MPA_ENH_D;
constexpr unsigned not_negotiated = PARLEY_MPA_ENH_NOT_NEGOTIATED;

StartupOctets v2(unsigned ird_word, unsigned ord_word) {
  return {.flags = flag_c | flag_s, .revision = 2, .enhanced = tester::enhanced(ird_word, ord_word)};
}

/// The Reply to an enhanced Request, or why there is none to judge.
struct Answer {
  Conn* conn = nullptr;
  std::optional<MpaEnhanced> enhanced;
  std::string got;
  Observation trouble;
};
Task<Answer> enhanced_answer(Tester& b, unsigned ird_word, unsigned ord_word) {
  Answer a;
  a.conn = co_await b.ask(v2(ird_word, ord_word));
  if (a.conn == nullptr) {
    a.trouble = b.trouble();
    co_return a;
  }
  const Received& reply = a.conn->reply;
  a.got = frame_text(reply);
  if (reply.closed()) {
    // RFC 6581 §10: a responder of revision 1 closes.
    a.trouble = unclear(a.got + ": the responder does not take this Request, or no revision 2");
  } else if (!reply.is(MpaKey::rep)) {
    a.trouble = failed(a.got + " instead of a Reply");
  } else if ((reply.flags & flag_r) != 0) {
    a.trouble = unclear(a.got + ": rejected");
  } else if (!reply.enhanced) {
    a.trouble = failed(a.got + ": accepted without enhanced data, where revision 2 and S asked for it");
  } else {
    a.enhanced = reply.enhanced;
  }
  co_return a;
}

// RFC 6581 §9.2: a responder that agreed to an indication is in full operation only after it. Abandoning it before that
// may harm it: Linux's iw_cm stops the kernel when the connection ends before it was established. The cases about the
// Reply do not test that. So they send the indication, and a zero-length Read whose answer shows that the peer accepted
// it; if none can be sent or answered, they give the peer some time.
Task<> complete(Tester& b, Conn& conn) {
  if (!conn.reply.enhanced || !conn.reply.enhanced->a || conn.stream().ended()) co_return;
  const MpaEnhanced& e = *conn.reply.enhanced;
  conn.full_operation(true, (conn.reply.flags & flag_m) != 0, false);
  co_await b.peer().sleep(b.settings().first_fpdu);
  if (e.c) {
    conn.send_fpdu(tester::segment(tester::write_header(1, 0)));
  } else if (e.b && !e.d) {
    conn.send_fpdu(tester::segment(tester::send_header(conn.next_send())));
  }
  if (e.ird != 0 && (e.b || e.c || e.d)) {
    conn.send_fpdu(tester::read_request(conn.next_read(), {.sink_stag = 1, .source_stag = 1}));
    co_await conn.receive_fpdu(b.settings().quiet);
  } else {
    co_await b.peer().sleep(b.settings().quiet);
  }
}

Task<Observation> enhanced(Tester& b, unsigned ird_word, unsigned ord_word, std::string (*wrong)(const MpaEnhanced&)) {
  const Answer a = co_await enhanced_answer(b, ird_word, ord_word);
  if (!a.enhanced) co_return a.trouble;
  const std::string fault = wrong(*a.enhanced);
  co_await complete(b, *a.conn);
  co_return fault.empty() ? pass(a.got) : failed(a.got + ": " + fault);
}

std::string kinds_set(const MpaEnhanced& e) { return e.b || e.c || e.d ? "B, C or D is set although A is not" : ""; }

std::string client_server_wrong(const MpaEnhanced& e) {
  if (e.a) return "A is set although the Request does not ask for the peer-to-peer model";
  if (const std::string kinds = kinds_set(e); !kinds.empty()) return kinds;
  if (e.ord > 8 && e.ord != not_negotiated) return fmt::format("ORD {} exceeds the Request's IRD 8", e.ord);
  if (e.ird < 8) return fmt::format("IRD {} is below the Request's ORD 8", e.ird);
  return {};
}
Task<Observation> v2_client_server(Tester& b) { return enhanced(b, 8, 8, client_server_wrong); }
Task<Observation> kinds_without_a(Tester& b) { return enhanced(b, 8 | B, 8 | C | D, client_server_wrong); }

// RFC 6581 §9.1: the responder's ORD is at most the initiator's IRD. Its IRD may be below the initiator's ORD: then the
// initiator lowers its ORD.
Task<Observation> depths_fit(Tester& b) {
  return enhanced(b, 3, 5, [](const MpaEnhanced& e) -> std::string {
    if (e.ord > 3 && e.ord != not_negotiated) return fmt::format("ORD {} exceeds the Request's IRD 3", e.ord);
    return {};
  });
}

std::string peer_to_peer_wrong(const MpaEnhanced& e) {
  if (!e.a) return "A is not copied";
  return e.b || e.c || e.d ? "" : "names no kind of ready-to-receive indication";
}
Task<Observation> a_with_send(Tester& b) { return enhanced(b, 8 | A | B, 8, peer_to_peer_wrong); }
Task<Observation> a_with_write(Tester& b) { return enhanced(b, 8 | A, 8 | C, peer_to_peer_wrong); }
Task<Observation> a_with_read(Tester& b) { return enhanced(b, 8 | A, 8 | D, peer_to_peer_wrong); }
Task<Observation> a_with_all(Tester& b) { return enhanced(b, 8 | A | B, 8 | C | D, peer_to_peer_wrong); }
Task<Observation> a_alone(Tester& b) { return enhanced(b, 8 | A, 8, peer_to_peer_wrong); }

Task<Observation> read_rtr_needs_ird(Tester& b) {
  return enhanced(b, A, D, [](const MpaEnhanced& e) -> std::string {
    if (!e.a) return "A is not copied";
    if (e.b || e.c) return {};
    if (!e.d) return "names no kind of ready-to-receive indication";
    return e.ird == 0 ? "agrees to a zero-length Read as indication with IRD 0" : "";
  });
}

Task<Observation> depths_not_negotiated(Tester& b) {
  return enhanced(b, not_negotiated, not_negotiated, [](const MpaEnhanced& e) -> std::string {
    if (e.ird == not_negotiated && e.ord == not_negotiated) return {};
    return fmt::format("IRD {:04x} and ORD {:04x}, where 3fff is answered by 3fff", e.ird, e.ord);
  });
}

// ---- the indication itself -----------------------------------------------------------------------------------------

/// Negotiates the kind and sends it; the stream must be understood after it.
Task<Observation> indication(Tester& b, unsigned ird_bits, unsigned ord_bits, std::uint32_t stag) {
  const Answer a = co_await enhanced_answer(b, 8 | A | ird_bits, 8 | ord_bits);
  if (!a.enhanced) co_return a.trouble;
  const MpaEnhanced& e = *a.enhanced;
  const bool named = (ird_bits == B && e.b) || (ord_bits == C && e.c) || (ord_bits == D && e.d);
  if (!e.a || !named || (ord_bits == D && e.ird == 0)) {
    co_await complete(b, *a.conn);
    co_return unclear(a.got +
                      (e.a && named ? ": IRD 0 leaves no room for a Read" : ": the responder does not take this kind"));
  }
  Conn& conn = *a.conn;
  conn.full_operation(true, (conn.reply.flags & flag_m) != 0, false);
  co_await b.peer().sleep(b.settings().first_fpdu);
  if (ord_bits == C) conn.send_fpdu(tester::segment(tester::write_header(stag, 0)));
  if (ird_bits == B) conn.send_fpdu(tester::segment(tester::send_header(conn.next_send())));
  if (ord_bits == D) {
    conn.send_fpdu(tester::read_request(conn.next_read(), {.sink_stag = 0x11, .sink_to = 0x22, .source_stag = stag}));
    Received response;
    for (unsigned i = 0; i < 8; ++i) {
      response = co_await conn.receive_fpdu(b.settings().reply);
      if (response.kind != Received::Kind::fpdu || response.is(wire::RdmapOpcode::read_response) ||
          response.is(wire::RdmapOpcode::terminate))
        break;
    }
    if (!response.is(wire::RdmapOpcode::read_response))
      co_return failed("the zero-length Read was answered by " + ending_text(response));
    if (const std::string fault = sink_fault(response, 0x11, 0x22); !fault.empty()) co_return failed(fault);
  }
  const auto wrong = co_await still_understands(b, conn);
  if (wrong) co_return failed("after the indication came " + *wrong);
  co_return pass("taken");
}
Task<Observation> write_rtr(Tester& b) { return indication(b, 0, C, 1); }
Task<Observation> write_rtr_stag_0(Tester& b) { return indication(b, 0, C, 0); }
Task<Observation> read_rtr(Tester& b) { return indication(b, 0, D, 1); }
Task<Observation> read_rtr_stag_0(Tester& b) { return indication(b, 0, D, 0); }
Task<Observation> send_rtr(Tester& b) { return indication(b, B, 0, 0); }

Task<Observation> rtr_missing(Tester& b) {
  const Answer a = co_await enhanced_answer(b, 8 | A | B, 8 | C | D);
  if (!a.enhanced) co_return a.trouble;
  if (!a.enhanced->a) co_return unclear(a.got + ": no indication was agreed");
  a.conn->full_operation(true, (a.conn->reply.flags & flag_m) != 0, false);
  const Received end = co_await a.conn->receive_fpdu(b.settings().timer);
  if (end.kind == Received::Kind::silence)
    co_return failed(fmt::format("still waiting after {}", limit_text(b.settings().timer)));
  if (!end.closed()) co_return failed(ending_text(end) + " before the first FPDU");
  co_return pass(ending_text(end));
}

// ---- a faulty or lost indication -----------------------------------------------------------------------------------

// RFC 5040 §7.2: the first FPDU is judged like any other, and an error ends the connection before it is established.
Task<Observation> rtr_faulty(Tester& b) {
  const Answer a = co_await enhanced_answer(b, 8 | A | B, 8 | C | D);
  if (!a.enhanced) co_return a.trouble;
  if (!a.enhanced->a) co_return unclear(a.got + ": no indication was agreed");
  a.conn->full_operation(true, (a.conn->reply.flags & flag_m) != 0, false);
  co_await b.peer().sleep(b.settings().first_fpdu);
  Provocation provocation;
  provocation.steps.push_back({wrong_version_segment(a.conn->next_send())});
  provocation.due.codes = {wrong_version};
  const Observation found = co_await provoke_on(b, *a.conn, std::move(provocation));
  co_return found;
}

// RFC 5044 §8: a TCP connection may be lost at any time; that ends only its own stream.
Task<Observation> rtr_lost(Tester& b) {
  const Answer a = co_await enhanced_answer(b, 8 | A | B, 8 | C | D);
  if (!a.enhanced) co_return a.trouble;
  if (!a.enhanced->a) co_return unclear(a.got + ": no indication was agreed");
  co_await b.peer().sleep(b.settings().quiet);
  a.conn->send("RST", {});
  a.conn->stream().reset();
  co_await b.peer().sleep(b.settings().quiet);
  const StartupOctets request{.flags = flag_c};
  Conn* next = co_await b.ask(request);
  if (next == nullptr) co_return b.trouble();
  const std::string got = "the next Request is answered by " + frame_text(next->reply);
  if (next->reply.is(MpaKey::rep)) co_return pass(got);
  if (next->reply.closed()) co_return unclear(got + "; the program may take one connection only");
  co_return failed(got);
}

// ---- frames that contradict themselves -----------------------------------------------------------------------------

Task<Observation> short_enhanced(Tester& b, std::size_t octets) {
  const StartupOctets request{.flags = flag_c | flag_s, .revision = 2, .private_data = Bytes(octets, 1)};
  Conn* conn = co_await b.ask(request);
  if (conn == nullptr) co_return b.trouble();
  if (conn->reply.is(MpaKey::rep)) co_return failed(frame_text(conn->reply) + " instead of the end of the connection");
  co_return judge_closed(conn->reply, b.settings().reply);
}
Task<Observation> enhanced_without_data(Tester& b) { return short_enhanced(b, 0); }
Task<Observation> enhanced_of_3_octets(Tester& b) { return short_enhanced(b, 3); }

Task<Observation> v2_without_s(Tester& b) {
  const StartupOctets request{.flags = flag_c, .revision = 2};
  Conn* conn = co_await b.ask(request);
  if (conn == nullptr) co_return b.trouble();
  const std::string got = frame_text(conn->reply);
  if (conn->reply.closed()) co_return unclear(got + ": the responder takes no revision 2");
  if (!conn->reply.is(MpaKey::rep)) co_return failed(got + " instead of a Reply");
  if ((conn->reply.flags & flag_r) != 0) co_return unclear(got + ": rejected");
  if ((conn->reply.flags & flag_s) != 0) co_return failed(got + ": S is set although the Request's is not");
  co_return pass(got);
}

// ---- the Rtr frame -------------------------------------------------------------------------------------------------

Task<Observation> rtr_frame(Tester& b, std::string_view key) {
  const StartupOctets request{.flags = flag_c | flag_s};
  Conn* conn = co_await b.ask(request);
  if (conn == nullptr) co_return b.trouble();
  const std::string got = frame_text(conn->reply);
  if (!conn->reply.is(MpaKey::rep) || (conn->reply.flags & flag_s) == 0)
    co_return unclear(got + ": the responder does not know the proposal");
  conn->full_operation(true, (conn->reply.flags & flag_m) != 0, false);
  const auto wrong = co_await accepts_rtr_frame(b, *conn, key);
  if (wrong) co_return failed(got + ": S promises to take the frame, but then came " + *wrong);
  co_return pass(got + ", and the frame was taken");
}
Task<Observation> rtr_frame_text(Tester& b) { return rtr_frame(b, PARLEY_MPA_KEY_RTR); }
Task<Observation> rtr_frame_hex(Tester& b) { return rtr_frame(b, PARLEY_MPA_KEY_RTR_HEX); }

constexpr std::string_view rfc91 = "RFC 6581 §9.1", rfc92 = "RFC 6581 §9.2";
constexpr Case table[] = {
    Case{"32", "v2-client-server", Iut::responder, rfc91, Level::must, false, "Request 50/02, IRD 8, ORD 8, A=0",
         "Reply with S=1, Rev 2, A=B=C=D=0, ORD <= 8, IRD >= 8", v2_client_server},
    Case{"33", "kinds-without-a-ignored", Iut::responder, rfc92, Level::must, false, "A=0 with B, C and D",
         "B, C and D are ignored: the Reply as without them", kinds_without_a},
    Case{"34", "a-with-send", Iut::responder, rfc92, Level::must, false, "A and B", "A copied, at least one kind named",
         a_with_send},
    Case{"34", "a-with-write", Iut::responder, rfc92, Level::must, false, "A and C",
         "A copied, at least one kind named", a_with_write},
    Case{"34", "a-with-read", Iut::responder, rfc92, Level::must, false, "A and D", "A copied, at least one kind named",
         a_with_read},
    Case{"34", "a-with-all-kinds", Iut::responder, rfc92, Level::must, false, "A with B, C and D",
         "A copied, at least one kind named", a_with_all},
    Case{"35", "read-rtr-raises-ird", Iut::responder, rfc92, Level::must, false, "A and D, IRD 0, ORD 0",
         "IRD >= 1, or another kind", read_rtr_needs_ird},
    Case{"36", "depths-3fff-mirrored", Iut::responder, rfc91, Level::must, false, "IRD 3FFF, ORD 3FFF",
         "Reply with IRD 3FFF, ORD 3FFF", depths_not_negotiated},
    Case{"42", "write-rtr-stag-1", Iut::responder, rfc92, Level::must, false,
         "A and C, then a zero-length Write, STag 1", "accepted", write_rtr},
    Case{"42", "write-rtr-stag-0", Iut::responder, "RFC 5041 §5.1", Level::must, false,
         "A and C, then a zero-length Write, STag 0", "accepted: STag and TO of a zero-length message are not checked",
         write_rtr_stag_0},
    Case{"42", "read-rtr-stag-1", Iut::responder, rfc92, Level::must, false,
         "A and D, then a zero-length Read, source STag 1", "zero-length Read Response with the sink copied", read_rtr},
    Case{"42", "read-rtr-stag-0", Iut::responder, "RFC 5040 §5.2", Level::must, false,
         "A and D, then a zero-length Read, source STag 0", "zero-length Read Response with the sink copied",
         read_rtr_stag_0},
    Case{"42", "send-rtr", Iut::responder, rfc92, Level::must, false, "A and B, then a zero-length Send", "accepted",
         send_rtr},
    Case{"43", "rtr-missing-times-out", Iut::responder, "RFC 5044 §7.1.2 rule 10", Level::must, false,
         "an indication is agreed, then silence", "TCP closed after a while", rtr_missing},
    Case{"44", "enhanced-without-data-closes", Iut::responder, "RFC 6581 §6", Level::must, false,
         "Request 50/02 with PD_Length 0", "improperly formatted: TCP closed", enhanced_without_data},
    Case{"44", "enhanced-of-3-octets-closes", Iut::responder, "RFC 6581 §6", Level::must, false,
         "Request 50/02 with PD_Length 3", "improperly formatted: TCP closed", enhanced_of_3_octets},
    Case{"48", "v2-without-s", Iut::responder, "RFC 6581 §10", Level::must, false, "Request 40/02/0000",
         "Reply with S=0", v2_without_s},
    Case{"65", "rtr-frame-text", Iut::responder, "OFA 2007-10 Rtr §1", Level::may, false,
         "Request 50/01; if the Reply has S=1, key \"MPA ID Rtr Frame\"", "the frame is accepted", rtr_frame_text},
    Case{"65", "rtr-frame-octets", Iut::responder, "OFA 2007-10 Rtr §1", Level::may, false,
         "Request 50/01; if the Reply has S=1, key \"MPA ID RtR Frame\"", "the frame is accepted", rtr_frame_hex},
    Case{"73", "depths-fit", Iut::responder, rfc91, Level::must, false, "IRD 3, ORD 5", "Reply with ORD <= 3",
         depths_fit},
    Case{"74", "a-alone", Iut::responder, rfc92, Level::must, false, "A without B, C and D",
         "A copied, at least one kind named", a_alone},
    Case{"90", "rtr-lost", Iut::responder, "RFC 5044 §8", Level::must, true,
         "an indication is agreed, then RST; a new connection", "the new connection is answered", rtr_lost},
    Case{"91", "rtr-faulty", Iut::responder, "RFC 5040 §7.2", Level::must, true,
         "an indication is agreed, then a segment with RDMAP version 0", "Terminate 02 05", rtr_faulty},
};

}  // namespace
}  // namespace enhanced_table

std::span<const Case> enhanced_cases() { return enhanced_table::table; }

}  // namespace parley::conform
