// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The octets of a queue pair on their way to TCP: framed FPDUs that are not passed on yet. Payload of posted work stays
// in the user's memory, which must not change before the completion; only headers, markers, pads and CRCs are in a side
// arena. The source of a peer's Read may change at any time, so it is copied, and its CRC stays right. RFC 5044 §4
// through mpa::Framer.
//
// The arenas and the list of pieces are filled from the front and start over when all is sent, so nothing is moved or
// freed one by one; they grow to their bounds with use and then never allocate.
#pragma once
#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "base/trace.hpp"
#include "mpa/framer.hpp"

namespace parley::nic::iwarp {

class Output {
 public:
  /// Octets framed ahead of TCP: enough for one large write, and few enough that the payload is still in the cache (the
  /// CRC has just read it) when TCP copies it.
  static constexpr std::size_t ahead_max = 256 * 1024;
  static constexpr std::size_t arena_first = 256, arena_max = 16 * 1024;
  static constexpr std::size_t copies_first = 1024, copies_max = 128 * 1024;
  static constexpr std::size_t pieces_first = 16, pieces_max = 1024;
  /// The longest ULPDU, even if TCP would accept more: 16 KiB of payload stay in the L1 cache from the CRC to the copy,
  /// and a receiver buffers less of an FPDU that a read splits. Only loopback has segments that would hold more.
  static constexpr std::size_t ulpdu_max = 16 * 1024 + 18;
  /// Payloads up to this size are copied next to their header: one piece is cheaper than three.
  static constexpr std::size_t inline_max = 256;

  void start(const mpa::FramerOptions& options, const trace::Scope* trace) {
    trace_ = trace;
    framer_.emplace(options);
    crc_ = options.crc;
    mulpdu_ = std::min<std::size_t>(framer_->mulpdu(), ulpdu_max);
  }
  /// The longest ULPDU to send (RFC 5044 §4.5).
  std::size_t mulpdu() const { return mulpdu_; }

  /// Frames one ULPDU of `header` then `payload` (at most 4 pieces, `length` octets in all). False if there is no room
  /// until more is sent; nothing has changed then.
  bool add(ConstBytes header, std::span<const ConstBytes> payload, std::size_t length);
  /// The same with the payload copied now: later changes of that memory, by the user or by a peer's Write, do not reach
  /// the wire. Without CRC it equals add(): the verbs permit torn data then, and no check can fail.
  bool add_copy(ConstBytes header, ConstBytes payload);

  std::size_t gather(std::span<ConstBytes> out) const;
  void sent(std::size_t n);

  bool empty() const { return head_ == tail_; }
  std::size_t pieces() const { return tail_ - head_; }
  std::size_t octets() const { return static_cast<std::size_t>(framed_ - sent_); }
  /// Octets framed and handed to TCP since attach.
  std::uint64_t framed_total() const { return framed_; }
  std::uint64_t sent_total() const { return sent_; }

  /// Copies the unsent octets, so that user memory is no longer needed.
  void own_all();
  void clear();

 private:
  /// Octets that the list of pieces points into. It grows only while nothing points into it.
  struct Arena {
    std::size_t first, max;
    std::vector<std::uint8_t> octets{};
    std::size_t used = 0;
    bool grow = false;  // it was too small

    bool make_room(std::size_t size, bool unused);
    MutBytes next(std::size_t size) { return {octets.data() + used, size}; }
  };

  bool make_room(Arena& arena, std::size_t size, std::size_t pieces);
  void trace_fpdu(ConstBytes header, std::size_t length) const;
  bool add_pieces(ConstBytes header, std::span<const ConstBytes> payload, std::size_t length);
  bool add_whole(Arena& arena, ConstBytes header, ConstBytes payload);
  void append(std::span<const ConstBytes> more);
  void rewind() { head_ = tail_ = arena_.used = copies_.used = 0; }

  std::optional<mpa::Framer> framer_;
  bool crc_ = true;
  const trace::Scope* trace_ = nullptr;
  std::size_t mulpdu_ = 0;
  Arena arena_{.first = arena_first, .max = arena_max};
  Arena copies_{.first = copies_first, .max = copies_max};
  std::vector<ConstBytes> list_;
  std::size_t head_ = 0, tail_ = 0;  // pieces [head_, tail_) of list_ are unsent
  Bytes owned_;                      // the octets copied by own_all()
  std::uint64_t framed_ = 0, sent_ = 0;
};

}  // namespace parley::nic::iwarp
