// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#pragma once
#include <string>

#include "tools/options.hpp"

namespace parley::tools {

/// The octets of a file, a FIFO or a device, until its end. Errors, each with the path: the system's; more than `octets_max`, of
/// which not many more are read.
Or<std::string> read_whole(const std::string& path, std::size_t octets_max);

}  // namespace parley::tools
