// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The headers of one frame, for sim/describe: Ethernet, IPv4, IPv6, and what they carry, by the layers of
// sim/fault/layer.hpp. Total: takes any octets; what is not understood is counted.
#pragma once
#include <optional>
#include <string>

#include "parley/sim.hpp"
#include "sim/record/describe.hpp"
#include "wire/tcp.hpp"

namespace parley::sim {

struct FrameHeaders {
  Layer lowest = Layer::any;               ///< above Ethernet and IP; any: none that is described
  std::optional<Address> source, target;   ///< no target: for everyone
  std::size_t body_at = 0, body_size = 0;  ///< what Ethernet or IP carries, in the octets given
  std::string layer = "other", text, detail;
  // RoCE:
  bool roce = false;
  bool request = false;            ///< its PSN is its own, and not that of what it answers
  ConstBytes cm;                   ///< a message of InfiniBand's connection manager, in the octets given
  std::uint32_t qpn = 0, psn = 0;  ///< the destination's
};

/// `frame` may be only the first Describer::head_max octets of one.
FrameHeaders take_apart(ConstBytes frame);
/// Everything below TCP. `size`: octets of the whole frame.
void describe_headers(ConstBytes head, std::size_t size, const FrameHeaders& headers, Fields& out);
void describe_tcp(const wire::TcpHeader& tcp, std::size_t header_size, const Describer::Seen& seen, Fields& out);

}  // namespace parley::sim
