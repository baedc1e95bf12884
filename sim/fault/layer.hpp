// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The protocol layers of messages. Each has a table of its kinds (their names, and the faults that apply to them) and a
// function that recognises a frame that carries one. Fault rules, masks, texts, scenarios and swarms use these tables.
// To add a layer, write its table in a new file and add one line in sim/fault/layer.cpp.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "parley/bytes.hpp"
#include "parley/sim.hpp"

namespace parley::sim {

struct FrameLayout;

/// How deeply frames must be parsed.
enum class LookDepth : std::uint8_t {
  nothing,
  headers,  ///< only this frame
  startup,  ///< streams are followed up to the first FPDU
  fpdus     ///< the whole stream
};

/// The set of fields that corrupt_mpa may damage in a message.
enum : std::uint8_t { no_fields = 0, startup_fields = 1, fpdu_fields = 2 };

/// The set of fields that corrupt_roce may damage in a packet.
class PacketFields {
 public:
  constexpr PacketFields(std::initializer_list<MessageField> fields = {}) {
    for (const MessageField f : fields) bits_ |= bit(f);
  }
  constexpr bool has(MessageField f) const { return (bits_ & bit(f)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr PacketFields operator+(PacketFields other) const {
    other.bits_ |= bits_;
    return other;
  }

 private:
  static constexpr std::uint32_t bit(MessageField f) { return std::uint32_t{1} << static_cast<unsigned>(f); }
  std::uint32_t bits_ = 0;
};
static_assert(static_cast<unsigned>(MessageField::status) < 32);

struct KindRow {
  MessageKind kind;
  std::string_view name;  ///< in its layer: "request"
  std::string_view word;  ///< on its own: "mpa_request"
  LookDepth depth = LookDepth::headers;
  std::uint8_t fields = no_fields;
  bool numbered = false;  ///< the `fpdu` of a match selects one
  bool ends = false;      ///< the last message of its connection
  bool drawn = true;      ///< may be chosen by swarms
  PacketFields packet_fields{};
};

enum class LayerRole : std::uint8_t {
  neighbours,  ///< resolves addresses on a segment
  transport,   ///< has connections
  messages     ///< carried over connections
};

/// What carries a layer: Ethernet, IP, UDP, or the stream of a TCP connection (then MessageStream finds its messages,
/// and `classify` is null).
enum class Carrier : std::uint8_t { ethernet, ip, udp, tcp_stream };

struct LayerTable {
  Layer layer;
  std::string_view name;
  LayerRole role;
  Carrier carrier;
  std::uint16_t number = 0;  ///< Ethertype, IP protocol or destination port
  std::span<const KindRow> kinds;
  /// Marks the kinds that hold, and sets positions. `octets`: the payload of the layer below, with any content.
  void (*classify)(ConstBytes octets, FrameLayout& out) = nullptr;
};

extern const LayerTable arp_layer, nd_layer, tcp_layer, mpa_layer, rdmap_layer, roce_layer, cm_layer;

/// In the order of enum Layer, without `any`.
std::span<const LayerTable* const> layers();
/// Null for Layer::any.
const LayerTable* table_of(Layer layer);
/// The table row of a kind. For `any`, and for a kind without a table, a row with that name.
const KindRow& row_of(MessageKind kind);

/// Frames of this kind belong to a TCP connection.
bool of_a_connection(MessageKind kind);
/// A message in the stream of a TCP connection, which cut_stream may cut.
bool in_a_stream(MessageKind kind);
/// A RoCE packet, which has a PSN.
bool in_a_packet(MessageKind kind);
/// Frames of this kind may belong to a RoCE connection: packets, except datagrams and SIDR.
bool of_a_roce_connection(MessageKind kind);

/// The kinds that hold for a frame.
class KindSet {
 public:
  static constexpr std::size_t layers_max = 16, kinds_max = 32;  // kinds_max: of one layer
  void add(MessageKind m) { of_layer_[slot(m.layer)] |= bit(m); }
  bool has(MessageKind m) const { return (of_layer_[slot(m.layer)] & bit(m)) != 0; }
  bool has(Layer layer) const { return of_layer_[slot(layer)] != 0; }

 private:
  static std::size_t slot(Layer layer) { return static_cast<std::size_t>(layer) % layers_max; }
  static std::uint32_t bit(MessageKind m) { return std::uint32_t{1} << m.kind % kinds_max; }
  std::array<std::uint32_t, layers_max> of_layer_{};
};

}  // namespace parley::sim
