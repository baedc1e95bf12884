// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/ibcm/end_note.hpp"

#include <algorithm>

namespace parley::cm::ibcm {

EndNote end_note(EndNote::How how, std::size_t left) {
  return {.how = how, .left = static_cast<std::uint8_t>(std::min<std::size_t>(left, 255))};
}

void put_end_note(MutBytes private_data, const EndNote& note) {
  marker::put(private_data, marker::Kind::end, {static_cast<std::uint8_t>(note.how), note.left});
}

std::optional<EndNote> end_note_of(ConstBytes private_data) {
  const auto value = marker::get(private_data, marker::Kind::end);
  if (!value) return std::nullopt;
  const auto how = static_cast<EndNote::How>((*value)[0]);
  return EndNote{.how = how > EndNote::How::failed ? EndNote::How::abandoned : how, .left = (*value)[1]};
}

}  // namespace parley::cm::ibcm
