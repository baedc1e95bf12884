// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The snapshot that a node answers from. Readers take it and keep it as long as they need; a new one replaces it at once,
// and the old one is freed when its last reader has left.
#pragma once
#include <atomic>
#include <utility>

#include "ssa/snapshot.hpp"

namespace parley::ssa_driver {

class Current {
 public:
  /// Null before the first publish(). Any thread may call it, at any time.
  ssa::SnapshotPtr get() const { return now_.load(std::memory_order_acquire); }

  /// Replaces the snapshot; one thread publishes. Errors: wrong_state (`next` is null, or older than the present one):
  /// the present one stays.
  Result<void> publish(ssa::SnapshotPtr next) {
    const ssa::SnapshotPtr present = get();
    if (next == nullptr) return fail(Errc::wrong_state, "there is no database to publish");
    if (present != nullptr && compare(next->epoch(), present->epoch()) == ssa::EpochOrder::older)
      return fail(Errc::wrong_state, "the database has the counter {a}, and the present one {b}", next->epoch().counter,
                  present->epoch().counter);
    now_.store(std::move(next), std::memory_order_release);
    return {};
  }

 private:
  std::atomic<ssa::SnapshotPtr> now_;
};

}  // namespace parley::ssa_driver
