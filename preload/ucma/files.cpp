// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "preload/ucma/files.hpp"

#include <endian.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "drivers/asio/sockaddr.hpp"
#include "preload/places.hpp"
#include "preload/ucma/core.hpp"

namespace parley::preload::ucma {

namespace {

/// The process in which this library is loaded.
class Program final : public Host {
 public:
  bool read(std::uint64_t from, MutBytes to) override {
    void* const at = reinterpret_cast<void*>(from);
    if (const auto known = copy(process_vm_readv, to.data(), at, to.size())) return *known;
    std::memcpy(to.data(), at, to.size());
    return true;
  }
  bool write(std::uint64_t to, ConstBytes from) override {
    void* const at = reinterpret_cast<void*>(to);
    if (const auto known = copy(process_vm_writev, const_cast<std::uint8_t*>(from.data()), at, from.size()))
      return *known;
    std::memcpy(at, from.data(), from.size());
    return true;
  }
  std::optional<Address> source_toward(const Address& peer) override {
    const auto source = asio_driver::source_toward(peer);
    return source ? std::optional(*source) : std::nullopt;
  }

 private:
  using Copy = ssize_t(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);
  /// By the kernel, which checks the program's address. None: it does not allow these calls (seccomp).
  static std::optional<bool> copy(Copy& call, void* own, void* programs, std::size_t size) {
    if (size == 0) return true;
    const iovec here{.iov_base = own, .iov_len = size}, there{.iov_base = programs, .iov_len = size};
    const int kept = errno;
    const ssize_t copied = call(::getpid(), &here, 1, &there, 1, 0);
    const bool forbidden = copied < 0 && errno != EFAULT;
    errno = kept;
    if (forbidden && programs != nullptr) return std::nullopt;
    return copied == static_cast<ssize_t>(size);
  }
};

CoreOptions options_of(const Engine& engine) {
  CoreOptions out;
  const std::uint64_t guid = htobe64(device_guid());
  std::memcpy(out.node_guid.data(), &guid, sizeof guid);
  out.seed = std::random_device{}() | std::uint64_t{1} << 32;
  for (std::size_t i = 0; i < engine.gids(); ++i) out.addresses.push_back(engine.address(i));
  out.mtu = static_cast<std::uint8_t>(active_mtu(engine));
  if (engine.port() != nullptr) {
    out.id_prefix = engine.port()->prefix();
    out.services = engine.port();
  }
  return out;
}

/// The core on the engine's QP1.
class Connections final : public Manager {
 public:
  Connections(const CoreOptions& options, PortMember* port) : core(options), port_(port) {}

  bool turn(Instant now, nic::roce::RoceDevice& device) override {
    bool any = false;
    for (; device.poll_mad(in_); any = true) {
      if (port_ != nullptr) port_->received(in_.destination, in_.source, in_.octets);
      core.handle_mad(now,
                      {.source = in_.source,
                       .destination = in_.destination,
                       .sgid_index = in_.sgid_index,
                       .source_qpn = in_.source_qpn,
                       .p_key = in_.p_key},
                      in_.octets);
    }
    if (core.next_deadline() <= now) core.handle_deadline(now);
    cm::ibcm::MadTo to;
    for (; core.poll_transmit(to, out_.octets); any = true) {
      out_.source = to.source;
      out_.destination = to.destination;
      out_.sgid_index = to.sgid_index;
      out_.dest_qpn = to.destination_qpn;
      out_.p_key = to.p_key;
      out_.traffic_class = to.traffic_class;
      out_.hop_limit = to.hop_limit;
      out_.flow_label = to.flow_label;
      if (port_ != nullptr) port_->sent(out_.source, out_.destination, out_.octets);
      (void)device.send_mad(out_);  // without room, the MAD is lost as on a wire
    }
    while (const auto fd = core.poll_changed())
      if (const auto bell = bells.find(*fd); bell != bells.end()) bell->second->set(core.readable(*fd));
    return any;
  }
  Instant next_deadline() const override { return core.next_deadline(); }
  void end(Instant now) override {
    for (const auto& [fd, bell] : bells) core.close(now, fd);
  }

  void open(int fd, EventDescriptor& bell) {
    // The state of a lost file with this number, which another thread's close_lost() has taken, but not closed yet.
    if (bells.contains(fd)) core.close(clock_now(), fd);
    core.open(fd);
    bells.insert_or_assign(fd, &bell);
  }
  /// False: the number is another file's.
  bool close(int fd, const EventDescriptor& bell) {
    const auto at = bells.find(fd);
    if (at == bells.end() || at->second != &bell) return false;
    core.close(clock_now(), fd);
    bells.erase(at);
    return true;
  }

  Core core;
  std::map<int, EventDescriptor*> bells;  // of the open files

 private:
  PortMember* port_;  // null: the port is not shared
  nic::roce::MadIn in_;
  nic::roce::MadOut out_;
};

}  // namespace

struct Files::Opened {
  std::shared_ptr<Engine> engine;
  Connections* connections = nullptr;  // the engine's
  EventDescriptor bell;
  pid_t process = ::getpid();
  struct stat socket {};  // the descriptor's, as long as it is this file's

  /// In a child of vfork(), which shares the memory with its parent, but not the descriptors.
  bool is_parents() const { return ::getpid() != process && engine->is_own(); }
};

namespace {

/// The descriptor as the kernel has it: fstat() is interposed.
bool real_fstat(int fd, struct stat& out) {
  const int kept = errno;
  const bool there = ::syscall(SYS_newfstatat, fd, "", &out, AT_EMPTY_PATH) == 0;
  errno = kept;
  return there;
}

}  // namespace

Files& Files::get() {
  static Files* const one = [] {
    auto* const made = new Files;  // never deleted: threads may use it until the process ends
    ::pthread_atfork([] { get().mutex_.lock(); }, [] { get().mutex_.unlock(); }, [] { get().mutex_.unlock(); });
    return made;
  }();
  return *one;
}

void Files::mark(int fd, bool owned) {
  const auto at = static_cast<std::size_t>(fd);
  const std::uint64_t bit = std::uint64_t{1} << at % 64;
  if (owned)
    owned_[at / 64].fetch_or(bit, std::memory_order_release);
  else
    owned_[at / 64].fetch_and(~bit, std::memory_order_release);
}

bool Files::is_still_open(int fd) {
  const std::scoped_lock hold(mutex_);
  const auto at = opened_.find(fd);
  if (at == opened_.end()) return false;
  struct stat now {};
  const bool there = real_fstat(fd, now);  // under the lock: another thread may open a file with this number
  const struct stat& then = at->second->socket;
  if (there && now.st_dev == then.st_dev && now.st_ino == then.st_ino) return true;
  if (!at->second->is_parents()) lose(at);
  return false;
}

/// The caller holds mutex_, and may hold the engine's lock: its connections are closed later.
void Files::lose(std::map<int, std::shared_ptr<Opened>>::iterator at) {
  at->second->bell.forget();
  lost_.emplace_back(at->first, std::move(at->second));
  mark(at->first, false);
  opened_.erase(at);
}

void Files::close_lost() {
  decltype(lost_) lost;
  {
    const std::scoped_lock hold(mutex_);
    lost.swap(lost_);
  }
  for (auto& entry : lost) {
    const int fd = entry.first;
    std::shared_ptr<Opened>& opened = entry.second;
    opened->engine->with_nic([&](auto&) { (void)opened->connections->close(fd, opened->bell); });
    std::shared_ptr<Engine> last = opened->engine;
    opened.reset();
    release(std::move(last));
  }
}

std::shared_ptr<Files::Opened> Files::find(int fd) {
  const std::scoped_lock hold(mutex_);
  const auto at = opened_.find(fd);
  return at == opened_.end() ? nullptr : at->second;
}

int Files::open(int flags) {
  auto running = engine();
  if (!running) {
    print_line(std::string("open ").append(path), words_of(running.error()));
    (void)refused("open", running.error());
    return -1;
  }
  auto made = std::make_shared<Opened>();
  const int fd = made->bell.fd();
  if (fd < 0 || fd >= descriptors_max) return errno = EMFILE, -1;
  if ((flags & O_NONBLOCK) != 0) (void)::fcntl(fd, F_SETFL, O_NONBLOCK);
  if ((flags & O_CLOEXEC) == 0) (void)::fcntl(fd, F_SETFD, 0);
  if (!real_fstat(fd, made->socket)) return errno = EMFILE, -1;
  {  // one of before that the program closed in another way
    const std::scoped_lock hold(mutex_);
    if (const auto old = opened_.find(fd); old != opened_.end()) lose(old);
  }
  close_lost();
  made->engine = std::move(*running);
  made->connections = static_cast<Connections*>(&made->engine->manager(
      [&] { return std::make_unique<Connections>(options_of(*made->engine), made->engine->port()); }));
  made->engine->with_nic([&](auto&) { made->connections->open(fd, made->bell); });
  const std::scoped_lock hold(mutex_);
  opened_.insert_or_assign(fd, std::move(made));
  mark(fd, true);
  return fd;
}

ssize_t Files::write(int fd, const void* octets, std::size_t size) {
  const auto opened = find(fd);
  if (!opened) return errno = EBADF, -1;
  if (!opened->engine->is_own() || opened->is_parents()) return refused("write", EPERM, Engine::not_own), -1;
  Program program;
  const ConstBytes command(static_cast<const std::uint8_t*>(octets), size);
  for (bool claims = false;;) {
    Engine& engine = *opened->engine;
    const int wrong =
        engine.with([&](Device&) { return opened->connections->core.write(clock_now(), program, fd, command); });
    if (wrong == Services::undecided && engine.port() != nullptr) {
      claims = true;
      engine.port()->settle_claim();
      continue;
    }
    if (claims) engine.port()->drop_claim();  // if the id has gone in the meantime
    if (wrong == 0) return static_cast<ssize_t>(size);
    if (wrong != EAGAIN) return refused(Core::name_of(command), wrong, std::strerror(wrong)), -1;
    if (!EventDescriptor::wait(fd)) return -1;
  }
}

int Files::close(int fd) {
  std::shared_ptr<Opened> opened;
  {
    const std::scoped_lock hold(mutex_);
    const auto at = opened_.find(fd);
    if (at == opened_.end()) return errno = EBADF, -1;
    if (at->second->is_parents()) return static_cast<int>(::syscall(SYS_close, fd));
    opened = std::move(at->second);
    opened_.erase(at);
    mark(fd, false);
  }
  if (!opened->engine->is_own()) {  // the copy in a forked child
    opened->bell.hang_up();
    return 0;
  }
  opened->engine->with([&](Device&) {
    // If the program has also closed it in another way, the number may already be another file's.
    if (opened->connections->close(fd, opened->bell))
      opened->bell.hang_up();
    else
      opened->bell.forget();
    return 0;
  });
  std::shared_ptr<Engine> last = opened->engine;
  opened.reset();
  release(std::move(last));
  return 0;
}

}  // namespace parley::preload::ucma
