// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Compares the meaning of a live RoCE peer's packet with that of a recorded one. Not compared: communication and
// transaction IDs, QPNs, PSNs, GUIDs, addresses, MSNs, credits, and AckReq.
#pragma once
#include <optional>
#include <span>

#include "replay/compare.hpp"
#include "replay/roce/roce_recording.hpp"

namespace parley::replay {

/// `masks`: octets of the recorded packet that name memory, in its payload or its private data. Returns the first
/// difference, or nullopt.
std::optional<Mismatch> compare(const RoceStep& recorded, const RoceStep& live, std::span<const Field> masks,
                                const Leniency& leniency);

}  // namespace parley::replay
