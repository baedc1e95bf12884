// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Plug-ins of which each session has a process of its own: they negotiate as in this one, and what blocks, crashes, exits or
// lies ends its session with a reason and nothing else. Nothing is left behind.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "drivers/plugin/process.hpp"
#include "parley/neg_plugin.hpp"
#include "parley/neg_session.hpp"
#include "tests/unit/hang_limit.hpp"

namespace parley::neg::isolated_plugin_test {
namespace {

using namespace std::chrono_literals;

std::string file_of(const std::string& name) {
  return std::string(PARLEY_TEST_PLUGINS) + "/" + name + "/" + name + ".so";
}

std::size_t open_files() {
  std::size_t n = 0;
  DIR* const all = ::opendir("/proc/self/fd");
  while (::readdir(all) != nullptr) ++n;
  ::closedir(all);
  return n;
}

bool has_children() { return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

class IsolatedPlugin : public testing::Test {
 protected:
  void TearDown() override { expect_nothing_left(); }
  void expect_nothing_left() {
    EXPECT_FALSE(has_children());
    EXPECT_EQ(open_files(), files_);
  }

 private:
  std::size_t files_ = open_files();
};

/// Two sessions of echo/hello with each other, in turns, to their end.
struct Two {
  Two(const std::string& name, Duration limit) {
    EXPECT_TRUE(framework.add(std::move(*load_isolated_plugin(file_of(name), limit))));
  }
  /// "fine", or why the initiator has failed.
  std::string run(const Config& left = {}, const Config& right = {}) {
    auto made = framework.make("echo", "hello", Role::initiator, left);
    if (!made) return made.error().to_string();
    auto first = Session::initiate({.plugin = "echo", .variant = "hello"}, std::move(*made), {}, {});
    if (!first) return first.error().to_string();
    Session b = *Session::respond(
        [&](const Request& r) { return framework.make(r.plugin, r.variant, Role::responder, right); }, {}, {});
    for (int i = 0; i < 10; ++i) {
      b.handle_bytes({}, first->poll_transmit());
      first->handle_bytes({}, b.poll_transmit());
    }
    if (first->failure() != nullptr) return first->failure()->to_string();
    EXPECT_TRUE(first->completed() && b.completed());
    EXPECT_EQ(b.stage(), Stage::done) << "the variant has that stage";
    for (const Exchange& e : b.history())
      if (!e.sent && e.stage == Stage::info) heard = {e.head.begin(), e.head.end()};
    return "fine";
  }
  Framework framework;
  std::string heard;
};

TEST_F(IsolatedPlugin, Negotiates) {
  Two two("echo", hang_limit);
  EXPECT_EQ(two.run({{"name", "left"}}), "fine");
  EXPECT_EQ(two.heard, "left");
  const auto own = std::move(*load_plugin(file_of("echo")));
  const VariantInfo &there = two.framework.variants().at(0).variant, here = own->variants().at(0);
  EXPECT_EQ(there.summary, here.summary);
  ASSERT_EQ(there.parameters.size(), here.parameters.size());
  for (std::size_t i = 0; i < here.parameters.size(); ++i) {
    EXPECT_EQ(there.parameters[i].name, here.parameters[i].name);
    EXPECT_EQ(there.parameters[i].kind, here.parameters[i].kind);
    EXPECT_EQ(there.parameters[i].help, here.parameters[i].help);
    EXPECT_EQ(there.parameters[i].otherwise, here.parameters[i].otherwise);
    EXPECT_EQ(there.parameters[i].most, here.parameters[i].most);
  }
  EXPECT_EQ(two.framework.make("echo", "hello", Role::initiator, {{"rate", "900"}}).error().problem,
            Problem::configuration_error);
}

TEST_F(IsolatedPlugin, ItsRefusalsHaveItsWords) {
  EXPECT_EQ(Two("echo", hang_limit).run({{"name", "wrong"}}),
            "info, round 1: the peer says: the peer's data cannot be used: the peer is called wrong");
  EXPECT_EQ(Two("throwing", hang_limit).run(), "info, round 1: the plug-in threw an exception: thrown by exchange");
  EXPECT_EQ(Two("bad_message", hang_limit).run(),
            "info, round 1: the plug-in does not meet its interface: the plug-in made a message of 10 octets at NULL");
}

TEST_F(IsolatedPlugin, ACallThatDoesNotReturnEndsItsSessionAlone) {
  Two two("hanging", 1s);
  auto stands = std::move(*two.framework.make("echo", "hello", Role::initiator));
  ASSERT_TRUE(stands->exchange(Stage::info, std::nullopt));
  EXPECT_EQ(two.run({{"name", "blocks"}}),
            "info, round 1: the vendor's library failed: exchange() is not over after 1 s; its process was ended");
  EXPECT_EQ(two.run({}, {{"name", "blocks"}}),
            "info, round 1: the peer says: the vendor's library failed: exchange() is not over after 1 s; its "
            "process was ended");
  EXPECT_TRUE(stands->exchange(Stage::ready, std::nullopt)) << "another session of the same plug-in goes on";
  EXPECT_EQ(two.run(), "fine");
}

TEST_F(IsolatedPlugin, ACrashEndsItsSessionAlone) {
  Two two("hanging", hang_limit);
  EXPECT_EQ(two.run({{"name", "crashes"}}),
            "info, round 1: the vendor's library failed: exchange() has ended its process: Aborted");
  EXPECT_EQ(two.run({{"name", "exits"}}),
            "info, round 1: the vendor's library failed: exchange() has ended its process: exit status 7");
  EXPECT_EQ(two.run({{"name", "leaves"}}),
            "info, round 1: the vendor's library failed: exchange() has ended its process: exit status 0");
  EXPECT_EQ(two.run(), "fine");
}

TEST_F(IsolatedPlugin, WhatRunsApartHasAnsweredOnlyIfItReturns) {
  EXPECT_EQ(run_apart(hang_limit, [] { return 7; }), 7);
  const auto exited = run_apart(hang_limit, []() -> int { std::exit(0); });
  ASSERT_FALSE(exited);
  EXPECT_EQ(exited.error(), "it has ended its process: exit status 0");
}

/// The process of which `start` is told a pipe's end to write its process ID to, in a parent that is killed then.
template <class Start>
void expect_to_end_with_its_parent(Start start) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    start(ends[1]);
    ::_exit(0);
  }
  ::close(ends[1]);
  pid_t orphan = 0;
  ASSERT_EQ(::read(ends[0], &orphan, sizeof orphan), static_cast<ssize_t>(sizeof orphan));
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  // The orphan has the pipe's other end: it ends with the process, which would take 20 s by itself.
  pollfd gone{ends[0], POLLIN, 0};
  EXPECT_EQ(::poll(&gone, 1, 10'000), 1) << "process " << orphan << " outlives its parent";
  ::close(ends[0]);
}

[[noreturn]] void tell_and_stop(int pipe) {
  const pid_t self = ::getpid();
  (void)!::write(pipe, &self, sizeof self);
  for (;;) ::raise(SIGSTOP);
}

TEST_F(IsolatedPlugin, AProcessThatHangsEndsWithItsParent) {
  expect_to_end_with_its_parent(
      [](int pipe) { (void)run_apart(hang_limit, [pipe]() -> int { tell_and_stop(pipe); }); });
  // A session's process keeps nothing of its parent's but standard error.
  expect_to_end_with_its_parent([](int pipe) {
    ::dup2(pipe, STDERR_FILENO);
    ::close(pipe);
    const auto process = Process::start([](ConstBytes) -> Bytes { tell_and_stop(STDERR_FILENO); }, hang_limit);
    (void)(*process)->ask("stopping", {}, hang_limit);
  });
}

/// What a plug-in forks and leaves behind: it holds every descriptor that its parent has, and would never end by itself.
void fork_and_leave() {
  if (::fork() == 0)
    for (;;) ::pause();
}

/// One end of a pipe, of which the other is standard error of all that is started meanwhile: `all_gone` when none of them lives.
class Descendants {
 public:
  Descendants() : kept_(::dup(STDERR_FILENO)) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
    end_ = ends[0];
  }
  ~Descendants() {
    restore();
    ::close(end_);
  }
  Descendants(const Descendants&) = delete;
  Descendants& operator=(const Descendants&) = delete;
  bool all_gone() {
    restore();
    pollfd gone{end_, 0, 0};
    return ::poll(&gone, 1, hang_milliseconds) == 1;
  }

 private:
  void restore() {
    if (kept_ < 0) return;
    ::dup2(kept_, STDERR_FILENO);
    ::close(std::exchange(kept_, -1));
  }
  int kept_, end_ = -1;
};

TEST_F(IsolatedPlugin, WhatItForksEndsWithIt) {
  for (const std::string how : {"asked", "crashes", "hangs", "exits"}) {
    Descendants descendants;
    {
      auto process = std::move(*Process::start(
          [how](ConstBytes) {
            fork_and_leave();
            if (how == "crashes") std::abort();
            if (how == "exits") std::exit(3);
            while (how == "hangs") ::pause();
            return Bytes(1);
          },
          hang_limit));
      const auto answer = process->ask("a call", {}, how == "hangs" ? Duration(200ms) : Duration(hang_limit));
      EXPECT_EQ(answer ? "an answer" : answer.error().text, how == "asked"     ? "an answer"
                                                            : how == "crashes" ? "a call has ended its process: Aborted"
                                                            : how == "hangs"
                                                                ? "a call is not over after 200 ms"
                                                                : "a call has ended its process: exit status 3");
      if (how == "asked") process.reset();
      EXPECT_TRUE(descendants.all_gone()) << how << ": where a call has failed, at once";
    }
  }
  Descendants descendants;
  EXPECT_EQ(run_apart(hang_limit, [] { return fork_and_leave(), 7; }), 7);
  const auto exited = run_apart(hang_limit, []() -> int {
    fork_and_leave();
    std::_Exit(4);
  });
  EXPECT_EQ(exited ? "an answer" : exited.error(), "it has ended its process: exit status 4");
  EXPECT_TRUE(descendants.all_gone());
}

TEST_F(IsolatedPlugin, WhatItForksEndsWithItsParent) {
  expect_to_end_with_its_parent([](int pipe) {
    (void)run_apart(hang_limit, [pipe]() -> int {
      fork_and_leave();
      tell_and_stop(pipe);
    });
  });
}

TEST_F(IsolatedPlugin, ACallBehindTheEndIsAnErrorToo) {
  Two two("hanging", hang_limit);
  auto variant = std::move(*two.framework.make("echo", "hello", Role::initiator, {{"name", "crashes"}}));
  ASSERT_FALSE(variant->exchange(Stage::info, std::nullopt));
  EXPECT_EQ(variant->finished(Stage::info).error().text, "finished() has no process any more");
}

TEST_F(IsolatedPlugin, WhatItSaysBesidesIsNotRead) {
  Two two("hanging", hang_limit);
  EXPECT_EQ(two.run({{"name", "lies"}}),
            "info, round 1: the plug-in does not meet its interface: what its process answered cannot be read");
}

TEST_F(IsolatedPlugin, WhatIsNoneIsRefusedAsInThisProcess) {
  for (const char* name : {"no_symbol", "other_version", "no_function", "too_small", "many_variants"}) {
    const auto isolated = load_isolated_plugin(file_of(name), hang_limit);
    ASSERT_FALSE(isolated) << name;
    EXPECT_EQ(isolated.error().to_string(), load_plugin(file_of(name)).error().to_string());
  }
  EXPECT_EQ(
      load_isolated_plugin(file_of("crashing"), hang_limit).error().to_string(),
      "the plug-in does not meet its interface: " + file_of("crashing") + ": loading has ended its process: Aborted");
  EXPECT_EQ(load_isolated_plugin(file_of("echo"), 0s).error().problem, Problem::configuration_error);
}

TEST_F(IsolatedPlugin, AProcessHasNothingOfThisOnesButStandardError) {
  const auto counts = [](ConstBytes) { return Bytes(open_files()); };
  const auto process = std::move(*Process::start(counts, hang_limit));
  // Its own channel, the pipe that ends with its parent, the folder that it reads, and that folder's two entries for itself.
  EXPECT_EQ(process->ask("counting", {}, hang_limit)->size(), 3U + 1 + 1 + 1 + 2);
}

TEST_F(IsolatedPlugin, OneThatDoesNotEndIsKilled) {
  struct Stays {
    ~Stays() {
      while (::getpid() != parent) ::pause();
    }
    pid_t parent = ::getpid();
  };
  auto process = std::move(*Process::start([stays = std::make_shared<Stays>()](ConstBytes) { return Bytes(); }, 100ms));
  EXPECT_TRUE(process->ask("a call", {}, hang_limit));
  process.reset();
  expect_nothing_left();
}

TEST_F(IsolatedPlugin, MessagesOfAnyLengthPassAndTheLongestIsBounded) {
  const auto process =
      std::move(*Process::start([](ConstBytes request) { return Bytes(request.begin(), request.end()); }, hang_limit));
  for (const std::size_t size : {0U, 1U, 1U << 20, 3U << 20}) {
    Bytes octets(size, 7);
    ASSERT_TRUE(process->ask("an echo", octets, hang_limit));
    EXPECT_EQ(process->ask("an echo", octets, hang_limit), octets);
  }
  EXPECT_FALSE(process->ask("an echo", Bytes(Process::message_max + 1), hang_limit));
}

}  // namespace
}  // namespace parley::neg::isolated_plugin_test
