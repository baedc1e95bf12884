// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Packets from memory and into it: payload is copied here, once in each direction.
#pragma once
#include <span>

#include "nic/roce/nic.hpp"
#include "wire/ib/packet.hpp"

namespace parley::nic::roce {

/// Writes `head`, [offset, offset + length) of the memory, and the pad. Returns the octets written, without the ICRC,
/// for which there is still room after them.
std::size_t write_packet(const wire::ib::Packet& head, std::span<const MutBytes> memory, std::size_t offset,
                         std::size_t length, MutBytes out);
/// Copies `in` to [offset, offset + in.size()) of the memory, which is large enough.
void place(std::span<const MutBytes> memory, std::size_t offset, ConstBytes in);

inline void set_path(PacketTo& to, const Path& path) {
  to.source = path.source;
  to.destination = path.destination;
  to.sgid_index = path.sgid_index;
  to.traffic_class = path.traffic_class;
  to.hop_limit = path.hop_limit;
  to.flow_label = path.flow_label;
  to.source_port = path.source_port;
}

}  // namespace parley::nic::roce
