// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Why a ULP rejected a connection, in words, from the private data of its REJ (reason 28).
#pragma once
#include <cstdint>
#include <string>

#include "parley/bytes.hpp"

namespace parley::capture {

/// "NVMe: status 6, no resources"; empty if the ULP is not known or gives no reason. RTRS is recognised by its magic
/// number; NVMe over Fabrics, SMB Direct, iSER and NFS (RPC over RDMA) by the TCP port of `service_id`.
std::string ulp_reject_text(std::uint64_t service_id, ConstBytes private_data);

}  // namespace parley::capture
