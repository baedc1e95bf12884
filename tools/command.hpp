// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The convention of the `parley` command: one file per subcommand, one exit code, one way to print.
//
// A subcommand is a function `void register_<name>(CLI::App& app, Context& context)` (type Register) that adds its
// CLI11 subcommand and, in the subcommand's callback, sets `context.run`. Nothing happens while options are parsed:
// run_command_line calls context.run afterwards, and what it returns is the exit code of the process. The options live
// in a shared_ptr that the callbacks hold:
//
//   void register_hello(CLI::App& app, Context& context) {
//     auto options = std::make_shared<HelloOptions>();
//     CLI::App* sub = app.add_subcommand("hello", "Greets");
//     sub->add_option("--to", options->to, "Whom to greet");
//     add_json_flag(*sub, context);
//     sub->footer("Examples:\n  parley hello --to world");
//     sub->callback([options, &context] { context.run = [options, &context] { return run_hello(*options, context); };
//     });
//   }
//
// A new subcommand is one declaration at the end of this file and one line in the list in command.cpp.
#pragma once
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tools/output.hpp"

namespace parley::tools {

using Register = void (*)(CLI::App& app, Context& context);

/// --json, worded the same everywhere.
void add_json_flag(CLI::App& sub, Context& context);

/// --color auto|always|never, for commands whose text has verdicts in it.
void add_color_option(CLI::App& sub, Context& context);
/// --width: the terminal's, within what the drawings can do, or 100.
void add_width_option(CLI::App& sub, std::size_t& width, const Context& context, const std::string& help);

void register_listen(CLI::App& app, Context& context);
void register_connect(CLI::App& app, Context& context);
void register_rping(CLI::App& app, Context& context);
void register_demo(CLI::App& app, Context& context);
void register_pcap(CLI::App& app, Context& context);
void register_replay(CLI::App& app, Context& context);
void register_sim(CLI::App& app, Context& context);
void register_conform(CLI::App& app, Context& context);
void register_quirks(CLI::App& app, Context& context);
void register_help(CLI::App& app, Context& context);
void register_completion(CLI::App& app, Context& context);
void register_extcap(CLI::App& app, Context& context);

}  // namespace parley::tools
