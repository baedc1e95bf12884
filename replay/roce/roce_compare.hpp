// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whether a packet of a live RoCE peer means what a recorded one did. Not compared: communication and transaction IDs, numbers of queue
// pairs, PSNs, GUIDs, addresses, MSNs, credits, and whether an acknowledgment was asked for.
#pragma once
#include <optional>
#include <span>

#include "replay/compare.hpp"
#include "replay/roce/roce_recording.hpp"

namespace parley::replay {

/// `masks`: octets of the recorded packet that name memory, in its payload or its private data. Returns the first difference.
std::optional<Mismatch> compare(const RoceStep& recorded, const RoceStep& live, std::span<const Field> masks,
                                const Leniency& leniency);

}  // namespace parley::replay
