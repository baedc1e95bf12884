// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The fields that a page shows of a frame: each message of RDMAP and each startup frame with all of them, in their order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture/report/ladder.hpp"
#include "tests/unit/capture/exchange.hpp"

namespace parley::capture {
namespace {

using test::Exchange;
using test::fpdu;
using test::startup;
using wire::RdmapOpcode;

using Field = std::pair<std::string, std::string>;
using FieldList = std::vector<Field>;

std::vector<LadderEvent> events(const Exchange& x) {
  const FileReport r = test::analyse(x.frames, {.events = true, .fields = true});
  return r.connections.empty() ? std::vector<LadderEvent>{} : r.connections[0].events;
}

/// The fields behind DDP's and before the CRC of a message that the initiator sends.
FieldList shown(const Bytes& ulpdu) {
  Exchange x;
  for (const LadderEvent& e : events(x.set_up().send(0, fpdu(ulpdu)))) {
    if (e.frame != 6) continue;
    FieldList out;
    bool behind = false;
    for (const Field& f : e.fields) {
      if (f.first == "CRC") break;
      if (behind) out.push_back(f);
      behind = behind || f.first == "Opcode";
    }
    return out;
  }
  return {{"no event", ""}};
}

Bytes untagged(RdmapOpcode opcode, std::uint32_t qn, std::uint32_t stag, const Bytes& body) {
  wire::DdpHeader h;
  h.opcode = opcode;
  h.qn = qn;
  h.msn = 1;
  h.stag = stag;
  return test::segment(h, body);
}
FieldList numbers(std::uint32_t qn, FieldList rest) {
  FieldList out{{"QN", std::to_string(qn)}, {"MSN", "1"}, {"MO", "0"}};
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

const Bytes words{'a', 'b', 0x07};
const FieldList payload{{"Payload octets", "3"}, {"Payload", "61 62 07"}, {"Payload as text", "ab."}};

TEST(CaptureFields, OfUntaggedMessagesTheNumbersAndThePayload) {
  for (const RdmapOpcode opcode : {RdmapOpcode::send, RdmapOpcode::send_se})
    EXPECT_EQ(shown(untagged(opcode, 0, 0, words)), numbers(0, payload)) << to_string(opcode);
  for (const RdmapOpcode opcode : {RdmapOpcode::send_inv, RdmapOpcode::send_se_inv}) {
    FieldList want = numbers(0, payload);
    want.insert(want.begin(), {"Invalidate STag", "0x00abcdef"});
    EXPECT_EQ(shown(untagged(opcode, 0, 0xABCDEF, words)), want) << to_string(opcode);
    EXPECT_EQ(shown(untagged(opcode, 0, 0, words)), numbers(0, payload)) << "0 is shown as none";
  }
  for (const RdmapOpcode opcode : {RdmapOpcode::immediate, RdmapOpcode::immediate_se})
    EXPECT_EQ(
        shown(untagged(opcode, 0, 0, Bytes(8, 'x'))),
        numbers(0, {{"Payload octets", "8"}, {"Payload", "78 78 78 78 78 78 78 78"}, {"Payload as text", "xxxxxxxx"}}));
  EXPECT_EQ(shown(untagged(RdmapOpcode::send, 0, 0, {})), numbers(0, {{"Payload octets", "0"}}));
}

TEST(CaptureFields, OfTaggedMessagesStagOffsetAndPayload) {
  for (const RdmapOpcode opcode :
       {RdmapOpcode::rdma_write, RdmapOpcode::read_response, RdmapOpcode::terminate, RdmapOpcode::read_request}) {
    wire::DdpHeader h;
    h.tagged = true;
    h.opcode = opcode;
    h.stag = 0x10203;
    h.to = 0x123456789A;
    const FieldList head{{"STag", "0x00010203"}, {"TO", "0x123456789a"}};
    FieldList want = head;
    want.insert(want.end(), payload.begin(), payload.end());
    EXPECT_EQ(shown(test::segment(h, words)), want) << to_string(opcode);
    // What would be a Read Request or a Terminate in an untagged one is payload here.
    for (const std::size_t n : {4u, 28u}) {
      const FieldList all = shown(test::segment(h, Bytes(n)));
      ASSERT_EQ(all.size(), 5u) << to_string(opcode);
      EXPECT_EQ(all[2], (Field{"Payload octets", std::to_string(n)}));
    }
  }
}

TEST(CaptureFields, OfAReadRequestItsOwn) {
  EXPECT_EQ(shown(test::read_request(1, {0x11, 0x1000, 1800, 0x22, 0x2000})), numbers(1, {{"Sink STag", "0x00000011"},
                                                                                          {"Sink TO", "0x1000"},
                                                                                          {"RDMA Read size", "1800"},
                                                                                          {"Source STag", "0x00000022"},
                                                                                          {"Source TO", "0x2000"}}));
  EXPECT_EQ(shown(untagged(RdmapOpcode::read_request, 1, 0, words)), numbers(1, payload)) << "too short to be one";
}

TEST(CaptureFields, OfATerminateItsErrorAndTheHeaderItQuotes) {
  const FieldList error{{"Layer", "1"},
                        {"Error type", "2"},
                        {"Error code", "0x03"},
                        {"Meaning", describe_terminate(1, 2, 3)},
                        {"M, D, R", "0 0 0"}};
  EXPECT_EQ(shown(untagged(RdmapOpcode::terminate, 2, 0, {0x12, 3, 0, 0})), numbers(2, error));
  Bytes quoting{0x12, 3, 0xC0, 0, 0, 18};
  const Bytes quoted = test::send_segment(9, 0);
  quoting.insert(quoting.end(), quoted.begin(), quoted.end());
  FieldList want = error;
  want.back().second = "1 1 0";
  want.emplace_back("Terminated DDP header", "41 43 00 00 00 00 00 00 00 00 00 00 00 09 00 00 00 00");
  EXPECT_EQ(shown(untagged(RdmapOpcode::terminate, 2, 0, quoting)), numbers(2, want));
  EXPECT_EQ(shown(untagged(RdmapOpcode::terminate, 2, 0, words)), numbers(2, payload)) << "too short to be one";
}

TEST(CaptureFields, OfAnFpduItsFramesLengthHeaderAndCrc) {
  const auto crc = [](std::uint8_t flags, bool spoil) {
    Bytes f = fpdu(test::send_segment(1, 5), 0, false, flags != 0);
    if (spoil) f[22] ^= 1;
    Exchange x;
    x.open().send(0, startup(wire::MpaKey::req, flags, 1)).send(1, startup(wire::MpaKey::rep, flags, 1)).send(0, f, 20);
    const auto all = events(x);
    for (const LadderEvent& e : all)
      if (e.frame == 7 && e.fields.size() > 5) return e.fields;
    return FieldList{};
  };
  const FieldList right = crc(PARLEY_MPA_FLAG_C, false), wrong = crc(PARLEY_MPA_FLAG_C, true), off = crc(0, false);
  ASSERT_GE(right.size(), 8u);
  EXPECT_EQ(FieldList(right.begin(), right.begin() + 7), (FieldList{{"FPDU 1", ""},
                                                                    {"Frames", "6 to 7"},
                                                                    {"Octets on the wire", "32"},
                                                                    {"ULPDU_Length", "23"},
                                                                    {"DDP", "untagged, last segment, version 1"},
                                                                    {"RDMAP version", "1"},
                                                                    {"Opcode", "0x3, Send"}}));
  EXPECT_THAT(right.back().second, testing::MatchesRegex("0x[0-9a-f]{8}, right"));
  ASSERT_FALSE(wrong.empty());
  EXPECT_THAT(wrong.back().second, testing::MatchesRegex("0x[0-9a-f]{8}, wrong: the octets give 0x[0-9a-f]{8}"));
  ASSERT_FALSE(off.empty());
  EXPECT_EQ(off.back(), (Field{"CRC", "not in use"}));
}

TEST(CaptureFields, OfAStartupFrameEveryFlagAndDepth) {
  const auto fields = [](std::uint8_t flags, std::uint8_t revision, std::optional<wire::MpaEnhanced> e,
                         const Bytes& data) {
    Exchange x;
    for (const LadderEvent& event : events(x.open().send(0, startup(wire::MpaKey::req, flags, revision, e, data))))
      if (event.frame == 4) return event.fields;
    return FieldList{};
  };
  const auto head = [](std::string key, std::string m, std::string c, std::string r, std::string s_name,
                       std::string s) {
    return FieldList{{"MPA Request", ""},
                     {"Key", std::move(key)},
                     {"M (markers required)", std::move(m)},
                     {"C (CRC preferred)", std::move(c)},
                     {"R (rejected)", std::move(r)},
                     {std::move(s_name), std::move(s)}};
  };
  const auto with = [](FieldList a, const FieldList& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  const std::string key = PARLEY_MPA_KEY_REQ, s1 = "S (Rtr frame)", s2 = "S (enhanced set-up)";
  EXPECT_EQ(fields(0x40, 1, {}, {}), with(head(key, "0", "1", "0", s1, "0"), {{"Rev", "1"}, {"PD_Length", "0"}}));
  EXPECT_EQ(fields(0x80, 1, {}, {}), with(head(key, "1", "0", "0", s1, "0"), {{"Rev", "1"}, {"PD_Length", "0"}}));
  EXPECT_EQ(fields(0x3F, 1, {}, {}),
            with(head(key, "0", "0", "1", s1, "1"), {{"Reserved bits", "0x0f"}, {"Rev", "1"}, {"PD_Length", "0"}}));
  for (unsigned bits = 0; bits < 16; ++bits) {
    const auto bit = [&](unsigned n) { return std::string((bits >> n & 1) != 0 ? "1" : "0"); };
    wire::MpaEnhanced e{.ird = 7, .ord = 9};
    e.a = (bits & 1) != 0, e.b = (bits & 2) != 0, e.c = (bits & 4) != 0, e.d = (bits & 8) != 0;
    EXPECT_EQ(fields(0x50, 2, e, words), with(head(key, "0", "1", "0", s2, "1"), {{"Rev", "2"},
                                                                                  {"PD_Length", "7"},
                                                                                  {"A (peer to peer)", bit(0)},
                                                                                  {"B (RTR by Send)", bit(1)},
                                                                                  {"C (RTR by RDMA Write)", bit(2)},
                                                                                  {"D (RTR by RDMA Read)", bit(3)},
                                                                                  {"IRD", "7"},
                                                                                  {"ORD", "9"},
                                                                                  {"Private data", "61 62 07"},
                                                                                  {"Private data as text", "ab."}}));
  }
}

}  // namespace
}  // namespace parley::capture
