// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Structures of parley/wire/mad_sa.h: subnet administration.
#pragma once
#include "wire/mad/smp.hpp"

namespace parley::wire::mad {

PARLEY_MAD_SA_STRUCTURES(PARLEY_MAD_DEFINE)

}  // namespace parley::wire::mad
