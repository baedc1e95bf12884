// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Answers the kernel's questions to a local service (netlink.hpp) from a PathMap and addresses: a datagram in, one out.
#pragma once
#include "ssa/acm/netlink.hpp"
#include "ssa/acm/server.hpp"

namespace parley::ssa::acm {

/// The answers to the requests in a datagram, one after the other; each has at most 92 octets. `port_id`: that of the socket.
///
///   resolve     the path from SGID (none: the first local port) to DGID, with the P_Key; only one with a way back unless the use
///               is unidirectional. ServiceID, TClass and QoS class do not matter
///   ip_resolve  the GID that the addresses have
///   else        a refusal; so has a request that is malformed, and one without a path or a GID
///
/// Answers of other services, which the group gets too, and messages of other clients have no answer. Errors: those of
/// parse_netlink_header(), for the first message that has no length; the answers to earlier ones are in `out`.
Result<void> answer_kernel(ConstBytes datagram, const Data& data, std::uint32_t port_id, Bytes& out);

}  // namespace parley::ssa::acm
