// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/ssa/acm_place.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "drivers/xrcd/place.hpp"

namespace parley::ssa_driver {

namespace {

namespace fs = std::filesystem;
using asio_driver::Descriptor;

// What ibacm's symbolic links for librdmacm lead to.
constexpr const char* ibacms_socket = "ibacm-unix.sock";
constexpr const char* ibacms_port_file = "ibacm-tcp.port";

Error system_error() { return {std::error_code(errno, std::generic_category())}; }

bool is_link_named(const std::string& link, const char* target) {
  std::error_code error;
  return fs::read_symlink(link, error).filename() == target && !error;
}

}  // namespace

bool is_link_to(const std::string& link, const std::string& path) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  if (error) return false;
  const fs::path from = fs::absolute(link, error).parent_path() / target;  // an absolute target replaces the folder
  const fs::path end = fs::weakly_canonical(from, error);
  return !end.empty() && end == fs::weakly_canonical(fs::absolute(path, error), error) && !error;
}

AcmPlaces::~AcmPlaces() {
  for (const File& file : files_) {
    struct stat s {};
    if (::lstat(file.path.c_str(), &s) == 0 && s.st_dev == file.device && s.st_ino == file.inode)
      ::unlink(file.path.c_str());
  }
}

bool AcmPlaces::has_made(dev_t device, ino_t inode) const {
  return std::any_of(files_.begin(), files_.end(),
                     [&](const File& file) { return file.device == device && file.inode == inode; });
}

Result<void> AcmPlaces::lock(const std::string& path) {
  const std::string name = path + ".lock";
  auto file =
      std::make_unique<Descriptor>(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  struct stat s {};
  if (file->fd < 0 || ::fstat(file->fd, &s) != 0) return tl::unexpected(system_error());
  if (!S_ISREG(s.st_mode) || s.st_uid != ::geteuid())
    return fail(Errc::address_in_use, "its lock is not a file of this user");
  if (::flock(file->fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return fail(Errc::address_in_use, "another process listens there");
    return tl::unexpected(system_error());
  }
  locks_.push_back(std::move(file));
  return {};
}

/// Removes what a process has left that no longer runs.
Result<void> AcmPlaces::clear_socket(const std::string& path) const {
  struct stat s {};
  if (::lstat(path.c_str(), &s) != 0) return errno == ENOENT ? Result<void>() : tl::unexpected(system_error());
  const bool is_link = S_ISLNK(s.st_mode) && is_link_named(path, ibacms_socket);
  if ((!is_link && !S_ISSOCK(s.st_mode)) || s.st_uid != ::geteuid())
    return fail(Errc::address_in_use, "a file that is not this user's socket is there");
  const bool leads_here = is_link && ::stat(path.c_str(), &s) == 0 && has_made(s.st_dev, s.st_ino);
  if (!leads_here) {
    const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (probe.fd < 0) return tl::unexpected(system_error());
    const int connected = xrc::SocketAddress{path}.connect(probe.fd);
    if (connected == 0 || errno == EAGAIN) return fail(Errc::address_in_use, "another process listens there");
    if (errno == EPROTOTYPE) return fail(Errc::address_in_use, "another process has a socket of another type there");
    if (errno != ECONNREFUSED && !(is_link && errno == ENOENT)) return tl::unexpected(system_error());
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return tl::unexpected(system_error());
  return {};
}

Result<int> AcmPlaces::bind_socket(const std::string& path) {
  const auto address = xrc::SocketAddress::of(path);
  if (!address)
    return fail(Errc::invalid_argument, "the path of a socket has {a} octets; it must have 1 to {b}",
                static_cast<std::int64_t>(path.size()), static_cast<std::int64_t>(sizeof(sockaddr_un::sun_path) - 1));
  if (const auto locked = lock(path); !locked) return tl::unexpected(locked.error());
  if (const auto clear = clear_socket(path); !clear) return tl::unexpected(clear.error());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return tl::unexpected(system_error());
  // Not chmod() behind it: the name may be another file by then.
  const mode_t before = ::umask(::geteuid() == 0 ? 0111 : 0177);
  const int bound = address->bind(fd);
  const int why = errno;
  ::umask(before);
  errno = why;
  struct stat s {};
  if (bound != 0 || ::lstat(path.c_str(), &s) != 0) {
    const Error error = errno == EADDRINUSE ? Error(Errc::address_in_use) : system_error();
    ::close(fd);
    return tl::unexpected(error);
  }
  files_.push_back({path, s.st_dev, s.st_ino, nullptr});
  return fd;
}

Result<void> AcmPlaces::write_port(const std::string& path, std::uint16_t port) {
  struct stat s {};
  const bool there = ::lstat(path.c_str(), &s) == 0;
  const bool is_link = there && S_ISLNK(s.st_mode) && is_link_named(path, ibacms_port_file);
  if (there && ((!is_link && !S_ISREG(s.st_mode)) || s.st_uid != ::geteuid()))
    return fail(Errc::address_in_use, "a file that is not this user's regular file is there");
  std::string fresh = path + ".XXXXXX";
  const std::string text = std::to_string(port) + "\n";
  auto file = std::make_unique<Descriptor>(::mkostemp(fresh.data(), O_CLOEXEC));
  if (file->fd < 0) return tl::unexpected(system_error());
  errno = ENOSPC;  // of a short write
  if (::write(file->fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fchmod(file->fd, 0644) != 0 || ::fstat(file->fd, &s) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0) {
    const Error error = system_error();
    ::unlink(fresh.c_str());
    return tl::unexpected(error);
  }
  files_.push_back({path, s.st_dev, s.st_ino, std::move(file)});
  return {};
}

}  // namespace parley::ssa_driver
