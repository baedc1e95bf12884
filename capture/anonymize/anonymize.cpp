// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/anonymize/anonymize.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_io.hpp"
#include "capture/link_type.hpp"

namespace parley::capture {
namespace {

constexpr std::uint32_t block_section = 0x0A0D0D0A, block_interface = 1, block_packet = 2, block_simple = 3,
                        block_enhanced = 6, byte_order_magic = 0x1A2B3C4D;
constexpr std::uint16_t opt_if_speed = 8, opt_if_tsresol = 9, opt_if_fcslen = 13, opt_if_tsoffset = 14, opt_flags = 2,
                        opt_drops = 4, opt_packet_id = 5;
constexpr std::uint32_t magic_us = 0xA1B2C3D4, magic_ns = 0xA1B23C4D, magic_modified = 0xA1B2CD34;
constexpr std::size_t pcap_header = 24, record_header = 16, modified_record_header = 24, block_head = 8,
                      block_frame = 12;

constexpr std::size_t padded(std::size_t n) { return (n + 3) & ~std::size_t{3}; }

/// Converts nanoseconds to ticks of a clock with this if_tsresol, rounded down.
std::uint64_t ticks_in(std::uint8_t resolution, std::uint64_t ns) {
  const unsigned n = resolution & 0x7F;
  const std::uint64_t seconds = ns / 1'000'000'000, rest = ns % 1'000'000'000;
  if ((resolution & 0x80) != 0) {
    if (n >= 34) return 0;
    return (seconds << n) + ((rest << n) / 1'000'000'000);
  }
  std::uint64_t per_second = 1;
  for (unsigned k = 0; k < n && k < 19; ++k) per_second *= 10;
  return seconds * per_second +
         (per_second <= 1'000'000'000 ? rest / (1'000'000'000 / per_second) : rest * (per_second / 1'000'000'000));
}

}  // namespace

/// Writes a pcapng block in either octet order.
class Anonymizer::BlockOut {
 public:
  BlockOut(Bytes& out, std::uint32_t type, bool little) : out_(out), start_(out.size()), little_(little) {
    u32(type);
    u32(0);
  }
  void u16(std::uint16_t v) {
    Writer w = put(2);
    little_ ? w.le16(v) : w.be16(v);
  }
  void u32(std::uint32_t v) {
    Writer w = put(4);
    little_ ? w.le32(v) : w.be32(v);
  }
  void u64(std::uint64_t v) {
    Writer w = put(8);
    little_ ? w.le64(v) : w.be64(v);
  }
  void option(std::uint16_t code, ConstBytes value) {
    u16(code);
    u16(static_cast<std::uint16_t>(value.size()));
    put(padded(value.size())).bytes(value);
    options_ = true;
  }
  MutBytes room(std::size_t n) {  // followed by zero padding
    const std::size_t at = out_.size();
    put(padded(n));
    return MutBytes(out_).subspan(at, n);
  }
  void end() {
    if (options_) u32(0);
    const auto length = static_cast<std::uint32_t>(out_.size() + 4 - start_);
    u32(length);
    Writer w(MutBytes(out_).subspan(start_ + 4, 4));
    little_ ? w.le32(length) : w.be32(length);
  }

 private:
  Writer put(std::size_t n) {
    const std::size_t at = out_.size();
    out_.resize(at + n);
    return Writer(MutBytes(out_).subspan(at));
  }
  Bytes& out_;
  std::size_t start_;
  bool little_, options_ = false;
};

Anonymizer::Anonymizer(const AnonymizeOptions& options)
    : options_(options),
      names_(options.key),
      plan_(names_, options.keep_stags),
      analyzer_({.tap = &plan_}),
      frames_(names_, plan_) {}

void Anonymizer::note(const wire::CapturedPacket& packet) {
  earliest_ = std::min(earliest_, packet.at);
  analyzer_.push(packet);
  ++noted_;
  if (wire::link_type_supported(packet.link_type)) return;
  ++foreign_;
  foreign_link_type_ = packet.link_type;
}

void Anonymizer::learned() {
  analyzer_.finish();
  plan_.finish();
}

std::string Anonymizer::refusal() const {
  if (plan_.full())
    return fmt::format(
        "what has to be remembered of its FPDUs takes more than {} MiB; split the capture (by connection)",
        StreamPlan::state_max >> 20);
  if (names_.full()) return fmt::format("it names more than {} IPv4 addresses; split the capture", Pseudonyms::v4_max);
  if (foreign_ > 0 && foreign_ == noted_) return link_type_refusal(foreign_link_type_);
  return {};
}

wire::CaptureStatus Anonymizer::rewrite(ConstBytes window, Bytes& out, std::size_t& consumed) {
  wire::CapturedPacket packet;
  const auto status = reader_.next(window, packet, consumed);
  if (format_ == Format::unknown && window.size() >= 4)
    format_ = Reader(window).be32() == block_section ? Format::pcapng : Format::pcap;
  const wire::CapturedPacket* const whole = status == wire::CaptureStatus::packet ? &packet : nullptr;
  if (format_ == Format::pcap) classic(window.first(consumed), whole, out);
  if (format_ == Format::pcapng) blocks(window.first(consumed), whole, out);
  return status;
}

void Anonymizer::classic(ConstBytes consumed, const wire::CapturedPacket* packet, Bytes& out) {
  if (!header_written_ && consumed.size() >= pcap_header) {
    const ConstBytes head = consumed.first(pcap_header);
    const std::uint32_t be = Reader(head).be32();
    little_ = be != magic_us && be != magic_ns && be != magic_modified;
    Reader r(head);
    const std::uint32_t magic = u32(r);
    nanoseconds_ = magic == magic_ns;
    modified_ = magic == magic_modified;
    const std::size_t at = out.size();
    out.insert(out.end(), head.begin(), head.end());
    Writer(MutBytes(out).subspan(at + 8, 8)).zeros(8);  // time zone and accuracy
    consumed = consumed.subspan(pcap_header);
    header_written_ = true;
  }
  const std::size_t head = modified_ ? modified_record_header : record_header;
  if (packet == nullptr || consumed.size() < head + packet->octets.size()) return;
  const std::size_t at = out.size();
  out.resize(at + head + packet->octets.size());
  const MutBytes record = MutBytes(out).subspan(at);
  Writer w(record);
  w.bytes(consumed.first(record_header));
  if (options_.shift_time) {
    const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>((packet->at - earliest_).count(), 0));
    const auto seconds = static_cast<std::uint32_t>(ns / 1'000'000'000);
    const auto fraction = static_cast<std::uint32_t>(ns % 1'000'000'000 / (nanoseconds_ ? 1 : 1000));
    Writer t(record);
    for (const std::uint32_t v : {seconds, fraction}) little_ ? t.le32(v) : t.be32(v);
  }
  frames_.rewrite(*packet, record.subspan(head));
}

void Anonymizer::blocks(ConstBytes consumed, const wire::CapturedPacket* packet, Bytes& out) {
  while (!consumed.empty()) {
    if (skip_ > 0) {
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(skip_, consumed.size()));
      skip_ -= n;
      consumed = consumed.subspan(n);
      continue;
    }
    if (consumed.size() < block_frame) return;
    if (Reader(consumed).be32() == block_section)
      little_ = Reader(consumed.subspan(block_head)).le32() == byte_order_magic;
    Reader r(consumed);
    const std::uint32_t type = u32(r), length = u32(r);
    const bool packet_type = type == block_packet || type == block_simple || type == block_enhanced;
    if (length < block_frame) return;
    if (type != block_section && type != block_interface && !packet_type) {
      ++container_.blocks_dropped;
      skip_ = length;
      continue;
    }
    if (length > consumed.size()) return;  // cannot happen: the reader consumes these blocks whole
    const ConstBytes body = consumed.subspan(block_head, length - block_frame);
    if (type == block_section) section(body, out);
    if (type == block_interface) interface_block(body, out);
    if (packet_type && packet != nullptr) packet_block(type, body, *packet, out);
    consumed = consumed.subspan(length);
  }
}

void Anonymizer::section(ConstBytes body, Bytes& out) {
  interfaces_.clear();
  Reader r(body);
  r.skip(4);
  BlockOut b(out, block_section, little_);
  b.u32(byte_order_magic);
  b.u16(u16(r));
  b.u16(u16(r));
  r.skip(8);
  b.u64(~0ULL);  // section length: not specified, because it changes
  while (next_option(r)) ++container_.options_dropped;
  b.end();
}

std::optional<Anonymizer::Option> Anonymizer::next_option(Reader& options) const {
  if (options.left() < 4) return std::nullopt;
  const std::uint16_t code = u16(options), length = u16(options);
  const ConstBytes value = options.bytes(length);
  options.skip(padded(length) - length);
  if (code == 0 || !options.ok()) return std::nullopt;
  return Option{code, value};
}

void Anonymizer::interface_block(ConstBytes body, Bytes& out) {
  Reader r(body);
  BlockOut b(out, block_interface, little_);
  b.u16(u16(r));
  r.skip(2);
  b.u16(0);
  b.u32(u32(r));
  Interface i;
  while (const auto option = next_option(r)) {
    const auto& [code, value] = *option;
    const std::size_t length = value.size();
    Reader v(value);
    if (code == opt_if_tsresol && length >= 1) i.resolution = v.u8();
    if (code == opt_if_tsoffset && length >= 8) i.offset_seconds = static_cast<std::int64_t>(u64(v));
    const bool resolution = (code == opt_if_tsresol || code == opt_if_fcslen) && length == 1;
    const bool moved = code == opt_if_tsoffset && length == 8 && !options_.shift_time;
    if (resolution || moved || (code == opt_if_speed && length == 8))
      b.option(code, value);
    else if (code != opt_if_tsoffset)
      ++container_.options_dropped;
  }
  interfaces_.push_back(i);
  b.end();
}

std::uint64_t Anonymizer::shifted(const Interface& i, std::uint64_t ticks) const {
  if (!options_.shift_time) return ticks;
  // The earliest time on this interface's clock, relative to the interface's if_tsoffset.
  const std::int64_t offset = std::clamp<std::int64_t>(i.offset_seconds, -(1LL << 32), 1LL << 32) * 1'000'000'000;
  const std::int64_t from = earliest_.time_since_epoch().count() - offset;
  if (from >= 0) return ticks - std::min(ticks, ticks_in(i.resolution, static_cast<std::uint64_t>(from)));
  return ticks + ticks_in(i.resolution, static_cast<std::uint64_t>(-from));
}

// Keeps epb_flags and epb_dropcount. epb_packetid is replaced; equal identifiers stay equal.
void Anonymizer::packet_options(Reader options, BlockOut& block) {
  while (const auto option = next_option(options)) {
    const auto& [code, value] = *option;
    const std::size_t length = value.size();
    if (code == opt_packet_id && length == 8) {
      Reader id(value);
      Bytes other(8);
      Writer w(other);
      const std::uint64_t v = names_.identifier(u64(id));
      little_ ? w.le64(v) : w.be64(v);
      block.option(code, other);
    } else if ((code == opt_flags && length == 4) || (code == opt_drops && length == 8)) {
      block.option(code, value);
    } else {
      ++container_.options_dropped;
    }
  }
}

void Anonymizer::packet_block(std::uint32_t type, ConstBytes body, const wire::CapturedPacket& packet, Bytes& out) {
  Reader r(body);
  BlockOut b(out, type, little_);
  if (type == block_simple) {
    b.u32(u32(r));
    const MutBytes room = b.room(packet.octets.size());
    frames_.rewrite(packet, room);
    return b.end();
  }
  if (type == block_packet) {
    b.u16(u16(r));
    b.u16(u16(r));
  } else {
    b.u32(u32(r));
  }
  std::uint64_t ticks = std::uint64_t{u32(r)} << 32;
  ticks |= u32(r);
  if (packet.interface < interfaces_.size()) ticks = shifted(interfaces_[packet.interface], ticks);
  b.u32(static_cast<std::uint32_t>(ticks >> 32));
  b.u32(static_cast<std::uint32_t>(ticks));
  b.u32(u32(r));
  b.u32(u32(r));
  const std::size_t size = packet.octets.size();
  const MutBytes room = b.room(size);
  frames_.rewrite(packet, room);
  r.skip(padded(size));
  if (type == block_enhanced && r.ok()) packet_options(r, b);
  b.end();
}

}  // namespace parley::capture
