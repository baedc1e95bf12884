// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The fields of startup frames (RFC 5044 §7.1.1, RFC 6581 §6) and of FPDUs with the DDP segments in them (RFC 5041 §4,
// RFC 5040 §4) as names and values, for the ladder.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "capture/read/fpdu/fpdu_walker.hpp"
#include "capture/report.hpp"
#include "wire/rdmap.hpp"

namespace parley::capture {

void startup_fields(const StartupSeen& frame, Fields& out);
/// `header` must be the DDP header of `fpdu`.
void fpdu_fields(const WalkedFpdu& fpdu, const wire::DdpHeader& header, Fields& out);

}  // namespace parley::capture
