// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Pairs recorded Read and Atomic Responses with their requests, even where packets are missing. Answers come in the
// order of the requests (RFC 5040 §5.5, RFC 7306 §5). A Read Response names the sink of its request (RFC 5040 §4.4), an
// Atomic Response the identifier of its request (RFC 7306 §5.2.2). A request whose answer was lost is listed with the
// gap that may have contained the answer.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "replay/recording.hpp"

namespace parley::replay {

struct Answers {
  /// For each answering item of the answering side: the item of the asking side that it answers.
  std::map<std::size_t, std::size_t> request_of;
  /// A Read Response that lost a middle part is two items. Maps the first to the second, which is not a separate answer.
  std::map<std::size_t, std::size_t> rest_of;
  std::set<std::size_t> rests;  ///< those second items
  /// For each step of the answering side in which octets are missing: the requests that were answered there, in order.
  std::map<std::size_t, std::vector<std::size_t>> owed_at;
};
Answers pair_answers(const SideRecord& answering, const SideRecord& asking);

/// Whether a message is complete. A Read or Atomic Request must have all octets that give the place and the size; one
/// that was sent shorter than RFC 5040 §4.4 and RFC 7306 §5.2.1 require names no memory.
bool names_known(const Item& item);
/// Whether the recording lacks octets of a Read or Atomic Request that give the place and the size. A request that was
/// sent too short lacks nothing.
bool names_lost(const Item& item);

}  // namespace parley::replay
