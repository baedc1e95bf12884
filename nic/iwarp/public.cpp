// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "parley/iwarp.hpp"

namespace parley::iwarp {

std::string_view to_string(QpState state) {
  switch (state) {
    case QpState::idle: return "idle";
    case QpState::rts: return "rts";
    case QpState::closing: return "closing";
    case QpState::terminate: return "terminate";
    case QpState::error: return "error";
  }
  return "unknown state";
}

QueuePair* queue_pair(parley::QueuePair* qp) { return dynamic_cast<QueuePair*>(qp); }

}  // namespace parley::iwarp
