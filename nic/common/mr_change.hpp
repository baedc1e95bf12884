// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// ibv_rereg_mr: what a memory region gets in place of what it has.
#pragma once
#include <optional>

#include "parley/bytes.hpp"
#include "parley/verbs.hpp"

namespace parley::nic {

/// Without a value, the region keeps what it has.
struct MrChange {
  std::optional<PdHandle> pd = {};
  std::optional<MutBytes> memory = {};  ///< at its own addresses
  std::optional<Access> access = {};
};

}  // namespace parley::nic
