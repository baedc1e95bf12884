// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The master's database: changes, and the versions that they make. Only the master has a DatabaseWriter; other nodes get their
// snapshots from a Loader.
//
//   DatabaseWriter writer(schema, incarnation);
//   const auto id = writer.insert(nodes, record);
//   publish(writer.commit());     // the next version; readers of the previous one keep it
#pragma once
#include <map>
#include <set>

#include "ssa/snapshot.hpp"

namespace parley::ssa {

class DatabaseWriter {
 public:
  /// `incarnation`: another one for each master that has ever been; not 0. Errors: of check(schema); invalid_argument.
  static Result<DatabaseWriter> create(Schema schema, std::uint32_t incarnation);

  /// Adds a record, with `variable` as its variable part. An id that was freed is used again only if a version without
  /// it was published after the one that freed it. Errors: invalid_argument (no such table, wrong size, a variable part
  /// of more than 4096 octets or in a table without one), no_space (records_max, area_octets_max).
  Result<RecordId> insert(std::size_t table, ConstBytes record, ConstBytes variable = {});
  /// Replaces a record and its variable part. Nothing changes if they are the same. Errors: as above; invalid_argument
  /// (no such record).
  Result<void> update(std::size_t table, RecordId id, ConstBytes record, ConstBytes variable = {});
  Result<void> erase(std::size_t table, RecordId id);
  /// Rewrites the variable areas without the octets of erased and replaced parts. Versions before the next one have no
  /// delta to it or later ones.
  void compact();

  /// Publishes the changes since the last commit as the next version. Without changes: the last version again.
  SnapshotPtr commit();
  const SnapshotPtr& last() const { return last_; }
  /// Octets in the variable area of a table that no record uses.
  std::size_t wasted(std::size_t table) const { return table < working_.size() ? working_[table].wasted : 0; }

 private:
  struct Working {
    std::map<std::size_t, Block> blocks;      // changed or new, by index
    std::map<std::size_t, Segment> segments;  // the same
    std::size_t block_count = 0, area_octets = 0, wasted = 0;
    std::set<RecordId> free;                    // may be used
    std::vector<RecordId> freed, freed_before;  // by the changes since the last commit, and by those before it
    bool changed() const { return !blocks.empty() || !segments.empty(); }
  };

  DatabaseWriter(Schema schema, std::uint32_t incarnation);
  Result<void> check_record(std::size_t table, ConstBytes record, ConstBytes variable) const;
  const Block* find_block(std::size_t table, std::size_t index) const;
  Block& edit_block(std::size_t table, std::size_t index);
  Segment& edit_segment(std::size_t table, std::size_t index);
  MutBytes edit_record(std::size_t table, RecordId id);
  ConstBytes find_record(std::size_t table, RecordId id) const;
  ConstBytes find_variable(std::size_t table, const VariablePart& part) const;
  Result<VariablePart> append(std::size_t table, ConstBytes variable);
  void put(std::size_t table, RecordId id, ConstBytes record, const VariablePart& part);
  std::uint32_t next_counter() const { return last_->epoch().counter + 1; }

  std::shared_ptr<const Schema> schema_;
  std::vector<Working> working_;
  SnapshotPtr last_;
  std::uint32_t floor_ = 0;
};

}  // namespace parley::ssa
