// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Settings from a file and the environment (ops/config) become defaults of a command's options. The command line takes
// precedence over them, and --help shows them.
#pragma once
#include <string>

#include "ops/config/settings.hpp"
#include "tools/cli.hpp"
#include "tools/options.hpp"

namespace parley::tools {

inline constexpr std::string_view default_config_file = "/etc/rdma/parley.toml";

/// Adds --config and the settings of this command. Call it after all options of the command were added.
void add_settings(Command sub, Context& context);
/// The FILE of --config at any position of the command line. It must be known before other options are parsed.
std::string config_file_named(int argc, const char* const* argv);

/// The settings from the file and the environment. Errors: environment (the named file cannot be read).
Or<ops::GivenSettings> load_settings(const std::string& named_file);

}  // namespace parley::tools
