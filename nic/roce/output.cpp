// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "nic/roce/output.hpp"

#include <algorithm>
#include <cstring>

#include "base/bytes_io.hpp"

namespace parley::nic::roce {

std::size_t write_packet(const wire::ib::Packet& head, std::span<const MutBytes> memory, std::size_t offset,
                         std::size_t length, MutBytes out) {
  const std::size_t headers = head.emit_headers(length, out);
  const std::uint8_t pad = wire::ib::pad_of(length);
  Writer w(out.subspan(headers));
  for (const MutBytes piece : memory) {
    if (length == 0) break;
    if (offset >= piece.size()) {
      offset -= piece.size();
      continue;
    }
    const std::size_t take = std::min(length, piece.size() - offset);
    w.bytes(piece.subspan(offset, take));
    length -= take;
    offset = 0;
  }
  w.zeros(pad);
  return headers + w.size();
}

void place(std::span<const MutBytes> memory, std::size_t offset, ConstBytes in) {
  for (const MutBytes piece : memory) {
    if (in.empty()) return;
    if (offset >= piece.size()) {
      offset -= piece.size();
      continue;
    }
    const std::size_t take = std::min(in.size(), piece.size() - offset);
    std::memcpy(piece.data() + offset, in.data(), take);
    in = in.subspan(take);
    offset = 0;
  }
}

}  // namespace parley::nic::roce
