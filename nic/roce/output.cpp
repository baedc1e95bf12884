// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "nic/roce/output.hpp"

#include <algorithm>
#include <cstring>

#include "base/bytes_io.hpp"

namespace parley::nic::roce {
namespace {

void copy_out(std::span<const MutBytes> memory, std::size_t offset, std::size_t length, Writer& w) {
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
}

}  // namespace

std::size_t write_packet(const wire::ib::Packet& head, std::span<const MutBytes> memory, std::size_t offset,
                         std::size_t length, MutBytes out) {
  const std::size_t headers = head.emit_headers(length, out);
  Writer w(out.subspan(headers));
  copy_out(memory, offset, length, w);
  w.zeros(wire::ib::pad_of(length));
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
