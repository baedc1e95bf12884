// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Judgement against what Linux siw (6.1) was recorded to answer, in tests/captures/iwarp/siw_probe_*.pcap: what it does
// wrong is found, and what it does right passes.
#include "kit.hpp"

namespace parley::conform {
namespace {

using namespace kit;

Bytes octets(std::string_view hex) {
  Bytes out;
  unsigned value = 0, digits = 0;
  for (const char c : hex) {
    if (c == ' ') continue;
    value = value << 4 | static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
    if (++digits % 2 == 0) {
      out.push_back(static_cast<std::uint8_t>(value));
      value = 0;
    }
  }
  return out;
}

enum class End { open, fin, rst };

/// One recorded answer.
struct Recorded {
  std::string_view name;
  Verdict expected = Verdict::fail;
  std::string_view startup = "";  ///< behind the key; empty: the plain acceptance; "-": none
  std::string_view ulpdu = "";    ///< after the tester's first FPDU (or Rtr frame); empty: nothing
  End end = End::open;
  std::string_view words = "";  ///< in what is observed
};

constexpr std::string_view client_server = "5002 0004 0008 0008";
constexpr std::string_view term = "4147 00000000 00000002 00000001 00000000 ";

// siw_probe_startup.pcap by number of connection, and siw_probe_fpdus_terminates.pcap
constexpr Recorded as_responder[] = {
    {"plain-v1", Verdict::pass, "4001 0000"},
    {"reserved-bits-ignored", Verdict::fail, "4f01 0000", "", End::open, "reserved bits 0f"},
    {"s-on-revision-1-truthful", Verdict::fail, "5001 0000", "20050000", End::fin, "S promises the Rtr frame"},
    {"r-in-request-ignored", Verdict::fail, "6001 0000", "", End::open, "R is set"},
    {"markers-asked", Verdict::fail, "7002 0004 0000 0000", "", End::fin, "a Request without M is accepted"},
    {"markers-asked-v1", Verdict::fail, "6001 0000", "", End::fin, "a Request without M is accepted"},
    {"bad-key-closes", Verdict::pass, "-", "", End::fin},
    {"reply-key-closes", Verdict::pass, "-", "", End::fin},
    {"revision-3-closes", Verdict::pass, "-", "", End::fin},
    {"revision-129-closes", Verdict::pass, "-", "", End::fin},
    {"revision-0", Verdict::fail, "6000 0000", "", End::fin},
    {"private-data-512", Verdict::fail, "-", "", End::rst, "a plain Request is accepted"},
    {"private-data-513-closes", Verdict::pass, "-", "", End::rst},
    {"octets-behind-request-close", Verdict::pass, "-", "", End::fin},
    {"request-in-two-segments", Verdict::pass, "4001 0000"},
    {"v2-client-server", Verdict::pass, client_server},
    {"kinds-without-a-ignored", Verdict::pass, client_server},
    {"a-with-send", Verdict::pass, "5002 0004 8008 8008"},
    {"a-with-write", Verdict::pass, "5002 0004 8008 8008"},
    {"a-with-read", Verdict::pass, "5002 0004 8008 4008"},
    {"a-with-all-kinds", Verdict::pass, "5002 0004 8008 8008"},
    {"a-alone", Verdict::pass, "5002 0004 8008 8008"},
    {"read-rtr-raises-ird", Verdict::fail, "5002 0004 8000 4000", "", End::open, "IRD 0"},
    {"depths-3fff-mirrored", Verdict::fail, "5002 0004 0080 0080", "", End::open, "0080"},
    {"enhanced-without-data-closes", Verdict::fail, "3002 0000", "", End::fin},
    {"enhanced-of-3-octets-closes", Verdict::fail, "3002 0000", "", End::fin},
    {"v2-without-s", Verdict::pass, "4002 0000"},
    {"rtr-missing-times-out", Verdict::fail, "5002 0004 8008 8008"},
    {"rtr-faulty", Verdict::fail, "5002 0004 8008 8008", "20050000", End::fin, "the right error, 02 05"},
    {"bad-crc", Verdict::fail, "", "02020000", End::fin, "the right error, 20 02"},
    {"ddp-version-0-untagged", Verdict::fail, "", "21060000", End::fin, "the right error, 12 06"},
    {"ddp-version-0-tagged", Verdict::pass, "", "11040000", End::fin},
    {"rdmap-version-0", Verdict::fail, "", "20050000", End::fin, "the right error, 02 05"},
    {"opcode-f", Verdict::fail, "", "20060000", End::fin, "the right error, 02 06"},
    {"immediate-of-7-octets", Verdict::fail, "", "20060000", End::fin, "nibbles of octet 0"},
    {"queue-5", Verdict::fail, "", "21010300 0010 4143 00000000 00000005 00000001 00000000", End::fin, "12 01"},
    {"msn-2-first", Verdict::fail, "", "21030300 0010 4143 00000000 00000000 00000002 00000000", End::fin, "12 03"},
    {"mo-4-first", Verdict::fail, "", "21040300 0010 4143 00000000 00000000 00000001 00000004", End::fin, "12 04"},
    {"send-segments-out-of-order", Verdict::fail, "", "21040300 0005 0143 00000000 00000000 00000001 00000005",
     End::fin, "12 04"},
    {"terminate-then-fin", Verdict::pass, "", "20050000", End::fin},
    {"message-too-long", Verdict::fail, "", "21020300 0040 4143 00000000 00000000 00000001 00000000", End::fin,
     "12 05 (untagged: message too long for the buffer) is expected"},
    {"write-bad-stag", Verdict::fail, "", "11000300 0004 c140 00123456 0000000000000000", End::fin, "low bits"},
    {"zero-write-any-stag", Verdict::pass, "", "20050000", End::fin},
    {"invalidate-foreign-stag", Verdict::fail, "", "20090300 0010 4144 deadbe00 00000000 00000001 00000000", End::fin,
     "02 09"},
    {"read-bad-stag", Verdict::fail, "",
     "10000700 0000 4141 00000000 00000001 00000010 00000000 00000011 0000000000000022 00000010 10555555 "
     "0000000000000000",
     End::fin, "the right error, 01 00"},
    {"read-msn-2-first", Verdict::fail, "", "21030300 0000 4141 00000000 00000001 00000002 00000000", End::fin,
     "12 03"},
    {"read-response-unasked", Verdict::fail, "", "01000300 0004 c142 00000001 0000000000000000", End::fin, "low bits"},
    {"untagged-write", Verdict::fail, "", "11000300 0014 4140 00000000 00000000 00000001 00000000", End::fin},
    {"ulpdu-length-0", Verdict::fail, "", "21060000", End::fin},
    {"ulpdu-length-4", Verdict::fail, "", "02030000", End::fin},
    {"nonzero-pad", Verdict::pass, "", "20050000", End::fin},
    {"reserved-ddp-bits-ignored", Verdict::pass, "", "20050000", End::fin},
    {"crc-off", Verdict::pass, "1002 0004 0008 0008", "20050000", End::fin},
    {"terminate-received", Verdict::pass, "", "", End::fin},
    {"silent-after-terminate", Verdict::pass, "", "20050000", End::fin},
};

Bytes key_and(std::string_view key, std::string_view rest) {
  Bytes out(key.begin(), key.end());
  const Bytes more = octets(rest);
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

Task<void> siw_responder(tester::ScriptedPeer& peer, const Recorded& r, bool& asked) {
  (void)co_await peer.listen(Address::any(Address::Family::v4, port), 1s);
  for (;;) {
    tester::TcpStream* stream = co_await peer.accept(std::chrono::hours(100));
    if (stream == nullptr) continue;
    tester::FrameReader reader(peer, *stream);
    const tester::Received request = co_await reader.startup(10s);
    const bool plain = request.is(wire::MpaKey::req) && request.flags == PARLEY_MPA_FLAG_C && request.revision == 1 &&
                       request.pd_length == 0 && asked;
    asked = true;
    std::string_view reply = r.startup;
    if (plain) reply = "4001 0000";
    if (reply.empty()) reply = client_server;
    const bool crc = reply.substr(0, 2) != "10";
    if (reply != "-") stream->send(key_and(PARLEY_MPA_KEY_REP, reply));
    tester::FpduWriter writer(crc, false);
    if (!plain && (!r.ulpdu.empty() || r.end != End::open)) {
      if (reply != "-" && (r.startup.empty() || !r.ulpdu.empty())) {
        stream->take(stream->unread().size());
        co_await peer.more(*stream, 0, 20s);
      }
      if (!r.ulpdu.empty()) {
        const std::string whole = std::string(term) + std::string(r.ulpdu);
        stream->send(writer.write(octets(whole)));
      }
      if (r.end == End::fin) stream->fin();
      if (r.end == End::rst) stream->reset();
    }
    co_await peer.until([&] { return stream->ended() || peer.waiting() > 0; }, 100s);
    stream->fin();
  }
}

// siw_probe_initiator.pcap
constexpr std::string_view advertisement =
    "4143 00000000 00000000 00000001 00000000 00005569 1b1e6480 11d03a00 00000040";
constexpr Recorded as_initiator[] = {
    {"crc-by-default", Verdict::fail},
    {"request-sound", Verdict::pass},
    {"bad-key-closes", Verdict::fail, "", "0204 0000", End::fin, "a Terminate, where TCP is to be closed"},
    {"request-key-closes", Verdict::fail, "", "0204 0000", End::fin},
    {"rejected-with-data", Verdict::pass, "", "", End::fin},
    {"fpdu-glued-to-reply", Verdict::pass, "", "", End::rst},
    {"depths-3fff-left-alone", Verdict::fail, "", "0206 0000", End::fin, "3fff is taken as a depth"},
    {"reply-ord-over-ird", Verdict::fail, "", "0206 0000", End::fin, "the right error, 20 06"},
    {"v1-answer-to-v2", Verdict::pass, "", "", End::fin},
    {"revision-3-closes", Verdict::pass, "", "", End::fin},
    {"markers-asked", Verdict::fail, "", "", End::fin, "a Reply with M=1 is not accepted"},
    {"rtr-first", Verdict::inconclusive},
    {"reply-without-a", Verdict::inconclusive},
};
constexpr Recorded as_initiator_p2p[] = {
    {"no-common-rtr", Verdict::fail, "", "0207 0000", End::fin, "the right error, 20 07"},
    {"reply-without-a-with-kinds", Verdict::fail, "", "rtr", End::open},
    {"rtr-first", Verdict::pass, "", "rtr", End::open},
};

Task<void> siw_initiator(tester::ScriptedPeer& peer, const Recorded& r, Address tester, bool p2p) {
  co_await peer.sleep(10ms);
  for (;;) {
    tester::TcpStream* stream = co_await peer.connect(tester, 5s);
    if (stream == nullptr) {
      co_await peer.sleep(100ms);
      continue;
    }
    stream->send(key_and(PARLEY_MPA_KEY_REQ, p2p ? "1002 0004 8001 c001" : "1002 0004 0001 0001"));
    co_await peer.more(*stream, 19, 100s);
    const bool crc = stream->unread().size() > 16 && (stream->unread()[16] & PARLEY_MPA_FLAG_C) != 0;
    tester::FpduWriter writer(crc, false);
    const std::string terminate = std::string(term) + std::string(r.ulpdu);
    if (r.ulpdu == "rtr") {
      stream->send(writer.write(tester::segment(tester::write_header(1, 0))));
    } else if (!r.ulpdu.empty()) {
      stream->send(writer.write(octets(terminate)));
    } else if (r.end == End::open) {
      stream->send(writer.write(octets(advertisement)));
    }
    if (r.end == End::fin) stream->fin();
    if (r.end == End::rst) stream->reset();
    co_await peer.end(*stream, 100s);
    stream->fin();
    co_await peer.sleep(1s);
  }
}

void judged(Iut iut, const Recorded& r, bool p2p = false) {
  sim::World world(1);
  sim::Host* tester = *world.add_host("tester");
  sim::Host* other = *world.add_host("peer");
  ASSERT_TRUE(world.add_link(tester->id(), other->id()));
  tester::ScriptedPeer peer, siw;
  tester->set_machine(&peer);
  other->set_machine(&siw);
  Settings settings;
  settings.iut = iut;
  settings.target = at_port(other->address());
  settings.ulp = Ulp::rping;
  settings.recv_size = 16;
  settings.recv_count = 1;
  std::vector<const Case*> list;
  for (const Case* c : cases(iut))
    if (c->name == r.name) list.push_back(c);
  ASSERT_EQ(list.size(), 1U) << r.name;
  Run run(peer, settings, list, {}, {});
  const auto script = [](tester::ScriptedPeer& s, Run& of) -> Task<void> {
    (void)co_await s.listen(Address::any(Address::Family::v4, port), 1s);
    co_await of.script();
  };
  bool asked = false;
  siw.start(world.now(), iut == Iut::responder ? siw_responder(siw, r, asked)
                                               : siw_initiator(siw, r, at_port(tester->address()), p2p));
  peer.start(world.now(), script(peer, run));
  ASSERT_TRUE(world.run_until([&] { return peer.done(); }, std::chrono::hours(1))) << r.name;
  const Observation& f = run.results().front().finding;
  EXPECT_EQ(to_string(f.verdict), to_string(r.expected)) << r.name << ": " << f.observed;
  EXPECT_NE(f.observed.find(r.words), std::string::npos) << r.name << ": " << f.observed;
  siw.stop();
}

TEST(ConformSiw, RecordedAnswersOfItsResponderAreJudgedByTheRfcs) {
  for (const Recorded& r : as_responder) judged(Iut::responder, r);
}

TEST(ConformSiw, RecordedAnswersOfItsInitiatorAreJudgedByTheRfcs) {
  for (const Recorded& r : as_initiator) judged(Iut::initiator, r);
  for (const Recorded& r : as_initiator_p2p) judged(Iut::initiator, r, true);
}

}  // namespace
}  // namespace parley::conform
