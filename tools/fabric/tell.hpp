// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Commands to a subnet that another process serves.
#pragma once
#include <string>

#include "tools/output.hpp"

namespace parley::tools {

/// Sends `text` to the server `name` and prints its answer. Returns the exit code.
int tell_fabric(const std::string& name, const std::string& text, Output& out);

}  // namespace parley::tools
