// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// fork() of a test that has threads.
#pragma once
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace parley {

/// Whether every thread of this process but the caller's sleeps.
inline bool others_sleep() {
  const std::string own = std::to_string(::gettid());
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    std::ifstream file(task.path() / "stat");
    const std::string stat{std::istreambuf_iterator<char>(file), {}};
    const std::size_t name_end = stat.rfind(')');  // "123 (name) S ..."
    if (task.path().filename() != own && name_end != std::string::npos && stat.compare(name_end, 3, ") S") != 0)
      return false;
  }
  return true;
}

/// AddressSanitizer's allocator does not keep its locks over a fork: one that another thread holds at that moment is held
/// for ever in the child. So this waits, for a second at most, until no other thread is at work.
inline pid_t quiet_fork() {
  for (int i = 0; i < 1000 && !others_sleep(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return ::fork();
}

}  // namespace parley
