// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/ops/outlet.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <optional>

#include "drivers/private_file.hpp"
#include "drivers/write_all.hpp"

namespace parley::tools {
namespace {

constexpr int links_max = 40;  // the kernel's own limit

std::optional<std::string> real_path(const std::string& path) {
  char* real = ::realpath(path.c_str(), nullptr);
  if (real == nullptr) return std::nullopt;
  std::string out = real;
  std::free(real);
  return out;
}

/// "/proc/18016/fd/1" if the path leads through a link in /proc; empty otherwise.
std::string descriptor_behind(std::string path) {
  for (int i = 0; i < links_max; ++i) {
    const auto slash = path.rfind('/');
    const auto folder = real_path(slash == std::string::npos ? "." : path.substr(0, slash + 1));
    if (!folder) return {};
    struct statfs system {};
    if (::statfs(folder->c_str(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC)
      return *folder + "/" + path.substr(slash == std::string::npos ? 0 : slash + 1);
    std::array<char, PATH_MAX> target{};
    const ssize_t n = ::readlink(path.c_str(), target.data(), target.size());
    if (n <= 0) return {};
    const std::string to(target.data(), static_cast<std::size_t>(n));
    path = to.front() == '/' ? to : *folder + "/" + to;
  }
  return {};
}

}  // namespace

bool names_descriptor(const std::string& path) { return !descriptor_behind(path).empty(); }

int open_outlet(const std::string& path, int flags) {
  const std::string behind = descriptor_behind(path);
  const auto own = behind.empty() ? std::nullopt : real_path("/proc/self/fd");
  // A file that is opened again has its own offset, so that both writers would overwrite each other's output.
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO})
    if (own && behind == *own + "/" + std::to_string(fd)) return ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  return ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags, private_mode);
}

bool write_all(int fd, std::string_view content) {
  const NoSigpipe quiet;
  return parley::write_all(fd, content);
}

NoSigpipe::NoSigpipe() {
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before_);
}

NoSigpipe::~NoSigpipe() {
  const int why = errno;
  sigaction(SIGPIPE, &before_, nullptr);
  errno = why;
}

}  // namespace parley::tools
