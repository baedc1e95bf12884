// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The lower interface for management datagrams. Protocol code sends and receives Packets; a transport (ibsim's socket,
// umad, a UD queue pair, the simulator, memory) owns the port and carries them. An Address is that of the other side,
// in both directions.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/gid.hpp"
#include "parley/bytes.hpp"
#include "parley/result.hpp"
#include "parley/wire/mad.h"

namespace parley::mad {

/// The members of a GRH that the sender chooses (IBA §8.3).
struct Grh {
  Gid gid{};  ///< the other side's
  std::uint8_t gid_index = 0, traffic_class = 0, hop_limit = 255;
  std::uint32_t flow_label = 0;
  bool operator==(const Grh&) const = default;
};

inline constexpr std::uint32_t general_qkey = 0x80010000;  ///< of QP1 (IBA §10.2.5)

/// The address of a MAD that is sent or was received: members of LRH, GRH, BTH and DETH (IBA §7.7, §8.3, §9.2, §9.3).
struct Address {
  std::uint16_t lid = PARLEY_MAD_PERMISSIVE_LID;
  std::uint16_t source_lid =
      0;  ///< for a port with several, or for a directed route that begins by LID; 0: the port's own
  std::uint8_t sl = 0;
  std::uint16_t pkey = 0xFFFF;
  std::uint32_t qpn = 1;  ///< the other side's; 0 for SMPs
  std::uint32_t qkey = general_qkey;
  std::optional<Grh> grh;
  bool operator==(const Address&) const = default;
};

/// Whether both are addresses of the same port. Compares the GIDs if both have a GRH (RoCE has no LIDs), otherwise the
/// LIDs.
inline bool same_port(const Address& a, const Address& b) {
  return a.grh && b.grh ? a.grh->gid == b.grh->gid : a.lid == b.lid;
}

/// A LID that one port may have (IBA §4.1.3).
constexpr bool is_unicast_lid(std::uint32_t lid) { return lid >= 1 && lid <= 0xBFFF; }

/// One datagram to be sent; if the transport does RMPP, one message.
struct Packet {
  Address to;
  ConstBytes mad;
};

/// The port behind a transport. LID, subnet manager and P_Keys may change while it runs; Transport::poll_changed()
/// reports it.
struct LocalPort {
  std::uint64_t node_guid = 0, port_guid = 0;
  Gid gid{};
  std::uint16_t lid = 0, sm_lid = 0;
  std::uint8_t sm_sl = 0, lmc = 0, port = 1;
  std::uint8_t subnet_timeout = 18;  ///< exponent: 4.096 us * 2^n
  std::vector<std::uint16_t> pkeys{0xFFFF};
  bool operator==(const LocalPort&) const = default;
};

/// Properties of a transport.
struct TransportFacts {
  bool rmpp = false;              ///< does subnet administration's RMPP itself: messages are passed whole
  bool whole_tid = true;          ///< keeps all 64 bits of transaction IDs; otherwise it uses the upper 32 itself
  bool smp = true, gmp = true;    ///< carries MADs of QP0; of the other management QPs
  bool lids = true;               ///< addresses have LIDs; otherwise only GIDs, as for RoCE
  std::size_t window_max = 1024;  ///< outstanding requests that it supports
};

}  // namespace parley::mad
