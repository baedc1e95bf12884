// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What is said of each fault rule that contradicts itself, and that its neighbour within the bounds is taken.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fault_kit.hpp"
#include "sim/fault/fault_text.hpp"
#include "sim/scenario/scenario.hpp"

namespace parley::sim::test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Case {
  FaultAction action;
  void (*change)(FaultRule&);
  std::string_view said;  ///< empty: it is taken
};

void expect_each_said(std::initializer_list<Case> cases) {
  for (const Case& c : cases) {
    FaultRule r = rule(c.action);
    c.change(r);
    if (c.said.empty())
      EXPECT_THAT(rule_problems(r), IsEmpty()) << r.to_string();
    else
      EXPECT_THAT(rule_problems(r), ElementsAre(c.said)) << r.to_string();
    EXPECT_EQ(check_rule(r).has_value(), c.said.empty());
  }
}

constexpr FaultAction all_actions[] = {
    FaultAction::drop,        FaultAction::duplicate,   FaultAction::delay,        FaultAction::corrupt,
    FaultAction::corrupt_mpa, FaultAction::truncate,    FaultAction::cut_stream,   FaultAction::reset,
    FaultAction::set_rate,    FaultAction::crash,       FaultAction::restart,      FaultAction::pause,
    FaultAction::resume,      FaultAction::end_process, FaultAction::stop_process, FaultAction::continue_process};

/// With what the action cannot be without.
FaultRule least(FaultAction action) {
  FaultRule r = rule(action);
  if (action == FaultAction::delay) r.delay = 1ns;
  if (action == FaultAction::truncate) r.octets = 14;
  if (action == FaultAction::set_rate) r.rate_bps = 1;
  if (action == FaultAction::cut_stream || action == FaultAction::corrupt_mpa) r.match.message = MessageKind::fpdu;
  return r;
}

TEST(SimFaultRefusals, EachActionTakesItsOwnKeysAndNoOthers) {
  using A = FaultAction;
  const auto expect = [](A action, void (*change)(FaultRule&), bool taken, std::string_view key,
                         std::string_view owner) {
    FaultRule r = least(action);
    change(r);
    const std::string said = fmt::format("{} is of {}: leave it out with {}", key, owner, to_string(action));
    if (taken)
      EXPECT_THAT(rule_problems(r), IsEmpty()) << to_string(action);
    else
      EXPECT_THAT(rule_problems(r), ElementsAre(said)) << to_string(action);
  };
  for (const A action : all_actions) {
    EXPECT_THAT(rule_problems(least(action)), IsEmpty()) << to_string(action);
    const bool on_host = action == A::crash || action == A::restart || action == A::pause || action == A::resume ||
                         action == A::end_process || action == A::stop_process || action == A::continue_process;
    expect(
        action, [](FaultRule& r) { r.count = 2; }, action == A::duplicate || action == A::corrupt, "count",
        "duplicate and corrupt");
    expect(
        action, [](FaultRule& r) { r.octets = 20; }, action == A::truncate || action == A::cut_stream, "octets",
        "truncate and cut_stream");
    expect(
        action, [](FaultRule& r) { r.rate_bps = 2; }, action == A::set_rate, "rate", "set_rate");
    expect(
        action, [](FaultRule& r) { r.jitter = 1ns; }, action == A::delay, "jitter", "delay");
    expect(
        action, [](FaultRule& r) { r.reorder = true; }, action == A::delay, "reorder", "delay");
    expect(
        action, [](FaultRule& r) { r.delay = 2ns; }, action == A::delay || on_host, "delay",
        "action = \"delay\" and the actions of a host");
  }
}

TEST(SimFaultRefusals, TimesAreWithinTheirBounds) {
  expect_each_said({
      {FaultAction::drop, [](FaultRule& r) { r.from = at_time(-1ns); },
       "from is before the start of the run: write 0 or more"},
      {FaultAction::drop, [](FaultRule& r) { r.from = at_time(1s), r.until = at_time(1s + 1ns); }, ""},
      {FaultAction::drop, [](FaultRule& r) { r.from = r.until = at_time(2s); },
       "until = 2 s is not after from = 2 s: write a later until, or leave it out"},
      {FaultAction::delay, [](FaultRule& r) { r.delay = -1ns; }, "delay and jitter are not negative: write 0 or more"},
      {FaultAction::delay, [](FaultRule& r) { r.jitter = -1ns; }, "delay and jitter are not negative: write 0 or more"},
      {FaultAction::delay, [](FaultRule& r) { r.delay = r.jitter = 24h; }, ""},
      {FaultAction::delay, [](FaultRule& r) { r.delay = 24h + 1ns; }, "delay and jitter are at most 24 h"},
      {FaultAction::delay, [](FaultRule& r) { r.jitter = 24h + 1ns; }, "delay and jitter are at most 24 h"},
      {FaultAction::delay, [](FaultRule&) {}, "delay needs a time: write delay or jitter, or both"},
      {FaultAction::delay, [](FaultRule& r) { r.jitter = 1ns; }, ""},
  });
}

TEST(SimFaultRefusals, AMatchIsOneThatCanBe) {
  expect_each_said({
      {FaultAction::drop, [](FaultRule& r) { r.match.nth = 0; },
       "nth counts from 1: write nth = 1 for the first frame that matches"},
      {FaultAction::drop, [](FaultRule& r) { r.match.message = MessageKind::fpdu, r.match.fpdu = 3; }, ""},
      {FaultAction::drop, [](FaultRule& r) { r.match.fpdu = 3; },
       "fpdu = 3 goes with match = \"fpdu\", not with \"any\""},
      {FaultAction::drop, [](FaultRule& r) { r.match.connection = 2; }, ""},
      {FaultAction::drop, [](FaultRule& r) { r.match.message = MessageKind::tcp_syn, r.match.connection = 2; }, ""},
      {FaultAction::drop, [](FaultRule& r) { r.match.message = MessageKind::nd_advert, r.match.connection = 2; },
       "connection = 2 cannot hold for match = \"nd_advert\", which belongs to no connection of TCP or RoCE: leave one "
       "out"},
      {FaultAction::drop,
       [](FaultRule& r) {
         r.chance = {0, 0};
       },
       "chance has a 0 below the line: write it as of/in with in at least 1"},
      {FaultAction::drop,
       [](FaultRule& r) {
         r.chance = {1, 1};
       },
       ""},
      {FaultAction::drop,
       [](FaultRule& r) {
         r.chance = {4, 3};
       },
       "chance = 4/3 is more than 1: write at most 3/3"},
      {FaultAction::drop, [](FaultRule& r) { r.mask = 0b101; }, ""},
      {FaultAction::drop,
       [](FaultRule& r) {
         r.mask = 1, r.chance = {1, 2};
       },
       "mask selects the frames exactly, so chance has no effect: leave one out"},
      {FaultAction::drop, [](FaultRule& r) { r.mask = 1, r.match.nth = 2; },
       "mask counts the matching frames from the first on, so nth and times have no effect: leave them out"},
      {FaultAction::drop, [](FaultRule& r) { r.mask = 1, r.match.times = 3; },
       "mask counts the matching frames from the first on, so nth and times have no effect: leave them out"},
  });
}

TEST(SimFaultRefusals, EachActionHasWhatItNeeds) {
  expect_each_said({
      {FaultAction::duplicate, [](FaultRule& r) { r.count = 64; }, ""},
      {FaultAction::duplicate, [](FaultRule& r) { r.count = 65; }, "count = 65 copies: write 1 to 64"},
      {FaultAction::duplicate, [](FaultRule& r) { r.count = 0; }, "count = 0 copies: write 1 to 64"},
      {FaultAction::corrupt, [](FaultRule& r) { r.count = 64; }, ""},
      {FaultAction::corrupt, [](FaultRule& r) { r.count = 65; }, "count = 65 bits: write 1 to 64"},
      {FaultAction::corrupt, [](FaultRule& r) { r.count = 0; }, "count = 0 bits: write 1 to 64"},
      {FaultAction::truncate, [](FaultRule& r) { r.octets = 14; }, ""},
      {FaultAction::truncate, [](FaultRule& r) { r.octets = 13; },
       "truncate needs octets, what is left of the frame: write 14 (an Ethernet header) or more"},
      {FaultAction::cut_stream, [](FaultRule& r) { r.match.message = MessageKind::tcp_syn; },
       "cut_stream needs a message: write match = \"mpa_request\", \"mpa_reply\", \"mpa_rtr\", \"fpdu\" or "
       "\"terminate\""},
      {FaultAction::corrupt_mpa, [](FaultRule& r) { r.match.message = MessageKind::tcp_data; },
       "corrupt_mpa needs a message: write match = \"mpa_request\", \"mpa_reply\", \"mpa_rtr\", \"fpdu\" or "
       "\"terminate\""},
      {FaultAction::corrupt_mpa,
       [](FaultRule& r) { r.match.message = MessageKind::terminate, r.field = MessageField::flags; },
       "field = \"flags\" is of startup frames and match = \"terminate\" is none: write length, payload, marker or "
       "crc"},
      {FaultAction::corrupt_mpa,
       [](FaultRule& r) { r.match.message = MessageKind::mpa_request, r.field = MessageField::length; },
       "field = \"length\" is of FPDUs and match = \"mpa_request\" is none: write key, flags, revision, pd_length or "
       "private_data"},
      {FaultAction::corrupt_mpa,
       [](FaultRule& r) { r.match.message = MessageKind::mpa_rtr, r.field = MessageField::key; }, ""},
      {FaultAction::corrupt_mpa,
       [](FaultRule& r) { r.match.message = MessageKind::mpa_rtr, r.field = MessageField::crc; }, ""},
      {FaultAction::reset, [](FaultRule& r) { r.match.message = MessageKind::tcp_data; }, ""},
      {FaultAction::reset, [](FaultRule& r) { r.match.message = MessageKind::tcp_rst; },
       "reset cannot follow match = \"tcp_rst\": write a match that is of a living TCP connection"},
      {FaultAction::reset, [](FaultRule& r) { r.match.message = MessageKind::arp_reply; },
       "reset cannot follow match = \"arp_reply\": write a match that is of a living TCP connection"},
      {FaultAction::set_rate, [](FaultRule&) {},
       "set_rate needs a rate that is not 0: write rate, or use drop for a dead link"},
      {FaultAction::set_rate, [](FaultRule& r) { r.rate_bps = 1, r.mask = 1; },
       "set_rate happens at the time from: leave out match, nth, times, chance and mask"},
      {FaultAction::set_rate,
       [](FaultRule& r) {
         r.rate_bps = 1, r.chance = {1, 2};
       },
       "set_rate happens at the time from: leave out match, nth, times, chance and mask"},
      {FaultAction::set_rate, [](FaultRule& r) { r.rate_bps = 1, r.match.times = 1; },
       "set_rate happens at the time from: leave out match, nth, times, chance and mask"},
  });
}

TEST(SimFaultRefusals, EverythingThatIsWrongIsToldInOneGo) {
  FaultRule r = rule(FaultAction::truncate);
  r.delay = r.jitter = 1ns;
  r.count = 3;
  r.match.nth = 0;
  EXPECT_THAT(rule_problems(r),
              ElementsAre("nth counts from 1: write nth = 1 for the first frame that matches",
                          "count is of duplicate and corrupt: leave it out with truncate",
                          "jitter is of delay: leave it out with truncate",
                          "delay is of action = \"delay\" and the actions of a host: leave it "
                          "out with truncate",
                          "truncate needs octets, what is left of the frame: write 14 (an Ethernet header) or more"));
}

// ---- the sentence that stands for a rule ----------------------------------------------------------------------------

TEST(SimFaultRefusals, EachActionHasItsSentence) {
  using A = FaultAction;
  constexpr std::pair<A, std::string_view> sentences[] = {
      {A::drop, "drop every frame"},
      {A::duplicate, "double every frame"},
      {A::corrupt, "flip 1 bit of every frame"},
      {A::corrupt_mpa, "corrupt the crc of every fpdu"},
      {A::truncate, "cut every frame to 14 octets"},
      {A::cut_stream, "end the stream after 0 octets of every fpdu"},
      {A::reset, "reset the connection at both ends after every frame"},
      {A::set_rate, "set the rate to 1 b/s at 0 s"},
      {A::crash, "crash node 0 at 0 s"},
      {A::restart, "restart node 0 at 0 s"},
      {A::pause, "pause node 0 at 0 s"},
      {A::resume, "resume node 0 at 0 s"},
  };
  for (const auto& [action, sentence] : sentences) EXPECT_EQ(least(action).to_string(), sentence);
}

TEST(SimFaultRefusals, ASentenceSaysWhichFramesAndWhen) {
  FaultRule r = rule(FaultAction::drop);
  const auto with = [&r](void (*change)(FaultRule&)) {
    FaultRule out = r;
    change(out);
    return out.to_string();
  };
  EXPECT_EQ(with([](FaultRule& f) { f.match.times = 1; }), "drop the 1st frame");
  EXPECT_EQ(with([](FaultRule& f) { f.match.nth = 3; }), "drop every frame from the 3rd on");
  EXPECT_EQ(with([](FaultRule& f) { f.match.times = 4; }), "drop the first 4 times frame");
  EXPECT_EQ(with([](FaultRule& f) { f.match.nth = 2, f.match.times = 4; }), "drop 4 times frame from the 2nd on");
  EXPECT_EQ(with([](FaultRule& f) { f.from = at_time(2s), f.until = at_time(3s); }),
            "drop every frame from 2 s until 3 s");
  EXPECT_EQ(with([](FaultRule& f) { f.match.message = MessageKind::fpdu; }), "drop every fpdu");
  r = least(FaultAction::duplicate);
  EXPECT_EQ(with([](FaultRule& f) { f.count = 2; }), "add 2 copies to every frame");
  r = least(FaultAction::corrupt);
  EXPECT_EQ(with([](FaultRule& f) { f.count = 2; }), "flip 2 bits of every frame");
  r = rule(FaultAction::delay);
  EXPECT_EQ(with([](FaultRule& f) { f.delay = 5ms; }), "delay every frame by 5 ms");
  EXPECT_EQ(with([](FaultRule& f) { f.jitter = 5ms; }), "delay every frame by up to 5 ms");
  EXPECT_EQ(with([](FaultRule& f) { f.delay = 5ms, f.reorder = true; }),
            "delay every frame by 5 ms, later frames may overtake");
  r = rule(FaultAction::pause);
  EXPECT_EQ(with([](FaultRule& f) { f.host_name = "b"; }), "pause b at 0 s");
  EXPECT_EQ(with([](FaultRule& f) { f.delay = 5ms; }), "pause node 0 5 ms later at 0 s");
  EXPECT_EQ(with([](FaultRule& f) { f.match.message = MessageKind::tcp_syn, f.match.times = 1; }),
            "pause node 0 at the 1st tcp_syn");
  EXPECT_EQ(with([](FaultRule& f) { f.mask = 2; }), "pause node 0 at each frame whose bit is set in 0x2");
}

// What no single key is to blame for is told at the action.
TEST(SimFaultRefusals, AFileIsToldTheLineOfTheKeyThatIsWrong) {
  const auto line_of = [](std::string_view action, std::string_view more) {
    const auto read = parse_scenario(
        fmt::format("name = \"x\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nends = [\"a\", \"b\"]\n"
                    "[[listen]]\nhost = \"b\"\n[[connect]]\nfrom = \"a\"\nto = \"b\"\nexpect = \"settled\"\n"
                    "[[fault]]\nlink = \"a-b\"\naction = \"{}\"\n{}",
                    action, more),
        "x.toml");
    return read ? std::string("none") : read.error().front().to_string();
  };
  EXPECT_THAT(line_of("truncate", ""), ::testing::HasSubstr("x.toml:16:1: truncate needs octets"));
  EXPECT_THAT(line_of("set_rate", ""), ::testing::HasSubstr("x.toml:16:1: set_rate needs a rate"));
  EXPECT_THAT(line_of("reset", "match = \"arp_request\"\n"), ::testing::HasSubstr("x.toml:16:1: reset cannot follow"));
  EXPECT_THAT(line_of("corrupt_mpa", ""), ::testing::HasSubstr("x.toml:16:1: corrupt_mpa needs a message"));
  EXPECT_THAT(line_of("drop", "times = 2\nfpdu = 3\n"), ::testing::HasSubstr("x.toml:18:1: fpdu = 3 goes with"));
  EXPECT_THAT(line_of("drop", "times = 2\ncount = 3\n"), ::testing::HasSubstr("x.toml:18:1: count is of duplicate"));
}

}  // namespace
}  // namespace parley::sim::test
