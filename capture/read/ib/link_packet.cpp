// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/read/ib/link_packet.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_io.hpp"
#include "wire/mad/transport.hpp"

namespace parley::capture {
namespace {

using wire::mad::Lrh;

constexpr std::size_t erf_head = 16, erf_extension = 8;
constexpr std::uint8_t erf_infiniband = 21, erf_more = 0x80;  // the topmost bit: an extension header follows

/// The header of an ERF record: its type, and where its packet begins and ends.
struct ErfHead {
  std::uint8_t type = 0;
  std::size_t packet_at = erf_head, end = 0, on_wire = 0;
};

/// None if the capture ends inside the header.
std::optional<ErfHead> read_erf(ConstBytes record) {
  Reader r(record);
  ErfHead out;
  r.skip(8);  // timestamp; the file has it, too
  const std::uint8_t type = r.u8();
  r.skip(1);
  out.end = r.be16();
  r.skip(2);  // losses
  out.on_wire = r.be16();
  out.type = type & ~erf_more & 0xFF;
  for (bool more = (type & erf_more) != 0; more && r.ok(); out.packet_at += erf_extension) {
    more = (r.u8() & erf_more) != 0;
    r.skip(erf_extension - 1);
  }
  if (!r.ok()) return std::nullopt;
  return out;
}

}  // namespace

LinkReader::Status LinkReader::read(const wire::CapturedPacket& captured, LinkPacket& out) {
  const std::size_t size = captured.octets.size();
  if (captured.link_type != wire::link_type_erf)
    return read_link(captured, 0, std::max<std::size_t>(captured.original_length, size), out);
  const auto head = read_erf(captured.octets);
  if (!head) return Status::cut;
  if (head->type != erf_infiniband) return Status::other;
  if (head->end < head->packet_at)
    return malformed(captured, 10, fmt::format("an ERF record of {} octets is too short for its header", head->end));
  wire::CapturedPacket record = captured;  // octets behind head->end are padding
  record.octets = captured.octets.first(std::min(size, head->end));
  return read_link(record, head->packet_at, head->on_wire, out);
}

LinkReader::Status LinkReader::read_link(const wire::CapturedPacket& captured, std::size_t lrh_at, std::size_t on_wire,
                                         LinkPacket& out) {
  constexpr std::uint8_t with_bth = 2, with_grh = 3;  // LNH, IBA §7.7.5
  const ConstBytes here = captured.octets.subspan(lrh_at);
  const auto lrh = Lrh::parse(here);
  if (!lrh) return Status::cut;
  const auto next = lrh->get(Lrh::lnh);
  if (next != with_bth && next != with_grh) return Status::other;
  out = LinkPacket{};
  out.source_lid = static_cast<std::uint16_t>(lrh->get(Lrh::slid));
  out.destination_lid = static_cast<std::uint16_t>(lrh->get(Lrh::dlid));
  // IBA §7.7.8: words from the LRH to the ICRC.
  const std::size_t length = std::size_t{lrh->get(Lrh::packet_length)} * 4;
  const std::size_t headers = Lrh::size + (next == with_grh ? PARLEY_ROCE_GRH_LEN : 0);
  if (length < headers || length > on_wire)
    return malformed(captured, lrh_at,
                     fmt::format("the LRH's length is {} octets, but the packet has {}", length, on_wire));
  const ConstBytes whole = here.size() < length ? filled(here, length) : here.first(length);
  out.bth_at = lrh_at + headers;
  if (next == with_bth) return read_transport(captured, whole.first(Lrh::size), whole.subspan(Lrh::size), out);
  if (here.size() < headers) return Status::cut;
  const auto grh = wire::ib::RoceHeader::parse(PARLEY_ROCE_ETHERTYPE, whole.subspan(Lrh::size));
  if (!grh || grh->packet.size() != length - headers) {
    const std::string sentence = grh ? "" : grh.error().sentence();
    return malformed(captured, lrh_at + Lrh::size, sentence.empty() ? "the GRH contradicts the LRH" : sentence);
  }
  out.grh = grh->header;
  return read_transport(captured, grh->network, grh->packet, out);
}

}  // namespace parley::capture
