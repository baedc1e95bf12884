// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Plug-ins that are shared objects: one that is right negotiates, each that is wrong is refused with its reason.
#include "parley/neg_plugin.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "parley/neg_session.hpp"

namespace parley::neg {
namespace {

const std::string folder = PARLEY_TEST_PLUGINS;
std::string file_of(const std::string& name) { return folder + "/" + name + "/" + name + ".so"; }

/// Two sessions of echo/hello, to their end.
struct Echo {
  explicit Echo(const std::string& name = "echo") {
    EXPECT_TRUE(framework.add(std::move(*load_plugin(file_of(name)))));
  }
  void run(const neg::Config& left = {}, const neg::Config& right = {}) {
    auto made = framework.make("echo", "hello", neg::Role::initiator, left);
    ASSERT_TRUE(made) << made.error().to_string();
    auto first = neg::Session::initiate({.plugin = "echo", .variant = "hello"}, std::move(*made), {}, {});
    if (!first) {
      failure = first.error();
      return;
    }
    if (first->failure() != nullptr) {
      failure = *first->failure();
      return;
    }
    a.emplace(std::move(*first));
    b.emplace(*neg::Session::respond(
        [this, right](const neg::Request& r) {
          return framework.make(r.plugin, r.variant, neg::Role::responder, right);
        },
        {}, {}));
    for (int i = 0; i < 10; ++i) {
      b->handle_bytes({}, a->poll_transmit());
      a->handle_bytes({}, b->poll_transmit());
    }
    if (b->failure() != nullptr) failure = *b->failure();
  }
  neg::Framework framework;
  std::optional<neg::Session> a, b;
  std::optional<neg::Failure> failure;
};

TEST(SharedObjectPlugin, Negotiates) {
  Echo echo;
  echo.run({{"name", "left"}});
  ASSERT_TRUE(echo.a && echo.b);
  EXPECT_TRUE(echo.a->completed() && echo.b->completed());
  EXPECT_EQ(echo.b->stage(), neg::Stage::done) << "the variant has that stage";
  bool said = false;
  for (const neg::Exchange& e : echo.b->history())
    said = said || (!e.sent && std::string(e.head.begin(), e.head.end()) == "left");
  EXPECT_TRUE(said);
}

TEST(SharedObjectPlugin, ItsParametersAreChecked) {
  Echo echo;
  const auto& parameters = echo.framework.variants().at(0).variant.parameters;
  ASSERT_EQ(parameters.size(), 2U);
  EXPECT_EQ(parameters[1].otherwise, "100");
  EXPECT_EQ(echo.framework.make("echo", "hello", neg::Role::initiator, {{"rate", "900"}}).error().text,
            "echo/hello: 'rate': '900' cannot be; write a number, 1 to 800");
}

TEST(SharedObjectPlugin, ItsRefusalsHaveItsWords) {
  Echo echo;
  echo.run({{"name", "wrong"}});
  ASSERT_TRUE(echo.failure);
  EXPECT_EQ(echo.failure->to_string(), "info, round 1: the peer's data cannot be used: the peer is called wrong");
}

TEST(SharedObjectPlugin, AMessageAtNullIsNoCrash) {
  Echo echo("bad_message");
  echo.run();
  ASSERT_TRUE(echo.failure);
  EXPECT_EQ(echo.failure->problem, neg::Problem::plugin_refused);
  EXPECT_EQ(echo.failure->text, "the plug-in made a message of 10 octets at NULL");
}

TEST(SharedObjectPlugin, AMessageLongerThanMemoryIsNotRead) {
  Echo echo("long_message");
  echo.run();
  ASSERT_TRUE(echo.failure);
  EXPECT_EQ(echo.failure->problem, neg::Problem::plugin_refused);
  EXPECT_EQ(echo.failure->text, "the plug-in made a message of 18446744073709551615 octets");
}

TEST(SharedObjectPlugin, ItsWordsArePrintableAndEnd) {
  Echo echo("control_characters");
  echo.run();
  ASSERT_TRUE(echo.failure);
  EXPECT_EQ(echo.failure->problem, neg::Problem::vendor_library_error) << "77 is not a result";
  EXPECT_EQ(echo.failure->text, "?[31mred?" + std::string(511 - 9, 'x') + " (error 77)");
}

TEST(SharedObjectPlugin, ItsOwnErrorNumberIsKept) {
  Echo echo("hanging");
  echo.run({{"name", "returns"}});
  ASSERT_TRUE(echo.failure);
  EXPECT_EQ(echo.failure->problem, neg::Problem::vendor_library_error);
  EXPECT_EQ(echo.failure->text, "error -12345");
}

TEST(SharedObjectPlugin, WhatItThrowsEndsItsSessionAlone) {
  Echo echo("throwing");
  echo.run();
  ASSERT_TRUE(echo.failure);
  EXPECT_EQ(echo.failure->problem, neg::Problem::unexpected_exception);
  EXPECT_EQ(echo.failure->text, "thrown by exchange");
  // What close() throws had nowhere to go.
}

TEST(SharedObjectPlugin, APipeIsNotWaitedFor) {
  const std::string pipe = testing::TempDir() + fmt::format("parley_pipe_{}.so", ::getpid());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(load_plugin(pipe).error().text, pipe + ": it is not a regular file");
  std::filesystem::remove(pipe);
}

TEST(SharedObjectPlugin, WhatIsNoneIsRefusedWithItsReason) {
  const auto text = [](const std::string& path) {
    const auto loaded = load_plugin(path);
    if (loaded) return std::string("loaded");
    EXPECT_EQ(loaded.error().problem, neg::Problem::plugin_refused);
    return loaded.error().text.substr(path.size());
  };
  EXPECT_EQ(text(file_of("echo")), "loaded");
  EXPECT_EQ(text(file_of("no_symbol")), ": it exports no parley_plugin_v1");
  EXPECT_EQ(text(file_of("other_version")), ": its interface has version 7; this program knows 1");
  EXPECT_EQ(text(file_of("no_function")), ": 'exchange' of its interface is NULL");
  EXPECT_EQ(text(file_of("too_small")), ": its structure has 8 octets, 80 are expected");
  EXPECT_EQ(text(file_of("pointer")), ": its parley_plugin_v1 has 8 octets, 80 are expected");
  EXPECT_EQ(text(file_of("many_variants")), ": it has 18446744073709551615 variants; at most 256");
  EXPECT_EQ(text(file_of("many_parameters")), ": its variant 0 has 18446744073709551615 parameters; at most 256");
  EXPECT_EQ(text(file_of("null_parameters")), ": its variant 0 has 2 parameters at NULL");
  EXPECT_EQ(text(file_of("null_parameters_second")), ": its variant 1 has 2 parameters at NULL");
  EXPECT_EQ(text(file_of("many_parameters_second")),
            ": its variant 1 has 18446744073709551615 parameters; at most 256");
  EXPECT_NE(text("/nonexistent/plugin.so").find("No such file"), std::string::npos);
  const std::string garbage = testing::TempDir() + fmt::format("parley_garbage_{}.so", ::getpid());
  std::ofstream(garbage) << "this is not an ELF file";
  EXPECT_NE(text(garbage).find("file too short"), std::string::npos) << text(garbage);
  std::filesystem::remove(garbage);
}

TEST(SharedObjectPlugin, TwoOfOneIdAreAConflict) {
  Echo echo;
  EXPECT_EQ(echo.framework.add(std::move(*load_plugin(file_of("echo")))).error().text,
            "plug-in 'echo' 1.0 is there already, as 1.0");
}

TEST(SharedObjectPlugin, AFoldersFilesAreFoundInOrder) {
  const auto files = plugins_in(folder + "/echo");
  ASSERT_TRUE(files);
  ASSERT_EQ(files->size(), 1U);
  EXPECT_EQ(files->front(), file_of("echo"));
  EXPECT_EQ(plugins_in("/nonexistent").error().text, "/nonexistent: No such file or directory");
}

// A session outlives the framework that made it, and with it the plug-in's code.
TEST(SharedObjectPlugin, ItsCodeStaysAsLongAsASession) {
  std::unique_ptr<neg::Variant> variant;
  {
    Echo echo;
    variant = std::move(*echo.framework.make("echo", "hello", neg::Role::initiator));
  }
  const auto turn = variant->exchange(neg::Stage::info, std::nullopt);
  ASSERT_TRUE(turn);
  EXPECT_EQ(std::string(turn->message.begin(), turn->message.end()), "initiator");
}

}  // namespace
}  // namespace parley::neg
