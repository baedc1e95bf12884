// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/xrcd/place.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "drivers/passed_files.hpp"
#include "drivers/secure_env.hpp"
#include "drivers/system_error.hpp"

namespace parley::xrc {
namespace {

constexpr const char* machines_socket = "/run/parley-xrcd.sock";
}  // namespace

std::string default_socket() {
  if (const char* named = secure_env("PARLEY_XRCD"); named != nullptr && *named != '\0') return named;
  if (::geteuid() == 0 || ::access(machines_socket, F_OK) == 0) return machines_socket;
  if (const char* own = secure_env("XDG_RUNTIME_DIR"); own != nullptr && *own == '/')
    return std::string(own) + "/parley-xrcd.sock";
  return fmt::format("/tmp/parley-xrcd-{}.sock", ::geteuid());
}

ssize_t send_message(int socket, ConstBytes octets, int file, int flags) {
  if (file < 0) return ::send(socket, octets.data(), octets.size(), flags);
  return send_with_files(socket, octets, {&file, 1}, flags);
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
  // The name, in parentheses, may contain anything; 20 fields are between it and the start time.
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

// ---- the file next to the socket ---------------------------------------------------------------------------------

Result<BrokerLock> BrokerLock::acquire(const std::string& socket) {
  const std::string path = socket + ".lock";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  struct stat s {};
  if (fd < 0) {
    const int error = errno;
    if (error == ENOSPC || error == EDQUOT || error == EROFS) return refused(Refusal::lock_unwritable);
    if (::lstat(path.c_str(), &s) == 0) return refused(Refusal::lock_foreign);
    return tl::unexpected(Error(std::error_code(error, std::generic_category())));
  }
  BrokerLock tenure(fd, State{});
  // A process that can read the file has the key, and one that can write it controls the epoch.
  const bool own = ::fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == ::geteuid() &&
                   (s.st_mode & (S_IRWXG | S_IRWXO)) == 0 && s.st_nlink == 1;
  if (!own) return refused(Refusal::lock_foreign);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) return refused(Refusal::busy);
  const auto state = read(fd);
  if (!state) return tl::unexpected(state.error());
  // If a file was lost, the time gives a new epoch.
  const auto seconds = static_cast<std::uint32_t>(std::max<std::time_t>(std::time(nullptr), 1));
  tenure.state_ = *state;
  tenure.state_.epoch = std::max(state->epoch + 1, seconds);
  // If the epoch were not stored, the next broker would assign the same names again.
  if (!tenure.write(state->qpn_next)) return refused(Refusal::lock_unwritable);
  return tenure;
}

/// The state that the previous broker left. A file of an older Parley has no key: names declared from its broker are
/// refused.
Result<BrokerLock::State> BrokerLock::read(int fd) {
  std::string text(128, '\0');
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  State out;
  const int fields =
      n > 0 ? std::sscanf(text.c_str(), "%u %u %" SCNx64 " %" SCNx64, &out.epoch, &out.qpn_next, &out.key.a, &out.key.b)
            : 0;
  if (n < 0 || (n > 0 && fields != 2 && fields != 4)) return refused(Refusal::lock_foreign);
  if (fields != 4 && ::getrandom(&out.key, sizeof(out.key), 0) != sizeof(out.key))
    return tl::unexpected(system_error());
  return out;
}

BrokerLock::BrokerLock(BrokerLock&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), state_(other.state_), reserved_(other.reserved_) {}

BrokerLock::~BrokerLock() {
  if (fd_ >= 0) ::close(fd_);
}

void BrokerLock::keep(std::uint32_t next, std::uint32_t first, std::uint32_t last) {
  const std::uint32_t count = last - first + 1;
  const auto distance = [&](std::uint32_t to) { return (to + count - next) % count; };
  // If there are few numbers, none can be skipped.
  const bool few = count <= 4 * ahead;
  if (reserved_ && (few ? *reserved_ == next : distance(*reserved_) > ahead)) return;
  const std::uint32_t wanted = few ? next : first + (next - first + 2 * ahead) % count;
  if (write(wanted)) reserved_ = wanted;
}

/// Overwritten in one piece: a full file system does not matter once the file has its block.
bool BrokerLock::write(std::uint32_t qpn) const {
  const std::string text = fmt::format("{:10} {:10} {:016x} {:016x}\n", state_.epoch, qpn, state_.key.a, state_.key.b);
  return ::pwrite(fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

}  // namespace parley::xrc
