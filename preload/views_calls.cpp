// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Replacements of C library functions that take a path (preload/views.hpp). They are only in the library that is
// preloaded. A path without a view goes straight to the real function, so that these calls stay safe in signal
// handlers.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "preload/ucma_calls.hpp"
#include "preload/views.hpp"

namespace {

using parley::preload::is_rdma_cm;
using parley::preload::open_rdma_cm;
using parley::preload::stat_rdma_cm;
using parley::preload::viewed;

template <class Function>
struct Real {
  const char* name;
  Function* at = nullptr;

  /// Finds the function on demand: constructors of other libraries may call it before this library's constructor has
  /// run.
  Function& get() {
    if (at == nullptr) at = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
    return *at;
  }
};

template <class Result, class... Rest>
Result by_path(Real<Result(const char*, Rest...)>& real, const char* path, Rest... rest) {
  std::string kept;
  return real.get()(viewed(path, kept), rest...);
}

template <class Result, class... Rest>
Result by_path_at(Real<Result(int, const char*, Rest...)>& real, int folder, const char* path, Rest... rest) {
  std::string kept;
  return real.get()(folder, viewed(path, kept), rest...);
}

using Open = int(const char*, int, mode_t);
using OpenAt = int(int, const char*, int, mode_t);
template <class Stat>
using StatOf = int(const char*, Stat*);
template <class Stat>
using StatAt = int(int, const char*, Stat*, int);
using Compare = int(const dirent**, const dirent**);
using Compare64 = int(const dirent64**, const dirent64**);

constinit Real<Open> real_open{"open"}, real_open64{"open64"};
constinit Real<int(const char*, int)> real_open_2{"__open_2"}, real_open64_2{"__open64_2"}, real_access{"access"};
constinit Real<OpenAt> real_openat{"openat"}, real_openat64{"openat64"};
constinit Real<int(int, const char*, int)> real_openat_2{"__openat_2"}, real_openat64_2{"__openat64_2"};
constinit Real<FILE*(const char*, const char*)> real_fopen{"fopen"}, real_fopen64{"fopen64"};
constinit Real<DIR*(const char*)> real_opendir{"opendir"};
constinit Real<int(const char*)> real_chdir{"chdir"};
constinit Real<int(const char*, dirent***, int (*)(const dirent*), Compare*)> real_scandir{"scandir"};
constinit Real<int(const char*, dirent64***, int (*)(const dirent64*), Compare64*)> real_scandir64{"scandir64"};
constinit Real<StatOf<struct stat>> real_stat{"stat"}, real_lstat{"lstat"};
constinit Real<StatOf<struct stat64>> real_stat64{"stat64"}, real_lstat64{"lstat64"};
constinit Real<StatAt<struct stat>> real_fstatat{"fstatat"};
constinit Real<StatAt<struct stat64>> real_fstatat64{"fstatat64"};
constinit Real<int(int, const char*, struct stat*)> real_xstat{"__xstat"}, real_lxstat{"__lxstat"};
constinit Real<int(int, const char*, struct stat64*)> real_xstat64{"__xstat64"}, real_lxstat64{"__lxstat64"};
constinit Real<int(int, const char*, int, unsigned, struct statx*)> real_statx{"statx"};
constinit Real<int(int, const char*, int, int)> real_faccessat{"faccessat"};
constinit Real<ssize_t(const char*, char*, std::size_t)> real_readlink{"readlink"};
constinit Real<ssize_t(int, const char*, char*, std::size_t)> real_readlinkat{"readlinkat"};
constinit Real<char*(const char*, char*)> real_realpath{"realpath"};

/// Finds the functions at start, because a signal handler must not call dlsym(). Functions that only old programs use
/// are found at their first call.
__attribute__((constructor)) void find_all() {
  const auto find = [](auto&... real) { ((void)real.get(), ...); };
  find(real_open, real_open64, real_open_2, real_open64_2, real_access, real_openat, real_openat64, real_openat_2,
       real_openat64_2, real_fopen, real_fopen64, real_opendir, real_chdir, real_scandir, real_scandir64, real_stat,
       real_lstat, real_stat64, real_lstat64, real_fstatat, real_fstatat64, real_statx, real_faccessat, real_readlink,
       real_readlinkat, real_realpath);
}

/// The mode argument, which exists only if the flags require one.
mode_t mode_in(int flags, va_list rest) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : mode_t{0};
}

}  // namespace

#define PARLEY_CALL extern "C" __attribute__((visibility("default")))

PARLEY_CALL int open(const char* path, int flags, ...) {
  if (is_rdma_cm(path)) return open_rdma_cm(flags);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_in(flags, rest);
  va_end(rest);
  return by_path(real_open, path, flags, mode);
}
PARLEY_CALL int open64(const char* path, int flags, ...) {
  if (is_rdma_cm(path)) return open_rdma_cm(flags);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_in(flags, rest);
  va_end(rest);
  return by_path(real_open64, path, flags, mode);
}
PARLEY_CALL int openat(int folder, const char* path, int flags, ...) {
  if (is_rdma_cm(path)) return open_rdma_cm(flags);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_in(flags, rest);
  va_end(rest);
  return by_path_at(real_openat, folder, path, flags, mode);
}
PARLEY_CALL int openat64(int folder, const char* path, int flags, ...) {
  if (is_rdma_cm(path)) return open_rdma_cm(flags);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_in(flags, rest);
  va_end(rest);
  return by_path_at(real_openat64, folder, path, flags, mode);
}
// Programs that were compiled with _FORTIFY_SOURCE call these.
PARLEY_CALL int __open_2(const char* path, int flags) {
  return is_rdma_cm(path) ? open_rdma_cm(flags) : by_path(real_open_2, path, flags);
}
PARLEY_CALL int __open64_2(const char* path, int flags) {
  return is_rdma_cm(path) ? open_rdma_cm(flags) : by_path(real_open64_2, path, flags);
}
PARLEY_CALL int __openat_2(int folder, const char* path, int flags) {
  return by_path_at(real_openat_2, folder, path, flags);
}
PARLEY_CALL int __openat64_2(int folder, const char* path, int flags) {
  return by_path_at(real_openat64_2, folder, path, flags);
}

PARLEY_CALL FILE* fopen(const char* path, const char* mode) { return by_path(real_fopen, path, mode); }
PARLEY_CALL FILE* fopen64(const char* path, const char* mode) { return by_path(real_fopen64, path, mode); }
PARLEY_CALL DIR* opendir(const char* path) { return by_path(real_opendir, path); }
PARLEY_CALL int chdir(const char* path) noexcept { return by_path(real_chdir, path); }
PARLEY_CALL int scandir(const char* path, dirent*** names, int (*filter)(const dirent*), Compare* compare) {
  return by_path(real_scandir, path, names, filter, compare);
}
PARLEY_CALL int scandir64(const char* path, dirent64*** names, int (*filter)(const dirent64*), Compare64* compare) {
  return by_path(real_scandir64, path, names, filter, compare);
}

PARLEY_CALL int stat(const char* path, struct stat* out) noexcept {
  return is_rdma_cm(path) ? stat_rdma_cm(out) : by_path(real_stat, path, out);
}
PARLEY_CALL int stat64(const char* path, struct stat64* out) noexcept {
  // Both structures are the same on 64-bit systems.
  return is_rdma_cm(path) ? stat_rdma_cm(reinterpret_cast<struct stat*>(out)) : by_path(real_stat64, path, out);
}
PARLEY_CALL int lstat(const char* path, struct stat* out) noexcept { return by_path(real_lstat, path, out); }
PARLEY_CALL int lstat64(const char* path, struct stat64* out) noexcept { return by_path(real_lstat64, path, out); }
PARLEY_CALL int fstatat(int folder, const char* path, struct stat* out, int flags) noexcept {
  return by_path_at(real_fstatat, folder, path, out, flags);
}
PARLEY_CALL int fstatat64(int folder, const char* path, struct stat64* out, int flags) noexcept {
  return by_path_at(real_fstatat64, folder, path, out, flags);
}
// Programs that were linked with glibc before 2.33 call these.
PARLEY_CALL int __xstat(int version, const char* path, struct stat* out) {
  return by_path_at(real_xstat, version, path, out);
}
PARLEY_CALL int __xstat64(int version, const char* path, struct stat64* out) {
  return by_path_at(real_xstat64, version, path, out);
}
PARLEY_CALL int __lxstat(int version, const char* path, struct stat* out) {
  return by_path_at(real_lxstat, version, path, out);
}
PARLEY_CALL int __lxstat64(int version, const char* path, struct stat64* out) {
  return by_path_at(real_lxstat64, version, path, out);
}
PARLEY_CALL int statx(int folder, const char* path, int flags, unsigned mask, struct statx* out) noexcept {
  return by_path_at(real_statx, folder, path, flags, mask, out);
}

PARLEY_CALL int access(const char* path, int mode) noexcept {
  return is_rdma_cm(path) ? 0 : by_path(real_access, path, mode);
}
PARLEY_CALL int faccessat(int folder, const char* path, int mode, int flags) noexcept {
  return by_path_at(real_faccessat, folder, path, mode, flags);
}
PARLEY_CALL ssize_t readlink(const char* path, char* out, std::size_t size) noexcept {
  return by_path(real_readlink, path, out, size);
}
PARLEY_CALL ssize_t readlinkat(int folder, const char* path, char* out, std::size_t size) noexcept {
  return by_path_at(real_readlinkat, folder, path, out, size);
}
PARLEY_CALL char* realpath(const char* path, char* out) noexcept { return by_path(real_realpath, path, out); }
