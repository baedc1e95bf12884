// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A database on its way down the tree: the whole of one version, or what changed since an older one, as a sequence of
// messages. Each message begins with the header of a management datagram of class 0x2C, without RMPP, then its length,
// its number in the stream and the epoch; it ends with a CRC32C of everything before it.
//
//   begin                        the older version (0: the whole database), the floor, the number of tables
//   table, for each in order     its definition, its epoch, its size
//   block, segment, in order     64 records and which of them live; 4096 octets of the variable area
//   end                          the digest of the version, so that a reader knows that it has all of it
//
// All numbers are big-endian. docs/ssa.md has the octets.
#pragma once
#include <optional>

#include "ssa/snapshot.hpp"

namespace parley::ssa {

/// The attribute of a message, in its header.
enum class StreamKind : std::uint16_t {
  begin = 0x1020,
  table = 0x1021,
  block = 0x1022,
  segment = 0x1023,
  end = 0x1024
};

inline constexpr std::size_t stream_header_octets = 40;
inline constexpr std::size_t stream_crc_octets = 4;
/// The longest message is a block of the longest records.
inline constexpr std::size_t stream_message_max =
    stream_header_octets + 16 + block_records * record_octets_max + stream_crc_octets;

/// Makes the messages of a stream, one at a time.
class StreamSource {
 public:
  /// The whole of `snapshot`.
  explicit StreamSource(SnapshotPtr snapshot);
  /// What changed since `since`, if the snapshot has that: otherwise the whole.
  StreamSource(SnapshotPtr snapshot, Epoch since);

  /// True: the stream is a delta.
  bool is_delta() const { return since_ != 0; }
  /// The next message. False: there are no more; `out` is not changed.
  bool next(Bytes& out);

 private:
  enum class Stage : std::uint8_t { begin, tables, parts, end, done };
  bool next_part(Bytes& out);
  void write(StreamKind kind, std::size_t table, ConstBytes head, ConstBytes body, Bytes& out);
  bool is_due(std::uint32_t changed) const { return changed > since_; }

  SnapshotPtr snapshot_;
  std::uint32_t since_ = 0;  // counter; 0: the whole database
  Stage stage_ = Stage::begin;
  std::size_t table_ = 0, block_ = 0, segment_ = 0;  // the next ones
  std::uint32_t sequence_ = 0;
};

/// All messages of a stream. For tests, and for databases that are small.
Bytes whole_stream(StreamSource source);

}  // namespace parley::ssa
