// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The functions of the C library by which librdmacm reaches the kernel: for /dev/infiniband/rdma_cm they are Parley's, for everything
// else the real ones.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <string_view>

#include "preload/ucma/files.hpp"

namespace {

using parley::preload::ucma::Files;

template <class Function>
Function* real(Function*& kept, const char* name) {
  if (kept == nullptr) kept = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
  return kept;
}

using Open = int(const char*, int, ...);
using Openat = int(int, const char*, int, ...);
using Close = int(int);
using Write = ssize_t(int, const void*, std::size_t);
using Stat = int(const char*, struct stat*);
using Fstat = int(int, struct stat*);
using Access = int(const char*, int);
Open *real_open = nullptr, *real_open64 = nullptr;
Openat *real_openat = nullptr, *real_openat64 = nullptr;
Close* real_close = nullptr;
Write* real_write = nullptr;
Stat *real_stat = nullptr, *real_stat64 = nullptr;
Fstat *real_fstat = nullptr, *real_fstat64 = nullptr;
Access* real_access = nullptr;

bool is_ours(const char* path) { return path != nullptr && std::string_view(path) == Files::path; }

/// `rest`: the mode, if the flags require one.
mode_t mode_of(int flags, va_list rest) { return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0; }

/// A character device. If the kernel has one, librdmacm expects its number.
int describe(struct stat* out) {
  if (real(real_stat, "stat")(Files::path, out) == 0 && S_ISCHR(out->st_mode)) return 0;
  *out = {};
  out->st_mode = S_IFCHR | 0666;
  out->st_rdev = ::makedev(10, 58);  // misc
  out->st_nlink = 1;
  return 0;
}

}  // namespace

#define PARLEY_EXPORT extern "C" __attribute__((visibility("default")))

PARLEY_EXPORT int open(const char* path, int flags, ...) {
  if (is_ours(path)) return Files::get().open(flags);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return real(real_open, "open")(path, flags, mode);
}

PARLEY_EXPORT int open64(const char* path, int flags, ...) {
  if (is_ours(path)) return Files::get().open(flags);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return real(real_open64, "open64")(path, flags, mode);
}

PARLEY_EXPORT int openat(int folder, const char* path, int flags, ...) {
  if (is_ours(path)) return Files::get().open(flags);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return real(real_openat, "openat")(folder, path, flags, mode);
}

PARLEY_EXPORT int openat64(int folder, const char* path, int flags, ...) {
  if (is_ours(path)) return Files::get().open(flags);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return real(real_openat64, "openat64")(folder, path, flags, mode);
}

PARLEY_EXPORT int close(int fd) {
  return Files::get().owns(fd) ? Files::get().close(fd) : real(real_close, "close")(fd);
}

PARLEY_EXPORT ssize_t write(int fd, const void* octets, std::size_t size) {
  if (Files::get().owns(fd)) return Files::get().write(fd, octets, size);
  return real(real_write, "write")(fd, octets, size);
}

PARLEY_EXPORT int fstat(int fd, struct stat* out) noexcept {
  return Files::get().owns(fd) ? describe(out) : real(real_fstat, "fstat")(fd, out);
}

PARLEY_EXPORT int fstat64(int fd, struct stat64* out) noexcept {
  auto* const same = reinterpret_cast<struct stat*>(out);  // of 64-bit systems
  return Files::get().owns(fd) ? describe(same) : real(real_fstat64, "fstat64")(fd, same);
}

PARLEY_EXPORT int stat(const char* path, struct stat* out) noexcept {
  return is_ours(path) ? describe(out) : real(real_stat, "stat")(path, out);
}

PARLEY_EXPORT int stat64(const char* path, struct stat64* out) noexcept {
  auto* const same = reinterpret_cast<struct stat*>(out);
  return is_ours(path) ? describe(same) : real(real_stat64, "stat64")(path, same);
}

PARLEY_EXPORT int access(const char* path, int mode) noexcept {
  return is_ours(path) ? 0 : real(real_access, "access")(path, mode);
}
