// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Assigns RoCE packets to connections, for rules and drawings that select one connection: CM messages by their
// communication IDs (IBA vol. 1 §12.6), other packets by the queue pairs in its REQ and REP. This needs the frames of
// both directions, because a packet names only the destination queue pair.
//
// Limits: A connection begins with its REQ. Packets of a connection whose REQ or REP has not passed here belong to
// none, and neither do datagrams and SIDR. A reused queue pair or ID belongs to the newer connection.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "parley/address.hpp"
#include "parley/bytes.hpp"
#include "sim/fault/message_kind_frame.hpp"

namespace parley::sim {

class RoceConnections {
 public:
  static constexpr std::size_t connections_max = 65536;  ///< the oldest is forgotten

  struct Ends {
    Address initiator, responder;  ///< with the ports of the RDMA IP CM service (IBA Annex A11); 0: the REQ has none
    std::uint32_t initiator_id = 0, responder_id = 0;    ///< communication IDs; 0: not known yet
    std::uint32_t initiator_qpn = 0, responder_qpn = 0;  ///< 0: not known yet
    /// "communication IDs 0x00000001, 0x00000002, queue pairs 0x000011, 0x000012"; only the known ones.
    std::string text() const;
  };

  RoceConnections();
  ~RoceConnections();
  /// The frame's connection, numbered from 1 in the order of REQs; 0: none. `layout` is of this frame. `learn`: a
  /// receiver may accept the frame.
  std::uint32_t look(ConstBytes frame, const FrameLayout& layout, bool learn = true);
  /// Null once it is forgotten.
  const Ends* ends(std::uint32_t connection) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace parley::sim
