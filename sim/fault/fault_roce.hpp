// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Damages one field of a RoCE packet and keeps its ICRC as right or wrong as before (IBA §7.8.1), or damages only the
// ICRC.
#pragma once
#include <cstdint>
#include <optional>

#include "base/rng.hpp"
#include "sim/fault/message_kind_frame.hpp"
#include "sim/net/frame.hpp"

namespace parley::sim {

/// Octets of a frame; none if `size` is 0.
struct FrameField {
  std::uint32_t at = 0, size = 0;
};
/// The position of the field in the packet. `layout` is of this frame.
FrameField find_packet_field(ConstBytes frame, const FrameLayout& layout, MessageField field);
/// Whether the ICRC of a RoCE packet is right.
bool icrc_right(const Frame& frame, const FrameLayout& layout);
/// Octets of a field with a numeric value; 0 for payload, private_data and crc.
std::uint32_t number_size(MessageField field);

struct PacketDamage {
  std::uint32_t octet = 0;
  std::uint8_t bits = 0;  ///< flipped bits; 0: the whole field was set
  bool vouched = false;   ///< the ICRC is right, so the receiver accepts the packet
};
/// Sets the field to `value`, or without one flips one of its bits. None if the packet has no such field.
std::optional<PacketDamage> damage_packet(Frame& frame, MessageField field, std::optional<std::uint64_t> value,
                                          Rng& rng);

}  // namespace parley::sim
