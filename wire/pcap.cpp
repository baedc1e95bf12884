// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/pcap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes_io.hpp"

namespace parley::wire {
namespace {

constexpr std::uint32_t magic_us = 0xA1B2C3D4, magic_ns = 0xA1B23C4D, magic_modified = 0xA1B2CD34;
constexpr std::size_t file_header_len = 24, record_header_len = 16, modified_record_header_len = 24;

bool known(std::uint32_t magic) { return magic == magic_us || magic == magic_ns || magic == magic_modified; }

}  // namespace

std::string CaptureError::to_string() const { return fmt::format("offset {}: {}", offset, text); }

CaptureStatus PcapReader::fail_at(std::uint64_t offset, std::string text) {
  failed_ = true;
  error_ = {offset, std::move(text)};
  return CaptureStatus::error;
}

bool PcapReader::is_magic(std::uint32_t first) {
  const std::uint32_t swapped = first >> 24 | (first >> 8 & 0xFF00) | (first << 8 & 0xFF0000) | (first & 0xFF) << 24;
  return known(first) || known(swapped);
}

CaptureStatus PcapReader::read_header(ConstBytes window, std::size_t& consumed) {
  if (window.size() < file_header_len) return CaptureStatus::need_more;
  Reader be(window), le(window);
  std::uint32_t magic = be.be32();
  if (const std::uint32_t other = le.le32(); known(other)) {
    swapped_ = true;
    magic = other;
  } else if (!known(magic)) {
    return fail_at(0, fmt::format("not a pcap file (it begins with {:08x})", magic));
  }
  nanoseconds_ = magic == magic_ns;
  modified_ = magic == magic_modified;
  Reader r(window.subspan(4));
  const std::uint16_t major = swapped_ ? r.le16() : r.be16();
  r.skip(2 + 4 + 4 + 4);  // minor version, time zone, accuracy and snap length do not affect the records
  const std::uint32_t link = swapped_ ? r.le32() : r.be32();
  if (major != 2) return fail_at(4, fmt::format("pcap version {} is not known (2 is)", major));
  link_type_ = static_cast<std::uint16_t>(link & 0xFFFF);  // the upper half describes the frame check sequence
  header_read_ = true;
  consumed = file_header_len;
  offset_ += file_header_len;
  return CaptureStatus::packet;
}

CaptureStatus PcapReader::next(ConstBytes window, CapturedPacket& out, std::size_t& consumed) {
  consumed = 0;
  if (failed_) return CaptureStatus::error;
  if (!header_read_) {
    if (const auto s = read_header(window, consumed); s != CaptureStatus::packet) return s;
    window = window.subspan(consumed);
  }
  const std::size_t head = modified_ ? modified_record_header_len : record_header_len;
  if (window.size() < head) return CaptureStatus::need_more;
  Reader r(window);
  const auto u32 = [&] { return swapped_ ? r.le32() : r.be32(); };
  const std::uint32_t seconds = u32(), fraction = u32(), captured = u32(), original = u32();
  // The file was preallocated and not written to its end.
  if (seconds == 0 && fraction == 0 && captured == 0 && original == 0)
    return fail_at(offset_, fmt::format("the record of packet {} is nothing but zeros: the file was not written to "
                                        "its end",
                                        frames_ + 1));
  if (captured > capture_packet_max)
    return fail_at(offset_ + 8, fmt::format("packet {} claims {} captured octets (at most {} make sense)", frames_ + 1,
                                            captured, capture_packet_max));
  if (window.size() < head + captured) return CaptureStatus::need_more;
  out.frame = ++frames_;
  out.offset = offset_;
  out.at =
      Instant{Duration{std::int64_t{seconds} * 1'000'000'000 + std::int64_t{fraction} * (nanoseconds_ ? 1 : 1000)}};
  out.interface = 0;
  out.link_type = link_type_;
  out.original_length = std::max(original, captured);
  out.octets = window.subspan(head, captured);
  consumed += head + captured;
  offset_ += head + captured;
  return CaptureStatus::packet;
}

std::optional<CaptureError> PcapReader::finish(std::size_t left) const {
  if (failed_) return error_;
  if (!header_read_) return CaptureError{0, fmt::format("the file ends after {} octets, inside the pcap header", left)};
  if (left == 0) return {};
  return CaptureError{
      offset_, fmt::format("the file is truncated: it ends {} octets into the record of packet {}", left, frames_ + 1)};
}

PcapWriter::PcapWriter(Bytes& out, std::uint16_t link_type, std::uint32_t snap_length) : out_(out) {
  const std::size_t at = out_.size();
  out_.resize(at + file_header_len);
  Writer w(MutBytes(out_).subspan(at));
  w.le32(magic_ns);
  w.le16(2);
  w.le16(4);
  w.zeros(8);
  w.le32(snap_length);
  w.le32(link_type);
}

void PcapWriter::packet(Instant at, ConstBytes frame, std::uint32_t original_length) {
  const std::size_t start = out_.size();
  out_.resize(start + record_header_len + frame.size());
  Writer w(MutBytes(out_).subspan(start));
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(at.time_since_epoch().count(), 0));
  w.le32(static_cast<std::uint32_t>(ns / 1'000'000'000));
  w.le32(static_cast<std::uint32_t>(ns % 1'000'000'000));
  w.le32(static_cast<std::uint32_t>(frame.size()));
  w.le32(std::max(original_length, static_cast<std::uint32_t>(frame.size())));
  w.bytes(frame);
}

}  // namespace parley::wire
