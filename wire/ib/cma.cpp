// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/ib/cma.hpp"

#include <algorithm>

#include "base/bytes_io.hpp"

namespace parley::wire::ib {
namespace {

constexpr std::size_t address_octets = 16, v4_octets = 4;

// An IPv4 address is in the last four of sixteen octets.
Address address_from(ConstBytes octets, Address::Family family) {
  Address out;
  out.family = family;
  const ConstBytes used = octets.last(family == Address::Family::v4 ? v4_octets : address_octets);
  std::copy(used.begin(), used.end(), out.octets.begin());
  return out;
}

void put_address(Writer& w, const Address& address) {
  const std::size_t used = address.family == Address::Family::v4 ? v4_octets : address_octets;
  w.zeros(address_octets - used);
  w.bytes(ConstBytes(address.octets).first(used));
}

}  // namespace

std::string_view to_string(PortSpace space) {
  switch (space) {
#define PARLEY_X(name, value, text) \
  case PortSpace::name: return text;
    PARLEY_CMA_PORT_SPACES(PARLEY_X)
#undef PARLEY_X
  }
  return "unassigned";
}

std::uint64_t service_id_of(PortSpace space, std::uint16_t port) {
  return static_cast<std::uint64_t>(space) << 16 | port;
}

std::optional<CmaService> cma_service_of(std::uint64_t service_id) {
  if (service_id >> 32 != 0) return std::nullopt;
  const CmaService out{static_cast<PortSpace>(service_id >> 16), static_cast<std::uint16_t>(service_id)};
  if (to_string(out.space) == "unassigned") return std::nullopt;
  return out;
}

Result<CmaHeader> CmaHeader::parse(ConstBytes private_data) {
  Reader r(private_data);
  const std::uint8_t version = r.u8();
  const std::uint8_t ip = r.u8() >> 4;
  const std::uint16_t port = r.be16();
  const ConstBytes source = r.bytes(address_octets), destination = r.bytes(address_octets);
  if (!r.ok()) return fail(Errc::truncated);
  if (version != PARLEY_CMA_VERSION)
    return fail(Errc::unsupported, "the header of the RDMA IP CM service has version {a}, not 0", version);
  if (ip != 4 && ip != 6)
    return fail(Errc::unsupported, "the header of the RDMA IP CM service has IP version {a}, not 4 or 6", ip);
  const auto family = static_cast<Address::Family>(ip);
  CmaHeader out{address_from(source, family), address_from(destination, family)};
  out.source.port = port;
  return out;
}

void CmaHeader::emit(MutBytes out) const {
  Writer w(out);
  w.u8(PARLEY_CMA_VERSION);
  w.u8(static_cast<std::uint8_t>(static_cast<int>(source.family) << 4));
  w.be16(source.port);
  put_address(w, source);
  put_address(w, destination);
}

}  // namespace parley::wire::ib
