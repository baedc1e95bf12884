// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What every provider records alike (parley/trace.hpp): a connection's events, and what the kernel's connection manager
// below a NIC has sent and received as its events imply. Nothing here changes anything.
#pragma once
#include <string_view>

#include "base/trace.hpp"
#include "cm/pending.hpp"
#include "parley/cm.hpp"

namespace parley::cm {

/// What ran out, as the trace has it: "pending_max".
std::string_view limit_word(Scarce scarce);

/// An event that the user gets. `device`: the name of a NIC, if it is one's connection.
void trace_event(const trace::Scope& scope, const Event& event, std::string_view device = {});

/// An event of librdmacm, or a call that succeeded, and whose.
struct KernelTold {
  std::string_view by;  ///< "CONNECT_REQUEST", "rdma_connect"
  bool initiator = false;
  bool iwarp = false;
  bool datagrams = false;  ///< of a service of UD
  bool answer = false;     ///< DISCONNECTED, rdma_disconnect: the other side had disconnected before
  int status = 0;
};
/// The messages that it implies. One that may stand for several, or for none, implies none.
void trace_kernel_messages(const trace::Scope& scope, const KernelTold& told);

/// Of a REJ, by its number (IBA 1.x §12.6.7.2): "consumer_reject"; "other".
std::string_view reject_word(int reason);

}  // namespace parley::cm
