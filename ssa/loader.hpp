// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Makes the next snapshot out of a stream from the parent. Nothing in the stream is trusted: lengths, offsets, ids,
// epochs and CRCs are checked, memory is bounded, and after an error the snapshot that the node has is what it was.
#pragma once
#include <optional>
#include <utility>

#include "ssa/stream.hpp"

namespace parley::ssa {

struct LoadOptions {
  std::size_t octets_max = std::size_t{1} << 30;  ///< of the whole database; a larger one is refused before it is read
  /// The epoch of the event new_epoch (ssa/node/node.hpp): the newest that a parent has named within the incarnation of the
  /// master. The loader refuses a stream with a newer epoch or of another master. {0, 0}: it believes the stream's epoch.
  Epoch newest;
};

class Loader {
 public:
  /// `base`: the snapshot that the node has; null: none, so that only a whole database can be loaded. Its parts that
  /// did not change are shared with the new one.
  explicit Loader(SnapshotPtr base, const LoadOptions& options = {});

  /// Takes the next octets of the stream, cut anywhere. True: take() has the new snapshot. Errors, after which the loader
  /// returns the same error for ever: crc_mismatch; malformed; extra_octets (after the end); no_space (octets_max);
  /// wrong_state (the stream is a delta to a version that the node does not have, or older than the node's version, or newer
  /// than LoadOptions::newest).
  Result<bool> feed(ConstBytes octets);
  /// The new snapshot; null before feed() returned true.
  SnapshotPtr take() { return std::move(loaded_); }
  /// The stream has what changed since another version, not the whole database. Known when feed() has returned true.
  bool is_delta() const { return since_ != 0; }

 private:
  struct Message {
    StreamKind kind;
    std::size_t table;
    std::uint32_t sequence;
    Epoch epoch;
    ConstBytes payload;
  };

  Result<bool> feed_octets(ConstBytes octets);
  Result<void> check_length() const;
  Result<Message> open_message() const;
  Result<void> take_message(const Message& message);
  Result<void> take_begin(const Message& message);
  Result<void> take_table(const Message& message);
  Result<void> take_block(const Message& message);
  Result<void> take_segment(const Message& message);
  Result<void> take_end(const Message& message);
  Result<void> check_delta_table(const TableDef& def, std::uint32_t changed, std::size_t blocks,
                                 std::size_t area) const;
  Result<void> check_newest() const;
  Result<void> check_changed(std::uint32_t changed) const;
  Result<void> check_order(const Message& message, std::uint32_t index);
  Result<void> check_parts() const;
  Result<void> check_references() const;
  std::size_t segment_size(std::size_t table, std::size_t index) const;

  SnapshotPtr base_, loaded_;
  LoadOptions options_;
  std::optional<Error> error_;
  Bytes buffer_;  // a message that is not complete: at most stream_message_max
  bool ended_ = false;
  std::uint32_t sequence_ = 0;    // of the next message
  std::uint64_t next_place_ = 0;  // of the next block or segment, at least
  Epoch epoch_;
  std::uint32_t since_ = 0, floor_ = 0;  // counters; since 0: the whole database
  std::size_t table_count_ = 0, octets_ = 0;
  Schema schema_;
  std::vector<TableData> tables_;
  std::vector<std::size_t> areas_;  // octets of the variable area of each table
};

}  // namespace parley::ssa
