// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A DREQ's note on how its sender ended (wire/ib/cm_marker.hpp, kind 3). InfiniBand's CM has no field for it: a DREQ looks the same
// whether its user has finished or gave up (IBA §12.6.10).
//
//   octet 6  0 delivered   the user disconnected, and all posted requests were acknowledged
//            1 incomplete  the user disconnected, and requests were not acknowledged in time
//            2 abandoned   the user closed or destroyed the connection without a disconnect
//            3 failed      the queue pair failed
//            others        a receiver treats them as abandoned
//   octet 7  number of requests that were not acknowledged; 255: 255 or more
#pragma once
#include "wire/ib/cm_marker.hpp"

namespace parley::cm::ibcm {

namespace marker = wire::ib::marker;

struct EndNote {
  enum class How : std::uint8_t { delivered = 0, incomplete = 1, abandoned = 2, failed = 3 };
  How how = How::abandoned;
  std::uint8_t left = 0;
  bool operator==(const EndNote&) const = default;
};

EndNote end_note(EndNote::How how, std::size_t left);
void put_end_note(MutBytes private_data, const EndNote& note);
/// None: the sender is not Parley, or sent no note.
std::optional<EndNote> end_note_of(ConstBytes private_data);

}  // namespace parley::cm::ibcm
