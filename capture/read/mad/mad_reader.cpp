// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/read/mad/mad_reader.hpp"

#include <fmt/format.h>

#include "wire/mad/rpc.hpp"

namespace parley::capture {
namespace {

bool is_management(std::uint32_t qpn) { return qpn <= PARLEY_IB_GSI_QPN; }

bool is_mad(const TransportPacket& p) {
  if (p.service() != wire::ib::Service::ud || p.operation() != wire::ib::Operation::send_only) return false;
  if (is_management(p.packet.bth.dest_qpn)) return true;
  if (!p.headers_known()) return false;
  if (is_management(p.packet.deth.source_qpn)) return true;
  return p.packet.deth.q_key == PARLEY_IB_GSI_Q_KEY && p.packet.payload.size() == PARLEY_IB_MAD_LEN &&
         !p.known_payload().empty() && p.packet.payload[0] == PARLEY_IB_MAD_BASE_VERSION;
}

/// The kernel reassembles RMPP tables of these classes and delivers, and captures, them as one datagram.
bool may_be_longer(ConstBytes mad) {
  const auto* facts = mad.size() > 1 ? wire::mad::facts_of_class(mad[1]) : nullptr;
  return facts != nullptr && facts->rmpp;
}

std::string damage_of(const TransportPacket& p) {
  const std::size_t size = p.packet.payload.size(), known = p.known_payload().size();
  std::string out;
  const auto add = [&out](std::string_view sentence) { out += fmt::format("{}{}", out.empty() ? "" : "; ", sentence); };
  if (known < size)
    add(fmt::format("{} of its {} octets are in the capture", known, size));
  else if (!p.whole())
    add("its ICRC is not in the capture");
  if (size < PARLEY_IB_MAD_LEN || (size > PARLEY_IB_MAD_LEN && !may_be_longer(p.known_payload())))
    add(fmt::format("a management datagram has {} octets, and this one {}", PARLEY_IB_MAD_LEN, size));
  if (p.icrc_wrong())
    add(fmt::format("the ICRC is {}, and the packet gives {}", icrc_text(p.packet.icrc), icrc_text(*p.icrc_due)));
  return out;
}

}  // namespace

std::string end_text(const CapturedMad::End& end) {
  std::string out;
  if (end.lid) out += fmt::format("LID {} ", *end.lid);
  if (end.gid) out += fmt::format("GID {} ", gid_text(*end.gid));
  return out + fmt::format("QP {}", end.qpn);
}

MadReader::Status MadReader::take(TransportReader::Status status, const std::string& why,
                                  const wire::CapturedPacket& captured, const TransportPacket& packet,
                                  CapturedMad& out) {
  switch (status) {
    case TransportReader::Status::packet: break;
    case TransportReader::Status::other: return Status::none;
    case TransportReader::Status::cut:
      why_ = fmt::format("frame {}: it is cut before its type can be read", captured.frame);
      return Status::unreadable;
    case TransportReader::Status::fragment:
      why_ = fmt::format("frame {}: a fragment of an IP packet, and fragments are not joined", captured.frame);
      return Status::unreadable;
    case TransportReader::Status::malformed: why_ = why; return Status::unreadable;
  }
  if (!is_mad(packet)) return Status::none;
  out = CapturedMad{};
  out.frame = captured.frame;
  out.at = captured.at;
  out.source.qpn = packet.packet.deth.source_qpn;
  out.destination.qpn = packet.packet.bth.dest_qpn;
  out.octets = packet.known_payload();
  out.damage = damage_of(packet);
  return Status::mad;
}

MadReader::Status MadReader::read(const wire::CapturedPacket& captured, CapturedMad& out) {
  if (LinkReader::reads(captured.link_type)) {
    const Status status = take(link_.read(captured, link_packet_), link_.why(), captured, link_packet_, out);
    if (status != Status::mad) return status;
    out.source.lid = link_packet_.source_lid;
    out.destination.lid = link_packet_.destination_lid;
    if (link_packet_.grh) {
      out.source.gid = link_packet_.grh->source;
      out.destination.gid = link_packet_.grh->destination;
    }
    return status;
  }
  const wire::PacketView view = wire::parse_packet(captured.link_type, captured.octets, captured.original_length);
  if (view.kind == wire::PacketKind::unsupported) return Status::unsupported;
  if (view.cargo != wire::PacketCargo::rocev1 && view.cargo != wire::PacketCargo::rocev2) return Status::none;
  const Status status = take(roce_.read(view, captured, roce_packet_), roce_.why(), captured, roce_packet_, out);
  if (status != Status::mad) return status;
  out.source.gid = roce_packet_.network.source;
  out.destination.gid = roce_packet_.network.destination;
  return status;
}

}  // namespace parley::capture
