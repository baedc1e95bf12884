// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Plug-ins of staged QP negotiation in files: shared objects (parley/plugin.h) and, if the Python bridge is installed,
// Python modules (docs/negotiation.md). A plug-in runs with this process's rights, and inside it unless it is isolated:
// load only plug-ins that you trust.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "parley/neg.hpp"

namespace parley::neg {

/// Errors: plugin_refused. The file cannot be loaded, does not export parley_plugin_v1, has another version of it, or lacks a
/// function or a text; a *.py file has no `plugin` or raises, or the bridge is missing. Framework::add() checks the rest.
Outcome<std::unique_ptr<Plugin>> load_plugin(const std::string& path);
/// Like load_plugin(), but each session runs in a process of its own that loads the file, so that sessions share nothing. A
/// session whose call does not return within `call_limit` (for loading at least 10 s), or that crashes, ends with
/// vendor_library_error; other work of the caller's loop is blocked for that long at most. The processes are forked: in a
/// program with threads, the plug-in's code runs in such a forked child. Errors: those of load_plugin(), configuration_error
/// (no limit), resource_exhaustion (no process).
Outcome<std::unique_ptr<Plugin>> load_isolated_plugin(const std::string& path, Duration call_limit);
/// The files of a folder whose names end in ".so" or ".py", sorted by name. Errors: plugin_refused.
Outcome<std::vector<std::string>> plugins_in(const std::string& folder);

}  // namespace parley::neg
