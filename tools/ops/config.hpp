// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Settings of a file and of the environment (ops/config) become defaults of a command's options: what the command line
// gives takes precedence over them, and --help shows them.
#pragma once
#include <string>

#include "ops/config/settings.hpp"
#include "tools/cli.hpp"
#include "tools/options.hpp"

namespace parley::tools {

inline constexpr std::string_view default_config_file = "/etc/rdma/parley.toml";

/// For the last line of a command's table: --config, and each setting that names the command.
void add_settings(Command sub, Context& context);
/// The FILE of --config, wherever it stands: it has to be known before other options are looked at.
std::string config_file_named(int argc, const char* const* argv);

/// What file and environment give. Errors: environment (a file that was named cannot be read).
Or<ops::GivenSettings> load_settings(const std::string& named_file);

}  // namespace parley::tools
