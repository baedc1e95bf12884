// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#pragma once
#include <unistd.h>

#include <cstdint>

namespace parley::xrc {

/// A word that reads 0 in a forked child; cheaper than a system call.
class OwnProcess {
 public:
  OwnProcess();
  ~OwnProcess();
  OwnProcess(const OwnProcess&) = delete;
  OwnProcess& operator=(const OwnProcess&) = delete;
  bool is_own() const { return page_ != nullptr ? *page_ == 1 : ::getpid() == pid_; }
  /// In a forked child: throws std::system_error with Errc::wrong_state and the name of the `call`.
  void require(const char* call) const {
    if (!is_own()) [[unlikely]]
      refuse(call);
  }

 private:
  [[noreturn]] static void refuse(const char* call);
  std::uint32_t* page_ = nullptr;  // null: the system has no such pages, and is asked each time
  int pid_;
};

}  // namespace parley::xrc
