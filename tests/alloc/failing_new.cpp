// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tests/alloc/failing_new.hpp"

#include <malloc.h>

#include <cstdlib>

namespace {

std::uint64_t left = 0;  // to the one that fails; 0: none will
bool for_good = false;
bool reached = false;
int spared = 0;
std::int64_t count = 0;
std::int64_t octets = 0;
std::uint64_t total = 0;

void* allocate(std::size_t size, std::size_t alignment) {
  if (spared == 0 && (for_good || (left != 0 && --left == 0))) {
    reached = true;
    throw std::bad_alloc();
  }
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) throw std::bad_alloc();
  ++count;
  octets += static_cast<std::int64_t>(::malloc_usable_size(memory));
  ++total;
  return memory;
}

void release(void* memory) noexcept {
  if (memory == nullptr) return;
  --count;
  octets -= static_cast<std::int64_t>(::malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

namespace parley::failing_new {

void arm(std::uint64_t nth) {
  reached = false;
  left = nth;
}
void arm_for_good() {
  arm(0);
  for_good = true;
}
Spared::Spared() { ++spared; }
Spared::~Spared() { --spared; }
Unspared::Unspared() : before_(spared) { spared = 0; }
Unspared::~Unspared() { spared = before_; }
bool disarm() {
  left = 0;
  for_good = false;
  return reached;
}
std::int64_t alive() { return count; }
std::int64_t octets_alive() { return octets; }
std::uint64_t made() { return total; }

}  // namespace parley::failing_new

// This program has one thread.
void* operator new(std::size_t size) { return allocate(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new[](std::size_t size) { return allocate(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(std::size_t size, std::align_val_t align) { return allocate(size, static_cast<std::size_t>(align)); }
void* operator new[](std::size_t size, std::align_val_t align) {
  return allocate(size, static_cast<std::size_t>(align));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
