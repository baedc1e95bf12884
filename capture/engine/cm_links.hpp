// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Which messages of the CM belong together: what a message answers, and which it repeats (IBA vol. 1 §12.6 to §12.11).
#pragma once
#include "capture/engine/parley_engine.h"
#include "capture/rules/ibcm/cm_exchange.hpp"

namespace parley::capture {

/// Enters a message of that side, and fills what `out` has of messages.
void link(parley_engine_connection& connection, Side from, const CmSeen& m, parley_engine_place& out);

}  // namespace parley::capture
