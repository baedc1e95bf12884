// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The files that a program finds below /sys/class/infiniband and /sys/class/infiniband_mad: in a private folder that is
// removed with this object.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "drivers/ibsim/client.hpp"

namespace parley::umad {

class Sysfs {
 public:
  /// Queries the port from the server. Null: no answer, or the folder cannot be created.
  static std::unique_ptr<Sysfs> create(const ibsim::Client& client);
  ~Sysfs();
  Sysfs(const Sysfs&) = delete;
  Sysfs& operator=(const Sysfs&) = delete;

  /// The path to use instead; none if the path is not one of these.
  std::optional<std::string> place_of(std::string_view path) const;
  static bool is_ours(std::string_view path);
  /// LID, state and other values that subnet managers change.
  void refresh(const ibsim::Client& client) const;

 private:
  Sysfs(std::string folder, int lock) : folder_(std::move(folder)), lock_(lock) {}
  bool fill(const ibsim::Client& client);
  void put(const std::string& path, const std::string& text) const;

  std::string folder_, port_;
  int lock_;  // a descriptor; the lock ends with the process, even if it is killed
};

}  // namespace parley::umad
