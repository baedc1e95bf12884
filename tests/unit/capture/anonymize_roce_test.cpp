// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RoCE in anonymized captures: the verdict stays, and nothing of what names somebody does.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture/read/roce/roce_packet.hpp"
#include "tests/unit/capture/anonymize_kit.hpp"
#include "tests/unit/capture/roce_kit.hpp"

namespace parley::capture::anonymize_roce_test {
namespace {

using test::Operation;
using test::RoceTalk;
using namespace std::chrono_literals;

template <class F>
void for_each_roce(ConstBytes file, F&& take) {
  (void)wire::read_capture(file, [&](const wire::CapturedPacket& p) {
    const auto view = wire::parse_packet(p.link_type, p.octets, p.original_length);
    RoceReader reader;
    RocePacket packet;
    if (!view.network.empty() && reader.read(view, p, packet) == RoceReader::Status::packet) take(packet);
  });
}

std::size_t right_icrcs(ConstBytes file) {
  std::size_t n = 0;
  for_each_roce(file, [&](const RocePacket& packet) { n += packet.icrc_due && !packet.icrc_wrong(); });
  return n;
}

/// What a program reads of the verdict, without the names.
std::string verdict_of(ConstBytes file) {
  std::string out;
  for (const ConnectionReport& c : test::analyse_file(file).connections) {
    out += fmt::format("{} {} {} {} {} {}\n", c.first_frame, c.last_frame, to_string(c.outcome),
                       to_string(c.judgement.standing), c.judgement.why, c.end);
    for (const Finding& f : c.findings)
      if (f.severity != Severity::note) out += fmt::format("  {} {}\n", f.frame, f.key());
  }
  return out;
}

class AnonymizeRoce : public testing::TestWithParam<std::string> {};

TEST_P(AnonymizeRoce, RealCapturesKeepTheirVerdict) {
  const Bytes file = test::read_file(std::string(PARLEY_SOURCE_DIR) + "/tests/captures/roce/" + GetParam() + ".pcap");
  const test::Anonymized a = test::anonymize(file);
  EXPECT_EQ(a.refusal, "");
  EXPECT_EQ(a.file.size(), file.size());
  EXPECT_EQ(verdict_of(a.file), verdict_of(file));
  EXPECT_EQ(right_icrcs(a.file), right_icrcs(file));
  // 192.0.2.1 and 2001:db8::/32, in headers, GIDs and private data.
  EXPECT_FALSE(test::contains(a.file, Bytes{192, 0, 2, 1}));
  EXPECT_FALSE(test::contains(a.file, Bytes{0x20, 0x01, 0x0D, 0xB8}));
}

INSTANTIATE_TEST_SUITE_P(Captures, AnonymizeRoce,
                         testing::Values("rxe61_cm", "rxe61_data", "rxe61_errors_loss", "rxe61_mra_mcast_ll",
                                         "rxe61_sidr_stale_abort", "rxe61_unreachable"),
                         [](const auto& which) { return which.param; });

RoceTalk talk_with_secrets(bool v2) {
  RoceTalk t(v2);
  wire::ib::CmReq req = t.req();
  std::fill(req.private_data.begin() + PARLEY_CMA_HEADER_LEN, req.private_data.end(), std::uint8_t{0xC7});
  t.cm(0, req);
  t.cm(1, t.rep());
  t.cm(0, RoceTalk::rtu());
  t.data(0, Operation::write_only, 0xFFFFFE, 64);
  t.ack(1, 0xFFFFFE, 1);
  return t;
}

TEST(AnonymizeRoceOctets, NothingThatNamesSomebodyIsLeft) {
  for (const bool v2 : {true, false}) {
    const Bytes file = test::to_pcap(talk_with_secrets(v2).frames);
    const test::Anonymized a = test::anonymize(file);
    EXPECT_EQ(verdict_of(a.file), verdict_of(file));
    EXPECT_EQ(right_icrcs(a.file), 5u);
    EXPECT_EQ(a.frames.roce, 5u);
    EXPECT_FALSE(test::contains(a.file, Bytes(8, 0xC7)));                                         // private data
    EXPECT_FALSE(test::contains(a.file, Bytes(8, 0x5A)));                                         // payload
    EXPECT_FALSE(test::contains(a.file, Bytes{0, 0, 0, 0x77}));                                   // R_Key
    EXPECT_FALSE(test::contains(a.file, Bytes{0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88}));  // GUID
    EXPECT_FALSE(test::contains(a.file, Bytes{0x1C, 0x06}));                                      // port 7174
    EXPECT_FALSE(test::contains(a.file, Bytes{192, 0, 2}));
    const ConnectionReport c = test::analyse_file(a.file).connections.at(0);
    EXPECT_EQ(c.ib->ends[0].qpn, RoceTalk::qpns[0]);
    EXPECT_TRUE(c.ib->service().starts_with("tcp:"));
    EXPECT_NE(c.ib->source_port, 0);
  }
}

TEST(AnonymizeRoceOctets, WrongStaysWrongAndCutStaysCut) {
  RoceTalk t = talk_with_secrets(true);
  wire::ib::Packet p = t.packet(0, Operation::send_only, 0xFFFFFF);
  p.icrc = 1;
  t.put(0, p);
  t.data(0, Operation::send_first, 0, 100);  // too short
  t.frames.back().original_length = static_cast<std::uint32_t>(t.frames.back().octets.size());
  t.frames.back().octets.resize(70);
  const Bytes file = test::to_pcap(t.frames);
  const test::Anonymized a = test::anonymize(file);
  EXPECT_THAT(verdict_of(file), testing::HasSubstr("  6 ib.icrc\n  7 ib.length\n"));
  EXPECT_EQ(verdict_of(a.file), verdict_of(file));
  EXPECT_FALSE(test::contains(a.file, Bytes(8, 0x5A)));
}

/// The flow label that the REQ at the beginning names.
std::uint32_t flow_label_of(ConstBytes file) {
  std::uint32_t out = ~0U;
  for_each_roce(file, [&](const RocePacket& packet) {
    const auto message = wire::ib::CmMessage::parse(packet.packet.payload);
    if (!message) return;
    if (const auto* req = std::get_if<wire::ib::CmReq>(&message->body)) out = req->primary.flow_label;
  });
  return out;
}

TEST(AnonymizeRoceOctets, FlowLabelsBecomeOthersUnlessThereIsNone) {
  for (const std::uint32_t label : {0U, 0x12345U}) {
    RoceTalk t;
    wire::ib::CmReq req = t.req();
    req.primary.flow_label = label;
    t.cm(0, req);
    const Bytes file = test::to_pcap(t.frames);
    ASSERT_EQ(flow_label_of(file), label);
    const std::uint32_t after = flow_label_of(test::anonymize(file).file);
    EXPECT_LE(after, 0xFFFFFU);
    EXPECT_EQ(after == label, label == 0) << after;
  }
}

TEST(AnonymizeRoceOctets, KeysOfMemoryStayOnRequest) {
  const Bytes file = test::to_pcap(talk_with_secrets(true).frames);
  AnonymizeOptions kept;
  kept.keep_stags = true;
  const test::Anonymized a = test::anonymize(file, kept);
  EXPECT_TRUE(test::contains(a.file, Bytes{0, 0, 0x10, 0, 0, 0, 0, 0x77}));
}

}  // namespace
}  // namespace parley::capture::anonymize_roce_test
