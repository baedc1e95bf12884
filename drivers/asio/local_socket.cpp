// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/asio/local_socket.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "drivers/system_error.hpp"

namespace parley {

namespace {

using asio_driver::Descriptor;

sockaddr_un address_of(const std::string& path) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  std::memcpy(out.sun_path, path.data(), path.size());
  return out;
}

bool is_link_named(const std::string& link, std::string_view target) {
  std::error_code error;
  return std::filesystem::read_symlink(link, error).filename() == target && !error;
}

/// Two that start at the same time do not both find that no process listens.
Result<std::unique_ptr<Descriptor>> lock_name(const std::string& path) {
  const std::string name = path + ".lock";
  auto file =
      std::make_unique<Descriptor>(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  struct stat s {};
  if (file->fd < 0 || ::fstat(file->fd, &s) != 0) return tl::unexpected(system_error());
  if (!S_ISREG(s.st_mode) || s.st_uid != ::geteuid())
    return fail(Errc::address_in_use, "its lock is not a file of this user");
  if (::flock(file->fd, LOCK_EX | LOCK_NB) == 0) return file;
  if (errno == EWOULDBLOCK) return fail(Errc::address_in_use, "another process listens there");
  return tl::unexpected(system_error());
}

/// Removes what a process has left that no longer runs.
Result<void> clear_name(const SocketAddress& address, const LocalListenerOptions& options) {
  const char* const name = address.path.c_str();
  struct stat s {};
  if (::lstat(name, &s) != 0) return errno == ENOENT ? Result<void>() : tl::unexpected(system_error());
  const bool is_link =
      !options.link_target.empty() && S_ISLNK(s.st_mode) && is_link_named(address.path, options.link_target);
  if ((!is_link && !S_ISSOCK(s.st_mode)) || s.st_uid != ::geteuid())
    return fail(Errc::address_in_use, "a file that is not this user's socket is there");
  const Descriptor probe(::socket(AF_UNIX, options.type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (probe.fd < 0) return tl::unexpected(system_error());
  if (address.connect(probe.fd) == 0 || errno == EAGAIN)
    return fail(Errc::address_in_use, "another process listens there");
  if (errno == EPROTOTYPE) return fail(Errc::address_in_use, "another process has a socket of another type there");
  if (errno != ECONNREFUSED && !(is_link && errno == ENOENT)) return tl::unexpected(system_error());
  if (::unlink(name) != 0 && errno != ENOENT) return tl::unexpected(system_error());
  return {};
}

}  // namespace

Result<SocketAddress> SocketAddress::of(const std::string& path) {
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path))
    return fail(Errc::invalid_argument, "the path of a socket has {a} octets; it must have 1 to {b}",
                static_cast<std::int64_t>(path.size()), static_cast<std::int64_t>(sizeof(sockaddr_un::sun_path) - 1));
  return SocketAddress{path};
}

int SocketAddress::bind(int fd) const {
  const sockaddr_un address = address_of(path);
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

int SocketAddress::connect(int fd) const {
  const sockaddr_un address = address_of(path);
  return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

Result<int> bind_name(const SocketAddress& address, int type, mode_t mode) {
  const int fd = ::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return tl::unexpected(system_error());
  // Not chmod() behind it: the name may be another file by then.
  const mode_t before = ::umask(0777 & ~mode);
  const int bound = address.bind(fd);
  const int why = errno;
  ::umask(before);
  if (bound == 0) return fd;
  ::close(fd);
  errno = why;
  return tl::unexpected(why == EADDRINUSE ? Error(Errc::address_in_use) : system_error());
}

Result<LocalListener> LocalListener::open(const std::string& path, const LocalListenerOptions& options) {
  const auto address = SocketAddress::of(path);
  if (!address) return tl::unexpected(address.error());
  auto lock = lock_name(path);
  if (!lock) return tl::unexpected(lock.error());
  if (const auto clear = clear_name(*address, options); !clear) return tl::unexpected(clear.error());
  const auto fd = bind_name(*address, options.type, options.mode);
  if (!fd) return tl::unexpected(fd.error());
  auto socket = std::make_unique<Descriptor>(*fd);
  struct stat s {};
  if (::lstat(path.c_str(), &s) != 0) return tl::unexpected(system_error());
  return LocalListener(std::move(*lock), std::move(socket), OwnedName(path, s));
}

}  // namespace parley
