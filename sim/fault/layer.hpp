// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The layers that messages are told from: for each a table of its kinds (their names, and what faults may do to them)
// and how a frame that carries one is recognised. Fault rules, masks, texts, scenarios and swarms work through these
// tables. A new layer is its table in a file of its own, and one line in sim/fault/layer.cpp.
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

/// How deeply frames must be looked into.
enum class LookDepth : std::uint8_t {
  nothing,
  headers,  ///< of this frame alone
  startup,  ///< streams are followed up to the first FPDU
  fpdus     ///< all of a stream
};

/// What corrupt_mpa may damage in a message, as a set.
enum : std::uint8_t { no_fields = 0, startup_fields = 1, fpdu_fields = 2 };

/// The fields that corrupt_roce may damage in a packet, as a set.
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
  std::string_view word;  ///< by itself: "mpa_request"
  LookDepth depth = LookDepth::headers;
  std::uint8_t fields = no_fields;
  bool numbered = false;  ///< `fpdu` of a match says which one
  bool ends = false;      ///< nothing of its connection follows
  bool drawn = true;      ///< by swarms
  PacketFields packet_fields{};
};

enum class LayerRole : std::uint8_t {
  neighbours,  ///< finds the hosts of a segment
  transport,   ///< has connections
  messages     ///< is carried by them
};

/// Where a layer is found: below it is Ethernet, IP, UDP, or the stream of a TCP connection (then MessageStream finds
/// its messages, and `classify` is null).
enum class Carrier : std::uint8_t { ethernet, ip, udp, tcp_stream };

struct LayerTable {
  Layer layer;
  std::string_view name;
  LayerRole role;
  Carrier carrier;
  std::uint16_t number = 0;  ///< Ethertype, IP protocol or destination port
  std::span<const KindRow> kinds;
  /// Marks the kinds that hold and says where things are. `octets`: what the layer below carries, of any content.
  void (*classify)(ConstBytes octets, FrameLayout& out) = nullptr;
};

extern const LayerTable arp_layer, nd_layer, tcp_layer, mpa_layer, rdmap_layer, roce_layer, cm_layer;

/// In the order of enum Layer, without `any`.
std::span<const LayerTable* const> layers();
/// Null for Layer::any.
const LayerTable* table_of(Layer layer);
/// Its row. Of `any` and of what is in no table, a row that is called so.
const KindRow& row_of(MessageKind kind);

/// Frames that carry it belong to a TCP connection.
bool of_a_connection(MessageKind kind);
/// It is a message in the stream of a TCP connection, which may be cut in it.
bool in_a_stream(MessageKind kind);
/// It is a packet of RoCE, and has a PSN.
bool in_a_packet(MessageKind kind);
/// Frames that carry it may belong to a RoCE connection: packets, but not datagrams and SIDR.
bool of_a_roce_connection(MessageKind kind);

/// The kinds that hold for a frame.
class KindSet {
 public:
  static constexpr std::size_t layers_max = 16, kinds_max = 32;  // of one layer
  void add(MessageKind m) { of_layer_[slot(m.layer)] |= bit(m); }
  bool has(MessageKind m) const { return (of_layer_[slot(m.layer)] & bit(m)) != 0; }
  bool has(Layer layer) const { return of_layer_[slot(layer)] != 0; }

 private:
  static std::size_t slot(Layer layer) { return static_cast<std::size_t>(layer) % layers_max; }
  static std::uint32_t bit(MessageKind m) { return std::uint32_t{1} << m.kind % kinds_max; }
  std::array<std::uint32_t, layers_max> of_layer_{};
};

}  // namespace parley::sim
