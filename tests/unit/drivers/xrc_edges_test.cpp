// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Edge cases of XRC's broker and shared registry: zombie processes, the default socket, a broker that fails to start, the
// bounds of a segment, a segment that is abandoned while processes wait for it.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "drivers/asio/descriptor.hpp"
#include "drivers/clock.hpp"
#include "drivers/xrcd/place.hpp"
#include "drivers/xrcshm/shared_link.hpp"
#include "tests/unit/drivers/broker_thread.hpp"
#include "tests/unit/drivers/quiet_fork.hpp"
#include "tests/unit/hang_limit.hpp"
#include "tests/unit/xrc/registry_kit.hpp"

namespace parley::xrc::xrc_edges_test {
namespace {

using namespace std::chrono_literals;
using kit::refusal_of;

/// A process that does that and then ends.
template <class Work>
pid_t child(Work work) {
  const pid_t pid = quiet_fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::_exit(work() ? 0 : 1);
}
int end_of(pid_t pid) {
  int status = -1;
  ::waitpid(pid, &status, 0);
  return status;
}
/// Sleeping or stopped, as /proc says it.
bool is_in_state(pid_t pid, char state) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.size() > name_end + 2 && stat[name_end + 2] == state;
}
template <class Check>
bool until(Check check) {
  for (const Instant end = clock_now() + hang_limit; clock_now() < end; std::this_thread::sleep_for(1ms))
    if (check()) return true;
  return false;
}

// It is dead as soon as it has ended, before its parent waits for it.
TEST(XrcEdges, AProcessThatIsNotWaitedForYetHasDied) {
  std::array<int, 2> hold{};
  ASSERT_EQ(::pipe(hold.data()), 0);
  const pid_t pid = child([&] {
    ::close(hold[1]);
    char octet = 0;
    return ::read(hold[0], &octet, 1) == 0;
  });
  ::close(hold[0]);
  const asio_driver::Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  ASSERT_GE(process.fd, 0) << std::strerror(errno);
  EXPECT_FALSE(has_died(process.fd));
  ::close(hold[1]);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(has_died(process.fd));
  EXPECT_EQ(end_of(pid), 0);
}

TEST(XrcEdges, WithoutASocketTheDefaultOneIsUsed) {
  const BrokerThread broker;
  const char* const before = std::getenv("PARLEY_XRCD");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("PARLEY_XRCD", broker.socket().c_str(), 1);
  const auto domain =
      Domain::open(broker.file("domain"), {.form = RegistryKind::broker, .start = false, .patience = hang_limit});
  EXPECT_TRUE(domain) << refusal_of(domain);
  before == nullptr ? ::unsetenv("PARLEY_XRCD") : ::setenv("PARLEY_XRCD", kept.c_str(), 1);
}

// The broker is no child of the program that starts it: also one that ends at once leaves nothing to wait for.
TEST(XrcEdges, ABrokerThatEndsAtOnceLeavesNoChildBehind) {
  const BrokerThread folder(false);
  const pid_t own = ::getpid();
  const auto domain = Domain::open(
      folder.file("domain"),
      {.form = RegistryKind::broker, .socket = folder.socket(), .program = "/bin/false", .patience = 100ms});
  if (::getpid() != own) ::_exit(1);  // no copy of this test goes on
  EXPECT_EQ(refusal_of(domain), "no_broker");
  int status = 0;
  EXPECT_EQ(::waitpid(-1, &status, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

/// A shared registry in a folder of its own.
struct XrcBlock : testing::Test {
  const BrokerThread folder{false};
  const std::string path = folder.file("segment");
  Result<std::shared_ptr<Segment>> open(const RegistryOptions& rules = {}) const {
    Segment::Options options;
    options.path = path;
    options.registry = rules;
    options.patience = 2 * hang_limit;
    return Segment::open(options);
  }
};

TEST_F(XrcBlock, NumbersBeyondTheBoundRestNoLonger) {
  RegistryOptions rules;
  rules.quarantine = 1h;
  rules.resting_max = 1;
  rules.qpn_first = 0x800000;
  rules.qpn_last = 0x800001;
  const auto first = open(rules);
  ASSERT_TRUE(first) << refusal_of(first);
  auto domain =
      Domain::open(folder.file("domain"), {.form = RegistryKind::shared, .segment = path, .patience = hang_limit});
  ASSERT_TRUE(domain) << refusal_of(domain);
  std::uint32_t oldest = 0;
  for (int i = 0; i < 2; ++i) {
    auto qp = domain->create();
    ASSERT_TRUE(qp) << refusal_of(qp);
    if (i == 0) oldest = qp->qpn();
    ASSERT_TRUE(qp->release());
  }
  const auto again = domain->create();
  ASSERT_TRUE(again) << refusal_of(again);
  EXPECT_EQ(again->qpn(), oldest);
}

// The process that had the lock left the block damaged. Whichever waiter gets the lock first gives the block up; the others learn it at
// once, not when their patience ends.
TEST_F(XrcBlock, ThoseThatWaitForADamagedBlockLearnAtOnceThatItIsGivenUp) {
  struct Progress {
    std::atomic<std::uint32_t> ready{0}, locked{0}, learned{0};
  };
  auto* const seen = new (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Progress;
  const auto made = open();
  ASSERT_TRUE(made) << refusal_of(made);
  std::array<pid_t, 2> waiting{};
  for (pid_t& each : waiting)
    each = child([&] {
      const auto own = open();
      for (++seen->ready; seen->locked == 0;) ::sched_yield();
      const auto said = (*own)->enter(clock_now(), Arena::Kind::grows, [](SharedRegistry&) {});
      if (refusal_of(said) == "stale_epoch") ++seen->learned;
      ::pause();  // a process that ends would free the lock
      return true;
    });
  ASSERT_TRUE(until([&] { return seen->ready == waiting.size(); }));
  const pid_t owner = child([&] {
    const auto own = open();
    (void)(*own)->enter(clock_now(), Arena::Kind::grows, [&](SharedRegistry&) {
      std::memset(static_cast<void*>(&(*own)->arena()), 0xEE, 64);
      ++seen->locked;
      ::raise(SIGSTOP);
    });
    return true;
  });
  ASSERT_TRUE(until([&] { return is_in_state(owner, 'T'); }));
  for (const pid_t each : waiting) ASSERT_TRUE(until([&] { return is_in_state(each, 'S'); }));
  ::kill(owner, SIGKILL);
  (void)end_of(owner);
  EXPECT_TRUE(until([&] { return seen->learned == waiting.size(); })) << "one of them still waits";
  for (const pid_t each : waiting) {
    ::kill(each, SIGKILL);
    (void)end_of(each);
  }
  ::munmap(seen, 4096);
}

}  // namespace
}  // namespace parley::xrc::xrc_edges_test
