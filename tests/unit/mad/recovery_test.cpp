// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What goes wrong on the way, and how a port gets over it or says what it was: BUSY, redirection, wrong answers, refusal.
#include <gtest/gtest.h>

#include "tests/unit/mad/mad_kit.hpp"

namespace parley::mad {
namespace recovery_test {
namespace {

using namespace wire::mad;

struct PortRecovery : PortTest {
  Reply<NodeInfo> ask(std::uint16_t lid = 7) { return go(port().subn_get<NodeInfo>(Path::by_lid(lid))); }
  /// Once a wrong one, made of the right answer, then the right one.
  Reply<NodeInfo> ask_after(std::function<void(Address&, Bytes&)> spoil) {
    transport.peer = [spoil = std::move(spoil)](MemoryTransport& t, const Address& to, ConstBytes mad) {
      const Datagram right = answer_to(mad, NodeInfo().set(NodeInfo::num_ports, 5).octets());
      Address from = to;
      Bytes wrong(right.begin(), right.end());
      spoil(from, wrong);
      t.deliver(from, wrong);
      t.deliver(to, right, 2us);
    };
    return ask();
  }
};

TEST_F(PortRecovery, AsksABusyOneAgain) {
  int times = 0;
  transport.peer = [&](MemoryTransport& t, const Address& to, ConstBytes mad) {
    t.deliver(to, answer_to(mad, NodeInfo().octets(), ++times < 4 ? 0x0001 : 0));
  };
  EXPECT_TRUE(ask());
  EXPECT_EQ(times, 4);
  EXPECT_EQ(port().counters().busy, 3U);
  EXPECT_GE(transport.now - Instant{}, 280ms) << "40, 80 and 160 ms";
}

TEST_F(PortRecovery, GivesUpOnOneThatStaysBusy) {
  transport.peer = [](MemoryTransport& t, const Address& to, ConstBytes mad) {
    t.deliver(to, answer_to(mad, NodeInfo().octets(), 0x0001));
  };
  const auto info = ask();
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().fault(), Fault::busy);
  EXPECT_EQ(info.error().tries(), options.busy_retries + 1);
  EXPECT_EQ(port().transactor().open_count(), 0U);
}

TEST_F(PortRecovery, LetsOthersGoWhileOneIsBusy) {
  options.window = {.start = 1, .most = 1};
  transport.peer = [](MemoryTransport& t, const Address& to, ConstBytes mad) {
    t.deliver(to, answer_to(mad, NodeInfo().octets(), to.lid == 7 ? 0x0001 : 0));
  };
  auto both = [](Port& port) -> Task<Instant> {
    Scope scope(port.executor(), {.on_error = OnError::keep});
    scope.spawn(port.subn_get<NodeInfo>(Path::by_lid(7)));
    (void)co_await port.subn_get<NodeInfo>(Path::by_lid(8));
    co_return port.executor().now();
  };
  EXPECT_LT(go(both(port())) - Instant{}, 1ms);
}

TEST_F(PortRecovery, PassesOverAnswersToOthers) {
  EXPECT_EQ(ask_after([](Address&, Bytes& mad) { mad[15] ^= 1; })->get(NodeInfo::num_ports), 5);
  EXPECT_EQ(port().counters().unexpected, 1U);
  EXPECT_TRUE(ask_after([](Address& from, Bytes&) { from.lid = 8; }));
  EXPECT_TRUE(ask_after([](Address& from, Bytes&) { from.qpn = 1; }));
  EXPECT_TRUE(ask_after([](Address&, Bytes& mad) { mad[1] = 0x04; }));
  EXPECT_TRUE(ask_after([](Address&, Bytes& mad) { mad[3] = 0x92; }));
  EXPECT_TRUE(ask_after([](Address&, Bytes& mad) { mad[8] ^= 1; })) << "the upper half of the ID is compared";
  EXPECT_EQ(port().counters().mismatched, 5U);
  EXPECT_TRUE(ask_after([](Address&, Bytes& mad) { mad[0] = 2; }));
  EXPECT_TRUE(ask_after([](Address&, Bytes& mad) { mad.resize(23); }));
  EXPECT_EQ(port().counters().malformed, 2U);
  EXPECT_TRUE(ask_after([](Address&, Bytes& mad) { mad[3] = 0x01; }));
  EXPECT_EQ(port().counters().unasked, 1U);
}

TEST_F(PortRecovery, LeavesTheUpperHalfOfTheIdToATransportThatChangesIt) {
  transport.facts_.whole_tid = false;
  const auto info = ask_after([](Address&, Bytes& mad) { mad[8] ^= 1; });
  ASSERT_TRUE(info);
  EXPECT_EQ(port().counters().mismatched, 0U);
  EXPECT_EQ(port().counters().answered, 1U);
}

TEST_F(PortRecovery, AnswersOfAnotherLengthOrAttributeAreMalformed) {
  const auto shorter = ask_after([](Address&, Bytes& mad) { mad.resize(200); });
  ASSERT_FALSE(shorter);
  EXPECT_EQ(shorter.error().fault(), Fault::malformed);
  EXPECT_EQ(shorter.error().reply().size(), 200U);
  const auto other = ask_after([](Address&, Bytes& mad) { mad[17] ^= 1; });
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().fault(), Fault::malformed);
}

TEST_F(PortRecovery, PassesOverAnAckOfNoSegment) {
  transport.peer = [](MemoryTransport& t, const Address& to, ConstBytes mad) {
    Datagram reply = answer_to(mad, PathRecord().set(PathRecord::dlid, 9).octets());
    if (t.sent == 1) {
      reply[24] = 1;  // RMPP's version, an ACK, active
      reply[25] = 2;
      reply[26] = 1;
    }
    t.deliver(to, reply);
  };
  const auto record = go(port().sa_get(Query<PathRecord>().set(PathRecord::dlid, 9)));
  ASSERT_TRUE(record) << record.error().dump();
  EXPECT_EQ(record->get(PathRecord::dlid), 9);
  EXPECT_EQ(transport.sent, 2U) << "it was asked again";
  EXPECT_EQ(port().counters().unexpected, 1U);
}

TEST_F(PortRecovery, TakesTheAnswerToAnEarlierTry) {
  transport.peer = [](MemoryTransport& t, const Address& to, ConstBytes mad) {
    if (t.sent == 1) t.deliver(to, answer_to(mad, NodeInfo().octets()), 1500ms);
  };
  EXPECT_TRUE(ask());
  EXPECT_EQ(transport.sent, 2U);
}

TEST_F(PortRecovery, CountsWhatComesAfterTheEnd) {
  transport.peer = [](MemoryTransport& t, const Address& to, ConstBytes mad) {
    t.deliver(to, answer_to(mad, NodeInfo().octets()), 60s);
  };
  EXPECT_EQ(ask().error().fault(), Fault::timeout);
  transport.now += 100s;
  ASSERT_TRUE(pump(port(), transport, transport.now));
  EXPECT_EQ(port().counters().unexpected, 4U);
}

TEST_F(PortRecovery, TellsRefusalFromLoss) {
  transport.peer = [](MemoryTransport& t, const Address& to, ConstBytes mad) { t.deliver(to, mad, 1us, true); };
  const auto info = ask();
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().fault(), Fault::refused);
  EXPECT_LT(transport.now - Instant{}, 1ms);
}

// A transport may give back no more than the header of what it could not send.
TEST_F(PortRecovery, KnowsWhatComesBackByItsHeaderAlone) {
  constexpr std::size_t header = MadHeader::size;
  std::size_t back = header;
  transport.peer = [&](MemoryTransport& t, const Address& to, ConstBytes mad) {
    t.deliver(to, mad.first(back), 1us, true);
  };
  EXPECT_EQ(ask().error().fault(), Fault::refused);
  EXPECT_EQ(port().counters().refused, 1U);
  back = header - 1;
  EXPECT_EQ(ask().error().fault(), Fault::timeout);
  EXPECT_EQ(port().counters().refused, 1U);
  EXPECT_EQ(port().counters().unexpected, 4U) << "each try";
  transport.peer = [&](MemoryTransport& t, const Address& to, ConstBytes mad) {
    if (t.sent < 7) return t.drop(to, mad.first(header));
    t.deliver(to, answer_to(mad, NodeInfo().octets()));
  };
  EXPECT_TRUE(ask());
  EXPECT_EQ(port().counters().lost, 1U);
}

TEST_F(PortRecovery, RepeatsAtOnceWhatTheTransportDropped) {
  transport.peer = [](MemoryTransport& t, const Address& to, ConstBytes mad) {
    if (t.sent < 3) return t.drop(to, mad);
    t.deliver(to, answer_to(mad, NodeInfo().octets()));
  };
  EXPECT_TRUE(ask());
  EXPECT_EQ(transport.sent, 3U);
  EXPECT_LT(transport.now - Instant{}, 1ms);
  EXPECT_EQ(port().counters().lost, 2U);
  EXPECT_EQ(port().counters().recovered, 1U);
}

TEST_F(PortRecovery, SaysThatNoAnswerCameAndNotThatItWasNotSent) {
  transport.peer = [](MemoryTransport& t, const Address& to, ConstBytes mad) { t.drop(to, mad); };
  const auto info = ask();
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().fault(), Fault::timeout);
  EXPECT_NE(info.error().message().find("no answer in 4 tries"), std::string::npos) << info.error().message();
}

TEST_F(PortRecovery, RefusesWhatCannotBeSent) {
  const auto gmp = go(port().perf_get<PortCounters>(Path::to_self()));
  ASSERT_FALSE(gmp);
  EXPECT_EQ(gmp.error().fault(), Fault::invalid);
  EXPECT_EQ(ask(0).error().fault(), Fault::invalid);
  transport.facts_.smp = false;
  made.reset();
  EXPECT_EQ(ask().error().fault(), Fault::invalid);
  EXPECT_EQ(transport.sent, 0U);
  options.transactions_max = 0;
  made.reset();
  EXPECT_EQ(ask().error().fault(), Fault::no_space);
}

TEST_F(PortRecovery, NarrowsTheWindowForOneThatFallsSilentOnly) {
  options.window = {.start = 8, .most = 8};
  EXPECT_FALSE(ask());
  EXPECT_EQ(port().transactor().window(), 8U) << "who never answered says nothing about the others";
  transport.peer = [](MemoryTransport& t, const Address& to, ConstBytes mad) {
    t.deliver(to, answer_to(mad, NodeInfo().octets()));
  };
  EXPECT_TRUE(ask());
  transport.peer = {};
  EXPECT_FALSE(ask());
  EXPECT_LT(port().transactor().window(), 8U);
}

TEST_F(PortRecovery, SpreadsWhatWasLostTogether) {
  std::vector<Instant> times;
  transport.peer = [&times](MemoryTransport& t, const Address&, ConstBytes) { times.push_back(t.now); };
  auto both = [](Port& port) -> Task<> {
    (void)co_await when_all(port, port.subn_get<NodeInfo>(Path::by_lid(7)), port.subn_get<NodeInfo>(Path::by_lid(8)));
  };
  go(both(port()));
  ASSERT_EQ(times.size(), 8U);
  EXPECT_EQ(times[0], times[1]);
  EXPECT_EQ(times[2], times[3]) << "the first wait is the path's";
  EXPECT_NE(times[4], times[5]);
}

TEST_F(PortRecovery, WaitsAsLongAsThePathSays) {
  Path path = Path::by_lid(7);
  path.timeout = 60s;
  path.retries = 1;
  EXPECT_FALSE(go(port().subn_get<NodeInfo>(path)));
  EXPECT_GE(transport.now - Instant{}, 120s) << "more than wait_max is not doubled, and not cut either";
  EXPECT_LT(transport.now - Instant{}, 136s);
}

TEST(MadWindow, GrowsByWindowsOfAnswersAndHalvesAtALoss) {
  Window window({.start = 2, .least = 1, .most = 4});
  window.answered();
  EXPECT_EQ(window.size(), 2U);
  window.answered();
  EXPECT_EQ(window.size(), 3U);
  for (int i = 0; i < 30; ++i) window.answered();
  EXPECT_EQ(window.size(), 4U);
  window.lost(Instant{}, Instant{} + 1s);
  EXPECT_EQ(window.size(), 2U);
  for (int i = 1; i < 6; ++i) window.lost(Instant{} + i * 1s, Instant{} + (i + 1) * 1s);
  EXPECT_EQ(window.size(), 1U);
}

TEST(MadWindow, IsHalvedOnceForWhatIsLostTogether) {
  Window window({.start = 32});
  for (int i = 0; i < 10; ++i) window.lost(Instant{} + 1s, Instant{} + 2s);
  EXPECT_EQ(window.size(), 16U);
  window.lost(Instant{} + 1999ms, Instant{} + 3s);  // had left before it was halved
  EXPECT_EQ(window.size(), 16U);
  window.lost(Instant{} + 2s, Instant{} + 3s);
  EXPECT_EQ(window.size(), 8U);
}

struct PortRedirection : PortRecovery {
  ClassPortInfo to_lid(std::uint16_t lid) {
    ClassPortInfo info;
    info.set(ClassPortInfo::redirect_lid, lid)
        .set(ClassPortInfo::redirect_qp, 0x123)
        .set(ClassPortInfo::redirect_q_key, 0x80010000)
        .set(ClassPortInfo::redirect_p_key, 0x8001)
        .set(ClassPortInfo::redirect_sl, 4);
    return info;
  }
  Reply<PortCounters> ask_counters() { return go(port().perf_get<PortCounters>(Path::by_lid(7))); }
};

TEST_F(PortRedirection, IsFollowedByLid) {
  transport.peer = [this](MemoryTransport& t, const Address& to, ConstBytes mad) {
    if (to.lid == 7) return t.deliver(to, answer_to(mad, to_lid(9).octets(), 0x0002));
    EXPECT_EQ(to.qpn, 0x123U);
    EXPECT_EQ(to.pkey, 0x8001);
    EXPECT_EQ(to.sl, 4);
    t.deliver(to, answer_to(mad, PortCounters().set(PortCounters::port_xmit_data, 3).octets()));
  };
  const auto counters = ask_counters();
  ASSERT_TRUE(counters) << counters.error().dump();
  EXPECT_EQ(counters->get(PortCounters::port_xmit_data), 3U);
  EXPECT_EQ(port().counters().redirected, 1U);
}

TEST_F(PortRedirection, IsFollowedByGidWithTheHelpOfSubnetAdministration) {
  const Gid gid{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9};
  transport.peer = [this, gid](MemoryTransport& t, const Address& to, ConstBytes mad) {
    if (to.lid == 7)
      return t.deliver(to, answer_to(mad, to_lid(0).set(ClassPortInfo::redirect_gid, gid).octets(), 0x0002));
    if (to.lid == 2) {
      const auto asked = *PathRecord::parse(mad.subspan(56));
      EXPECT_EQ(asked.get(PathRecord::dgid), gid);
      EXPECT_EQ(asked.get(PathRecord::sgid), transport.local_.gid);
      PathRecord record;
      return t.deliver(to, answer_to(mad, record.set(PathRecord::dlid, 9).set(PathRecord::sl, 1).octets()));
    }
    EXPECT_EQ(to.lid, 9);
    EXPECT_EQ(to.sl, 1);
    ASSERT_TRUE(to.grh);
    EXPECT_EQ(to.grh->gid, gid);
    t.deliver(to, answer_to(mad, PortCounters().octets()));
  };
  const auto counters = ask_counters();
  ASSERT_TRUE(counters) << counters.error().dump();
  EXPECT_EQ(port().transactor().open_count(), 0U);
}

TEST_F(PortRedirection, HearsNothingMoreFromWhomItLeftWhileTheWayIsLookedFor) {
  const auto redirected = [this](ConstBytes mad) {
    return answer_to(mad, to_lid(0).set(ClassPortInfo::redirect_gid, Gid{1}).octets(), 0x0002);
  };
  const std::function<Datagram(ConstBytes)> more[] = {
      redirected, [](ConstBytes mad) { return answer_to(mad, {}, 0x0001); },
      [](ConstBytes mad) { return answer_to(mad, PortCounters().set(PortCounters::port_xmit_data, 4).octets()); }};
  for (const auto& repeated : more) {
    made.reset();
    transport.peer = [&](MemoryTransport& t, const Address& to, ConstBytes mad) {
      if (to.lid == 7) {
        t.deliver(to, redirected(mad));
        return t.deliver(to, repeated(mad), 2us);
      }
      // Later than a busy one would have been asked again.
      if (to.lid == 2) return t.deliver(to, answer_to(mad, PathRecord().set(PathRecord::dlid, 9).octets()), 500ms);
      t.deliver(to, answer_to(mad, PortCounters().set(PortCounters::port_xmit_data, 3).octets()));
    };
    const auto counters = ask_counters();
    ASSERT_TRUE(counters) << counters.error().dump();
    EXPECT_EQ(counters->get(PortCounters::port_xmit_data), 3U) << "of the port that it was redirected to";
    EXPECT_EQ(port().counters().redirected, 1U);
    EXPECT_EQ(port().counters().busy, 0U);
    EXPECT_EQ(port().counters().unexpected, 1U);
    EXPECT_EQ(port().transactor().open_count(), 0U);
  }
}

TEST_F(PortRedirection, SaysThatNobodyKnowsTheGid) {
  transport.peer = [this](MemoryTransport& t, const Address& to, ConstBytes mad) {
    if (to.lid == 2) return t.deliver(to, answer_to(mad, PathRecord().octets(), 0x0300));
    t.deliver(to, answer_to(mad, to_lid(0).set(ClassPortInfo::redirect_gid, Gid{1}).octets(), 0x0002));
  };
  EXPECT_EQ(ask_counters().error().fault(), Fault::redirect);
  EXPECT_EQ(port().transactor().open_count(), 0U);
}

TEST_F(PortRedirection, IsNotFollowedForEver) {
  transport.peer = [this](MemoryTransport& t, const Address& to, ConstBytes mad) {
    t.deliver(to, answer_to(mad, to_lid(to.lid == 7 ? 8 : 7).octets(), 0x0002));
  };
  const auto counters = ask_counters();
  ASSERT_FALSE(counters);
  EXPECT_EQ(counters.error().fault(), Fault::redirect_loop);
  EXPECT_EQ(transport.sent, options.redirects_max + 1);
}

TEST_F(PortRedirection, ToNowhereIsAnError) {
  for (const std::uint16_t lid : std::array<std::uint16_t, 3>{0, 0xC000, 0xFFFF}) {
    transport.peer = [this, lid](MemoryTransport& t, const Address& to, ConstBytes mad) {
      t.deliver(to, answer_to(mad, to_lid(lid).octets(), 0x0002));
    };
    EXPECT_EQ(ask_counters().error().fault(), Fault::redirect) << lid;
  }
}

TEST_F(PortRedirection, IsLeftWhenTheTaskIsStopped) {
  transport.peer = [this](MemoryTransport& t, const Address& to, ConstBytes mad) {
    if (to.lid == 7) t.deliver(to, answer_to(mad, to_lid(0).set(ClassPortInfo::redirect_gid, Gid{1}).octets(), 0x0002));
  };
  auto one = [](Port& port) -> Task<Reply<PortCounters>> {
    co_return co_await port.perf_get<PortCounters>(Path::by_lid(7));
  };
  auto late = [&one](Port& port) -> Task<Reply<PortCounters>> {
    co_return co_await with_deadline(port, 1ms, one(port));
  };
  EXPECT_EQ(go(late(port())).error().fault(), Fault::deadline);
  EXPECT_EQ(port().transactor().open_count(), 0U);
}

}  // namespace
}  // namespace recovery_test
}  // namespace parley::mad
