// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Replacements of C library functions that take a descriptor and that librdmacm uses. For a descriptor of
// /dev/infiniband/rdma_cm Parley handles the call; for others the call goes to the real function. The functions that
// take a path are in views_calls.cpp.
#include "preload/ucma_calls.hpp"

#include <dlfcn.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <string_view>

#include "preload/ucma/files.hpp"

namespace parley::preload {
namespace {

using ucma::Files;

template <class Function>
Function* real(Function*& kept, const char* name) {
  if (kept == nullptr) kept = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
  return kept;
}

using Close = int(int);
using Write = ssize_t(int, const void*, std::size_t);
using Stat = int(const char*, struct stat*);
using Fstat = int(int, struct stat*);
Close* real_close = nullptr;
Write* real_write = nullptr;
Stat* real_stat = nullptr;
Fstat *real_fstat = nullptr, *real_fstat64 = nullptr;

/// dlsym() and the first Files::get() are not for a signal's handler.
__attribute__((constructor)) void find_all() {
  (void)Files::get();
  (void)real(real_close, "close");
  (void)real(real_write, "write");
  (void)real(real_fstat, "fstat");
  (void)real(real_fstat64, "fstat64");
}

}  // namespace

bool is_rdma_cm(const char* path) { return path != nullptr && std::string_view(path) == Files::path; }
int open_rdma_cm(int flags) { return Files::get().open(flags); }

int stat_rdma_cm(struct stat* out) {
  if (real(real_stat, "stat")(Files::path, out) == 0 && S_ISCHR(out->st_mode)) return 0;
  *out = {};
  out->st_mode = S_IFCHR | 0666;
  out->st_rdev = ::makedev(10, 58);  // a misc device (major 10)
  out->st_nlink = 1;
  return 0;
}

}  // namespace parley::preload

#define PARLEY_CALL extern "C" __attribute__((visibility("default")))

using namespace parley::preload;

PARLEY_CALL int close(int fd) { return Files::get().owns(fd) ? Files::get().close(fd) : real(real_close, "close")(fd); }
PARLEY_CALL ssize_t write(int fd, const void* octets, std::size_t size) {
  if (Files::get().owns(fd)) return Files::get().write(fd, octets, size);
  return real(real_write, "write")(fd, octets, size);
}
PARLEY_CALL int fstat(int fd, struct stat* out) noexcept {
  return Files::get().owns(fd) ? stat_rdma_cm(out) : real(real_fstat, "fstat")(fd, out);
}
PARLEY_CALL int fstat64(int fd, struct stat64* out) noexcept {
  auto* const same = reinterpret_cast<struct stat*>(out);  // the same structure on 64-bit systems
  return Files::get().owns(fd) ? stat_rdma_cm(same) : real(real_fstat64, "fstat64")(fd, same);
}
