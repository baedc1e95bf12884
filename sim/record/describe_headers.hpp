// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The headers of one frame, for sim/describe: Ethernet, IPv4, IPv6, and their payloads, by the layers of
// sim/fault/layer.hpp. Total: accepts any octets; octets that are not understood are counted.
#pragma once
#include <optional>
#include <string>

#include "parley/sim.hpp"
#include "sim/record/describe.hpp"
#include "wire/tcp.hpp"

namespace parley::sim {

struct FrameHeaders {
  Layer lowest = Layer::any;               ///< above Ethernet and IP; any: none that can be described
  std::optional<Address> source, target;   ///< no target: broadcast
  std::size_t body_at = 0, body_size = 0;  ///< the payload of Ethernet or IP, within the given octets
  std::string layer = "other", text, detail;
  // RoCE:
  bool roce = false;
  bool request = false;            ///< its PSN belongs to the packet itself, not to the request that it answers
  ConstBytes cm;                   ///< a message of InfiniBand's connection manager, within the given octets
  std::uint32_t qpn = 0, psn = 0;  ///< the destination's QPN
};

/// `frame` may be only the first Describer::head_max octets of one.
FrameHeaders parse_headers(ConstBytes frame);
/// All layers below TCP. `size`: octets of the whole frame.
void describe_headers(ConstBytes head, std::size_t size, const FrameHeaders& headers, Fields& out);
void describe_tcp(const wire::TcpHeader& tcp, std::size_t header_size, const Describer::Seen& seen, Fields& out);

}  // namespace parley::sim
