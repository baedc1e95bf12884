// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The replacement of each octet of a capture's TCP streams. The checker fills the plan while it reads the file
// (capture/read/stream_tap.hpp). Then apply() rewrites the payload of segments. A segment may hold any part of an FPDU,
// and octets may repeat.
//
//   startup frame (RFC 5044 §7.1.1)    header and enhanced data stay, private data is replaced
//   FPDU (RFC 5044 §4.1)               length, marker, pad and headers stay, STags and tagged offsets get pseudonyms,
//                                      payload is replaced, a correct CRC is recomputed
//   message of a QP negotiation        headers, types and lengths of items and what rules check stay; numbers, names,
//                                      texts and addresses are replaced
//   anything else                      becomes 0: it was not decoded and may hold anything
//
// Each change is an XOR with a mask computed in the first pass. Therefore a field can be split over segments.
#pragma once
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "capture/anonymize/key.hpp"
#include "capture/read/stream_tap.hpp"
#include "wire/mpa.hpp"
#include "wire/packet.hpp"
#include "wire/rdmap.hpp"

namespace parley::capture {

/// Counts of octets and FPDUs by treatment, for the report. Repeated octets count each time.
struct StreamCounts {
  std::uint64_t fpdus = 0, crc_right = 0, crc_wrong = 0, startup_frames = 0, messages = 0;  // in the streams, once each
  std::uint64_t private_data = 0;                                                           // octets, once each
  std::uint64_t payload_replaced = 0, zeroed = 0;                                           // octets in packets
};

class StreamPlan final : public StreamTap {
 public:
  /// `keep_stags`: STags and tagged offsets stay as they are.
  StreamPlan(Pseudonyms& names, bool keep_stags) : names_(names), keep_stags_(keep_stags) {}

  void startup(const TappedStream& stream, std::uint64_t at, ConstBytes octets) override;
  void fpdu(const TappedStream& stream, const WalkedFpdu& fpdu) override;
  void lone_length(const TappedStream& stream, std::uint64_t at) override;
  void negotiation(const TappedStream& stream, std::uint64_t at, ConstBytes octets, bool qp_turns) override;
  void judged(std::uint64_t connection, std::uint64_t last_frame) override;

  /// Call once, after the file was read and before apply().
  void finish();
  /// Writes the new payload of this segment to `out`, which must have the same size.
  void apply(const wire::TcpSegmentView& t, std::uint64_t frame, MutBytes out);

  const StreamCounts& counts() const { return counts_; }
  bool keep_stags() const { return keep_stags_; }
  /// The plan would need more memory than state_max. It is incomplete, and the file must not be written.
  bool full() const { return full_; }
  static constexpr std::size_t state_max = 256 << 20;

 private:
  enum class Kind : std::uint8_t { startup, fpdu, lone, message };
  static constexpr std::uint8_t has_markers = 1, has_patch = 2, is_tagged = 4, unproven = 8, pad_unknown = 16;
  /// 32 octets for each FPDU.
  struct Record {
    std::uint64_t at = 0;  ///< stream position
    std::uint64_t offset_mask = 0;
    std::uint32_t stag_mask = 0;
    std::uint32_t crc_mask = 0;  ///< for startup and message: its length
    std::uint32_t patch = 0;     ///< offset in patches_
    std::uint16_t length = 0;    ///< ULPDU_Length
    Kind kind = Kind::fpdu;
    std::uint8_t flags = 0;
  };
  /// Masks that do not fit into a Record. In patches_: begin and length (16 bits each), the masks, and the pad.
  struct Patch {
    std::uint16_t begin = 0;  ///< offset in the ULPDU, or in the startup frame or message
    Bytes masks;
    std::array<std::uint8_t, 3> pad{};
  };
  struct Stream {
    TappedStream info;
    bool known = false;
    Keystream keys;
    std::deque<Record> records;
    std::uint64_t high = 0;  // highest position seen by apply(); resolves the wrap of sequence numbers
  };
  struct TappedConnection {
    std::uint64_t first_frame = 0, last_frame = 0;
    bool judged = false;
    Stream streams[2];
  };

  Stream* stream_of(const TappedStream& info);
  void add(Stream& s, Record record, const Patch* patch);
  void mask_items(ConstBytes in, MutBytes masks, bool names_stay) const;
  void mask_qp_info(ConstBytes in, MutBytes masks);
  Bytes header_masks(ConstBytes header, bool trusted) const;
  void plan_header(const Stream& s, const WalkedFpdu& f, bool proven, Record& r, Patch& p) const;
  void plan_body(const WalkedFpdu& f, const wire::DdpHeader& h, bool proven, Patch& p) const;
  static void plan_pad(const WalkedFpdu& f, Record& r, Patch& p);
  std::uint32_t plan_crc(const Stream& s, const Record& r, const WalkedFpdu& f) const;
  static std::uint64_t place_of(std::uint64_t at, std::uint64_t n, bool markers);
  static std::uint64_t end_of(const Stream& s, const Record& r);
  void mask(const Stream& s, const Record& r, std::uint64_t begin, ConstBytes in, MutBytes out) const;
  void mask_startup(const Record& r, std::uint64_t begin, MutBytes out) const;
  void mask_fpdu(const Stream& s, const Record& r, std::uint64_t begin, ConstBytes in, MutBytes out) const;
  static void mask_markers(const Stream& s, const Record& r, std::uint64_t begin, ConstBytes in, MutBytes out);
  static void keep_lost_markers(const Stream& s, std::uint64_t begin, ConstBytes in, MutBytes out);
  TappedConnection* find(const wire::TcpSegmentView& t, std::uint64_t frame);
  static std::uint64_t ends_hash(const Address& a, const Address& b);

  Pseudonyms& names_;
  bool keep_stags_;
  std::unordered_map<std::uint64_t, TappedConnection> connections_;        // by first frame
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> by_ends_;  // first frames, ascending
  Bytes patches_;
  std::size_t state_ = 0;
  bool full_ = false;
  StreamCounts counts_;
};

}  // namespace parley::capture
