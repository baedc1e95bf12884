// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What C programs hold instead of pointers and references: numbers that are looked up, so that a stale or wrong one is an
// error and never read through.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace parley::capi {

/// Objects of the whole process, by handles that have the type of a pointer in C. Any thread may look up, add and take.
template <class Object, class Handle, std::size_t objects_max>
class Handles {
 public:
  /// Null: objects_max are there.
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
  /// Null: never made, or taken.
  Object* find(const Handle* handle) const {
    const auto number = reinterpret_cast<std::uintptr_t>(handle);
    const Slot& slot = slots_[number % objects_max];
    Object* object = slot.object.load(std::memory_order_acquire);
    return slot.handle.load(std::memory_order_relaxed) == number ? object : nullptr;
  }
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
  std::uintptr_t generation_ = 0;  // of all handles, so that none comes again for as long as the number lasts
};

/// Objects of one context, by numbers from 1 on: at most 65536 at once.
template <class Object>
class Table {
 public:
  static constexpr std::size_t objects_max = 1U << 16;

  /// 0: objects_max are there.
  std::uint32_t add(Object object) {
    if (free_.empty() && slots_.size() == objects_max) return 0;
    if (free_.empty()) {
      slots_.emplace_back();
      free_.reserve(slots_.capacity());  // so that remove() needs no memory
      free_.push_back(slots_.size() - 1);
    }
    const std::size_t at = free_.back();
    slots_[at].object = std::make_unique<Object>(std::move(object));
    free_.pop_back();
    slots_[at].generation = slots_[at].generation % 0xFFFF + 1;
    return slots_[at].generation << 16 | static_cast<std::uint32_t>(at);
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
