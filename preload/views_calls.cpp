// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Replacements of C library functions that take a path (preload/views.hpp). They are only in the library that is
// preloaded. A path without a view goes straight to the real function, so that these calls stay safe in signal
// handlers.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "drivers/real_function.hpp"
#include "preload/ucma_calls.hpp"
#include "preload/views.hpp"

namespace {

using parley::RealFunction;
using parley::preload::is_rdma_cm;
using parley::preload::open_rdma_cm;
using parley::preload::stat_rdma_cm;
using parley::preload::statx_rdma_cm;
using parley::preload::viewed;

template <class Result, class... Rest>
Result by_path(RealFunction<Result(const char*, Rest...)>& real, const char* path, Rest... rest) {
  std::string kept;
  return real.get()(viewed(path, kept), rest...);
}

template <class Result, class... Rest>
Result by_path_at(RealFunction<Result(int, const char*, Rest...)>& real, int folder, const char* path, Rest... rest) {
  std::string kept;
  return real.get()(folder, viewed(path, kept), rest...);
}

/// stat() and its kin, of `struct stat` or `struct stat64`, which are the same on 64-bit systems.
template <class Stat>
int stat_by_path(RealFunction<int(const char*, Stat*)>& real, const char* path, Stat* out) {
  return is_rdma_cm(path) ? stat_rdma_cm(reinterpret_cast<struct stat*>(out)) : by_path(real, path, out);
}
/// `first`: a folder's descriptor, or the version of the structure.
template <class Stat, class... Flags>
int stat_by_path_at(RealFunction<int(int, const char*, Stat*, Flags...)>& real, int first, const char* path, Stat* out,
                    Flags... flags) {
  return is_rdma_cm(path) ? stat_rdma_cm(reinterpret_cast<struct stat*>(out))
                          : by_path_at(real, first, path, out, flags...);
}

using Open = int(const char*, int, mode_t);
using OpenAt = int(int, const char*, int, mode_t);
template <class Stat>
using StatOf = int(const char*, Stat*);
template <class Stat>
using StatAt = int(int, const char*, Stat*, int);
using Compare = int(const dirent**, const dirent**);
using Compare64 = int(const dirent64**, const dirent64**);

constinit RealFunction<Open> real_open{"open"}, real_open64{"open64"};
constinit RealFunction<int(const char*, int)> real_open_2{"__open_2"}, real_open64_2{"__open64_2"},
    real_access{"access"};
constinit RealFunction<OpenAt> real_openat{"openat"}, real_openat64{"openat64"};
constinit RealFunction<int(int, const char*, int)> real_openat_2{"__openat_2"}, real_openat64_2{"__openat64_2"};
constinit RealFunction<FILE*(const char*, const char*)> real_fopen{"fopen"}, real_fopen64{"fopen64"};
constinit RealFunction<DIR*(const char*)> real_opendir{"opendir"};
constinit RealFunction<int(const char*)> real_chdir{"chdir"};
constinit RealFunction<int(const char*, dirent***, int (*)(const dirent*), Compare*)> real_scandir{"scandir"};
constinit RealFunction<int(const char*, dirent64***, int (*)(const dirent64*), Compare64*)> real_scandir64{"scandir64"};
constinit RealFunction<StatOf<struct stat>> real_stat{"stat"}, real_lstat{"lstat"};
constinit RealFunction<StatOf<struct stat64>> real_stat64{"stat64"}, real_lstat64{"lstat64"};
constinit RealFunction<StatAt<struct stat>> real_fstatat{"fstatat"};
constinit RealFunction<StatAt<struct stat64>> real_fstatat64{"fstatat64"};
constinit RealFunction<int(int, const char*, struct stat*)> real_xstat{"__xstat"}, real_lxstat{"__lxstat"};
constinit RealFunction<int(int, const char*, struct stat64*)> real_xstat64{"__xstat64"}, real_lxstat64{"__lxstat64"};
constinit RealFunction<int(int, const char*, int, unsigned, struct statx*)> real_statx{"statx"};
constinit RealFunction<int(int, const char*, int, int)> real_faccessat{"faccessat"};
constinit RealFunction<ssize_t(const char*, char*, std::size_t)> real_readlink{"readlink"};
constinit RealFunction<ssize_t(int, const char*, char*, std::size_t)> real_readlinkat{"readlinkat"};
constinit RealFunction<char*(const char*, char*)> real_realpath{"realpath"};
constinit RealFunction<ssize_t(const char*, char*, std::size_t, std::size_t)> real_readlink_chk{"__readlink_chk"};
constinit RealFunction<ssize_t(int, const char*, char*, std::size_t, std::size_t)> real_readlinkat_chk{
    "__readlinkat_chk"};
constinit RealFunction<char*(const char*, char*, std::size_t)> real_realpath_chk{"__realpath_chk"};

/// Finds the functions at start, because a signal handler must not call dlsym(). Functions that only old programs use
/// are found at their first call.
__attribute__((constructor)) void find_all() {
  const auto find = [](auto&... real) { ((void)real.get(), ...); };
  find(real_open, real_open64, real_open_2, real_open64_2, real_access, real_openat, real_openat64, real_openat_2,
       real_openat64_2, real_fopen, real_fopen64, real_opendir, real_chdir, real_scandir, real_scandir64, real_stat,
       real_lstat, real_stat64, real_lstat64, real_fstatat, real_fstatat64, real_statx, real_faccessat, real_readlink,
       real_readlinkat, real_realpath, real_readlink_chk, real_readlinkat_chk, real_realpath_chk);
}

/// The mode argument, which exists only if the flags require one.
mode_t mode_in(int flags, va_list rest) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : mode_t{0};
}

}  // namespace

PARLEY_INTERPOSED int open(const char* path, int flags, ...) {
  if (is_rdma_cm(path)) return open_rdma_cm(flags);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_in(flags, rest);
  va_end(rest);
  return by_path(real_open, path, flags, mode);
}
PARLEY_INTERPOSED int open64(const char* path, int flags, ...) {
  if (is_rdma_cm(path)) return open_rdma_cm(flags);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_in(flags, rest);
  va_end(rest);
  return by_path(real_open64, path, flags, mode);
}
PARLEY_INTERPOSED int openat(int folder, const char* path, int flags, ...) {
  if (is_rdma_cm(path)) return open_rdma_cm(flags);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_in(flags, rest);
  va_end(rest);
  return by_path_at(real_openat, folder, path, flags, mode);
}
PARLEY_INTERPOSED int openat64(int folder, const char* path, int flags, ...) {
  if (is_rdma_cm(path)) return open_rdma_cm(flags);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_in(flags, rest);
  va_end(rest);
  return by_path_at(real_openat64, folder, path, flags, mode);
}
// Called by programs that were compiled with _FORTIFY_SOURCE.
PARLEY_INTERPOSED int __open_2(const char* path, int flags) {
  return is_rdma_cm(path) ? open_rdma_cm(flags) : by_path(real_open_2, path, flags);
}
PARLEY_INTERPOSED int __open64_2(const char* path, int flags) {
  return is_rdma_cm(path) ? open_rdma_cm(flags) : by_path(real_open64_2, path, flags);
}
PARLEY_INTERPOSED int __openat_2(int folder, const char* path, int flags) {
  return is_rdma_cm(path) ? open_rdma_cm(flags) : by_path_at(real_openat_2, folder, path, flags);
}
PARLEY_INTERPOSED int __openat64_2(int folder, const char* path, int flags) {
  return is_rdma_cm(path) ? open_rdma_cm(flags) : by_path_at(real_openat64_2, folder, path, flags);
}

PARLEY_INTERPOSED FILE* fopen(const char* path, const char* mode) { return by_path(real_fopen, path, mode); }
PARLEY_INTERPOSED FILE* fopen64(const char* path, const char* mode) { return by_path(real_fopen64, path, mode); }
PARLEY_INTERPOSED DIR* opendir(const char* path) { return by_path(real_opendir, path); }
PARLEY_INTERPOSED int chdir(const char* path) noexcept { return by_path(real_chdir, path); }
PARLEY_INTERPOSED int scandir(const char* path, dirent*** names, int (*filter)(const dirent*), Compare* compare) {
  return by_path(real_scandir, path, names, filter, compare);
}
PARLEY_INTERPOSED int scandir64(const char* path, dirent64*** names, int (*filter)(const dirent64*),
                                Compare64* compare) {
  return by_path(real_scandir64, path, names, filter, compare);
}

// stat64 is stat on 64-bit systems.
PARLEY_INTERPOSED int stat(const char* path, struct stat* out) noexcept { return stat_by_path(real_stat, path, out); }
PARLEY_INTERPOSED int stat64(const char* path, struct stat64* out) noexcept {
  return stat_by_path(real_stat64, path, out);
}
PARLEY_INTERPOSED int lstat(const char* path, struct stat* out) noexcept { return stat_by_path(real_lstat, path, out); }
PARLEY_INTERPOSED int lstat64(const char* path, struct stat64* out) noexcept {
  return stat_by_path(real_lstat64, path, out);
}
PARLEY_INTERPOSED int fstatat(int folder, const char* path, struct stat* out, int flags) noexcept {
  return stat_by_path_at(real_fstatat, folder, path, out, flags);
}
PARLEY_INTERPOSED int fstatat64(int folder, const char* path, struct stat64* out, int flags) noexcept {
  return stat_by_path_at(real_fstatat64, folder, path, out, flags);
}
// The same in programs that were linked with glibc before 2.33.
PARLEY_INTERPOSED int __xstat(int version, const char* path, struct stat* out) {
  return stat_by_path_at(real_xstat, version, path, out);
}
PARLEY_INTERPOSED int __xstat64(int version, const char* path, struct stat64* out) {
  return stat_by_path_at(real_xstat64, version, path, out);
}
PARLEY_INTERPOSED int __lxstat(int version, const char* path, struct stat* out) {
  return stat_by_path_at(real_lxstat, version, path, out);
}
PARLEY_INTERPOSED int __lxstat64(int version, const char* path, struct stat64* out) {
  return stat_by_path_at(real_lxstat64, version, path, out);
}
PARLEY_INTERPOSED int statx(int folder, const char* path, int flags, unsigned mask, struct statx* out) noexcept {
  return is_rdma_cm(path) ? statx_rdma_cm(out) : by_path_at(real_statx, folder, path, flags, mask, out);
}

PARLEY_INTERPOSED int access(const char* path, int mode) noexcept {
  return is_rdma_cm(path) ? 0 : by_path(real_access, path, mode);
}
PARLEY_INTERPOSED int faccessat(int folder, const char* path, int mode, int flags) noexcept {
  return is_rdma_cm(path) ? 0 : by_path_at(real_faccessat, folder, path, mode, flags);
}
PARLEY_INTERPOSED ssize_t readlink(const char* path, char* out, std::size_t size) noexcept {
  return by_path(real_readlink, path, out, size);
}
PARLEY_INTERPOSED ssize_t readlinkat(int folder, const char* path, char* out, std::size_t size) noexcept {
  return by_path_at(real_readlinkat, folder, path, out, size);
}
PARLEY_INTERPOSED char* realpath(const char* path, char* out) noexcept { return by_path(real_realpath, path, out); }
// Called by programs that were compiled with _FORTIFY_SOURCE.
PARLEY_INTERPOSED ssize_t __readlink_chk(const char* path, char* out, std::size_t size, std::size_t room) {
  return by_path(real_readlink_chk, path, out, size, room);
}
PARLEY_INTERPOSED ssize_t __readlinkat_chk(int folder, const char* path, char* out, std::size_t size,
                                           std::size_t room) {
  return by_path_at(real_readlinkat_chk, folder, path, out, size, room);
}
PARLEY_INTERPOSED char* __realpath_chk(const char* path, char* out, std::size_t room) {
  return by_path(real_realpath_chk, path, out, room);
}
