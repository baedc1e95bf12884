// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Static trace points for perf, bpftrace and SystemTap (the notes of <sys/sdt.h>). They are made from trace events,
// because the code that creates these events is pure. A build without <sys/sdt.h> has none. docs/operations.md lists
// them, and tests/script/probes_test.py compares the program with that list.
#pragma once
#include <memory>

#include "parley/trace.hpp"

namespace parley::tools {

/// A sink that triggers them; null if this build has none.
std::unique_ptr<trace::Sink> make_probes();

}  // namespace parley::tools
