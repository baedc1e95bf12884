// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Silence proves nothing: a peer that hangs passes no case by it, one that reads over faults is found out by what it
// answers behind them, a case ends however slowly a peer goes on, and an interrupted run ends at once.
#include "conform/core/judge.hpp"
#include "kit.hpp"

namespace parley::conform::hang_test {
namespace {

using namespace kit;

constexpr std::uint8_t flag_c = PARLEY_MPA_FLAG_C, flag_m = PARLEY_MPA_FLAG_M, flag_s = PARLEY_MPA_FLAG_S;

Bytes enhanced_request() {
  return tester::startup({.flags = flag_c | flag_s, .revision = 2, .enhanced = tester::enhanced(1, 1)});
}

/// Sends that and hangs.
Script says(Bytes octets) {
  return [octets](tester::ScriptedPeer& peer, tester::TcpStream& stream) -> Task<void> {
    stream.send(octets);
    co_await peer.sleep(1ms);
  };
}

TEST(ConformHang, AnInitiatorThatHangsAfterTheReplyPassesNothingByItsSilence) {
  for (const std::string_view name :
       {"depths-3fff-left-alone", "reply-ord-over-ird", "v1-answer-to-v2", "reply-octet-by-octet"}) {
    Table table(Iut::initiator, {name}, says(enhanced_request()));
    const Observation f = table.only_result().finding;
    EXPECT_EQ(to_string(f.verdict), "inconclusive") << name << ": " << f.observed;
    EXPECT_NE(f.observed.find("silent"), std::string::npos) << name << ": " << f.observed;
  }
}

TEST(ConformHang, ARejectedInitiatorThatIsSilentMayNotHaveSeenTheRejection) {
  Table hangs(Iut::initiator, {"rejected-with-data"}, says(enhanced_request()));
  const Observation unknown = hangs.only_result().finding;
  EXPECT_EQ(to_string(unknown.verdict), "inconclusive") << unknown.observed;
  // One that takes the Reply for an acceptance, has nothing to send and is asked by an FPDU.
  Table goes_on(Iut::initiator, {"rejected-with-data"},
                [](tester::ScriptedPeer& peer, tester::TcpStream& stream) -> Task<void> {
                  stream.send(enhanced_request());
                  const std::size_t reply = PARLEY_MPA_HEADER_LEN + PARLEY_MPA_ENH_LEN + 2;
                  const bool asked = co_await peer.more(stream, reply, 20s);
                  if (!asked) co_return;
                  stream.send(tester::FpduWriter(true, false).write(terminate_of(wrong_version)));
                });
  const Observation missed = goes_on.only_result().finding;
  EXPECT_EQ(to_string(missed.verdict), "fail") << missed.observed;
  EXPECT_NE(missed.observed.find("R is not seen"), std::string::npos) << missed.observed;
}

TEST(ConformHang, SOfRevision1IsAReservedBitUnlessTheRtrFrameFollows) {
  const Bytes request = tester::startup({.flags = flag_c | flag_s});
  Table hangs(Iut::initiator, {"request-sound"}, says(request));
  const Observation broken = hangs.only_result().finding;
  EXPECT_EQ(to_string(broken.verdict), "fail") << broken.observed;
  EXPECT_NE(broken.observed.find("reserved bits 10"), std::string::npos) << broken.observed;
  Table keeps(Iut::initiator, {"request-sound"},
              [&](tester::ScriptedPeer& peer, tester::TcpStream& stream) -> Task<void> {
                stream.send(request);
                (void)co_await peer.more(stream, PARLEY_MPA_HEADER_LEN - 1, 20s);
                stream.send(tester::startup({.key = PARLEY_MPA_KEY_RTR, .flags = flag_c}));
              });
  const Observation kept = keeps.only_result().finding;
  EXPECT_EQ(to_string(kept.verdict), "pass") << kept.observed;
}

/// rping's client: Request, a Send after the Reply, and each Read answered by that response.
Script answers_each_read(std::uint32_t stag_off, std::uint64_t to_off, std::size_t octets) {
  return [=](tester::ScriptedPeer& peer, tester::TcpStream& stream) -> Task<void> {
    stream.send(enhanced_request());
    (void)co_await peer.more(stream, PARLEY_MPA_HEADER_LEN + PARLEY_MPA_ENH_LEN - 1, 20s);
    stream.take(stream.unread().size());
    tester::FpduWriter writer(true, false);
    stream.send(writer.write(tester::segment(tester::send_header(1), Bytes(16, 1))));
    (void)co_await peer.more(stream, 0, 20s);
    stream.send(
        writer.write(tester::segment(tester::read_response_header(0x11 + stag_off, 0x22 + to_off), Bytes(octets, 0))));
  };
}

TEST(ConformHang, AReadResponseIsToldInWhatItDiffers) {
  const auto observed = [](Script script) {
    Table table(Iut::initiator, {"zero-read-any-stag"}, std::move(script));
    const Observation f = table.only_result().finding;
    EXPECT_EQ(to_string(f.verdict), "fail") << f.observed;
    return f.observed;
  };
  EXPECT_EQ(observed(answers_each_read(1, 0, 0)), "the Read Response does not copy the sink STag");
  EXPECT_EQ(observed(answers_each_read(0, 1, 0)), "the Read Response does not copy the sink TO");
  EXPECT_EQ(observed(answers_each_read(0, 0, 4)), "the Read Response has 4 octets where none were asked for");
  EXPECT_EQ(observed(answers_each_read(1, 1, 4)),
            "the Read Response has 4 octets where none were asked for, does not copy the sink STag, does not copy the "
            "sink TO");
}

/// What FPDUs hold when nobody looks at the markers between their octets.
std::vector<Bytes> read_over_markers(ConstBytes stream) {
  Bytes bare;
  for (std::size_t at = 0; at < stream.size(); ++at)
    if (at % 512 >= 4) bare.push_back(stream[at]);
  std::vector<Bytes> all;
  for (std::size_t at = 0; at + 2 <= bare.size();) {
    const std::size_t size = static_cast<std::size_t>(bare[at]) << 8 | bare[at + 1];
    const std::size_t whole = (2 + size + 3) / 4 * 4 + PARLEY_MPA_CRC_LEN;
    if (at + whole > bare.size()) break;
    const Bytes ulpdu(bare.begin() + static_cast<std::ptrdiff_t>(at + 2),
                      bare.begin() + static_cast<std::ptrdiff_t>(at + 2 + size));
    all.push_back(ulpdu);
    at += whole;
  }
  return all;
}

/// A responder that asks for markers and answers the first `most` Reads.
Script answers_reads(std::size_t most) {
  return [most](tester::ScriptedPeer& peer, tester::TcpStream& stream) -> Task<void> {
    (void)co_await peer.more(stream, PARLEY_MPA_HEADER_LEN + PARLEY_MPA_ENH_LEN - 1, 20s);
    stream.take(stream.unread().size());
    stream.send(tester::startup({.key = PARLEY_MPA_KEY_REP,
                                 .flags = flag_c | flag_m | flag_s,
                                 .revision = 2,
                                 .enhanced = tester::enhanced(8, 8)}));
    tester::FpduWriter writer(true, false);
    std::size_t answered = 0;
    while (!stream.ended()) {
      (void)co_await peer.more(stream, stream.unread().size(), 20s);
      std::size_t reads = 0;
      for (const Bytes& ulpdu : read_over_markers(stream.unread())) {
        const auto header = wire::DdpHeader::parse(ulpdu);
        if (!header || header->opcode != wire::RdmapOpcode::read_request || ++reads <= answered || reads > most)
          continue;
        const auto read = wire::ReadRequest::parse(ConstBytes(ulpdu).subspan(PARLEY_DDP_UNTAGGED_LEN));
        stream.send(writer.write(tester::segment(tester::read_response_header(read->sink_stag, read->sink_to))));
        answered = reads;
      }
    }
  };
}

TEST(ConformHang, AWrongPointerIsNotNoticedWhereTheReadBehindItIsAnswered) {
  const auto finding = [](std::size_t most) {
    Table table(Iut::responder, {"wrong-fpduptr"}, answers_reads(most));
    return table.only_result().finding;
  };
  const Observation ignores = finding(2);
  EXPECT_EQ(to_string(ignores.verdict), "fail") << ignores.observed;
  const Observation drops = finding(1);
  EXPECT_EQ(to_string(drops.verdict), "pass") << drops.observed;
  const Observation hangs = finding(0);
  EXPECT_EQ(to_string(hangs.verdict), "inconclusive") << hangs.observed;
}

/// rping's client with much memory, whose Read Responses hold `step` octets and come one each second.
Script slow_reader(std::size_t step, bool last) {
  return [step, last](tester::ScriptedPeer& peer, tester::TcpStream& stream) -> Task<void> {
    stream.send(enhanced_request());
    (void)co_await peer.more(stream, PARLEY_MPA_HEADER_LEN + PARLEY_MPA_ENH_LEN - 1, 20s);
    stream.take(stream.unread().size());
    tester::FpduWriter writer(true, false);
    const Bytes advertisement{0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0x77, 0, 1, 0, 0};
    stream.send(writer.write(tester::segment(tester::send_header(1), advertisement)));
    (void)co_await peer.more(stream, 0, 20s);
    while (!stream.ended()) {
      wire::DdpHeader header = tester::read_response_header(0x11, 0);
      header.last = last;
      stream.send(writer.write(tester::segment(header, Bytes(step, 0))));
      co_await peer.sleep(1s);
    }
  };
}

TEST(ConformHang, NothingIsMeasuredByAReadResponseThatIsShorterThanAskedFor) {
  Table table(Iut::initiator, {"ulpdu-within-mulpdu"}, slow_reader(0, true));
  const Observation f = table.only_result().finding;
  EXPECT_EQ(to_string(f.verdict), "inconclusive") << f.observed;
  EXPECT_NE(f.observed.find("shorter"), std::string::npos) << f.observed;
}

TEST(ConformHang, AReadResponseThatNeverEndsEndsTheCaseAllTheSame) {
  for (const std::size_t step : {std::size_t{0}, std::size_t{1}}) {
    Table table(Iut::initiator, {"ulpdu-within-mulpdu"}, slow_reader(step, false));
    const Result r = table.only_result();
    EXPECT_EQ(to_string(r.finding.verdict), "inconclusive") << r.finding.observed;
    EXPECT_LT(r.took, table.settings.timer + 10s);
  }
}

TEST(ConformHang, AnInterruptedRunEndsInTheMiddleOfACaseAndSaysSo) {
  Table table(Iut::initiator, {"no-reply-times-out", "half-reply-times-out"}, says(enhanced_request()));
  table.start();
  table.turn(5s);
  ASSERT_TRUE(table.run->results().empty());
  table.run->interrupt();
  const auto& results = table.run->results();
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(to_string(results[0].finding.verdict), "not run");
  EXPECT_EQ(results[0].finding.observed, "interrupted");
  EXPECT_FALSE(results[0].exchanges.empty()) << "what was heard until then is kept";
  EXPECT_EQ(to_string(results[1].finding.verdict), "not run");
  EXPECT_FALSE(table.run->unreachable());
  table.turn(5s);
}

}  // namespace
}  // namespace parley::conform::hang_test
