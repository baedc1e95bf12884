// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A structure of a management datagram, read and written again by its table.
#pragma once
#include <algorithm>

#include "base/bits.hpp"
#include "wire/mad/layout.hpp"

namespace parley::fuzz {

/// Each number on its own, reserved bits and GIDs by eights, structures by their members.
inline void copy_by_member(const wire::mad::Layout& layout, ConstBytes from, MutBytes to) {
  for (const wire::mad::Field& field : layout.fields) {
    if (field.nested != nullptr) {
      for (std::size_t i = 0; i < field.count; ++i) {
        const std::size_t at = field.octet() + i * field.width / 8U;
        copy_by_member(*field.nested, from.subspan(at, field.nested->octets), to.subspan(at, field.nested->octets));
      }
    } else if (field.reserved() || field.kind == wire::mad::Kind::gid) {
      for (std::size_t at = 0; at < field.width; at += 8) {
        const std::size_t width = std::min<std::size_t>(8, field.width - at);
        write_bits(to, field.bit + at, width, read_bits(from, field.bit + at, width));
      }
    } else {
      for (std::size_t i = 0; i < field.count; ++i) put_number(to, field, i, number_at(from, field, i));
    }
  }
}

}  // namespace parley::fuzz
