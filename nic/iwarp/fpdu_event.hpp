// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#pragma once
#include "base/trace.hpp"
#include "wire/rdmap.hpp"

namespace parley::nic::iwarp {

/// `octets`: those after the header.
inline trace::Fpdu fpdu_event(bool sent, const wire::DdpHeader& header, std::size_t octets) {
  return {.sent = sent,
          .opcode = to_string(header.opcode),
          .tagged = header.tagged,
          .last = header.last,
          .stag = header.stag,
          .to = header.to,
          .queue = header.qn,
          .msn = header.msn,
          .mo = header.mo,
          .octets = octets};
}

}  // namespace parley::nic::iwarp
