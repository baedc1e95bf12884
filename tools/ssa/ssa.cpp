// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley ssa` and its subcommands.
#include "tools/ssa/ssa.hpp"

namespace parley::tools {

void register_ssa(Command app, Context& context) {
  Command ssa = app.subcommand("ssa", "Scalable subnet administration: paths from a subnet's tables");
  ssa.requires_subcommand();
  register_ssa_paths(ssa, context);
  register_ssa_acm(ssa, context);
}

}  // namespace parley::tools
