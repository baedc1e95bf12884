// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One version of a database. A Snapshot never changes, and shares the parts that did not change with the versions
// before and after it: any number of threads may read it for as long as they hold it.
//
// A record's id is its position in the table. It is the same as long as the record lives.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "parley/bytes.hpp"
#include "ssa/epoch.hpp"
#include "ssa/schema.hpp"

namespace parley::ssa {

using RecordId = std::uint32_t;

/// 64 records of a table. Records that do not live are zeros.
struct Block {
  std::uint32_t changed = 0;  ///< counter of the epoch of the last change
  std::uint64_t live = 0;     ///< bit n: record n lives
  Bytes records;
  std::uint32_t crc = 0;  ///< of all the above

  bool has(std::size_t record) const { return (live >> record & 1) != 0; }
};
/// 4096 octets of a table's variable area; the last one may have less.
struct Segment {
  std::uint32_t changed = 0;
  Bytes octets;
  std::uint32_t crc = 0;
};
std::uint32_t crc_of(const Block& block);
std::uint32_t crc_of(const Segment& segment);

struct TableData {
  std::vector<std::shared_ptr<const Block>> blocks;
  std::vector<std::shared_ptr<const Segment>> segments;
  std::uint32_t changed = 0;  ///< counter of the epoch of the table's last change

  std::size_t area_octets() const;
};

/// The variable part of a record: where it is in the table's area.
struct VariablePart {
  std::uint32_t offset = 0, length = 0;

  /// Whether it lies in one segment of an area of that size.
  bool fits(std::size_t area_octets) const;
};
VariablePart variable_part(const TableDef& def, ConstBytes record);

class Snapshot {
 public:
  /// `floor`: versions of this master whose counter is below it have no delta to this one. The caller has checked the
  /// parts.
  Snapshot(std::shared_ptr<const Schema> schema, Epoch epoch, std::uint32_t floor, std::vector<TableData> tables);

  Epoch epoch() const { return epoch_; }
  std::uint32_t floor() const { return floor_; }
  const Schema& schema() const { return *schema_; }
  const std::shared_ptr<const Schema>& shared_schema() const { return schema_; }
  std::span<const TableData> tables() const { return tables_; }
  /// CRC32C of the epoch, the floor, the schema and the CRCs of all parts.
  std::uint32_t digest() const { return digest_; }

  /// A record; empty if it does not live, or the table does not exist. The view is valid while the snapshot is held.
  ConstBytes record(std::size_t table, RecordId id) const;
  /// Its variable part; empty if it has none.
  ConstBytes variable(std::size_t table, RecordId id) const;
  /// Number of records that live.
  std::size_t size(std::size_t table) const;
  /// Calls `take(id, record)` for each record that lives, in the order of the ids.
  template <class Take>
  void each(std::size_t table, Take&& take) const {
    if (table >= tables_.size()) return;
    const std::size_t step = schema_->tables[table].record_octets;
    for (std::size_t b = 0; b < tables_[table].blocks.size(); ++b) {
      const Block& block = *tables_[table].blocks[b];
      for (std::size_t i = 0; i < block_records; ++i)
        if (block.has(i))
          take(static_cast<RecordId>(b * block_records + i), ConstBytes(block.records).subspan(i * step, step));
    }
  }

 private:
  std::shared_ptr<const Schema> schema_;
  Epoch epoch_;
  std::uint32_t floor_;
  std::vector<TableData> tables_;
  std::uint32_t digest_;
};

using SnapshotPtr = std::shared_ptr<const Snapshot>;

}  // namespace parley::ssa
