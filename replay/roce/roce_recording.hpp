// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A capture of RoCEv2 made playable: one connection of the InfiniBand CM, or one service ID resolution, packet by packet, in the
// order of the capture. Which packets are its own, the checker of captures says (capture/rules/roce).
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
  Bytes octets;                           ///< from the BTH to the ICRC; what the capture lacks reads 0
  std::size_t known = 0;                  ///< length of the head of `octets` that it holds
  std::optional<wire::ib::CmMessage> cm;  ///< of the CM; none: data
  /// It was sent before, and not for a receiver that was not ready; or it is a NAK of something lost. Neither played nor waited for.
  bool again = false;

  /// A view of `octets`, which hold a packet.
  wire::ib::Packet packet() const { return *wire::ib::Packet::parse(octets); }
  wire::ib::Operation operation() const { return wire::ib::operation_of(octets.front()); }
  bool is_response() const { return !cm && wire::ib::rule_of(octets.front()).response; }
  bool is_nak() const;  ///< RNR too
  bool is_ack() const { return is_response() && operation() == wire::ib::Operation::acknowledge && !is_nak(); }
};

struct RoceRecording {
  std::size_t connection = 0;   ///< which one in the file, from 1
  std::size_t connections = 0;  ///< in the file
  capture::ConnectionReport report;
  std::vector<RoceStep> steps;
  std::vector<std::string> notes, lacks;

  std::size_t count(capture::Side side) const;  ///< of its steps that are played or compared
};

/// Reads connection `number`, from 1, of the contents, which must be those of the file: one of RoCE.
RoceRecording read_roce_recording(ConstBytes file, const Contents& contents, std::size_t number);

/// What keeps `side` from being played from the beginning; empty if nothing does.
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
