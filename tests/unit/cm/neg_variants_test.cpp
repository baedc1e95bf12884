// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The variants that Parley brings along, over the in-memory network and queue pairs in memory.
#include "tests/unit/cm/neg_built.hpp"

#include "base/gid.hpp"
#include "cm/neg/variants/manual_driver.hpp"
#include "cm/neg/variants/perftest.hpp"
#include "cm/neg/variants/pingpong.hpp"
#include "cm/neg/variants/verbs.hpp"

namespace parley::neg {
namespace {

using namespace kit;

TEST(NegVariants, EachTransportIsTakenToRtsAndAMessagePassesBothWays) {
  for (const char* variant : {"verbs-rc", "verbs-uc", "verbs-ud", "verbs-xrc"}) {
    SCOPED_TRACE(variant);
    Built b;
    ASSERT_TRUE(b.run(variant, {{"done", "true"}}));
    ASSERT_EQ(b.end(), "completed");
    EXPECT_FALSE(b.theirs.failure);
    const auto mine = b.mine.variant->agreed(), theirs = b.theirs.variant->agreed();
    ASSERT_EQ(mine.size(), 1U);
    ASSERT_EQ(theirs.size(), 1U);
    EXPECT_TRUE(mine[0].tested && theirs[0].tested);
    EXPECT_EQ(to_string(mine[0].transport), std::string(variant).substr(6));
    EXPECT_EQ(mine[0].peer.qpn, theirs[0].local.qpn);
    EXPECT_EQ(mine[0].peer.psn, theirs[0].local.psn);
    EXPECT_EQ(mine[0].peer.gid, b.fabric.gid);
    EXPECT_EQ(mine[0].peer.rkey, 0x1234U);
    EXPECT_EQ(mine[0].peer.vaddr, 0x7F0000001000U);
    EXPECT_EQ(mine[0].mtu, 1024U);
    EXPECT_EQ(theirs[0].mtu, 1024U);
    EXPECT_EQ(b.fabric.qps.at(mine[0].local.qpn).state, QpState::rts);
    EXPECT_EQ(b.fabric.qps.at(theirs[0].local.qpn).state, QpState::rts);
  }
}

TEST(NegVariants, ThisSidesReadsAreWhatThePeerAnswers) {
  Built b;
  ASSERT_TRUE(b.run("verbs-rc"));
  const QpPair pair = b.mine.variant->agreed().at(0);
  EXPECT_EQ(pair.local.ord, 16);
  EXPECT_EQ(pair.ord, b.theirs.variant->agreed().at(0).local.ird);
  EXPECT_LT(pair.ord, 8);
  EXPECT_EQ(pair.ird, pair.local.ird);
}

TEST(NegVariants, ATestMessageThatComesLateIsWaitedFor) {
  Built b;
  b.fabric.hides = 20;
  ASSERT_TRUE(b.run("verbs-rc"));
  EXPECT_EQ(b.end(), "completed");
  EXPECT_TRUE(b.mine.variant->agreed().at(0).tested);
}

TEST(NegVariants, ATestMessageThatNeverComesFails) {
  Built b;
  b.fabric.drops = true;
  ASSERT_TRUE(b.run("verbs-uc"));
  ASSERT_TRUE(b.mine.failure);
  EXPECT_EQ(b.mine.failure->problem, Problem::vendor_library_error);
  EXPECT_EQ(b.mine.failure->text, "the peer's test message has not come; 48 looks");
  EXPECT_TRUE(b.theirs.failure && b.theirs.failure->by_peer);
  b.mine = {}, b.theirs = {};
  EXPECT_TRUE(b.fabric.qps.empty()) << "the queue pairs go with the sessions";
}

TEST(NegVariants, ATestMessageOfAnotherIsNotThePeers) {
  Built b;
  b.fabric.garbles = true;
  ASSERT_TRUE(b.run("verbs-rc"));
  ASSERT_TRUE(b.mine.failure);
  EXPECT_EQ(b.mine.failure->problem, Problem::invalid_peer_data);
  EXPECT_EQ(b.mine.failure->text.substr(0, 34), "the test message is not the peer's");
}

// Anybody may send to a queue pair of UD.
TEST(NegVariants, DatagramsOfOthersAreNotThePeersTestMessage) {
  for (const int strangers : {1, 5, 40}) {
    Built b;
    b.fabric.strangers = strangers;
    ASSERT_TRUE(b.run("verbs-ud"));
    ASSERT_EQ(b.end(), "completed");
    EXPECT_TRUE(b.mine.variant->agreed().at(0).tested);
  }
  Built b;
  b.fabric.strangers = 1'000'000;
  ASSERT_TRUE(b.run("verbs-ud"));
  ASSERT_TRUE(b.mine.failure && b.theirs.failure);
  const auto& own = b.mine.failure->by_peer ? b.theirs.failure : b.mine.failure;
  EXPECT_EQ(own->text, "the peer's test message has not come; 48 looks, 192 datagrams of others");
}

TEST(NegVariants, WithoutATestTheStatesAreReachedAndNobodyClaimsMore) {
  Built b;
  b.fabric.tests = false;
  ASSERT_TRUE(b.run("verbs-rc"));
  EXPECT_EQ(b.end(), "completed");
  EXPECT_FALSE(b.mine.variant->agreed().at(0).tested);
  EXPECT_EQ(b.fabric.qps.at(b.mine.variant->agreed().at(0).local.qpn).state, QpState::rts);
}

TEST(NegVariants, EachCallOfTheDriverMayFail) {
  for (const char* call : {"rtr", "rts", "send", "take"}) {
    SCOPED_TRACE(call);
    Built b;
    b.fabric.fails = call;
    ASSERT_TRUE(b.run("verbs-rc"));
    ASSERT_TRUE(b.mine.failure && b.theirs.failure);
    EXPECT_EQ(b.mine.failure->problem, Problem::vendor_library_error);
    EXPECT_EQ(b.mine.failure->text, std::string(call) + " failed");
  }
  Built b;
  b.fabric.fails = "open";
  EXPECT_FALSE(b.run("verbs-rc"));
  EXPECT_EQ(b.refused, "the vendor's library failed: open failed");
}

const Config left{{"qpn", "0x11"}, {"psn", "100"},      {"gid", "192.0.2.1"},
                  {"rkey", "0x7"}, {"vaddr", "0x1000"}, {"length", "64"}};
const Config right{{"qpn", "0x22"}, {"psn", "200"}, {"gid", "::ffff:192.0.2.2"}, {"mtu", "4096"}};

TEST(NegVariants, ValuesThatAreTypedInAreExchanged) {
  Built b(false);
  ASSERT_TRUE(b.run("manual", left, right)) << b.refused;
  ASSERT_EQ(b.end(), "completed");
  const QpPair pair = b.mine.variant->agreed().at(0);
  EXPECT_EQ(pair.peer.qpn, 0x22U);
  EXPECT_EQ(gid_text(pair.peer.gid), "::ffff:192.0.2.2");
  EXPECT_EQ(pair.mtu, 1024U);
  EXPECT_FALSE(pair.tested);
  EXPECT_EQ(b.theirs.variant->agreed().at(0).peer.rkey, 7U);
}

TEST(NegVariants, WhoGivesANumberMeansItAndNoDevice) {
  Built b;
  ASSERT_TRUE(b.run("verbs-rc", {{"qpn", "7"}, {"gid", "::1"}}, {{"driver", "fabric"}, {"qpn", "9"}}));
  ASSERT_EQ(b.end(), "completed");
  const QpPair pair = b.mine.variant->agreed().at(0);
  EXPECT_EQ(pair.local.qpn, 7U);
  EXPECT_EQ(pair.peer.qpn, 0x12U) << "unless a driver is named";
  EXPECT_FALSE(pair.tested);
}

TEST(NegVariants, DriversAreToldWhomTheyShallReach) {
  Built b;
  ASSERT_TRUE(b.run("verbs-rc"));
  ASSERT_EQ(b.fabric.configs.size(), 3U);
  EXPECT_FALSE(b.fabric.configs[0].contains("toward")) << "a listener knows no peer yet";
  EXPECT_EQ(b.fabric.configs[1].at("toward"), fabric_server.to_string());
  EXPECT_EQ(b.fabric.configs[2].at("toward"), "192.0.2.1:40000");
  Built own;
  ASSERT_TRUE(own.run("verbs-rc", {{"toward", "192.0.2.9"}}));
  EXPECT_EQ(own.fabric.configs[1].at("toward"), "192.0.2.9");
  Built backup;
  const Address nobody = Address::v4(192, 0, 2, 99, 4800);
  ASSERT_TRUE(backup.server.listen(fabric_server, {{.plugin = "parley", .variant = "verbs-rc"}}));
  ASSERT_TRUE(backup.client.dial(
      backup.net.now,
      {.request = {.plugin = "parley", .variant = "verbs-rc"}, .server = nobody, .backups = {fabric_server}}));
  backup.net.settle();
  ASSERT_EQ(backup.fabric.configs.size(), 4U);
  EXPECT_EQ(backup.fabric.configs[1].at("toward"), nobody.to_string());
  EXPECT_EQ(backup.fabric.configs[2].at("toward"), fabric_server.to_string()) << "one of its own for the backup";
}

TEST(NegVariants, TypedInValuesAreChecked) {
  const auto text = [](Config config, const std::string& variant = "manual") {
    Built b(false);
    return b.run(variant, left, config) ? b.end() : b.refused;
  };
  EXPECT_EQ(text({}),
            "the configuration is wrong: 'qpn' is missing: the driver 'manual' makes no queue pair; give the number "
            "of yours");
  EXPECT_EQ(text({{"qpn", "1"}, {"gid", "fe80::1%2"}}),
            "the configuration is wrong: 'gid': 'fe80::1%2' cannot be; write an IPv6 or IPv4 address, without scope "
            "and port");
  EXPECT_EQ(text({{"qpn", "0x1000000"}}),
            "the configuration is wrong: parley/manual: 'qpn': '0x1000000' cannot be; write a number, 1 to 16777215");
  EXPECT_EQ(text({{"qpn", "1"}, {"lid", "1"}}),
            "info, round 1: the peer says: the peer's data cannot be used: the peer has a GID and LID 0; this side has "
            "no GID "
            "and LID 1; give both a GID (RoCE needs it), or both a LID");
  EXPECT_EQ(
      text({{"qpn", "1"}, {"gid", "::1"}, {"transport", "ud"}}),
      "info, round 1: the peer says: the peer's data cannot be used: the peer has a queue pair of rc, this side one of "
      "ud; choose the same transport on both sides");
  EXPECT_EQ(text({{"qpn", "1"}, {"gid", "::1"}, {"transport", "xrc"}}),
            "the configuration is wrong: this side: XRC without the numbers of a shared receive queue and of the "
            "sending end");
}

// Every octet of the attributes set to something else, and every length of them: a value or a reason, and no value that
// the rules forbid.
TEST(NegVariants, NoAttributesBringItDown) {
  const QpAttributes sane{
      .qpn = 0x11, .psn = 5, .gid = {1}, .qkey = 3, .srqn = 4, .ini_qpn = 9, .rkey = 1, .vaddr = 2, .length = 3};
  for (const Transport t : {Transport::rc, Transport::ud, Transport::xrc}) {
    const Bytes good = write_qp_info(t, sane, true);
    ASSERT_TRUE(read_qp_info(t, good));
    EXPECT_EQ(read_qp_info(t, good)->attributes.qpn, 0x11U);
    for (std::size_t n = 0; n < good.size(); ++n) {
      (void)read_qp_info(t, ConstBytes(good).first(n));
      for (int value = 0; value < 256; ++value) {
        Bytes octets = good;
        octets[n] = static_cast<std::uint8_t>(value);
        const auto read = read_qp_info(t, octets);
        EXPECT_TRUE(read || read.error().problem == Problem::invalid_peer_data);
      }
    }
    Bytes later = good;
    for (const int octet : {0x00, 0x77, 0x00, 0x01, 0x55}) later.push_back(static_cast<std::uint8_t>(octet));
    EXPECT_TRUE(read_qp_info(t, later)) << "an item of a later version is skipped";
    later[good.size()] = 0x80;
    EXPECT_FALSE(read_qp_info(t, later)) << "unless it says that it may not be";
  }
}

TEST(NegPingpong, TheAddressIsTheProgramsText) {
  const QpAttributes a{
      .qpn = 0x11, .psn = 0xABCDEF, .lid = 3, .gid = {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  const Bytes octets = write_pingpong_address(a);
  EXPECT_EQ(words(octets), std::string("0003:000011:abcdef:fe800000000000000000000000000001\0", 52));
  const auto read = read_pingpong_address(octets);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->qpn, 0x11U);
  EXPECT_EQ(read->psn, 0xABCDEFU);
  EXPECT_EQ(read->lid, 3U);
  EXPECT_EQ(read->gid, a.gid);
}

TEST(NegPingpong, BothSidesOfAnyNumberOfQueuePairs) {
  for (const std::string qps : {"1", "16", "256"})
    for (const std::size_t segment : {1UL, 1000UL}) {
      SCOPED_TRACE(qps);
      Built b;
      b.net.segment = segment;
      ASSERT_TRUE(b.run("pingpong", {{"qps", qps}}, {{"qps", qps}})) << b.refused;
      ASSERT_EQ(b.end(), "completed");
      ASSERT_FALSE(b.theirs.failure);
      EXPECT_EQ(b.net.carried, 2 * 52 * std::stoul(qps) + 5);
      EXPECT_EQ(b.mine.variant->agreed().size(), std::stoul(qps));
      EXPECT_EQ(b.mine.variant->agreed().back().peer.qpn, b.theirs.variant->agreed().back().local.qpn);
      for (const auto& [qpn, qp] : b.fabric.qps) EXPECT_EQ(qp.state, QpState::rts);
    }
}

// What ibv_rc_pingpong does on its socket, as its source has it: a client that writes, reads as much, writes "done"; a
// server that answers and then wants those five octets in one read.
TEST(NegPingpong, TheProgramsOwnWritesAndReads) {
  Built b;
  ASSERT_TRUE(b.server.listen(fabric_server, {{.plugin = "parley", .variant = "pingpong"}}));
  Plain program;
  b.net.add(program, Address::v4(192, 0, 2, 7, 0));
  const std::string address("0000:000099:000007:00000000000000000000ffffc0000207\0", 52);
  program.on_up = [&](StreamId stream) { program.say(stream, octets(address)); };
  program.on_bytes = [&](StreamId stream, ConstBytes) {
    if (program.heard[stream].size() == 52) program.say(stream, octets(std::string_view("done\0", 5)));
  };
  program.connect(fabric_server);
  b.net.settle();
  bool over = false;
  while (auto event = b.server.poll_event())
    if (auto* ended = std::get_if<Peers::Ended>(&*event)) {
      over = true;
      EXPECT_FALSE(ended->failure) << ended->failure->to_string();
      EXPECT_EQ(ended->variant->agreed().at(0).peer.qpn, 0x99U);
      EXPECT_EQ(gid_text(ended->variant->agreed().at(0).peer.gid), "::ffff:192.0.2.7");
    }
  EXPECT_TRUE(over);
  EXPECT_EQ(program.heard.begin()->second.size(), 52U);
}

TEST(NegPingpong, AMessageBeyondTheBoundIsNotAwaited) {
  Built b;
  auto variant = b.server_framework.make("parley", "pingpong", Role::responder);
  ASSERT_TRUE(variant);
  auto session = Session::raw(Role::responder, {.plugin = "parley", .variant = "pingpong"}, std::move(*variant),
                              {.message_max = 40}, {});
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().text, "a message of 52 octets or more; at most 40 are taken");
}

// A raw session begins without a Hello; a peer that says nothing gives way all the same.
TEST(NegPingpong, SilentPeersGiveWay) {
  Built b;
  Peers few(b.server_framework, {.sessions_max = 4});
  b.net.add(few, Address::v4(192, 0, 2, 3, 0));
  const Address at = Address::v4(192, 0, 2, 3, 18515);
  ASSERT_TRUE(few.listen(at, {{.plugin = "parley", .variant = "pingpong"}}));
  std::deque<Plain> silent(8);  // each of another address: no place is left for one more
  for (std::uint8_t i = 0; i < 8; ++i) {
    b.net.add(silent[i], Address::v4(192, 0, 2, static_cast<std::uint8_t>(50 + i), 0));
    silent[i].connect(at);
  }
  ASSERT_TRUE(b.net.run_until([&] { return silent.back().up.size() + silent.back().resets.size() == 1; }));
  ASSERT_TRUE(b.client.dial(b.net.now, {.request = {.plugin = "parley", .variant = "pingpong"}, .server = at}));
  b.net.settle();
  while (auto event = b.client.poll_event())
    if (auto* ended = std::get_if<Peers::Ended>(&*event)) {
      EXPECT_FALSE(ended->failure) << ended->failure->to_string();
    }
  EXPECT_EQ(few.busy(), 0U);
}

TEST(NegPingpong, APeerThatSpeaksOtherwiseIsNamed) {
  Built b;
  ASSERT_TRUE(b.server.listen(fabric_server, {{.plugin = "parley", .variant = "pingpong"}}));
  Plain web;
  b.net.add(web, Address::v4(192, 0, 2, 7, 0));
  web.on_up = [&](StreamId stream) {
    web.say(stream, octets("GET / HTTP/1.1\r\nHost: example\r\nAccept: */*\r\nX-Long: 12345\r\n\r\n"));
  };
  web.connect(fabric_server);
  b.net.settle();
  const auto event = [&] {
    (void)b.server.poll_event();
    return b.server.poll_event();
  }();
  ASSERT_TRUE(event);
  const auto& ended = std::get<Peers::Ended>(*event);
  EXPECT_EQ(ended.failure->problem, Problem::invalid_peer_data);
  EXPECT_NE(ended.failure->text.find("'GET / HTTP/1.1"), std::string::npos);
  EXPECT_TRUE(web.heard.empty()) << "a raw peer is told nothing that it could mistake for an answer";
}

// A session with Parley's own framing may be given a variant that has framing of its own.
TEST(NegPingpong, AMessageThatIsTooShortOrTooLongIsRefused) {
  Built b;
  for (const char* variant : {"pingpong", "perftest"})
    for (const std::size_t octets : {0u, 5u, 600u}) {
      auto made = b.server_framework.make("parley", variant, Role::responder, {});
      ASSERT_TRUE(made);
      const Bytes message(octets, '0');
      const auto turn = (*made)->exchange(Stage::info, ConstBytes(message));
      ASSERT_FALSE(turn) << variant << octets;
      EXPECT_EQ(turn.error().problem, Problem::invalid_peer_data);
      EXPECT_EQ(turn.error().text.find("a message of " + std::to_string(octets) + " octets in the stage info"), 0U)
          << turn.error().text;
    }
}

TEST(NegPerftest, TheFourFormatsOfKeys) {
  const QpAttributes a{.qpn = 0x11,
                       .psn = 0xABCDEF,
                       .lid = 3,
                       .gid = {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
                       .ird = 16,
                       .ord = 16,
                       .srqn = 0x42,
                       .rkey = 0x1234,
                       .vaddr = 0x7F0000001000,
                       .length = 0x100};
  const std::string head = "0003:0010:000011:abcdef:00001234:00007f0000001000:", second = "00007f0000001100:",
                    gid = "fe:80:00:00:00:00:00:00:00:00:00:00:00:00:00:01:";
  const std::pair<PerftestFormat, std::string> formats[] = {
      {{.gid = false}, head + "00000042"},
      {{.gid = true}, head + gid + "00000042:"},
      {{.gid = false, .validation = true}, head + second + "00000042"},
      {{.gid = true, .validation = true}, head + second + gid + "00000042:"},
  };
  const std::size_t lengths[] = {59, 108, 76, 125};
  for (std::size_t i = 0; i < 4; ++i) {
    const PerftestFormat format = formats[i].first;
    const Bytes octets = write_perftest_keys(a, format);
    EXPECT_EQ(octets.size(), lengths[i]);
    EXPECT_EQ(octets.size(), format.length());
    EXPECT_EQ(words(octets), formats[i].second + '\0');
    const auto read = read_perftest_keys(octets, format);
    ASSERT_TRUE(read) << read.error().to_string();
    EXPECT_EQ(read->qpn, a.qpn);
    EXPECT_EQ(read->vaddr, a.vaddr);
    EXPECT_EQ(read->rkey, a.rkey);
    EXPECT_EQ(read->srqn, a.srqn);
    EXPECT_EQ(read->ord, 16);
    EXPECT_EQ(read->gid, format.gid ? a.gid : QpAttributes().gid);
    EXPECT_EQ(read->length, format.validation ? 0x100U : 0U);
    for (const PerftestFormat other : {PerftestFormat{.gid = !format.gid}})
      EXPECT_FALSE(read_perftest_keys(octets, other));
  }
}

TEST(NegPerftest, EachTestOfBothSides) {
  for (const std::string& test : perftest_tests())
    for (const std::string done : {"false", "true"}) {
      SCOPED_TRACE(test + " done " + done);
      Built b;
      b.net.segment = 10;
      const Config config{{"test", test}, {"done", done}, {"qps", "3"}, {"validation", "true"}};
      ASSERT_TRUE(b.run("perftest", config, config)) << b.refused;
      ASSERT_EQ(b.end(), "completed");
      ASSERT_FALSE(b.theirs.failure);
      EXPECT_EQ(b.mine.variant->agreed().at(2).peer.qpn, b.theirs.variant->agreed().at(2).local.qpn);
      EXPECT_EQ(b.mine.variant->agreed().at(0).mtu, 1024U);
    }
}

// The octets of `ib_write_bw -x 1 -n 5` 6.29 as a client, each when the server has answered the one before.
TEST(NegPerftest, TheProgramsOwnWritesAndReads) {
  Built b;
  ASSERT_TRUE(
      b.server.listen(fabric_server, {{.plugin = "parley", .variant = "perftest", .config = {{"done", "true"}}}}));
  Plain program;
  b.net.add(program, Address::v4(192, 0, 2, 7, 0));
  const std::string keys(
      "0000:0010:000099:000007:00000abc:00007f0000002000:00:00:00:00:00:00:00:00:00:00:ff:ff:c0:00:02:07:00000000:\0",
      108);
  const std::string number("\0\0\x10\0", 4), zeros(8, '\0');
  std::vector<std::string> script{std::string("6.29\0\0\0\0\0\0\0\0\0\0\0\0", 16),
                                  number,
                                  number,
                                  std::string("3\0", 2),
                                  keys,
                                  keys,
                                  keys,  // info; the barriers of ready
                                  keys,
                                  zeros,
                                  zeros,
                                  zeros,
                                  zeros,
                                  zeros,
                                  keys};  // the end of a test
  std::size_t at = 0, due = 0;
  program.on_up = [&](StreamId stream) { program.say(stream, octets(script[0])); };
  program.on_bytes = [&](StreamId stream, ConstBytes) {
    if (program.heard[stream].size() != due + script[at].size()) return;
    due += script[at].size();
    if (++at < script.size()) program.say(stream, octets(script[at]));
  };
  program.connect(fabric_server);
  b.net.settle();
  EXPECT_EQ(at, script.size()) << "each write was answered by as many octets";
  int over = 0;
  while (auto event = b.server.poll_event())
    if (auto* ended = std::get_if<Peers::Ended>(&*event)) {
      ++over;
      EXPECT_FALSE(ended->failure) << ended->failure->to_string();
      EXPECT_EQ(ended->variant->agreed().at(0).peer.vaddr, 0x7F0000002000U);
    }
  EXPECT_EQ(over, 1);
}

TEST(NegPerftest, AnOldOrForeignPeerIsNamed) {
  for (const auto& [says, text] :
       {std::pair<std::string, std::string>{"5.32", "perftest 5.32 has another exchange; 5.33 is the oldest"},
        {"SSH-2.0-OpenSSH_", "'SSH-2.0-OpenSSH_' is not a version of perftest"}}) {
    Built b;
    ASSERT_TRUE(b.server.listen(fabric_server, {{.plugin = "parley", .variant = "perftest"}}));
    Plain program;
    b.net.add(program, Address::v4(192, 0, 2, 7, 0));
    std::string octets_of_version = says;
    octets_of_version.resize(16);
    program.on_up = [&](StreamId stream) { program.say(stream, octets(octets_of_version)); };
    program.connect(fabric_server);
    b.net.settle();
    while (auto event = b.server.poll_event())
      if (auto* ended = std::get_if<Peers::Ended>(&*event)) {
        EXPECT_EQ(ended->failure->text, text);
      }
  }
}

TEST(NegVariants, ARawVariantIsListenedForAlone) {
  Built b;
  EXPECT_EQ(b.server
                .listen(fabric_server,
                        {{.plugin = "parley", .variant = "pingpong"}, {.plugin = "parley", .variant = "verbs-rc"}})
                .error()
                .text,
            "parley/pingpong is offered together with others; its peers do not name a variant");
}

}  // namespace
}  // namespace parley::neg
