// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Received packets, and ICMP errors about sent ones.
#include <ctime>  // before the next: it uses timespec

#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/gid.hpp"
#include "drivers/asio/packet_batch.hpp"
#include "drivers/asio/packet_set.hpp"
#include "drivers/asio/packet_socket.hpp"
#include "drivers/asio/sockaddr.hpp"

namespace parley::asio_driver {
namespace {

constexpr int batches_per_turn = 4;  // leaves time for the other sockets, and for sending
constexpr int errors_per_turn = 64;  // ICMP messages
constexpr std::size_t sealed_min = PARLEY_IB_BTH_LEN + icrc_size;

template <class T>
T control_value(const cmsghdr* entry) {
  T out{};
  std::memcpy(&out, CMSG_DATA(entry), std::min(sizeof out, entry->cmsg_len - CMSG_LEN(0)));
  return out;
}

/// Ancillary data of a datagram.
struct AncillaryData {
  std::uint8_t traffic_class = 0;
  std::optional<Address> local;  // destination address
  std::size_t segment = 0;       // not 0: several packets of that size, the last may be smaller
};

AncillaryData ancillary_data_of(msghdr& header) {
  AncillaryData out;
  for (const cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, const_cast<cmsghdr*>(c))) {
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
      out.traffic_class = control_value<std::uint8_t>(c);
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
      out.traffic_class = static_cast<std::uint8_t>(control_value<int>(c));
    } else if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
      out.segment = static_cast<std::size_t>(std::max(control_value<int>(c), 0));
    } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
      const auto info = control_value<in_pktinfo>(c);
      out.local = Address::any(Address::Family::v4, 0);
      std::memcpy(out.local->octets.data(), &info.ipi_addr, 4);
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
      const auto info = control_value<in6_pktinfo>(c);
      out.local = Address::any(Address::Family::v6, 0);
      std::memcpy(out.local->octets.data(), &info.ipi6_addr, 16);
      if (out.local->is_link_local()) out.local->scope_id = info.ipi6_ifindex;
    }
  }
  return out;
}

}  // namespace

/// True if anything was received.
bool PacketSet::receive(const Bound& bound) {
  const int fd = bound.fd;
  const Address at = bound.local;
  PacketInbox& in = *inbox_;
  for (int batch = 0; batch < batches_per_turn; ++batch) {
    const int n = ::recvmmsg(fd, in.headers.data(), receive_batch, MSG_DONTWAIT, nullptr);
    for (std::size_t i = 0; i < static_cast<std::size_t>(std::max(n, 0)); ++i) {
      in.from[i].size = in.headers[i].msg_hdr.msg_namelen;
      on_datagram(at, in.headers[i].msg_hdr, in.from[i],
                  ConstBytes(in.octets).subspan(i * receive_size, in.headers[i].msg_len));
      in.clear(i);
    }
    if (n < static_cast<int>(receive_batch)) return batch > 0 || n > 0;
  }
  return true;
}

void PacketSet::on_datagram(const Address& bound, msghdr& header, const SockAddr& from, ConstBytes octets) {
  const AncillaryData ancillary = ancillary_data_of(header);
  if (octets.empty()) {
    ++counters_.too_short;
    return;
  }
  const Address& local = bound.is_any() && ancillary.local ? *ancillary.local : bound;
  PacketFlow& flow = source_of(local, ancillary.traffic_class, from);
  on_packets(flow, ancillary.segment == 0 ? octets.size() : ancillary.segment, octets);
}

PacketFlow& PacketSet::source_of(const Address& local, std::uint8_t traffic_class, const SockAddr& from) {
  const bool as_last = last_source_ != nullptr && from.size == last_from_.size &&
                       std::memcmp(from.get(), last_from_.get(), from.size) == 0 &&
                       traffic_class == last_source_->path.traffic_class && local == last_source_->path.local;
  if (as_last) return *last_source_;
  PacketPath path;
  path.peer = from_sockaddr(from);
  path.source_port = path.peer.port;
  path.peer.port = 0;
  path.local = local;
  path.traffic_class = traffic_class;
  PacketFlow& flow = sources_.of(path, [](PacketFlow& made) {
    wire::ib::RoceHeader covered;
    covered.source = gid_of(made.path.peer);
    covered.destination = gid_of(made.path.local);
    covered.source_port = made.path.source_port;
    made.sealer = wire::ib::IcrcSealer(covered);
  });
  last_source_ = &flow;
  last_from_ = from;
  return flow;
}

/// Consecutive packets for a place that the machine knows, as long as their ICRC is right with identifications that
/// count up from `likely`; returns the number of these packets.
std::size_t PacketSet::on_placed_packets(PacketFlow& flow, std::uint16_t likely, std::size_t size, ConstBytes packets) {
  const PacketPlacement place = machine_.place_of(flow.path, size, packets);
  if (place.count == 0) return 0;
  const std::size_t right = flow.sealer.count_sealed(likely, size, packets.first(place.count * size), place.memory);
  if (right == 0) return 0;
  counters_.received += right;
  for (std::size_t i = 0; tap_ && i < right; ++i) pass_to_tap(flow.path, 0, false, packets.subspan(i * size, size));
  machine_.handle_placed(now_, flow.path, size, packets.first(right * size));
  return right;
}

/// Packets that the system coalesced, or a single one. If the sender's system segmented them, the identification counts
/// up from 0.
void PacketSet::on_packets(PacketFlow& flow, std::size_t segment, ConstBytes octets) {
  for (std::uint16_t likely = 0; !octets.empty(); ++likely) {
    const std::size_t in_a_row = octets.size() / segment;
    if (const std::size_t placed =
            in_a_row < 2 ? 0 : on_placed_packets(flow, likely, segment, octets.first(in_a_row * segment));
        placed != 0) {
      octets = octets.subspan(placed * segment);
      likely = static_cast<std::uint16_t>(likely + placed - 1);
      continue;
    }
    const ConstBytes packet = octets.first(std::min(segment, octets.size()));
    octets = octets.subspan(packet.size());
    ++counters_.received;
    if (tap_) pass_to_tap(flow.path, 0, false, packet);
    if (packet.size() < sealed_min) {
      ++counters_.too_short;
      continue;
    }
    // IBA §7.8: a packet with a wrong ICRC is dropped silently.
    const auto identification = flow.sealer.identification_of(likely, packet);
    if (!identification) {
      ++counters_.bad_icrc;
      continue;
    }
    likely = *identification;
    machine_.handle_packet(now_, flow.path, packet);
  }
}

void PacketSet::read_errors(int fd) {
  for (int i = 0; i < errors_per_turn; ++i) {
    SockAddr to;
    std::array<std::uint8_t, 64> quoted;
    alignas(cmsghdr) std::array<std::uint8_t, PacketInbox::control_size> control;
    iovec piece{quoted.data(), quoted.size()};
    msghdr header{};
    header.msg_name = to.get();
    header.msg_namelen = sizeof to.storage;
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    if (::recvmsg(fd, &header, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) break;
    to.size = header.msg_namelen;
    PacketPath path;
    path.peer = from_sockaddr(to);
    path.peer.port = 0;
    path.local = Address::any(path.peer.family, 0);
    for (const cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, const_cast<cmsghdr*>(c))) {
      const bool v4 = c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR;
      const bool v6 = c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR;
      if (!v4 && !v6) continue;
      const auto error = control_value<sock_extended_err>(c);
      machine_.handle_unreachable(now_, path, {static_cast<int>(error.ee_errno), std::generic_category()});
    }
  }
  int pending = 0;  // cleared, so that the next call does not return it
  socklen_t size = sizeof pending;
  (void)::getsockopt(fd, SOL_SOCKET, SO_ERROR, &pending, &size);
}

void PacketSet::pass_to_tap(const PacketPath& path, std::uint16_t identification, bool sent, ConstBytes packet) const {
  PacketTapRecord record;
  record.at = now_;
  record.local = path.local;
  record.peer = path.peer;
  record.source_port = path.source_port;
  record.identification = identification;
  record.traffic_class = path.traffic_class;
  record.sent = sent;
  record.octets = packet;
  tap_(record);
}

}  // namespace parley::asio_driver
