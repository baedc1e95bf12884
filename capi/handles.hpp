// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// C programs hold numbers instead of pointers and references. Each call looks the number up, so that a stale or wrong
// one is an error and is never dereferenced.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace parley::capi {

/// Objects of the whole process by handles, which have a pointer type in C. Any thread may call add, find and take.
template <class Object, class Handle, std::size_t objects_max>
class Handles {
 public:
  /// Null: there are already objects_max.
  Handle* add(std::unique_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < objects_max; ++i) {
      const std::size_t at = (next_ + i) % objects_max;
      if (slots_[at].object.load(std::memory_order_relaxed) != nullptr) continue;
      next_ = at + 1;
      const std::uintptr_t handle = ++generation_ * objects_max + at;
      slots_[at].handle.store(handle, std::memory_order_relaxed);
      slots_[at].object.store(object.release(), std::memory_order_release);
      return reinterpret_cast<Handle*>(handle);
    }
    return nullptr;
  }
  /// Null: the handle was never given out, or was taken.
  Object* find(const Handle* handle) const {
    const auto number = reinterpret_cast<std::uintptr_t>(handle);
    const Slot& slot = slots_[number % objects_max];
    Object* object = slot.object.load(std::memory_order_acquire);
    return slot.handle.load(std::memory_order_relaxed) == number ? object : nullptr;
  }
  /// The slot of an existing object; no other object has the same.
  static std::size_t place(const Handle* handle) { return reinterpret_cast<std::uintptr_t>(handle) % objects_max; }
  std::unique_ptr<Object> take(const Handle* handle) {
    const std::lock_guard lock(mutex_);
    Object* object = find(handle);
    if (object == nullptr) return nullptr;
    Slot& slot = slots_[reinterpret_cast<std::uintptr_t>(handle) % objects_max];
    slot.handle.store(0, std::memory_order_relaxed);
    slot.object.store(nullptr, std::memory_order_release);
    return std::unique_ptr<Object>(object);
  }

 private:
  struct Slot {
    std::atomic<Object*> object{nullptr};
    std::atomic<std::uintptr_t> handle{0};
  };
  std::array<Slot, objects_max> slots_{};
  std::mutex mutex_;
  std::size_t next_ = 0;
  std::uintptr_t generation_ = 0;  // counts all handles, so that none repeats until it overflows
};

/// Makes the numbers that a context gives out different from those of all other open contexts, by an exclusive or with
/// the context's place. The place's lowest bit becomes the highest of 32 bits, which numbers use last. Two contexts can
/// share a number only when one has many thousands of objects, or has reused one place of its tables as often. Even
/// then the number is looked up and never dereferenced.
class Tag {
 public:
  Tag() = default;
  /// `place` must be less than 4096 and unique among open contexts.
  explicit Tag(std::size_t place) {
    for (unsigned i = 0; i < 12; ++i) bits_ |= static_cast<std::uint32_t>(place >> i & 1) << (31 - i);
  }
  /// Converts the context's own number to the program's, and back.
  std::uint32_t of(std::uint32_t number) const { return number ^ bits_; }
  std::uint64_t of(std::uint64_t number) const { return number ^ std::uint64_t{bits_} << 32; }
  /// Whether another context gave out the id. Ids count from 1 in bits 32 to 51. Beyond a million ids the result is
  /// wrong for the context's own ids, which only changes the error text for a destroyed one.
  bool is_foreign(std::uint64_t id) const { return of(id) >> 52 != 0 && (id >> 32 & 0xFFFFF) != 0; }

 private:
  std::uint32_t bits_ = 0;
};

/// Objects of one context by numbers, which are never 0; at most 65536 at once.
template <class Object>
class Table {
 public:
  static constexpr std::size_t objects_max = 1U << 16;

  /// 0: there are already objects_max. Never returns the number `not_this`.
  std::uint32_t add(Object object, std::uint32_t not_this) {
    if (free_.empty() && slots_.size() == objects_max) return 0;
    if (free_.empty()) {
      slots_.emplace_back();
      free_.reserve(slots_.capacity());  // so that remove() needs no memory
      free_.push_back(slots_.size() - 1);
    }
    const std::size_t at = free_.back();
    slots_[at].object = std::make_unique<Object>(std::move(object));
    free_.pop_back();
    std::uint32_t number = 0;
    do {
      slots_[at].generation = slots_[at].generation % 0xFFFF + 1;
      number = slots_[at].generation << 16 | static_cast<std::uint32_t>(at);
    } while (number == not_this);
    return number;
  }
  Object* find(std::uint32_t number) const {
    const std::size_t at = number & 0xFFFF;
    return at < slots_.size() && slots_[at].generation == number >> 16 ? slots_[at].object.get() : nullptr;
  }
  void remove(std::uint32_t number) noexcept {
    if (find(number) == nullptr) return;
    slots_[number & 0xFFFF].object.reset();
    free_.push_back(number & 0xFFFF);
  }

 private:
  struct Slot {
    std::unique_ptr<Object> object;
    std::uint32_t generation = 0;
  };
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_;
};

}  // namespace parley::capi
