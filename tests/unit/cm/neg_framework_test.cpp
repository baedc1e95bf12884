// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What may be registered as a plug-in, which variants are found, and what a configuration may hold.
#include "tests/unit/cm/neg_kit.hpp"

namespace parley::neg {
namespace {

using namespace kit;

struct Acme : Plugin {
  std::string name = "acme", release = "1.2";
  std::vector<VariantInfo> has{{.id = "rc"}};
  std::function<Outcome<void>()> starts = [] { return Outcome<void>{}; };
  std::function<Outcome<std::unique_ptr<Variant>>(const Config&)> makes =
      [](const Config&) -> Outcome<std::unique_ptr<Variant>> {
    return std::make_unique<Scripted>(one_message("x"), std::make_shared<Scripted::Log>());
  };
  std::string id() const override { return name; }
  std::string version() const override { return release; }
  std::vector<VariantInfo> variants() const override { return has; }
  Outcome<void> initialize() override { return starts(); }
  Outcome<std::unique_ptr<Variant>> make(std::string_view, Role, const Config& config) override {
    return makes(config);
  }
};

/// Adds a plug-in that `change` has changed: "fine", or the problem and its text.
std::string added(
    Framework& framework, const std::function<void(Acme&)>& change = [](Acme&) {}) {
  auto plugin = std::make_unique<Acme>();
  change(*plugin);
  const auto result = framework.add(std::move(plugin));
  return result ? "fine" : std::string(to_string(result.error().problem)) + ": " + result.error().text;
}
std::string added(const std::function<void(Acme&)>& change = [](Acme&) {}) {
  Framework framework;
  return added(framework, change);
}

TEST(NegFramework, APluginIsHeldToItsInterface) {
  EXPECT_EQ(added(), "fine");
  EXPECT_EQ(added([](Acme& p) { p.name = std::string(64, 'a'); }), "fine");
  EXPECT_EQ(added([](Acme& p) { p.name = "a b"; }),
            "plugin_refused: 'a b': a plug-in's id is letters, digits, '-', '_' and '.', at most 64");
  EXPECT_EQ(added([](Acme& p) { p.name = ""; }),
            "plugin_refused: '': a plug-in's id is letters, digits, '-', '_' and '.', at most 64");
  EXPECT_EQ(added([](Acme& p) { p.release = ""; }), "plugin_refused: plug-in 'acme' has no version");
  EXPECT_EQ(added([](Acme& p) { p.has.clear(); }), "plugin_refused: plug-in 'acme' has no variant");
  EXPECT_EQ(added([](Acme& p) { p.has.assign(257, {.id = "rc"}); }),
            "plugin_refused: plug-in 'acme' has 257 variants; at most 256");
  EXPECT_EQ(added([](Acme& p) { p.has.push_back({.id = "rc"}); }),
            "plugin_refused: plug-in 'acme' has the variant 'rc' twice");
  EXPECT_EQ(added([](Acme& p) { p.has[0].id = "r/c"; }),
            "plugin_refused: plug-in 'acme', variant 'r/c': a name is letters, digits, '-', '_' and '.', at most 64");
}

TEST(NegFramework, AParameterIsHeldToItself) {
  const auto with = [](std::vector<Parameter> parameters) {
    return added([&](Acme& p) { p.has[0].parameters = parameters; });
  };
  const std::string where = "plugin_refused: plug-in 'acme', variant 'rc': ";
  EXPECT_EQ(with({{.name = "port"}, {.name = "gid"}}), "fine");
  EXPECT_EQ(with({{.name = "port"}, {.name = "port"}}), where + "parameter 'port' is there twice");
  EXPECT_EQ(with({{.name = ""}}),
            where + "parameter '' has no name that can be: letters, digits, '-', '_' and '.', at most 64");
  EXPECT_EQ(with({{.name = "m", .kind = Parameter::Kind::choice}}), where + "parameter 'm' is a choice of nothing");
  EXPECT_EQ(with({{.name = "m", .required = true, .otherwise = "1"}}),
            where + "parameter 'm' is required and has a value where none is given");
  EXPECT_EQ(with({{.name = "m", .kind = Parameter::Kind::number, .otherwise = "9", .most = 8}}),
            where + "parameter 'm' would not take its own value '9'");
}

TEST(NegFramework, TwoOfOneNameAreAConflict) {
  Framework framework;
  EXPECT_EQ(added(framework), "fine");
  EXPECT_EQ(added(framework, [](Acme& p) { p.release = "2.0"; }),
            "plugin_refused: plug-in 'acme' 2.0 is there already, as 1.2");
  EXPECT_EQ(framework.variants().size(), 1U);
  EXPECT_EQ(framework.variants()[0].version, "1.2");
}

TEST(NegFramework, APluginThatCannotStartIsNotThere) {
  Framework framework;
  EXPECT_EQ(added(framework,
                  [](Acme& p) {
                    p.starts = []() -> Outcome<void> {
                      return tl::unexpected(Failure{.problem = Problem::vendor_library_error, .text = "no licence"});
                    };
                  }),
            "vendor_library_error: no licence");
  EXPECT_EQ(added(framework, [](Acme& p) { p.starts = []() -> Outcome<void> { throw std::runtime_error("oops"); }; }),
            "unexpected_exception: oops");
  EXPECT_EQ(added(framework, [](Acme& p) { p.starts = []() -> Outcome<void> { throw 7; }; }),
            "unexpected_exception: it is not a std::exception");
  EXPECT_TRUE(framework.variants().empty());
  EXPECT_EQ(added(framework), "fine");
}

TEST(NegFramework, WhatIsNotFoundNamesWhatThereIs) {
  Framework framework;
  EXPECT_EQ(framework.find("acme", "rc").error().to_string(),
            "there is no such plug-in: no plug-in 'acme'; no plug-in is registered");
  added(framework, [](Acme& p) { p.has.push_back({.id = "ud"}); });
  added(framework, [](Acme& p) { p.name = "other"; });
  EXPECT_EQ(framework.find("acme", "uc").error().to_string(),
            "the plug-in has no such variant: plug-in 'acme' has no variant 'uc'; there are rc, ud");
  EXPECT_EQ(framework.find("amce", "rc").error().to_string(),
            "there is no such plug-in: no plug-in 'amce'; there are acme/rc, acme/ud, other/rc");
  ASSERT_TRUE(framework.find("acme", "ud"));
  EXPECT_EQ((*framework.find("acme", "ud"))->variant.id, "ud");
  EXPECT_EQ(layer_of(framework.find("x", "y").error().problem), Layer::framework);
}

TEST(NegFramework, AConfigurationIsCheckedAndCompleted) {
  Framework framework;
  Config got;
  added(framework, [&](Acme& p) {
    p.has[0].parameters = {
        {.name = "gid", .help = "the address", .required = true},
        {.name = "port", .kind = Parameter::Kind::number, .otherwise = "1", .least = 1, .most = 0x20},
        {.name = "grh", .kind = Parameter::Kind::flag},
        {.name = "mtu", .kind = Parameter::Kind::choice, .choices = {"1024", "4096"}}};
    p.makes = [&](const Config& config) -> Outcome<std::unique_ptr<Variant>> {
      got = config;
      return std::make_unique<Scripted>(one_message("x"), std::make_shared<Scripted::Log>());
    };
  });
  const auto text = [&](const Config& config) {
    const auto made = framework.make("acme", "rc", Role::initiator, config);
    if (made) return std::string("fine");
    EXPECT_EQ(made.error().problem, Problem::configuration_error);
    return made.error().text;
  };
  EXPECT_EQ(text({{"gid", "::1"}}), "fine");
  EXPECT_EQ(got, (Config{{"gid", "::1"}, {"port", "1"}}));
  EXPECT_EQ(text({{"gid", "::1"}, {"port", "0x20"}, {"grh", "true"}, {"mtu", "4096"}}), "fine");
  EXPECT_EQ(got.at("port"), "0x20");
  EXPECT_EQ(text({}), "acme/rc: 'gid': is required: the address");
  for (const char* port : {"0", "33", "0x21", "", "x", "1x", "-1", "99999999999999999999"})
    EXPECT_EQ(text({{"gid", "::1"}, {"port", port}}),
              std::string("acme/rc: 'port': '") + port + "' cannot be; write a number, 1 to 32");
  EXPECT_EQ(text({{"gid", "::1"}, {"grh", "yes"}}), "acme/rc: 'grh': 'yes' cannot be; write true or false");
  EXPECT_EQ(text({{"gid", "::1"}, {"mtu", "512"}}), "acme/rc: 'mtu': '512' cannot be; write 1024, 4096");
  EXPECT_EQ(text({{"gid", "::1"}, {"prot", "1"}}), "acme/rc: 'prot': is unknown; there are gid, port, grh, mtu");
}

TEST(NegFramework, AVariantThatIsNotMadeHasItsReason) {
  Framework framework;
  std::function<Outcome<std::unique_ptr<Variant>>(const Config&)> makes;
  added(framework, [&](Acme& p) { p.makes = [&](const Config& config) { return makes(config); }; });
  const auto text = [&] { return framework.make("acme", "rc", Role::responder).error().to_string(); };
  makes = [](const Config&) { return nullptr; };
  EXPECT_EQ(text(), "the plug-in does not meet its interface: plug-in 'acme' made no variant and no error");
  makes = [](const Config&) -> Outcome<std::unique_ptr<Variant>> { throw std::bad_alloc(); };
  EXPECT_EQ(text(), "the plug-in threw an exception: std::bad_alloc");
  makes = [](const Config&) -> Outcome<std::unique_ptr<Variant>> {
    return tl::unexpected(Failure{.problem = Problem::resource_exhaustion, .text = "no queue pair left"});
  };
  EXPECT_EQ(text(), "a resource has run out: no queue pair left");
  EXPECT_EQ(framework.make("acme", "ud", Role::responder).error().problem, Problem::variant_not_available);
}

// What a responder with a framework refuses, its peer is told with all that there is.
TEST(NegFramework, ARefusedRequestListsWhatThereIs) {
  Framework framework;
  added(framework, [](Acme& p) { p.has.push_back({.id = "ud"}); });
  Session server = *Session::respond(
      [&](const Request& r) { return framework.make(r.plugin, r.variant, Role::responder); }, {}, Instant{});
  Session client = *Session::initiate({.plugin = "acme", .variant = "uc"},
                                      std::make_unique<Scripted>(one_message("a"), std::make_shared<Scripted::Log>()),
                                      {}, Instant{});
  server.handle_bytes(Instant{}, client.poll_transmit());
  client.handle_bytes(Instant{}, server.poll_transmit());
  ASSERT_TRUE(client.failure());
  EXPECT_EQ(client.failure()->problem, Problem::variant_not_available);
  EXPECT_EQ(client.failure()->to_string(),
            "info, round 1: the peer says: the plug-in has no such variant: plug-in 'acme' has no variant 'uc'; there "
            "are rc, ud");
}

}  // namespace
}  // namespace parley::neg
