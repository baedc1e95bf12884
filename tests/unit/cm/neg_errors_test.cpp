// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every error of the list in parley/wire/neg.h is produced once, over streams or at the registry, and none is left out.
#include "tests/unit/cm/neg_net.hpp"

namespace parley::neg {
namespace {

using namespace kit;

const Address there = Address::v4(192, 0, 2, 2, 4800);

/// A client, a server with what `plays`, and how a dial of the client ends.
struct Dialled {
  explicit Dialled(std::function<Scripted::Play(Role)> plays = {}) {
    for (Framework* f : {&client_side, &server_side}) {
      auto plugin = std::make_unique<ScriptedPlugin>();
      if (plays && f == &server_side) plugin->plays = plays;
      EXPECT_TRUE(f->add(std::move(plugin)));
    }
    net.add(client, Address::v4(192, 0, 2, 1, 0));
    net.add(server, Address::v4(192, 0, 2, 2, 0));
  }
  Problem end(Dial dial = {.request = {.plugin = "acme", .variant = "rc"}, .server = there}) {
    const auto id = client.dial(net.now, std::move(dial));
    if (!id) return id.error().problem;
    net.settle();
    std::optional<Problem> out;
    while (auto event = client.poll_event())
      if (const auto* ended = std::get_if<Peers::Ended>(&*event)) out = ended->failure->problem;
    EXPECT_TRUE(out);
    return *out;
  }
  Problem served() {
    EXPECT_TRUE(server.listen(there));
    return end();
  }
  Framework client_side, server_side;
  Net net;
  Peers client{client_side, {}}, server{server_side, {}};
};

Scripted::Play always(Outcome<Turn> said) {
  return [said](Stage, int, std::optional<ConstBytes>) { return said; };
}

Problem plugin_says(Problem problem) {
  return Dialled([=](Role) { return always(tl::unexpected(Failure{.problem = problem, .text = "words"})); }).served();
}

Problem peer_says(std::string_view words, bool closes) {
  Dialled c;
  Plain peer;
  c.net.add(peer, Address::v4(192, 0, 2, 9, 0));
  const Address at = Address::v4(192, 0, 2, 9, 4800);
  peer.listen(at);
  peer.on_bytes = [&](StreamId stream, ConstBytes) {
    if (!words.empty()) peer.say(stream, octets(words));
    if (closes) peer.end(stream, StreamCommand::Kind::close);
  };
  return c.end({.request = {.plugin = "acme", .variant = "rc"}, .server = at});
}

Problem black_hole() {
  Dialled c;
  c.net.black_hole(there);
  return c.end();
}

Problem asked_for(const std::string& plugin, const std::string& variant, const Config& config = {}) {
  return Dialled().end({.request = {.plugin = plugin, .variant = variant}, .config = config, .server = there});
}

Problem out_of_time() {
  Dialled c([](Role) { return always(Turn{octets("more"), false}); });
  EXPECT_TRUE(c.server.listen(there));
  return c.end({.request = {.plugin = "acme", .variant = "rc"}, .server = there, .session = {.session_timeout = 50ms}});
}

Problem added_twice() {
  Framework framework;
  EXPECT_TRUE(framework.add(std::make_unique<ScriptedPlugin>()));
  return framework.add(std::make_unique<ScriptedPlugin>()).error().problem;
}

TEST(NegErrors, EachHasItsCauseAndItsLayer) {
  const std::vector<std::tuple<std::string, Problem, Layer>> produced = {
      {"connection_timeout", black_hole(), Layer::transport},
      {"server_unreachable", Dialled().end(), Layer::transport},
      {"connection_lost", peer_says("", true), Layer::transport},
      {"protocol_violation", peer_says("HTTP/1.1 400 Bad Request\r\n", false), Layer::transport},
      {"serialization_failure", plugin_says(Problem::serialization_failure), Layer::plugin},
      {"invalid_peer_data", plugin_says(Problem::invalid_peer_data), Layer::plugin},
      {"resource_exhaustion", plugin_says(Problem::resource_exhaustion), Layer::plugin},
      {"vendor_library_error", plugin_says(Problem::vendor_library_error), Layer::plugin},
      {"configuration_error", asked_for("acme", "rc", {{"no", "such"}}), Layer::plugin},
      {"plugin_not_found", asked_for("acne", "rc"), Layer::framework},
      {"variant_not_available", asked_for("acme", "uc"), Layer::framework},
      {"session_timeout", out_of_time(), Layer::framework},
      {"unexpected_exception", Dialled([](Role) -> Scripted::Play {
                                 return [](Stage, int, std::optional<ConstBytes>) -> Outcome<Turn> {
                                   throw std::runtime_error("oops");
                                 };
                               }).served(),
       Layer::framework},
      {"plugin_refused", added_twice(), Layer::framework},
      {"too_many_rounds", Dialled([](Role) {
                            return always(Turn{octets("more"), false});
                          }).served(),
       Layer::framework},
  };
  std::vector<std::string> names, all;
  for (const auto& [name, problem, layer] : produced) {
    EXPECT_EQ(to_string(problem), name);
    EXPECT_EQ(layer_of(problem), layer) << name;
    names.push_back(name);
  }
#define PARLEY_X(name, value, layer, text) all.emplace_back(#name);
  PARLEY_NEG_ERRORS(PARLEY_X)
#undef PARLEY_X
  EXPECT_EQ(names, all);
}

}  // namespace
}  // namespace parley::neg
