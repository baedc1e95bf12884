// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "parley/roce.hpp"

namespace parley::roce {

QueuePair* queue_pair(parley::QueuePair* qp) { return dynamic_cast<QueuePair*>(qp); }

}  // namespace parley::roce
