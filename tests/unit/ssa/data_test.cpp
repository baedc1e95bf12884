// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Data connections between a parent and a child: versions, refusals, and sides that lie, are silent or die.
#include <gmock/gmock.h>

#include <chrono>

#include "ssa/data/puller.hpp"
#include "ssa/data/server.hpp"
#include "tests/unit/ssa/ssa_kit.hpp"

namespace parley::ssa {
namespace ssa_data_test {
namespace {

using namespace std::chrono_literals;
using Kind = StreamCommand::Kind;

constexpr std::uint64_t key = 0x5EC2E7;
const Gid child{1}, parent{2};
const Address where = Address::v4(192, 0, 2, 1, 7475);

/// Both sides, and a wire that cuts the octets into pieces.
struct SsaData : testing::Test {
  DataServer server{{.key = key, .streams_max = 2}};
  DataPuller puller{{.key = key, .gid = child, .octets_max = 1 << 20}};
  Drawn drawn{1};
  Instant now{};
  bool listens = true;
  StreamId at_server = 0, at_puller = 0, last = 0;
  std::size_t piece = 1000;

  SsaData() {
    server.set_children([](const Gid& gid) { return gid == child; });
    for (int i = 0; i < 300; ++i) drawn.change();
    server.set_snapshot(drawn.writer.commit());
  }

  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      StreamCommand command;
      while (puller.poll_command(command)) moved = true, take_puller(command);
      while (server.poll_command(command)) moved = true, take_server(command);
      if (carry(puller, at_puller, [this](ConstBytes in) { server.handle_bytes(now, at_server, in); })) moved = true;
      if (carry(server, at_server, [this](ConstBytes in) { puller.handle_bytes(now, at_puller, in); })) moved = true;
    }
  }
  void take_puller(const StreamCommand& command) {
    if (command.kind == Kind::open) {
      at_puller = command.id;
      if (!listens) return puller.handle_connect_failed(now, at_puller, make_error_code(Errc::refused));
      at_server = last += 2;
      EXPECT_TRUE(server.handle_accepted(now, 1, at_server, {}));
      puller.handle_connected(now, at_puller, {});
    } else {
      server.handle_end(now, at_server, StreamEnd::rst);
    }
  }
  void take_server(const StreamCommand& command) {
    if (command.kind == Kind::reset && command.id == at_server) puller.handle_end(now, at_puller, StreamEnd::rst);
  }
  template <class From, class To>
  bool carry(From& from, StreamId stream, To to) {
    if (from.poll_ready() == 0) return false;
    ConstBytes out;
    while (from.gather(stream, {&out, 1}) == 1) {
      const Bytes part(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(std::min(piece, out.size())));
      from.sent(now, stream, part.size());
      to(part);
    }
    return true;
  }
  /// The only event that there is.
  PullEvent event() {
    auto out = puller.poll_event();
    EXPECT_TRUE(out);
    EXPECT_FALSE(puller.poll_event());
    return out.value_or(PullEvent{});
  }
  PullEvent pull(Epoch newest) {
    puller.pull(now, parent, where, newest);
    run();
    return event();
  }
  Epoch newest() const { return drawn.writer.last()->epoch(); }
};

TEST_F(SsaData, AVersionAndWhatChangedSinceComeByOneConnection) {
  const PullEvent first = pull(newest());
  ASSERT_EQ(first.kind, PullEvent::Kind::loaded) << first.why;
  EXPECT_EQ(seen(*first.snapshot), drawn.model);
  const std::uint64_t whole = puller.counters().octets;
  drawn.change();
  server.set_snapshot(drawn.writer.commit());
  const PullEvent second = pull(newest());
  ASSERT_EQ(second.kind, PullEvent::Kind::loaded) << second.why;
  EXPECT_EQ(seen(*second.snapshot), drawn.model);
  EXPECT_LT(puller.counters().octets - whole, whole);
  EXPECT_EQ(puller.counters().connections, 1U);
  EXPECT_EQ(server.counters().deltas, 1U);
  EXPECT_TRUE(puller.is_connected());
}

TEST_F(SsaData, AVersionThatIsAskedForDuringAPullFollowsIt) {
  const Epoch old = newest();
  puller.pull(now, parent, where, old);
  drawn.change();
  server.set_snapshot(drawn.writer.commit());
  puller.pull(now, parent, where, newest());
  run();
  const PullEvent only = event();
  ASSERT_EQ(only.kind, PullEvent::Kind::loaded) << only.why;
  EXPECT_EQ(only.snapshot->epoch(), newest());

  // The stream is newer than what was asked for, and the announcement comes while it is read.
  drawn.change();
  server.set_snapshot(drawn.writer.commit());
  const Epoch announced = newest();
  drawn.change();
  server.set_snapshot(drawn.writer.commit());
  EXPECT_EQ(pull(announced).kind, PullEvent::Kind::failed);
  EXPECT_EQ(pull(newest()).kind, PullEvent::Kind::loaded);
}

TEST_F(SsaData, APullIsRefusedWithTheReason) {
  struct Case {
    std::uint64_t key;
    Gid gid;
    bool ready;
    AnswerStatus status;
  };
  const SnapshotPtr database = drawn.writer.last();
  for (const Case& c :
       {Case{key + 1, child, true, AnswerStatus::denied}, Case{key, parent, true, AnswerStatus::unknown_node},
        Case{key, child, false, AnswerStatus::not_ready}}) {
    server.set_snapshot(c.ready ? database : nullptr);
    const StreamId stream = last += 2;
    ASSERT_TRUE(server.handle_accepted(now, 1, stream, {}));
    server.handle_bytes(now, stream, emit(Pull{c.key, c.gid, {}}));
    ConstBytes out;
    ASSERT_EQ(server.gather(stream, {&out, 1}), 1U);
    EXPECT_EQ(out.size(), refusal_octets);
    EXPECT_EQ(refusal_in(out), static_cast<std::uint16_t>(c.status));
    server.handle_end(now, stream, StreamEnd::rst);
  }
  EXPECT_EQ(server.counters().refused, 3U);
  EXPECT_EQ(server.counters().pulls, 0U);
}

TEST_F(SsaData, ARefusalEndsThePull) {
  server.set_children({});
  const PullEvent refused = pull(newest());
  EXPECT_EQ(refused.kind, PullEvent::Kind::failed);
  EXPECT_THAT(refused.why, testing::HasSubstr(status_text(static_cast<std::uint16_t>(AnswerStatus::unknown_node))));
}

TEST_F(SsaData, AChildThatIsAheadIsNotServedAnOlderVersion) {
  ASSERT_EQ(pull(newest()).kind, PullEvent::Kind::loaded);
  Drawn older{1};
  server.set_snapshot(older.writer.commit());
  EXPECT_EQ(pull(newest()).kind, PullEvent::Kind::failed);
  EXPECT_EQ(server.counters().refused, 1U);
}

TEST_F(SsaData, ADeadParentIsNoticedWhileNothingIsPulled) {
  ASSERT_EQ(pull(newest()).kind, PullEvent::Kind::loaded);
  puller.handle_end(now, at_puller, StreamEnd::fin);
  EXPECT_EQ(event().kind, PullEvent::Kind::parent_lost);
  listens = false;
  const PullEvent gone = pull(newest());
  EXPECT_EQ(gone.kind, PullEvent::Kind::parent_lost);
  EXPECT_EQ(gone.parent, parent);
}

TEST_F(SsaData, AParentThatNeverAnswersIsGivenUp) {
  puller.pull(now, parent, where, newest());
  StreamCommand command;
  ASSERT_TRUE(puller.poll_command(command));
  puller.handle_connected(now, command.id, {});
  const Instant silent = puller.next_deadline();
  EXPECT_EQ(silent, now + 10s);
  puller.handle_deadline(silent - 1ns);
  EXPECT_TRUE(puller.is_pulling());
  puller.handle_deadline(silent);
  EXPECT_EQ(event().kind, PullEvent::Kind::failed);
  EXPECT_EQ(puller.next_deadline(), never);
}

TEST_F(SsaData, AParentThatFailsIsReportedWhileVersionsAreAnnounced) {
  for (const bool trickles : {true, false}) {
    puller.pull(now, parent, where, newest());
    StreamCommand command;
    while (puller.poll_command(command)) {
    }
    puller.handle_connected(now, command.id, {});
    puller.handle_bytes(now, command.id, Bytes{1});
    drawn.change();
    server.set_snapshot(drawn.writer.commit());
    puller.pull(now, parent, where, newest());
    if (trickles)
      puller.handle_deadline(now += 10s);
    else
      puller.handle_bytes(now, command.id, Bytes(100, 0xA5));
    EXPECT_EQ(event().kind, PullEvent::Kind::failed) << trickles;
    EXPECT_FALSE(puller.is_pulling());
  }
}

TEST_F(SsaData, GarbageEndsEitherSide) {
  Rng rng(3);
  for (int round = 0; round < 200; ++round) {
    Bytes octets(1 + rng.below(200));
    for (std::uint8_t& octet : octets) octet = static_cast<std::uint8_t>(rng.next());
    octets[0] |= 2;  // no base version 1
    const StreamId stream = last += 2;
    ASSERT_TRUE(server.handle_accepted(now, 1, stream, {}));
    server.handle_bytes(now, stream, octets);
    server.handle_deadline(now += 10s);
    EXPECT_EQ(server.streams(), 0U);

    puller.pull(now, parent, where, newest());
    StreamCommand command;
    while (puller.poll_command(command)) {
    }
    puller.handle_connected(now, command.id, {});
    puller.handle_bytes(now, command.id, octets);
    puller.handle_deadline(now += 10s);
    EXPECT_EQ(event().kind, PullEvent::Kind::failed);
  }
  EXPECT_EQ(pull(newest()).kind, PullEvent::Kind::loaded);
}

TEST_F(SsaData, EachWrongBitInAPullIsNoticed) {
  const Bytes good = emit(Pull{key, child, {7, 1}});
  EXPECT_EQ(*parse_pull(good), (Pull{key, child, {7, 1}}));
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
    EXPECT_FALSE(parse_pull(bad)) << bit;
  }
  EXPECT_FALSE(parse_pull(ConstBytes(good).first(pull_octets - 1)));
}

TEST_F(SsaData, WhoOnlyConnectsDoesNotDisplaceAChild) {
  ASSERT_EQ(pull(newest()).kind, PullEvent::Kind::loaded);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(server.handle_accepted(now, 1, last += 2, {}));
  run();
  EXPECT_EQ(server.streams(), 2U);
  EXPECT_TRUE(puller.is_connected());
  server.handle_deadline(now + 10s);
  EXPECT_EQ(server.streams(), 1U) << "the child stays without a pull";
  for (int i = 0; i < 2; ++i) {
    const bool has_room = server.handle_accepted(now, 1, last += 2, {});
    EXPECT_EQ(has_room, i == 0) << "children that have pulled keep their places";
    if (has_room) server.handle_bytes(now, last, emit(Pull{key, child, {}}));
  }
}

TEST_F(SsaData, ConnectionsWithoutAPullHaveABoundOfTheirOwn) {
  DataServer bounded({.key = key, .streams_max = 100, .strangers_max = 3});
  for (StreamId id = 2; id < 40; id += 2) ASSERT_TRUE(bounded.handle_accepted(now, 1, id, {}));
  EXPECT_EQ(bounded.streams(), 3U);
}

TEST_F(SsaData, ASlowChildGetsTheVersionThatItBeganWith) {
  const Model before = drawn.model;
  const Epoch began = newest();
  puller.pull(now, parent, where, began);
  StreamCommand command;
  ASSERT_TRUE(puller.poll_command(command));
  take_puller(command);
  ASSERT_TRUE(carry(puller, at_puller, [this](ConstBytes in) { server.handle_bytes(now, at_server, in); }));
  for (int i = 0; i < 50; ++i) drawn.change();
  server.set_snapshot(drawn.writer.commit());
  run();
  const PullEvent first = event();
  ASSERT_EQ(first.kind, PullEvent::Kind::loaded) << first.why;
  EXPECT_EQ(first.snapshot->epoch(), began);
  EXPECT_EQ(seen(*first.snapshot), before);
}

}  // namespace
}  // namespace ssa_data_test
}  // namespace parley::ssa
