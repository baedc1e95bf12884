// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley mad` and its subcommands.
#include "tools/mad/mad.hpp"

namespace parley::tools {

void register_mad(Command app, Context& context) {
  Command mad = app.subcommand("mad", "Decode and send InfiniBand management datagrams; discover and check subnets");
  mad.requires_subcommand();
  register_mad_decode(mad, context);
  register_mad_query(mad, context);
  register_mad_sa(mad, context);
  register_mad_discover(mad, context);
  register_mad_check(mad, context);
  register_mad_top(mad, context);
  register_mad_ping(mad, context);
}

}  // namespace parley::tools
