// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/umad_preload/device.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "drivers/clock.hpp"

namespace parley::umad {

namespace {

std::atomic<Device*> the_device{nullptr};
std::mutex making;
bool tried = false;

void end_device() {
  if (Device* const there = Device::find()) there->end();
}
/// In a forked process: the device belongs to the parent, and so do its folder, its sockets and any locked mutex.
void forget_device() {
  the_device.store(nullptr);
  tried = false;
  ::new (static_cast<void*>(&making)) std::mutex;
}

/// Waits up to 10 s for a server. Null: the reason is on standard error.
std::unique_ptr<ibsim::Client> open_client() {
  ibsim::ClientOptions options = ibsim::environment_options();
  options.patience = std::chrono::seconds(60);
  options.server_wait = std::chrono::seconds(10);
  auto client = ibsim::Client::open(options);
  if (client) return std::move(*client);
  std::fprintf(stderr, "libparley_umad: %s\n", client.error().c_str());
  return nullptr;
}

/// Whether an unsent datagram can be sent later. Otherwise the server's socket has no reader any more.
bool is_full(int number) { return number == EAGAIN || number == ENOBUFS || number == EINTR; }

void ring(int fd) {
  const std::uint64_t one = 1;
  static_cast<void>(!::eventfd_write(fd, one));
}
void still(int fd) {
  eventfd_t value = 0;
  static_cast<void>(!::eventfd_read(fd, &value));
}

// ioctls, magic 0x1B: ib_user_mad.h.
constexpr unsigned long number_mask = 0xFF, register_agent = 1, unregister_agent = 2, enable_p_keys = 3,
                        register_agent2 = 4;

struct RegisterOld {
  std::uint32_t id;
  std::array<std::uint32_t, 4> methods;
  std::uint8_t qpn, mgmt_class, class_version;
  std::array<std::uint8_t, 3> oui;
  std::uint8_t rmpp_version;
};
struct RegisterNew {
  std::uint32_t id, qpn;
  std::uint8_t mgmt_class, class_version;
  std::uint16_t reserved;
  std::uint32_t flags;
  std::array<std::uint32_t, 4> methods;
  std::uint32_t oui;
  std::uint8_t rmpp_version;
  std::array<std::uint8_t, 3> rest;
};
static_assert(sizeof(RegisterOld) == 28 && sizeof(RegisterNew) == 40);

Registration registration_of(unsigned long number, const void* argument) {
  if (number == register_agent) {
    RegisterOld old{};
    std::memcpy(&old, argument, sizeof(old));
    const std::uint32_t oui = std::uint32_t{old.oui[0]} << 16 | std::uint32_t{old.oui[1]} << 8 | old.oui[2];
    return {old.qpn, old.mgmt_class, old.class_version, old.rmpp_version, old.methods, oui};
  }
  RegisterNew asked{};
  std::memcpy(&asked, argument, sizeof(asked));
  const bool own_rmpp = (asked.flags & 1) != 0;  // the program itself does RMPP
  return {static_cast<std::uint8_t>(asked.qpn),
          asked.mgmt_class,
          asked.class_version,
          own_rmpp ? std::uint8_t{0} : asked.rmpp_version,
          asked.methods,
          asked.oui};
}

}  // namespace

thread_local bool DirectCalls::now_ = false;

Device* Device::find() { return the_device.load(); }

Device* Device::get() {
  if (Device* const there = the_device.load()) return there;
  const std::lock_guard lock(making);
  if (!tried) {
    tried = true;
    the_device.store(make());
  }
  return the_device.load();
}

Device* Device::make() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, forget_device) | std::atexit(end_device);
  if (registered != 0) return nullptr;
  auto device = std::make_unique<Device>();
  device->client_ = open_client();
  if (device->client_ == nullptr) return nullptr;
  device->sysfs_ = Sysfs::create(*device->client_);
  device->wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (device->sysfs_ == nullptr || device->wake_ < 0 || !device->start()) return nullptr;
  return device.release();  // its thread lives as long as the process
}

bool Device::start() {
  agents_.set_client(static_cast<std::uint16_t>(client_->id()));
  classes_.own_timers = 1;
  announce_classes();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the program's signals are for its own threads
  std::thread([this] { run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return true;
}

void Device::end() {
  const DirectCalls guard;
  std::unique_ptr<ibsim::Client> client;  // declared first, because opening takes time
  std::unique_ptr<Sysfs> sysfs;
  const std::lock_guard control(control_mutex_);
  const std::lock_guard lock(mutex_);
  client = std::move(client_);
  sysfs = std::move(sysfs_);
}

std::optional<std::string> Device::place_of(std::string_view path) {
  const std::lock_guard lock(mutex_);
  return sysfs_ == nullptr ? std::nullopt : sysfs_->place_of(path);
}

void Device::announce_classes() {
  ibsim::ControlData data;
  const std::lock_guard control(control_mutex_);
  {
    const std::lock_guard lock(mutex_);
    data = ibsim::data_with(classes_);
  }
  // ibsim itself refuses it; its answer is ignored.
  if (client_ != nullptr) static_cast<void>(client_->ask(ibsim::ControlType::receive, data));
}

void Device::refresh() {
  const std::lock_guard lock(control_mutex_);
  const Instant now = clock_now();
  if (client_ == nullptr || now < refreshed_ + std::chrono::milliseconds(100)) return;
  sysfs_->refresh(*client_);
  refreshed_ = now;
}

void Device::run() {
  const DirectCalls guard;
  for (;;) {
    std::array<pollfd, 3> wanted{};
    Instant next = never;
    {
      const std::lock_guard lock(mutex_);
      if (client_ == nullptr || server_gone_) return;
      next = agents_.next_deadline();
      wanted[0] = {.fd = client_->fd(), .events = static_cast<short>(stuck_ ? POLLIN | POLLOUT : POLLIN)};
      wanted[1] = {.fd = wake_, .events = POLLIN};
      wanted[2] = {.fd = client_->server(), .events = POLLIN};
    }
    int wait_ms = -1;
    if (next != never) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(std::max(next - clock_now(), Duration::zero())).count();
      wait_ms = static_cast<int>(std::min<std::int64_t>(left, 60'000));
    }
    ::poll(wanted.data(), wanted.size(), wait_ms);
    if ((wanted[1].revents & POLLIN) != 0) still(wake_);
    const std::lock_guard lock(mutex_);
    if (client_ == nullptr) return;
    turn();
    if ((wanted[2].revents & POLLIN) != 0) lose_server();
  }
}

/// Receives, sends and expires requests. Under the mutex.
void Device::turn() {
  constexpr int batch = 64;
  const Instant now = clock_now();
  ibsim::Data data;
  for (int i = 0; i < batch && client_->receive(data); ++i) agents_.handle(now, data);
  if (agents_.next_deadline() <= now) agents_.handle_deadline(now);
  while (stuck_ || agents_.poll_transmit(data)) {
    if (stuck_) data = *std::exchange(stuck_, std::nullopt);
    if (client_->send(data)) continue;
    if (is_full(errno))
      stuck_ = data;
    else
      lose_server();
    break;
  }
  for (auto& [fd, umad] : files_) show(fd, *umad);
}

/// Otherwise waiting requests would run into their time limits, one after the other.
void Device::lose_server() {
  if (server_gone_) return;
  server_gone_ = true;
  stuck_.reset();
  std::fprintf(stderr, "libparley_umad: the server of '%s' is gone; its device fails with EIO from now on\n",
               client_->name().c_str());
  for (auto& [fd, umad] : files_) show(fd, *umad);
}

/// A descriptor is readable as long as there is something to read, including an error.
void Device::show(int fd, Umad& umad) {
  const bool has = server_gone_ || !umad.file.queue.empty();
  if (has && !umad.shown) ring(fd);
  if (!has && umad.shown) still(fd);
  umad.shown = has;
}

int Device::open_file(bool nonblocking, bool is_sm) {
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) return fd;
  bool was_sm = false;
  {
    const std::lock_guard lock(mutex_);
    if (server_gone_) return ::close(fd), errno = ENXIO, -1;
    std::unique_ptr<Umad>& umad = files_[fd];
    if (umad != nullptr) {  // its descriptor was closed another way: dup2, close_range
      agents_.close(umad->file);
      was_sm = umad->is_sm;
    }
    umad = std::make_unique<Umad>();
    umad->nonblocking = nonblocking;
    umad->is_sm = is_sm;
  }
  if (is_sm || was_sm) set_is_sm(is_sm);
  return fd;
}

int Device::open_umad(bool nonblocking) { return open_file(nonblocking, false); }
int Device::open_is_sm() { return open_file(true, true); }

void Device::set_is_sm(bool is_sm) {
  const std::lock_guard control(control_mutex_);
  if (client_ != nullptr)
    static_cast<void>(client_->ask(ibsim::ControlType::set_is_sm, ibsim::data_with(std::uint32_t{is_sm})));
}

bool Device::owns(int fd) {
  const std::lock_guard lock(mutex_);
  return files_.contains(fd);
}

bool Device::close(int fd, int (*really)(int)) {
  bool was_sm = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(fd);
    if (found == files_.end()) return false;
    agents_.close(found->second->file);
    was_sm = found->second->is_sm;
    files_.erase(found);
    really(fd);
  }
  if (was_sm) set_is_sm(false);
  return true;
}

ssize_t Device::read(int fd, void* out, std::size_t size) {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = files_.find(fd);
      if (found == files_.end()) return errno = EBADF, -1;
      Umad& umad = *found->second;
      if (!umad.file.queue.empty()) {
        Received& first = umad.file.queue.front();
        const std::size_t whole = sizeof(Header) + first.mad.size();
        const std::size_t part = sizeof(Header) + std::min<std::size_t>(first.mad.size(), 256);
        if (size < part) return errno = EINVAL, -1;
        std::memcpy(out, &first.header, sizeof(Header));
        std::memcpy(static_cast<char*>(out) + sizeof(Header), first.mad.data(), std::min(size, whole) - sizeof(Header));
        if (size < whole) return errno = ENOSPC, -1;  // its length is in the header; the message can be read again
        umad.file.queue.pop_front();
        show(fd, umad);
        return static_cast<ssize_t>(whole);
      }
      if (server_gone_) return errno = EIO, -1;
      if (umad.nonblocking) return errno = EAGAIN, -1;
    }
    pollfd wanted{.fd = fd, .events = POLLIN};
    if (::poll(&wanted, 1, -1) < 0) return -1;
  }
}

ssize_t Device::write(int fd, const void* octets, std::size_t size) {
  if (size < sizeof(Header) + 24) return errno = EINVAL, -1;
  Header header;
  std::memcpy(&header, octets, sizeof(header));
  const ConstBytes mad(static_cast<const std::uint8_t*>(octets) + sizeof(header), size - sizeof(header));
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(fd);
  if (found == files_.end()) return errno = EBADF, -1;
  if (client_ == nullptr) return errno = ENODEV, -1;
  if (server_gone_) return errno = EIO, -1;
  if (const int wrong = agents_.write(clock_now(), found->second->file, header, mad); wrong != 0)
    return errno = wrong, -1;
  ibsim::Data data;
  while (!stuck_ && agents_.poll_transmit(data)) {
    if (client_->send(data)) continue;
    if (!is_full(errno)) return lose_server(), errno = EIO, -1;
    stuck_ = data;
  }
  ring(wake_);  // its deadline may be the earliest
  return static_cast<ssize_t>(size);
}

int Device::add_agent(Umad& umad, unsigned long request, void* argument) {
  const unsigned long number = request & number_mask;
  const Registration registration = registration_of(number, argument);
  const auto id = agents_.add(umad.file, registration);
  if (!id) return errno = ENOMEM, -1;
  std::memcpy(argument, &*id, sizeof(*id));
  if (std::any_of(registration.methods.begin(), registration.methods.end(),
                  [](std::uint32_t word) { return word != 0; }))
    classes_.classes[registration.mgmt_class / 8U] |= static_cast<std::uint8_t>(1U << registration.mgmt_class % 8);
  return 0;
}

int Device::ioctl(int fd, unsigned long request, void* argument) {
  const unsigned long number = request & number_mask;
  if ((request >> 8 & 0xFF) != 0x1B) return errno = ENOTTY, -1;
  {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(fd);
    if (found == files_.end()) return errno = EBADF, -1;
    Umad& umad = *found->second;
    if (server_gone_) return errno = EIO, -1;
    if (number == enable_p_keys) return 0;
    if (number == unregister_agent) {
      std::uint32_t id = 0;
      std::memcpy(&id, argument, sizeof(id));
      return agents_.remove(umad.file, id) ? 0 : (errno = EINVAL, -1);
    }
    if (number != register_agent && number != register_agent2) return errno = EINVAL, -1;
    if (add_agent(umad, request, argument) != 0) return -1;
  }
  announce_classes();
  return 0;
}

}  // namespace parley::umad
