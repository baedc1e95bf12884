// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The fields of startup frames (RFC 5044 §7.1.1, RFC 6581 §6) and of FPDUs with the DDP segments in them (RFC 5041 §4,
// RFC 5040 §4) as names and values for people, as a ladder shows them.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "verdict/fpdu_walker.hpp"
#include "verdict/report.hpp"
#include "wire/rdmap.hpp"

namespace parley::verdict {

void startup_fields(const StartupSeen& frame, Fields& out);
/// `header` is the one of the FPDU's DDP segment.
void fpdu_fields(const WalkedFpdu& fpdu, const wire::DdpHeader& header, Fields& out);

/// "4d 50 41 20 ... (512 octets)"
std::string hex_text(ConstBytes octets, std::size_t max = 32);
/// What can be read of octets, the rest as dots.
std::string readable_text(ConstBytes octets, std::size_t max = 64);

}  // namespace parley::verdict
