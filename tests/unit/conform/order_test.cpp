// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the RFCs leave open is judged as open, and what they ask for as SHOULD as that: segments out of order, the end
// behind a Terminate, Writes to memory that was named for Reads only.
#include "conform/core/judge.hpp"
#include "kit.hpp"

namespace parley::conform {
namespace {

using namespace kit;

Task<bool> accepts(tester::ScriptedPeer& peer, tester::TcpStream& stream) {
  constexpr std::size_t request = PARLEY_MPA_HEADER_LEN + PARLEY_MPA_ENH_LEN;
  const bool asked = co_await peer.more(stream, request - 1, 20s);
  stream.take(stream.unread().size());
  if (asked)
    stream.send(tester::startup({.key = PARLEY_MPA_KEY_REP,
                                 .flags = PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S,
                                 .revision = 2,
                                 .enhanced = tester::enhanced(8, 8)}));
  co_return asked;
}

/// A responder that answers the first FPDU by that Terminate, then ends.
Script ends_by(TermCode code, bool rst, bool terminate = true) {
  return [=](tester::ScriptedPeer& peer, tester::TcpStream& stream) -> Task<void> {
    const bool accepted = co_await accepts(peer, stream);
    if (!accepted) co_return;
    (void)co_await peer.more(stream, 0, 20s);
    tester::FpduWriter writer(true, false);
    if (terminate) stream.send(writer.write(terminate_of(code)));
    co_await peer.sleep(1ms);
    if (rst) {
      stream.reset();
    } else {
      stream.fin();
    }
  };
}

Observation judged(std::string_view name, Script script) {
  Table table(Iut::responder, {name}, std::move(script));
  table.settings.recv_size = 16;
  return table.only_result().finding;
}

TEST(ConformOrder, AnRstStraightAfterTheTerminateIsTold) {
  EXPECT_EQ(judged("terminate-then-fin", ends_by(wrong_version, false)).observed, "Terminate, then FIN");
  const Observation rst = judged("terminate-then-fin", ends_by(wrong_version, true));
  EXPECT_EQ(to_string(rst.verdict), "fail");
  EXPECT_EQ(rst.observed, "RST straight after the Terminate, which it may overtake");
  const Observation bare = judged("terminate-then-fin", ends_by(wrong_version, true, false));
  EXPECT_EQ(to_string(bare.verdict), "fail");
  EXPECT_EQ(to_string(judged("terminate-then-fin", ends_by(wrong_version, false, false)).verdict), "inconclusive");
}

/// rping's server: asks for a Read, then answers what it gets next by that Terminate.
Script reads_and_refuses(TermCode code) {
  return [=](tester::ScriptedPeer& peer, tester::TcpStream& stream) -> Task<void> {
    const bool accepted = co_await accepts(peer, stream);
    if (!accepted) co_return;
    (void)co_await peer.more(stream, 0, 20s);
    stream.take(stream.unread().size());
    tester::FpduWriter writer(true, false);
    stream.send(writer.write(tester::read_request(
        1, {.sink_stag = 0x500, .sink_to = 0x9000, .size = 64, .source_stag = 0x77, .source_to = 0x1000})));
    (void)co_await peer.more(stream, 0, 20s);
    stream.send(writer.write(terminate_of(code)));
    stream.fin();
  };
}

TEST(ConformOrder, TheSinkOfAReadNeedNotTakeWrites) {
  for (const std::string_view name : {"write-out-of-bounds", "write-wraps", "write-segments-out-of-order"}) {
    for (const TermCode& code : {TermCode{1, 1, 0x00}, TermCode{0, 1, 0x02}}) {
      const Observation f = judged(name, reads_and_refuses(code));
      EXPECT_EQ(to_string(f.verdict), "inconclusive") << name << ": " << f.observed;
      EXPECT_NE(f.observed.find("may not be written"), std::string::npos) << f.observed;
    }
    EXPECT_EQ(to_string(judged(name, reads_and_refuses({1, 1, 0x02})).verdict), "fail") << name;
  }
}

TEST(ConformOrder, APeerThatTakesNoSegmentsOutOfOrderMissesAShould) {
  for (const std::string_view name : {"send-segments-out-of-order", "read-response-out-of-order"}) {
    Table table(Iut::responder, {name},
                name.starts_with("send") ? ends_by({1, 2, 0x04}, false) : reads_and_refuses({1, 1, 0x01}));
    table.settings.recv_size = 16;
    const Result r = table.only_result();
    EXPECT_EQ(verdict_text(r, false), "FAIL (SHOULD)") << r.finding.observed;
    EXPECT_EQ(r.finding.observed.find("Terminate"), 0U) << r.finding.observed;
  }
}

TEST(ConformOrder, OctetsThatWerePlacedElsewhereAreFoundOut) {
  const auto reads = [](std::uint64_t to) -> Script {
    return [=](tester::ScriptedPeer& peer, tester::TcpStream& stream) -> Task<void> {
      const bool accepted = co_await accepts(peer, stream);
      if (!accepted) co_return;
      (void)co_await peer.more(stream, 95, 20s);
      tester::FpduWriter writer(true, false);
      stream.send(writer.write(tester::read_request(
          1, {.sink_stag = 0x500, .sink_to = 0x9000, .size = 64, .source_stag = 0x77, .source_to = to})));
      stream.send(writer.write(terminate_of(wrong_version)));
      stream.fin();
    };
  };
  EXPECT_EQ(judged("send-segments-out-of-order", reads(0x1000)).observed, "taken");
  const Observation f = judged("send-segments-out-of-order", reads(0));
  EXPECT_EQ(to_string(f.verdict), "fail");
  EXPECT_NE(f.observed.find("not where they belong"), std::string::npos) << f.observed;
}

}  // namespace
}  // namespace parley::conform
