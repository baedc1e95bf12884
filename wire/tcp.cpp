// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/tcp.hpp"

#include <algorithm>

#include "base/bytes_io.hpp"

namespace parley::wire {
namespace {

// RFC 9293 §3.2, RFC 7323 §2 and §3, RFC 2018 §2 and §3: kinds and lengths.
constexpr std::uint8_t kind_end = 0, kind_nop = 1, kind_mss = 2, kind_window_scale = 3, kind_sack_permitted = 4,
                       kind_sack = 5, kind_timestamps = 8;
constexpr std::uint8_t length_mss = 4, length_window_scale = 3, length_sack_permitted = 2, length_timestamps = 10,
                       length_block = 8;
constexpr std::size_t header_min = 20, options_max = 40;

/// Octets of options without SACK blocks, padding included. The layout is Linux's: padding goes in front so that values
/// are aligned. In a SYN, SACK-permitted is the padding of the timestamps.
std::size_t fixed_size(const TcpHeader& h) {
  std::size_t size = h.mss != 0 ? 4 : 0;
  if (h.timestamps) size += 12;
  if (h.sack_permitted && !h.timestamps) size += 4;
  if (h.window_scale >= 0) size += 4;
  return size;
}

/// The number of SACK blocks to write. If not all fit, the last ones are omitted (RFC 2018 §3).
std::size_t blocks_of(const TcpHeader& h) {
  const std::size_t room = (options_max - 4 - fixed_size(h)) / length_block;
  return std::min({std::size_t{h.sack_count}, h.sack.size(), room});
}

std::size_t options_size(const TcpHeader& h) {
  const std::size_t blocks = blocks_of(h);
  return fixed_size(h) + (blocks != 0 ? 4 + blocks * length_block : 0);
}

void emit_options(const TcpHeader& h, Writer& w) {
  const auto option = [&w](std::uint8_t kind, std::uint8_t length) {
    w.u8(kind);
    w.u8(length);
  };
  if (h.mss != 0) {
    option(kind_mss, length_mss);
    w.be16(h.mss);
  }
  if (h.sack_permitted && h.timestamps) {
    option(kind_sack_permitted, length_sack_permitted);
  } else if (h.sack_permitted || h.timestamps) {
    w.be16(kind_nop << 8 | kind_nop);
    if (h.sack_permitted) option(kind_sack_permitted, length_sack_permitted);
  }
  if (h.timestamps) {
    option(kind_timestamps, length_timestamps);
    w.be32(h.ts_value);
    w.be32(h.ts_echo);
  }
  if (h.window_scale >= 0) {
    w.u8(kind_nop);
    option(kind_window_scale, length_window_scale);
    w.u8(static_cast<std::uint8_t>(h.window_scale));
  }
  if (const std::size_t blocks = blocks_of(h); blocks != 0) {
    w.be16(kind_nop << 8 | kind_nop);
    option(kind_sack, static_cast<std::uint8_t>(2 + blocks * length_block));
    for (std::size_t i = 0; i < blocks; ++i) {
      w.be32(h.sack[i].left);
      w.be32(h.sack[i].right);
    }
  }
}

void parse_sack(Reader value, TcpHeader& h) {
  h.sack_count = 0;
  while (value.left() >= length_block && h.sack_count < h.sack.size()) {
    TcpHeader::Block& block = h.sack[h.sack_count++];
    block.left = value.be32();
    block.right = value.be32();
  }
}

// RFC 9293 §3.1: an option with an impossible length ends the list; the options before it are kept.
void parse_options(ConstBytes options, TcpHeader& h) {
  if (options.size() == 12) {  // nearly every segment of a connection with timestamps
    Reader common(options);
    if (common.be32() == (kind_nop << 24 | kind_nop << 16 | kind_timestamps << 8 | length_timestamps)) {
      h.timestamps = true;
      h.ts_value = common.be32();
      h.ts_echo = common.be32();
      return;
    }
  }
  Reader r(options);
  while (r.left() > 0) {
    const std::uint8_t kind = r.u8();
    if (kind == kind_end) return;
    if (kind == kind_nop) continue;
    const std::uint8_t length = r.u8();
    if (!r.ok() || length < 2 || length - 2u > r.left()) return;
    Reader value(r.bytes(length - 2u));
    if (kind == kind_mss && length == length_mss) h.mss = value.be16();
    if (kind == kind_window_scale && length == length_window_scale)
      h.window_scale = static_cast<std::int8_t>(std::min<std::uint8_t>(value.u8(), 127));
    if (kind == kind_sack_permitted && length == length_sack_permitted) h.sack_permitted = true;
    if (kind == kind_sack && length > 2 && (length - 2) % length_block == 0) parse_sack(value, h);
    if (kind == kind_timestamps && length == length_timestamps) {
      h.timestamps = true;
      h.ts_value = value.be32();
      h.ts_echo = value.be32();
    }
  }
}

}  // namespace

std::size_t TcpHeader::wire_size() const { return header_min + options_size(*this); }

void emit_tcp_header(const TcpHeader& h, MutBytes out) {
  Writer w(out);
  w.be16(h.source_port);
  w.be16(h.destination_port);
  w.be32(h.seq);
  w.be32(h.ack);
  w.u8(static_cast<std::uint8_t>(h.wire_size() / 4 << 4));
  w.u8(h.flags);
  w.be16(h.window);
  w.be32(0);  // checksum, urgent pointer
  emit_options(h, w);
}

Result<TcpParsed> parse_tcp_header(ConstBytes segment) {
  Reader r(segment);
  TcpParsed out;
  TcpHeader& h = out.header;
  h.source_port = r.be16();
  h.destination_port = r.be16();
  h.seq = r.be32();
  h.ack = r.be32();
  out.size = static_cast<std::size_t>(r.u8() >> 4) * 4;
  h.flags = r.u8();
  h.window = r.be16();
  r.skip(4);
  if (!r.ok()) return fail(Errc::truncated);
  if (out.size < header_min) return fail(Errc::malformed);
  const ConstBytes options = r.bytes(out.size - header_min);
  if (!r.ok()) return fail(Errc::truncated);
  parse_options(options, h);
  return out;
}

TcpHeader reset_for(const TcpHeader& in, std::size_t payload) {
  TcpHeader out;
  out.source_port = in.destination_port;
  out.destination_port = in.source_port;
  if (in.has_ack()) {
    out.seq = in.ack;
    out.flags = tcp_flag::rst;
  } else {
    out.ack = in.seq + static_cast<std::uint32_t>(payload) + (in.syn() ? 1 : 0) + (in.fin() ? 1 : 0);
    out.flags = tcp_flag::rst | tcp_flag::ack;
  }
  return out;
}

}  // namespace parley::wire
