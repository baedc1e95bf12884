// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Moves a UD queue pair of any device through the states until it can be used (IBA §10.3.1, §11.2.5.2).
#pragma once
#include "parley/verbs.hpp"

namespace parley::nic {

/// From RESET to RTS, with the P_Key at index 0. Errors: those of QueuePair::modify().
inline Result<void> move_to_rts(QueuePair& ud, std::uint32_t q_key, std::uint8_t port = 1) {
  for (const QpAttr& step : {QpAttr{.state = QpState::init, .pkey_index = 0, .port_num = port, .qkey = q_key},
                             QpAttr{.state = QpState::rtr}, QpAttr{.state = QpState::rts, .sq_psn = 0}})
    if (auto moved = ud.modify(step); !moved) return moved;
  return {};
}

}  // namespace parley::nic
