// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How runs are handed out to ranks, with simulated ranks in virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <queue>
#include <set>

#include "base/rng.hpp"
#include "sim/sweep/leader.hpp"

namespace parley::sim::ranks::ranks_test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(SimHandOut, GivesEachRunOnceWithinTheWindow) {
  HandOut hand_out({.last = 999, .workers = 3, .chunk_max = 16, .window = 40});
  std::vector<Chunk> given;
  std::uint64_t next = 0;
  while (const auto chunk = hand_out.next(0)) {
    given.push_back(*chunk);
    EXPECT_EQ(chunk->first, next);
    next += chunk->count;
  }
  EXPECT_EQ(next, 40u) << "the window";
  EXPECT_FALSE(hand_out.all_handed_out());
  for (std::size_t i = 0; i < given.size(); ++i) {
    EXPECT_TRUE(hand_out.finished(given[i], 1us * given[i].count));
    EXPECT_FALSE(hand_out.finished(given[i], 1us)) << "twice";
    hand_out.delivered_up_to(given[i].first + given[i].count);
    while (const auto chunk = hand_out.next(static_cast<std::uint32_t>(i % 3))) {
      EXPECT_EQ(chunk->first, next);
      EXPECT_LE(chunk->count, 16u);
      next += chunk->count;
      given.push_back(*chunk);
    }
  }
  EXPECT_EQ(next, 1000u);
  EXPECT_TRUE(hand_out.all_handed_out());
  EXPECT_EQ(given.back().count, 1u) << "the last chunks are small";
}

TEST(SimHandOut, GivesTheRunsOfALostWorkerToOthersFirst) {
  HandOut hand_out({.last = 99, .workers = 2, .window = 100});
  const Chunk first = *hand_out.next(0), second = *hand_out.next(1), third = *hand_out.next(0);
  EXPECT_EQ(hand_out.lost(0), 2u);
  EXPECT_EQ(hand_out.next(1), first);
  EXPECT_TRUE(hand_out.finished(third, 1us)) << "it was not lost after all";
  EXPECT_TRUE(hand_out.finished(first, 1us));
  EXPECT_FALSE(hand_out.finished(first, 1us)) << "from both";
  EXPECT_TRUE(hand_out.finished(second, 1us));
  EXPECT_EQ(hand_out.next(1)->first, 3u);
  EXPECT_FALSE(hand_out.finished({50, 1}, 1us)) << "never handed out";
}

TEST(SimHandOut, ReachesTheLastOfAllSeeds) {
  HandOut hand_out({.last = ~std::uint64_t{0}, .workers = 1, .chunk_max = 64, .window = 64});
  hand_out.delivered_up_to(0);
  EXPECT_EQ(hand_out.next(0), (Chunk{0, 1}));
}

/// A chunk takes what its runs take by this table; a record is the position.
struct SimulatedRanks {
  struct Event {
    Instant at;
    std::uint32_t to;  ///< rank; 0 is the leader's mailbox
    std::uint32_t from;
    Bytes octets;
    bool operator>(const Event& other) const { return at > other.at; }
  };
  LeaderOptions options;
  Duration latency = 1ms;
  std::function<Duration(std::uint64_t)> cost = [](std::uint64_t) { return Duration(10ms); };
  std::set<std::uint32_t> killed;
  Instant killed_at = never;

  std::priority_queue<Event, std::vector<Event>, std::greater<>> events{};
  std::vector<Instant> free_at{};
  std::vector<std::uint64_t> delivered{};
  std::vector<std::string> notes{};
  std::uint64_t messages = 0;
  Duration busy{};

  bool dead(std::uint32_t rank, Instant now) const { return killed.contains(rank) && now >= killed_at; }

  void work(std::uint32_t rank, const Chunk& chunk, Instant now) {
    Results results{chunk, {}, {}};
    for (std::uint64_t i = 0; i < chunk.count; ++i) {
      results.took += cost(chunk.first + i);
      results.records.push_back({static_cast<std::uint8_t>(chunk.first + i)});
    }
    busy += results.took;
    free_at[rank] = std::max(free_at[rank], now) + results.took;
    if (!dead(rank, free_at[rank]))
      events.push({free_at[rank] + (rank == 0 ? Duration{} : latency), 0, rank, encode_message(results)});
  }
  void flush(Leader& leader, Instant now) {
    while (auto record = leader.next_record()) {
      EXPECT_EQ(record->position, delivered.size()) << "in order";
      EXPECT_EQ(record->octets, Bytes{static_cast<std::uint8_t>(record->position)});
      delivered.push_back(record->position);
    }
    while (auto note = leader.next_note()) notes.push_back(*note);
    while (auto message = leader.next_message()) {
      ++messages;
      const auto decoded = decode_message(message->octets);
      ASSERT_TRUE(decoded);
      if (const auto* m = std::get_if<Assignment>(&*decoded)) {
        const Instant arrival = now + (message->rank == 0 ? Duration{} : latency);
        if (!dead(message->rank, arrival)) work(message->rank, m->chunk, arrival);
      }
    }
  }
  /// Returns when the last result was there.
  Instant run() {
    Leader leader(options, Instant{});
    free_at.resize(options.ranks);
    for (std::uint32_t rank = 0; rank < options.ranks; ++rank)
      events.push({Instant{}, 0, rank, encode_message(Hello{options.build, "host"})});
    Instant now{};
    while (delivered.size() <= options.last && !leader.refusal()) {
      const Instant next = events.empty() ? never : events.top().at;
      if (leader.deadline() < next) {
        now = leader.deadline();
        leader.tick(now);
      } else if (next == never) {
        ADD_FAILURE() << "nothing happens any more";
        return never;
      } else {
        const Event event = events.top();
        events.pop();
        now = event.at;
        ++messages;
        leader.receive(event.from, event.octets, now);
      }
      flush(leader, now);
    }
    return now;
  }
};

TEST(SimRanks, AThousandAreKeptBusy) {
  Rng rng(7);
  std::vector<Duration> costs(100'000);
  for (Duration& cost : costs) cost = rng.below(50) == 0 ? Duration(100ms) : Duration(1ms * (1 + rng.below(19)));
  SimulatedRanks ranks{.options = {.ranks = 1000, .last = costs.size() - 1, .build = "x"}};
  ranks.cost = [&costs](std::uint64_t position) { return costs[position]; };
  const Instant end = ranks.run();
  ASSERT_EQ(ranks.delivered.size(), costs.size());
  Duration all{};
  for (const Duration cost : costs) all += cost;
  const double efficiency = static_cast<double>(all.count()) / 1000 / static_cast<double>((end - Instant{}).count());
  RecordProperty("efficiency", std::to_string(efficiency));
  RecordProperty("messages", std::to_string(ranks.messages));
  EXPECT_GT(efficiency, 0.85) << ranks.messages << " messages, end at " << (end - Instant{}) / 1ms << " ms";
  EXPECT_EQ(ranks.busy, all) << "no run was done twice";
}

TEST(SimRanks, MayBeMoreThanTheRuns) {
  SimulatedRanks ranks{.options = {.ranks = 64, .last = 2, .build = "x"}};
  EXPECT_NE(ranks.run(), never);
  EXPECT_EQ(ranks.delivered.size(), 3u);
}

TEST(SimRanks, ThatDieCostTheirRunsOnceMore) {
  for (const Duration at : {Duration(0ms), Duration(5ms), Duration(11ms), Duration(500ms)}) {
    SimulatedRanks ranks{.options = {.ranks = 4, .last = 999, .build = "x", .silence = 5s}};
    ranks.killed = {2};
    ranks.killed_at = Instant(at);
    EXPECT_NE(ranks.run(), never);
    EXPECT_EQ(ranks.delivered.size(), 1000u);
    ASSERT_EQ(ranks.notes.size(), 1u);
    EXPECT_THAT(ranks.notes.front(), HasSubstr("rank 2 (host) is lost"));
  }
}

struct TwoRanks {
  Leader leader{{.ranks = 2, .last = 9, .build = "x", .silence = 5s}, Instant{}};
  void hello(std::uint32_t rank, const std::string& build = "x") {
    leader.receive(rank, encode_message(Hello{build, "h" + std::to_string(rank)}), Instant{});
  }
  std::vector<RankMessage> sent(std::uint32_t rank) {
    std::vector<RankMessage> out;
    std::deque<Leader::Outgoing> others;
    while (auto message = leader.next_message())
      if (message->rank == rank) out.push_back(*decode_message(message->octets));
    return out;
  }
};

TEST(SimRanks, GetNoRunsBeforeAllAreThere) {
  TwoRanks two;
  two.hello(0);
  EXPECT_EQ(two.sent(0).size(), 1u) << "Work alone";
  two.hello(1);
  EXPECT_EQ(two.sent(0).size(), 2u) << "two chunks";
}

TEST(SimRanks, OfAnotherVersionAreRefused) {
  TwoRanks two;
  two.hello(0);
  two.hello(1, "y");
  EXPECT_EQ(two.leader.refusal(), "rank 1 (h1) runs y, and rank 0 x");
}

TEST(SimRanks, ThatSendSomethingElseAreRefused) {
  for (const Bytes& wrong : {Bytes{}, Bytes{0}, Bytes{9, 9}, Bytes(100, 0xFF), encode_message(Alive{}),
                             encode_message(Failure{"no memory"})}) {
    TwoRanks two;
    two.hello(0);
    two.leader.receive(1, wrong, Instant{});
    EXPECT_TRUE(two.leader.refusal());
  }
  TwoRanks two;
  two.hello(0);
  two.hello(1);
  two.leader.receive(1, encode_message(Failure{"no memory"}), Instant{});
  EXPECT_EQ(two.leader.refusal(), "rank 1 (h1): no memory");
}

TEST(SimRanks, ThatWereOnlySlowAreTakenBack) {
  TwoRanks two;
  two.hello(0);
  two.hello(1);
  std::vector<Chunk> of_rank_1;
  for (const RankMessage& m : two.sent(1))
    if (const auto* assignment = std::get_if<Assignment>(&m)) of_rank_1.push_back(assignment->chunk);
  ASSERT_EQ(of_rank_1.size(), 2u);
  two.leader.tick(two.leader.deadline());
  EXPECT_TRUE(two.leader.lost_any());
  EXPECT_THAT(two.leader.next_note().value_or(""),
              HasSubstr("rank 1 (h1) is lost: it was silent for 5.000 s; 2 runs will be repeated"));
  for (int times = 0; times < 2; ++times)
    two.leader.receive(1, encode_message(Results{of_rank_1.front(), 1ms, {{1}}}), Instant(6s));
  EXPECT_EQ(two.leader.next_note(), "rank 1 (h1) answers again");
  EXPECT_FALSE(two.leader.refusal());
  EXPECT_FALSE(two.leader.lost_any()) << "it is there again";
}

TEST(SimRanks, AreNotLostWhileRankZeroStoodStill) {
  TwoRanks two;
  two.hello(0);
  two.hello(1);
  two.leader.stood_still(Instant(60s));
  two.leader.tick(Instant(64s));
  EXPECT_FALSE(two.leader.lost_any());
  EXPECT_EQ(two.leader.deadline(), Instant(65s));
  two.leader.tick(Instant(65s));
  EXPECT_TRUE(two.leader.lost_any());
}

TEST(SimRanks, WithALostMessageAreNotHeardAgain) {
  TwoRanks two;
  two.hello(0);
  two.hello(1);
  two.sent(0);
  two.leader.cut(1);
  EXPECT_THAT(two.leader.next_note().value_or(""), HasSubstr("rank 1 (h1) is lost: MPI could not carry"));
  two.leader.cut(1);
  two.leader.receive(1, encode_message(Alive{}), Instant(1s));
  EXPECT_EQ(two.leader.next_note(), std::nullopt);
  EXPECT_TRUE(two.leader.lost_any());
  EXPECT_EQ(two.leader.deadline(), never);
}

TEST(SimRanks, WithALostMessageCostTheirRunsOnceMore) {
  TwoRanks two;
  two.hello(0);
  two.hello(1);
  std::deque<Chunk> given;
  const auto take = [&](const std::vector<RankMessage>& messages) {
    for (const RankMessage& m : messages)
      if (const auto* assignment = std::get_if<Assignment>(&m)) given.push_back(assignment->chunk);
  };
  take(two.sent(0));
  two.leader.cut(1);
  std::uint64_t delivered = 0;
  while (!given.empty()) {
    two.leader.receive(
        0, encode_message(Results{given.front(), 1ms, std::vector<Bytes>(given.front().count, Bytes{1})}), Instant(1s));
    given.pop_front();
    while (two.leader.next_record()) ++delivered;
    take(two.sent(0));
  }
  EXPECT_EQ(delivered, 10u);
}

TEST(SimRanks, GetTwoChunksForEachJob) {
  Leader leader({.ranks = 1, .last = 999, .build = "x"}, Instant{});
  leader.receive(0, encode_message(Hello{"x", "h", 3}), Instant{});
  std::size_t chunks = 0;
  while (const auto message = leader.next_message())
    if (std::holds_alternative<Assignment>(*decode_message(message->octets))) ++chunks;
  EXPECT_EQ(chunks, 6u);
  EXPECT_FALSE(decode_message(encode_message(Hello{"x", "h", 0})));
  EXPECT_FALSE(decode_message(encode_message(Hello{"x", "h\n", 1})));
}

TEST(SimRanks, MessagesComeBackAsTheyWere) {
  for (const RankMessage& message : {RankMessage(Hello{"build", "host"}), RankMessage(Work{{1, 2, 3}, 2, 4}),
                                     RankMessage(Assignment{{5, 6}}), RankMessage(Results{{7, 2}, 8ns, {{1}, {2, 3}}}),
                                     RankMessage(Alive{}), RankMessage(Failure{"why"}), RankMessage(Done{false})}) {
    const Bytes octets = encode_message(message);
    const auto back = decode_message(octets);
    ASSERT_TRUE(back) << message.index();
    EXPECT_EQ(back->index(), message.index());
    EXPECT_EQ(encode_message(*back), octets);
    for (std::size_t n = 0; n < octets.size(); ++n) EXPECT_FALSE(decode_message(ConstBytes(octets).first(n)));
    Bytes longer = octets;
    longer.push_back(0);
    EXPECT_FALSE(decode_message(longer));
  }
  for (const Chunk& chunk : {Chunk{0, 0}, Chunk{0, 65}, Chunk{~0ULL, 2}})
    EXPECT_FALSE(decode_message(encode_message(Assignment{chunk}))) << chunk.first << " " << chunk.count;
}

}  // namespace
}  // namespace parley::sim::ranks::ranks_test
