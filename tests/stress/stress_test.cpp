// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Crowds over loopback: each connect has one outcome, each connection one end, and ids, descriptors and memory come back.
// PARLEY_STRESS in the environment is the number of connections (./dev stress: 10,000); without it, 1,000.
#include <dirent.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "drivers/open_files.hpp"
#include "tests/stress/counting_new.hpp"
#include "tests/stress/crowd.hpp"
#include "tests/unit/hang_limit.hpp"

namespace parley::stress {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t at_once = 256;
constexpr Duration limit = hang_limit;

std::uint32_t connections() {
  const char* const asked = std::getenv("PARLEY_STRESS");
  return asked == nullptr ? 1000 : static_cast<std::uint32_t>(std::strtoul(asked, nullptr, 10));
}

std::size_t open_files() {
  std::size_t n = 0;
  DIR* const all = ::opendir("/proc/self/fd");
  while (::readdir(all) != nullptr) ++n;
  ::closedir(all);
  return n;
}

void expect_nothing_wrong(const Crowd& crowd) {
  for (const std::string& text : crowd.wrong()) ADD_FAILURE() << text;
}

class Stress : public testing::Test {
 protected:
  void SetUp() override {
    raise_open_files();
    Crowd(50, at_once, 1).run(limit);  // what is made once and kept
  }
};

TEST_F(Stress, EachConnectHasOneOutcomeAndNothingIsLeft) {
  const std::uint32_t half = connections() / 2;
  const counting_new::Heap before = counting_new::alive();
  const std::size_t files_before = open_files();
  {
    Crowd crowd(half, at_once, 2);
    const std::size_t files = open_files();
    crowd.run(limit);
    expect_nothing_wrong(crowd);
    EXPECT_EQ(open_files(), files) << "descriptors after the first half";
    const counting_new::Heap first = counting_new::alive();
    crowd.again(3);
    crowd.run(limit);
    expect_nothing_wrong(crowd);
    EXPECT_EQ(open_files(), files) << "descriptors after the second half";
    EXPECT_EQ(crowd.endpoints(), 2U) << "the listeners";
    // What has grown to its size stays. Which tables have come how far is a matter of chance, but not of numbers.
    const counting_new::Heap second = counting_new::alive();
    EXPECT_LT(second.pieces - first.pieces, 32) << "pieces of memory that the second half left behind";
    EXPECT_LT(second.octets - first.octets, 128 << 10);
    std::string kinds;
    for (std::size_t i = 0; i < kind_count; ++i) {
      const auto kind = static_cast<Kind>(i);
      EXPECT_GT(crowd.begun(kind), 0U) << to_string(kind);
      kinds += (kinds.empty() ? "" : ", ") + std::to_string(crowd.begun(kind)) + " " + std::string(to_string(kind));
    }
    EXPECT_GT(crowd.accepted(), half);
    std::printf("%s\n%llu requests accepted or rejected; heap: %lld pieces before, %lld and %lld between, ",
                kinds.c_str(), static_cast<unsigned long long>(crowd.accepted()), static_cast<long long>(before.pieces),
                static_cast<long long>(first.pieces), static_cast<long long>(second.pieces));
  }
  const counting_new::Heap after = counting_new::alive();
  std::printf("%lld after\n", static_cast<long long>(after.pieces));
  EXPECT_EQ(after.pieces, before.pieces);
  EXPECT_EQ(open_files(), files_before);
}

// Under ThreadSanitizer: hosts of different threads share nothing, and wake() may come from any thread at any time.
TEST_F(Stress, HostsOfTwoThreadsAndWakesFromAThird) {
  const std::uint32_t each = connections() / 10;
  Crowd a(each, at_once / 4, 4), b(each, at_once / 4, 5);
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> wakes = 0;
  std::thread waker([&] {
    while (!stop) {
      a.host().wake();
      b.host().wake();
      ++wakes;
      std::this_thread::yield();
    }
  });
  std::thread other([&] { b.run(limit); });
  a.run(limit);
  other.join();
  stop = true;
  waker.join();
  expect_nothing_wrong(a);
  expect_nothing_wrong(b);
  EXPECT_GT(wakes, 0U);
}

// A host that waits without end is woken by another thread, and waits again.
TEST_F(Stress, AWaitingHostIsWoken) {
  const auto host = TcpHost::open({});
  ASSERT_TRUE(host);
  std::atomic<std::uint32_t> woken = 0;
  constexpr std::uint32_t times = 1000;
  std::thread waker([&] {
    for (std::uint32_t i = 0; i < times; ++i) {
      (*host)->wake();
      woken.wait(i);
    }
  });
  while (woken < times) {
    ASSERT_TRUE((*host)->run_once(hang_limit)) << "after " << woken << " wakes";
    ++woken;
    woken.notify_one();
  }
  waker.join();
}

}  // namespace
}  // namespace parley::stress
