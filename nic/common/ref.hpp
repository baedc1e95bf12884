// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Ref: a reference-counted pointer, not thread-safe. Verbs objects refer to each other (a queue pair to its completion
// queues, all of them to the device's tables). Destroying them in the wrong order must not access freed memory, so the
// last reference deletes. Not used for anything else.
#pragma once
#include <cstdint>
#include <utility>

namespace parley::nic {

struct Counted {
  std::uint32_t refs = 0;
};

/// T derives from Counted.
template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) : object_(object) { ++object_->refs; }
  Ref(const Ref& other) : object_(other.object_) {
    if (object_) ++object_->refs;
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ && --object_->refs == 0) delete object_;
  }

  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

}  // namespace parley::nic
