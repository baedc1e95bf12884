// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Commands to a subnet that another process serves.
#pragma once
#include <string>

#include "tools/output.hpp"

namespace parley::tools {

/// Says `text` to who serves as `name`, and prints the answer. The exit code.
int tell_fabric(const std::string& name, const std::string& text, Output& out);

}  // namespace parley::tools
