// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Objects of ended connections that new connections reuse without allocating memory.
#pragma once
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace parley::cm {

template <class T>
class FreeList {
 public:
  static constexpr std::size_t most = 64;

  FreeList() { kept_.reserve(most); }
  bool full() const { return kept_.size() == most; }
  /// An object as it was kept; an empty T: none is kept.
  T take() {
    if (kept_.empty()) return {};
    T out = std::move(kept_.back());
    kept_.pop_back();
    return out;
  }
  /// Destroys the object if there is no room for it.
  void keep(T thing) noexcept {
    if (!full()) kept_.push_back(std::move(thing));
  }

 private:
  std::vector<T> kept_;
};

/// Like std::make_unique, but reuses a kept object if there is one.
template <class T>
std::unique_ptr<T> make_from(FreeList<std::unique_ptr<T>>& spares) {
  std::unique_ptr<T> out = spares.take();
  if (out == nullptr) return std::make_unique<T>();
  *out = T{};
  return out;
}

}  // namespace parley::cm
