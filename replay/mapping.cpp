// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "replay/mapping.hpp"

#include <algorithm>
#include <set>

#include "base/bytes_io.hpp"
#include "replay/answers.hpp"

namespace parley::replay {
namespace {

using wire::RdmapOpcode;

std::uint64_t read_value(ConstBytes octets, std::size_t at, std::size_t size, bool little) {
  if (at > octets.size() || octets.size() - at < size) return 0;
  Reader r(octets.subspan(at, size));
  if (size == 8) return little ? r.le64() : r.be64();
  return little ? r.le32() : r.be32();
}

struct Used {
  Use use;
  std::set<std::uint64_t> offsets;  // each TO at which a message of the played side begins
  std::size_t item = 0, past = 0;   // the last name found: in which item, and where it ends
};

void note_use(std::map<std::uint32_t, Used>& uses, std::uint32_t stag, std::uint64_t to, std::uint64_t length) {
  const auto [it, added] = uses.try_emplace(stag);
  Use& u = it->second.use;
  const std::uint64_t end = to + length < to ? to : to + length;
  u.stag = stag;
  it->second.offsets.insert(to);
  if (length == 0) {
    if (added) u.begin = u.end = to;
    return;
  }
  u.begin = u.moved ? std::min(u.begin, to) : to;
  u.end = u.moved ? std::max(u.end, end) : end;
  u.moved = true;
}

std::map<std::uint32_t, Used> uses_of(const SideRecord& played) {
  std::map<std::uint32_t, Used> uses;
  for (const Item& item : played.items) {
    if (!item.header.tagged && !names_known(item)) continue;  // it is not played either
    if (item.is(RdmapOpcode::rdma_write)) note_use(uses, item.header.stag, item.header.to, item.length);
    if (const auto q = wire::ReadRequest::parse(item.payload); q && item.is(RdmapOpcode::read_request))
      note_use(uses, q->source_stag, q->source_to, q->size);
    if (const auto a = wire::AtomicRequest::parse(item.payload); a && item.is(RdmapOpcode::atomic_request))
      note_use(uses, a->stag, a->to, 8);
    if ((item.is(RdmapOpcode::send_inv) || item.is(RdmapOpcode::send_se_inv)) && item.header.stag != 0)
      uses[item.header.stag].use.stag = item.header.stag;
  }
  return uses;
}

/// Finds the TO next to an STag: before it as in rping, or after it, perhaps with a length in between.
bool find_offset(ConstBytes octets, const Field& stag, const std::set<std::uint64_t>& wanted, Field& out) {
  const std::size_t places[] = {stag.offset - 8, stag.offset + 4, stag.offset + 8, stag.offset - 12};
  for (const std::size_t at : places) {
    if (at > octets.size() || octets.size() - at < 8) continue;  // also skips an offset that wrapped below 0
    for (const bool little : {stag.little, !stag.little}) {
      const std::uint64_t value = read_value(octets, at, 8, little);
      if (value == 0 || !wanted.contains(value)) continue;
      out = stag;
      out.is_to = true;
      out.offset = at;
      out.little = little;
      out.to = value;
      return true;
    }
  }
  return false;
}

/// rping's rdma_info: TO, STag, length, most significant octet first.
bool rping_form(const Item& item, std::size_t index, std::vector<Field>& fields) {
  constexpr std::uint64_t length_max = 16 << 20;
  if (!item.is_send() || item.payload.size() != 16 || !item.unknown.empty()) return false;
  Reader r(item.payload);
  const std::uint64_t to = r.be64();
  const std::uint32_t stag = r.be32(), length = r.be32();
  if (to == 0 || stag == 0 || length == 0 || length > length_max) return false;
  Field field;
  field.item = index;
  field.stag = stag;
  field.offset = 8;
  fields.push_back(field);
  field.offset = 0;
  field.is_to = true;
  field.to = to;
  fields.push_back(field);
  return true;
}

void find_in(const Item& item, std::size_t index, std::map<std::uint32_t, Used>& uses, std::vector<Field>& fields) {
  if (rping_form(item, index, fields)) {
    if (const auto it = uses.find(fields.back().stag); it != uses.end()) it->second.use.advertised = true;
    return;
  }
  const ConstBytes octets = names_in(item);
  constexpr std::size_t searched_max = 4096;  // announcements are at the head of a message
  const std::size_t from = fields.size();
  const auto found = [&](std::size_t at, std::uint32_t stag, bool little) {
    const auto it = stag != 0 ? uses.find(stag) : uses.end();
    if (it == uses.end()) return;
    Used& used = it->second;
    if (used.item == index && at < used.past) return;  // names of one STag do not overlap
    used.item = index;
    used.past = at + 4;
    used.use.advertised = true;
    Field field;
    field.item = index;
    field.offset = at;
    field.stag = stag;
    field.little = little;
    fields.push_back(field);
    Field offset;
    if (find_offset(octets, field, used.offsets, offset)) fields.push_back(offset);
  };
  // Each offset is read once and looked up: a recording may have as many STags as messages.
  for (std::size_t at = 0; at + 4 <= std::min(octets.size(), searched_max); ++at) {
    const auto big = static_cast<std::uint32_t>(read_value(octets, at, 4, false));
    const auto little = static_cast<std::uint32_t>(read_value(octets, at, 4, true));
    found(at, big, false);
    // A value that is the same in both octet orders counts once.
    if (little != big) found(at, little, true);
  }
  std::stable_sort(fields.begin() + static_cast<std::ptrdiff_t>(from), fields.end(),
                   [](const Field& x, const Field& y) { return x.stag < y.stag; });
}

}  // namespace

ConstBytes names_in(const Item& item) {
  if (item.startup) return item.startup->private_data;
  if (item.is_send()) return item.payload;
  return {};
}

std::uint64_t read_field(ConstBytes octets, const Field& field) {
  return read_value(octets, field.offset, field.size(), field.little);
}

void write_field(MutBytes octets, const Field& field, std::uint64_t value) {
  if (field.offset > octets.size() || octets.size() - field.offset < field.size()) return;
  Writer w(octets.subspan(field.offset, field.size()));
  if (field.is_to) return field.little ? w.le64(value) : w.be64(value);
  const auto low = static_cast<std::uint32_t>(value);
  field.little ? w.le32(low) : w.be32(low);
}

Names find_names(const SideRecord& peer, const SideRecord& played) {
  Names out;
  std::map<std::uint32_t, Used> uses = uses_of(played);
  for (std::size_t i = 0; i < peer.items.size(); ++i) find_in(peer.items[i], i, uses, out.fields);
  for (const auto& [stag, used] : uses) out.uses.push_back(used.use);
  return out;
}

void NameMap::learn_to(std::uint32_t recorded_stag, std::uint64_t recorded, std::uint64_t live) {
  const auto [it, added] = targets_.try_emplace(recorded_stag);
  if (added) it->second.stag = recorded_stag;
  it->second.bases[recorded] = live;
}

std::uint32_t NameMap::stag(std::uint32_t recorded) const {
  const auto it = targets_.find(recorded);
  return it == targets_.end() ? recorded : it->second.stag;
}

std::uint64_t NameMap::to(std::uint32_t recorded_stag, std::uint64_t recorded) const {
  const auto it = targets_.find(recorded_stag);
  if (it == targets_.end() || it->second.bases.empty()) return recorded;
  auto base = it->second.bases.upper_bound(recorded);
  if (base != it->second.bases.begin()) --base;
  return base->second + (recorded - base->first);
}

}  // namespace parley::replay
