// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The tables that paths are computed from: what a subnet manager knows about its subnet. All numbers in records are
// big-endian. Records name other records by id.
#pragma once
#include <array>

#include "ssa/snapshot.hpp"

namespace parley::ssa {

/// The table's position in path_schema().
enum class PathTable : std::uint8_t { subnet, node, port, link, lft, partition, sl };
inline constexpr std::size_t path_tables = 7;
inline constexpr std::size_t lid_block = 64;  ///< LIDs of a record in the tables lft and sl (IBA §14.2.5.10)
inline constexpr std::uint8_t no_port = 0xFF;
inline constexpr std::uint8_t no_sl = 0xFF;

/// The tables in their order. A database for paths has these first; others may follow.
Schema path_schema();

/// SUBNET, 16 octets: exactly one record.
struct PathSubnet {
  static constexpr PathTable table = PathTable::subnet;
  static constexpr std::size_t size = 16;
  std::uint64_t gid_prefix = 0xFE80000000000000;
  std::uint8_t packet_life_time = 18;  ///< of paths between two ports: 4.096 us * 2^n (IBA §15.2.5.16)
  std::uint8_t sl = 0;                 ///< of partitions without a record
  Bytes emit() const;
  static PathSubnet parse(ConstBytes record);
};

/// NODE, 16 octets.
struct PathNode {
  static constexpr PathTable table = PathTable::node;
  static constexpr std::size_t size = 16;
  enum Type : std::uint8_t { adapter = 1, switch_ = 2, router = 3 };  ///< IBA §14.2.5.3
  std::uint64_t guid = 0;
  std::uint8_t type = adapter, ports = 0;
  std::uint16_t lft_top = 0;  ///< LinearFDBTop: greater LIDs have no port (IBA §14.2.5.4)
  Bytes emit() const;
  static PathNode parse(ConstBytes record);
};

/// PORT, 32 octets: each port with a link, and port 0 of each switch. The variable part is the P_Key table, 2 octets an
/// entry; an entry whose lower 15 bits are 0 is empty (IBA §10.9.2).
struct PathPort {
  static constexpr PathTable table = PathTable::port;
  static constexpr std::size_t size = 32;
  RecordId node = 0;
  std::uint64_t guid = 0;  ///< of an end port, which is a port of an adapter or router, or port 0 of a switch
  std::uint16_t lid = 0;   ///< base LID of an end port; 0: none
  std::uint8_t number = 0, lmc = 0;
  std::uint8_t mtu = 0;   ///< code of the largest MTU (IBA §14.2.5.6, MTUCap)
  std::uint8_t rate = 0;  ///< code of the link's rate (IBA §15.2.5.16); see rate_code()
  Bytes emit() const;
  static PathPort parse(ConstBytes record);
};

/// LINK, 12 octets: both ends.
struct PathLink {
  static constexpr PathTable table = PathTable::link;
  static constexpr std::size_t size = 12;
  std::array<RecordId, 2> node{};
  std::array<std::uint8_t, 2> port{};
  Bytes emit() const;
  static PathLink parse(ConstBytes record);
};

/// Octets for 64 LIDs of one switch.
template <PathTable Table>
struct PathBlock {
  static constexpr PathTable table = Table;
  static constexpr std::size_t size = 72;
  RecordId node = 0;
  std::uint16_t block = 0;  ///< of the LIDs from 64 * block
  std::array<std::uint8_t, lid_block> octets{};
  Bytes emit() const;
  static PathBlock parse(ConstBytes record);
};
/// LFT, 72 octets: the egress port for each LID, or no_port.
using PathLft = PathBlock<PathTable::lft>;
/// SL, 72 octets, optional: the SL of the paths from a switch and its hosts to each LID, or no_sl. It comes before the
/// partition's, for routing engines that avoid deadlocks by SLs.
using PathSl = PathBlock<PathTable::sl>;

/// PARTITION, 4 octets: the SL of a partition.
struct PathPartition {
  static constexpr PathTable table = PathTable::partition;
  static constexpr std::size_t size = 4;
  std::uint16_t p_key = 0;  ///< the member bit does not matter
  std::uint8_t sl = 0;
  Bytes emit() const;
  static PathPartition parse(ConstBytes record);
};

/// A P_Key table as a port record's variable part.
Bytes emit_p_keys(std::span<const std::uint16_t> p_keys);

/// Calls `take(id, record)` for each record of a table.
template <class Record, class Take>
void each_record(const Snapshot& snapshot, Take&& take) {
  snapshot.each(static_cast<std::size_t>(Record::table),
                [&](RecordId id, ConstBytes octets) { take(id, Record::parse(octets)); });
}

}  // namespace parley::ssa
