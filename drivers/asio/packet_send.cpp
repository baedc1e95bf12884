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
#include "drivers/asio/packet_set.hpp"
#include "drivers/asio/packet_socket.hpp"
#include "drivers/asio/sockaddr.hpp"

namespace parley::asio_driver {
namespace {

constexpr std::size_t message_max = 64000;  // octets that the system cuts
constexpr std::size_t control_size = 128;

/// One message of sendmmsg with all that it points to.
struct Message {
  SockAddr to;
  iovec piece{};
  alignas(cmsghdr) std::array<std::uint8_t, control_size> control{};
};

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

bool same_path(const PacketPath& a, const PacketPath& b) {
  return a.local == b.local && a.peer == b.peer && a.source_port == b.source_port &&
         a.traffic_class == b.traffic_class && a.hop_limit == b.hop_limit;
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

bool PacketSet::fill() {
  while (pieces_.size() < sent_at_once) {
    PacketPath path;
    const std::size_t at = pieces_.empty() ? 0 : pieces_.back().at + pieces_.back().size;
    const std::size_t size =
        machine_.poll_packet(now_, path, MutBytes(out_).subspan(at, PacketMachine::packet_max + icrc_size));
    if (size == 0) break;
    add(path, at, size + icrc_size);
  }
  return sent_ < pieces_.size();
}

void PacketSet::add(const PacketPath& path, std::size_t at, std::size_t size) {
  std::uint16_t port = 0;
  Piece piece;
  piece.path = path;
  piece.fd = sender_for(path, port);
  piece.at = at;
  piece.size = size;
  piece.path.source_port = port;
  if (segments_ && !pieces_.empty()) {
    const Piece& before = pieces_.back();
    const Piece& first = pieces_[pieces_.size() - 1 - before.identification];
    // All are of the first one's size, but for the last.
    piece.follows = piece.fd == first.fd && same_path(piece.path, first.path) && before.size == first.size &&
                    size <= first.size && at + size - first.at <= message_max;
    if (piece.follows) piece.identification = static_cast<std::uint16_t>(before.identification + 1);
  }
  seal_piece(piece);
  pieces_.push_back(piece);
}

void PacketSet::seal_piece(const Piece& piece) {
  wire::ib::RoceHeader header;
  header.source = gid_of(piece.path.local);
  header.destination = gid_of(piece.path.peer);
  header.source_port = piece.path.source_port;
  header.identification = piece.identification;
  const MutBytes packet = MutBytes(out_).subspan(piece.at, piece.size);
  wire::ib::seal(header, packet);
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
  std::array<Message, sent_at_once> messages;
  std::array<mmsghdr, sent_at_once> headers{};
  std::array<std::size_t, sent_at_once> counts{};
  std::size_t n = 0, at = first;
  const int fd = pieces_[first].fd;
  while (at < pieces_.size() && pieces_[at].fd == fd) {
    std::size_t end = at + 1, size = pieces_[at].size;
    for (; end < pieces_.size() && pieces_[end].follows; ++end) size += pieces_[end].size;
    Message& message = messages[n];
    msghdr& header = headers[n].msg_hdr;
    prepare(pieces_[at], end - at, message.control, header);
    Address peer = pieces_[at].path.peer;
    peer.port = PARLEY_ROCE_UDP_PORT;
    message.to = to_sockaddr(peer);
    message.piece = {out_.data() + pieces_[at].at, size};
    header.msg_name = message.to.get();
    header.msg_namelen = message.to.size;
    header.msg_iov = &message.piece;
    header.msg_iovlen = 1;
    counts[n++] = end - at;
    at = end;
  }
  const int sent = fd < 0 ? -1 : ::sendmmsg(fd, headers.data(), static_cast<unsigned>(n), 0);
  if (sent <= 0) return refused(first, counts[0], fd < 0 ? EBADF : errno);
  again_ = false;
  std::size_t pieces = 0;
  for (int i = 0; i < sent; ++i) pieces += counts[i];
  for (std::size_t i = first; i < first + pieces; ++i) sent_one(pieces_[i]);
  return pieces;
}

void PacketSet::prepare(const Piece& piece, std::size_t count, MutBytes control, msghdr& header) {
  header.msg_control = control.data();
  header.msg_controllen = 0;
  if (const Bound* bound = covering(piece.path.local); bound != nullptr && bound->local.is_any())
    add_source(header, piece.path.local);
  add_path(header, piece.path);
  if (count > 1) add_control(header, IPPROTO_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(piece.size));
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
      seal_piece(pieces_[i]);
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
  if (fd == blocked_fd_) {
    blocked_ = false;
    blocked_fd_ = -1;
  }
  ::close(fd);
}

}  // namespace parley::asio_driver
