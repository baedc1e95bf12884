// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whose a RoCE packet is, for rules and drawings that mean one connection: its messages of the CM by their communication IDs
// (IBA vol. 1 §12.6), its packets by the queue pairs that its REQ and REP name. To tell this the frames of both directions are
// needed, since a packet names only the queue pair that it goes to.
//
// Limits of the view. A connection begins with its REQ: packets of one whose REQ or REP has not passed here belong to none, and
// neither do datagrams and SIDR. A queue pair or an ID that is used again belongs to the newer connection.
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
    Address initiator, responder;  ///< with the ports of the RDMA IP CM service (IBA Annex A11); 0: the REQ says none
    std::uint32_t initiator_id = 0, responder_id = 0;    ///< communication IDs; 0: not known yet
    std::uint32_t initiator_qpn = 0, responder_qpn = 0;  ///< 0: not known yet
    /// "communication IDs 0x00000001, 0x00000002, queue pairs 0x000011, 0x000012"; of each what is known.
    std::string text() const;
  };

  RoceConnections();
  ~RoceConnections();
  /// The frame's connection, by the order of their REQs, from 1; 0: none. `layout` is of this frame. `learn`: a receiver may
  /// believe what is in it.
  std::uint32_t look(ConstBytes frame, const FrameLayout& layout, bool learn = true);
  /// Null once it is forgotten.
  const Ends* ends(std::uint32_t connection) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace parley::sim
