// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What those that went leave to those that come, which then need no memory of their own.
#pragma once
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace parley::cm {

template <class T>
class Spares {
 public:
  static constexpr std::size_t most = 64;

  Spares() { kept_.reserve(most); }
  bool full() const { return kept_.size() == most; }
  /// One as it was left; an empty T: there is none.
  T take() {
    if (kept_.empty()) return {};
    T out = std::move(kept_.back());
    kept_.pop_back();
    return out;
  }
  /// Where there is no room it ends here.
  void keep(T thing) noexcept {
    if (!full()) kept_.push_back(std::move(thing));
  }

 private:
  std::vector<T> kept_;
};

/// As std::make_unique, where a spare one is if there is one.
template <class T>
std::unique_ptr<T> make_from(Spares<std::unique_ptr<T>>& spares) {
  std::unique_ptr<T> out = spares.take();
  if (out == nullptr) return std::make_unique<T>();
  *out = T{};
  return out;
}

}  // namespace parley::cm
