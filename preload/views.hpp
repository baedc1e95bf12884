// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What programs look for in /sys and /dev before they ask libibverbs: the files of the one device, in a folder of this process.
#pragma once
#include <string>
#include <string_view>

namespace parley::preload {

/// Whether `path` is one of these; it may be in a signal's handler, or in a child of fork.
bool is_view(std::string_view path);
/// The path to use instead, stored in `kept`; `path` itself if it is none of these, or if there is nothing to see.
const char* viewed(const char* path, std::string& kept);

}  // namespace parley::preload
