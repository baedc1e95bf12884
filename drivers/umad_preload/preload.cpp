// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The functions of the C library that libibumad and its users call, placed before the real ones: with this library in
// LD_PRELOAD a program finds a simulated subnet in place of InfiniBand devices.
#include <dirent.h>
#include <fcntl.h>
#include <sys/types.h>

#include <cerrno>
#include <cstdarg>
#include <string>

#include "drivers/real_function.hpp"
#include "drivers/umad_preload/device.hpp"

namespace {

using parley::RealFunction;
using parley::umad::Device;
using parley::umad::DirectCalls;
using parley::umad::Sysfs;

using Open = int(const char*, int, ...);
using Close = int(int);
constinit RealFunction<Open> real_open{"open"}, real_open64{"open64"};
constinit RealFunction<Close> real_close{"close"};
constinit RealFunction<ssize_t(int, void*, std::size_t)> real_read{"read"};
constinit RealFunction<ssize_t(int, const void*, std::size_t)> real_write{"write"};
constinit RealFunction<int(int, unsigned long, ...)> real_ioctl{"ioctl"};
constinit RealFunction<DIR*(const char*)> real_opendir{"opendir"};
constinit RealFunction<int(const char*, dirent***, int (*)(const dirent*), int (*)(const dirent**, const dirent**))>
    real_scandir{"scandir"};

constexpr std::string_view devices = "/dev/infiniband/";

/// The replacement path, stored in `kept`; `path` itself if it is not ours.
const char* turned(const char* path, std::string& kept) {
  if (path == nullptr || DirectCalls::now() || !Sysfs::is_ours(path)) return path;
  const DirectCalls guard;
  Device* const device = Device::get();
  if (device == nullptr) return path;
  if (std::string_view(path).find("/ports/") != std::string_view::npos) device->refresh();
  auto place = device->place_of(path);
  if (!place) return path;
  kept = std::move(*place);
  return kept.c_str();
}

/// Whether it is one of our devices; `fd` is then its descriptor.
bool open_device(const char* path, int flags, int& fd) {
  if (path == nullptr || DirectCalls::now()) return false;
  const std::string_view name(path);
  if (!name.starts_with(devices)) return false;
  const DirectCalls guard;
  Device* const device = Device::get();
  if (device == nullptr) return false;
  const std::string_view rest = name.substr(devices.size());
  if (rest == "umad0")
    fd = device->open_umad((flags & O_NONBLOCK) != 0);
  else if (rest == "issm0")
    fd = device->open_is_sm();
  else
    return false;
  return true;
}

/// `rest`: the mode, if the flags require one.
int open_by(Open* really, const char* path, int flags, va_list rest) {
  int fd = -1;
  if (open_device(path, flags, fd)) return fd;
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  std::string kept;
  return really(turned(path, kept), flags, mode);
}

Device* owner(int fd) {
  if (DirectCalls::now()) return nullptr;
  const DirectCalls guard;
  Device* const device = Device::find();
  return device != nullptr && device->owns(fd) ? device : nullptr;
}

}  // namespace

PARLEY_INTERPOSED int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const int fd = open_by(&real_open.get(), path, flags, rest);
  va_end(rest);
  return fd;
}

PARLEY_INTERPOSED int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const int fd = open_by(&real_open64.get(), path, flags, rest);
  va_end(rest);
  return fd;
}

PARLEY_INTERPOSED int close(int fd) {
  Close* const really = &real_close.get();
  if (Device* const device = owner(fd)) {
    const DirectCalls guard;
    return device->close(fd, really) ? 0 : (errno = EBADF, -1);
  }
  return really(fd);
}

PARLEY_INTERPOSED ssize_t read(int fd, void* out, std::size_t size) {
  if (Device* const device = owner(fd)) {
    const DirectCalls guard;
    return device->read(fd, out, size);
  }
  return real_read.get()(fd, out, size);
}

PARLEY_INTERPOSED ssize_t write(int fd, const void* octets, std::size_t size) {
  if (Device* const device = owner(fd)) {
    const DirectCalls guard;
    return device->write(fd, octets, size);
  }
  return real_write.get()(fd, octets, size);
}

PARLEY_INTERPOSED int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list rest;
  va_start(rest, request);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  if (Device* const device = owner(fd)) {
    const DirectCalls guard;
    return device->ioctl(fd, request, argument);
  }
  return real_ioctl.get()(fd, request, argument);
}

PARLEY_INTERPOSED DIR* opendir(const char* path) {
  std::string kept;
  return real_opendir.get()(turned(path, kept));
}

PARLEY_INTERPOSED int scandir(const char* path, dirent*** names, int (*filter)(const dirent*),
                              int (*compare)(const dirent**, const dirent**)) {
  std::string kept;
  return real_scandir.get()(turned(path, kept), names, filter, compare);
}
