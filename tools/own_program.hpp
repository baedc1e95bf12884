// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#pragma once
#include <filesystem>
#include <string>
#include <system_error>

namespace parley::tools {

/// Where this program lies. Empty: the system does not say.
inline std::filesystem::path own_program() {
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/self/exe", unknown);
}

/// A library that programs are preloaded with: in lib/parley beside this program's folder, built or installed, or beside the program.
/// Empty: it is not there.
inline std::string own_library(const char* name) {
  const std::filesystem::path own = own_program().parent_path();
  for (const auto& path : {own.parent_path() / "lib" / "parley" / name, own / name}) {
    std::error_code none;
    if (std::filesystem::is_regular_file(path, none)) return path.string();
  }
  return {};
}

}  // namespace parley::tools
