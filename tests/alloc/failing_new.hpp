// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// An allocator that fails at the nth call, for all of operator new in this program.
#pragma once
#include <cstddef>
#include <cstdint>
#include <new>

namespace parley::failing_new {

/// The nth allocation from now on fails, once; 0: none.
void arm(std::uint64_t nth);
/// All fail from now on.
void arm_for_good();
/// While one lives, no allocation fails, and none is counted towards the nth.
class Spared {
 public:
  Spared();
  ~Spared();
  Spared(const Spared&) = delete;
  Spared& operator=(const Spared&) = delete;
};
/// And within that, where they fail again.
class Unspared {
 public:
  Unspared();
  ~Unspared();
  Unspared(const Unspared&) = delete;
  Unspared& operator=(const Unspared&) = delete;

 private:
  int before_;
};
/// True if an allocation was asked for that was to fail. None fails from now on.
bool disarm();
/// Allocations that were not freed.
std::int64_t alive();
/// And how much memory they hold, with what the system's allocator rounds up.
std::int64_t octets_alive();
/// Allocations so far.
std::uint64_t made();

/// Runs `work` with the first allocation failing, then the second, and so on until it needs no more of them. Whatever
/// happens then, everything `work` made must be destroyed with it. Returns how many failures it lived through.
template <class Work, class Check>
std::uint64_t each(Work work, Check check) {
  for (std::uint64_t nth = 1;; ++nth) {
    const std::int64_t before = alive();
    bool thrown = false;
    arm(nth);
    try {
      work();
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    const bool reached = disarm();
    check(nth, thrown, alive() - before);
    if (!reached) return nth - 1;
  }
}

}  // namespace parley::failing_new
