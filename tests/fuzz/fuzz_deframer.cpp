// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The deframer on any stream: what it finds does not depend on how the stream is cut, and framing what it found gives a
// stream in which it finds the same again, by the copying and the gathering framer alike (RFC 5044 §4, §5).
#include <cstring>
#include <vector>

#include "mpa/crc32c.hpp"
#include "mpa/framer.hpp"
#include "tests/fuzz/draw.hpp"

namespace parley::fuzz {
namespace {

using namespace mpa;

struct Found {
  std::vector<Bytes> ulpdus;
  std::vector<std::uint64_t> positions;
  DeframeStatus status = DeframeStatus::need_more;
  std::uint64_t position = 0, error_position = 0;
  bool operator==(const Found&) const = default;
};

void drain(Deframer& deframer, ConstBytes in, Found& to) {
  deframer.feed(in);
  FpduView view;
  while ((to.status = deframer.next(view)) == DeframeStatus::fpdu) {
    Bytes ulpdu;
    for (const ConstBytes piece : view.pieces) {
      PARLEY_ASSERT(!piece.empty());
      ulpdu.insert(ulpdu.end(), piece.begin(), piece.end());
    }
    PARLEY_ASSERT(ulpdu.size() == view.ulpdu_length);
    to.ulpdus.push_back(std::move(ulpdu));
    to.positions.push_back(view.position);
  }
  PARLEY_ASSERT(deframer.carried() <= fpdu::wire_max);
  to.position = deframer.position();
  to.error_position = deframer.error_position();
}

Found deframe(const FramerOptions& options, std::uint64_t start, ConstBytes stream, Chunks* chunks) {
  Deframer deframer(options, start);
  Found found;
  drain(deframer, {}, found);
  while (!stream.empty()) {
    const std::size_t n = chunks == nullptr ? stream.size() : std::min(stream.size(), chunks->next());
    const Bytes copy(stream.begin(), stream.begin() + static_cast<std::ptrdiff_t>(n));  // gone after the call
    drain(deframer, copy, found);
    stream = stream.subspan(n);
  }
  return found;
}

/// Puts right CRCs where they belong: a fuzzer does not guess them.
void seal(Bytes& stream, std::uint64_t start, bool markers) {
  for (std::size_t at = 0;;) {
    const std::uint64_t position = start + at;
    const std::size_t lead = markers && position % fpdu::interval == 0 ? fpdu::marker_size : 0;
    if (stream.size() - at < lead + fpdu::length_size) return;
    const std::size_t length = std::size_t{stream[at + lead]} << 8 | stream[at + lead + 1];
    if (!fpdu::length_allowed(length)) return;
    const std::size_t wire = fpdu::wire_size(position, length, markers);
    if (stream.size() - at < wire) return;
    const std::uint32_t crc = crc32c(ConstBytes(stream).subspan(at, wire - fpdu::crc_size));
    for (std::size_t i = 0; i < fpdu::crc_size; ++i)
      stream[at + wire - fpdu::crc_size + i] = static_cast<std::uint8_t>(crc >> 8 * i);
    at += wire;
  }
}

Bytes copied(Framer& framer, ConstBytes ulpdu, std::size_t header) {
  Bytes out(framer.wire_size(ulpdu.size()));
  PARLEY_ASSERT(framer.frame(ulpdu.first(header), ulpdu.subspan(header), out) == out.size());
  return out;
}

Bytes gathered(Framer& framer, ConstBytes ulpdu, std::size_t header) {
  const ConstBytes payload[] = {ulpdu.subspan(header, (ulpdu.size() - header) / 3),
                                ulpdu.subspan(header + (ulpdu.size() - header) / 3)};
  Bytes side(Framer::side_size(header, ulpdu.size()));
  std::vector<ConstBytes> pieces(Framer::gather_pieces(2, ulpdu.size()));
  std::size_t wire = 0;
  const std::size_t used = framer.gather(ulpdu.first(header), payload, side, pieces, wire);
  PARLEY_ASSERT(used != 0);
  Bytes out;
  for (const ConstBytes piece : std::span(pieces).first(used)) out.insert(out.end(), piece.begin(), piece.end());
  PARLEY_ASSERT(out.size() == wire);
  return out;
}

void run(ConstBytes in) {
  Draw draw(in);
  const std::uint8_t flags = draw.u8();
  const FramerOptions options{.crc = (flags & 1) != 0, .markers = (flags & 2) != 0};
  const std::uint64_t start = std::uint64_t{draw.u8()} * 4 + ((flags & 4) != 0 ? (std::uint64_t{1} << 32) - 512 : 0);
  Chunks chunks(draw.u8());
  const std::size_t header = draw.u8() % 40;
  const ConstBytes rest = draw.rest();
  Bytes stream(rest.begin(), rest.end());
  if ((flags & 8) != 0) seal(stream, start, options.markers);

  const Found whole = deframe(options, start, stream, nullptr);
  const Found split = deframe(options, start, stream, &chunks);
  PARLEY_ASSERT(whole == split);

  Framer copying(options, start), gathering(options, start);
  Bytes again;
  for (std::size_t i = 0; i < whole.ulpdus.size(); ++i) {
    const ConstBytes ulpdu = whole.ulpdus[i];
    const std::size_t head = std::min(header, ulpdu.size());
    const Bytes one = copied(copying, ulpdu, head);
    PARLEY_ASSERT(one == gathered(gathering, ulpdu, head));
    again.insert(again.end(), one.begin(), one.end());
  }
  // Same positions and lengths: nothing but PAD, reserved bits and an unchecked CRC may differ on the wire.
  PARLEY_ASSERT(start + again.size() == whole.position);
  const Found once_more = deframe(options, start, again, &chunks);
  PARLEY_ASSERT(once_more.ulpdus == whole.ulpdus && once_more.positions == whole.positions);
  PARLEY_ASSERT(once_more.status == DeframeStatus::need_more);
}

}  // namespace
}  // namespace parley::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parley::fuzz::run({data, size});
  return 0;
}
