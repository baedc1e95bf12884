// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Structures of parley/wire/mad_common.h: the headers that all classes share, ClassPortInfo, InformInfo and Notice.
#pragma once
#include "wire/mad/structure.hpp"

namespace parley::wire::mad {

PARLEY_MAD_COMMON_STRUCTURES(PARLEY_MAD_DEFINE)

}  // namespace parley::wire::mad
