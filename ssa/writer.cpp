// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/writer.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/bytes_io.hpp"

namespace parley::ssa {

namespace {

constexpr std::size_t ref_octets = 8;

/// The record as it is stored: with the reference to its variable part.
Bytes stored(const TableDef& def, ConstBytes record, const VariablePart& part) {
  Bytes out(record.begin(), record.end());
  if (!def.has_variable_part()) return out;
  store(out.data() + def.ref_at, part.offset, std::endian::big);
  store(out.data() + def.ref_at + sizeof part.offset, part.length, std::endian::big);
  return out;
}

/// Whether two records are equal except for the reference to the variable part.
bool same_fixed_part(const TableDef& def, ConstBytes a, ConstBytes b) {
  if (!def.has_variable_part()) return std::equal(a.begin(), a.end(), b.begin(), b.end());
  const std::size_t end = def.ref_at + ref_octets;
  return std::equal(a.begin(), a.begin() + def.ref_at, b.begin()) &&
         std::equal(a.begin() + static_cast<std::ptrdiff_t>(end), a.end(),
                    b.begin() + static_cast<std::ptrdiff_t>(end));
}

}  // namespace

Result<DatabaseWriter> DatabaseWriter::create(Schema schema, std::uint32_t incarnation) {
  if (const auto checked = check(schema); !checked) return tl::unexpected(checked.error());
  if (incarnation == 0) return fail(Errc::invalid_argument, "incarnation 0 is not assigned to a master");
  return DatabaseWriter(std::move(schema), incarnation);
}

/// The first version is empty, and has the counter 1.
DatabaseWriter::DatabaseWriter(Schema schema, std::uint32_t incarnation)
    : schema_(std::make_shared<const Schema>(std::move(schema))),
      working_(schema_->tables.size()),
      last_(std::make_shared<const Snapshot>(schema_, Epoch{incarnation, 1}, 1,
                                             std::vector<TableData>(schema_->tables.size()))),
      floor_(1) {}

Result<void> DatabaseWriter::check_record(std::size_t table, ConstBytes record, ConstBytes variable) const {
  if (table >= working_.size())
    return fail(Errc::invalid_argument, "there is no table {a}", static_cast<std::int64_t>(table));
  const TableDef& def = schema_->tables[table];
  if (record.size() != def.record_octets)
    return fail(Errc::invalid_argument, "the record has {a} octets; those of its table have {b}",
                static_cast<std::int64_t>(record.size()), def.record_octets);
  if (!variable.empty() && !def.has_variable_part())
    return fail(Errc::invalid_argument, "records of table {a} have no variable part", static_cast<std::int64_t>(table));
  if (variable.size() > segment_octets)
    return fail(Errc::invalid_argument, "the variable part has {a} octets; it can have {b}",
                static_cast<std::int64_t>(variable.size()), static_cast<std::int64_t>(segment_octets));
  return {};
}

const Block* DatabaseWriter::find_block(std::size_t table, std::size_t index) const {
  const Working& working = working_[table];
  if (const auto at = working.blocks.find(index); at != working.blocks.end()) return &at->second;
  const auto& blocks = last_->tables()[table].blocks;
  return index < blocks.size() ? blocks[index].get() : nullptr;
}

Block& DatabaseWriter::edit_block(std::size_t table, std::size_t index) {
  Working& working = working_[table];
  const auto at = working.blocks.find(index);
  if (at != working.blocks.end()) return at->second;
  const Block* before = find_block(table, index);
  Block& block = working.blocks[index];
  if (before != nullptr)
    block = *before;
  else
    block.records.resize(schema_->tables[table].block_octets());
  return block;
}

Segment& DatabaseWriter::edit_segment(std::size_t table, std::size_t index) {
  Working& working = working_[table];
  const auto at = working.segments.find(index);
  if (at != working.segments.end()) return at->second;
  const auto& segments = last_->tables()[table].segments;
  Segment& segment = working.segments[index];
  if (index < segments.size()) segment = *segments[index];
  return segment;
}

MutBytes DatabaseWriter::edit_record(std::size_t table, RecordId id) {
  const std::size_t size = schema_->tables[table].record_octets;
  return MutBytes(edit_block(table, id / block_records).records).subspan(id % block_records * size, size);
}

/// Empty if it does not live.
ConstBytes DatabaseWriter::find_record(std::size_t table, RecordId id) const {
  const Block* block = find_block(table, id / block_records);
  const std::size_t size = schema_->tables[table].record_octets, at = id % block_records;
  return block != nullptr && block->has(at) ? ConstBytes(block->records).subspan(at * size, size) : ConstBytes();
}

ConstBytes DatabaseWriter::find_variable(std::size_t table, const VariablePart& part) const {
  if (part.length == 0) return {};
  const std::size_t index = part.offset / segment_octets;
  const auto at = working_[table].segments.find(index);
  const Segment& segment = at != working_[table].segments.end() ? at->second : *last_->tables()[table].segments[index];
  return ConstBytes(segment.octets).subspan(part.offset % segment_octets, part.length);
}

/// Appends to the variable area. A part that does not fit into the last segment begins the next one.
Result<VariablePart> DatabaseWriter::append(std::size_t table, ConstBytes variable) {
  if (variable.empty()) return VariablePart{};
  Working& working = working_[table];
  std::size_t offset = working.area_octets;
  const std::size_t left = segment_octets - offset % segment_octets;
  const std::size_t padding = left < variable.size() ? left : 0;
  if (offset + padding + variable.size() > area_octets_max)
    return fail(Errc::no_space, "the variable area of table {a} is full: {b} octets", static_cast<std::int64_t>(table),
                static_cast<std::int64_t>(offset));
  if (padding != 0) edit_segment(table, offset / segment_octets).octets.resize(segment_octets);
  offset += padding;
  working.wasted += padding;
  Bytes& octets = edit_segment(table, offset / segment_octets).octets;
  octets.insert(octets.end(), variable.begin(), variable.end());
  working.area_octets = offset + variable.size();
  return VariablePart{static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(variable.size())};
}

void DatabaseWriter::put(std::size_t table, RecordId id, ConstBytes record, const VariablePart& part) {
  const Bytes octets = stored(schema_->tables[table], record, part);
  std::copy(octets.begin(), octets.end(), edit_record(table, id).begin());
}

Result<RecordId> DatabaseWriter::insert(std::size_t table, ConstBytes record, ConstBytes variable) {
  if (const auto checked = check_record(table, record, variable); !checked) return tl::unexpected(checked.error());
  Working& working = working_[table];
  if (working.free.empty()) {
    if (working.block_count >= blocks_max)
      return fail(Errc::no_space, "table {a} is full: {b} records", static_cast<std::int64_t>(table),
                  static_cast<std::int64_t>(records_max));
    const auto first = static_cast<RecordId>(working.block_count * block_records);
    (void)edit_block(table, working.block_count++);
    for (std::size_t i = 0; i < block_records; ++i) working.free.insert(first + static_cast<RecordId>(i));
  }
  const auto part = append(table, variable);
  if (!part) return tl::unexpected(part.error());
  const RecordId id = *working.free.begin();
  working.free.erase(working.free.begin());
  put(table, id, record, *part);
  edit_block(table, id / block_records).live |= std::uint64_t{1} << id % block_records;
  return id;
}

Result<void> DatabaseWriter::update(std::size_t table, RecordId id, ConstBytes record, ConstBytes variable) {
  if (const auto checked = check_record(table, record, variable); !checked) return tl::unexpected(checked.error());
  const TableDef& def = schema_->tables[table];
  const ConstBytes before = find_record(table, id);
  if (before.empty())
    return fail(Errc::invalid_argument, "table {a} has no record {b}", static_cast<std::int64_t>(table), id);
  VariablePart part = variable_part(def, before);
  const ConstBytes old = find_variable(table, part);
  const bool same_variable = std::equal(old.begin(), old.end(), variable.begin(), variable.end());
  if (same_variable && same_fixed_part(def, before, record)) return {};
  if (!same_variable) {
    const auto moved = append(table, variable);
    if (!moved) return tl::unexpected(moved.error());
    working_[table].wasted += part.length;
    part = *moved;
  }
  put(table, id, record, part);
  return {};
}

Result<void> DatabaseWriter::erase(std::size_t table, RecordId id) {
  const bool known = table < working_.size() && !find_record(table, id).empty();
  if (!known) return fail(Errc::invalid_argument, "table {a} has no record {b}", static_cast<std::int64_t>(table), id);
  Working& working = working_[table];
  working.wasted += variable_part(schema_->tables[table], find_record(table, id)).length;
  const MutBytes octets = edit_record(table, id);
  std::fill(octets.begin(), octets.end(), std::uint8_t{0});
  edit_block(table, id / block_records).live &= ~(std::uint64_t{1} << id % block_records);
  working.freed.push_back(id);
  return {};
}

void DatabaseWriter::compact() {
  for (std::size_t t = 0; t < working_.size(); ++t) {
    Working& working = working_[t];
    if (working.wasted == 0) continue;
    // In the order of their offsets, so that none moves to a later segment than its present one: append() finds room.
    std::map<std::uint32_t, std::pair<RecordId, Bytes>> parts;
    for (RecordId id = 0; id < working.block_count * block_records; ++id) {
      const ConstBytes record = find_record(t, id);
      const VariablePart part = record.empty() ? VariablePart{} : variable_part(schema_->tables[t], record);
      const ConstBytes octets = find_variable(t, part);
      if (!octets.empty()) parts[part.offset] = {id, Bytes(octets.begin(), octets.end())};
    }
    const std::size_t segments = (working.area_octets + segment_octets - 1) / segment_octets;
    for (std::size_t i = 0; i < segments; ++i) edit_segment(t, i).octets.clear();
    working.area_octets = working.wasted = 0;
    for (const auto& [offset, part] : parts) {
      const ConstBytes record = find_record(t, part.first);
      put(t, part.first, Bytes(record.begin(), record.end()), *append(t, part.second));
    }
    floor_ = next_counter();
  }
}

SnapshotPtr DatabaseWriter::commit() {
  if (std::none_of(working_.begin(), working_.end(), [](const Working& each) { return each.changed(); })) return last_;
  const std::uint32_t counter = next_counter();
  std::vector<TableData> tables(last_->tables().begin(), last_->tables().end());
  const auto seal = [counter](auto& part) {
    part.changed = counter;
    part.crc = crc_of(part);
    return std::make_shared<const std::remove_reference_t<decltype(part)>>(std::move(part));
  };
  for (std::size_t t = 0; t < tables.size(); ++t) {
    Working& working = working_[t];
    if (working.changed()) tables[t].changed = counter;
    tables[t].blocks.resize(working.block_count);
    for (auto& [index, block] : working.blocks) tables[t].blocks[index] = seal(block);
    tables[t].segments.resize((working.area_octets + segment_octets - 1) / segment_octets);
    for (auto& [index, segment] : working.segments)
      if (index < tables[t].segments.size()) tables[t].segments[index] = seal(segment);
    working.blocks.clear();
    working.segments.clear();
    working.free.insert(working.freed_before.begin(), working.freed_before.end());
    working.freed_before = std::exchange(working.freed, {});
  }
  last_ =
      std::make_shared<const Snapshot>(schema_, Epoch{last_->epoch().incarnation, counter}, floor_, std::move(tables));
  return last_;
}

}  // namespace parley::ssa
