// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Finds the octets of a peer's messages that name its memory, and maps them to the live peer's names. A peer announces
// its STags and tagged offsets in private data and in Sends (no RFC says where). An announced value that the played
// side uses in a tagged header or a Read Request (RFC 5041 §4.2, RFC 5040 §4.4) is such a name. A Send in rping's form,
// 16 octets of TO, STag and length, counts as one even if it is not used.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "replay/recording.hpp"

namespace parley::replay {

/// A name in an item: 4 octets of STag or 8 of TO.
struct Field {
  std::size_t item = 0;    ///< of the peer's items
  std::size_t offset = 0;  ///< in the message's payload, or in the private data
  bool is_to = false;
  bool little = false;     ///< least significant octet first
  std::uint32_t stag = 0;  ///< as recorded
  std::uint64_t to = 0;    ///< as recorded; is_to only
  std::size_t size() const { return is_to ? 8 : 4; }
};

/// The octets that contain fields: a message's payload, a startup frame's private data, or nothing.
ConstBytes names_in(const Item& item);
std::uint64_t read_field(ConstBytes octets, const Field& field);
void write_field(MutBytes octets, const Field& field, std::uint64_t value);

/// Memory of the peer that the played side names: an STag and a range.
struct Use {
  std::uint32_t stag = 0;
  std::uint64_t begin = 0, end = 0;  ///< tagged offsets; equal when no data was moved
  bool advertised = false;           ///< the peer announced the STag in the recording
  bool moved = false;                ///< data was moved, not only an empty Write or Read
};

struct Names {
  std::vector<Field> fields;  ///< by item
  std::vector<Use> uses;      ///< one for each STag
};
/// `peer`: the owner of the memory.
Names find_names(const SideRecord& peer, const SideRecord& played);

/// Maps the recorded peer's names of memory to the live peer's.
class NameMap {
 public:
  void learn_stag(std::uint32_t recorded, std::uint32_t live) { targets_[recorded].stag = live; }
  void learn_to(std::uint32_t recorded_stag, std::uint64_t recorded, std::uint64_t live);
  bool knows(std::uint32_t recorded) const { return targets_.contains(recorded); }
  std::uint32_t stag(std::uint32_t recorded) const;
  std::uint64_t to(std::uint32_t recorded_stag, std::uint64_t recorded) const;

 private:
  struct Target {
    std::uint32_t stag = 0;
    std::map<std::uint64_t, std::uint64_t> bases;  // recorded to live; as many as the recording has fields
  };
  std::map<std::uint32_t, Target> targets_;
};

}  // namespace parley::replay
