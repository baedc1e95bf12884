// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whether what a live side said means what a recorded one did. Not compared: how TCP and DDP cut it, names of memory
// (mapping.hpp), what the recording does not hold, and where the answer to a Read is to be put, which is the live
// side's own affair.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "replay/mapping.hpp"

namespace parley::replay {

struct Mismatch {
  std::string what;  ///< "the private data differ at octet 12: recorded 0a, live 0b"
  std::string rule;  ///< "RFC 6581 §9.2"; empty when no clause is at stake
};

/// `masks`: the fields of the recorded item. `less`: so many messages of its queue that are recorded before it are not
/// said by the live side, which therefore counts its MSN without them. The first thing that differs, or nothing.
std::optional<Mismatch> compare(const Item& recorded, const Item& live, std::span<const Field> masks,
                                std::uint32_t less = 0);

}  // namespace parley::replay
