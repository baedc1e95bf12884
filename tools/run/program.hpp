// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whether a library can be preloaded into a program: what is known before it starts.
#pragma once
#include <string>
#include <string_view>

namespace parley::tools {

/// Why `program` cannot be run with `library` in LD_PRELOAD, as a sentence for the user; empty: nothing is known
/// against it. `program` is looked up as execvp(3) does. A file that this user may execute but not read is not judged.
std::string why_not_preloaded(const std::string& program, const std::string& library);

inline constexpr std::string_view preload_separators = ": ";  // of LD_PRELOAD (ld.so(8))

/// LD_PRELOAD with `library` at the front of `before`; `before` itself if that already contains the library.
std::string preload_list(const std::string& library, const std::string& before);

}  // namespace parley::tools
