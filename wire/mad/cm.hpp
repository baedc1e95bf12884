// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Structures of parley/wire/mad_cm.h: communication management. wire/ib/cm.hpp derives from these the messages that the
// CM uses.
#pragma once
#include "wire/mad/common.hpp"

namespace parley::wire::mad {

PARLEY_MAD_CM_STRUCTURES(PARLEY_MAD_DEFINE)

}  // namespace parley::wire::mad
