// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "preload/port/messages.hpp"

#include <algorithm>
#include <type_traits>

#include "base/bytes_io.hpp"

namespace parley::preload::port {

namespace {

void put(Writer&, const Offered&) {}
void put(Writer&, const Leave&) {}
void put(Writer&, const Left&) {}
void put(Writer& to, const Joined& m) { to.u8(m.prefix); }
void put(Writer& to, const Answer& m) {
  to.be32(m.request);
  to.u8(static_cast<std::uint8_t>(m.result));
}
void put(Writer& to, const Refused& m) {
  to.u8(static_cast<std::uint8_t>(m.why));
  to.u8(m.position);
  to.be16(m.error);
}
void put(Writer& to, const Offer& m) {
  to.u8(m.position);
  to.u8(m.first);
}
void put(Writer& to, const Sockets& m) {
  to.u8(m.position);
  to.u8(m.first);
}
void put_positions(Writer& to, const Positions& positions) {
  to.be16(static_cast<std::uint16_t>(positions.size()));
  to.bytes(positions);
}
void put(Writer& to, const Claim& m) {
  to.be32(m.request);
  to.be64(m.service);
  put_positions(to, m.positions);
}
void put(Writer& to, const Release& m) {
  to.be64(m.service);
  put_positions(to, m.positions);
}
void put(Writer& to, const Join& m) {
  to.u8(m.prefix);
  to.be16(static_cast<std::uint16_t>(m.addresses.size()));
  for (const Address& address : m.addresses) {
    to.u8(static_cast<std::uint8_t>(address.family));
    to.bytes(address.octets);
    to.be32(address.scope_id);
  }
}

bool get(Reader&, Offered&) { return true; }
bool get(Reader&, Leave&) { return true; }
bool get(Reader&, Left&) { return true; }
bool get(Reader& from, Joined& m) { return (m.prefix = from.u8()) != 0 && m.prefix <= prefix_max; }
bool get(Reader& from, Answer& m) {
  m.request = from.be32();
  m.result = static_cast<ClaimResult>(from.u8());
  return m.result <= ClaimResult::full;
}
bool get(Reader& from, Refused& m) {
  m.why = static_cast<Refusal>(from.u8());
  m.position = from.u8();
  m.error = from.be16();
  return m.why >= Refusal::system && m.why <= Refusal::taken;
}
bool get(Reader& from, Offer& m) {
  m.position = from.u8();
  m.first = from.u8();
  return true;
}
bool get(Reader& from, Sockets& m) {
  m.position = from.u8();
  m.first = from.u8();
  return true;
}
bool get_positions(Reader& from, Positions& positions) {
  const std::size_t count = from.be16();
  const ConstBytes octets = from.bytes(count);
  positions.assign(octets.begin(), octets.end());
  return count > 0 && count <= addresses_max;
}
bool get(Reader& from, Claim& m) {
  m.request = from.be32();
  m.service = from.be64();
  return get_positions(from, m.positions);
}
bool get(Reader& from, Release& m) {
  m.service = from.be64();
  return get_positions(from, m.positions);
}
bool get(Reader& from, Join& m) {
  m.prefix = from.u8();
  const std::size_t count = from.be16();
  if (m.prefix > prefix_max || count == 0 || count > addresses_max) return false;
  for (std::size_t i = 0; i < count && from.ok(); ++i) {
    Address address;
    const std::uint8_t family = from.u8();
    address.family = static_cast<Address::Family>(family);
    const ConstBytes octets = from.bytes(address.octets.size());
    std::copy(octets.begin(), octets.end(), address.octets.begin());
    address.scope_id = from.be32();
    const bool known = address.family == Address::Family::v4 || address.family == Address::Family::v6;
    if (!known || address.is_any() || std::count(m.addresses.begin(), m.addresses.end(), address) != 0) return false;
    m.addresses.push_back(address);
  }
  return true;
}

template <class Message>
Bytes encode_any(const Message& message) {
  Bytes out(message_max);
  Writer to(out);
  to.u8(protocol_version);
  to.u8(static_cast<std::uint8_t>(message.index()));
  std::visit([&](const auto& m) { put(to, m); }, message);
  out.resize(to.size());
  return out;
}

template <class Message, std::size_t I = 0>
bool read_kind(std::size_t kind, Reader& from, Message& out) {
  if constexpr (I == std::variant_size_v<Message>) {
    return false;
  } else {
    if (kind != I) return read_kind<Message, I + 1>(kind, from, out);
    return get(from, out.template emplace<I>());
  }
}

template <class Message>
Result<Message> decode_any(ConstBytes octets) {
  Reader from(octets);
  const std::uint8_t version = from.u8(), kind = from.u8();
  if (from.ok() && version != protocol_version)
    return fail(Errc::unsupported, "the process speaks version {a} of the protocol; this one speaks {b}", version,
                protocol_version);
  Message out;
  if (!read_kind(kind, from, out) || !from.ok() || from.left() != 0) return fail(Errc::malformed);
  return out;
}

}  // namespace

Bytes encode(const FromMember& message) { return encode_any(message); }
Bytes encode(const FromKeeper& message) { return encode_any(message); }
Result<FromMember> decode_from_member(ConstBytes octets) { return decode_any<FromMember>(octets); }
Result<FromKeeper> decode_from_keeper(ConstBytes octets) { return decode_any<FromKeeper>(octets); }

}  // namespace parley::preload::port
