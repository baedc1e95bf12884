// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/pcapng.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/bytes_io.hpp"

namespace parley::wire {
namespace {

constexpr std::uint32_t block_section = 0x0A0D0D0A, block_interface = 1, block_packet = 2, block_simple = 3,
                        block_names = 4, block_enhanced = 6;
constexpr std::uint32_t byte_order_magic = 0x1A2B3C4D;
constexpr std::uint16_t opt_comment = 1, opt_hardware = 2, opt_system = 3, opt_application = 4, opt_if_name = 2,
                        opt_if_description = 3, opt_if_speed = 8, opt_if_tsresol = 9, opt_if_tsoffset = 14,
                        opt_flags = 2, opt_packet_id = 5;
constexpr std::size_t block_head = 8, block_frame = 12;  // type and length; the same and the trailing length

constexpr std::size_t padded(std::size_t n) { return (n + 3) & ~std::size_t{3}; }

/// Clamps to 146 years before or after 1970, so that the difference of any two times fits in 64 bits.
std::int64_t clamp_ns(std::int64_t seconds, std::uint64_t nanoseconds) {
  constexpr std::int64_t limit = std::numeric_limits<std::int64_t>::max() / 2 / 1'000'000'000 - 1;
  return std::clamp<std::int64_t>(seconds, -limit, limit) * 1'000'000'000 + static_cast<std::int64_t>(nanoseconds);
}

/// A block under construction; append_to() writes its length.
class Block {
 public:
  explicit Block(std::uint32_t type) : type_(type) {}
  void u16(std::uint16_t v) { put(2).le16(v); }
  void u32(std::uint32_t v) { put(4).le32(v); }
  void u64(std::uint64_t v) { put(8).le64(v); }
  void octets(ConstBytes in) {
    put(in.size()).bytes(in);
    pad();
  }
  void octets(std::string_view text) {
    Writer w = put(text.size());
    for (char c : text) w.u8(static_cast<std::uint8_t>(c));
    pad();
  }
  void option(std::uint16_t code, std::string_view text) {
    if (text.empty()) return;
    text = text.substr(0, 65535 - 3);
    u16(code);
    u16(static_cast<std::uint16_t>(text.size()));
    octets(text);
    options_ = true;
  }
  void option_u32(std::uint16_t code, std::uint32_t v) {
    u16(code);
    u16(4);
    u32(v);
    options_ = true;
  }
  void option_u64(std::uint16_t code, std::uint64_t v) {
    u16(code);
    u16(8);
    u64(v);
    options_ = true;
  }
  void end_options() {
    if (options_) u32(0);
  }
  void append_to(Bytes& out) const {
    const auto length = static_cast<std::uint32_t>(body_.size() + block_frame);
    const std::size_t at = out.size();
    out.resize(at + length);
    Writer w(MutBytes(out).subspan(at));
    w.le32(type_);
    w.le32(length);
    w.bytes(body_);
    w.le32(length);
  }

 private:
  Writer put(std::size_t n) {
    const std::size_t at = body_.size();
    body_.resize(at + n);
    return Writer(MutBytes(body_).subspan(at));
  }
  void pad() { body_.resize(padded(body_.size())); }

  std::uint32_t type_;
  Bytes body_;
  bool options_ = false;
};

}  // namespace

std::uint16_t PcapngReader::u16(Reader& r) const { return little_ ? r.le16() : r.be16(); }
std::uint32_t PcapngReader::u32(Reader& r) const { return little_ ? r.le32() : r.be32(); }

CaptureStatus PcapngReader::fail_at(std::uint64_t offset, std::string text) {
  failed_ = true;
  error_ = {offset, std::move(text)};
  return CaptureStatus::error;
}

Instant PcapngReader::time_of(const Interface& i, std::uint64_t ticks) {
  const unsigned n = i.resolution & 0x7F;
  std::uint64_t seconds = 0, ns = 0;
  if ((i.resolution & 0x80) != 0) {
    if (n >= 64) return Instant{Duration{0}};
    seconds = ticks >> n;
    std::uint64_t fraction = ticks & ((1ULL << n) - 1);
    unsigned shift = n;
    if (shift > 34) {  // keep fraction * 1e9 inside 64 bits
      fraction >>= shift - 34;
      shift = 34;
    }
    ns = (fraction * 1'000'000'000) >> shift;
  } else {
    std::uint64_t per_second = 1;
    for (unsigned k = 0; k < n && k < 19; ++k) per_second *= 10;
    seconds = ticks / per_second;
    const std::uint64_t fraction = ticks % per_second;
    if (n <= 9) {
      ns = fraction * (1'000'000'000 / per_second);
    } else {
      ns = fraction / (per_second / 1'000'000'000);
    }
  }
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  const std::int64_t offset = std::clamp<std::int64_t>(i.offset_seconds, -(1LL << 40), 1LL << 40);
  const auto whole = static_cast<std::int64_t>(std::min(seconds, most / 2));
  return Instant{Duration{clamp_ns(whole + offset, ns)}};
}

bool PcapngReader::section(ConstBytes block) {
  Reader r(block.subspan(block_head));
  little_ = r.le32() == byte_order_magic;
  if (!little_) {
    Reader again(block.subspan(block_head));
    if (again.be32() != byte_order_magic) {
      fail_at(offset_ + block_head, "the section header has no byte-order magic");
      return false;
    }
  }
  if (const std::uint16_t major = u16(r); major != 1) {
    fail_at(offset_ + block_head + 4, fmt::format("pcapng version {} is not known (1 is)", major));
    return false;
  }
  in_section_ = true;
  interfaces_.clear();
  return true;
}

bool PcapngReader::interface_block(ConstBytes body) {
  Reader r(body);
  Interface i;
  i.link_type = u16(r);
  r.skip(2);
  i.snap_length = u32(r);
  if (!r.ok() || interfaces_.size() >= interfaces_max) {
    fail_at(offset_, r.ok() ? fmt::format("more than {} interfaces in a section", interfaces_max)
                            : "an interface description block is shorter than its fields");
    return false;
  }
  while (r.left() >= 4) {
    const std::uint16_t code = u16(r), length = u16(r);
    Reader value(r.bytes(length));
    r.skip(padded(length) - length);
    if (!r.ok() || code == 0) break;
    if (code == opt_if_tsresol && length >= 1) i.resolution = value.u8();
    if (code == opt_if_tsoffset && length >= 8)
      i.offset_seconds = static_cast<std::int64_t>(little_ ? value.le64() : value.be64());
  }
  interfaces_.push_back(i);
  return true;
}

std::optional<std::uint64_t> PcapngReader::packet_id(Reader options) const {
  while (options.left() >= 4) {
    const std::uint16_t code = u16(options), length = u16(options);
    if (code == 0) break;
    if (code == opt_packet_id && length == 8 && options.left() >= 8) return little_ ? options.le64() : options.be64();
    options.skip(padded(length));
  }
  return {};
}

bool PcapngReader::packet_block(std::uint32_t type, ConstBytes body, CapturedPacket& out) {
  Reader r(body);
  std::uint32_t interface = 0, captured = 0, original = 0;
  std::uint64_t ticks = 0;
  if (type == block_simple) {
    original = u32(r);
    captured = std::min<std::uint32_t>(original, static_cast<std::uint32_t>(r.left()));
    if (!interfaces_.empty() && interfaces_[0].snap_length != 0)
      captured = std::min(captured, interfaces_[0].snap_length);
  } else {
    if (type == block_packet) {
      interface = u16(r);
      r.skip(2);  // drops
    } else {
      interface = u32(r);
    }
    ticks = std::uint64_t{u32(r)} << 32;
    ticks |= u32(r);
    captured = u32(r);
    original = u32(r);
  }
  out.octets = r.bytes(captured);
  if (!r.ok()) {
    fail_at(offset_, fmt::format("packet {} claims {} captured octets, its block is shorter", frames_ + 1, captured));
    return false;
  }
  if (interface >= interfaces_.size()) {
    fail_at(offset_,
            fmt::format("packet {} names interface {}, which the section does not describe", frames_ + 1, interface));
    return false;
  }
  out.frame = ++frames_;
  out.offset = offset_;
  out.interface = interface;
  out.link_type = interfaces_[interface].link_type;
  out.original_length = std::max(original, captured);
  out.at = type == block_simple ? Instant{} : time_of(interfaces_[interface], ticks);
  out.packet_id.reset();
  if (type == block_enhanced) {
    r.skip(padded(captured) - captured);
    out.packet_id = packet_id(r);
  }
  return true;
}

CaptureStatus PcapngReader::next(ConstBytes window, CapturedPacket& out, std::size_t& consumed) {
  consumed = 0;
  if (failed_) return CaptureStatus::error;
  for (;;) {
    ConstBytes in = window.subspan(consumed);
    if (skip_ > 0) {  // the rest of a block that is not needed
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(skip_, in.size()));
      skip_ -= n;
      consumed += n;
      offset_ += n;
      in = in.subspan(n);
      if (skip_ > 0) return CaptureStatus::need_more;
    }
    if (in.size() < block_frame) return CaptureStatus::need_more;
    Reader r(in);
    const std::uint32_t raw_type = r.be32();
    const bool is_section = raw_type == block_section;  // reads the same in both octet orders
    if (!in_section_ && !is_section) return fail_at(offset_, "the file does not begin with a pcapng section header");
    if (is_section) {
      Reader order(in.subspan(block_head));
      little_ = order.le32() == byte_order_magic;
    }
    Reader h(in);
    const std::uint32_t type = u32(h), length = u32(h);
    if (length < block_frame || length % 4 != 0)
      return fail_at(offset_ + 4, fmt::format("a block claims a length of {} octets", length));
    const bool wanted =
        is_section || type == block_interface || type == block_packet || type == block_simple || type == block_enhanced;
    if (!wanted) {
      skip_ = length;
      continue;
    }
    if (length > capture_window_min)
      return fail_at(offset_ + 4, fmt::format("a block of type {} claims {} octets (at most {} make sense)", type,
                                              length, capture_window_min));
    if (in.size() < length) return CaptureStatus::need_more;
    Reader tail(in.subspan(length - 4));
    if (const std::uint32_t trailing = u32(tail); trailing != length)
      return fail_at(offset_ + length - 4, fmt::format("a block's two lengths differ ({} and {})", length, trailing));
    bool is_packet = false, ok = true;
    const ConstBytes body = in.subspan(block_head, length - block_frame);
    if (is_section) {
      ok = body.size() >= 16 ? section(in) : (fail_at(offset_, "a section header is shorter than its fields"), false);
    } else if (type == block_interface) {
      ok = interface_block(body);
    } else {
      is_packet = true;
      ok = packet_block(type, body, out);
    }
    if (!ok) return CaptureStatus::error;
    consumed += length;
    offset_ += length;
    if (is_packet) return CaptureStatus::packet;
  }
}

std::optional<CaptureError> PcapngReader::finish(std::size_t left) const {
  if (failed_) return error_;
  if (!in_section_)
    return CaptureError{0, fmt::format("the file ends after {} octets, inside its section header", left)};
  if (left == 0 && skip_ == 0) return {};
  return CaptureError{offset_, fmt::format("the file is truncated: it ends inside a block, after packet {}", frames_)};
}

namespace {

/// Describes a file that is not pcap or pcapng, by its magic; null: unknown.
const char* other_format(std::uint32_t magic) {
  if (magic >> 16 == 0x1F8B) return "it is compressed with gzip; unpack it first";
  switch (magic) {
    case 0x28B52FFD: return "it is compressed with zstd; unpack it first";
    case 0x04224D18: return "it is compressed with lz4; unpack it first";
    case 0xFD377A58: return "it is compressed with xz; unpack it first";
    case 0x504B0304: return "it is a zip archive; unpack it first";
    case 0x736E6F6F: return "it is a snoop capture; convert it first (editcap -F pcapng)";
    case 0x474D4255: return "it is a Network Monitor capture; convert it first (editcap -F pcapng)";
    default: break;
  }
  if (magic >> 8 == 0x425A68) return "it is compressed with bzip2; unpack it first";
  return nullptr;
}

}  // namespace

CaptureStatus CaptureReader::next(ConstBytes window, CapturedPacket& out, std::size_t& consumed) {
  consumed = 0;
  if (format_ == Format::unknown) {
    if (window.size() < 4) return CaptureStatus::need_more;
    Reader r(window);
    const std::uint32_t magic = r.be32();
    format_ = magic == block_section ? Format::pcapng : PcapReader::is_magic(magic) ? Format::pcap : Format::neither;
    if (format_ == Format::neither) {
      const char* known = other_format(magic);
      error_ = {0, known != nullptr ? fmt::format("not a pcap or pcapng file: {}", known)
                                    : fmt::format("not a pcap or pcapng file (it begins with {:08x})", magic)};
    }
  }
  if (format_ == Format::pcapng) return pcapng_.next(window, out, consumed);
  if (format_ == Format::pcap) return pcap_.next(window, out, consumed);
  return CaptureStatus::error;
}

const CaptureError& CaptureReader::error() const {
  if (format_ == Format::neither) return error_;
  return format_ == Format::pcapng ? pcapng_.error() : pcap_.error();
}

std::uint64_t CaptureReader::offset() const {
  return format_ == Format::pcapng ? pcapng_.offset() : format_ == Format::pcap ? pcap_.offset() : 0;
}

std::optional<CaptureError> CaptureReader::finish(std::size_t left) const {
  switch (format_) {
    case Format::unknown:
      return CaptureError{0, left == 0 ? "the file is empty" : "the file is too short to be a capture"};
    case Format::pcap: return pcap_.finish(left);
    case Format::pcapng: return pcapng_.finish(left);
    case Format::neither: return error_;
  }
  return {};
}

PcapngWriter::PcapngWriter(Bytes& out, const PcapngSection& section) : out_(out) {
  Block b(block_section);
  b.u32(byte_order_magic);
  b.u16(1);
  b.u16(0);
  b.u64(~0ULL);  // section length not known
  b.option(opt_comment, section.comment);
  b.option(opt_hardware, section.hardware);
  b.option(opt_system, section.system);
  b.option(opt_application, section.application);
  b.end_options();
  b.append_to(out_);
}

std::uint32_t PcapngWriter::add_interface(std::string_view name, std::uint16_t link_type, std::string_view description,
                                          std::uint64_t speed_bps) {
  Block b(block_interface);
  b.u16(link_type);
  b.u16(0);
  b.u32(262144);
  b.option(opt_if_name, name);
  b.option(opt_if_description, description);
  if (speed_bps != 0) b.option_u64(opt_if_speed, speed_bps);
  b.option(opt_if_tsresol, std::string_view("\x09", 1));
  b.end_options();
  b.append_to(out_);
  return interfaces_++;
}

void PcapngWriter::add_names(std::span<const std::pair<Address, std::string>> names) {
  Block b(block_names);
  for (const auto& [address, name] : names) {
    const std::size_t n = address.family == Address::Family::v4 ? 4 : 16;
    const std::string text = name.substr(0, 255);
    Bytes record(n + text.size() + 1);  // the name ends with a zero octet
    Writer w(record);
    w.bytes(ConstBytes(address.octets).first(n));
    for (char c : text) w.u8(static_cast<std::uint8_t>(c));
    b.u16(n == 4 ? 1 : 2);
    b.u16(static_cast<std::uint16_t>(record.size()));
    b.octets(record);
  }
  b.u32(0);  // end of records
  b.append_to(out_);
}

void PcapngWriter::packet(std::uint32_t interface, Instant at, ConstBytes frame, std::string_view comment,
                          PacketDirection direction, std::uint32_t original_length) {
  const std::string text(comment);
  packet(interface, at, frame, {.comments = {&text, 1}, .direction = direction, .original_length = original_length});
}

void PcapngWriter::packet(std::uint32_t interface, Instant at, ConstBytes frame, const PacketRemarks& remarks) {
  Block b(block_enhanced);
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(at.time_since_epoch().count(), 0));
  b.u32(interface);
  b.u32(static_cast<std::uint32_t>(ns >> 32));
  b.u32(static_cast<std::uint32_t>(ns));
  b.u32(static_cast<std::uint32_t>(frame.size()));
  b.u32(std::max(remarks.original_length, static_cast<std::uint32_t>(frame.size())));
  b.octets(frame);
  for (const std::string& comment : remarks.comments) b.option(opt_comment, comment);
  if (remarks.direction != PacketDirection::unknown)
    b.option_u32(opt_flags, static_cast<std::uint32_t>(remarks.direction));
  if (remarks.packet_id) b.option_u64(opt_packet_id, *remarks.packet_id);
  b.end_options();
  b.append_to(out_);
}

}  // namespace parley::wire
