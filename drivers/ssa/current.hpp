// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The snapshot that a node answers from. Readers take it and keep it as long as they need; a new one replaces it at once,
// and the old one is freed when its last reader has left.
#pragma once
#include <mutex>
#include <utility>

#include "ssa/snapshot.hpp"

namespace parley::ssa_driver {

class Current {
 public:
  /// Null before the first publish(). Any thread may call it, at any time.
  ssa::SnapshotPtr get() const {
    const std::scoped_lock lock(mutex_);
    return now_;
  }

  /// Replaces the snapshot; one thread publishes. Errors: wrong_state (`next` is null, or older than the present one);
  /// crc_mismatch (of the same epoch with another digest). After an error the present one stays.
  Result<void> publish(ssa::SnapshotPtr next) {
    const ssa::SnapshotPtr present = get();
    if (next == nullptr) return fail(Errc::wrong_state, "there is no database to publish");
    if (present != nullptr && compare(next->epoch(), present->epoch()) == ssa::EpochOrder::older)
      return fail(Errc::wrong_state, "the database has the counter {a}, and the present one {b}", next->epoch().counter,
                  present->epoch().counter);
    if (present != nullptr && next->epoch() == present->epoch() && next->digest() != present->digest())
      return fail(Errc::crc_mismatch, "the database has the epoch of the present one and another digest");
    const std::scoped_lock lock(mutex_);
    now_.swap(next);  // the former one is released without the lock
    return {};
  }

 private:
  mutable std::mutex mutex_;
  ssa::SnapshotPtr now_;
};

}  // namespace parley::ssa_driver
