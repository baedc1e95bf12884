// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Anonymizes a capture. Packets, times, lengths and the verdict stay the same; addresses, ports, private data and
// payload are replaced. It makes two passes over the file: note() reads the streams, rewrite() writes the new file
// block by block. pcap stays pcap, and pcapng stays pcapng. In pcapng, only blocks and options without names are
// written: section, interface and packet blocks, with resolution, speed, direction and packet identifiers.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "capture/analyzer.hpp"
#include "capture/anonymize/frame.hpp"
#include "wire/pcapng.hpp"

namespace parley::capture {

struct AnonymizeOptions {
  AnonymizeKey key;
  bool keep_stags = false;
  bool shift_time = false;  ///< move all times so that the earliest packet is at 0
};

struct ContainerCounts {
  std::uint64_t blocks_dropped = 0;   ///< name resolution, statistics, decryption secrets, and all other types
  std::uint64_t options_dropped = 0;  ///< comments, names of interfaces, programs and systems, hashes
};

class Anonymizer {
 public:
  explicit Anonymizer(const AnonymizeOptions& options);

  /// First pass: call with every packet of the file, in order; then call learned().
  void note(const wire::CapturedPacket& packet);
  void learned();
  /// Why this file cannot be rewritten; empty if it can. Either it needs more memory than the limits allow, or no link
  /// type of it is decoded, so that only zeros would be left.
  std::string refusal() const;

  /// Second pass: like wire::CaptureReader::next, but appends the anonymized form of the consumed octets to `out`.
  wire::CaptureStatus rewrite(ConstBytes window, Bytes& out, std::size_t& consumed);
  const wire::CaptureError& error() const { return reader_.error(); }
  std::optional<wire::CaptureError> finish(std::size_t left) const { return reader_.finish(left); }

  const StreamCounts& streams() const { return plan_.counts(); }
  const FrameCounts& frames() const { return frames_.counts(); }
  const ContainerCounts& container() const { return container_; }
  std::size_t ipv4_addresses() const { return names_.addresses(); }

 private:
  struct Interface {
    std::uint8_t resolution = 6;
    std::int64_t offset_seconds = 0;
  };
  class BlockOut;

  void classic(ConstBytes consumed, const wire::CapturedPacket* packet, Bytes& out);
  void blocks(ConstBytes consumed, const wire::CapturedPacket* packet, Bytes& out);
  void section(ConstBytes block, Bytes& out);
  void interface_block(ConstBytes body, Bytes& out);
  void packet_block(std::uint32_t type, ConstBytes body, const wire::CapturedPacket& packet, Bytes& out);
  void packet_options(Reader options, BlockOut& block);
  struct Option {
    std::uint16_t code = 0;
    ConstBytes value;
  };
  /// The next one of a block. None: they have ended, or the rest is cut off.
  std::optional<Option> next_option(Reader& options) const;
  std::uint64_t shifted(const Interface& i, std::uint64_t ticks) const;
  std::uint16_t u16(Reader& r) const { return little_ ? r.le16() : r.be16(); }
  std::uint32_t u32(Reader& r) const { return little_ ? r.le32() : r.be32(); }
  std::uint64_t u64(Reader& r) const { return little_ ? r.le64() : r.be64(); }

  AnonymizeOptions options_;
  Pseudonyms names_;
  StreamPlan plan_;
  Analyzer analyzer_;
  FrameAnonymizer frames_;
  ContainerCounts container_;
  std::uint64_t noted_ = 0, foreign_ = 0;  // packets; those of a link type that is not decoded
  std::uint16_t foreign_link_type_ = 0;
  Instant earliest_{Duration{std::numeric_limits<std::int64_t>::max()}};
  wire::CaptureReader reader_;
  enum class Format : std::uint8_t { unknown, pcap, pcapng } format_ = Format::unknown;
  bool little_ = true, nanoseconds_ = false, modified_ = false, header_written_ = false;
  std::uint64_t skip_ = 0;  // octets of a dropped block that are still to be skipped
  std::vector<Interface> interfaces_;
};

}  // namespace parley::capture
