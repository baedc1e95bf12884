// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The conventions of the `parley` command: one file per subcommand, one set of exit codes, one way to print.
//
// A subcommand is a function `void register_<name>(Command app, Context& context)` that adds itself to the table of
// tools/cli.hpp. No command runs during parsing. Afterwards run_command_line calls the function that was given to run()
// and returns its result as the exit code of the process. The options live in a shared_ptr that this function holds:
//
//   void register_hello(Command app, Context& context) {
//     auto options = std::make_shared<HelloOptions>();
//     Command sub = app.subcommand("hello", "Greets");
//     sub.option("--to", options->to, "Whom to greet").type("NAME");
//     add_json_flag(sub, context);
//     sub.footer("Examples:\n  parley hello --to world");
//     sub.run([options, &context] { return run_hello(*options, context); });
//   }
//
// A new subcommand is one declaration at the end of this file and one line in the list in command.cpp.
#pragma once
#include <memory>

#include "tools/cli.hpp"
#include "tools/output.hpp"

namespace parley::tools {

/// --json, with the same help text in every command.
void add_json_flag(Command sub, Context& context);

/// --color auto|always|never, for commands that print verdicts.
void add_color_option(Command sub, Context& context);
/// --width: by default the width of the terminal, within the limits of the drawings, or 100 without a terminal.
void add_width_option(Command sub, std::size_t& width, const Context& context, const std::string& help);

void register_listen(Command app, Context& context);
void register_connect(Command app, Context& context);
void register_rping(Command app, Context& context);
void register_udping(Command app, Context& context);
void register_cmtime(Command app, Context& context);
void register_demo(Command app, Context& context);
void register_pcap(Command app, Context& context);
void register_replay(Command app, Context& context);
void register_sim(Command app, Context& context);
void register_conform(Command app, Context& context);
void register_quirks(Command app, Context& context);
void register_neg(Command app, Context& context);
void register_mad(Command app, Context& context);
void register_fabric(Command app, Context& context);
void register_ssa(Command app, Context& context);
void register_xrc(Command app, Context& context);
void register_xrcd(Command app, Context& context);
void register_run(Command app, Context& context);
void register_verbs(Command app, Context& context);
void register_doctor(Command app, Context& context);
void register_config(Command app, Context& context);
void register_help(Command app, Context& context);
void register_completion(Command app, Context& context);
void register_extcap(Command app, Context& context);

}  // namespace parley::tools
