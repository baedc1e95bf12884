// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Plug-ins of staged QP negotiation in files: shared objects (parley/plugin.h) and, where the bridge to Python is installed,
// modules of Python (docs/negotiation.md). What is loaded runs with this process's rights, and in it unless it is isolated: load only what you trust.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "parley/neg.hpp"

namespace parley::neg {

/// Errors: plugin_refused: the file cannot be loaded, exports no parley_plugin_v1, has another version of it, or lacks a
/// function or a text; a file *.py has no `plugin`, raises, or there is no bridge. Framework::add() holds it to the rest.
Outcome<std::unique_ptr<Plugin>> load_plugin(const std::string& path);
/// The same, with each session in a process of its own, which loads the file, so that sessions share nothing. One whose call
/// has not returned after `call_limit` (loading it: 10 s, if that is longer), or that crashes, ends with vendor_library_error;
/// what is driven beside it waits that long at most. The processes are forked: a program with other threads has to know that
/// the plug-in's code runs in such a child. Errors: those of load_plugin(), configuration_error (no limit),
/// resource_exhaustion (no process).
Outcome<std::unique_ptr<Plugin>> load_isolated_plugin(const std::string& path, Duration call_limit);
/// The files of that folder whose names end with ".so" or ".py", in the order of their names. Errors: plugin_refused.
Outcome<std::vector<std::string>> plugins_in(const std::string& folder);

}  // namespace parley::neg
