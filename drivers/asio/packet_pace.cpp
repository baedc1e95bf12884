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

/// About all sockets with the port, of the address's family: a question about one is answered for any of those that share
/// an address (SO_REUSEPORT). With the number of the `only` one about that, which costs far less; if the socket that would
/// receive a packet to the address is another one, the answer is an error. The structure's source is then that of the packet.
Question question_about(const Gid& address, int protocol, std::uint16_t port, std::optional<std::uint64_t> only) {
  Question out;
  out.header.nlmsg_len = sizeof out;
  out.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  out.header.nlmsg_flags = NLM_F_REQUEST | (only ? 0 : NLM_F_DUMP);
  out.body.sdiag_family = is_v4_gid(address) ? AF_INET : AF_INET6;
  out.body.sdiag_protocol = static_cast<std::uint8_t>(protocol);
  out.body.idiag_ext = 1 << (INET_DIAG_SKMEMINFO - 1);
  out.body.idiag_states = ~0U;
  if (only) {
    const std::size_t from = is_v4_gid(address) ? 12 : 0;
    std::memcpy(out.body.id.idiag_dst, address.data() + from, address.size() - from);
    out.body.id.idiag_dport = htons(port);
    std::memcpy(out.body.id.idiag_cookie, &*only, sizeof *only);
  } else {
    out.body.id.idiag_sport = htons(port);
    out.body.id.idiag_cookie[0] = out.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  }
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
  return ask(gid_of(Address::any(Address::Family::v4, 0)), ntohs(name.sin_port), std::nullopt).count > 0;
}

std::optional<SocketRoom> SocketPace::room_at(const Gid& address) {
  return ask(address, PARLEY_ROCE_UDP_PORT, std::nullopt).fullest;
}

std::optional<SocketRoom> SocketPace::room_of(const Gid& address, Peer& at) const {
  Sockets found;
  if (at.only) found = ask(address, PARLEY_ROCE_UDP_PORT, at.only);
  if (found.count == 0) found = ask(address, PARLEY_ROCE_UDP_PORT, std::nullopt);
  at.only = found.count == 1 ? std::optional(found.last) : std::nullopt;
  return found.fullest;
}

SocketPace::Sockets SocketPace::ask(const Gid& address, std::uint16_t port, std::optional<std::uint64_t> only) const {
  const Question question = question_about(address, protocol_, port, only);
  Sockets found;
  if (::send(socket_.fd, &question, sizeof question, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof question))
    return found;
  for (bool more = true; more;) {
    alignas(nlmsghdr) std::array<std::uint8_t, 16384> answer;
    const ssize_t got = ::recv(socket_.fd, answer.data(), answer.size(), 0);  // the system has answered already
    more = got > 0;
    for (std::size_t at = 0; more && at < static_cast<std::size_t>(got);)
      more = read_answer(ConstBytes(answer).subspan(at, static_cast<std::size_t>(got) - at), address, found, at);
    more = more && !only;  // that is one message
  }
  return found;
}

/// One message of an answer; `at` advances behind it. False: the answer ends here.
bool SocketPace::read_answer(ConstBytes octets, const Gid& address, Sockets& found, std::size_t& at) {
  nlmsghdr header;
  inet_diag_msg body;
  if (octets.size() < sizeof header) return false;
  std::memcpy(&header, octets.data(), sizeof header);
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || header.nlmsg_len < NLMSG_HDRLEN + sizeof body ||
      header.nlmsg_len > octets.size())
    return false;
  at += NLMSG_ALIGN(header.nlmsg_len);
  std::memcpy(&body, octets.data() + NLMSG_HDRLEN, sizeof body);
  // Also those of all addresses: they may receive nothing for this one.
  const std::size_t from = is_v4_gid(address) ? 12 : 0;
  if (std::memcmp(body.id.idiag_src, address.data() + from, address.size() - from) != 0) return true;
  const std::size_t attributes = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof body);
  const auto room =
      room_in(octets.data() + attributes, header.nlmsg_len - std::min<std::size_t>(attributes, header.nlmsg_len));
  if (room && (!found.fullest || room->used > found.fullest->used)) found.fullest = room;
  std::memcpy(&found.last, body.id.idiag_cookie, sizeof found.last);
  ++found.count;
  return true;
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
  const auto room = room_of(peer, at);
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
