// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The exports of the bridge to Python. It is a separate shared object (drivers/python), loaded with the first Python
// plug-in, so that only Python plug-ins need Python. It must be from the same build of Parley: C++ types pass between
// them.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "parley/neg.hpp"

extern "C" {
/// python_bridge_version() of the bridge's build.
using ParleyPythonVersion = const char*();
/// Loads a module. Never throws.
using ParleyPythonLoad = void(const std::string& path, parley::neg::Outcome<std::unique_ptr<parley::neg::Plugin>>& out);
}

namespace parley::neg {

inline constexpr char python_version_symbol[] = "parley_python_version";
inline constexpr char python_load_symbol[] = "parley_python_load";

/// Parley, the compiler, and the sizes of the types that cross the bridge: C++ objects do, so both sides must have the
/// same layout.
inline std::string python_bridge_version(std::string parley) {
  std::string out = std::move(parley) + ", " __VERSION__ ", sizes";
  for (const std::size_t size : {sizeof(Failure), sizeof(Turn), sizeof(Parameter), sizeof(VariantInfo), sizeof(QpPair),
                                 sizeof(Outcome<std::unique_ptr<Plugin>>)})
    out.append(" ").append(std::to_string(size));
  return out;
}

/// A Python module. Errors: plugin_refused.
Outcome<std::unique_ptr<Plugin>> load_python_plugin(const std::string& path);

}  // namespace parley::neg
