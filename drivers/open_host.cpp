// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "parley/rdma_host.hpp"
#include "parley/roce_host.hpp"
#include "parley/tcp_host.hpp"

namespace parley {

Result<std::unique_ptr<Host>> open_host(std::string_view provider, const cm::ManagerOptions& options) {
  if (provider == "iwarp") {
    TcpHostOptions tcp;
    tcp.manager = options;
    return TcpHost::open(tcp);
  }
  if (provider == "rdmacm") {
    RdmaHostOptions rdma;
    rdma.manager = options;
    return RdmaHost::open(rdma);
  }
  if (provider == "roce") {
    RoceHostOptions roce;
    roce.manager = options;
    return RoceHost::open(roce);
  }
  return fail(Errc::invalid_argument, "there is no such provider; there are iwarp, roce and rdmacm");
}

}  // namespace parley
