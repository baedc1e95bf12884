// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What goes out: packets are collected, those of one size and path cut by the system out of one message (UDP_SEGMENT), and
// all messages of one socket handed over at once (sendmmsg).
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
constexpr std::size_t message_max = 65507;  // octets that the system cuts: what a UDP datagram over IPv4 has room for
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

// Which of the host's addresses it comes from, where the socket has all of them.
void add_source(msghdr& header, const Address& local) {
  if (local.family == Address::Family::v4) {
    in_pktinfo info{};
    std::memcpy(&info.ipi_spec_dst, local.octets.data(), 4);
    add_control(header, IPPROTO_IP, IP_PKTINFO, info);
  } else {
    in6_pktinfo info{};
    std::memcpy(&info.ipi6_addr, local.octets.data(), 16);
    info.ipi6_ifindex = local.scope_id;
    add_control(header, IPPROTO_IPV6, IPV6_PKTINFO, info);
  }
}

void add_path(msghdr& header, const PacketPath& path) {
  const bool v4 = path.local.family == Address::Family::v4;
  const int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
  if (path.traffic_class != 0) add_control(header, level, v4 ? IP_TOS : IPV6_TCLASS, int{path.traffic_class});
  if (path.hop_limit != 64 && path.hop_limit != 0)
    add_control(header, level, v4 ? IP_TTL : IPV6_HOPLIMIT, int{path.hop_limit});
}

}  // namespace

/// The socket that sends with the path's UDP source port. Where that port cannot be had, the one that receives sends:
/// the port says nothing but which way packets may take.
int PacketSet::sender_for(const PacketPath& path, std::uint16_t& port) {
  Bound* bound = covering(path.local);
  if (bound == nullptr) return -1;
  const auto main_socket = [&] {
    port = PARLEY_ROCE_UDP_PORT;
    return bound->fd;
  };
  if (path.source_port == 0 || path.source_port == PARLEY_ROCE_UDP_PORT) return main_socket();
  port = path.source_port;
  const Sender sender{bound->local, port};
  if (const auto at = senders_.find(sender); at != senders_.end()) return at->second;
  if (senders_.size() >= senders_max) return main_socket();
  std::error_code why;
  RoceHostOptions options = options_;
  options.offload = false;  // it receives nothing
  const int fd = packet_socket(bound->local, port, options, why);
  if (fd < 0) return main_socket();
  (void)watch(fd, 0);  // errors are told always
  senders_.emplace(sender, fd);
  return fd;
}

// A packet is sealed when the next one is written: to read what has just been written means to wait until it is.
bool PacketSet::fill() {
  bool unsealed = false;
  while (pieces_.size() < sent_at_once) {
    const std::size_t at = pieces_.empty() ? 0 : pieces_.back().at + pieces_.back().size;
    Piece& piece = pieces_.emplace_back();
    piece.at = at;
    piece.size = machine_.poll_packet(now_, piece.path, MutBytes(out_).subspan(at, room_for_one));
    if (piece.size == 0) {
      pieces_.pop_back();
      break;
    }
    piece.size += icrc_size;
    if (unsealed) seal_piece(pieces_[pieces_.size() - 2], *last_flow_);
    join(piece);
    unsealed = true;
  }
  if (unsealed) seal_piece(pieces_.back(), *last_flow_);
  return sent_ < pieces_.size();
}

PacketFlow& PacketSet::way_of(const PacketPath& path) {
  if (path.way != 0 && path.way == last_way_) return *last_flow_;
  PacketFlow& flow = ways_.of(path, [this](PacketFlow& made) {
    made.fd = sender_for(made.path, made.port);
    wire::ib::RoceHeader header;
    header.source = gid_of(made.path.local);
    header.destination = gid_of(made.path.peer);
    header.source_port = made.port;
    made.sealer = wire::ib::Sealer(header);
  });
  last_way_ = path.way;
  last_flow_ = &flow;
  return flow;
}

/// The last piece: where it goes, and whether with the one before it.
void PacketSet::join(Piece& piece) {
  PacketFlow& flow = way_of(piece.path);
  piece.flow = flow.id;
  piece.fd = flow.fd;
  piece.path.source_port = flow.port;
  if (segments_ && pieces_.size() > 1) {
    const Piece& before = pieces_[pieces_.size() - 2];
    const Piece& first = pieces_[pieces_.size() - 2 - before.identification];
    // All are of the first one's size, but for the last.
    piece.follows = piece.flow == first.flow && before.size == first.size && piece.size <= first.size &&
                    piece.at + piece.size - first.at <= message_max;
    if (piece.follows) piece.identification = static_cast<std::uint16_t>(before.identification + 1);
  }
}

void PacketSet::seal_piece(const Piece& piece, PacketFlow& flow) {
  const MutBytes packet = MutBytes(out_).subspan(piece.at, piece.size);
  flow.sealer.seal(piece.identification, packet);
  // All bits: an ICRC that differs in few could be right for another IPv4 identification.
  if (piece.path.bad_icrc)
    for (std::uint8_t& octet : packet.last(icrc_size)) octet = static_cast<std::uint8_t>(~octet);
}

/// Sends what waits until nothing does, or the system takes no more.
void PacketSet::flush() {
  while (sent_ < pieces_.size() && !blocked_) sent_ += send_some(sent_);
  if (sent_ < pieces_.size()) return;
  pieces_.clear();
  sent_ = 0;
}

/// Of the pieces from `first` on those that go through one socket; returns how many are dealt with.
std::size_t PacketSet::send_some(std::size_t first) {
  PacketOutbox& out = *outbox_;
  std::size_t n = 0, at = first;
  const int fd = pieces_[first].fd;
  while (at < pieces_.size() && pieces_[at].fd == fd) {
    std::size_t end = at + 1, size = pieces_[at].size;
    for (; end < pieces_.size() && pieces_[end].follows; ++end) size += pieces_[end].size;
    out.packets[n] = end - at;
    prepare(at, size, n++);
    at = end;
  }
  const int sent = fd < 0 ? -1 : ::sendmmsg(fd, out.headers.data(), static_cast<unsigned>(n), 0);
  if (sent <= 0) return refused(first, out.packets[0], fd < 0 ? EBADF : errno);
  again_ = false;
  std::size_t pieces = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(sent); ++i) pieces += out.packets[i];
  for (std::size_t i = first; i < first + pieces; ++i) sent_one(pieces_[i]);
  return pieces;
}

/// Message `n` of the outbox: `size` octets from the piece `first` on.
void PacketSet::prepare(std::size_t first, std::size_t size, std::size_t n) {
  PacketOutbox& out = *outbox_;
  const Piece& piece = pieces_[first];
  Address peer = piece.path.peer;
  peer.port = PARLEY_ROCE_UDP_PORT;
  out.to[n] = to_sockaddr(peer);
  out.pieces[n] = {out_.data() + piece.at, size};
  msghdr& header = out.headers[n].msg_hdr;
  header.msg_name = out.to[n].get();
  header.msg_namelen = out.to[n].size;
  header.msg_iov = &out.pieces[n];
  header.msg_iovlen = 1;
  header.msg_control = out.controls[n].data();
  header.msg_controllen = 0;
  if (const Bound* bound = covering(piece.path.local); bound != nullptr && bound->local.is_any())
    add_source(header, piece.path.local);
  add_path(header, piece.path);
  if (out.packets[n] > 1) add_control(header, IPPROTO_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(piece.size));
  if (header.msg_controllen == 0) header.msg_control = nullptr;
}

void PacketSet::sent_one(const Piece& piece) {
  ++counters_.sent;
  if (tap_) tell_tap(piece.path, piece.identification, true, ConstBytes(out_).subspan(piece.at, piece.size));
}

/// What the system did not take: later, in another form, or never.
std::size_t PacketSet::refused(std::size_t first, std::size_t count, int error) {
  if (error == EINTR) return 0;
  if (error == EAGAIN || error == EWOULDBLOCK) {
    blocked_ = true;
    blocked_fd_ = pieces_[first].fd;
    (void)watch(blocked_fd_, receives(blocked_fd_) ? std::uint32_t{EPOLLIN | EPOLLOUT} : std::uint32_t{EPOLLOUT});
    return 0;
  }
  // A device or path that cannot cut, or not to this size.
  const bool cannot_cut = error == EINVAL || error == EIO || error == EOPNOTSUPP || error == EMSGSIZE;
  if (count > 1 && cannot_cut) {
    segments_ = false;
    for (std::size_t i = first; i < pieces_.size(); ++i) {
      pieces_[i].follows = false;
      pieces_[i].identification = 0;
      pieces_[i].path.way = 0;  // its port is the socket's
      seal_piece(pieces_[i], way_of(pieces_[i].path));
    }
    return 0;
  }
  // An ICMP error of an earlier packet, which may have been another peer's, stands in the way once: read_errors() tells whose it was.
  const bool lost = error == ENOBUFS || error == ENOMEM;
  if (!lost && !std::exchange(again_, true)) return 0;
  again_ = false;
  counters_.unsent += count;
  if (!lost) machine_.handle_unreachable(now_, pieces_[first].path, {error, std::generic_category()});
  return count;
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

/// The socket goes: what waits for it counts as lost.
void PacketSet::forget(int fd) {
  if (!blocked_) flush();
  pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(sent_));
  sent_ = 0;
  counters_.unsent += std::erase_if(pieces_, [fd](const Piece& p) { return p.fd == fd; });
  forget_ways();
  if (fd == ready_fd_) ready_fd_ = -1;
  if (fd == blocked_fd_) {
    blocked_ = false;
    blocked_fd_ = -1;
  }
  ::close(fd);
}

}  // namespace parley::asio_driver
