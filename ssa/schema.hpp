// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What tables a database has.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "parley/result.hpp"

namespace parley::ssa {

inline constexpr std::size_t tables_max = 64;
inline constexpr std::size_t table_name_max = 32;         ///< octets
inline constexpr std::size_t record_octets_max = 1024;    ///< of a record without its variable part
inline constexpr std::size_t records_max = 1U << 24;      ///< of a table
inline constexpr std::size_t block_records = 64;          ///< records whose changes share one epoch
inline constexpr std::size_t segment_octets = 4096;       ///< of a variable area; a record's part lies in one segment
inline constexpr std::size_t area_octets_max = 1U << 28;  ///< of a table's variable area
inline constexpr std::size_t blocks_max = records_max / block_records;
inline constexpr std::uint16_t no_variable_part = 0xFFFF;

struct TableDef {
  std::string name;
  std::uint16_t record_octets = 0;
  /// Where a record has the offset and the length of its variable part: two numbers of 32 bits, big-endian. The DatabaseWriter
  /// sets them.
  std::uint16_t ref_at = no_variable_part;

  bool has_variable_part() const { return ref_at != no_variable_part; }
  std::size_t block_octets() const { return block_records * record_octets; }
  bool operator==(const TableDef&) const = default;
};

struct Schema {
  std::vector<TableDef> tables;
  bool operator==(const Schema&) const = default;
};

/// Errors: malformed (the limits above).
Result<void> check(const Schema& schema);
/// The same for one table.
Result<void> check(const TableDef& table);

}  // namespace parley::ssa
