// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/loader.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/bytes_io.hpp"
#include "mpa/crc32c.hpp"
#include "parley/wire/ib.h"
#include "wire/mad/common.hpp"

namespace parley::ssa {

namespace {

using wire::mad::MadHeader;
using wire::mad::Method;
using wire::mad::MgmtClass;

constexpr std::size_t length_at = MadHeader::size;

template <class Number>
std::int64_t shown(Number number) {
  return static_cast<std::int64_t>(number);
}

}  // namespace

Loader::Loader(SnapshotPtr base, const LoadOptions& options) : base_(std::move(base)), options_(options) {}

Result<bool> Loader::feed(ConstBytes octets) {
  if (error_) return tl::unexpected(*error_);
  auto fed = feed_octets(octets);
  if (!fed) {
    error_ = fed.error();
    buffer_ = {};
    tables_.clear();
    loaded_.reset();
  }
  return fed;
}

Result<bool> Loader::feed_octets(ConstBytes octets) {
  while (!octets.empty()) {
    if (ended_) return fail(Errc::extra_octets, "{a} octets follow the end of the database", shown(octets.size()));
    const auto need = [this] {
      return buffer_.size() < stream_header_octets
                 ? stream_header_octets
                 : std::size_t{load<std::uint32_t>(buffer_.data() + length_at, std::endian::big)};
    };
    const std::size_t count = std::min(octets.size(), need() - buffer_.size());
    buffer_.insert(buffer_.end(), octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(count));
    octets = octets.subspan(count);
    if (buffer_.size() < stream_header_octets) continue;
    if (const auto checked = check_length(); !checked) return tl::unexpected(checked.error());
    if (buffer_.size() < need()) continue;
    const auto message = open_message();
    if (!message) return tl::unexpected(message.error());
    if (const auto taken = take_message(*message); !taken) return tl::unexpected(taken.error());
    buffer_.clear();
  }
  return loaded_ != nullptr;
}

/// Checks the length of the message in the buffer, which has its header.
Result<void> Loader::check_length() const {
  const auto length = load<std::uint32_t>(buffer_.data() + length_at, std::endian::big);
  if (length >= stream_header_octets + stream_crc_octets && length <= stream_message_max) return {};
  return fail(Errc::malformed, "message {a} of the database says that it has {b} octets", sequence_, length);
}

Result<Loader::Message> Loader::open_message() const {
  const ConstBytes all(buffer_);
  const ConstBytes body = all.first(all.size() - stream_crc_octets);
  if (Reader(all.subspan(body.size())).be32() != mpa::crc32c(body))
    return fail(Errc::crc_mismatch, "the CRC of message {a} of the database is wrong", sequence_);
  const auto header = *MadHeader::parse(all);
  const bool ours = header.get(MadHeader::base_version) == PARLEY_IB_MAD_BASE_VERSION &&
                    header.get(MadHeader::mgmt_class) == MgmtClass::ssa && header.get(MadHeader::class_version) == 1 &&
                    header.get(MadHeader::method) == Method::get_table_resp && header.get(MadHeader::status) == 0;
  if (!ours) return fail(Errc::malformed, "message {a} has not the header of a database's messages", sequence_);
  Reader in(all.subspan(length_at + sizeof(std::uint32_t)));
  const std::uint32_t sequence = in.be32();
  const Epoch epoch = Epoch::of(in.be64());
  return Message{static_cast<StreamKind>(header.get(MadHeader::attribute_id)),
                 header.get(MadHeader::attribute_modifier), sequence, epoch, body.subspan(stream_header_octets)};
}

Result<void> Loader::take_message(const Message& message) {
  if (message.sequence != sequence_)
    return fail(Errc::malformed, "message {a} of the database arrived, and message {b} is the next", message.sequence,
                sequence_);
  const bool first = sequence_++ == 0;
  if (first != (message.kind == StreamKind::begin))
    return fail(Errc::malformed, "message {a} of the database is of kind {b}: the first alone begins it",
                message.sequence, shown(message.kind));
  if (!first && message.epoch != epoch_)
    return fail(Errc::malformed, "the epoch of message {a} has the counter {b}, and that of the first message another",
                message.sequence, message.epoch.counter);
  if (!first && message.kind != StreamKind::table && tables_.size() != table_count_)
    return fail(Errc::malformed, "{a} of {b} tables are defined before their records", shown(tables_.size()),
                shown(table_count_));
  const bool of_table = message.kind == StreamKind::block || message.kind == StreamKind::segment;
  if (of_table && message.table >= tables_.size())
    return fail(Errc::malformed, "records of table {a}: there are {b} tables", shown(message.table),
                shown(tables_.size()));
  switch (message.kind) {
    case StreamKind::begin: return take_begin(message);
    case StreamKind::table: return take_table(message);
    case StreamKind::block: return take_block(message);
    case StreamKind::segment: return take_segment(message);
    case StreamKind::end: return take_end(message);
  }
  return fail(Errc::malformed, "message {a} of the database is of the unknown kind {b}", message.sequence,
              shown(message.kind));
}

Result<void> Loader::take_begin(const Message& message) {
  Reader in(message.payload);
  const Epoch since = Epoch::of(in.be64());
  floor_ = in.be32();
  table_count_ = in.be16();
  epoch_ = message.epoch;
  if (!in.ok() || in.left() != 0 || !epoch_.is_valid() || floor_ == 0 || floor_ > epoch_.counter || table_count_ == 0 ||
      table_count_ > tables_max)
    return fail(Errc::malformed, "the first message of the database: counter {a}, {b} tables", epoch_.counter,
                shown(table_count_));
  if (base_ != nullptr && compare(epoch_, base_->epoch()) == EpochOrder::older)
    return fail(Errc::wrong_state, "the parent's database has the counter {a}, behind ours, which has {b}",
                epoch_.counter, base_->epoch().counter);
  if (const auto checked = check_newest(); !checked) return checked;
  since_ = since.counter;
  if (since == Epoch{}) return {};
  if (!since.is_valid() || since.incarnation != epoch_.incarnation || since.counter > epoch_.counter ||
      since.counter < floor_)
    return fail(Errc::malformed, "changes since counter {a} to counter {b}: not a delta that can be", since.counter,
                epoch_.counter);
  if (base_ == nullptr || base_->epoch().incarnation != since.incarnation || base_->epoch().counter < since.counter)
    return fail(Errc::wrong_state, "these are changes since counter {a}, which this node does not have: load the whole",
                since.counter);
  return {};
}

/// Otherwise one lie about the counter makes every right version older than the node's.
Result<void> Loader::check_newest() const {
  if (options_.newest == Epoch{}) return {};
  const EpochOrder order = compare(epoch_, options_.newest);
  if (order == EpochOrder::newer)
    return fail(Errc::wrong_state,
                "the parent's database has the counter {a}, and the newest that is announced has {b}", epoch_.counter,
                options_.newest.counter);
  if (order == EpochOrder::unrelated)
    return fail(Errc::wrong_state, "the parent's database is of incarnation {a}, and the master's of {b}",
                epoch_.incarnation, options_.newest.incarnation);
  return {};
}

Result<void> Loader::take_table(const Message& message) {
  const std::size_t index = tables_.size();
  if (message.table != index || index >= table_count_)
    return fail(Errc::malformed, "table {a} is defined, and table {b} is the next", shown(message.table), shown(index));
  Reader in(message.payload);
  const ConstBytes name = in.bytes(table_name_max);
  TableDef def{std::string(name.begin(), std::find(name.begin(), name.end(), 0)), in.be16(), in.be16()};
  const std::uint32_t changed = in.be32(), blocks = in.be32(), area = in.be32();
  if (!in.ok() || in.left() != 0)
    return fail(Errc::malformed, "the definition of table {a} has {b} octets", shown(index),
                shown(message.payload.size()));
  if (const auto checked = check(def); !checked) return checked;
  if (blocks > blocks_max || area > (def.has_variable_part() ? area_octets_max : 0))
    return fail(Errc::malformed, "a table of {a} blocks with {b} octets of variable parts", blocks, area);
  if (changed > epoch_.counter || (changed == 0 && (blocks != 0 || area != 0)))
    return fail(Errc::malformed, "a table changed in epoch {a}; the database's counter is {b}", changed,
                epoch_.counter);
  octets_ += blocks * (def.block_octets() + sizeof(Block)) + area;
  if (octets_ > options_.octets_max)
    return fail(Errc::no_space, "the database has more than {a} octets, the most that this node takes",
                shown(options_.octets_max));
  if (since_ != 0)
    if (const auto checked = check_delta_table(def, changed, blocks, area); !checked) return checked;
  TableData data = since_ != 0 ? base_->tables()[index] : TableData{};
  data.blocks.resize(blocks);
  data.segments.resize((std::size_t{area} + segment_octets - 1) / segment_octets);
  data.changed = changed;
  schema_.tables.push_back(std::move(def));
  tables_.push_back(std::move(data));
  areas_.push_back(area);
  return {};
}

/// Tables only grow between two versions of which one has a delta to the other.
Result<void> Loader::check_delta_table(const TableDef& def, std::uint32_t changed, std::size_t blocks,
                                       std::size_t area) const {
  const std::size_t index = tables_.size();
  if (base_->tables().size() != table_count_ || base_->schema().tables[index] != def)
    return fail(Errc::malformed, "the changes have another table {a} than the database that they change", shown(index));
  const TableData& before = base_->tables()[index];
  if (changed < before.changed)
    return fail(Errc::malformed, "table {a} of the changes changed in epoch {b}, before that of the node", shown(index),
                changed);
  if (blocks >= before.blocks.size() && area >= before.area_octets()) return {};
  return fail(Errc::malformed, "the changes make table {a} smaller: {b} blocks", shown(index), shown(blocks));
}

Result<void> Loader::check_changed(std::uint32_t changed) const {
  if (changed > since_ && changed <= epoch_.counter) return {};
  return fail(Errc::malformed, "records changed in epoch {a}; the database's counter is {b}", changed, epoch_.counter);
}

/// Parts come in the order of table, kind and number, each once: so a stream cannot go on for ever.
Result<void> Loader::check_order(const Message& message, std::uint32_t index) {
  const std::uint64_t place =
      std::uint64_t{message.table} << 33 | std::uint64_t{message.kind == StreamKind::segment} << 32 | index;
  if (place < next_place_)
    return fail(Errc::malformed, "part {a} of table {b} comes twice, or too late", index, shown(message.table));
  next_place_ = place + 1;
  return {};
}

Result<void> Loader::take_block(const Message& message) {
  Reader in(message.payload);
  const std::uint32_t index = in.be32();
  if (const auto checked = check_order(message, index); !checked) return checked;
  Block block;
  block.changed = in.be32();
  block.live = in.be64();
  TableData& data = tables_[message.table];
  const std::size_t size = schema_.tables[message.table].record_octets;
  if (!in.ok() || index >= data.blocks.size())
    return fail(Errc::malformed, "block {a}: its table has {b} blocks", index, shown(data.blocks.size()));
  if (in.left() != static_cast<std::size_t>(std::popcount(block.live)) * size)
    return fail(Errc::malformed, "block {a} has {b} octets of records, and other records live", index,
                shown(in.left()));
  if (const auto checked = check_changed(block.changed); !checked) return checked;
  block.records.resize(block_records * size);
  for (std::size_t i = 0; i < block_records; ++i) {
    if (!block.has(i)) continue;
    const ConstBytes record = in.bytes(size);
    std::copy(record.begin(), record.end(), block.records.begin() + static_cast<std::ptrdiff_t>(i * size));
  }
  block.crc = crc_of(block);
  data.blocks[index] = std::make_shared<const Block>(std::move(block));
  return {};
}

/// Octets that a segment of the variable area must have.
std::size_t Loader::segment_size(std::size_t table, std::size_t index) const {
  return std::min(segment_octets, areas_[table] - index * segment_octets);
}

Result<void> Loader::take_segment(const Message& message) {
  Reader in(message.payload);
  const std::uint32_t index = in.be32();
  if (const auto checked = check_order(message, index); !checked) return checked;
  Segment segment;
  segment.changed = in.be32();
  TableData& data = tables_[message.table];
  if (!in.ok() || index >= data.segments.size())
    return fail(Errc::malformed, "segment {a}: its table has {b} segments", index, shown(data.segments.size()));
  if (in.left() != segment_size(message.table, index))
    return fail(Errc::malformed, "segment {a} has {b} octets, which is not its share of the table's variable area",
                index, shown(in.left()));
  if (const auto checked = check_changed(segment.changed); !checked) return checked;
  const ConstBytes octets = in.rest();
  segment.octets.assign(octets.begin(), octets.end());
  segment.crc = crc_of(segment);
  data.segments[index] = std::make_shared<const Segment>(std::move(segment));
  return {};
}

/// All parts are there, and none changed after its table: a stream of changes leaves out the tables that did not change.
Result<void> Loader::check_parts() const {
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    for (std::size_t i = 0; i < tables_[t].blocks.size(); ++i) {
      const Block* block = tables_[t].blocks[i].get();
      if (block == nullptr) return fail(Errc::malformed, "block {a} of table {b} is missing", shown(i), shown(t));
      if (block->changed > tables_[t].changed)
        return fail(Errc::malformed, "block {a} of table {b} changed after its table", shown(i), shown(t));
    }
    for (std::size_t i = 0; i < tables_[t].segments.size(); ++i) {
      const Segment* segment = tables_[t].segments[i].get();
      if (segment == nullptr || segment->octets.size() != segment_size(t, i))
        return fail(Errc::malformed, "segment {a} of table {b} is missing", shown(i), shown(t));
      if (segment->changed > tables_[t].changed)
        return fail(Errc::malformed, "segment {a} of table {b} changed after its table", shown(i), shown(t));
    }
  }
  return {};
}

/// Readers follow the references without a check.
Result<void> Loader::check_references() const {
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const TableDef& def = schema_.tables[t];
    if (!def.has_variable_part()) continue;
    for (std::size_t b = 0; b < tables_[t].blocks.size(); ++b) {
      const Block& block = *tables_[t].blocks[b];
      if (block.changed <= since_) continue;
      for (std::size_t i = 0; i < block_records; ++i) {
        if (!block.has(i)) continue;
        const ConstBytes record = ConstBytes(block.records).subspan(i * def.record_octets, def.record_octets);
        if (!variable_part(def, record).fits(areas_[t]))
          return fail(Errc::malformed, "record {a} of table {b} refers to octets outside of the variable area",
                      shown(b * block_records + i), shown(t));
      }
    }
  }
  return {};
}

Result<void> Loader::take_end(const Message& message) {
  Reader in(message.payload);
  const std::uint32_t digest = in.be32();
  if (!in.ok() || in.left() != 0)
    return fail(Errc::malformed, "the last message has {a} octets", shown(message.payload.size()));
  if (const auto checked = check_parts(); !checked) return checked;
  if (const auto checked = check_references(); !checked) return checked;
  // Equal schemas are shared, as all that did not change.
  auto schema = since_ != 0 ? base_->shared_schema() : std::make_shared<const Schema>(std::move(schema_));
  auto loaded = std::make_shared<const Snapshot>(std::move(schema), epoch_, floor_, std::move(tables_));
  if (loaded->digest() != digest)
    return fail(Errc::crc_mismatch, "the database is not what its master published: its digest is another");
  if (base_ != nullptr && base_->epoch() == epoch_ && base_->digest() != digest)
    return fail(Errc::crc_mismatch, "the database has the epoch of ours, which has the counter {a}, and another digest",
                epoch_.counter);
  loaded_ = std::move(loaded);
  ended_ = true;
  return {};
}

}  // namespace parley::ssa
