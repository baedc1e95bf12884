// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "xrc/message.hpp"

#include <algorithm>

#include "base/bytes_io.hpp"

namespace parley::xrc {
namespace {

constexpr std::uint32_t magic = 0x50585243;  // "PXRC"
enum Kind : std::uint8_t { kind_answer = 64, kind_event = 65, kind_item = 66 };
constexpr std::size_t request_octets = 112, answer_octets = 96, event_octets = 48, item_octets = 88;

bool is_ask(std::uint8_t value) {
  switch (static_cast<RequestType>(value)) {
#define PARLEY_X(name, number) case RequestType::name:
    PARLEY_XRC_REQUESTS(PARLEY_X) return true;
#undef PARLEY_X
  }
  return false;
}
std::size_t length_of(std::uint8_t kind) {
  if (kind == kind_answer) return answer_octets;
  if (kind == kind_event) return event_octets;
  if (kind == kind_item) return item_octets;
  return is_ask(kind) ? request_octets : 0;
}

void emit_head(Writer& w, std::uint8_t kind, std::uint64_t number) {
  w.be32(magic);
  w.u8(protocol_version);
  w.u8(kind);
  w.be16(static_cast<std::uint16_t>(length_of(kind)));
  w.be64(number);
}
void emit_command(Writer& w, const std::string& command) {
  for (std::size_t i = 0; i < command_max; ++i) w.u8(i < command.size() ? static_cast<std::uint8_t>(command[i]) : 0);
}
std::string parse_command(Reader& r) {
  const ConstBytes octets = r.bytes(command_max);
  return {octets.begin(), std::find(octets.begin(), octets.end(), 0)};
}

Request parse_request(Reader& r, RequestType ask, std::uint64_t number) {
  Request m{.ask = ask, .number = number, .flags = r.be16()};
  m.state = static_cast<State>(r.u8());
  m.kind = static_cast<EventKind>(r.u8());
  m.reason = r.be32();
  m.tgt.qpn = r.be32();
  m.other = r.be32();
  m.tgt.generation = r.be64();
  m.value = r.be64();
  m.peer.ca_guid = r.be64();
  m.peer.qpn = r.be32();
  m.pid = r.be32();
  for (std::uint64_t& digest : m.attributes) digest = r.be64();
  m.events = r.be64();
  m.command = parse_command(r);
  return m;
}

Answer parse_answer(Reader& r, std::uint64_t number) {
  Answer m{.number = number, .refusal = static_cast<Refusal>(r.u8())};
  m.about = static_cast<RequestType>(r.u8());
  m.flags = r.be16();
  m.state = static_cast<State>(r.u8());
  m.why = static_cast<EventKind>(r.u8());
  r.skip(2);
  m.reason = r.be32();
  m.tgt.qpn = r.be32();
  m.tgt.generation = r.be64();
  m.value = r.be64();
  m.epoch = r.be32();
  m.peer.qpn = r.be32();
  m.peer.ca_guid = r.be64();
  for (std::uint64_t& digest : m.attributes) digest = r.be64();
  m.events = r.be64();
  return m;
}

Event parse_event(Reader& r) {
  Event m{.kind = static_cast<EventKind>(r.u8())};
  m.sticky = (r.u8() & 1) != 0;
  r.skip(2);
  m.reason = r.be32();
  m.tgt.qpn = r.be32();
  m.merged = r.be32();
  m.tgt.generation = r.be64();
  m.sequence = r.be64();
  return m;
}

Item parse_item(Reader& r, std::uint64_t number) {
  Item m{.number = number, .what = static_cast<Item::What>(r.u8())};
  m.state = static_cast<State>(r.u8());
  m.why = static_cast<EventKind>(r.u8());
  m.flags = r.u8();
  for (std::uint32_t& value : m.small) value = r.be32();
  for (std::uint64_t& value : m.large) value = r.be64();
  m.command = parse_command(r);
  return m;
}

bool is_state(State s) { return s <= State::gone; }
bool is_kind(EventKind k) { return k <= EventKind::events_lost; }
bool is_sound(const Request& m) { return is_state(m.state) && is_kind(m.kind); }
bool is_sound(const Answer& m) {
  return is_state(m.state) && is_kind(m.why) && m.refusal <= Refusal::share_of_queue_pairs &&
         is_ask(static_cast<std::uint8_t>(m.about));
}
bool is_sound(const Event& m) { return is_kind(m.kind) && m.kind != EventKind::none; }
bool is_sound(const Item& m) {
  return is_state(m.state) && is_kind(m.why) && m.what >= Item::What::domain && m.what <= Item::What::counter;
}
template <class M>
Result<Message> sound(M message) {
  if (!is_sound(message)) return tl::unexpected(Error(Refusal::bad_message));
  return Message(std::move(message));
}

}  // namespace

static_assert(request_octets <= message_max && answer_octets <= message_max && item_octets <= message_max);

std::string_view to_string(RequestType ask) {
  switch (ask) {
#define PARLEY_X(name, number) \
  case RequestType::name: return #name;
    PARLEY_XRC_REQUESTS(PARLEY_X)
#undef PARLEY_X
  }
  return "unknown";
}

Bytes emit(const Request& m) {
  Bytes out(request_octets);
  Writer w(out);
  emit_head(w, static_cast<std::uint8_t>(m.ask), m.number);
  w.be16(m.flags);
  w.u8(static_cast<std::uint8_t>(m.state));
  w.u8(static_cast<std::uint8_t>(m.kind));
  w.be32(m.reason);
  w.be32(m.tgt.qpn);
  w.be32(m.other);
  w.be64(m.tgt.generation);
  w.be64(m.value);
  w.be64(m.peer.ca_guid);
  w.be32(m.peer.qpn);
  w.be32(m.pid);
  for (const std::uint64_t digest : m.attributes) w.be64(digest);
  w.be64(m.events);
  emit_command(w, m.command);
  return out;
}

Bytes emit(const Answer& m) {
  Bytes out(answer_octets);
  Writer w(out);
  emit_head(w, kind_answer, m.number);
  w.u8(static_cast<std::uint8_t>(m.refusal));
  w.u8(static_cast<std::uint8_t>(m.about));
  w.be16(m.flags);
  w.u8(static_cast<std::uint8_t>(m.state));
  w.u8(static_cast<std::uint8_t>(m.why));
  w.be16(0);
  w.be32(m.reason);
  w.be32(m.tgt.qpn);
  w.be64(m.tgt.generation);
  w.be64(m.value);
  w.be32(m.epoch);
  w.be32(m.peer.qpn);
  w.be64(m.peer.ca_guid);
  for (const std::uint64_t digest : m.attributes) w.be64(digest);
  w.be64(m.events);
  return out;
}

Bytes emit(const Event& m) {
  Bytes out(event_octets);
  Writer w(out);
  emit_head(w, kind_event, 0);
  w.u8(static_cast<std::uint8_t>(m.kind));
  w.u8(m.sticky ? 1 : 0);
  w.be16(0);
  w.be32(m.reason);
  w.be32(m.tgt.qpn);
  w.be32(m.merged);
  w.be64(m.tgt.generation);
  w.be64(m.sequence);
  return out;
}

Bytes emit(const Item& m) {
  Bytes out(item_octets);
  Writer w(out);
  emit_head(w, kind_item, m.number);
  w.u8(static_cast<std::uint8_t>(m.what));
  w.u8(static_cast<std::uint8_t>(m.state));
  w.u8(static_cast<std::uint8_t>(m.why));
  w.u8(m.flags);
  for (const std::uint32_t value : m.small) w.be32(value);
  for (const std::uint64_t value : m.large) w.be64(value);
  emit_command(w, m.command);
  return out;
}

Bytes emit(const Message& message) {
  return std::visit([](const auto& m) { return emit(m); }, message);
}

Result<Message> parse(ConstBytes octets) {
  Reader r(octets);
  const std::uint32_t first = r.be32();
  const std::uint8_t version = r.u8(), kind = r.u8();
  const std::uint16_t length = r.be16();
  const std::uint64_t number = r.be64();
  if (!r.ok() || first != magic) return tl::unexpected(Error(Refusal::bad_message));
  // hello has the same form in all versions, so that two sides with different versions can detect it.
  if (version != protocol_version && kind != static_cast<std::uint8_t>(RequestType::hello))
    return tl::unexpected(Error(Refusal::bad_version));
  if (length != octets.size() || length != length_of(kind)) return tl::unexpected(Error(Refusal::bad_message));
  if (kind == kind_answer) return sound(parse_answer(r, number));
  if (kind == kind_event) return sound(parse_event(r));
  if (kind == kind_item) return sound(parse_item(r, number));
  return sound(parse_request(r, static_cast<RequestType>(kind), number));
}

std::uint64_t number_of(ConstBytes octets) {
  Reader r(octets);
  const bool ours = r.be32() == magic;
  r.skip(4);
  const std::uint64_t number = r.be64();
  return ours && r.ok() ? number : 0;
}

}  // namespace parley::xrc
