// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Plug-ins that throw wherever they are called, and say what no terminal should be told: the session ends once, with words
// that can be shown, and the others go on.
#include "tests/unit/cm/neg_net.hpp"

namespace parley::neg {
namespace {

using namespace kit;

const Address there_too = Address::v4(192, 0, 2, 2, 4800);
constexpr const char* rude_words = "\x1b]0;owned\x07 red\n\xff";
constexpr const char* shown = "?]0;owned? red??";

/// Throws at one place, which is named after the call and, if it has one, its stage. Its variant "ud" is polite.
struct RudePlugin final : Plugin {
  explicit RudePlugin(std::string at) : place(std::move(at)) {}
  void be_at(std::string_view call) const {
    if (place == call) throw std::runtime_error(rude_words);
    if (place == std::string(call) + ", no exception") throw 42;
  }

  struct RudeVariant final : Variant {
    explicit RudeVariant(const RudePlugin& of) : plugin(of) {}
    const RudePlugin& plugin;
    Stage in = Stage::none;
    Outcome<Turn> exchange(Stage stage, std::optional<ConstBytes> peer) override {
      plugin.be_at("exchange " + std::string(to_string(stage)));
      return one_message("a")(stage, std::exchange(in, stage) == stage ? 1 : 0, peer);
    }
    Outcome<void> finished(Stage stage) override {
      plugin.be_at("finished " + std::string(to_string(stage)));
      return {};
    }
    bool has_done_stage() const override {
      plugin.be_at("has_done_stage");
      return true;
    }
    std::vector<QpPair> agreed() const override {
      plugin.be_at("agreed");
      return std::vector<QpPair>(2);
    }
  };

  std::string id() const override {
    be_at("id");
    return "acme";
  }
  std::string version() const override {
    be_at("version");
    return "1";
  }
  std::vector<VariantInfo> variants() const override {
    be_at("variants");
    return {{.id = "rc"}, {.id = "ud"}};
  }
  Outcome<void> initialize() override {
    be_at("initialize");
    return {};
  }
  Outcome<std::unique_ptr<Variant>> make(std::string_view variant, Role, const Config&) override {
    if (variant == "ud")
      return std::make_unique<Scripted>(one_message("polite"), std::make_shared<Scripted::Log>(), true);
    be_at("make");
    if (place == "make, nothing made") return std::unique_ptr<Variant>();
    return std::make_unique<RudeVariant>(*this);
  }
  std::string place;
};

/// A client and a server on a network; the one of `rude` has a plug-in that throws at `place`.
struct Rude {
  Rude(Role rude, const std::string& place) {
    auto on_client = std::make_unique<RudePlugin>(rude == Role::initiator ? place : "");
    client_plugin = on_client.get();
    EXPECT_TRUE(client_side.add(std::move(on_client)));
    EXPECT_TRUE(server_side.add(std::make_unique<RudePlugin>(rude == Role::responder ? place : "")));
    net.add(client, Address::v4(192, 0, 2, 1, 0));
    net.add(server, Address::v4(192, 0, 2, 2, 0));
    EXPECT_TRUE(server.listen(there_too));
  }
  static Dial dial_of(const std::string& variant) {
    return {.request = {.plugin = "acme", .variant = variant}, .server = there_too, .retry = {.rounds = 3}};
  }
  /// How each negotiation of `variant` ended there.
  static std::vector<Peers::Ended> ends(Peers& peers) {
    std::vector<Peers::Ended> out;
    while (auto event = peers.poll_event())
      if (auto* ended = std::get_if<Peers::Ended>(&*event)) out.push_back(std::move(*ended));
    return out;
  }
  Framework client_side, server_side;
  RudePlugin* client_plugin = nullptr;
  Net net;
  Peers client{client_side, {}}, server{server_side, {}};
};

void expect_rude(const std::optional<Failure>& failure, const std::string& where) {
  ASSERT_TRUE(failure) << where;
  EXPECT_EQ(failure->problem, Problem::unexpected_exception) << where;
  EXPECT_EQ(failure->text, where.find("no exception") == std::string::npos ? shown : "it is not a std::exception")
      << where;
  EXPECT_FALSE(failure->by_peer) << where;
}

TEST(NegHostile, APluginThatThrowsIsNotAdded) {
  for (const std::string place : {"id", "version", "variants", "initialize", "initialize, no exception"}) {
    Framework framework;
    const auto added = framework.add(std::make_unique<RudePlugin>(place));
    ASSERT_FALSE(added) << place;
    expect_rude(added.error(), place);
    EXPECT_TRUE(framework.variants().empty()) << place;
  }
}

TEST(NegHostile, AClientsVariantThatThrowsEndsItsDialAndNoOther) {
  for (const std::string place :
       {"has_done_stage", "exchange info", "exchange ready", "exchange done", "finished info", "finished ready",
        "finished done", "agreed", "agreed, no exception", "exchange info, no exception"}) {
    Rude r(Role::initiator, place);
    ASSERT_TRUE(r.client.dial(r.net.now, Rude::dial_of("rc"))) << place;
    ASSERT_TRUE(r.client.dial(r.net.now, Rude::dial_of("ud"))) << place;
    r.net.settle();
    int rude = 0, polite = 0;
    for (const Peers::Ended& ended : Rude::ends(r.client)) {
      EXPECT_EQ(ended.attempts, 1U) << place << ": what a plug-in does is final";
      if (ended.request.variant == "rc") ++rude, expect_rude(ended.failure, place);
      if (ended.request.variant == "ud") ++polite;
      EXPECT_EQ(ended.failure.has_value(), ended.request.variant == "rc") << place;
    }
    EXPECT_EQ(std::pair(rude, polite), std::pair(1, 1)) << place;
    for (const Peers::Ended& ended : Rude::ends(r.server)) {
      // The last Turn of all has left before the variant is told that it is over.
      const bool told = ended.request.variant == "rc" && !place.starts_with("agreed") && place != "finished done";
      ASSERT_EQ(ended.failure.has_value(), told) << place;
      EXPECT_TRUE(!told || ended.failure->by_peer) << place;
    }
    for (const Peers* peers : {&r.client, &r.server}) {
      EXPECT_EQ(peers->busy(), 0U) << place;
      EXPECT_EQ(peers->streams(), 0U) << place;
    }
  }
}

TEST(NegHostile, AServersVariantThatThrowsIsToldToItsClientAndServesOthers) {
  for (const std::string place : {"make", "exchange info", "exchange ready", "exchange done", "finished info",
                                  "finished ready", "finished done", "agreed"}) {
    Rude r(Role::responder, place);
    ASSERT_TRUE(r.client.dial(r.net.now, Rude::dial_of("rc"))) << place;
    ASSERT_TRUE(r.client.dial(r.net.now, Rude::dial_of("ud"))) << place;
    r.net.settle();
    int rude = 0, polite = 0;
    for (const Peers::Ended& ended : Rude::ends(r.server)) {
      if (ended.request.variant == "rc") ++rude, expect_rude(ended.failure, place);
      if (ended.request.variant == "ud") ++polite;
      EXPECT_EQ(ended.failure.has_value(), ended.request.variant == "rc") << place;
    }
    EXPECT_EQ(std::pair(rude, polite), std::pair(1, 1)) << place;
    for (const Peers::Ended& ended : Rude::ends(r.client)) {
      // The last Turn of all has left before the variant is told that it is over.
      const bool told = ended.request.variant == "rc" && place != "agreed" && place != "finished done";
      ASSERT_EQ(ended.failure.has_value(), told) << place;
      if (!told) continue;
      EXPECT_TRUE(ended.failure->by_peer) << place;
      EXPECT_EQ(ended.failure->text, shown) << place;
    }
    EXPECT_EQ(r.server.busy() + r.server.streams(), 0U) << place;
  }
}

TEST(NegHostile, WhoCannotBeMadeIsToldAtOnce) {
  for (const std::string place : {"make", "make, nothing made"}) {
    Rude r(Role::initiator, place);
    const auto id = r.client.dial(r.net.now, Rude::dial_of("rc"));
    ASSERT_FALSE(id) << place;
    EXPECT_EQ(id.error().problem, place == "make" ? Problem::unexpected_exception : Problem::plugin_refused);
    EXPECT_EQ(r.client.busy(), 0U);
  }
  Rude r(Role::responder, "make, nothing made");
  ASSERT_TRUE(r.client.dial(r.net.now, Rude::dial_of("rc")));
  r.net.settle();
  const auto ended = Rude::ends(r.server);
  ASSERT_EQ(ended.size(), 1U);
  ASSERT_TRUE(ended[0].failure);
  EXPECT_EQ(ended[0].failure->problem, Problem::plugin_refused);
}

TEST(NegHostile, AServerHearsThatItsClientCannotBeMade) {
  Rude r(Role::initiator, "");
  const Address nobody = Address::v4(192, 0, 2, 9, 4800);
  Dial dial = Rude::dial_of("rc");
  dial.backups = {std::exchange(dial.server, nobody)};
  ASSERT_TRUE(r.client.dial(r.net.now, dial));
  r.client_plugin->place = "make";  // when it is made again, for the second address
  r.net.settle();
  const auto ours = Rude::ends(r.client), theirs = Rude::ends(r.server);
  ASSERT_TRUE(ours.size() == 1 && theirs.size() == 1);
  expect_rude(ours[0].failure, "make");
  ASSERT_TRUE(theirs[0].failure);
  EXPECT_TRUE(theirs[0].failure->by_peer);
  EXPECT_EQ(theirs[0].failure->text, shown);
}

TEST(NegHostile, WhatIsAgreedComesWithTheEnd) {
  Rude r(Role::initiator, "");
  ASSERT_TRUE(r.client.dial(r.net.now, Rude::dial_of("rc")));
  r.net.settle();
  for (Peers* peers : {&r.client, &r.server}) {
    const auto ended = Rude::ends(*peers);
    ASSERT_EQ(ended.size(), 1U);
    EXPECT_FALSE(ended[0].failure);
    EXPECT_EQ(ended[0].agreed.size(), 2U);
  }
}

/// How a side ends whose variant says that `failure`; the peer's failure is beside it.
std::pair<Failure, Failure> says(Failure failure) {
  Pair pair;
  pair.begin(
      [failure](Stage stage, int turn, std::optional<ConstBytes> peer) -> Outcome<Turn> {
        if (stage == Stage::ready) return tl::unexpected(failure);
        return one_message("a")(stage, turn, peer);
      },
      one_message("b"));
  pair.run();
  EXPECT_TRUE(pair.a->failure() != nullptr && pair.b->failure() != nullptr);
  if (pair.a->failure() == nullptr || pair.b->failure() == nullptr) return {};
  return {*pair.a->failure(), *pair.b->failure()};
}

TEST(NegHostile, WhatAPluginSaysIsPrintable) {
  const auto [ours, theirs] = says({.problem = Problem::invalid_peer_data,
                                    .text = rude_words,
                                    .advice = "a\r\nb\xc2\x9b"
                                              "31m"});
  for (const Failure& failure : {ours, theirs}) {
    EXPECT_EQ(failure.problem, Problem::invalid_peer_data);
    EXPECT_EQ(failure.text, shown);
    EXPECT_EQ(failure.advice.substr(0, 4), "a??b");
    for (const char c : failure.to_string()) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F);
  }
  EXPECT_EQ(says({.problem = Problem::invalid_peer_data, .text = std::string(1 << 20, 'x')}).first.text.size(), 1024U);
}

TEST(NegHostile, APluginDoesNotSpeakForOthers) {
  for (const Problem not_its : {Problem::connection_lost, Problem::server_unreachable, static_cast<Problem>(0xBEEF)}) {
    const auto [ours, theirs] =
        says({.problem = not_its, .text = "x", .stage = static_cast<Stage>(77), .round = 900, .by_peer = true});
    EXPECT_EQ(ours.problem, Problem::vendor_library_error);
    EXPECT_EQ(ours.stage, Stage::ready);
    EXPECT_EQ(ours.round, 1U) << "the stage's own, in which nobody has said anything yet";
    EXPECT_FALSE(ours.by_peer);
    EXPECT_EQ(theirs.problem, Problem::vendor_library_error);
  }
}

struct ListedPlugin final : Plugin {
  explicit ListedPlugin(VariantInfo shows) : info(std::move(shows)) {}
  std::string id() const override { return "acme"; }
  std::string version() const override { return "1\x1b[2J"; }
  std::vector<VariantInfo> variants() const override { return {info}; }
  Outcome<std::unique_ptr<Variant>> make(std::string_view, Role, const Config&) override {
    return tl::unexpected(Failure{});
  }
  VariantInfo info;
};

TEST(NegHostile, WhatAPluginIsListedWithIsPrintable) {
  Framework framework;
  ASSERT_TRUE(framework.add(std::make_unique<ListedPlugin>(
      VariantInfo{.id = "rc", .summary = "a\x07", .parameters = {{.name = "rate", .help = "b\n\xff"}}})));
  const Framework::Entry& entry = framework.variants().at(0);
  EXPECT_EQ(entry.version, "1?[2J");
  EXPECT_EQ(entry.variant.summary, "a?");
  EXPECT_EQ(entry.variant.parameters.at(0).help, "b??");

  for (const Parameter& bad :
       {Parameter{.name = "rate", .otherwise = "a\x1b"},
        Parameter{.name = "rate", .kind = Parameter::Kind::choice, .choices = {"good", "b\xff"}}}) {
    Framework other;
    const auto added = other.add(std::make_unique<ListedPlugin>(VariantInfo{.id = "rc", .parameters = {bad}}));
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().problem, Problem::plugin_refused);
    EXPECT_NE(added.error().text.find("control characters"), std::string::npos) << added.error().text;
  }
  Framework other;
  EXPECT_EQ(other
                .add(std::make_unique<ListedPlugin>(VariantInfo{.id = "r\x1b"
                                                                      "c"}))
                .error()
                .text,
            "plug-in 'acme', variant 'r?c': a name is letters, digits, '-', '_' and '.', at most 64");
}

TEST(NegHostile, ASessionWithoutAVariantIsRefused) {
  for (const bool raw : {false, true}) {
    const auto session =
        raw ? Session::raw(Role::initiator, {}, nullptr, {}, {}) : Session::initiate({}, nullptr, {}, {});
    ASSERT_FALSE(session);
    EXPECT_EQ(session.error().problem, Problem::configuration_error);
  }
}

/// Says lengths of the peer's messages that cannot be, or throws.
struct Measuring final : Variant {
  explicit Measuring(std::optional<std::size_t> says) : length(says) {}
  Outcome<Turn> exchange(Stage, std::optional<ConstBytes>) override { return Turn{octets("x"), false}; }
  Outcome<std::optional<std::size_t>> message_length(Stage, ConstBytes) override {
    if (!length) throw std::runtime_error(rude_words);
    return length;
  }
  std::optional<std::size_t> length;
};

TEST(NegHostile, ARawVariantThatCannotMeasureEndsItsSession) {
  const auto end = [](std::optional<std::size_t> says) {
    auto session = Session::raw(Role::initiator, {}, std::make_unique<Measuring>(says), {}, {});
    if (!session) return session.error();
    session->handle_bytes({}, octets("hello"));
    EXPECT_EQ(session->state(), Session::State::over);
    return session->failure() == nullptr ? Failure{} : *session->failure();
  };
  expect_rude(end(std::nullopt), "message_length");
  EXPECT_EQ(end(SIZE_MAX).problem, Problem::protocol_violation);
  EXPECT_EQ(end(65537).problem, Problem::protocol_violation);
  EXPECT_EQ(end(0).problem, Problem::plugin_refused) << "its peer is silent, and it waits";
}

}  // namespace
}  // namespace parley::neg
