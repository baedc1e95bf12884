// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the bridge to Python exports. It is a shared object of its own (drivers/python), loaded with the first Python plug-in,
// so that nothing else needs Python. It must be of the same build of Parley: C++ types pass between them.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "parley/neg.hpp"

extern "C" {
/// python_bridge_version(), as the bridge was built.
using ParleyPythonVersion = const char*();
/// Loads a module. Never throws.
using ParleyPythonLoad = void(const std::string& path, parley::neg::Outcome<std::unique_ptr<parley::neg::Plugin>>& out);
}

namespace parley::neg {

inline constexpr char python_version_symbol[] = "parley_python_version";
inline constexpr char python_load_symbol[] = "parley_python_load";

/// Parley, the compiler, and the sizes of what crosses the bridge: objects of C++ do, so both sides must have them alike.
inline std::string python_bridge_version(std::string parley) {
  std::string out = std::move(parley) + ", " __VERSION__ ", sizes";
  for (const std::size_t size : {sizeof(Failure), sizeof(Turn), sizeof(Parameter), sizeof(VariantInfo), sizeof(QpPair),
                                 sizeof(Outcome<std::unique_ptr<Plugin>>)})
    out.append(" ").append(std::to_string(size));
  return out;
}

/// A module of Python. Errors: plugin_refused.
Outcome<std::unique_ptr<Plugin>> load_python_plugin(const std::string& path);

}  // namespace parley::neg
