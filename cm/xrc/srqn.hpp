// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Which XRC shared receive queue a process has, asked in band: private data of a SIDR_REQ and its answer (IBA §12.11). The
// connection manager's own messages have no place for the number.
//
//   octet 0: "XSRQ"   4: version, 1   5: 1 request, 2 answer   6: 0, 2 octets   8: which process, or the number; 4 octets
#pragma once
#include <cstdint>
#include <optional>

#include "parley/bytes.hpp"

namespace parley::xrc {

/// "Which queue has process `which`?" What the number says is the program's: a rank, as a rule.
Bytes srqn_question(std::uint32_t which);
Bytes srqn_answer(std::uint32_t srqn);
/// None: it is something else. What stands behind it is not looked at.
std::optional<std::uint32_t> parse_srqn_question(ConstBytes private_data);
std::optional<std::uint32_t> parse_srqn_answer(ConstBytes private_data);

}  // namespace parley::xrc
