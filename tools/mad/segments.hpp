// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Reassembles tables from their RMPP segments in a capture (IBA §13.6).
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "capture/read/mad/mad_reader.hpp"
#include "mad/rmpp.hpp"

namespace parley::tools {

/// Many tables at a time, identified by both ends, transaction ID, class and method.
class Segments {
 public:
  static constexpr std::size_t tables_max = 256;  ///< followed at a time; the least recently updated one is evicted
  static constexpr std::size_t octets_max = std::size_t{64} << 20;  ///< of all of them

  struct Table {
    Bytes octets;  ///< the headers of the first segment and all of the data
    std::uint32_t segments = 0;
  };
  /// Handles any datagram. Returns the table that it completes; none for a table of a single segment.
  std::optional<Table> take(const capture::CapturedMad& mad);
  /// Tables that began and were not completed.
  std::uint64_t not_whole() const;

 private:
  using Place = std::tuple<std::optional<std::uint16_t>, std::optional<Gid>, std::uint32_t>;
  using Key = std::tuple<Place, Place, std::uint64_t, std::uint8_t, std::uint8_t>;
  struct OpenTransfer {
    mad::rmpp::Receiver receiver;
    std::uint64_t news = 0;      // number of its latest datagram
    std::size_t octets = 0;      // of the message
    std::uint32_t segments = 0;  // the highest number
    bool given = false;
  };
  static Key key_of(const capture::CapturedMad& mad);
  void drop_oldest();

  std::map<Key, OpenTransfer> tables_;
  std::uint64_t datagrams_ = 0, dropped_ = 0;
  std::size_t octets_ = 0;
};

}  // namespace parley::tools
