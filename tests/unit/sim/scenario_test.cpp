// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Scenario files: what they say is what is read, what is wrong is named with line, key and the right form, and no text
// whatever brings the reader down.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/rng.hpp"
#include "mpa/quirks.hpp"
#include "scenario_kit.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/scenario_value.hpp"

namespace parley::sim {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view good = R"(name = "good"
description = "Two hosts and a switch."
seed = 7

[bounds]
time = "30s"
fence = false

[[host]]
name = "a"
tcp = { rto_min = "10ms", window_scale = false }
rnic = { linger = "1.5s" }

[[switch]]
name = "s"

[[host]]
name = "b"
learn_announcements = true
[[link]]
ends = ["a", "s"]
rate = "2.5Gbps"
delay = "2us"
queue = "64KiB"
mtu = 9000

[[link]]
name = "uplink"
ends = ["s", "b"]

[[listen]]
host = "b"
port = 4711
accept_after = "3ms"
reject = 4
private_data = "hex:00ff"
[listen.mpa]
rtr_accept = ["read", "send"]

[[connect]]
from = "a"
to = "b"
port = 4711
count = 3
interval = "1ms"
ird = "none"
octets = "64KiB"
close = "both"
private_data = 100
[connect.mpa]
rtr = "read"
rtr_offer = ["write"]

[[fault]]
action = "loss"
link = "a-s"
to = "a"
match = "mpa_reply"
nth = 2
from = "1ms"
until = "2s"

[[fault]]
action = "drop"
link = "uplink"
mask = 0b1011

[[fault]]
action = "crash"
host = "b"
at = "7s"
)";

/// The good file with one piece of it exchanged.
std::string with(std::string_view old_text, std::string_view new_text) {
  return exchanged(std::string(good), old_text, new_text);
}

TEST(SimScenario, ReadsWhatTheFileSays) {
  const auto read = parse_scenario(good, "dir/x.toml");
  ASSERT_TRUE(read) << read.error().front().to_string();
  const Scenario& s = *read;
  EXPECT_EQ(s.seed, 7u);
  EXPECT_EQ(s.bounds.time, 30s);
  EXPECT_FALSE(s.bounds.fence);
  ASSERT_EQ(s.hosts.size(), 3u);
  EXPECT_EQ(s.hosts[0].options.tcp.rto_min, 10ms);
  EXPECT_EQ(s.hosts[0].options.rnic.linger, 1500ms);
  EXPECT_EQ(s.hosts[1].name, "s");
  EXPECT_TRUE(s.hosts[1].is_switch) << "nodes come in file order, hosts and switches together";
  EXPECT_EQ(s.hosts[2].name, "b");
  ASSERT_EQ(s.links.size(), 2u);
  EXPECT_EQ(s.links[0].name, "a-s");
  EXPECT_EQ(s.links[0].options.rate_bps, 2'500'000'000u);
  EXPECT_EQ(s.links[0].options.queue_octets, 65536u);
  EXPECT_EQ(s.links[0].options.mtu, 9000u);
  EXPECT_EQ(s.links[1].name, "uplink");
  EXPECT_EQ(s.listens.at(0).private_data, std::string("\0\xff", 2));
  EXPECT_EQ(s.listens.at(0).reject_every, 4u);
  EXPECT_EQ(s.listens.at(0).mpa.rtr_accept, (mpa::RtrSet{.send = true, .write = false, .read = true}));
  const ScenarioConnect& c = s.connects.at(0);
  EXPECT_EQ(c.octets, 65536u);
  EXPECT_EQ(c.mpa.ird, mpa::depth_not_negotiated);
  EXPECT_EQ(c.private_data.size(), 100u);
  EXPECT_EQ(c.closer, ClosingSide::both);
  ASSERT_EQ(s.faults.size(), 3u);
  EXPECT_EQ(s.faults[0].way, LinkDirection::backward) << "towards the end named first";
  EXPECT_EQ(s.faults[0].rule.match, (Match{.message = MessageKind::mpa_reply, .nth = 2, .times = 1}));
  EXPECT_EQ(s.faults[0].rule.until, Instant(2s));
  EXPECT_EQ(s.faults[1].rule.mask, 0b1011u);
  EXPECT_EQ(s.faults[1].way, LinkDirection::both);
  EXPECT_EQ(s.faults[2].rule.action, FaultAction::crash);
  EXPECT_EQ(s.faults[2].rule.from, Instant(7s));
}

TEST(SimScenario, WritesAFileThatReadsBackToTheSame) {
  const auto first = parse_scenario(good, "x.toml");
  ASSERT_TRUE(first);
  const auto second = parse_scenario(to_toml(*first), "y.toml");
  ASSERT_TRUE(second) << second.error().front().to_string() << to_toml(*first);
  expect_same(*first, *second);
  EXPECT_EQ(to_toml(*first), to_toml(*second));
}

TEST(SimScenario, TakesSeedsOf64Bits) {
  for (const char* seed : {"0", "9223372036854775807", "\"0x8000000000000000\"", "\"0xffffffffffffffff\""}) {
    const auto read = parse_scenario(with("seed = 7", std::string("seed = ") + seed), "x.toml");
    ASSERT_TRUE(read) << seed << ' ' << read.error().front().to_string();
    const auto again = parse_scenario(to_toml(*read), "x.toml");
    ASSERT_TRUE(again) << to_toml(*read);
    EXPECT_EQ(again->seed, read->seed);
  }
  EXPECT_THAT(errors_of(with("seed = 7", "seed = -1")), ElementsAre(HasSubstr("a seed such as")));
}

TEST(SimScenario, LeavesDefaultsOutOfTheFile) {
  const auto scenario = parse_scenario(
      "[[host]]\nname='a'\n[[host]]\nname='b'\n[[link]]\nends=['a','b']\n[[listen]]\nhost='b'\n"
      "[[connect]]\nfrom='a'\nto='b'\n",
      "dir/small.toml");
  ASSERT_TRUE(scenario);
  EXPECT_EQ(to_toml(*scenario),
            "name = \"small\"\n\n[[host]]\nname = \"a\"\n\n[[host]]\nname = \"b\"\n\n[[link]]\nends = [\"a\", \"b\"]\n"
            "\n[[listen]]\nhost = \"b\"\n\n[[connect]]\nfrom = \"a\"\nto = \"b\"\n");
}

TEST(SimScenario, WritesTheWayOfAFaultThatCodeMade) {
  auto scenario = *parse_scenario(good, "x.toml");
  scenario.faults[0].toward.clear();
  scenario.faults[0].way = LinkDirection::forward;
  const auto again = parse_scenario(to_toml(scenario), "x.toml");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->faults[0].toward, "s");
  EXPECT_EQ(again->faults[0].way, LinkDirection::forward);
}

TEST(SimScenario, ReadsTimesRatesSizesAndRatiosExactly) {
  EXPECT_EQ(parse_time("2us"), 2us);
  EXPECT_EQ(parse_time("1.5s"), 1500ms);
  EXPECT_EQ(parse_time("0.000000001s"), 1ns);
  EXPECT_EQ(parse_time("2m"), 2min);
  EXPECT_EQ(parse_time("0.5ns"), std::nullopt) << "there is no half nanosecond";
  EXPECT_EQ(parse_time("1e3s"), std::nullopt);
  EXPECT_EQ(parse_time("-1s"), std::nullopt);
  EXPECT_EQ(parse_time(" 1s"), std::nullopt);
  EXPECT_EQ(parse_time("99999999999999999999s"), std::nullopt);
  EXPECT_EQ(parse_time("9999999h"), std::nullopt) << "does not fit";
  EXPECT_EQ(parse_rate("10Gbps"), 10'000'000'000u);
  EXPECT_EQ(parse_rate("0bps"), 0u);
  EXPECT_EQ(parse_rate("10gbps"), std::nullopt);
  EXPECT_EQ(parse_size("1.5KiB"), 1536u);
  EXPECT_EQ(parse_size("1500B"), 1500u);
  EXPECT_EQ(parse_ratio("1%"), (Ratio{1, 100}));
  EXPECT_EQ(parse_ratio("0.1%"), (Ratio{1, 1000}));
  EXPECT_EQ(parse_ratio("1/3"), (Ratio{1, 3}));
  EXPECT_EQ(parse_ratio("2/6"), (Ratio{1, 3}));
  EXPECT_EQ(parse_ratio("100%"), (Ratio{1, 1}));
  EXPECT_EQ(parse_ratio("0.25"), (Ratio{1, 4}));
  EXPECT_EQ(parse_ratio("101%"), std::nullopt);
  EXPECT_EQ(parse_ratio("1/0"), std::nullopt);
  EXPECT_EQ(parse_ratio("2/1"), std::nullopt);
  EXPECT_EQ(parse_mask("0b1011"), 11u);
  EXPECT_EQ(parse_mask("0xffffffffffffffff"), ~0ULL);
  EXPECT_EQ(parse_mask("0x1ffffffffffffffff"), std::nullopt);
  EXPECT_EQ(parse_mask("0b"), std::nullopt);
  EXPECT_EQ(parse_octets("hex:0"), std::nullopt);
  EXPECT_EQ(parse_octets("hex:0_"), std::nullopt);
}

TEST(SimScenario, WritesNumbersThatReadBack) {
  Rng rng(1);
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t shift = rng.below(60);
    const std::uint64_t n = rng.below(1ULL << shift);
    EXPECT_EQ(parse_time(time_text(Duration(static_cast<std::int64_t>(n)))), Duration(static_cast<std::int64_t>(n)));
    EXPECT_EQ(parse_rate(rate_text(n)), n);
    EXPECT_EQ(parse_size(size_text(n)), n) << size_text(n);
    EXPECT_EQ(parse_mask(mask_text(n)), n);
    const auto in = static_cast<std::uint32_t>(1 + rng.below(1 << 20));
    const auto of = static_cast<std::uint32_t>(rng.below(in + 1));
    const auto ratio = parse_ratio(ratio_text({of, in}));
    ASSERT_TRUE(ratio) << of << '/' << in;
    EXPECT_EQ(std::uint64_t{ratio->of} * in, std::uint64_t{of} * ratio->in) << ratio_text({of, in});
  }
  EXPECT_EQ(time_text(1500us), "1.5ms");
  EXPECT_EQ(time_text(1ns), "1ns");
  EXPECT_EQ(time_text(90s), "90s");
  EXPECT_EQ(rate_text(2'500'000'000), "2.5Gbps");
  EXPECT_EQ(size_text(65536), "64KiB");
  EXPECT_EQ(size_text(1500), "1500B");
  EXPECT_EQ(ratio_text({1, 1000}), "0.1%");
  EXPECT_EQ(ratio_text({1, 3}), "1/3");
}

TEST(SimScenario, NamesLineAndKeyAndSuggestsTheRightOne) {
  EXPECT_THAT(errors_of(with("accept_after", "acept_after")),
              ElementsAre("x.toml:34:1: key 'acept_after' is unknown in [[listen]]; did you mean 'accept_after'?"));
  EXPECT_THAT(errors_of(with("[[connect]]", "[[conect]]")),
              ElementsAre(HasSubstr("x.toml:40:3: key 'conect' is unknown in "
                                    "a scenario; did you mean 'connect'?")));
  EXPECT_THAT(errors_of(with("seed = 7", "mtu = 7")), ElementsAre(HasSubstr("it belongs in [[link]]")));
  EXPECT_THAT(errors_of(with("rto_min", "rto_mni")), ElementsAre(HasSubstr("did you mean 'rto_min'?")));
  EXPECT_THAT(errors_of(with("seed = 7", "qqq = 7")), ElementsAre(HasSubstr("known are ")));
  EXPECT_THAT(errors_of(with("seed = 7", "rtr = 7")), ElementsAre(HasSubstr("it belongs in [connect.mpa]")));
  EXPECT_THAT(errors_of(with("rtr_offer", "ird")),
              ElementsAre(HasSubstr("key 'ird' is unknown in [connect.mpa]; it belongs in [[connect]]")));
  EXPECT_THAT(errors_of(with("rtr_accept", "ird")),
              ElementsAre(HasSubstr("key 'ird' is unknown in [listen.mpa]; it belongs in [[listen]]")));
}

TEST(SimScenario, TellsWhereTheKeysOfMpaAreNow) {
  EXPECT_THAT(errors_of(with("[connect.mpa]\n", "")), ElementsAre("x.toml:50:1: connect.rtr is now connect.mpa.rtr",
                                                                  "x.toml:51:1: connect.rtr_offer is now "
                                                                  "connect.mpa.rtr_offer"));
  EXPECT_THAT(errors_of(with("[listen.mpa]\n", "")),
              ElementsAre("x.toml:37:1: listen.rtr_accept is now listen.mpa.rtr_accept"));
  EXPECT_THAT(
      errors_of(with("reject = 4", "ird_max = 4\nprivate_data_max = 8\npeer_quirk = \"siw\"\nplay_quirk = \"siw\"")),
      ElementsAre("x.toml:35:1: listen.ird_max is now listen.mpa.ird_max",
                  "x.toml:36:1: listen.private_data_max is now listen.mpa.private_data_max",
                  "x.toml:37:1: listen.peer_quirk is now listen.mpa.peer_quirk",
                  "x.toml:38:1: listen.play_quirk is now listen.mpa.play_quirk"));
  EXPECT_THAT(errors_of(with("close = \"both\"", "close = \"both\"\nplay_quirk = \"siw\"")),
              ElementsAre(HasSubstr("connect.play_quirk is now connect.mpa.play_quirk")));
  // What follows from the key is told as if it were in its place.
  EXPECT_THAT(errors_of(with("private_data = 100", "private_data = 512\nrevision = 1")),
              ElementsAre(HasSubstr("connect.revision is now connect.mpa.revision")));
  EXPECT_THAT(errors_of(with("private_data = 100", "private_data = 100\nmpa = 3")), Contains(HasSubstr("not TOML")));
  EXPECT_THAT(errors_of(with("accept_after", "mpa = 3\n[[listen]]\naccept_after")),
              Contains(HasSubstr("mpa is a table: write mpa = { revision = ... }")));
  EXPECT_THAT(errors_of(with("rtr_offer = [\"write\"]", "fall_back_to_v2 = true")),
              ElementsAre(HasSubstr("is unknown in [connect.mpa]; did you mean 'fall_back_to_v1'?")));
  EXPECT_THAT(errors_of(with("[connect.mpa]", "[connect.mpa")), ElementsAre(HasSubstr("x.toml:50:13: not TOML")));
  EXPECT_THAT(errors_of(with("[connect.mpa]", "[CONNECT.mpa")), Contains(HasSubstr("x.toml:50:13: not TOML")));
}

TEST(SimScenario, AnotherTransportIsRefusedAsSuch) {
  EXPECT_THAT(
      errors_of(with("close = \"both\"", "close = \"both\"\ntransport = \"roce\"")),
      ElementsAre(HasSubstr("key 'transport' is unknown in [[connect]]; write engine = \"roce\" at both hosts")));
  EXPECT_THAT(errors_of(with("[connect.mpa]", "[connect.ib]\npkey = 1\n[connect.mpa]")),
              ElementsAre(HasSubstr("key 'ib' is unknown in [[connect]]; write engine = \"roce\" at both hosts")));
}

TEST(SimScenario, TellsTheNewNameOfAKey) {
  EXPECT_THAT(errors_of(with("close = \"both\"", "close = \"both\"\ntcp_timeout = \"1s\"")),
              ElementsAre(HasSubstr(": connect.tcp_timeout is now connect.transport_timeout")));
  EXPECT_THAT(errors_of(with("reject = 4", "tcp_timeout = \"1s\"")),
              ElementsAre(HasSubstr("key 'tcp_timeout' is unknown in [[listen]]")));
  EXPECT_THAT(errors_of(with("rtr_offer = [\"write\"]", "tcp_timeout = \"1s\"")),
              ElementsAre(HasSubstr("it belongs in [[connect]], as transport_timeout")));
  EXPECT_THAT(errors_of(with("close = \"both\"", "close = \"both\"\ntransport_timeout = \"0s\"")),
              ElementsAre(HasSubstr("transport_timeout: write a time above 0s")));
}

TEST(SimScenario, ShowsTheRightFormOfAValue) {
  EXPECT_THAT(errors_of(with("\"2us\"", "2")),
              ElementsAre(AllOf(HasSubstr("x.toml:23:1: delay: the number 2 lacks its unit"), HasSubstr("\"2us\""))));
  EXPECT_THAT(errors_of(with("\"2us\"", "0.5")),
              ElementsAre(HasSubstr("'0.5' (a number with a fraction) lacks its unit: "
                                    "write \"0.5s\" or \"0.5us\"")));
  EXPECT_THAT(errors_of(with("\"2us\"", "\"2 sec\"")), ElementsAre(HasSubstr("'2 sec' is not a time such as \"2us\"")));
  EXPECT_THAT(errors_of(with("\"2.5Gbps\"", "10")), ElementsAre(HasSubstr("write \"10Gbps\"")));
  EXPECT_THAT(errors_of(with("\"64KiB\"\nmtu", "64\nmtu")), ElementsAre(HasSubstr("write \"64B\" or \"64KiB\"")));
  EXPECT_THAT(errors_of(with("mask = 0b1011", "chance = 0.5")), ElementsAre(HasSubstr("write \"1%\"")));
  EXPECT_THAT(errors_of(with("mtu = 9000", "mtu = 9001")),
              ElementsAre(HasSubstr("9001 is not a whole number in 576..9000")));
  EXPECT_THAT(errors_of(with("port = 4711\naccept", "port = 70000\naccept")), Contains(HasSubstr("1..65535")));
  EXPECT_THAT(errors_of(with("fence = false", "fence = 0")),
              ElementsAre(HasSubstr("the number 0 is not true or false")));
  EXPECT_THAT(errors_of(with("\"mpa_reply\"", "\"mpa_replay\"")), ElementsAre(HasSubstr("did you mean 'mpa_reply'?")));
  EXPECT_THAT(errors_of(with("\"mpa_reply\"", "\"reply\"")),
              ElementsAre(HasSubstr("write 'arp.reply' or 'mpa.reply'")));
  EXPECT_THAT(errors_of(with("\"mpa_reply\"", "\"rtr\"")), ElementsAre(HasSubstr("write 'mpa.rtr'")));
  EXPECT_THAT(errors_of(with("\"crash\"", "\"crush\"")), Contains(HasSubstr("did you mean 'crash'?")));
  EXPECT_THAT(errors_of(with("rtr = \"read\"", "rtr = \"reed\"")), ElementsAre(HasSubstr("did you mean 'read'?")));
  EXPECT_THAT(errors_of(with("[\"a\", \"s\"]", "[\"a\"]")), Contains(HasSubstr("two names, as in [\"a\", \"b\"]")));
  EXPECT_THAT(errors_of(with("private_data = 100", "private_data = 513")), ElementsAre(HasSubstr("513")));
  EXPECT_THAT(errors_of(with("[[switch]]", "[switch]")), Contains(HasSubstr("write [[switch]] with two brackets")));
  EXPECT_THAT(errors_of(with("[bounds]", "[[bounds]]")), ElementsAre(HasSubstr("write [bounds]")));
}

TEST(SimScenario, ReportsTextThatIsNotToml) {
  EXPECT_THAT(errors_of("name = \n"), ElementsAre(HasSubstr("x.toml:1:")));
  EXPECT_THAT(errors_of(with("seed = 7", "seed = = 7")),
              ElementsAre(AllOf(HasSubstr("x.toml:3:"), HasSubstr("not TOML"))));
  EXPECT_THAT(errors_of(std::string(2 << 20, '#')), ElementsAre(HasSubstr("2097152 octets")));
}

TEST(SimScenario, CharactersBeyondAsciiStandInStringsAndCommentsOnly) {
  const std::string start = "\xEF\xBB\xBF# RFC 5044 §4.3\nname = \"café \\\" é\"\n";
  const std::string strings = R"(description = """é "" \""" '
é"""""
)";
  for (const std::string& text : {start, start + strings, std::string("a = 'it\\'\nb = '''\n'é'''''\n")}) {
    const auto read = parse_document(text, "x.toml");
    EXPECT_TRUE(read) << text << (read ? std::string() : read.error().text);
  }
  // Each of these made toml++ go on from where its code says that nothing can be.
  for (const std::string& text : {start + "café = 1\n", start + "a = 1 é\n", start + "b4 §4.3 = 2\n",
                                  start + strings + "é", start + "a = '''x'''''é # '\n"}) {
    const auto wrong = parse_document(text, "x.toml");
    ASSERT_FALSE(wrong) << text;
    EXPECT_NE(wrong.error().text.find("beyond ASCII, outside of a string or comment"), std::string::npos)
        << wrong.error().text;
    EXPECT_GE(wrong.error().line, 3);
  }
}

TEST(SimScenario, CollectsAllErrorsInFileOrderAndAtMostFifty) {
  std::string text(good);
  for (const auto& [from, to] : {std::pair{"seed", "sed"}, {"rto_min", "rto_mni"}, {"\"7s\"", "7"}}) {
    const std::size_t at = text.find(from);
    text.replace(at, std::string_view(from).size(), to);
  }
  EXPECT_THAT(errors_of(text), ElementsAre(HasSubstr("x.toml:3:"), HasSubstr("x.toml:11:"), HasSubstr("x.toml:71:")));
  std::string many;
  for (int i = 0; i < 200; ++i) many += "wrong" + std::to_string(i) + " = 1\n";
  EXPECT_EQ(errors_of(many).size(), 50u);
}

// A key that was not read hides only what cannot be judged without it.
TEST(SimScenario, AMistakeDoesNotHideAnother) {
  EXPECT_THAT(
      errors_of("name = \"x\"\n[[host]]\nname = \"a\"\nipv7 = false\n[[host]]\nname = \"b\"\n[[link]]\n"
                "ends = [\"a\", \"c\"]\nrate = \"10\"\n[[listen]]\nhost = \"bb\"\nprot = 7471\n[[connect]]\n"
                "from = \"a\"\nto = \"bb\"\nport = 7000\n[connect.mpa]\nrtr = \"foo\"\n[[fault]]\naction = \"drop\"\n"
                "link = \"a-q\"\njitter = \"1us\"\ncount = 3\n"),
      ElementsAre(HasSubstr("x.toml:4:1: key 'ipv7' is unknown"), HasSubstr("x.toml:6:1: host 'b' has no link"),
                  HasSubstr("x.toml:8:1: ends: host or switch 'c'"), HasSubstr("x.toml:9:1: rate"),
                  HasSubstr("x.toml:11:1: host: host 'bb'"), HasSubstr("x.toml:12:1: key 'prot' is unknown"),
                  HasSubstr("x.toml:15:1: to: host 'bb'"), HasSubstr("x.toml:18:1: rtr: 'foo'"),
                  HasSubstr("x.toml:21:1: link: no link is called 'a-q'"), HasSubstr("x.toml:22:1: jitter is of"),
                  HasSubstr("x.toml:23:1: count is of")));
  EXPECT_THAT(errors_of(with("port = 4711\naccept", "prot = 4711\naccept")), ElementsAre(HasSubstr("'prot'")))
      << "whether somebody listens on 4711 cannot be told";
  EXPECT_THAT(errors_of(with("[[connect]]", "[[conect]]") + "[[fault]]\naction = \"drop\"\nlink = \"q\"\n"),
              ElementsAre(HasSubstr("conect"), HasSubstr("no link is called 'q'")));
}

TEST(SimScenario, ALineThatIsNotTomlDoesNotHideTheRest) {
  EXPECT_THAT(errors_of("name = \"x\nseed = = 7\n[[host]\nname = \"a\"\nipv6 = maybe\n[[host]]\nname = \"b\"\n"
                        "name = \"b\"\n[[link]]\nends = [\"a\", \"b\"]\nrate = \"10\"\n[[listen]]\nhost = \"b\"\n"
                        "port = 80 80\n[[connect]]\nfrom = \"a\"\nto = \"b\"\nport = 80\n"),
              ElementsAre(HasSubstr("x.toml:1:"), HasSubstr("x.toml:2:8: not TOML"), HasSubstr("x.toml:3:8: not TOML"),
                          HasSubstr("x.toml:5:8: not TOML"), HasSubstr("x.toml:8:8: not TOML"),
                          HasSubstr("x.toml:11:1: rate: '10'"), HasSubstr("x.toml:14:11: not TOML")));
  // Where an array is not closed, nobody knows which of the lines that follow belong to it.
  EXPECT_THAT(errors_of(with("ends = [\"a\", \"s\"]", "ends = [\"a\", \"s\"")),
              ElementsAre(AllOf(HasSubstr("x.toml:22:"), HasSubstr("not TOML"))));
}

TEST(SimScenario, FindsImpossibleTopology) {
  EXPECT_THAT(errors_of(with("name = \"b\"", "name = \"a\"")), Contains(HasSubstr("name: 'a' is taken already")));
  EXPECT_THAT(errors_of(with("name = \"b\"", "name = \"b b\"")), Contains(HasSubstr("'b b' is not a name")));
  EXPECT_THAT(errors_of(with("[\"s\", \"b\"]", "[\"s\", \"s\"]")), Contains(HasSubstr("'s' is linked to itself")));
  EXPECT_THAT(errors_of(with("[\"s\", \"b\"]", "[\"s\", \"bb\"]")),
              Contains(HasSubstr("host or switch 'bb' is not there; did you "
                                 "mean 'b'?")));
  EXPECT_THAT(errors_of(with("\"2.5Gbps\"", "\"0bps\"")), ElementsAre(HasSubstr("x.toml:22:1: rate: nothing crosses")));
  EXPECT_THAT(errors_of(with("\"64KiB\"\nmtu", "\"8KiB\"\nmtu")), ElementsAre(HasSubstr("do not hold one frame")));
  EXPECT_THAT(errors_of(with("[[listen]]", "[[host]]\nname = \"c\"\n[[listen]]")),
              ElementsAre(HasSubstr("host 'c' has no link")));
  EXPECT_THAT(
      errors_of(with("[[link]]\nname", "[[host]]\nname = \"c\"\n[[link]]\nends = [\"c\", \"b\"]\n[[link]]\nname") +
                "[[connect]]\nfrom = \"a\"\nto = \"c\"\nexpect = \"failed\"\n"),
      ElementsAre(HasSubstr("no path leads from 'a' to 'c'")))
      << "b is a host and does not forward";
}

TEST(SimScenario, NamesTheLoopOfSwitches) {
  EXPECT_THAT(errors_of(with("[[listen]]",
                             "[[switch]]\nname = \"t\"\n[[switch]]\nname = \"u\"\n[[link]]\nends = [\"s\", \"t\"]\n"
                             "[[link]]\nends = [\"t\", \"u\"]\n[[link]]\nends = [\"u\", \"s\"]\n[[listen]]")),
              ElementsAre(AllOf(HasSubstr("x.toml:40:1: ends: this link closes a loop"), HasSubstr("u - s - t - u"))));
  EXPECT_THAT(errors_of(with("[[listen]]",
                             "[[switch]]\nname = \"t\"\n[[link]]\nends = [\"s\", \"t\"]\n[[link]]\nname = \"second\"\n"
                             "ends = [\"t\", \"s\"]\n[[listen]]")),
              ElementsAre(HasSubstr("t - s - t")));
}

TEST(SimScenario, FindsWorkThatCannotBe) {
  EXPECT_THAT(errors_of(std::string(good) + "[[listen]]\nhost = \"b\"\nport = 4711\n"),
              ElementsAre(HasSubstr("port: 4711 of 'b' is taken by the listener of line 31")));
  EXPECT_THAT(errors_of(std::string(good) + "[[listen]]\nhost = \"b\"\nport = 4711\naddress = \"v6\"\n"), IsEmpty());
  // Listeners without a host take no port from each other.
  EXPECT_THAT(errors_of(std::string(good) + "[[listen]]\nport = 4711\n[[listen]]\nport = 4711\n"),
              testing::Each(testing::Not(HasSubstr("is taken"))));
  EXPECT_THAT(errors_of(with("to = \"b\"\nport = 4711", "to = \"b\"\nport = 4712")),
              ElementsAre(HasSubstr("there is no listener on port 4712 of 'b'; did you mean 4711?")));
  EXPECT_THAT(errors_of(with("to = \"b\"\nport = 4711", "to = \"b\"\nport = 4712\nexpect = \"failed\"")), IsEmpty());
  EXPECT_THAT(errors_of(with("from = \"a\"", "from = \"s\"")),
              ElementsAre(HasSubstr("'s' is a switch, and a host is needed")));
  EXPECT_THAT(errors_of(with("from = \"a\"", "from = \"b\"")), ElementsAre(HasSubstr("connects to itself")));
  EXPECT_THAT(errors_of(std::string(good) + "[[connect]]\nfrom = \"a\"\nto = \"b\"\nport = 4711\ncount = 1000000\n"
                                            "interval = \"1us\"\n"),
              ElementsAre(HasSubstr("1000003 connections up to here, at most 1000000")));
  EXPECT_THAT(errors_of(with("interval = \"1ms\"", "interval = \"20s\"")),
              ElementsAre(HasSubstr("when the run is over")));
  EXPECT_THAT(errors_of(with("time = \"30s\"", "time = \"0s\"")),
              Contains(HasSubstr("x.toml:6:1: time: a run of no time")));
  EXPECT_THAT(errors_of(with("close = \"both\"", "messages = 100000\nclose = \"both\"")),
              ElementsAre(HasSubstr("more than 1GiB")));
  EXPECT_THAT(errors_of(with("private_data = 100", "private_data = 509")),
              ElementsAre(HasSubstr("at most 508 fit into a Request of revision 2")));
  EXPECT_THAT(errors_of(with("\"hex:00ff\"", "509")), ElementsAre(HasSubstr("at most 508 fit into the Reply")));
}

TEST(SimScenario, RefusesMoreConnectionsAtOnceThanAHostHasLocalPorts) {
  const std::string at_once = "[[connect]]\nfrom = \"a\"\nto = \"b\"\nport = 4711\n";
  EXPECT_THAT(errors_of(std::string(good) + at_once + "count = 28233\n"),
              ElementsAre(AllOf(HasSubstr("x.toml:76:1: count: 28233 connections at once"), HasSubstr("28232 local"))));
  for (const char* fine : {"count = 28232\n", "count = 100000\ninterval = \"1us\"\n",
                           "count = 100000\nexpect = \"settled\"\n", "count = 100000\nretries = 1\n"})
    EXPECT_THAT(errors_of(std::string(good) + at_once + fine), IsEmpty()) << fine;
}

TEST(SimScenario, RefusesOptionsThatTheMachineWouldRefuse) {
  EXPECT_THAT(errors_of(with("rtr = \"read\"", "rtr = \"frame\"")), ElementsAre(HasSubstr("belongs to revision 1")));
  EXPECT_THAT(errors_of(with("rtr = \"read\"", "rtr = \"frame\"\nrevision = 1")), IsEmpty());
  EXPECT_THAT(errors_of(with("rtr = \"read\"", "rtr_fallback = \"frame\"")), ElementsAre(HasSubstr("rtr_fallback")));
  EXPECT_THAT(errors_of(with("[\"read\", \"send\"]", "[]")),
              ElementsAre(HasSubstr("at least one of send, write, read")));
  EXPECT_THAT(errors_of(with("[listen.mpa]\nrtr_accept = [\"read\", \"send\"]",
                             "ird = 0\n[listen.mpa]\nird_max = 0\nrtr_accept = [\"read\"]")),
              ElementsAre(HasSubstr("a Read alone")));
  EXPECT_THAT(errors_of(with("[listen.mpa]", "[listen.mpa]\nrtr_expected = \"frame\"")),
              ElementsAre(HasSubstr("always announced")));
  EXPECT_THAT(errors_of(with("rtr_accept", "play_quirk = \"swi\"\nrtr_accept")),
              ElementsAre(HasSubstr("did you mean 'siw'?")));
  EXPECT_THAT(errors_of(with("rtr_accept", "peer_quirk = \"irmda\"\nrtr_accept")),
              ElementsAre(HasSubstr("did you mean 'irdma'?")));
  EXPECT_THAT(
      errors_of(with("private_data = 100\n[connect.mpa]", "private_data = 300\n[connect.mpa]\npeer_quirk = \"siw\"")),
      ElementsAre(HasSubstr("more than a peer")));
}

TEST(SimScenario, FindsFaultsThatCannotHappen) {
  EXPECT_THAT(errors_of(with("link = \"uplink\"", "link = \"uplnk\"")),
              ElementsAre(HasSubstr("no link is called 'uplnk'; did you mean 'uplink'?")));
  EXPECT_THAT(errors_of(with("to = \"a\"", "to = \"b\"")),
              ElementsAre(HasSubstr("'b' is not an end of a-s: write \"a\" or \"s\"")));
  EXPECT_THAT(errors_of(with("until = \"2s\"", "until = \"1ms\"")), ElementsAre(HasSubstr("until")));
  EXPECT_THAT(errors_of(with("host = \"b\"\nat", "host = \"bb\"\nat")),
              ElementsAre(HasSubstr("host 'bb' is not there; did you mean 'b'?")));
  EXPECT_THAT(errors_of(with("host = \"b\"\nat", "at")), ElementsAre(HasSubstr("host is missing")));
  EXPECT_THAT(errors_of(with("link = \"uplink\"\n", "")),
              ElementsAre(HasSubstr("link is missing: drop happens to frames of a link")));
  EXPECT_THAT(errors_of(with("action = \"drop\"\n", "")), ElementsAre(HasSubstr("the fault has no action")));
  EXPECT_THAT(errors_of(with("mask = 0b1011", "at = \"1s\"")),
              ElementsAre(HasSubstr("drop lasts: write from (and until)")));
  EXPECT_THAT(errors_of(with("mask = 0b1011", "mask = 0b1011\nchance = \"1%\"")), ElementsAre(HasSubstr("mask")));
  EXPECT_THAT(errors_of(with("at = \"7s\"", "at = \"7s\"\nmatch = \"tcp_syn\"")),
              ElementsAre(HasSubstr("without a link no frame can match")));
}

TEST(SimScenario, TellsNotTwiceWhatIsWrongOnce) {
  EXPECT_THAT(errors_of(with("name = \"b\"", "nmae = \"b\"")), ElementsAre(HasSubstr("did you mean 'name'?")));
  EXPECT_THAT(errors_of(with("name = \"uplink\"", "name = 3")), ElementsAre(HasSubstr("name: the number 3")));
}

TEST(SimScenario, ChecksScenariosThatCodeMade) {
  Scenario scenario = *parse_scenario(good, "x.toml");
  EXPECT_THAT(check_scenario(scenario), IsEmpty());
  scenario.links[0].options.rate_bps = 0;
  scenario.links[1].options.mtu = 100;
  scenario.connects[0].octets = 20'000'000;
  EXPECT_EQ(check_scenario(scenario).size(), 3u);
  EXPECT_EQ(check_scenario(scenario)[0].line, 20);
}

TEST(SimScenario, NoTextBringsItDown) {
  Rng rng(3);
  for (std::size_t n = 0; n <= good.size(); ++n) {
    (void)parse_scenario(good.substr(0, n), "x.toml");
    std::string text(good);
    if (n == good.size()) break;
    const auto flip = static_cast<char>(1 << rng.below(8));
    text[n] = static_cast<char>(text[n] ^ flip);
    const auto read = parse_scenario(text, "x.toml");
    EXPECT_TRUE(!read || parse_scenario(to_toml(*read), "x.toml")) << text;
  }
}

TEST(SimScenario, NoMixtureOfLinesBringsItDown) {
  std::vector<std::string> lines;
  std::istringstream in{std::string(good)};
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  for (const char* odd :
       {"ends = 3", "tcp = 1", "host = [1]", "[[host.tcp]]", "[link]", "fault = {}", "[[fault]]", "x.y = 1",
        "from = 1979-05-27", "nth = -1", "mask = -1", "octets = 1e9", "delay = inf", "connect = [[]]"})
    lines.emplace_back(odd);
  Rng rng(4);
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    const std::uint64_t count = rng.below(60);
    for (std::uint64_t n = 0; n < count; ++n) text += lines[rng.below(lines.size())] + '\n';
    (void)parse_scenario(text, "x.toml");
  }
}

constexpr std::string_view two_nics = R"(name = "x"

[[host]]
name = "a"

[[host.nic]]
name = "n1"

[[host.nic]]
name = "n2"
mtu = 9000

[[host]]
name = "b"

[[host.nic]]
name = "n1"

[[host.nic]]
name = "eth"
engine = "none"

[[switch]]
name = "s"

[[link]]
ends = ["a/n2", "s"]

[[link]]
ends = ["s", "b/n1"]

[[link]]
ends = ["b/eth", "a/n1"]
name = "plain"

[[listen]]
host = "b"

[[connect]]
from = "a/n2"
to = "b/n1"
)";

TEST(SimScenario, NamesTheNicsOfHosts) {
  const auto read = parse_scenario(two_nics, "x.toml");
  ASSERT_TRUE(read) << read.error().front().to_string();
  ASSERT_EQ(read->hosts[0].options.nics.size(), 2U);
  EXPECT_EQ(read->hosts[0].options.nics[1], (NicOptions{.name = "n2", .mtu = 9000}));
  EXPECT_EQ(read->hosts[1].options.nics[1].engine, NicEngine::none);
  EXPECT_EQ(read->links[0].ends[0], "a");
  EXPECT_EQ(read->links[0].nics[0], "n2");
  EXPECT_EQ(read->links[0].nics[1], "");
  EXPECT_EQ(read->links[0].name, "a-s");
  EXPECT_EQ(read->connects[0].to, "b");
  EXPECT_EQ(read->connects[0].to_nic, "n1");
  EXPECT_EQ(to_toml(*read), two_nics);
}

TEST(SimScenario, RefusesNicsThatAreNotThere) {
  const auto changed = [](std::string_view old_text, std::string_view new_text) {
    std::string out(two_nics);
    out.replace(out.find(old_text), old_text.size(), new_text);
    return errors_of(out);
  };
  EXPECT_THAT(changed("\"a/n2\", \"s\"", "\"a/n3\", \"s\""), Contains(HasSubstr("host 'a' has no NIC 'n3'; ")));
  EXPECT_THAT(changed("[\"s\", \"b/n1\"]", "[\"s/p1\", \"b/n1\"]"),
              ElementsAre(HasSubstr("'s' is a switch and has no NICs")));
  EXPECT_THAT(changed("\"b/eth\", \"a/n1\"", "\"b/eth\", \"a/n2\""),
              ElementsAre(HasSubstr("'a/n2' has a link already")));
  EXPECT_THAT(changed("name = \"n1\"\n\n[[host.nic]]\nname = \"n2\"", "name = \"n2\"\n\n[[host.nic]]\nname = \"n2\""),
              Contains(HasSubstr("another NIC of the host has this name")));
  EXPECT_THAT(changed("mtu = 9000", "mtu = 90"), ElementsAre(HasSubstr("90 is not a whole number in 576..9000")));
  EXPECT_THAT(changed("to = \"b/n1\"", "to = \"b/n9\""), ElementsAre(HasSubstr("to: host 'b' has no NIC 'n9'")));
  EXPECT_THAT(changed("to = \"b/n1\"", "to = \"b/eth\""),
              ElementsAre(HasSubstr("no links and switches join 'a/n2' and 'b/eth'")))
      << "plain Ethernet carries no connection";
  EXPECT_THAT(changed("to = \"b/n1\"", "to = \"b/n1\"\nbackups = [\"n7\"]"),
              ElementsAre(HasSubstr("backups: host 'b' has no NIC 'n7'")));
  EXPECT_THAT(changed("[[host.nic]]\nname = \"n1\"\n\n[[host.nic]]\nname = \"n2\"\nmtu = 9000\n", "nic = 3\n"),
              Contains(HasSubstr("write [[host.nic]] with two brackets")));
}

TEST(SimScenario, ChecksNicsAsTheWorldTakesThem) {
  const auto links = [](std::string_view text) {
    return errors_of(
        fmt::format("[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[host.nic]]\nname = \"n1\"\n"
                    "[[host.nic]]\nname = \"n2\"\n[[switch]]\nname = \"s\"\n{}[[listen]]\nhost = \"b\"\n"
                    "[[connect]]\nfrom = \"a\"\nto = \"b\"\n",
                    text));
  };
  constexpr std::string_view a_to_s = "[[link]]\nends = [\"a\", \"s\"]\n";
  EXPECT_THAT(links(fmt::format(
                  "{}[[link]]\nends = [\"b/n1\", \"s\"]\n[[link]]\nname = \"x\"\nends = [\"b/n2\", \"s\"]\n", a_to_s)),
              ElementsAre(HasSubstr("ends: 'b' is in this network already: two of its NICs would have one address")));
  EXPECT_THAT(links(fmt::format("{}[[link]]\nname = \"x\"\nends = [\"b\", \"s\"]\n[[link]]\nends = [\"b/n1\", \"a\"]\n",
                                a_to_s)),
              ElementsAre(HasSubstr("ends: 'b/n1' has a link already")))
      << "a link that names no NIC has taken the first";
  EXPECT_THAT(links("[[link]]\nends = [\"a/\", \"b\"]\n[[switch]]\nname = \"t\"\n"),
              Contains(HasSubstr("ends: 'a/': the name of a NIC is missing behind '/'")));
}

TEST(SimScenario, EveryKeyIsDocumented) {
  std::string docs;
  for (const char* name : {"/docs/simulator.md", "/docs/simulator-scenarios.md"}) {
    std::ifstream file(std::string(PARLEY_SOURCE_DIR) + name);
    std::stringstream content;
    content << file.rdbuf();
    docs += content.str();
  }
  std::istringstream table(scenario_keys_markdown());
  std::string missing;
  for (std::string line; std::getline(table, line);)
    if (docs.find(line) == std::string::npos) missing += line + '\n';
  EXPECT_EQ(missing, "") << "put these lines into docs/simulator-scenarios.md";
}

}  // namespace
}  // namespace parley::sim
