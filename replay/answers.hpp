// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Which recorded Read or Atomic Response answers which request, even where packets are missing: answers come in the
// order of the requests (RFC 5040 §5.5, RFC 7306 §5), a Read Response names the sink of its request (RFC 5040 §4.4), an
// Atomic Response its identifier (RFC 7306 §5.2.2). A request whose answer was lost is listed with the gap that may
// have contained it.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "replay/recording.hpp"

namespace parley::replay {

struct Answers {
  /// For each item of the answering side: which item of the asking side it answers.
  std::map<std::size_t, std::size_t> request_of;
  /// A Read Response that lost a middle part is two items: the first to the second. The second answers nothing.
  std::map<std::size_t, std::size_t> rest_of;
  std::set<std::size_t> rests;  ///< those second items
  /// For each step of the answering side in which octets are missing: the requests answered there, in order.
  std::map<std::size_t, std::vector<std::size_t>> owed_at;
};
Answers pair_answers(const SideRecord& answering, const SideRecord& asking);

/// A request for memory, or an answer, whose octets for where and how much are all in the recording. A Read or
/// Atomic Request that was sent shorter than RFC 5040 §4.4 and RFC 7306 §5.2.1 require names no memory.
bool names_known(const Item& item);
/// A request for memory for which the recording lacks octets that say where and how much; one that was sent too short
/// lacks nothing.
bool names_lost(const Item& item);

}  // namespace parley::replay
