// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/stream.hpp"

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

constexpr std::uint8_t class_version = 1;

template <std::unsigned_integral... Numbers>
Bytes numbers(Numbers... values) {
  Bytes out((sizeof values + ...));
  std::size_t at = 0;
  ((store(out.data() + at, values, std::endian::big), at += sizeof values), ...);
  return out;
}

Bytes definition(const TableDef& def, const TableData& data) {
  Bytes out(table_name_max);
  std::copy(def.name.begin(), def.name.end(), out.begin());
  const Bytes rest =
      numbers(def.record_octets, def.ref_at, data.changed, static_cast<std::uint32_t>(data.blocks.size()),
              static_cast<std::uint32_t>(data.area_octets()));
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

/// The records of a block that live.
Bytes live_records(const Block& block, std::size_t record_octets) {
  Bytes out;
  out.reserve(static_cast<std::size_t>(std::popcount(block.live)) * record_octets);
  for (std::size_t i = 0; i < block_records; ++i) {
    if (!block.has(i)) continue;
    const ConstBytes record = ConstBytes(block.records).subspan(i * record_octets, record_octets);
    out.insert(out.end(), record.begin(), record.end());
  }
  return out;
}

}  // namespace

StreamSource::StreamSource(SnapshotPtr snapshot) : snapshot_(std::move(snapshot)) {}

StreamSource::StreamSource(SnapshotPtr snapshot, Epoch since) : StreamSource(std::move(snapshot)) {
  const EpochOrder order = compare(since, snapshot_->epoch());
  const bool known = order == EpochOrder::same || order == EpochOrder::older;
  if (known && since.is_valid() && since.counter >= snapshot_->floor()) since_ = since.counter;
}

bool StreamSource::next(Bytes& out) {
  if (stage_ == Stage::done) return false;
  const auto tables = snapshot_->tables();
  if (stage_ == Stage::begin) {
    const Epoch since{since_ == 0 ? 0 : snapshot_->epoch().incarnation, since_};
    write(StreamKind::begin, 0, numbers(since.number(), snapshot_->floor(), static_cast<std::uint16_t>(tables.size())),
          {}, out);
    stage_ = Stage::tables;
    return true;
  }
  if (stage_ == Stage::tables) {
    write(StreamKind::table, table_, definition(snapshot_->schema().tables[table_], tables[table_]), {}, out);
    if (++table_ == tables.size()) stage_ = Stage::parts, table_ = 0;
    return true;
  }
  if (stage_ == Stage::parts && next_part(out)) return true;
  write(StreamKind::end, 0, numbers(snapshot_->digest()), {}, out);
  stage_ = Stage::done;
  return true;
}

bool StreamSource::next_part(Bytes& out) {
  const auto tables = snapshot_->tables();
  for (; table_ < tables.size(); ++table_, block_ = segment_ = 0) {
    const TableData& data = tables[table_];
    if (!is_due(data.changed)) continue;
    while (block_ < data.blocks.size() && !is_due(data.blocks[block_]->changed)) ++block_;
    if (block_ < data.blocks.size()) {
      const Block& block = *data.blocks[block_];
      write(StreamKind::block, table_, numbers(static_cast<std::uint32_t>(block_), block.changed, block.live),
            live_records(block, snapshot_->schema().tables[table_].record_octets), out);
      ++block_;
      return true;
    }
    while (segment_ < data.segments.size() && !is_due(data.segments[segment_]->changed)) ++segment_;
    if (segment_ < data.segments.size()) {
      const Segment& segment = *data.segments[segment_];
      write(StreamKind::segment, table_, numbers(static_cast<std::uint32_t>(segment_), segment.changed), segment.octets,
            out);
      ++segment_;
      return true;
    }
  }
  return false;
}

void StreamSource::write(StreamKind kind, std::size_t table, ConstBytes head, ConstBytes body, Bytes& out) {
  const std::size_t size = stream_header_octets + head.size() + body.size() + stream_crc_octets;
  MadHeader header;
  header.set(MadHeader::base_version, PARLEY_IB_MAD_BASE_VERSION)
      .set(MadHeader::mgmt_class, MgmtClass::ssa)
      .set(MadHeader::class_version, class_version)
      .set(MadHeader::method, Method::get_table_resp)
      .set(MadHeader::attribute_id, static_cast<std::uint16_t>(kind))
      .set(MadHeader::attribute_modifier, static_cast<std::uint32_t>(table));
  out.assign(header.octets().begin(), header.octets().end());
  const auto append = [&out](ConstBytes octets) { out.insert(out.end(), octets.begin(), octets.end()); };
  append(numbers(static_cast<std::uint32_t>(size), sequence_++, snapshot_->epoch().number()));
  append(head);
  append(body);
  append(numbers(mpa::crc32c(out)));
}

Bytes whole_stream(StreamSource source) {
  Bytes all, message;
  while (source.next(message)) all.insert(all.end(), message.begin(), message.end());
  return all;
}

}  // namespace parley::ssa
