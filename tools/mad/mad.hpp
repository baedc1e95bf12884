// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The commands of `parley mad`.
#pragma once
#include "tools/command.hpp"

namespace parley::tools {

void register_mad_decode(Command mad, Context& context);
void register_mad_query(Command mad, Context& context);
void register_mad_sa(Command mad, Context& context);
void register_mad_discover(Command mad, Context& context);
void register_mad_check(Command mad, Context& context);
void register_mad_ping(Command mad, Context& context);
void register_mad_top(Command mad, Context& context);

}  // namespace parley::tools
