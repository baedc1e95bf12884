// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/conform/conform.hpp"
#include "tools/rping/session.hpp"

namespace parley::tools {

namespace {

/// The shell may end before the processes that it started. These must not disturb the next case.
void end_group(pid_t group) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    if (::kill(-group, signal) != 0) return;
    for (int i = 0; i < 25 && ::kill(-group, 0) == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

Program::~Program() {
  if (pid_ > 0) (void)finish(Duration{0});
  if (output_ >= 0) ::close(output_);
}

std::string Program::start(const std::string& command, std::string_view case_name) {
  if (pid_ > 0) (void)finish(Duration{0});
  // A file stores all output of the program without a concurrent reader. It has no name and disappears with this
  // process.
  if (output_ >= 0) ::close(output_);
  output_ = -1;
  std::error_code none_there;
  const auto directory = std::filesystem::temp_directory_path(none_there);
  if (!none_there) output_ = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (output_ < 0) output_ = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const std::string name(case_name);
  const pid_t pid = ::fork();
  if (pid < 0) return std::string("cannot start a program: ") + std::strerror(errno);
  if (pid == 0) {
    ::setsid();  // a process group, so that its children can be ended with it
    const int none = ::open("/dev/null", O_RDONLY);
    if (none >= 0) ::dup2(none, 0);
    ::dup2(output_, 1);
    ::dup2(output_, 2);
    ::setenv("PARLEY_CASE", name.c_str(), 1);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  pid_ = pid;
  return {};
}

std::string Program::finish(Duration limit) {
  if (pid_ <= 0) return {};
  const auto end = std::chrono::steady_clock::now() + limit;
  int status = 0;
  pid_t gone = 0;
  while ((gone = ::waitpid(pid_, &status, WNOHANG)) == 0 && std::chrono::steady_clock::now() < end &&
         !StopSignals::requested())
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::string how;
  if (gone == 0) {
    how = "[ended by the tester]\n";
    ::kill(-pid_, SIGTERM);
    for (int i = 0; i < 25 && (gone = ::waitpid(pid_, &status, WNOHANG)) == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (gone == 0) {
      ::kill(-pid_, SIGKILL);
      ::waitpid(pid_, &status, 0);
    }
  } else if (WIFEXITED(status)) {
    how = "[exit " + std::to_string(WEXITSTATUS(status)) + "]\n";
  } else if (WIFSIGNALED(status)) {
    how = "[signal " + std::to_string(WTERMSIG(status)) + "]\n";
  }
  end_group(pid_);
  pid_ = 0;
  std::string out(output_max, '\0');
  const ssize_t n = ::pread(output_, out.data(), out.size(), 0);
  out.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  if (!out.empty() && out.back() != '\n') out += '\n';
  return out + how;
}

}  // namespace parley::tools
