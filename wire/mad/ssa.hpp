// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Structures of parley/wire/mad_ssa.h: the distribution tree of subnet administration.
#pragma once
#include "wire/mad/common.hpp"

namespace parley::wire::mad {

PARLEY_MAD_SSA_STRUCTURES(PARLEY_MAD_DEFINE)

}  // namespace parley::wire::mad
