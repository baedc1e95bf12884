/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <epan/prefs.h>

#include "parley.h"

int proto_parley = -1;

struct pref_module* parley_module(void) {
  module_t* module = prefs_find_module(proto_get_protocol_filter_name(proto_parley));
  return module != NULL ? module : prefs_register_protocol(proto_parley, NULL);
}
