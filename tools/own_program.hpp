// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#pragma once
#include <filesystem>
#include <string>
#include <system_error>

namespace parley::tools {

/// The path of this program; empty if the system does not report it.
inline std::filesystem::path own_program() {
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/self/exe", unknown);
}

/// A library for LD_PRELOAD: in ../lib/parley relative to this program's folder (build and installation), or in the
/// program's folder. Empty if it is in neither.
inline std::string own_library(const char* name) {
  const std::filesystem::path own = own_program().parent_path();
  for (const auto& path : {own.parent_path() / "lib" / "parley" / name, own / name}) {
    std::error_code none;
    if (std::filesystem::is_regular_file(path, none)) return path.string();
  }
  return {};
}

}  // namespace parley::tools
