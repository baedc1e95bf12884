// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley ssa` and its subcommands.
#include "tools/ssa/ssa.hpp"

#include "drivers/ssa/control.hpp"

namespace parley::tools {

void register_ssa(Command app, Context& context) {
  Command ssa = app.subcommand("ssa", "Scalable subnet administration: paths, and questions to the tree's nodes");
  ssa.requires_subcommand();
  register_ssa_paths(ssa, context);
  register_ssa_acm(ssa, context);
  register_ssa_questions(ssa, context);
}

void add_control_option(Command sub, std::string& path) {
  path = ssa_driver::default_control_socket();
  sub.option("--control", path, "Socket at which the daemon answers questions of its owner and of root")
      .type("PATH")
      .shows_default();
}

}  // namespace parley::tools
