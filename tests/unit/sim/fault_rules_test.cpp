// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fault_kit.hpp"

namespace parley::sim::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::string refusal(const FaultRule& r) {
  FaultInjector i{Rng(1)};
  const auto added = i.add(r);
  return added ? "" : added.error();
}

FaultRule numbered(FaultRule r, std::uint32_t number, std::uint32_t nth = 1, std::uint32_t times = 0) {
  r.number = number;
  r.match.nth = nth;
  r.match.times = times;
  return r;
}

TEST(SimFaultRules, EachCountsWhatAnotherDrops) {
  const Bytes syn = Sender().syn();
  Faults f({numbered(rule(FaultAction::drop, MessageKind::tcp_syn), 1, 1, 1),
            numbered(rule(FaultAction::drop, MessageKind::tcp_syn), 2, 2, 1)});
  EXPECT_TRUE(f.dropped(syn));
  EXPECT_TRUE(f.dropped(syn));
  EXPECT_FALSE(f.dropped(syn));
  EXPECT_EQ(f.tally(1).matched, 3u);
  EXPECT_EQ(f.tally(2).matched, 3u);
}

TEST(SimFaultRules, EachCountsWhatIsLostByOtherMeans) {
  const Bytes syn = Sender().syn();
  Faults f({numbered(rule(FaultAction::drop, MessageKind::tcp_syn), 1, 2, 1)});
  f.count(syn);
  EXPECT_TRUE(f.dropped(syn));
}

TEST(SimFaultRules, HaveHitOnlyWhatBecameAnotherByThem) {
  const Bytes syn = Sender().syn();
  FaultRule late = rule(FaultAction::delay, MessageKind::tcp_syn);
  late.delay = 1s;
  FaultRule whole = rule(FaultAction::truncate, MessageKind::tcp_syn);
  whole.octets = 9000;
  FaultRule luck = rule(FaultAction::drop, MessageKind::tcp_syn);
  luck.chance = {1, 1'000'000'000};
  Faults f({numbered(whole, 1), numbered(luck, 2), numbered(late, 3), numbered(rule(FaultAction::drop), 4, 2, 1),
            numbered(rule(FaultAction::duplicate), 5, 2, 1)});
  (void)f.pass(syn);
  EXPECT_EQ(f.tally(1).aimed, 1u);
  EXPECT_EQ(f.tally(1).hit, 0u);  // no octet too many
  EXPECT_EQ(f.tally(2).spared, 1u);
  EXPECT_EQ(f.tally(3).hit, 1u);
  EXPECT_TRUE(f.dropped(syn));
  EXPECT_EQ(f.tally(3).hit, 1u);  // what was delayed did not arrive at all
  EXPECT_EQ(f.tally(4).hit, 1u);
  EXPECT_EQ(f.tally(5).aimed, 1u);
  EXPECT_EQ(f.tally(5).hit, 0u);  // nothing was left to double
}

TEST(SimFaultRules, RefusesRulesThatContradictThemselves) {
  FaultRule r = rule(FaultAction::truncate);
  EXPECT_THAT(refusal(r), HasSubstr("truncate needs octets"));
  r = rule(FaultAction::delay);
  EXPECT_THAT(refusal(r), HasSubstr("write delay or jitter"));
  r = rule(FaultAction::drop);
  r.from = at_time(2s);
  r.until = at_time(1s);
  EXPECT_EQ(refusal(r), "until = 1 s is not after from = 2 s: write a later until, or leave it out");
  r = rule(FaultAction::drop);
  r.match.nth = 0;
  EXPECT_THAT(refusal(r), HasSubstr("nth counts from 1"));
  r = rule(FaultAction::drop, MessageKind::mpa_reply);
  r.match.fpdu = 3;
  EXPECT_EQ(refusal(r), "fpdu = 3 goes with match = \"fpdu\", not with \"mpa_reply\"");
  r = rule(FaultAction::drop, MessageKind::arp_reply);
  r.match.connection = 3;
  EXPECT_THAT(refusal(r), HasSubstr("belongs to no connection of TCP or RoCE"));
  r = rule(FaultAction::drop);
  r.chance = {1, 0};
  EXPECT_THAT(refusal(r), HasSubstr("0 below the line"));
  r.chance = {3, 2};
  EXPECT_THAT(refusal(r), HasSubstr("more than 1"));
  r.chance = {1, 2};
  r.mask = 1;
  EXPECT_THAT(refusal(r), HasSubstr("leave one out"));
  r.chance = {1, 1};
  r.match.nth = 2;
  EXPECT_THAT(refusal(r), HasSubstr("nth and times"));
  r = rule(FaultAction::duplicate);
  r.count = 0;
  EXPECT_THAT(refusal(r), HasSubstr("write 1 to 64"));
  r = rule(FaultAction::drop);
  r.count = 2;
  EXPECT_THAT(refusal(r), HasSubstr("leave it out with drop"));
  r = rule(FaultAction::drop);
  r.delay = 1s;
  EXPECT_THAT(refusal(r), HasSubstr("leave it out with drop"));
  EXPECT_THAT(refusal(rule(FaultAction::cut_stream, MessageKind::tcp_data)), HasSubstr("cut_stream needs a message"));
  EXPECT_THAT(refusal(rule(FaultAction::corrupt_mpa)), HasSubstr("corrupt_mpa needs a message"));
  EXPECT_THAT(refusal(rule(FaultAction::corrupt_mpa, MessageKind::mpa_reply)),
              HasSubstr("field = \"crc\" is of FPDUs"));
  r = rule(FaultAction::corrupt_mpa, MessageKind::fpdu);
  r.field = MessageField::key;
  EXPECT_THAT(refusal(r), HasSubstr("field = \"key\" is of startup frames"));
  EXPECT_THAT(refusal(rule(FaultAction::reset, MessageKind::arp_request)), HasSubstr("reset cannot follow"));
  EXPECT_THAT(refusal(rule(FaultAction::set_rate)), HasSubstr("not 0"));
  r = rule(FaultAction::set_rate, MessageKind::fpdu);
  r.rate_bps = 1;
  EXPECT_THAT(refusal(r), HasSubstr("at the time from"));
}

TEST(SimFaultRules, TakesABoundedNumberOfRules) {
  FaultInjector i{Rng(1)};
  for (std::size_t n = 0; n < FaultInjector::rules_max; ++n) EXPECT_TRUE(i.add(rule(FaultAction::drop)));
  const auto added = i.add(rule(FaultAction::drop));
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error(), "one way of a link has at most 256 fault rules");
}

TEST(SimFaultRules, RulesReadAsSentences) {
  FaultRule r = rule(FaultAction::drop, MessageKind::mpa_reply);
  r.match.nth = 2;
  r.match.times = 1;
  EXPECT_EQ(r.to_string(), "drop the 2nd mpa_reply");
  r.match.connection = 3;
  r.until = at_time(1500ms);
  EXPECT_EQ(r.to_string(), "drop the 2nd mpa_reply of connection 3 until 1500 ms");
  r = rule(FaultAction::drop);
  r.chance = {1, 100};
  EXPECT_EQ(r.to_string(), "drop every frame with chance 1/100");
  r = rule(FaultAction::delay, MessageKind::mpa_rtr);
  r.delay = 3s;
  r.jitter = 20us;
  EXPECT_EQ(r.to_string(), "delay every mpa_rtr by 3 s plus up to 20 us");
  r = rule(FaultAction::corrupt_mpa, MessageKind::fpdu);
  r.match.fpdu = 1;
  r.match.times = 1;
  EXPECT_EQ(r.to_string(), "corrupt the crc of the 1st frame with fpdu 1");
  r = rule(FaultAction::crash);
  r.host = 1;
  r.from = at_time(2s);
  EXPECT_EQ(r.to_string(), "crash node 1 at 2 s");
  r.match.message = MessageKind::mpa_request;
  r.match.times = 1;
  r.delay = 5ms;
  EXPECT_EQ(r.to_string(), "crash node 1 5 ms after the 1st mpa_request from 2 s");
  r = rule(FaultAction::set_rate);
  r.rate_bps = 10'000'000;
  EXPECT_EQ(r.to_string(), "set the rate to 10 Mb/s at 0 s");
  r = rule(FaultAction::drop, MessageKind::tcp_syn);
  r.mask = 5;
  EXPECT_EQ(r.to_string(), "drop each tcp_syn whose bit is set in 0x5");
}

TEST(SimFaultRules, WordsAreReadBack) {
  for (int i = 0; i <= static_cast<int>(FaultAction::continue_process); ++i)
    EXPECT_EQ(parse_fault_action(to_string(static_cast<FaultAction>(i))), static_cast<FaultAction>(i));
  for (int i = 0; i <= static_cast<int>(MessageField::status); ++i)
    EXPECT_EQ(parse_message_field(to_string(static_cast<MessageField>(i))), static_cast<MessageField>(i));
  EXPECT_EQ(parse_fault_action("dorp"), std::nullopt);
  EXPECT_EQ(parse_message_field(""), std::nullopt);
  EXPECT_EQ(to_string(DropReason::queue_full), "queue full");
}

}  // namespace
}  // namespace parley::sim::test
