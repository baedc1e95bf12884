// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One connection of the InfiniBand CM, or one service ID resolution, from a capture of RoCEv2: packet by packet, in the
// order of the capture. The capture checker (capture/rules/roce) assigns packets to it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "replay/mapping.hpp"
#include "replay/recording.hpp"
#include "wire/ib/cm.hpp"
#include "wire/ib/packet.hpp"

namespace parley::replay {

/// A packet.
struct RoceStep {
  std::uint64_t frame = 0;
  Instant at{};
  capture::Side from{};
  Bytes octets;                           ///< from the BTH to the ICRC; zeros where the capture lacks octets
  std::size_t known = 0;                  ///< length of the head of `octets` that the capture holds
  std::optional<wire::ib::CmMessage> cm;  ///< nullopt: not a message of the CM
  /// A retransmission for another reason than an RNR NAK, or a NAK for a lost packet. Neither played nor waited for.
  bool again = false;

  /// A view of the packet in `octets`.
  wire::ib::Packet packet() const { return *wire::ib::Packet::parse(octets); }
  wire::ib::Operation operation() const { return wire::ib::operation_of(octets.front()); }
  bool is_response() const { return !cm && wire::ib::rule_of(octets.front()).response; }
  bool is_nak() const;  ///< RNR too
  bool is_ack() const { return is_response() && operation() == wire::ib::Operation::acknowledge && !is_nak(); }
};

struct RoceRecording {
  std::size_t connection = 0;   ///< number in the file, from 1
  std::size_t connections = 0;  ///< in the file
  capture::ConnectionReport report;
  std::vector<RoceStep> steps;
  std::vector<std::string> notes, lacks;

  std::size_t count(capture::Side side) const;  ///< of its steps that are played or compared
};

/// Reads connection `number` (from 1), which must use RoCE. `contents` must be those of the file.
RoceRecording read_roce_recording(ConstBytes file, const Contents& contents, std::size_t number);

/// Why `side` cannot be played from the beginning; empty if it can.
std::string why_not_playable(const RoceRecording& recording, capture::Side side);

/// Octets of a packet, or of private data, that name memory of their sender (replay/mapping.hpp).
struct RoceName {
  std::size_t step = 0;
  Field field;  ///< `offset` is in that step's payload, or in the private data of its message
};
struct RoceNames {
  std::vector<RoceName> names;
  std::vector<Use> uses;
};
/// Memory of `owner` that the other side uses.
RoceNames find_names(const RoceRecording& recording, capture::Side owner);

/// "REP QPN 0x000011 ...", "RC SEND Only, 16 octets", for people.
std::string describe(const RoceStep& step);

}  // namespace parley::replay
