// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Two sessions of a staged negotiation that talk to each other, and one that meets a peer which does not keep the rules.
#include "tests/unit/cm/neg_kit.hpp"

#include <random>

#include "base/bytes_io.hpp"
#include "base/text.hpp"

namespace parley::neg {
namespace {

using namespace kit;
using namespace std::chrono_literals;
using Lines = std::vector<std::string>;

TEST(NegSession, InfoAndReadyTakeOneRoundTripEach) {
  Pair p;
  p.begin(one_message("a"), one_message("b"));
  p.run();
  ASSERT_TRUE(p.a->completed() && p.b->completed());
  EXPECT_EQ(p.a_log->lines, (Lines{"info <b info", "info finished", "ready <b ready", "ready finished"}));
  EXPECT_EQ(p.b_log->lines, (Lines{"info <a info", "info finished", "ready <a ready", "ready finished"}));
  EXPECT_EQ(p.b->request().plugin, "acme");
  EXPECT_EQ(p.b->request().variant, "rc");
  EXPECT_EQ(p.b->request().label, "test");
  EXPECT_EQ(p.a->next_deadline(), never);
}

TEST(NegSession, TheInitiatorAsksForTheDoneStage) {
  Pair p;
  p.begin(one_message("a"), one_message("b"), true);
  p.run();
  ASSERT_TRUE(p.a->completed() && p.b->completed());
  EXPECT_EQ(p.b_log->lines.back(), "done finished");
  EXPECT_EQ(p.a->stage(), Stage::done);
}

// Any number of rounds on either side, cut anywhere: both complete, and each hears all that the other says.
TEST(NegSession, BothEndWhateverTheNumberOfRoundsAndTheCutsOfTheStream) {
  for (int a_rounds = 1; a_rounds <= 5; ++a_rounds)
    for (int b_rounds = 1; b_rounds <= 5; ++b_rounds)
      for (const std::size_t chunk : {std::size_t{1}, std::size_t{7}, std::size_t{1000}}) {
        SCOPED_TRACE(testing::Message() << a_rounds << " and " << b_rounds << " rounds, " << chunk
                                        << " octets at a time");
        const auto plays = [](int rounds) {
          return [rounds](Stage stage, int turn, std::optional<ConstBytes>) -> Outcome<Turn> {
            if (turn >= rounds) return Turn{{}, true};
            return Turn{octets(std::string(to_string(stage)) + std::to_string(turn)), turn + 1 == rounds};
          };
        };
        Pair p;
        p.begin(plays(a_rounds), plays(b_rounds), true);
        p.run(chunk);
        ASSERT_TRUE(p.a->completed()) << (p.a->failure() ? p.a->failure()->to_string() : "not over");
        ASSERT_TRUE(p.b->completed());
        const auto heard = [](const Lines& lines) {
          return std::count_if(lines.begin(), lines.end(), [](const std::string& l) {
            return l.ends_with(std::to_string(0)) || (l.find('<') != std::string::npos && !l.ends_with("<"));
          });
        };
        EXPECT_EQ(heard(p.a_log->lines), 3 * b_rounds);
        EXPECT_EQ(heard(p.b_log->lines), 3 * a_rounds);
      }
}

TEST(NegSession, TheHistoryHoldsEachMessageBothWays) {
  Pair p;
  SessionOptions options;
  options.history_octets = 3;
  p.begin(one_message("a"), one_message("b"), false, options);
  p.now += 5ms;
  p.run();
  ASSERT_EQ(p.a->history().size(), 6U);  // Hello, Welcome, and two in each of two stages
  const Exchange& first = p.a->history()[1];
  EXPECT_TRUE(first.sent);
  EXPECT_TRUE(first.last);
  EXPECT_EQ(first.stage, Stage::info);
  EXPECT_EQ(first.round, 1);
  EXPECT_EQ(first.length, 6U);
  EXPECT_EQ(words(first.head), "a i");
  EXPECT_EQ(p.a->history().back().at, Instant{} + 5ms);
  EXPECT_FALSE(p.a->history().back().sent);
}

TEST(NegSession, TheHistoryIsBounded) {
  Pair p;
  SessionOptions options;
  options.history_max = 2;
  p.begin(one_message("a"), one_message("b"), false, options);
  p.run();
  EXPECT_EQ(p.a->history().size(), 2U);
  EXPECT_EQ(p.a->history_dropped(), 4U);
}

TEST(NegSession, AVariantThatFailsEndsBothSidesWithItsReason) {
  for (const Problem problem :
       {Problem::serialization_failure, Problem::invalid_peer_data, Problem::resource_exhaustion,
        Problem::vendor_library_error, Problem::configuration_error}) {
    Pair p;
    p.begin(one_message("a"), [problem](Stage stage, int, std::optional<ConstBytes>) -> Outcome<Turn> {
      if (stage == Stage::info) return Turn{{}, true};
      return tl::unexpected(
          Failure{.problem = problem, .text = "12 octets, 32 are expected", .advice = "use the same version"});
    });
    p.run();
    for (const Session* s : {&*p.a, &*p.b}) {
      ASSERT_NE(s->failure(), nullptr);
      EXPECT_EQ(s->failure()->problem, problem);
      EXPECT_EQ(s->failure()->stage, Stage::ready);
      EXPECT_EQ(s->failure()->text, "12 octets, 32 are expected");
      EXPECT_EQ(s->failure()->advice, "use the same version");
      EXPECT_EQ(layer_of(s->failure()->problem), Layer::plugin);
    }
    EXPECT_TRUE(p.a->failure()->by_peer);
    EXPECT_FALSE(p.b->failure()->by_peer);
  }
}

TEST(NegSession, AVariantThatThrowsEndsTheSessionAndNothingElse) {
  Pair p;
  p.begin(one_message("a"),
          [](Stage, int, std::optional<ConstBytes>) -> Outcome<Turn> { throw std::runtime_error("oops"); });
  p.run();
  ASSERT_TRUE(p.a->failure() && p.b->failure());
  EXPECT_EQ(p.b->failure()->to_string(), "info, round 1: the plug-in threw an exception: oops");
  EXPECT_EQ(p.a->failure()->to_string(), "info, round 1: the peer says: the plug-in threw an exception: oops");
}

TEST(NegSession, AVariantThatNeverCompletesIsStopped) {
  Pair p;
  SessionOptions options;
  options.rounds_max = 5;
  const auto endless = [](Stage, int, std::optional<ConstBytes>) -> Outcome<Turn> { return Turn{octets("x"), false}; };
  p.begin(endless, endless, false, options);
  p.run();
  ASSERT_TRUE(p.a->failure() && p.b->failure());
  EXPECT_EQ(p.a->failure()->problem, Problem::too_many_rounds);
  EXPECT_EQ(p.a->failure()->text, "5 rounds in one stage");
}

TEST(NegSession, AVariantThatSpeaksAfterItCompletedIsRefused) {
  Pair p;
  p.begin(
      [](Stage, int, std::optional<ConstBytes>) -> Outcome<Turn> {
        return Turn{octets("x"), true};
      },
      [](Stage, int turn, std::optional<ConstBytes>) -> Outcome<Turn> {
        return Turn{octets("y"), turn > 0};
      });
  p.run();
  ASSERT_TRUE(p.a->failure());
  EXPECT_EQ(p.a->failure()->problem, Problem::plugin_refused);
}

TEST(NegSession, AMessageThatIsTooLongIsNotSent) {
  SessionOptions options;
  options.message_max = 10;
  const auto made = Session::initiate({.plugin = "p", .variant = "v"},
                                      std::make_unique<Scripted>(
                                          [](Stage, int, std::optional<ConstBytes>) -> Outcome<Turn> {
                                            return Turn{Bytes(11), true};
                                          },
                                          std::make_shared<Scripted::Log>()),
                                      options, Instant{});
  ASSERT_TRUE(made && made->failure() != nullptr);
  EXPECT_EQ(made->failure()->problem, Problem::plugin_refused);
  EXPECT_EQ(made->failure()->text, "the variant made a message of 11 octets; at most 10 go out");
}

TEST(NegSession, AServerHearsOfAFailureInTheInitiatorsFirstTurn) {
  Pair p;
  p.begin(
      [](Stage, int, std::optional<ConstBytes>) -> Outcome<Turn> {
        return tl::unexpected(Failure{.problem = Problem::vendor_library_error, .text = "no licence"});
      },
      one_message("b"));
  p.run();
  ASSERT_TRUE(p.a->failure() != nullptr && p.b->failure() != nullptr);
  EXPECT_EQ(p.a->failure()->to_string(), "info, round 1: the vendor's library failed: no licence");
  EXPECT_EQ(p.b->failure()->to_string(), "info, round 1: the peer says: the vendor's library failed: no licence");
  EXPECT_EQ(p.b->request().variant, "rc") << "the Hello comes first";
}

TEST(NegSession, WhoIsNotAnsweredInTimeGivesUpAndSaysSo) {
  Pair p;
  SessionOptions options;
  options.answer_timeout = 2s;
  p.begin(one_message("a"), one_message("b"), false, options);
  EXPECT_EQ(p.a->next_deadline(), Instant{} + 2s);
  p.a->handle_deadline(Instant{} + 1s);
  EXPECT_EQ(p.a->failure(), nullptr);
  p.a->handle_deadline(Instant{} + 2s);
  ASSERT_TRUE(p.a->failure());
  EXPECT_EQ(p.a->failure()->problem, Problem::connection_timeout);
  EXPECT_EQ(p.a->failure()->text, "no answer after 2 s");
  p.run();
  ASSERT_TRUE(p.b->failure());
  EXPECT_TRUE(p.b->failure()->by_peer);
}

TEST(NegSession, ASessionThatGoesOnAnsweringEndsAtItsOwnLimit) {
  Pair p;
  SessionOptions options;
  options.session_timeout = 3s;
  p.begin(one_message("a"), one_message("b"), false, options);
  EXPECT_EQ(p.b->next_deadline(), Instant{} + 3s);
  p.b->handle_deadline(Instant{} + 3s);
  ASSERT_TRUE(p.b->failure());
  EXPECT_EQ(p.b->failure()->problem, Problem::session_timeout);
}

/// Says one message in each stage, and then works until it has been called `calls` times.
class Worker final : public Scripted {
 public:
  Worker(std::string name, int calls, std::shared_ptr<Log> log, bool done_stage)
      : Scripted(one_message(std::move(name)), log, done_stage), calls_(calls), log2_(std::move(log)) {}
  Outcome<std::optional<Work>> work(Stage stage, Instant) override {
    if (stage != Stage::ready) return std::nullopt;
    log2_->lines.push_back("work");
    if (fails) return tl::unexpected(Failure{.problem = Problem::vendor_library_error, .text = "it broke"});
    if (--calls_ < 0) return std::nullopt;
    return Work{.again = 1s, .moved = moves};
  }
  bool moves = true, fails = false;

 private:
  int calls_;
  std::shared_ptr<Log> log2_;
};

struct Working : Pair {
  Worker* worker = nullptr;
  explicit Working(int calls, bool done_stage) {
    auto made = std::make_unique<Worker>("a", calls, a_log, done_stage);
    worker = made.get();
    a.emplace(*Session::initiate({.plugin = "acme", .variant = "rc"}, std::move(made), {}, now));
    b.emplace(*Session::respond(
        [this](const Request&) -> Outcome<std::unique_ptr<Variant>> {
          return std::make_unique<Scripted>(one_message("b"), b_log);
        },
        {}, now));
    run();
  }
};

TEST(NegSession, TheNextStageWaitsForTheWorkOfTheLast) {
  Working p(2, true);
  EXPECT_FALSE(p.a->completed());
  EXPECT_EQ(p.a->next_deadline(), Instant{} + 1s);
  p.a->handle_deadline(Instant{} + 500ms);
  EXPECT_EQ(std::count(p.a_log->lines.begin(), p.a_log->lines.end(), "work"), 1) << "not before it is expected";
  p.a->handle_deadline(Instant{} + 1s);
  p.run();
  EXPECT_FALSE(p.b->completed());
  p.a->handle_deadline(Instant{} + 2s);
  p.run();
  EXPECT_TRUE(p.a->completed() && p.b->completed());
  EXPECT_EQ(p.a_log->lines, (Lines{"info <b info", "info finished", "ready <b ready", "ready finished", "work", "work",
                                   "work", "done <b done", "done finished"}));
}

TEST(NegSession, WorkThatMovesIsWaitedForAndWorkThatDoesNotIsGivenUp) {
  Working p(1000, true);
  for (int second = 1; second < 30; ++second) p.a->handle_deadline(Instant{} + std::chrono::seconds(second));
  EXPECT_EQ(p.a->failure(), nullptr) << "longer than answer_timeout";
  p.worker->moves = false;
  for (int second = 30; second < 40; ++second) p.a->handle_deadline(Instant{} + std::chrono::seconds(second));
  ASSERT_TRUE(p.a->failure());
  EXPECT_EQ(p.a->failure()->problem, Problem::connection_timeout);
  EXPECT_EQ(p.a->failure()->text, "the work between stages is not done, and nothing moves, after 10 s");
}

TEST(NegSession, WorkThatFailsEndsBothSides) {
  Working p(5, true);
  p.worker->fails = true;
  p.a->handle_deadline(Instant{} + 1s);
  p.run();
  ASSERT_TRUE(p.a->failure() && p.b->failure());
  EXPECT_EQ(p.a->failure()->text, "it broke");
  EXPECT_EQ(p.a->failure()->stage, Stage::ready);
  EXPECT_TRUE(p.b->failure()->by_peer);
}

TEST(NegSession, WhileItWorksAPeerMayHangUpOnlyWhereNoStageFollows) {
  Working last(1, false);
  EXPECT_TRUE(last.b->completed());
  last.a->handle_end(last.now, "FIN");
  EXPECT_EQ(last.a->failure(), nullptr);
  last.a->handle_deadline(Instant{} + 1s);
  EXPECT_TRUE(last.a->completed());
  Working more(1, true);
  more.a->handle_end(more.now, "FIN");
  ASSERT_TRUE(more.a->failure());
  EXPECT_EQ(more.a->failure()->problem, Problem::connection_lost);
}

// A raw peer that says nothing is not waited for; the work that follows is.
TEST(NegSession, ARawVariantMayWorkAfterAStageOfSilence) {
  struct Silent final : Variant {
    Outcome<Turn> exchange(Stage, std::optional<ConstBytes>) override { return Turn{.completed = true}; }
    Outcome<std::optional<std::size_t>> message_length(Stage, ConstBytes) override { return std::size_t{0}; }
    Outcome<std::optional<Work>> work(Stage stage, Instant) override {
      if (stage != Stage::ready || std::exchange(worked, true)) return std::nullopt;
      return Work{.again = 1s};
    }
    bool worked = false;
  };
  auto session =
      Session::raw(Role::responder, {.plugin = "acme", .variant = "raw"}, std::make_unique<Silent>(), {}, {});
  ASSERT_TRUE(session) << session.error().to_string();
  EXPECT_FALSE(session->completed());
  EXPECT_EQ(session->next_deadline(), Instant{} + 1s);
  session->handle_deadline(Instant{} + 1s);
  EXPECT_TRUE(session->completed());
}

TEST(NegSession, WhatComesWhileItWorksIsKeptToABound) {
  Working p(1, true);
  const Bytes much(PARLEY_NEG_HEADER_LEN + SessionOptions{}.message_max);
  p.a->handle_bytes(p.now, much);
  EXPECT_EQ(p.a->failure(), nullptr);
  p.a->handle_bytes(p.now, ConstBytes(much).first(1));
  ASSERT_TRUE(p.a->failure());
  EXPECT_EQ(p.a->failure()->text, "65553 octets while this side is not through; at most 65536 and a header are kept");
}

TEST(NegSession, APeerThatGoesAwayIsToldHowFarItCame) {
  Pair p;
  p.begin(one_message("a"), one_message("b"));
  p.collect();
  p.to_b.resize(20);
  p.deliver(*p.b, p.to_b, 100);
  p.b->handle_end(p.now, "FIN");
  ASSERT_TRUE(p.b->failure());
  EXPECT_EQ(p.b->failure()->problem, Problem::connection_lost);
  EXPECT_EQ(p.b->failure()->text, "FIN after 20 octets of a message");
}

TEST(NegSession, ANewEndChangesNothing) {
  Pair p;
  p.begin(one_message("a"), one_message("b"));
  p.run();
  p.a->handle_end(p.now, "FIN");
  p.a->handle_bytes(p.now, octets("anything"));
  p.a->handle_deadline(never - 1s);
  p.a->abort(p.now, {.problem = Problem::session_timeout});
  EXPECT_TRUE(p.a->completed());
  EXPECT_TRUE(p.a->poll_transmit().empty());
}

/// A responder that has had its Hello and the initiator's whole info stage ahead of it.
struct Attacked {
  std::shared_ptr<Scripted::Log> log = std::make_shared<Scripted::Log>();
  Scripted::Play play = one_message("b");
  Session session = *Session::respond(
      [this](const Request&) -> Outcome<std::unique_ptr<Variant>> { return std::make_unique<Scripted>(play, log); }, {},
      Instant{});
  static Bytes message(wire::NegHeader header, ConstBytes body = {}) {
    header.length = static_cast<std::uint32_t>(body.size());
    Bytes out(PARLEY_NEG_HEADER_LEN);
    header.emit(out);
    out.insert(out.end(), body.begin(), body.end());
    return out;
  }
  static Bytes hello() {
    Bytes body;
    add_neg_item(body, wire::NegItemType::plugin, "acme");
    add_neg_item(body, wire::NegItemType::variant, "rc");
    return message({.type = wire::NegType::hello}, body);
  }
  static Bytes turn(std::uint8_t stage, std::uint16_t round, bool last, std::string_view text) {
    return message({.type = wire::NegType::turn,
                    .stage = stage,
                    .flags = last ? std::uint8_t{PARLEY_NEG_FLAG_LAST} : std::uint8_t{0},
                    .round = round},
                   octets(text));
  }
  std::string violation(std::initializer_list<Bytes> messages) {
    for (const Bytes& m : messages) session.handle_bytes(Instant{}, m);
    if (!session.failure()) return "none";
    EXPECT_EQ(session.failure()->problem, Problem::protocol_violation);
    return session.failure()->text;
  }
};

TEST(NegSession, EachBrokenRuleIsNamed) {
  using A = Attacked;
  const Bytes hello = A::hello(), first = A::turn(1, 1, false, "x");
  Bytes version = hello, type = hello, stage = first, reserved = hello, long_one = hello, critical = hello, cut = hello;
  version[4] = 2;
  type[5] = 9;
  stage[6] = 4;
  reserved[10] = 1;
  long_one[12] = 1;
  critical[16] = 0x90;
  cut[19] = 200;
  struct Case {
    std::initializer_list<Bytes> messages;
    std::string_view text;
  };
  const std::initializer_list<Case> cases = {
      {{octets("GET / HTTP/1.1\r\n")},
       "the peer speaks another protocol: 47 45 54 20 2f 20 48 54 54 50 2f 31 2e 31 0d 0a ('GET / HTTP/1.1..')"},
      {{version}, "not supported by this provider or peer: the message has version 2; this side supports 1"},
      {{type}, "the octets do not form what the protocol prescribes: the message has type 9"},
      {{hello, stage}, "the octets do not form what the protocol prescribes: the message has stage 4"},
      {{reserved}, "the octets do not form what the protocol prescribes: reserved bits are set: flags 0, reserved 256"},
      {{long_one},
       "the octets do not form what the protocol prescribes: the message announces 16777230 octets; at most 1048576"},
      {{critical}, "not supported by this provider or peer: item 36865 is unknown and must not be skipped"},
      {{cut}, "the octets do not form what the protocol prescribes: an item of 200 octets is cut off"},
      {{A::message({.type = wire::NegType::hello}, Bytes(3))},
       "the octets do not form what the protocol prescribes: an item of 0 octets is cut off"},
      {{first}, "a Turn before the Welcome"},
      {{hello, hello}, "a Hello where none is expected"},
      {{hello, A::message({.type = wire::NegType::welcome})}, "a Welcome where none is expected"},
      {{hello, A::turn(2, 1, false, "x")}, "a Turn of the stage ready; the stage is info"},
      {{hello, A::turn(1, 2, false, "x")}, "round 2 follows round 0"},
      {{hello, A::turn(1, 1, true, "x"), A::turn(2, 1, false, "y"), A::turn(2, 3, false, "z")},
       "round 3 follows round 1"},
      {{hello, A::message({.type = wire::NegType::turn, .stage = 1, .round = 1}, Bytes(65537))},
       "a message of 65537 octets; at most 65536 are taken"},
  };
  for (const Case& c : cases) EXPECT_EQ(Attacked().violation(c.messages), c.text);
}

TEST(NegSession, WhatAPeerCallsThingsIsPrintable) {
  Request asked;
  Session session = *Session::respond(
      [&](const Request& r) -> Outcome<std::unique_ptr<Variant>> {
        asked = r;
        return std::make_unique<Scripted>(one_message("b"), std::make_shared<Scripted::Log>());
      },
      {}, Instant{});
  Bytes body;
  for (const auto item : {wire::NegItemType::plugin, wire::NegItemType::variant, wire::NegItemType::label})
    add_neg_item(body, item, "a\x1b[2J\n" + std::string(1000, 'x'));
  session.handle_bytes(Instant{}, Attacked::message({.type = wire::NegType::hello}, body));
  for (const std::string& text : {asked.plugin, asked.variant, asked.label}) {
    EXPECT_TRUE(is_printable(octets(text))) << text;
    EXPECT_LT(text.size(), 1000U);
  }
}

TEST(NegSession, ATurnOutOfTurnIsRefused) {
  Pair p;
  const auto asks_twice = [](Stage, int turn, std::optional<ConstBytes>) -> Outcome<Turn> {
    return Turn{octets("q"), turn == 1};
  };
  p.begin(asks_twice, one_message("b"));
  p.collect();
  p.a->handle_bytes(p.now, Attacked::message({.type = wire::NegType::welcome}));
  p.a->handle_bytes(p.now, Attacked::turn(1, 1, true, "b"));
  p.a->handle_bytes(p.now, Attacked::turn(1, 2, true, "more"));
  ASSERT_TRUE(p.a->failure());
  EXPECT_EQ(p.a->failure()->text, "a Turn of the stage info; the stage is ready");
  Attacked by_two;
  by_two.play = [](Stage, int turn, std::optional<ConstBytes>) -> Outcome<Turn> {
    return Turn{octets("b"), turn == 2};
  };
  EXPECT_EQ(by_two.violation({Attacked::hello(), Attacked::turn(1, 1, true, "x"), Attacked::turn(1, 2, true, "more")}),
            "a Turn with data after the peer's last one");
}

TEST(NegSession, NoOctetsBringItDown) {
  std::mt19937 random(1);
  const Bytes good = [] {
    Bytes out = Attacked::hello();
    for (const Bytes& more : {Attacked::turn(1, 1, true, "info"), Attacked::turn(2, 1, true, "ready")})
      out.insert(out.end(), more.begin(), more.end());
    return out;
  }();
  int completed = 0;
  for (int i = 0; i < 20'000; ++i) {
    Bytes octets = good;
    for (unsigned n = random() % 4; n > 0; --n) octets[random() % octets.size()] = static_cast<std::uint8_t>(random());
    Attacked attacked;
    for (std::size_t at = 0; at < octets.size();) {
      const std::size_t n = std::min<std::size_t>(1 + random() % 40, octets.size() - at);
      attacked.session.handle_bytes(Instant{}, ConstBytes(octets).subspan(at, n));
      (void)attacked.session.poll_transmit();
      at += n;
    }
    completed += attacked.session.completed();
    attacked.session.handle_end(Instant{}, "FIN");
    EXPECT_EQ(attacked.session.state(), Session::State::over);
  }
  EXPECT_GT(completed, 4000);
}

TEST(NegSession, OptionsThatCannotBeAreNamed) {
  const auto text = [](SessionOptions o) {
    const auto made = Session::respond({}, o, Instant{});
    return made ? std::string("taken") : made.error().text;
  };
  SessionOptions o;
  o.message_max = 0;
  EXPECT_EQ(text(o), "SessionOptions::message_max is 0; must be 1 to 1048576");
  o.message_max = PARLEY_NEG_LENGTH_MAX + 1;
  EXPECT_EQ(text(o), "SessionOptions::message_max is 1048577; must be 1 to 1048576");
  o = {};
  o.rounds_max = 0;
  EXPECT_EQ(text(o), "SessionOptions::rounds_max is 0; must be at least 1");
  o = {};
  o.answer_timeout = -1s;
  EXPECT_EQ(text(o), "SessionOptions: a time limit is not negative; 0 is none");
  o = {};
  o.answer_timeout = o.session_timeout = {};
  EXPECT_EQ(Session::respond({}, o, Instant{})->next_deadline(), never);
}

}  // namespace
}  // namespace parley::neg
