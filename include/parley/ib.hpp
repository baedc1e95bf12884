// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What only connections through the InfiniBand CM have (IBA 1.x §12, Annex A17 for RoCEv2). No provider of this version
// speaks it: each refuses these options with Errc::unsupported.
#pragma once
#include <cstdint>

namespace parley::ib {

/// How this side sets up connections; the fields of rdma_conn_param that iWARP lacks.
struct Options {
  std::uint8_t retry_count = 7;      ///< retransmissions after a transport error, 0..7
  std::uint8_t rnr_retry_count = 7;  ///< attempts after receiver-not-ready, 0..7; 7 never gives up
};

}  // namespace parley::ib
