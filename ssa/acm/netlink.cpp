// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/acm/netlink.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/bytes_io.hpp"

namespace parley::ssa::acm {

namespace {

using wire::mad::PathRecord;

constexpr std::uint16_t ls_client = 4, mandatory = 0x2000, type_mask = 0x1FFF;
constexpr unsigned client_shift = 10;
constexpr std::uint16_t operation_mask = (1U << client_shift) - 1;
constexpr std::size_t device_octets = 64, resolve_octets = 68, attribute_octets = 4, path_octets = 8 + 64;

namespace attribute {
enum Type : std::uint16_t {
  path_record = 1,
  timeout,
  service_id,
  dgid,
  sgid,
  traffic_class,
  p_key,
  qos_class,
  ipv4,
  ipv6
};
}  // namespace attribute

constexpr std::size_t padded(std::size_t octets) { return (octets + 3) & ~std::size_t{3}; }

std::uint8_t* room_at_end(Bytes& out, std::size_t octets) {
  out.resize(out.size() + octets);
  return out.data() + out.size() - octets;
}

/// 0: the type is unknown.
std::size_t attribute_value_octets(std::uint16_t type) {
  switch (type) {
    case attribute::path_record: return path_octets;
    case attribute::timeout: return 4;
    case attribute::service_id: return 8;
    case attribute::dgid:
    case attribute::sgid:
    case attribute::ipv6: return 16;
    case attribute::traffic_class: return 1;
    case attribute::p_key:
    case attribute::qos_class: return 2;
    case attribute::ipv4: return 4;
    default: return 0;
  }
}

template <class T>
bool take_once(std::optional<T>& out, const T& value) {
  if (out) return false;
  out = value;
  return true;
}
template <std::unsigned_integral T>
bool take_number(std::optional<T>& out, ConstBytes value, std::endian order) {
  return take_once(out, load<T>(value.data(), order));
}
template <std::size_t N>
bool take_octets(std::optional<std::array<std::uint8_t, N>>& out, ConstBytes value) {
  std::array<std::uint8_t, N> octets;
  std::copy_n(value.begin(), N, octets.begin());
  return take_once(out, octets);
}

bool take_path(std::vector<KernelPath>& out, ConstBytes value, std::endian order) {
  const auto record = PathRecord::parse(value.subspan(8));
  if (!record || out.size() == netlink_paths_max) return false;
  out.push_back({load<std::uint32_t>(value.data(), order), *record});
  return true;
}

/// `value` has attribute_value_octets(type). False: it may not come again.
bool take_attribute(KernelMessage& out, std::uint16_t type, ConstBytes value, std::endian order) {
  switch (type) {
    case attribute::path_record: return take_path(out.paths, value, order);
    case attribute::timeout: return take_number(out.timeout_ms, value, order);
    case attribute::service_id: return take_number(out.service_id, value, order);
    case attribute::dgid: return take_octets(out.dgid, value);
    case attribute::sgid: return take_octets(out.sgid, value);
    case attribute::traffic_class: return take_number(out.traffic_class, value, order);
    case attribute::p_key: return take_number(out.p_key, value, order);
    case attribute::qos_class: return take_number(out.qos_class, value, order);
    case attribute::ipv4: return take_octets(out.ipv4, value);
    case attribute::ipv6: return take_octets(out.ipv6, value);
    default: return false;
  }
}

Result<void> parse_attributes(KernelMessage& out, ConstBytes message, std::size_t at, std::endian order) {
  while (message.size() - at >= attribute_octets) {
    const std::size_t length = load<std::uint16_t>(message.data() + at, order);
    const std::uint16_t flagged = load<std::uint16_t>(message.data() + at + 2, order), type = flagged & type_mask;
    if (length < attribute_octets || length > message.size() - at)
      return fail(Errc::malformed, "an attribute has the length {a}; it must be 4 to {b}", length, message.size() - at);
    const std::size_t due = attribute_value_octets(type);
    if (due == 0 && (flagged & mandatory) != 0)
      return fail(Errc::malformed, "the attribute at octet {a} has the unknown type {b} and must be known", at, type);
    if (due != 0 && length - attribute_octets != due)
      return fail(Errc::malformed, "the attribute of type {a} has {b} octets", type, length - attribute_octets);
    if (due != 0 && !take_attribute(out, type, message.subspan(at + attribute_octets, due), order))
      return fail(Errc::malformed, "the attribute at octet {a} of type {b} comes too often", at, type);
    at += std::min(padded(length), message.size() - at);
  }
  if (at != message.size())
    return fail(Errc::malformed, "{a} octets follow the last attribute; it must be none", message.size() - at);
  return {};
}

/// The header that is before the attributes; gives where they begin.
Result<std::size_t> parse_family(KernelMessage& out, ConstBytes message, std::endian order) {
  std::size_t at = netlink_header_octets;
  if (!out.is_request() || out.operation == KernelOperation::set_timeout) return at;
  const std::size_t due = out.operation == KernelOperation::resolve ? resolve_octets : 4;
  if (message.size() - at < due)
    return fail(Errc::truncated, "the request has {a} octets behind the netlink header; it must have {b}",
                message.size() - at, due);
  if (out.operation == KernelOperation::ip_resolve) {
    out.interface_index = load<std::uint32_t>(message.data() + at, order);
    return at + due;
  }
  const auto name = message.subspan(at, device_octets);
  const auto end = std::find(name.begin(), name.end(), std::uint8_t{0});
  if (end == name.end()) return fail(Errc::malformed, "the device name has no end within 64 octets");
  out.device.assign(name.begin(), end);
  out.port = message[at + device_octets];
  const std::uint8_t use = message[at + device_octets + 1];
  if (use > static_cast<std::uint8_t>(PathUse::gmp))
    return fail(Errc::malformed, "the use of the path is {a}; it must be 0 to 2", use);
  out.use = static_cast<PathUse>(use);
  return at + due;
}

/// Writes attributes of one message.
struct AttributeWriter {
  Bytes& out;
  std::endian order;
  std::uint16_t bits;  // of each type

  std::uint8_t* add(std::uint16_t type) {
    const std::size_t octets = attribute_value_octets(type);
    std::uint8_t* const at = room_at_end(out, attribute_octets + padded(octets));
    store(at, static_cast<std::uint16_t>(attribute_octets + octets), order);
    store(at + 2, static_cast<std::uint16_t>(type | bits), order);
    return at + attribute_octets;
  }
  template <std::unsigned_integral T>
  void add(std::uint16_t type, const std::optional<T>& value) {
    if (value) store(add(type), *value, order);
  }
  template <std::size_t N>
  void add(std::uint16_t type, const std::optional<std::array<std::uint8_t, N>>& value) {
    if (value) std::copy(value->begin(), value->end(), add(type));
  }
  void add(const KernelPath& path) {
    std::uint8_t* const at = add(attribute::path_record);
    store(at, path.flags, order);
    const auto& octets = path.record.octets();
    std::copy(octets.begin(), octets.end(), at + 8);
  }
};

void append_family(Bytes& out, const KernelMessage& message, std::endian order) {
  if (!message.is_request()) return;
  if (message.operation == KernelOperation::ip_resolve) store(room_at_end(out, 4), message.interface_index, order);
  if (message.operation != KernelOperation::resolve) return;
  std::uint8_t* const at = room_at_end(out, resolve_octets);
  std::copy_n(message.device.begin(), std::min(message.device.size(), device_octets - 1), at);
  at[device_octets] = message.port;
  at[device_octets + 1] = static_cast<std::uint8_t>(message.use);
}

}  // namespace

bool NetlinkHeader::is_local_service() const { return type >> client_shift == ls_client; }

Result<NetlinkHeader> parse_netlink_header(ConstBytes in, std::endian order) {
  if (in.size() < netlink_header_octets)
    return fail(Errc::truncated, "the netlink header has {a} octets; it must have 16", in.size());
  const NetlinkHeader out{load<std::uint32_t>(in.data(), order), load<std::uint16_t>(in.data() + 4, order),
                          load<std::uint16_t>(in.data() + 6, order), load<std::uint32_t>(in.data() + 8, order),
                          load<std::uint32_t>(in.data() + 12, order)};
  if (out.length < netlink_header_octets)
    return fail(Errc::malformed, "the length of the netlink message is {a}; it must be at least 16", out.length);
  if (out.length > in.size())
    return fail(Errc::truncated, "the length of the netlink message is {a}; the datagram has {b} octets", out.length,
                in.size());
  return out;
}

void append_netlink_header(Bytes& out, const NetlinkHeader& header, std::endian order) {
  std::uint8_t* const at = room_at_end(out, netlink_header_octets);
  store(at, header.length, order);
  store(at + 4, header.type, order);
  store(at + 6, header.flags, order);
  store(at + 8, header.sequence, order);
  store(at + 12, header.port_id, order);
}

Result<KernelMessage> parse_netlink(ConstBytes in, std::endian order) {
  const auto header = parse_netlink_header(in, order);
  if (!header) return tl::unexpected(header.error());
  if (!header->is_local_service())
    return fail(Errc::malformed, "the netlink client is {a}; it must be 4", header->type >> client_shift);
  const std::uint16_t operation = header->type & operation_mask;
  if (operation > static_cast<std::uint16_t>(KernelOperation::ip_resolve))
    return fail(Errc::malformed, "the operation is {a}; it must be 0 to 2", operation);
  KernelMessage out;
  out.operation = static_cast<KernelOperation>(operation);
  out.flags = header->flags;
  out.sequence = header->sequence;
  out.port_id = header->port_id;
  const ConstBytes message = in.first(header->length);
  const auto at = parse_family(out, message, order);
  if (!at) return tl::unexpected(at.error());
  if (const auto parsed = parse_attributes(out, message, *at, order); !parsed) return tl::unexpected(parsed.error());
  return out;
}

void append_netlink(Bytes& out, const KernelMessage& message, std::endian order) {
  PARLEY_ASSERT(message.paths.size() <= netlink_paths_max);
  Bytes body;
  append_family(body, message, order);
  AttributeWriter writer{body, order, message.is_request() ? mandatory : std::uint16_t{0}};
  for (const KernelPath& path : message.paths) writer.add(path);
  writer.add(attribute::timeout, message.timeout_ms);
  writer.add(attribute::service_id, message.service_id);
  writer.add(attribute::dgid, message.dgid);
  writer.add(attribute::sgid, message.sgid);
  writer.add(attribute::traffic_class, message.traffic_class);
  writer.add(attribute::p_key, message.p_key);
  writer.add(attribute::qos_class, message.qos_class);
  writer.add(attribute::ipv4, message.ipv4);
  writer.add(attribute::ipv6, message.ipv6);
  const auto type =
      static_cast<std::uint16_t>(ls_client << client_shift | static_cast<std::uint16_t>(message.operation));
  append_netlink_header(out,
                        {static_cast<std::uint32_t>(netlink_header_octets + body.size()), type, message.flags,
                         message.sequence, message.port_id},
                        order);
  out.insert(out.end(), body.begin(), body.end());
}

}  // namespace parley::ssa::acm
