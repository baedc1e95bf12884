// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Classic pcap files, read and written: magics a1b2c3d4 (microseconds), a1b23c4d (nanoseconds) and a1b2cd34 (the
// "modified" header of old Linux systems), either octet order. Nothing here opens a file: the caller owns the octets.
//
// The reader works on a window: the caller passes the octets from offset() on, as many as it has, and drops those that
// were consumed. A window of capture_window_min octets is always enough to make progress, so it bounds the memory.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "parley/bytes.hpp"
#include "parley/time.hpp"

namespace parley::wire {

/// A longer packet record is treated as damage: no TCP/IP frame is that large. The limit bounds the reader's window.
inline constexpr std::uint32_t capture_packet_max = 1 << 20;
inline constexpr std::size_t capture_window_min = capture_packet_max + (64 << 10);

/// Link types other than those of wire/packet.hpp: ERF, whose records name their kind of link, and InfiniBand, whose
/// packets begin with the LRH.
inline constexpr std::uint16_t link_type_erf = 197, link_type_infiniband = 247;

struct CapturedPacket {
  std::uint64_t frame = 0;   ///< 1 for the first packet of the file, as Wireshark counts
  std::uint64_t offset = 0;  ///< of the record in the file
  Instant at{};              ///< since 1970-01-01
  std::uint32_t interface = 0;
  std::uint16_t link_type = 0;
  std::uint32_t original_length = 0;  ///< octets on the wire; octets.size() when the snap length cut nothing
  /// pcapng's epb_packetid: equal in all records of one packet.
  std::optional<std::uint64_t> packet_id{};
  ConstBytes octets;  ///< view into the window
};

/// Why a file cannot be read (any further), as one line.
struct CaptureError {
  std::uint64_t offset = 0;
  std::string text;
  std::string to_string() const;  ///< "offset 24: ..."
};

enum class CaptureStatus : std::uint8_t {
  packet,     ///< `out` holds one; its octets are a view into the window
  need_more,  ///< pass a longer window (after dropping what was consumed); at the end of the file call finish()
  error,      ///< error() has the cause; nothing more can be read
};

class PcapReader {
 public:
  /// Whether `first` is a pcap magic. `first` is the file's first four octets, read as big-endian.
  static bool is_magic(std::uint32_t first);
  CaptureStatus next(ConstBytes window, CapturedPacket& out, std::size_t& consumed);
  const CaptureError& error() const { return error_; }
  std::uint64_t offset() const { return offset_; }
  std::uint16_t link_type() const { return link_type_; }
  /// What is wrong with a file that ends `left` octets after offset(); empty if it ends between two records.
  std::optional<CaptureError> finish(std::size_t left) const;

 private:
  CaptureStatus read_header(ConstBytes window, std::size_t& consumed);
  CaptureStatus fail_at(std::uint64_t offset, std::string text);

  bool header_read_ = false, swapped_ = false, nanoseconds_ = false, modified_ = false, failed_ = false;
  std::uint16_t link_type_ = 0;
  std::uint64_t offset_ = 0, frames_ = 0;
  CaptureError error_;
};

/// Appends a classic pcap file (nanoseconds, little-endian) to a buffer that the caller drains.
class PcapWriter {
 public:
  PcapWriter(Bytes& out, std::uint16_t link_type, std::uint32_t snap_length = 262144);
  /// original_length 0: the frame is whole.
  void packet(Instant at, ConstBytes frame, std::uint32_t original_length = 0);

 private:
  Bytes& out_;
};

}  // namespace parley::wire
