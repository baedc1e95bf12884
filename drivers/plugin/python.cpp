// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/plugin/python.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "cm/neg/guarded.hpp"
#include "drivers/secure_env.hpp"

namespace parley::neg {
namespace {

constexpr std::string_view bridge_name = "parley_python.so";

tl::unexpected<Failure> no_bridge(std::string text, std::string advice) {
  return tl::unexpected(
      Failure{.problem = Problem::plugin_refused, .text = std::move(text), .advice = std::move(advice)});
}

/// The path in PARLEY_PYTHON_BRIDGE; next to the program, as built and installed; the installation directory. A program
/// that has more rights than its user may be a link in a folder of that user.
std::vector<std::filesystem::path> places() {
  if (const char* named = secure_env("PARLEY_PYTHON_BRIDGE"); named != nullptr && *named != '\0') return {named};
  std::vector<std::filesystem::path> out;
  std::error_code unknown;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (!unknown && !has_more_rights())
    out.push_back(program.parent_path().parent_path() / "lib" / "parley" / bridge_name);
  out.push_back(std::filesystem::path(PARLEY_LIBRARY_DIR) / "parley" / bridge_name);
  return out;
}

Outcome<ParleyPythonLoad*> find_bridge() {
  for (const std::filesystem::path& place : places()) {
    std::error_code none;
    if (!std::filesystem::is_regular_file(place, none)) continue;
    // Python modules that are shared objects need Python's functions as global symbols. It stays loaded.
    void* const bridge = ::dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (bridge == nullptr) {
      const char* const said = ::dlerror();
      return no_bridge(said == nullptr ? "the bridge to Python cannot be loaded" : said, "is libpython3 there?");
    }
    auto* const version = reinterpret_cast<ParleyPythonVersion*>(::dlsym(bridge, python_version_symbol));
    auto* const load = reinterpret_cast<ParleyPythonLoad*>(::dlsym(bridge, python_load_symbol));
    if (version == nullptr || load == nullptr)
      return no_bridge(fmt::format("{} is not a bridge to Python", place.string()), "unset PARLEY_PYTHON_BRIDGE");
    if (const std::string own = python_bridge_version(PARLEY_VERSION); version() != own)
      return no_bridge(fmt::format("{} is of Parley {}; this is {}", place.string(), version(), own),
                       "install both from one build");
    return load;
  }
  return no_bridge(fmt::format("Python modules need the bridge {}, which is not installed", bridge_name),
                   "build Parley where pybind11 is installed, or set PARLEY_PYTHON_BRIDGE to the file");
}

}  // namespace

Outcome<std::unique_ptr<Plugin>> load_python_plugin(const std::string& path) {
  const auto load = find_bridge();
  if (!load) return tl::unexpected(load.error());
  Outcome<std::unique_ptr<Plugin>> out;
  (*load)(path, out);
  if (!out) make_sound(out.error());
  return out;
}

}  // namespace parley::neg
