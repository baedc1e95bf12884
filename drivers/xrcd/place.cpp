// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/xrcd/place.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>
#include <utility>

#include <fmt/format.h>

namespace parley::xrc {
namespace {

constexpr const char* machines_socket = "/run/parley-xrcd.sock";

sockaddr_un address_of(const std::string& path) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  std::memcpy(out.sun_path, path.data(), path.size());
  return out;
}

}  // namespace

std::string default_socket() {
  if (const char* named = std::getenv("PARLEY_XRCD"); named != nullptr && *named != '\0') return named;
  if (::geteuid() == 0 || ::access(machines_socket, F_OK) == 0) return machines_socket;
  if (const char* own = std::getenv("XDG_RUNTIME_DIR"); own != nullptr && *own == '/')
    return std::string(own) + "/parley-xrcd.sock";
  return fmt::format("/tmp/parley-xrcd-{}.sock", ::geteuid());
}

Result<SocketAddress> SocketAddress::of(const std::string& path) {
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path)) return tl::unexpected(Error(Refusal::invalid));
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

ssize_t send_message(int socket, ConstBytes octets, int file, int flags) {
  if (file < 0) return ::send(socket, octets.data(), octets.size(), flags);
  iovec part{const_cast<std::uint8_t*>(octets.data()), octets.size()};  // which is read alone
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(c), &file, sizeof(int));
  return ::sendmsg(socket, &message, flags);
}

std::optional<FileFacts> facts_of(int fd) {
  struct stat s {};
  if (::fstat(fd, &s) != 0) return std::nullopt;
  return FileFacts{s.st_dev, s.st_ino, s.st_uid, (s.st_mode & (S_IWGRP | S_IWOTH)) != 0};
}

bool has_died(int pidfd) {
  pollfd waits{pidfd, POLLIN, 0};
  return ::poll(&waits, 1, 0) > 0;
}

std::uint64_t start_of(std::uint32_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  // The name, in parentheses, may hold anything; 20 fields lie between it and the start.
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < 19; ++i) fields >> skipped;
  std::uint64_t start = 0;
  fields >> start;
  return start;
}

std::string command_of(std::uint32_t pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  return name;
}

// ---- the file beside the socket ----------------------------------------------------------------------------------

Result<Tenure> Tenure::take(const std::string& socket) {
  const std::string path = socket + ".lock";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return tl::unexpected(Error(std::error_code(errno, std::generic_category())));
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    ::close(fd);
    return tl::unexpected(Error(Refusal::busy));
  }
  std::array<char, 64> text{};
  const ssize_t n = ::read(fd, text.data(), text.size() - 1);
  unsigned epoch = 0, qpn = 0;
  if (n > 0 && std::sscanf(text.data(), "%u %u", &epoch, &qpn) != 2) epoch = qpn = 0;
  // Time makes up for a file that was lost.
  const auto seconds = static_cast<std::uint32_t>(std::max<std::time_t>(std::time(nullptr), 1));
  Tenure tenure(fd, std::max(epoch + 1, seconds), qpn);
  tenure.write(qpn);
  return tenure;
}

Tenure::Tenure(Tenure&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), epoch_(other.epoch_), qpn_next_(other.qpn_next_), reserved_(other.reserved_) {}

Tenure::~Tenure() {
  if (fd_ >= 0) ::close(fd_);
}

void Tenure::keep(std::uint32_t next, std::uint32_t first, std::uint32_t last) {
  const std::uint32_t count = last - first + 1;
  const auto distance = [&](std::uint32_t to) { return (to + count - next) % count; };
  if (reserved_ && distance(*reserved_) > ahead) return;
  if (count <= 4 * ahead) return;  // so few are all in use, or at rest, sooner than they come round
  reserved_ = first + (next - first + 2 * ahead) % count;
  write(*reserved_);
}

void Tenure::write(std::uint32_t qpn) const {
  const std::string text = fmt::format("{:10} {:10}\n", epoch_, qpn);
  // What cannot be written costs the guarantee after a crash, and nothing before.
  (void)!::pwrite(fd_, text.data(), text.size(), 0);
}

}  // namespace parley::xrc
