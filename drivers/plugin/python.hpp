// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the bridge to Python exports. It is a shared object of its own (drivers/python), loaded with the first Python plug-in,
// so that nothing else needs Python. It must be of the same build of Parley: C++ types pass between them.
#pragma once
#include <memory>
#include <string>

#include "parley/neg.hpp"

/// Of the build: Parley and the compiler.
#define PARLEY_PYTHON_BRIDGE_VERSION PARLEY_VERSION ", " __VERSION__

extern "C" {
/// PARLEY_PYTHON_BRIDGE_VERSION, as the bridge was built.
using ParleyPythonVersion = const char*();
/// Loads a module. Never throws.
using ParleyPythonLoad = void(const std::string& path, parley::neg::Outcome<std::unique_ptr<parley::neg::Plugin>>& out);
}

namespace parley::neg {

inline constexpr char python_version_symbol[] = "parley_python_version";
inline constexpr char python_load_symbol[] = "parley_python_load";

/// A module of Python. Errors: plugin_refused.
Outcome<std::unique_ptr<Plugin>> load_python_plugin(const std::string& path);

}  // namespace parley::neg
