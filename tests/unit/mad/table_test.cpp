// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Tables: what comes in several segments where the transport leaves RMPP to the port, whole where it does not, and what goes so.
#include <gtest/gtest.h>

#include "base/rng.hpp"
#include "tests/unit/mad/mad_kit.hpp"
#include "tests/unit/mad/seed_count.hpp"

namespace parley::mad {
namespace table_test {
namespace {

using namespace wire::mad;

/// The answer to `request` with `count` records.
Bytes table(ConstBytes request, std::size_t count) {
  std::vector<NodeRecord> records(count);
  for (std::size_t i = 0; i < count; ++i) records[i].set(NodeRecord::lid, static_cast<std::uint16_t>(i + 1));
  return table_of(request, records);
}

/// Subnet administration that does RMPP, with loss on both ways.
struct Administration {
  std::size_t records;
  std::uint64_t seed = 1, loss = 0;  // of 100
  Rng rng{seed};
  std::optional<rmpp::Sender> sender{};
  std::optional<rmpp::Receiver> receiver{};
  Bytes asked{};               // what came by RMPP
  std::uint64_t asked_by = 0;  // the transaction ID of the table that is sent
  bool turned = false;

  void handle(MemoryTransport& t, const Address& to, ConstBytes mad) {
    if (rng.below(100) < loss) return;
    const bool rmpp = (mad[26] & 1) != 0;
    if (sender && rmpp && read_bits(mad, 64, 64) != asked_by) return;  // about one that is over
    if (!rmpp) {
      asked_by = read_bits(mad, 64, 64);
      sender.emplace(*rmpp::Sender::create(table(mad, records)));
      sender->start(t.now);
    } else if (mad[25] == 1) {
      if (!receiver) receiver.emplace();
      receiver->handle(t.now, mad);
      if (asked.empty() && receiver->outcome() == rmpp::Outcome::done) asked = receiver->take_message();
    } else if (mad[25] == 2 && mad[3] == 0x14 && !turned) {
      turned = true;
      asked_by = read_bits(mad, 64, 64);
      sender.emplace(*rmpp::Sender::create(table(asked, records)));
      sender->start(t.now);
    } else if (sender) {
      sender->handle(t.now, mad);
    }
    speak(t, to);
  }
  void speak(MemoryTransport& t, const Address& to) {
    Datagram out;
    while ((receiver && receiver->poll_transmit(out)) || (sender && sender->poll_transmit(out)))
      if (rng.below(100) >= loss) t.deliver(to, out, Duration(1000 + rng.below(50)));
  }
};

struct PortTables : PortTest {
  void serve(Administration& sa) {
    transport.peer = [&sa](MemoryTransport& t, const Address& to, ConstBytes mad) { sa.handle(t, to, mad); };
  }
  Reply<std::vector<NodeRecord>> ask() { return go(port().sa_get_table<NodeRecord>()); }
  static void expect_all(const Reply<std::vector<NodeRecord>>& nodes, std::size_t count) {
    ASSERT_TRUE(nodes) << nodes.error().dump();
    ASSERT_EQ(nodes->size(), count);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ((*nodes)[i].get(NodeRecord::lid), i + 1);
  }
};

TEST_F(PortTables, ComeFromTheNextManagerIfTheFirstOneIsDead) {
  Administration next{1000};
  std::vector<std::uint16_t> asked;
  transport.peer = [&](MemoryTransport& t, const Address& to, ConstBytes mad) {
    if ((mad[26] & 1) == 0) asked.push_back(to.lid);
    if (to.lid == 5) return next.handle(t, to, mad);
    t.local_.sm_lid = 5;
    t.changed = true;
  };
  expect_all(ask(), 1000);
  EXPECT_EQ(asked, (std::vector<std::uint16_t>{2, 5}));
}

TEST_F(PortTables, ComeInSegments) {
  for (const std::size_t count : std::array<std::size_t, 5>{0, 1, 2, 25, 1000}) {
    Administration sa{count};
    serve(sa);
    expect_all(ask(), count);
    EXPECT_EQ(sa.sender->outcome(), rmpp::Outcome::done) << "the last segment is acknowledged";
  }
}

TEST_F(PortTables, ComeWholeWhereTheTransportDoesRmpp) {
  transport.facts_.rmpp = true;
  transport.peer = [](MemoryTransport& t, const Address& to, ConstBytes mad) { t.deliver(to, table(mad, 300)); };
  expect_all(ask(), 300);
  EXPECT_EQ(transport.sent, 1U);
}

TEST_F(PortTables, AnswersASegmentThatIsRepeatedAfterTheEnd) {
  Administration sa{3};
  serve(sa);
  Bytes last;
  transport.peer = [&](MemoryTransport& t, const Address& to, ConstBytes mad) {
    sa.handle(t, to, mad);
    if (last.empty()) last = table(mad, 1);  // of one segment
  };
  expect_all(ask(), 3);
  const std::size_t before = transport.sent;
  Datagram again{};
  std::copy_n(last.begin(), last.size(), again.begin());
  again[26] = 1 | 2 | 4;
  again[31] = 1;
  transport.deliver(transport.log[0].first, again, 0s);
  ASSERT_TRUE(pump(port(), transport, transport.now));
  EXPECT_EQ(transport.sent, before + 1);
  EXPECT_EQ(transport.log.back().second[25], 2) << "an ACK";
  EXPECT_EQ(port().counters().unexpected, 0U);
  transport.now += 11s;
  port().handle_deadline(transport.now);
  EXPECT_EQ(port().next_deadline(), never);
}

TEST_F(PortTables, SayWhichSideGaveUp) {
  transport.peer = [](MemoryTransport& t, const Address& to, ConstBytes mad) {
    Bytes abort = table(mad, 0);
    abort.resize(256);
    abort[25] = 4;
    abort[27] = 118;
    t.deliver(to, abort);
  };
  const auto nodes = ask();
  ASSERT_FALSE(nodes);
  EXPECT_EQ(nodes.error().fault(), Fault::rmpp);
  EXPECT_NE(nodes.error().message().find("total time too long"), std::string::npos);
  EXPECT_EQ(port().transactor().open_count(), 0U);
}

// No room at the other side is not a table above this side's limit.
TEST_F(PortTables, EndWithAStopOfTheOtherSide) {
  for (const bool begun : {false, true}) {
    transport.peer = [&](MemoryTransport& t, const Address& to, ConstBytes mad) {
      Bytes first = table(mad, 20);
      first.resize(256);
      first[26] = 1 | 2;  // active, the first
      first[31] = 1;
      Bytes stop = first;
      stop[25] = 3;
      stop[27] = 1;
      if (begun) t.deliver(to, first);
      t.deliver(to, stop, 2us);
    };
    const auto nodes = ask();
    ASSERT_FALSE(nodes);
    EXPECT_EQ(nodes.error().fault(), Fault::rmpp) << begun << " " << nodes.error().dump();
    EXPECT_EQ(port().transactor().open_count(), 0U);
  }
}

TEST_F(PortTables, TellTheOtherSideThatTheyGaveUp) {
  transport.peer = [](MemoryTransport& t, const Address& to, ConstBytes mad) {
    if (t.sent > 1) return;
    Bytes first = table(mad, 2);
    first.resize(256);
    first[26] = 1;  // without the flag of the first segment
    first[31] = 1;
    t.deliver(to, first);
  };
  const auto nodes = ask();
  ASSERT_FALSE(nodes);
  EXPECT_EQ(nodes.error().fault(), Fault::rmpp);
  while (*pump(port(), transport, transport.now)) {
  }
  ASSERT_EQ(transport.sent, 2U);
  EXPECT_EQ(transport.log[1].second[25], 4) << "an ABORT";
}

TEST_F(PortTables, TellTheOtherSideThatNobodyWaitsAnyMore) {
  Administration sa{1000};
  std::size_t segments = 0;
  transport.peer = [&](MemoryTransport& t, const Address& to, ConstBytes mad) {
    if (segments++ < 3) sa.handle(t, to, mad);
    if (mad[25] == 4) sa.sender->handle(t.now, mad);
  };
  auto late = [](Port& port) -> Task<Reply<std::vector<NodeRecord>>> {
    auto one = [](Port& p) -> Task<Reply<std::vector<NodeRecord>>> { co_return co_await p.sa_get_table<NodeRecord>(); };
    co_return co_await with_deadline(port, 1s, one(port));
  };
  EXPECT_EQ(go(late(port())).error().fault(), Fault::deadline);
  while (*pump(port(), transport, transport.now)) {
  }
  EXPECT_EQ(transport.log.back().second[25], 4) << "an ABORT";
  ASSERT_EQ(sa.sender->outcome(), rmpp::Outcome::failed);
  EXPECT_EQ(sa.sender->failure(), (rmpp::Failure{.by_peer = true, .status = RmppStatus::unspecified}));
  EXPECT_EQ(port().next_deadline(), never);
}

TEST_F(PortTables, OfAWrongStrideAreMalformed) {
  transport.facts_.rmpp = true;
  transport.peer = [](MemoryTransport& t, const Address& to, ConstBytes mad) {
    Bytes out = table(mad, 3);
    write_bits(out, 44 * 8, 16, 13);
    t.deliver(to, out);
  };
  const auto nodes = ask();
  ASSERT_FALSE(nodes);
  EXPECT_EQ(nodes.error().fault(), Fault::malformed);
  EXPECT_NE(nodes.error().message().find("104 octets"), std::string::npos);
}

// 30 records have 3,360 octets.
TEST_F(PortTables, AboveThePortsLimitEndTheirRequestAndNoOther) {
  for (const bool rmpp_below : {false, true}) {
    SCOPED_TRACE(rmpp_below);
    transport.facts_.rmpp = rmpp_below;
    std::size_t records = 30;
    std::optional<Administration> sa;
    transport.peer = [&](MemoryTransport& t, const Address& to, ConstBytes mad) {
      if (rmpp_below) return t.deliver(to, table(mad, records));
      if (!sa) sa.emplace(Administration{records});
      sa->handle(t, to, mad);
    };
    options.table_octets_max = 3359;
    made.reset();
    const auto nodes = ask();
    ASSERT_FALSE(nodes);
    EXPECT_EQ(nodes.error().fault(), Fault::no_space);
    EXPECT_NE(nodes.error().message().find("no space: the answer is longer than this port takes"), std::string::npos)
        << nodes.error().message();
    while (*pump(port(), transport, transport.now)) {
    }
    if (sa) {
      EXPECT_EQ(sa->sender->failure(), (rmpp::Failure{true, RmppStatus::resources_exhausted}));
    }
    EXPECT_EQ(port().transactor().open_count(), 0U);
    sa.reset();
    records = 2;
    expect_all(ask(), 2);
    options.table_octets_max = 3360;
    made.reset();
    sa.reset();
    records = 30;
    expect_all(ask(), 30);
  }
}

TEST_F(PortTables, AreAskedForAgainWhenNothingComes) {
  Administration sa{30};
  transport.peer = [&sa](MemoryTransport& t, const Address& to, ConstBytes mad) {
    if (t.sent > 1) sa.handle(t, to, mad);
  };
  expect_all(ask(), 30);
}

TEST_F(PortTables, SurviveLossOnBothWays) {
  for (std::uint64_t seed = 1; seed <= seed_count(); ++seed) {
    Administration sa{100, seed, 5};
    serve(sa);
    const auto tick = [&](Port& port) -> Task<> {  // the other side's clock
      while (co_await port.sleep(100ms)) {
        if (!sa.sender) continue;
        sa.sender->handle_deadline(transport.now);
        sa.speak(transport, Path::by_lid(2).address);
      }
    };
    auto with_clock = [&](Port& port) -> Task<Reply<std::vector<NodeRecord>>> {
      Scope scope(port.executor(), {.on_error = OnError::keep});
      scope.spawn(tick(port));
      auto out = co_await port.sa_get_table<NodeRecord>();
      scope.cancel();
      (void)co_await scope.join();
      co_return out;
    };
    expect_all(go(with_clock(port())), 100);
  }
}

struct PortMultiPaths : PortTables {
  Reply<std::vector<PathRecord>> ask_paths() {
    std::vector<Gid> gids(30, Gid{0xFE, 0x80});
    for (std::size_t i = 0; i < gids.size(); ++i) gids[i][15] = static_cast<std::uint8_t>(i);
    Query<MultiPathRecord> query;
    query.set(MultiPathRecord::sgid_count, 10).set(MultiPathRecord::dgid_count, 20);
    return go(port().sa_get_multi(port().sa_path(), query, gids));
  }
};

TEST_F(PortMultiPaths, AreAskedForInSegments) {
  Administration sa{40};
  serve(sa);
  const auto paths = ask_paths();
  ASSERT_TRUE(paths) << paths.error().dump();
  EXPECT_EQ(paths->size(), 40U);
  ASSERT_EQ(sa.asked.size(), rmpp::header_octets + 24 + 30 * 16);
  EXPECT_EQ(sa.asked.back(), 29);
  EXPECT_TRUE(sa.turned);
}

TEST_F(PortMultiPaths, AreAskedOfTheNextManagerIfTheFirstOneIsDead) {
  Administration next{40};
  transport.peer = [&](MemoryTransport& t, const Address& to, ConstBytes mad) {
    if (to.lid == 5) return next.handle(t, to, mad);
    t.local_.sm_lid = 5;
    t.changed = true;
  };
  const auto paths = ask_paths();
  ASSERT_TRUE(paths) << paths.error().dump();
  EXPECT_EQ(paths->size(), 40U);
  EXPECT_LT(transport.now, Instant{} + 3s) << "the first ACK is waited for, and no more";
}

}  // namespace
}  // namespace table_test
}  // namespace parley::mad
