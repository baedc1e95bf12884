// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/fault/layer.hpp"

namespace parley::sim {
namespace {

// In the order of enum Layer, without its first value.
constexpr std::array<const LayerTable*, 7> tables{&arp_layer,   &nd_layer,   &tcp_layer, &mpa_layer,
                                                  &rdmap_layer, &roce_layer, &cm_layer};
static_assert(tables.size() == static_cast<std::size_t>(Layer::cm));
static_assert(tables.size() < KindSet::layers_max);

constexpr KindRow any_row{.kind = MessageKind::any, .name = "any", .word = "any", .depth = LookDepth::nothing};
constexpr KindRow unknown_row{
    .kind = MessageKind::any, .name = "unknown", .word = "unknown", .depth = LookDepth::nothing, .drawn = false};

}  // namespace

std::span<const LayerTable* const> layers() { return tables; }

const LayerTable* table_of(Layer layer) {
  const auto index = static_cast<std::size_t>(layer);
  return index == 0 || index > tables.size() ? nullptr : tables[index - 1];
}

const KindRow& row_of(MessageKind kind) {
  if (kind == MessageKind::any) return any_row;
  const LayerTable* table = table_of(kind.layer);
  return table != nullptr && kind.kind < table->kinds.size() ? table->kinds[kind.kind] : unknown_row;
}

bool in_a_stream(MessageKind kind) {
  const LayerTable* table = table_of(kind.layer);
  return table != nullptr && table->carrier == Carrier::tcp_stream;
}

bool in_a_packet(MessageKind kind) {
  const LayerTable* table = table_of(kind.layer);
  return table != nullptr && table->carrier == Carrier::udp;
}

bool of_a_roce_connection(MessageKind kind) {
  return in_a_packet(kind) && kind != MessageKind::roce_datagram && kind != MessageKind::cm_sidr_req &&
         kind != MessageKind::cm_sidr_rep;
}

bool of_a_connection(MessageKind kind) { return kind.layer == Layer::tcp || in_a_stream(kind); }

std::string_view to_string(Layer layer) {
  if (layer == Layer::any) return "any";
  const LayerTable* table = table_of(layer);
  return table != nullptr ? table->name : "unknown";
}

std::optional<Layer> parse_layer(std::string_view text) {
  if (text == "any") return Layer::any;
  for (const LayerTable* table : layers())
    if (table->name == text) return table->layer;
  return std::nullopt;
}

std::string_view to_string(MessageKind message) { return row_of(message).word; }

std::optional<MessageKind> parse_message_kind(std::string_view text) {
  if (text == any_row.word) return MessageKind::any;
  for (const LayerTable* table : layers()) {
    const bool qualified =
        text.size() > table->name.size() && text.starts_with(table->name) && text[table->name.size()] == '.';
    const std::string_view name = qualified ? text.substr(table->name.size() + 1) : std::string_view{};
    for (const KindRow& kind : table->kinds)
      if (kind.word == text || kind.name == name) return kind.kind;
  }
  return std::nullopt;
}

}  // namespace parley::sim
