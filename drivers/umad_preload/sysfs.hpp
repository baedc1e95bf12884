// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a program finds below /sys/class/infiniband and /sys/class/infiniband_mad: files of our own, in a folder that goes with it.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "drivers/ibsim/client.hpp"

namespace parley::umad {

class Sysfs {
 public:
  /// Asks the server what the port is. Null: it does not say, or no folder can be made.
  static std::unique_ptr<Sysfs> create(const ibsim::Client& client);
  ~Sysfs();
  Sysfs(const Sysfs&) = delete;
  Sysfs& operator=(const Sysfs&) = delete;

  /// Where a path is to be looked up instead; nothing if it is none of these.
  std::optional<std::string> place_of(std::string_view path) const;
  static bool is_ours(std::string_view path);
  /// LID, state and what else subnet managers change.
  void refresh(const ibsim::Client& client) const;

 private:
  Sysfs(std::string folder, int lock) : folder_(std::move(folder)), lock_(lock) {}
  bool fill(const ibsim::Client& client);
  void put(const std::string& path, const std::string& text) const;

  std::string folder_, port_;
  int lock_;  // a descriptor; the lock ends with the process, also if that is killed
};

}  // namespace parley::umad
