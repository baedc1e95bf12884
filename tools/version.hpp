// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The name and version that this program writes into captures and pages.
#pragma once
#include <string>

namespace parley::tools {

/// "parley 0.1.0 (commit 1a2b3c4d5e6f)": version and source. The commit ends in "-dirty" if the tree had changes, and
/// is "unknown" outside a repository.
std::string application_text();
/// "1a2b3c4d5e6f", "unknown".
std::string commit_text();

}  // namespace parley::tools
