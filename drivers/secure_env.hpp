// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The environment, as far as a library may trust it. A program that has more rights than its user (AT_SECURE: setuid,
// setgid or file capabilities) uses no file, socket, program or plug-in from that user's variables.
#pragma once
#include <sys/auxv.h>

#include <cstdlib>

namespace parley {

/// As getenv(3); null in a program that has more rights than its user.
inline const char* secure_env(const char* name) { return ::secure_getenv(name); }

/// Whether this program has more rights than its user.
inline bool has_more_rights() { return ::getauxval(AT_SECURE) != 0; }

}  // namespace parley
