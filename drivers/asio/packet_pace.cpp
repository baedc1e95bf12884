// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/asio/packet_pace.hpp"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "parley/wire/ib.h"

namespace parley::asio_driver {
namespace {

constexpr std::ptrdiff_t credit_elsewhere = 64 << 20;  // octets to a peer on another host before it is looked up again

struct Question {
  nlmsghdr header{};
  inet_diag_req_v2 body{};
};

/// About the socket that would receive a packet to the address. The structure's source is that of the packet.
Question question_about(const Gid& address, int protocol, std::uint16_t port) {
  Question out;
  out.header.nlmsg_len = sizeof out;
  out.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  out.header.nlmsg_flags = NLM_F_REQUEST;
  out.body.sdiag_family = is_v4_gid(address) ? AF_INET : AF_INET6;
  out.body.sdiag_protocol = static_cast<std::uint8_t>(protocol);
  out.body.idiag_ext = 1 << (INET_DIAG_SKMEMINFO - 1);
  out.body.idiag_states = ~0U;
  out.body.id.idiag_dport = htons(port);
  out.body.id.idiag_cookie[0] = out.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  const std::size_t from = is_v4_gid(address) ? 12 : 0;
  std::memcpy(out.body.id.idiag_dst, address.data() + from, address.size() - from);
  return out;
}

/// From an attribute of that answer: socket(7)'s SK_MEMINFO.
std::optional<SocketRoom> room_in(const std::uint8_t* at, std::size_t left) {
  while (left >= sizeof(nlattr)) {
    nlattr head;
    std::memcpy(&head, at, sizeof head);
    if (head.nla_len < sizeof head || head.nla_len > left) return std::nullopt;
    std::array<std::uint32_t, SK_MEMINFO_RCVBUF + 1> info{};
    if (head.nla_type == INET_DIAG_SKMEMINFO && head.nla_len >= sizeof head + sizeof info) {
      std::memcpy(info.data(), at + sizeof head, sizeof info);
      return SocketRoom{.size = info[SK_MEMINFO_RCVBUF], .used = info[SK_MEMINFO_RMEM_ALLOC]};
    }
    const std::size_t step = std::min<std::size_t>(NLA_ALIGN(head.nla_len), left);
    at += step;
    left -= step;
  }
  return std::nullopt;
}

}  // namespace

std::unique_ptr<SocketPace> SocketPace::open(int protocol) {
  const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
  if (fd < 0) return nullptr;
  std::unique_ptr<SocketPace> out(new SocketPace(fd, protocol));
  return out->answers() ? std::move(out) : nullptr;
}

/// Asks about a socket that certainly exists.
bool SocketPace::answers() const {
  const Descriptor own(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  socklen_t size = sizeof name;
  auto* const generic = reinterpret_cast<sockaddr*>(&name);
  if (own.fd < 0 || ::bind(own.fd, generic, size) != 0 || ::getsockname(own.fd, generic, &size) != 0) return false;
  return ask(gid_of(Address::any(Address::Family::v4, 0)), ntohs(name.sin_port)).has_value();
}

std::optional<SocketRoom> SocketPace::room_at(const Gid& address) { return ask(address, PARLEY_ROCE_UDP_PORT); }

std::optional<SocketRoom> SocketPace::ask(const Gid& address, std::uint16_t port) const {
  const Question question = question_about(address, protocol_, port);
  if (::send(socket_.fd, &question, sizeof question, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof question))
    return std::nullopt;
  alignas(nlmsghdr) std::array<std::uint8_t, 1024> answer;
  const ssize_t got = ::recv(socket_.fd, answer.data(), answer.size(), 0);  // the system has answered already
  nlmsghdr header;
  inet_diag_msg body;
  constexpr std::size_t fixed = NLMSG_HDRLEN + sizeof body;
  if (got < static_cast<ssize_t>(fixed)) return std::nullopt;
  std::memcpy(&header, answer.data(), sizeof header);
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
  std::memcpy(&body, answer.data() + NLMSG_HDRLEN, sizeof body);
  // One of all addresses also answers for those of other hosts.
  const std::size_t from = is_v4_gid(address) ? 12 : 0;
  if (std::memcmp(body.id.idiag_src, address.data() + from, address.size() - from) != 0) return std::nullopt;
  const std::size_t aligned = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof body);
  return room_in(answer.data() + aligned,
                 static_cast<std::size_t>(got) - std::min<std::size_t>(aligned, static_cast<std::size_t>(got)));
}

/// At least what the system counts: a packet of its own in a buffer of twice its size, or many in one.
std::ptrdiff_t SocketPace::cost_of(std::size_t count, std::size_t size) {
  return static_cast<std::ptrdiff_t>(count * (1024 + 2 * size));
}

Instant SocketPace::may_send(Instant now, const Gid& peer) {
  if (is_multicast(peer)) return now;
  if (peers_.size() >= peers_max && !peers_.contains(peer)) {
    std::erase_if(peers_, [](const auto& known) { return !known.second.full_since; });  // those that are not held
    if (peers_.size() >= peers_max) peers_.clear();
  }
  Peer& at = peers_[peer];
  if (at.credit > 0) return now;
  if (now < at.ask_at) return at.ask_at;
  const auto room = room_at(peer);
  if (!room || room->size == 0) {
    at.credit = credit_elsewhere;
    at.full_since.reset();
    return now;
  }
  // The system counts up to a quarter of a buffer as used until all of it was read. The rest is for other senders.
  if (room->used < room->size / 2) {
    at.credit = static_cast<std::ptrdiff_t>((room->size - room->used) / 4);
    at.full_since.reset();
    return now;
  }
  if (!at.full_since || room->used < at.used) at.full_since = now;
  at.used = room->used;
  if (now - *at.full_since >= patience) {
    at.credit = static_cast<std::ptrdiff_t>(room->size / 4);
    return now;
  }
  return at.ask_at = now + interval;
}

void SocketPace::sent(const Gid& peer, std::size_t count, std::size_t size) noexcept {
  if (const auto at = peers_.find(peer); at != peers_.end()) at->second.credit -= cost_of(count, size);
}

}  // namespace parley::asio_driver
