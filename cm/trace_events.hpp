// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Trace records that all providers share (parley/trace.hpp): a connection's events, and the messages of the kernel's connection
// manager below a NIC, as implied by its events. These functions change no state.
#pragma once
#include <string_view>

#include "base/trace.hpp"
#include "cm/pending.hpp"
#include "parley/cm.hpp"

namespace parley::cm {

/// The limit that is reached, as in the trace: "pending_max".
std::string_view limit_word(ReachedLimit scarce);

/// An event for the user. `device`: the NIC's name, for a connection on a NIC.
void trace_event(const trace::Scope& scope, const Event& event, std::string_view device = {});

/// An event of librdmacm or a successful call, and the side on which it occurred.
struct RdmaCmStep {
  std::string_view by;  ///< "CONNECT_REQUEST", "rdma_connect"
  bool initiator = false;
  bool iwarp = false;
  bool datagrams = false;  ///< for a UD service
  bool answer = false;     ///< DISCONNECTED, rdma_disconnect: the other side had already disconnected
  int status = 0;
};
/// Records the messages that it implies. An event that may mean several messages, or none, records none.
void trace_kernel_messages(const trace::Scope& scope, const RdmaCmStep& told);

/// Name of a REJ reason by its number (IBA 1.x §12.6.7.2): "consumer_reject"; otherwise "other".
std::string_view reject_word(int reason);

}  // namespace parley::cm
