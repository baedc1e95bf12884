// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// pcapng files, read and written, and CaptureReader, which reads pcap or pcapng (wire/pcap.hpp explains windows).
// Read: sections of either octet order, any number of interfaces with their own time resolution and offset,
// enhanced, simple and old packet blocks; other blocks and unknown options are skipped without being held in
// memory.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes_io.hpp"
#include "parley/address.hpp"
#include "wire/pcap.hpp"

namespace parley::wire {

class PcapngReader {
 public:
  CaptureStatus next(ConstBytes window, CapturedPacket& out, std::size_t& consumed);
  const CaptureError& error() const { return error_; }
  std::uint64_t offset() const { return offset_; }
  std::optional<CaptureError> finish(std::size_t left) const;

 private:
  struct Interface {
    std::uint16_t link_type = 0;
    std::uint32_t snap_length = 0;
    std::uint8_t resolution = 6;      // if_tsresol: 10^-n, or 2^-n with the top bit set
    std::int64_t offset_seconds = 0;  // if_tsoffset
  };
  static constexpr std::size_t interfaces_max = 4096;  // per section; real files have a handful

  CaptureStatus fail_at(std::uint64_t offset, std::string text);
  bool section(ConstBytes block);
  bool interface_block(ConstBytes body);
  bool packet_block(std::uint32_t type, ConstBytes body, CapturedPacket& out);
  std::optional<std::uint64_t> packet_id(Reader options) const;
  static Instant time_of(const Interface& i, std::uint64_t ticks);
  std::uint16_t u16(Reader& r) const;
  std::uint32_t u32(Reader& r) const;

  bool in_section_ = false, little_ = true, failed_ = false;
  std::vector<Interface> interfaces_;
  std::uint64_t offset_ = 0, frames_ = 0, skip_ = 0;
  CaptureError error_;
};

/// Reads pcap or pcapng, depending on the first four octets.
class CaptureReader {
 public:
  CaptureStatus next(ConstBytes window, CapturedPacket& out, std::size_t& consumed);
  const CaptureError& error() const;
  std::uint64_t offset() const;
  /// Call at the end of the file; `left` is the number of octets not consumed. Empty if the file may end there.
  std::optional<CaptureError> finish(std::size_t left) const;

 private:
  enum class Format : std::uint8_t { unknown, pcap, pcapng, neither };
  Format format_ = Format::unknown;
  PcapReader pcap_;
  PcapngReader pcapng_;
  CaptureError error_;
};

/// Reads a whole file in memory, packet by packet; returns what is wrong with it, if anything.
template <class Handler>
std::optional<CaptureError> read_capture(ConstBytes file, Handler&& handle) {
  CaptureReader reader;
  CapturedPacket packet;
  for (;;) {
    std::size_t consumed = 0;
    const CaptureStatus status = reader.next(file, packet, consumed);
    if (status == CaptureStatus::packet) handle(static_cast<const CapturedPacket&>(packet));
    file = file.subspan(consumed);
    if (status == CaptureStatus::error) return reader.error();
    if (status == CaptureStatus::need_more) return reader.finish(file.size());
  }
}

/// The options of a section header that describe the file's origin. Empty strings are not written.
struct PcapngSection {
  std::string application;  ///< shb_userappl: program, version, seed, commit
  std::string hardware, system;
  std::string comment;
};

enum class PacketDirection : std::uint8_t { unknown = 0, inbound = 1, outbound = 2 };

/// Options of a packet.
struct PacketRemarks {
  std::span<const std::string> comments{};  ///< Wireshark shows them with the packet; empty ones are not written
  PacketDirection direction = PacketDirection::unknown;
  std::optional<std::uint64_t> packet_id{};  ///< equal in all records of one packet
  std::uint32_t original_length = 0;         ///< 0: the frame is whole
};

/// Appends one little-endian section to a buffer that the caller drains. Times are nanoseconds (if_tsresol 9).
class PcapngWriter {
 public:
  PcapngWriter(Bytes& out, const PcapngSection& section);
  /// Returns the interface's number. Add an interface before the first packet that names it. speed_bps 0: not written.
  std::uint32_t add_interface(std::string_view name, std::uint16_t link_type, std::string_view description = {},
                              std::uint64_t speed_bps = 0);
  /// Names for addresses (a name resolution block); ports do not matter.
  void add_names(std::span<const std::pair<Address, std::string>> names);
  /// original_length 0: the frame is whole. Wireshark shows the comment with the packet.
  void packet(std::uint32_t interface, Instant at, ConstBytes frame, std::string_view comment = {},
              PacketDirection direction = PacketDirection::unknown, std::uint32_t original_length = 0);
  void packet(std::uint32_t interface, Instant at, ConstBytes frame, const PacketRemarks& remarks);

 private:
  Bytes& out_;
  std::uint32_t interfaces_ = 0;
};

}  // namespace parley::wire
