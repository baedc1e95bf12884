// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/snapshot.hpp"

#include <array>
#include <bit>
#include <utility>

#include "base/bytes_io.hpp"
#include "mpa/crc32c.hpp"

namespace parley::ssa {

namespace {

template <class... Numbers>
std::uint32_t extend(std::uint32_t state, Numbers... numbers) {
  const auto add = [&state](auto number) {
    std::array<std::uint8_t, sizeof number> octets;
    store(octets.data(), number, std::endian::big);
    state = mpa::crc32c_extend(state, octets);
  };
  (add(numbers), ...);
  return state;
}

std::uint32_t digest_of(const Schema& schema, Epoch epoch, std::uint32_t floor, std::span<const TableData> tables) {
  std::uint32_t state = extend(mpa::crc32c_init, epoch.number(), floor);
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const TableDef& def = schema.tables[t];
    state = mpa::crc32c_extend(state, {reinterpret_cast<const std::uint8_t*>(def.name.data()), def.name.size()});
    state = extend(state, def.record_octets, def.ref_at, tables[t].changed);
    for (const auto& block : tables[t].blocks) state = extend(state, block->crc);
    for (const auto& segment : tables[t].segments) state = extend(state, segment->crc);
  }
  return mpa::crc32c_final(state);
}

}  // namespace

Result<void> check(const TableDef& table) {
  if (table.name.empty() || table.name.size() > table_name_max || table.name.find('\0') != std::string::npos)
    return fail(Errc::malformed, "a table's name has {a} octets, and must have 1 to {b}",
                static_cast<std::int64_t>(table.name.size()), static_cast<std::int64_t>(table_name_max));
  if (table.record_octets == 0 || table.record_octets > record_octets_max)
    return fail(Errc::malformed, "a record has {a} octets, and must have 1 to {b}", table.record_octets,
                static_cast<std::int64_t>(record_octets_max));
  if (table.has_variable_part() && table.ref_at + std::size_t{8} > table.record_octets)
    return fail(Errc::malformed, "the reference to the variable part at octet {a} is not within a record of {b} octets",
                table.ref_at, table.record_octets);
  return {};
}

Result<void> check(const Schema& schema) {
  if (schema.tables.empty() || schema.tables.size() > tables_max)
    return fail(Errc::malformed, "a database has {a} tables, and must have 1 to {b}",
                static_cast<std::int64_t>(schema.tables.size()), static_cast<std::int64_t>(tables_max));
  for (const TableDef& table : schema.tables)
    if (const auto checked = check(table); !checked) return checked;
  return {};
}

std::uint32_t crc_of(const Block& block) {
  return mpa::crc32c_final(mpa::crc32c_extend(extend(mpa::crc32c_init, block.changed, block.live), block.records));
}
std::uint32_t crc_of(const Segment& segment) {
  return mpa::crc32c_final(mpa::crc32c_extend(extend(mpa::crc32c_init, segment.changed), segment.octets));
}

std::size_t TableData::area_octets() const {
  return segments.empty() ? 0 : (segments.size() - 1) * segment_octets + segments.back()->octets.size();
}

bool VariablePart::fits(std::size_t area_octets) const {
  if (length == 0) return true;
  return length <= segment_octets && offset <= area_octets && length <= area_octets - offset &&
         offset / segment_octets == (std::size_t{offset} + length - 1) / segment_octets;
}

VariablePart variable_part(const TableDef& def, ConstBytes record) {
  if (!def.has_variable_part()) return {};
  Reader in(record.subspan(def.ref_at));
  const std::uint32_t offset = in.be32();
  return {offset, in.be32()};
}

Snapshot::Snapshot(std::shared_ptr<const Schema> schema, Epoch epoch, std::uint32_t floor,
                   std::vector<TableData> tables)
    : schema_(std::move(schema)),
      epoch_(epoch),
      floor_(floor),
      tables_(std::move(tables)),
      digest_(digest_of(*schema_, epoch_, floor_, tables_)) {}

ConstBytes Snapshot::record(std::size_t table, RecordId id) const {
  if (table >= tables_.size() || id / block_records >= tables_[table].blocks.size()) return {};
  const Block& block = *tables_[table].blocks[id / block_records];
  const std::size_t size = schema_->tables[table].record_octets, at = id % block_records;
  return block.has(at) ? ConstBytes(block.records).subspan(at * size, size) : ConstBytes();
}

ConstBytes Snapshot::variable(std::size_t table, RecordId id) const {
  const ConstBytes octets = record(table, id);
  if (octets.empty()) return {};
  const VariablePart part = variable_part(schema_->tables[table], octets);
  if (part.length == 0) return {};
  const Segment& segment = *tables_[table].segments[part.offset / segment_octets];
  return ConstBytes(segment.octets).subspan(part.offset % segment_octets, part.length);
}

std::size_t Snapshot::size(std::size_t table) const {
  std::size_t out = 0;
  if (table < tables_.size())
    for (const auto& block : tables_[table].blocks) out += static_cast<std::size_t>(std::popcount(block->live));
  return out;
}

}  // namespace parley::ssa
