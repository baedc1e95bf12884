// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Query for the XRC shared receive queue of a process, in band: private data of a SIDR_REQ and of its answer (IBA §12.11). The
// connection manager's own messages have no field for the number.
//
//   octet 0: "XSRQ"   4: version, 1   5: 1 request, 2 answer   6: 0, 2 octets   8: which process, or the number; 4 octets
#pragma once
#include <cstdint>
#include <optional>

#include "parley/bytes.hpp"

namespace parley::xrc {

/// "Which queue does process `which` have?" The program defines the meaning of the number, usually a rank.
Bytes srqn_question(std::uint32_t which);
Bytes srqn_answer(std::uint32_t srqn);
/// None: other data. Octets after it are ignored.
std::optional<std::uint32_t> parse_srqn_question(ConstBytes private_data);
std::optional<std::uint32_t> parse_srqn_answer(ConstBytes private_data);

}  // namespace parley::xrc
