// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Files that programs look for in /sys and /dev before they call libibverbs: those of the one device, in a folder of
// this process.
#pragma once
#include <string>
#include <string_view>

namespace parley::preload {

/// Whether `path` is one of these files. Safe in a signal handler and in a forked child.
bool is_view(std::string_view path);
/// The path to use instead, which may be stored in `kept`. Returns `path` itself if it has no view, if the process has
/// elevated rights, or if the folder could not be made.
const char* viewed(const char* path, std::string& kept);

}  // namespace parley::preload
