// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What is said of rules on RoCE frames that contradict themselves, and how rules are written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "roce_kit.hpp"
#include "sim/fault/fault_text.hpp"
#include "sim/scenario/scenario.hpp"

namespace parley::sim::test::fault_roce_text_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr MessageField last_field = MessageField::status;

std::vector<std::string> problems(FaultAction action, MessageKind kind, void (*change)(FaultRule&)) {
  FaultRule r = rule(action, kind);
  change(r);
  return rule_problems(r);
}

TEST(SimFaultRoceText, RefusesWhatCannotBe) {
  using A = FaultAction;
  using K = MessageKind;
  const auto nothing = [](FaultRule&) {};
  EXPECT_THAT(problems(A::cut_stream, K::cm_req, [](FaultRule& r) { r.octets = 4; }),
              ElementsAre(HasSubstr("cut_stream needs a message: write match = \"mpa_request\"")));
  EXPECT_THAT(problems(A::reset, K::cm_rep, nothing),
              ElementsAre("reset cannot follow match = \"cm_rep\": write a match that is of a living TCP connection"));
  EXPECT_THAT(
      problems(A::drop, K::roce_datagram, [](FaultRule& r) { r.match.connection = 2; }),
      ElementsAre("connection = 2 cannot hold for match = \"roce_datagram\", which belongs to no connection of TCP or "
                  "RoCE: leave one out"));
  EXPECT_THAT(problems(A::drop, K::cm_req, [](FaultRule& r) { r.match.fpdu = 2; }),
              ElementsAre("fpdu = 2 goes with match = \"fpdu\", not with \"cm_req\""));
  EXPECT_THAT(problems(A::corrupt_mpa, K::cm_req, nothing),
              ElementsAre("corrupt_mpa cannot damage match = \"cm_req\", a packet of RoCE: write action = "
                          "\"corrupt_roce\""));
  EXPECT_THAT(problems(A::corrupt_mpa, K::fpdu, [](FaultRule& r) { r.field = MessageField::psn; }),
              ElementsAre("field = \"psn\" is of packets of RoCE and match = \"fpdu\" is none: write a field of MPA"));
  EXPECT_THAT(problems(A::corrupt_roce, K::any, nothing),
              ElementsAre(HasSubstr("corrupt_roce needs a packet of RoCE: write match = \"roce_packet\", ")));
  EXPECT_THAT(problems(A::corrupt_roce, K::mpa_reply, nothing), ElementsAre(HasSubstr("needs a packet of RoCE")));
  EXPECT_THAT(problems(A::corrupt_roce, K::roce_cnp, [](FaultRule& r) { r.field = MessageField::msn; }),
              ElementsAre("field = \"msn\" is not in match = \"roce_cnp\": write payload, crc, opcode, p_key, qpn or "
                          "psn"));
  EXPECT_THAT(problems(A::drop, K::tcp_syn, [](FaultRule& r) { r.match.psn = 4; }),
              ElementsAre("psn = 4 cannot hold for match = \"tcp_syn\", which is not a packet of RoCE: leave one out"));
  EXPECT_THAT(problems(A::drop, K::roce_ack, [](FaultRule& r) { r.match.psn = 0x1000000; }),
              ElementsAre("psn = 16777216 has more than 24 bits: write at most 16777215"));
  EXPECT_THAT(problems(A::drop, K::roce_ack, [](FaultRule& r) { r.match.psn = 0xFFFFFF; }), IsEmpty());
}

TEST(SimFaultRoceText, AValueFitsItsField) {
  using A = FaultAction;
  using K = MessageKind;
  EXPECT_THAT(problems(A::drop, K::cm_rej, [](FaultRule& r) { r.value = 1; }),
              ElementsAre("value is of corrupt_roce: leave it out with drop"));
  EXPECT_THAT(problems(A::corrupt_roce, K::cm_rej, [](FaultRule& r) { r.value = 1; }),
              ElementsAre(HasSubstr("value = 1 needs a field that is a number, and \"crc\" is none: write opcode, ")));
  const auto reason = [](FaultRule& r) { r.field = MessageField::reason, r.value = 0xFFFF; };
  EXPECT_THAT(problems(A::corrupt_roce, K::cm_rej, reason), IsEmpty());
  const auto more = [](FaultRule& r) { r.field = MessageField::reason, r.value = 0x10000; };
  EXPECT_THAT(problems(A::corrupt_roce, K::cm_rej, more),
              ElementsAre("value = 65536 is more than the 16 bits of \"reason\" hold: write at most 65535"));
  const auto all = [](FaultRule& r) { r.field = MessageField::service_id, r.value = ~0ULL; };
  EXPECT_THAT(problems(A::corrupt_roce, K::cm_req, all), IsEmpty());
}

std::string file_with(std::string_view fault) {
  return fmt::format(
      "name = \"x\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nends = [\"a\", \"b\"]\n"
      "[[listen]]\nhost = \"b\"\n[[connect]]\nfrom = \"a\"\nto = \"b\"\nexpect = \"settled\"\n"
      "[[fault]]\nlink = \"a-b\"\n{}",
      fault);
}

TEST(SimFaultRoceText, AFileIsToldTheLineOfTheKeyThatIsWrong) {
  const auto said = [](std::string_view fault) {
    const auto read = parse_scenario(file_with(fault), "x.toml");
    return read ? std::string("none") : read.error().front().to_string();
  };
  EXPECT_THAT(said("action = \"cut_stream\"\nmatch = \"cm_req\"\noctets = 3\n"),
              HasSubstr("x.toml:16:1: cut_stream needs a message"));
  EXPECT_THAT(said("action = \"drop\"\nmatch = \"cm_sidr_req\"\nconnection = 3\n"),
              HasSubstr("x.toml:18:1: connection = 3 cannot hold"));
  EXPECT_THAT(said("action = \"drop\"\nmatch = \"tcp_syn\"\npsn = 3\n"), HasSubstr("x.toml:18:1: psn = 3 cannot hold"));
  EXPECT_THAT(said("action = \"drop\"\nmatch = \"roce_ack\"\npsn = 16777216\n"),
              HasSubstr("x.toml:18:1: psn: the number 16777216 is not a whole number in 0..16777215"));
  EXPECT_THAT(said("action = \"corrupt_roce\"\nmatch = \"cm_rej\"\nfield = \"reason\"\nvalue = 65536\n"),
              HasSubstr("x.toml:19:1: value = 65536 is more than the 16 bits"));
  EXPECT_THAT(said("action = \"corrupt_roce\"\nmatch = \"cm_rej\"\nvalue = -1\n"),
              HasSubstr("x.toml:18:1: value: the number -1 is not a number such as 7"));
  EXPECT_THAT(said("action = \"drop\"\nmatch = \"cm_reb\"\n"), HasSubstr("did you mean 'cm_re"));
}

TEST(SimFaultRoceText, ScenariosAreWrittenAsTheyWereRead) {
  const auto expect_again = [](const std::string& fault) {
    const auto first = parse_scenario(file_with(fault), "x.toml");
    ASSERT_TRUE(first) << first.error().front().to_string();
    const auto second = parse_scenario(to_toml(*first), "x.toml");
    ASSERT_TRUE(second) << to_toml(*first);
    ASSERT_EQ(second->faults.size(), 1u);
    const FaultRule &a = first->faults[0].rule, &b = second->faults[0].rule;
    EXPECT_EQ(a.match, b.match) << fault;
    EXPECT_EQ(a.field, b.field) << fault;
    EXPECT_EQ(a.value, b.value) << fault;
    EXPECT_EQ(a.to_string(), b.to_string());
  };
  for (const LayerTable* layer : {&roce_layer, &cm_layer})
    for (const KindRow& row : layer->kinds) {
      expect_again(fmt::format("action = \"drop\"\nmatch = \"{}\"\nnth = 2\npsn = 0\n", row.word));
      expect_again(fmt::format("action = \"drop\"\nmatch = \"{}.{}\"\n", layer->name, row.name));
      for (int f = 0; f <= static_cast<int>(last_field); ++f)
        if (const auto field = static_cast<MessageField>(f); row.packet_fields.has(field)) {
          expect_again(
              fmt::format("action = \"corrupt_roce\"\nmatch = \"{}\"\nfield = \"{}\"\n", row.word, to_string(field)));
          if (number_size(field) != 0)
            expect_again(fmt::format("action = \"corrupt_roce\"\nmatch = \"{}\"\nfield = \"{}\"\nvalue = 0\n", row.word,
                                     to_string(field)));
        }
    }
  expect_again(
      "action = \"corrupt_roce\"\nmatch = \"cm_req\"\nfield = \"service_id\"\nvalue = \"0xffffffffffffffff\"\n");
}

TEST(SimFaultRoceText, RulesReadAsSentences) {
  FaultRule r = rule(FaultAction::corrupt_roce, MessageKind::cm_rep);
  r.match.nth = 2;
  r.match.times = 1;
  EXPECT_EQ(r.to_string(), "corrupt the crc of the 2nd cm_rep");
  r.field = MessageField::starting_psn;
  r.value = 5;
  EXPECT_EQ(r.to_string(), "set the starting_psn of the 2nd cm_rep to 5");
  r = rule(FaultAction::drop);
  r.match.psn = 70;
  EXPECT_EQ(r.to_string(), "drop every frame with PSN 70");
  r.match.message = MessageKind::roce_nak_rnr;
  EXPECT_EQ(r.to_string(), "drop every roce_nak_rnr with PSN 70");
}

}  // namespace
}  // namespace parley::sim::test::fault_roce_text_test
