// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Work between stages, as the sessions beside it and their time limits see it.
#include "tests/unit/cm/neg_built.hpp"

#include <bit>

#include "base/bytes_io.hpp"

namespace parley::neg {
namespace {

using namespace kit;

/// Says one message in each stage; works after ready until it has been called `calls` times, again at once.
class Busy final : public Scripted {
 public:
  Busy(std::string name, int calls, bool done_stage = false)
      : Scripted(one_message(std::move(name)), std::make_shared<Log>(), done_stage), calls_(calls) {}
  Outcome<std::optional<Work>> work(Stage stage, Instant now) override {
    if (stage != Stage::ready || --calls_ < 0) return std::nullopt;
    at.push_back(now);
    return Work{.again = again, .moved = true};
  }
  std::vector<Instant> at;  ///< of each call
  Duration again{};

 private:
  int calls_;
};

/// An initiator that works, and a responder that does not.
struct OneWorks : Pair {
  Busy* busy = nullptr;
  OneWorks(int calls, const SessionOptions& options, Duration again = {}) {
    auto made = std::make_unique<Busy>("a", calls, true);
    busy = made.get();
    busy->again = again;
    a.emplace(*Session::initiate({.plugin = "acme", .variant = "rc"}, std::move(made), options, now));
    b.emplace(*Session::respond(
        [this](const Request&) -> Outcome<std::unique_ptr<Variant>> {
          return std::make_unique<Scripted>(one_message("b"), b_log);
        },
        options, now));
    run();
  }
};

// Whoever serves all that is due at one time must come to an end.
TEST(NegWork, WhatIsDueAgainAtOnceIsDueLaterThanNow) {
  OneWorks p(3, {});
  ASSERT_EQ(p.busy->at.size(), 1U);
  EXPECT_GT(p.a->next_deadline(), p.now);
  p.a->handle_deadline(p.now);
  EXPECT_EQ(p.busy->at.size(), 1U);
  p.a->handle_deadline(p.now + 1us);
  EXPECT_EQ(p.busy->at.size(), 2U);
}

TEST(NegWork, WithoutATimeLimitItMayTakeAsLongAsItLikes) {
  OneWorks p(3, {.answer_timeout = {}, .session_timeout = {}}, 1h);
  for (int hour = 1; hour <= 3; ++hour) {
    EXPECT_EQ(p.a->failure(), nullptr) << p.a->failure()->to_string();
    EXPECT_EQ(p.a->next_deadline(), Instant{} + std::chrono::hours(hour));
    p.now = p.a->next_deadline();
    p.a->handle_deadline(p.now);
  }
  p.now += 1h;
  p.a->handle_deadline(p.now);
  EXPECT_EQ(p.a->failure(), nullptr) << "nor has the answer after it a limit";
  p.run();
  EXPECT_TRUE(p.a->completed() && p.b->completed());
}

// It would be waited for in vain, and told the user as a silence.
TEST(NegWork, AnAbortOfThePeerIsTakenAtOnce) {
  for (const bool behind : {false, true}) {
    SCOPED_TRACE(behind ? "behind a message of the next stage" : "alone");
    OneWorks p(1000, {}, 1s);
    Bytes in;
    if (behind) {
      const Bytes body = octets("b done");
      in.resize(PARLEY_NEG_HEADER_LEN);
      wire::NegHeader{
          .type = wire::NegType::turn, .stage = 3, .round = 1, .length = static_cast<std::uint32_t>(body.size())}
          .emit(in);
      in.insert(in.end(), body.begin(), body.end());
    }
    p.b->abort(p.now, {.problem = Problem::resource_exhaustion, .text = "no memory"});
    const Bytes gone = p.b->poll_transmit();
    in.insert(in.end(), gone.begin(), gone.end());
    p.a->handle_bytes(p.now, ConstBytes(in).first(in.size() - 1));
    EXPECT_EQ(p.a->failure(), nullptr) << "it is not whole";
    p.a->handle_bytes(p.now, ConstBytes(in).last(1));
    ASSERT_NE(p.a->failure(), nullptr);
    EXPECT_EQ(p.a->failure()->problem, Problem::resource_exhaustion);
    EXPECT_EQ(p.a->failure()->text, "no memory");
    EXPECT_TRUE(p.a->failure()->by_peer);
    EXPECT_EQ(p.a->next_deadline(), never);
  }
}

TEST(NegWork, ThatNothingMovedIsSaidWhereNothingMoved) {
  OneWorks p(1000, {.answer_timeout = 10s, .session_timeout = 30s}, 1s);
  while (p.a->failure() == nullptr) {
    p.now = p.a->next_deadline();
    p.a->handle_deadline(p.now);
  }
  EXPECT_EQ(p.a->failure()->problem, Problem::session_timeout);
  EXPECT_EQ(p.a->failure()->text, "the work between stages is not done after 30 s");
}

/// Two dials of one client, whose variants work.
TEST(NegWork, TwoSessionsThatWorkHaveTheirTurnsInTurn) {
  struct Plays final : ScriptedPlugin {
    Outcome<std::unique_ptr<Variant>> make(std::string_view, Role role, const Config&) override {
      auto variant = std::make_unique<Busy>("x", role == Role::initiator ? 50 : 0);
      if (role == Role::initiator) busy.push_back(variant.get());
      return std::unique_ptr<Variant>(std::move(variant));
    }
    std::vector<Busy*> busy;
  };
  Framework ours, theirs;
  auto plays = std::make_unique<Plays>();
  const auto& busy = plays->busy;
  ASSERT_TRUE(ours.add(std::move(plays)) && theirs.add(std::make_unique<Plays>()));
  Net net;
  Peers client(ours, {}), server(theirs, {});
  net.add(client, Address::v4(192, 0, 2, 1, 0));
  net.add(server, Address::v4(192, 0, 2, 2, 0));
  ASSERT_TRUE(server.listen(fabric_server));
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(client.dial(net.now, {.request = {.plugin = "acme", .variant = "rc"}, .server = fabric_server}));
  ASSERT_TRUE(net.run_until([&] { return client.busy() == 0; }, 1s));
  ASSERT_EQ(busy.size(), 2U);
  ASSERT_EQ(busy[0]->at.size(), 50U);
  ASSERT_EQ(busy[1]->at.size(), 50U);
  EXPECT_LT(busy[0]->at.front(), busy[1]->at.back());
  EXPECT_LT(busy[1]->at.front(), busy[0]->at.back());
  for (std::size_t i = 1; i < 50; ++i) EXPECT_LT(busy[0]->at[i - 1], busy[0]->at[i]);
}

// A clock that stood still while a test is played would make it take no time, and have no average.
TEST(NegWork, ATestThatIsPlayedTakesTimeAndHasAnAverage) {
  Built b;
  b.fabric.plays = true;
  Bytes sent;
  b.net.spy = [&](const Address& from, const Address&, ConstBytes octets) {
    if (from.octets[3] == 1) sent.insert(sent.end(), octets.begin(), octets.end());
  };
  ASSERT_TRUE(b.run("perftest", {{"iterations", "30"}, {"size", "5000"}}, {{"iterations", "30"}, {"size", "5000"}}));
  ASSERT_EQ(b.end(), "completed");
  EXPECT_GT(b.mine.agreed.at(0).played->took, Duration{});
  const std::size_t report = 16 + 4 + 4 + 2 + 3 * 108 + 108;
  ASSERT_EQ(sent.size(), report + 40 + 108);
  Reader numbers(ConstBytes(sent).subspan(report + 16));
  for (const char* name : {"peak", "average", "messages"}) EXPECT_GT(std::bit_cast<double>(numbers.be64()), 0) << name;
}

}  // namespace
}  // namespace parley::neg
