// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Maps numbers of a RoCE recording to those of the live connection: communication, transaction and request IDs, QPNs,
// PSNs, GUIDs, addresses, R_Keys. The played side's own numbers are random, since a peer remembers those of an ended
// connection. The other side's are those that the live peer sends.
#pragma once
#include <array>
#include <cstdint>
#include <map>

#include "base/rng.hpp"
#include "replay/roce/roce_recording.hpp"

namespace parley::replay {

/// Bits of a PSN and of a queue pair number.
inline constexpr std::uint32_t mask24 = 0xFFFFFF;

class RoceMap {
 public:
  RoceMap(const RoceRecording& recording, capture::Side played, std::uint64_t seed);

  /// Addresses of the live connection. `port`: of the service, if the played side is the initiator; 0: as recorded.
  void set_addresses(const Address& own, const Address& peer, std::uint16_t port);
  /// Learns numbers from packet `index` of the other side and the live packet that matched it.
  void learn(const RoceStep& recorded, std::size_t index, const RoceStep& live);
  /// Translates a packet of the played side for the live connection: from the BTH to the pad.
  Bytes translate(const RoceStep& recorded);
  /// Octets of packet `index` of the other side that name its memory.
  std::vector<Field> masks(std::size_t index) const;

  /// Whether the packet's QPN, or the message's communication or request ID, is one of the played side.
  bool is_mine(const wire::ib::Bth& bth) const;
  bool is_mine(const wire::ib::CmMessage& message) const;
  /// PSN of a request of the played side.
  std::uint32_t request_psn(std::uint32_t recorded) const { return (recorded + psn_shift_) & 0xFFFFFF; }
  std::uint32_t recorded_psn(std::uint32_t live) const { return (live - psn_shift_) & 0xFFFFFF; }

  void set_live_r_key(std::uint32_t recorded, std::uint32_t live) { memory_.learn_stag(recorded, live); }
  void set_live_va(std::uint32_t r_key, std::uint64_t recorded, std::uint64_t live) {
    memory_.learn_to(r_key, recorded, live);
  }

 private:
  struct Numbers {
    std::map<std::uint32_t, std::uint32_t> ids, queue_pairs;  // recorded to live; as many as the recording has
  };
  void draw_own(const RoceRecording& recording);
  wire::ib::CmMessage message(const RoceStep& recorded);
  std::uint32_t id(std::uint32_t recorded) const;
  std::uint32_t queue_pair(std::size_t whose, std::uint32_t recorded) const;
  void set_path(wire::ib::CmPath& path) const;
  template <class M>
  void set_service(M& m) const;

  capture::Side played_;
  Rng rng_;
  RoceNames names_;
  NameMap memory_;
  std::array<Numbers, 2> numbers_;  // by side
  std::map<std::uint64_t, std::uint64_t> transactions_;
  std::uint64_t own_guid_ = 0, recorded_guid_ = 0;
  std::uint32_t recorded_psn_ = 0, psn_shift_ = 0, q_key_ = 0, gsi_psn_ = 0;
  bool knows_q_key_ = false;
  Gid recorded_own_{}, recorded_peer_{};
  Address own_{}, peer_{};
  std::uint16_t port_ = 0;
};

}  // namespace parley::replay
