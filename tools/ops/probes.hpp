// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Static trace points for perf, bpftrace and SystemTap (the notes of <sys/sdt.h>): made from trace events, since the rooms
// where those arise are pure. Without <sys/sdt.h> at build time there are none. docs/operations.md has the list, and
// tests/script/probes_test.py holds the program against it.
#pragma once
#include <memory>

#include "parley/trace.hpp"

namespace parley::tools {

/// A sink that reaches them; null if this build has none.
std::unique_ptr<trace::Sink> make_probes();

}  // namespace parley::tools
