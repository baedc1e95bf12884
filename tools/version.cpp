// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/version.hpp"

#include "tools/commit.hpp"

namespace parley::tools {

std::string commit_text() { return PARLEY_COMMIT; }
std::string application_text() { return "parley " PARLEY_VERSION " (commit " PARLEY_COMMIT ")"; }

}  // namespace parley::tools
