// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The master's database of a subnet (ssa/paths_schema.hpp), out of what was collected from it. A record keeps its id from
// one collection to the next, so that a new version has only what changed in the subnet.
#pragma once
#include <array>
#include <map>

#include "drivers/ssa/collect.hpp"
#include "ssa/writer.hpp"

namespace parley::ssa_driver {

class SubnetDatabase {
 public:
  /// `incarnation`: as of DatabaseWriter::create().
  static Result<SubnetDatabase> create(std::uint32_t incarnation);

  /// The version with this subnet: a new one, or the last one again if nothing changed. Ports whose PortInfo is unknown
  /// are left out with their links, and so is a port's link to itself. Errors: of the DatabaseWriter; there is no
  /// version then, and the next update makes the database right again.
  Result<ssa::SnapshotPtr> update(const mad::Topology& topology, const SubnetTables& tables);

 private:
  /// What a record is about, within its table: a GUID, or the id of a node with a port or a block.
  using Key = std::array<std::uint64_t, 2>;
  struct Known {
    ssa::RecordId id = 0;
    std::uint64_t seen = 0;  // number of the last update that had it
  };
  class Update;

  explicit SubnetDatabase(ssa::DatabaseWriter writer) : writer_(std::move(writer)) {}

  ssa::DatabaseWriter writer_;
  std::array<std::map<Key, Known>, ssa::path_tables> known_;
  std::uint64_t updates_ = 0;
};

/// The first version of such a database.
Result<ssa::SnapshotPtr> database_of(const mad::Topology& topology, const SubnetTables& tables,
                                     std::uint32_t incarnation);

}  // namespace parley::ssa_driver
