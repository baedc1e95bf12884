// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Replacements of C library functions that take a descriptor and that librdmacm uses. For a descriptor of
// /dev/infiniband/rdma_cm Parley handles the call; for others the call goes to the real function. The functions that
// take a path are in views_calls.cpp.
#include "preload/ucma_calls.hpp"

#include <sys/sysmacros.h>
#include <unistd.h>

#include <string_view>

#include "drivers/real_function.hpp"
#include "drivers/secure_env.hpp"
#include "preload/ucma/device_number.hpp"
#include "preload/ucma/files.hpp"

namespace parley::preload {
namespace {

using ucma::Files;

constinit RealFunction<int(int)> real_close{"close"};
constinit RealFunction<ssize_t(int, const void*, std::size_t)> real_write{"write"};
constinit RealFunction<int(const char*, struct stat*)> real_stat{"stat"};
constinit RealFunction<int(int, struct stat*)> real_fstat{"fstat"}, real_fstat64{"fstat64"};
constinit RealFunction<int(int, int, struct stat*)> real_fxstat{"__fxstat"}, real_fxstat64{"__fxstat64"};

/// dlsym() and the first Files::get() are not for a signal's handler.
__attribute__((constructor)) void find_all() {
  (void)Files::get();
  (void)real_close.get();
  (void)real_write.get();
  (void)real_fstat.get();
  (void)real_fstat64.get();
}

}  // namespace

bool is_rdma_cm(const char* path) {
  return path != nullptr && std::string_view(path) == Files::path && !has_more_rights();
}
int open_rdma_cm(int flags) { return Files::get().open(flags); }

int stat_rdma_cm(struct stat* out) {
  if (real_stat.get()(Files::path, out) == 0 && S_ISCHR(out->st_mode)) return 0;
  *out = {};
  out->st_mode = S_IFCHR | 0666;
  out->st_rdev = ucma::device_number("/proc/misc");
  out->st_nlink = 1;
  return 0;
}

int statx_rdma_cm(struct statx* out) {
  struct stat is {};
  (void)stat_rdma_cm(&is);
  *out = {};
  out->stx_mask = STATX_TYPE | STATX_MODE | STATX_NLINK;
  out->stx_mode = static_cast<std::uint16_t>(is.st_mode);
  out->stx_nlink = static_cast<std::uint32_t>(is.st_nlink);
  out->stx_rdev_major = ::gnu_dev_major(is.st_rdev);
  out->stx_rdev_minor = ::gnu_dev_minor(is.st_rdev);
  return 0;
}

}  // namespace parley::preload

using namespace parley::preload;

PARLEY_INTERPOSED int close(int fd) { return Files::get().owns(fd) ? Files::get().close(fd) : real_close.get()(fd); }
PARLEY_INTERPOSED ssize_t write(int fd, const void* octets, std::size_t size) {
  if (Files::get().owns(fd)) return Files::get().write(fd, octets, size);
  return real_write.get()(fd, octets, size);
}
PARLEY_INTERPOSED int fstat(int fd, struct stat* out) noexcept {
  return Files::get().owns(fd) ? stat_rdma_cm(out) : real_fstat.get()(fd, out);
}
PARLEY_INTERPOSED int fstat64(int fd, struct stat64* out) noexcept {
  auto* const same = reinterpret_cast<struct stat*>(out);  // of 64-bit systems
  return Files::get().owns(fd) ? stat_rdma_cm(same) : real_fstat64.get()(fd, same);
}
// The same in programs that were linked with glibc before 2.33.
PARLEY_INTERPOSED int __fxstat(int version, int fd, struct stat* out) {
  return Files::get().owns(fd) ? stat_rdma_cm(out) : real_fxstat.get()(version, fd, out);
}
PARLEY_INTERPOSED int __fxstat64(int version, int fd, struct stat64* out) {
  auto* const same = reinterpret_cast<struct stat*>(out);
  return Files::get().owns(fd) ? stat_rdma_cm(same) : real_fxstat64.get()(version, fd, same);
}
