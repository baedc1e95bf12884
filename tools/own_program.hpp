// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#pragma once
#include <filesystem>
#include <system_error>

namespace parley::tools {

/// Where this program lies. Empty: the system does not say.
inline std::filesystem::path own_program() {
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/self/exe", unknown);
}

}  // namespace parley::tools
