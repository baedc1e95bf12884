// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Plug-ins of staged QP negotiation in files: shared objects (parley/plugin.h) and, where the bridge to Python is installed,
// modules of Python (docs/negotiation.md). What is loaded runs in this process and with its rights: load only what you trust.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "parley/neg.hpp"

namespace parley::neg {

/// Errors: plugin_refused: the file cannot be loaded, exports no parley_plugin_v1, has another version of it, or lacks a
/// function or a text; a file *.py has no `plugin`, raises, or there is no bridge. Framework::add() holds it to the rest.
Outcome<std::unique_ptr<Plugin>> load_plugin(const std::string& path);
/// The files of that folder whose names end with ".so" or ".py", in the order of their names. Errors: plugin_refused.
Outcome<std::vector<std::string>> plugins_in(const std::string& folder);

}  // namespace parley::neg
