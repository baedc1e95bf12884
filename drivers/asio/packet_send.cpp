// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Sending: packets are collected. Packets of one size and path are segmented by the system from one message
// (UDP_SEGMENT), and all messages of a socket are passed in one call (sendmmsg).
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

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

constexpr std::size_t room_for_one = PacketMachine::packet_max + icrc_size;
constexpr std::size_t message_max = 65507;  // maximum for UDP_SEGMENT: the payload of a UDP datagram over IPv4
template <class T>
void add_control(msghdr& header, int level, int type, const T& value) {
  auto* const at = static_cast<std::uint8_t*>(header.msg_control) + header.msg_controllen;
  cmsghdr entry{};
  entry.cmsg_level = level;
  entry.cmsg_type = type;
  entry.cmsg_len = CMSG_LEN(sizeof value);
  std::memcpy(at, &entry, sizeof entry);
  std::memcpy(at + CMSG_LEN(0), &value, sizeof value);
  header.msg_controllen += CMSG_SPACE(sizeof value);
}

// Selects the source address if the socket is bound to all addresses. For an IPv6 group also the interface: for IPv4,
// Linux finds it by the source address.
void add_source(msghdr& header, const Address& local, std::uint32_t interface) {
  if (local.family == Address::Family::v4) {
    in_pktinfo info{};
    std::memcpy(&info.ipi_spec_dst, local.octets.data(), 4);
    add_control(header, IPPROTO_IP, IP_PKTINFO, info);
  } else {
    in6_pktinfo info{};
    std::memcpy(&info.ipi6_addr, local.octets.data(), 16);
    info.ipi6_ifindex = interface != 0 ? interface : local.scope_id;
    add_control(header, IPPROTO_IPV6, IPV6_PKTINFO, info);
  }
}

void add_path(msghdr& header, const PacketPath& path) {
  const bool v4 = path.local.family == Address::Family::v4;
  const int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
  if (path.traffic_class != 0) add_control(header, level, v4 ? IP_TOS : IPV6_TCLASS, int{path.traffic_class});
  // The system's default is 64, and 1 for a group (IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS).
  const bool group = is_multicast(gid_of(path.peer));
  if ((group || path.hop_limit != 64) && path.hop_limit != 0)
    add_control(header, level, v4 ? IP_TTL : IPV6_HOPLIMIT, int{path.hop_limit});
}

/// How many of the first `n` messages the system accepted; -1: none, see errno.
int hand_over(int fd, PacketOutbox& out, std::size_t n) {
  const msghdr& first = out.headers[0].msg_hdr;
  if (n > 1 || first.msg_control != nullptr) return ::sendmmsg(fd, out.headers.data(), static_cast<unsigned>(n), 0);
  // The cheapest call for a single packet.
  const iovec& piece = *first.msg_iov;
  const auto* const to = static_cast<const sockaddr*>(first.msg_name);
  return ::sendto(fd, piece.iov_base, piece.iov_len, 0, to, first.msg_namelen) < 0 ? -1 : 1;
}

}  // namespace

/// The UDP source port that the path's packets get: its own only if that port has a socket or may still get one. All
/// other paths to a peer share the receiving socket's port, so that packets of different queue pairs can be sent in one message.
std::uint16_t PacketSet::port_of(const PacketPath& path) {
  if (path.source_port == 0) return PARLEY_ROCE_UDP_PORT;
  if (senders_.size() < senders_max) return path.source_port;
  const Bound* bound = covering(path.local);
  const bool has_socket = bound != nullptr && senders_.contains({bound->local, path.source_port});
  return has_socket ? path.source_port : PARLEY_ROCE_UDP_PORT;
}

/// The socket that sends from the path's UDP source port. If that port is not available, the receiving socket sends:
/// the port only affects the packets' route.
int PacketSet::sender_for(const PacketPath& path, std::uint16_t& port) {
  const Bound* bound = covering(path.local);
  if (bound == nullptr) return -1;
  const auto main_socket = [&] {
    port = PARLEY_ROCE_UDP_PORT;
    return bound->fd;
  };
  if (path.source_port == PARLEY_ROCE_UDP_PORT) return main_socket();
  port = path.source_port;
  const Sender sender{bound->local, port};
  if (const auto at = senders_.find(sender); at != senders_.end()) return at->second;
  std::error_code why;
  RoceHostOptions options = options_;
  options.offload = false;  // it only sends
  const int fd = packet_socket(bound->local, port, options, why);
  if (fd < 0) return main_socket();
  (void)watch(fd, 0);  // errors are always reported
  senders_.emplace(sender, fd);
  return fd;
}

// True if packets wait; `left`: the machine may have more, for which there was no room. A packet with inline payload is
// sealed when the next one is written, because reading octets that were just written would stall. Other packets get
// their payload now, from registered memory; their headers were written earlier.
bool PacketSet::fill(bool& left) {
  std::size_t sealed = pieces_.size();
  for (;;) {
    const std::size_t at = pieces_.empty() ? 0 : pieces_.back().end();
    const std::size_t most = std::min(sent_at_once - waiting_, (out_.size() - at) / room_for_one);
    PacketPath path;
    const PacketRun run = most == 0 ? PacketRun{} : machine_.poll_packets(now_, most, path, MutBytes(out_).subspan(at));
    if (sealed < pieces_.size()) seal(sealed, *last_flow_, {});
    sealed = pieces_.size();
    left = most == 0;
    if (run.count == 0) return sent_ < pieces_.size();
    PacketFlow& flow = way_of(path);
    add(flow, path, at, run.size + icrc_size, run.count);
    if (run.payload.empty()) continue;
    seal(sealed, flow, run.payload);
    sealed = pieces_.size();
  }
}

PacketFlow& PacketSet::way_of(const PacketPath& path) {
  if (path.way != 0 && path.way == last_way_) return *last_flow_;
  PacketPath sent_on = path;
  sent_on.source_port = port_of(path);
  PacketFlow& flow = ways_.of(sent_on, [this](PacketFlow& made) {
    made.fd = sender_for(made.path, made.port);
    wire::ib::RoceHeader header;
    header.source = gid_of(made.path.local);
    header.destination = gid_of(made.path.peer);
    header.source_port = made.port;
    made.sealer = wire::ib::IcrcSealer(header);
    if (made.path.peer.family == Address::Family::v6 && is_multicast(header.destination))
      made.interface = interface_of(made.path.local);
  });
  last_way_ = path.way;
  last_flow_ = &flow;
  return flow;
}

/// Adds written packets: as many as possible to the message of the preceding ones, the others as new messages.
void PacketSet::add(const PacketFlow& flow, PacketPath path, std::size_t at, std::size_t size, std::size_t count) {
  path.source_port = flow.port;
  const std::size_t together = segments_ ? std::max<std::size_t>(message_max / size, 1) : 1;
  waiting_ += count;
  while (count > 0) {
    const std::size_t room = room_behind(flow.id, at, size);
    const std::size_t taken = std::min(count, room > 0 ? room : together);
    Piece& piece = pieces_.emplace_back();
    piece = {.path = path, .flow = flow.id, .fd = flow.fd, .at = at, .size = size, .count = taken};
    piece.interface = flow.interface;
    piece.follows = room > 0;
    if (piece.follows) {
      const Piece& before = pieces_[pieces_.size() - 2];
      piece.identification = static_cast<std::uint16_t>(before.identification + before.count);
    }
    at += size * taken;
    count -= taken;
  }
}

/// Whether one socket receives both packets, which begin at `a` and `b`, even if several processes share the address: the
/// top octet of the QPN then selects the process, and the message itself for QP1.
bool PacketSet::same_receiver(std::size_t a, std::size_t b) const {
  constexpr std::size_t qpn = 5;  // IBA §9.2: the destination QP of the BTH
  const auto of = [&](std::size_t packet) { return ConstBytes(out_).subspan(packet + qpn, 3); };
  const bool management = of(a)[0] == 0 && of(a)[1] == 0 && of(a)[2] == PARLEY_IB_GSI_QPN;
  return !management && of(a)[0] == of(b)[0];
}

/// How many packets of that size, of which the first one begins at `at`, may be appended to the message of the last piece: all must have the size of the first
/// one, except the last.
std::size_t PacketSet::room_behind(std::uint64_t flow, std::size_t at, std::size_t size) const {
  if (!segments_ || sent_ == pieces_.size()) return 0;
  const Piece& before = pieces_.back();
  auto first = pieces_.rbegin();
  while (first->follows) ++first;
  if (flow != first->flow || before.size != first->size || size > first->size || !same_receiver(first->at, at))
    return 0;
  const std::size_t room = (message_max - (before.end() - first->at)) / size;
  return size < first->size ? std::min<std::size_t>(room, 1) : room;
}

/// Seals the pieces from `from` on, which form one run.
void PacketSet::seal(std::size_t from, PacketFlow& flow, ConstBytes payload) {
  for (std::size_t i = from; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    const MutBytes packets = MutBytes(out_).subspan(piece.at, piece.size * piece.count);
    if (payload.empty()) {
      for (std::size_t n = 0; n < piece.count; ++n)
        flow.sealer.seal(static_cast<std::uint16_t>(piece.identification + n),
                         packets.subspan(n * piece.size, piece.size));
    } else {
      const std::size_t share = payload.size() / packets_of(i, pieces_.size()) * piece.count;
      flow.sealer.seal_all(piece.identification, piece.size, packets, payload.first(share));
      payload = payload.subspan(share);
    }
    if (!piece.path.bad_icrc) continue;
    // Inverts all bits: an ICRC with few different bits could be right for another IPv4 identification.
    for (std::size_t n = 1; n <= piece.count; ++n)
      for (std::uint8_t& octet : packets.subspan(n * piece.size - icrc_size, icrc_size))
        octet = static_cast<std::uint8_t>(~octet);
  }
}

/// Sends until nothing waits or the system accepts no more.
void PacketSet::flush() {
  while (sent_ < pieces_.size() && !blocked_) sent_ += send_some(sent_);
  if (sent_ < pieces_.size()) return;
  pieces_.clear();
  sent_ = waiting_ = 0;
}

/// One past the last piece that belongs to one message with `first`.
std::size_t PacketSet::behind_message(std::size_t first) const {
  std::size_t end = first + 1;
  while (end < pieces_.size() && pieces_[end].follows) ++end;
  return end;
}

std::size_t PacketSet::packets_of(std::size_t first, std::size_t end) const {
  std::size_t packets = 0;
  for (; first < end; ++first) packets += pieces_[first].count;
  return packets;
}

/// Sends the pieces from `first` on that use the same socket; returns how many are finished.
std::size_t PacketSet::send_some(std::size_t first) {
  PacketOutbox& out = *outbox_;
  std::size_t n = 0;
  const int fd = pieces_[first].fd;
  for (std::size_t at = first; at < pieces_.size() && pieces_[at].fd == fd; at = out.ends[n++])
    prepare(at, behind_message(at), n);
  const int sent_messages = fd < 0 ? -1 : hand_over(fd, out, n);
  if (sent_messages <= 0) return refused(first, fd < 0 ? EBADF : errno);
  again_ = false;
  const std::size_t end = out.ends[static_cast<std::size_t>(sent_messages) - 1];
  for (std::size_t i = first; i < end; ++i) sent(pieces_[i]);
  return end - first;
}

/// Builds message `n` of the outbox from the pieces `first` to `end`.
void PacketSet::prepare(std::size_t first, std::size_t end, std::size_t n) {
  PacketOutbox& out = *outbox_;
  const Piece& piece = pieces_[first];
  if (out.flows[n] != piece.flow) prepare_way(piece, n);
  out.ends[n] = end;
  out.pieces[n] = {out_.data() + piece.at, pieces_[end - 1].end() - piece.at};
  msghdr& header = out.headers[n].msg_hdr;
  header.msg_control = out.controls[n].data();
  header.msg_controllen = out.way_sizes[n];
  if (packets_of(first, end) > 1) add_control(header, IPPROTO_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(piece.size));
  if (header.msg_controllen == 0) header.msg_control = nullptr;
}

/// Fills in the fields that all messages of a flow share.
void PacketSet::prepare_way(const Piece& piece, std::size_t n) {
  PacketOutbox& out = *outbox_;
  Address peer = piece.path.peer;
  peer.port = PARLEY_ROCE_UDP_PORT;
  out.to[n] = to_sockaddr(peer);
  msghdr& header = out.headers[n].msg_hdr;
  header.msg_name = out.to[n].get();
  header.msg_namelen = out.to[n].size;
  header.msg_iov = &out.pieces[n];
  header.msg_iovlen = 1;
  header.msg_control = out.controls[n].data();
  header.msg_controllen = 0;
  const Bound* bound = covering(piece.path.local);
  if (piece.interface != 0 || (bound != nullptr && bound->local.is_any()))
    add_source(header, piece.path.local, piece.interface);
  add_path(header, piece.path);
  out.way_sizes[n] = header.msg_controllen;
  out.flows[n] = piece.flow;
}

void PacketSet::sent(const Piece& piece) {
  counters_.sent += piece.count;
  if (!tap_) return;
  for (std::size_t n = 0; n < piece.count; ++n)
    pass_to_tap(piece.path, static_cast<std::uint16_t>(piece.identification + n), true,
                ConstBytes(out_).subspan(piece.at + n * piece.size, piece.size));
}

/// Handles a refused message, which begins with the piece `first`: later, in another form, or never.
std::size_t PacketSet::refused(std::size_t first, int error) {
  if (error == EINTR) return 0;
  if (error == EAGAIN || error == EWOULDBLOCK) {
    blocked_ = true;
    blocked_fd_ = pieces_[first].fd;
    (void)watch(blocked_fd_, receives(blocked_fd_) ? std::uint32_t{EPOLLIN | EPOLLOUT} : std::uint32_t{EPOLLOUT});
    return 0;
  }
  const std::size_t end = behind_message(first), packets = packets_of(first, end);
  // A device or path that cannot segment, or not to this size.
  const bool cannot_cut = error == EINVAL || error == EIO || error == EOPNOTSUPP || error == EMSGSIZE;
  if (packets > 1 && cannot_cut) {
    split_batch(first);
    return 0;
  }
  // An ICMP error of an earlier packet, perhaps to another peer, fails one send: read_errors() attributes it.
  const bool lost = error == ENOBUFS || error == ENOMEM;
  if (!lost && !std::exchange(again_, true)) return 0;
  again_ = false;
  counters_.unsent += packets;
  if (!lost) machine_.handle_unreachable(now_, pieces_[first].path, {error, std::generic_category()});
  return end - first;
}

/// From now on, starting with the piece `first`, each packet is a separate message.
void PacketSet::split_batch(std::size_t first) {
  segments_ = false;
  const std::vector<Piece> joined(pieces_.begin() + static_cast<std::ptrdiff_t>(first), pieces_.end());
  pieces_.resize(first);
  waiting_ = packets_of(0, first);
  for (Piece piece : joined) {
    piece.path.way = 0;  // its port is that of the socket
    PacketFlow& flow = way_of(piece.path);
    const std::size_t from = pieces_.size();
    add(flow, piece.path, piece.at, piece.size, piece.count);
    seal(from, flow, {});
  }
}

bool PacketSet::receives(int fd) const {
  return std::any_of(bound_.begin(), bound_.end(), [fd](const Bound& b) { return b.fd == fd; });
}

void PacketSet::unblock(int fd) {
  blocked_ = false;
  blocked_fd_ = -1;
  (void)watch(fd, receives(fd) ? std::uint32_t{EPOLLIN} : std::uint32_t{0});
  flush();
}

/// The socket is closed: its waiting packets count as lost.
void PacketSet::forget(int fd) {
  if (!blocked_) flush();
  pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(sent_));
  sent_ = 0;
  const std::size_t before = packets_of(0, pieces_.size());
  std::erase_if(pieces_, [fd](const Piece& p) { return p.fd == fd; });
  waiting_ = packets_of(0, pieces_.size());
  counters_.unsent += before - waiting_;
  forget_ways();
  if (fd == ready_fd_) ready_fd_ = -1;
  (void)::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);  // another process may have a copy of the socket
  if (fd == blocked_fd_) {
    blocked_ = false;
    blocked_fd_ = -1;
  }
  ::close(fd);
}

}  // namespace parley::asio_driver
