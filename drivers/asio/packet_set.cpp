// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Addresses and sockets; for their traffic see packet_send.cpp and packet_receive.cpp.
#include "drivers/asio/packet_set.hpp"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "drivers/asio/packet_batch.hpp"
#include "drivers/asio/packet_socket.hpp"
#include "drivers/asio/port_sockets.hpp"
#include "drivers/asio/sockaddr.hpp"
#include "drivers/clock.hpp"

namespace parley::asio_driver {
namespace {

constexpr int alternatives_max = 16;                              // addresses of 127/8 to try
constexpr Duration unasked_max = std::chrono::microseconds(100);  // without calling epoll

// Each process starts with a different one; 127.0.0.0/16 is reserved for users.
Address loopback_alternative(int attempt) {
  const auto seed = static_cast<std::uint32_t>(::getpid()) * 2654435761U + static_cast<std::uint32_t>(attempt) * 40503U;
  const auto octet = [seed](int shift) { return static_cast<std::uint8_t>(seed >> shift & 0xFF); };
  return Address::v4(127, static_cast<std::uint8_t>(1 + octet(16) % 254), octet(8),
                     static_cast<std::uint8_t>(1 + octet(0) % 254), 0);
}

}  // namespace

Error no_descriptor() {
  return {Errc::no_space, "no file descriptor is available; raise the limit of open files (ulimit -n)"};
}

Error too_many_addresses() {
  return {Errc::no_space, "{a} addresses and groups are in use at once, which is the most", PacketSet::addresses_max};
}

namespace {

/// The user of a process that has UDP port 4791 of the address; none: this process's user, or it is not known.
std::optional<std::uint32_t> other_owner(const Address& local) {
  for (const PortSocket& socket : roce_port_sockets())
    if (socket.user != ::geteuid() && socket.local.family == local.family &&
        (socket.local.octets == local.octets || socket.local.is_any()))
      return socket.user;
  return std::nullopt;
}

}  // namespace

Error port_in_use(const Address& local, bool of_all) {
  std::error_code ignored;
  if (std::filesystem::exists("/sys/module/rdma_rxe", ignored))
    return {Errc::address_in_use,
            "UDP port 4791 is in use, by the kernel's rxe as it seems: go through it with the provider rdmacm, or "
            "unload it "
            "(rdma link delete, modprobe -r rdma_rxe)"};
  if (const auto user = other_owner(local))
    return {
        Errc::address_in_use,
        "the user with the number {a} has UDP port 4791 of this address; processes of different users need different "
        "addresses, such as others of 127.0.0.0/8",
        *user};
  if (of_all && !local.is_any())
    return {
        Errc::address_in_use,
        "another process has UDP port 4791 of all addresses: have it listen on one, such as 127.0.0.1, or be a client "
        "of the same user with no source address"};
  if (is_loopback_v4(local))
    return {Errc::address_in_use,
            "another process has UDP port 4791 of this address: take another of 127.0.0.0/8, such as 127.0.0.2"};
  return {Errc::address_in_use,
          "another process has UDP port 4791 of this address, which RoCEv2 needs: use another address of this host, or "
          "add one (ip address add)"};
}

PacketSet::PacketSet(PacketMachine& machine, const RoceHostOptions& options, int epoll, int wake,
                     PacketSockets* sockets)
    : machine_(machine),
      options_(options),
      epoll_(epoll),
      wake_(wake),
      sockets_(sockets),
      out_(sent_at_once * (PacketMachine::packet_max + icrc_size)),
      outbox_(std::make_unique<PacketOutbox>()),
      inbox_(std::make_unique<PacketInbox>()) {
  pieces_.reserve(sent_at_once);
  segments_ = options.offload;
}

PacketSet::~PacketSet() { close_sockets(); }

void PacketSet::close_sockets() noexcept {
  // Each number once: the program may have another file under it when a queue pair or the set is destroyed.
  const auto close_once = [](int& fd) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  };
  for (Bound& bound : bound_) close_once(bound.fd);
  for (auto& [sender, fd] : senders_) close_once(fd);
  ready_fd_ = -1;
}

// A turn that sent something leaves the sockets to the next turn: an answer cannot have arrived yet, except from a fast
// host on this machine. Never twice in a row, or a busy sender would not receive.
bool PacketSet::turn(Instant now) {
  const bool sent = !machine_.is_quiet(now) && advance(now);
  left_ = sent && !left_;
  if (left_) return true;
  const bool received = serve(now);
  if (received && !machine_.is_quiet(now)) drain(now);
  return sent || received;
}

bool PacketSet::advance(Instant now) {
  machine_.handle_deadline(now);
  return drain(now);
}

void PacketSet::sleep(Duration longest) const {
  pollfd ready{.fd = epoll_, .events = POLLIN, .revents = 0};
  const timespec limit = timespec_of(longest);
  (void)::ppoll(&ready, 1, &limit, nullptr);
}

bool PacketSet::drain(Instant now) {
  now_ = now;
  bool any = false;
  for (;;) {
    PacketCommand command;
    bool more = false;
    while (machine_.poll_command(command)) {
      carry_out(command);
      more = true;
    }
    bool left = false;
    if (!blocked_ && fill(left)) {
      const std::uint64_t unsent = counters_.unsent;
      flush();
      any = true;
      more = more || counters_.unsent != unsent;  // the machine was notified
    }
    any = any || more;
    if (!more && !left) return any;
  }
}

// Reads the socket that had input last time without calling epoll; the others wait only briefly for that.
bool PacketSet::serve_ready() {
  if (ready_fd_ < 0 || now_ - asked_at_ >= unasked_max) return false;
  const auto bound = std::find_if(bound_.begin(), bound_.end(), [this](const Bound& b) { return b.fd == ready_fd_; });
  return bound != bound_.end() && receive(*bound);
}

bool PacketSet::serve(Instant now) {
  now_ = now;
  if (serve_ready()) return true;
  ready_fd_ = -1;
  asked_at_ = now;
  std::array<epoll_event, 64> events;
  const int n = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < n; ++i) {
    const std::uint64_t data = events[i].data.u64;
    if (data == wake_data) {
      eventfd_t times = 0;
      (void)::eventfd_read(wake_, &times);
      continue;
    }
    const int fd = static_cast<int>(data & 0xFFFFFFFF);
    if ((events[i].events & EPOLLOUT) != 0) unblock(fd);
    const auto bound = std::find_if(bound_.begin(), bound_.end(), [fd](const Bound& b) { return b.fd == fd; });
    if ((events[i].events & EPOLLERR) != 0) read_errors(fd);
    if (bound != bound_.end() && (events[i].events & EPOLLIN) != 0 && receive(*bound)) ready_fd_ = fd;
  }
  return n > 0;
}

void PacketSet::carry_out(const PacketCommand& command) {
  if (command.kind == PacketCommand::Kind::release)
    release(command.id);
  else
    bind(command);
}

Result<Address> PacketSet::local_for(const PacketCommand& command) const {
  Address local = command.local;
  local.port = 0;
  if (!local.is_any() || command.peer.is_any()) return local;
  const auto source = source_toward(command.peer);
  if (!source) return tl::unexpected(Error(source.error()));
  // A process that listens at its own loopback address also connects from there.
  const auto own = std::find_if(bound_.begin(), bound_.end(), [](const Bound& b) { return is_loopback_v4(b.local); });
  return is_loopback_v4(*source) && own != bound_.end() ? own->local : *source;
}

PacketSet::Bound* PacketSet::covering(const Address& local) {
  const auto covers = [&local](const Bound& b) {
    return b.local == local || (b.local.is_any() && b.local.family == local.family);
  };
  const auto at = std::find_if(bound_.begin(), bound_.end(), covers);
  return at == bound_.end() ? nullptr : &*at;
}

void PacketSet::bind(const PacketCommand& command) {
  const auto local = local_for(command);
  if (!local) return machine_.handle_bind_failed(now_, command.id, local.error(), command.local);
  Bound* bound = covering(*local);
  Address address = *local;
  if (bound == nullptr) {
    const bool chosen = command.local.is_any() && !command.peer.is_any();
    auto opened = open(address, chosen, command.peer);
    if (!opened) return machine_.handle_bind_failed(now_, command.id, opened.error(), address);
    bound = *opened;
    if (!bound->local.is_any()) address = bound->local;
  }
  ++bound->users;
  users_[command.id] = address;
  machine_.handle_bound(now_, command.id, address);
}

/// Whether port 4791 is taken even for an address that no one would choose.
bool PacketSet::somebody_has_all(Address::Family family) const {
  if (family != Address::Family::v4) return false;
  for (int attempt = 0; attempt < alternatives_max; ++attempt) {
    std::error_code why;
    const int fd = packet_socket(loopback_alternative(attempt), PARLEY_ROCE_UDP_PORT, options_, why);
    if (fd >= 0) {
      ::close(fd);
      return false;
    }
  }
  return true;
}

/// For an address of this host, or towards one, any other IPv4 loopback address is equivalent.
Result<PacketSet::Bound*> PacketSet::open(Address local, bool may_take_another, const Address& peer) {
  if (bound_.size() >= addresses_max) return tl::unexpected(too_many_addresses());
  if (sockets_ != nullptr) return open_given(local);
  if (local.is_any()) {
    close_groups(local.family);  // a wildcard bind requires that no socket has the port
    close_family(local.family);
  }
  std::error_code why;
  int fd = -1;
  Address peer_address = peer, local_address = local;
  peer_address.port = local_address.port = 0;
  const bool same_host = is_loopback_v4(peer) || peer_address == local_address;
  // 127.0.0.1 is reserved for listeners.
  if (!(may_take_another && is_loopback_v4(local))) fd = packet_socket(local, PARLEY_ROCE_UDP_PORT, options_, why);
  if (fd < 0 && may_take_another && same_host && local.family == Address::Family::v4)
    for (int attempt = 0; attempt < alternatives_max && fd < 0; ++attempt) {
      local = loopback_alternative(attempt);
      fd = packet_socket(local, PARLEY_ROCE_UDP_PORT, options_, why, Sharing::beside_all);
    }
  if (fd < 0) {
    if (local.is_any()) reopen_family(local.family);
    if (why == std::errc::address_in_use) return tl::unexpected(port_in_use(local, somebody_has_all(local.family)));
    return tl::unexpected(Error(why));
  }
  auto bound = receive_on(fd, local);
  if (!bound && local.is_any()) reopen_family(local.family);
  return bound;
}

Result<PacketSet::Bound*> PacketSet::open_given(const Address& local) {
  if (local.is_any()) return fail(Errc::unsupported, "the sockets are shared, which needs an address of this host");
  const auto fd = sockets_->open(local);
  if (!fd) return tl::unexpected(fd.error());
  return receive_on(*fd, local);
}

/// Owns `fd`.
Result<PacketSet::Bound*> PacketSet::receive_on(int fd, const Address& local) {
  if (!watch(fd, EPOLLIN)) {
    ::close(fd);
    return tl::unexpected(no_descriptor());
  }
  std::size_t users = 0;  // of addresses that this one now covers
  for (const auto& [id, address] : users_)
    if (local.is_any() && address.family == local.family) ++users;
  add_bound(fd, local, users);
  join_groups_on(local);
  return covering(local);  // groups may have been inserted after it
}

void PacketSet::add_bound(int fd, const Address& local, std::size_t users) {
  bound_.push_back({fd, local, users});
  forget_ways();
}

/// A wildcard socket replaces the sockets of single addresses.
void PacketSet::close_family(Address::Family family) {
  for (const Bound& b : std::vector(bound_)) {
    if (b.local.family != family || b.group) continue;
    drop_senders(b.local);
    std::erase_if(bound_, [&b](const Bound& other) { return other.fd == b.fd; });
    forget(b.fd);
  }
}

/// Wildcard bind failed: fall back to one socket per address, as far as the system allows.
void PacketSet::reopen_family(Address::Family family) {
  std::map<Address, std::size_t> addresses;
  for (const auto& [id, address] : users_)
    if (address.family == family) ++addresses[address];
  for (const auto& [address, users] : addresses) {
    std::error_code why;
    const int fd = packet_socket(address, PARLEY_ROCE_UDP_PORT, options_, why);
    if (fd < 0) continue;
    (void)watch(fd, EPOLLIN);
    add_bound(fd, address, users);
    join_groups_on(address);
  }
}

bool PacketSet::watch(int fd, std::uint32_t what) {
  epoll_event event{};
  event.events = what;
  event.data.u64 = static_cast<std::uint32_t>(fd);
  return ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0 || ::epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event) == 0;
}

void PacketSet::release(BindId id) {
  const auto user = users_.find(id);
  if (user == users_.end()) return;
  Bound* bound = covering(user->second);
  users_.erase(user);
  if (bound == nullptr || --bound->users > 0) return;
  const Bound gone = *bound;
  drop_senders(gone.local);
  bound_.erase(bound_.begin() + (bound - bound_.data()));
  forget(gone.fd);
}

void PacketSet::drop_senders(const Address& local) {
  std::erase_if(senders_, [this, &local](const auto& entry) {
    if (entry.first.local != local) return false;
    forget(entry.second);
    return true;
  });
}

}  // namespace parley::asio_driver
