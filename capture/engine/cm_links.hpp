// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Links CM messages: the request that a message answers, and the message that it repeats (IBA vol. 1 §12.6 to §12.11).
#pragma once
#include "capture/engine/parley_engine.h"
#include "capture/rules/ibcm/cm_exchange.hpp"

namespace parley::capture {

/// Records a CM message from `from` in `connection`, and fills the message members of `out`.
void link(parley_engine_connection& connection, Side from, const CapturedCm& m, parley_engine_place& out);

}  // namespace parley::capture
