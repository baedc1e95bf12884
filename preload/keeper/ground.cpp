// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "preload/keeper/ground.hpp"

#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/gid.hpp"
#include "drivers/asio/packet_socket.hpp"
#include "drivers/asio/sockaddr.hpp"
#include "parley/wire/ib.h"

namespace parley::preload::port {

namespace {

using asio_driver::from_sockaddr;
using asio_driver::SockAddr;
using asio_driver::to_sockaddr;

constexpr int reads_at_once = 64;

static_assert(sizeof(sock_filter) == sizeof(Instruction) && offsetof(sock_filter, k) == offsetof(Instruction, k));

bool attach(int fd, const std::vector<Instruction>& program) {
  sock_fprog all{};
  all.len = static_cast<unsigned short>(program.size());
  all.filter = reinterpret_cast<sock_filter*>(const_cast<Instruction*>(program.data()));  // only read
  return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &all, sizeof all) == 0;
}

/// The size of each packet in what the system has coalesced (UDP_GRO); 0: it is one.
std::size_t packet_size(msghdr& message) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    int size = 0;
    if (c->cmsg_level != IPPROTO_UDP || c->cmsg_type != UDP_GRO || c->cmsg_len < CMSG_LEN(sizeof size)) continue;
    std::memcpy(&size, CMSG_DATA(c), sizeof size);
    return static_cast<std::size_t>(std::max(size, 0));
  }
  return 0;
}

/// A UDP socket bound to the address and the port, of this user's group.
bool belongs_to(int fd, const Address& address) {
  SockAddr name;
  socklen_t size = sizeof name.storage;
  int type = 0, shared = 0;
  socklen_t length = sizeof type;
  if (::getsockname(fd, name.get(), &size) != 0 || ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 ||
      ::getsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &shared, &length) != 0)
    return false;
  name.size = size;
  const int family = name.get()->sa_family;
  if (type != SOCK_DGRAM || shared == 0 || (family != AF_INET && family != AF_INET6)) return false;
  Address bound = from_sockaddr(name), wanted = address;
  wanted.port = PARLEY_ROCE_UDP_PORT;
  return bound == wanted;
}

}  // namespace

SocketGround::~SocketGround() {
  for (const auto& [fd, place] : by_fd_) ::close(fd);
  for (const auto& [member, fd] : wills_) ::close(fd);
}

// The first socket has SO_REUSEPORT only after its bind(), which therefore fails if any other process has the port.
// Linux coalesces the packets of one sender before the program chooses a socket by the first one of them, so only those
// of this host, which the sender has put together for one receiver, may arrive coalesced.
int SocketGround::extend(const Address& address, std::size_t size) {
  const bool fresh = !groups_.contains(address);
  Group& group = groups_[address];
  const std::size_t before = group.size();
  const RoceHostOptions options{.offload = asio_driver::is_loopback(address)};
  std::error_code why;
  while (group.size() < size) {
    const bool first = group.empty();
    const int fd = asio_driver::packet_socket(address, PARLEY_ROCE_UDP_PORT, options, why,
                                              first ? asio_driver::Sharing::none : asio_driver::Sharing::group);
    if (fd < 0) break;
    const int on = 1;
    (void)::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    by_fd_[fd] = {address, group.size()};
    group.push_back({.fd = fd});
    read_by(group.back(), Reader::answers);
  }
  int error = why.value();
  if (group.size() == size && fresh && !attach(group.front().fd, steering(size, {}))) error = errno;
  if (error == 0) return 0;
  for (; group.size() > before; group.pop_back()) {  // the last of the group: the others keep their numbers
    by_fd_.erase(group.back().fd);
    ::close(group.back().fd);
  }
  if (fresh) groups_.erase(address);
  return error;
}

bool SocketGround::adopt(const Address& address, std::size_t index, int file) {
  if (!belongs_to(file, address)) return false;
  if (socket(address, index) >= 0) return true;  // of another member that rejoined
  const int fd = ::fcntl(file, F_DUPFD_CLOEXEC, 3);
  if (fd < 0) return false;
  Group& group = groups_[address];
  if (group.size() <= index) group.resize(index + 1);
  group[index].fd = fd;
  by_fd_[fd] = {address, index};
  return true;
}

void SocketGround::close(const Address& address) {
  const auto group = groups_.find(address);
  if (group == groups_.end()) return;
  for (const Socket& socket : group->second) {
    if (socket.fd < 0) continue;
    if (socket.reader != Reader::nobody) (void)::epoll_ctl(epoll_, EPOLL_CTL_DEL, socket.fd, nullptr);
    by_fd_.erase(socket.fd);
    ::close(socket.fd);
  }
  groups_.erase(group);
}

void SocketGround::read_by(Socket& socket, Reader reader) {
  const bool reads = reader != Reader::nobody, did = socket.reader != Reader::nobody;
  socket.reader = reader;
  if (socket.fd < 0 || reads == did) return;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = socket.fd;
  (void)::epoll_ctl(epoll_, reads ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, socket.fd, &event);
}

void SocketGround::give(const Address& address, std::size_t index, bool fresh) {
  Socket& socket = groups_.at(address).at(index);
  read_by(socket, Reader::nobody);
  std::uint8_t octet = 0;
  for (int n = 0; fresh && n < 100000; ++n)  // an error of ICMP is reported once
    if (::recv(socket.fd, &octet, sizeof octet, MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EBADF)) break;
}

void SocketGround::take_back(const Address& address, std::size_t index) {
  read_by(groups_.at(address).at(index), Reader::answers);
}

void SocketGround::steer(const Address& address, const std::vector<Instruction>& program) {
  const auto group = groups_.find(address);
  if (group == groups_.end()) return;
  for (const Socket& socket : group->second)
    if (socket.fd >= 0) return (void)attach(socket.fd, program);
}

void SocketGround::keep_will(MemberId member, int file) {
  const int fd = ::fcntl(file, F_DUPFD_CLOEXEC, 3);
  if (fd >= 0) wills_[member] = fd;
}

void SocketGround::drop_will(MemberId member) {
  const auto file = wills_.find(member);
  if (file == wills_.end()) return;
  ::close(file->second);
  wills_.erase(file);
}

bool SocketGround::mourn(Instant now, MemberId member, const std::vector<Address>& addresses, std::uint8_t prefix) {
  const auto file = wills_.find(member);
  if (file == wills_.end()) return false;
  Bytes octets(will_record_size * will_records_max);
  std::size_t size = 0;
  for (ssize_t n = 1; n > 0 && size < octets.size(); size += static_cast<std::size_t>(std::max<ssize_t>(n, 0)))
    n = ::pread(file->second, octets.data() + size, octets.size() - size, static_cast<off_t>(size));
  octets.resize(size);
  drop_will(member);
  const std::vector<WillRecord> will = decode_will(octets);
  if (will.empty()) return false;
  const std::uint64_t number = ++last_mourning_;
  for (const Address& address : addresses) {
    Socket& socket = groups_.at(address).at(prefix);
    socket.mourning = number;
    read_by(socket, Reader::mourns);
  }
  mourned_[number] = {.addresses = addresses, .prefix = prefix};
  partings_.begin(now, number, will);
  return true;
}

std::optional<SocketGround::Mourned> SocketGround::poll_mourned() {
  const auto number = partings_.poll_done();
  if (!number) return std::nullopt;
  const auto at = mourned_.find(*number);
  Mourned out = std::move(at->second);
  mourned_.erase(at);
  return out;
}

int SocketGround::socket(const Address& address, std::size_t index) const {
  const auto group = groups_.find(address);
  return group == groups_.end() || index >= group->second.size() ? -1 : group->second[index].fd;
}

bool SocketGround::serve(int fd) {
  const auto at = by_fd_.find(fd);
  if (at == by_fd_.end()) return false;
  const auto [address, index] = at->second;
  for (int i = 0; i < reads_at_once; ++i) {
    const auto group = groups_.find(address);
    if (group == groups_.end() || group->second.at(index).reader == Reader::nobody) break;
    if (!take(address, group->second.at(index))) break;
  }
  int ignored = 0;  // errors of ICMP would keep it readable
  socklen_t size = sizeof ignored;
  (void)::getsockopt(fd, SOL_SOCKET, SO_ERROR, &ignored, &size);
  std::array<std::uint8_t, 512> told;
  while (::recv(fd, told.data(), told.size(), MSG_ERRQUEUE | MSG_DONTWAIT) >= 0) {
  }
  return true;
}

/// False: nothing waits.
bool SocketGround::take(const Address& address, const Socket& socket) {
  static std::array<std::uint8_t, asio_driver::receive_size> octets;  // of this program's only thread
  SockAddr from;
  iovec piece{.iov_base = octets.data(), .iov_len = octets.size()};
  alignas(cmsghdr) std::array<char, 256> control;
  msghdr message{};
  message.msg_name = from.get();
  message.msg_namelen = sizeof from.storage;
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t n = ::recvmsg(socket.fd, &message, MSG_DONTWAIT);
  if (n < 0) return false;
  from.size = message.msg_namelen;
  const Address peer = from_sockaddr(from);
  const Gid local = gid_of(address), remote = gid_of(peer);
  ConstBytes left = ConstBytes(octets).first(static_cast<std::size_t>(n));
  const std::size_t coalesced = packet_size(message), each = coalesced == 0 ? left.size() : coalesced;
  for (; !left.empty(); left = left.subspan(std::min(each, left.size()))) {
    const auto mad = gsi_mad(local, remote, peer.port, left.first(std::min(each, left.size())));
    if (!mad) continue;
    const auto answer =
        socket.reader == Reader::answers ? answer_of_nobody(*mad) : partings_.handle_mad(socket.mourning, *mad);
    if (answer) send(address, socket, remote, *answer);
  }
  return true;
}

void SocketGround::send(const Address& address, const Socket& socket, const Gid& peer, ConstBytes mad) {
  Address to = address_of_gid(peer, PARLEY_ROCE_UDP_PORT);
  if (to.is_link_local()) to.scope_id = address.scope_id;
  const SockAddr name = to_sockaddr(to);
  const Bytes packet = gsi_packet(gid_of(address), peer, mad);
  (void)::sendto(socket.fd, packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL, name.get(), name.size);
}

void SocketGround::send_partings() {
  while (const auto parting = partings_.poll_parting()) {
    const auto at = mourned_.find(parting->mourning);
    if (at == mourned_.end()) continue;
    for (const Address& address : at->second.addresses) {
      if (gid_of(address) != parting->local) continue;
      send(address, groups_.at(address).at(at->second.prefix), parting->remote, parting->mad);
      break;
    }
  }
}

}  // namespace parley::preload::port
