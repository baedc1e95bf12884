/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The differences between the plugin interfaces of Wireshark 4.0, 4.4 and 4.6. All other files of the plugin are the
 * same for all three. dissectors/versions.txt lists the supported versions. */
#ifndef PARLEY_COMPAT_H
#define PARLEY_COMPAT_H

#include <ws_version.h>

#define PARLEY_WIRESHARK_SINCE(major, minor) \
  (WIRESHARK_VERSION_MAJOR > (major) || (WIRESHARK_VERSION_MAJOR == (major) && WIRESHARK_VERSION_MINOR >= (minor)))

#include <epan/packet.h>

#if PARLEY_WIRESHARK_SINCE(4, 4)
#include <epan/tfs.h>
#include <epan/unit_strings.h>
#include <stdbool.h>
#include <wsutil/plugins.h>

/* The result of a heuristic dissector, and the variable of a boolean preference. */
typedef bool parley_bool;
typedef char parley_char; /* of format_text() */
#define tvb_get_guint8 tvb_get_uint8
#define tvb_get_guint32 tvb_get_uint32
#else
typedef gboolean parley_bool;
typedef guchar parley_char;
#endif

/* The result of a -z listener's init function. */
#if PARLEY_WIRESHARK_SINCE(4, 6)
typedef bool parley_tap_init;
#define PARLEY_TAP_INIT(well) return (well)
#else
typedef void parley_tap_init;
#define PARLEY_TAP_INIT(well) return
#endif

#endif
