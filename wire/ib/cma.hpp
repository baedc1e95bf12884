// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The RDMA IP CM service: IP addresses and ports in messages of the InfiniBand CM (IBA vol. 1 Annex A11).
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "parley/address.hpp"
#include "parley/bytes.hpp"
#include "parley/result.hpp"
#include "parley/wire/ibcm.h"

namespace parley::wire::ib {

enum class PortSpace : std::uint16_t {
#define PARLEY_X(name, value, text) name = value,
  PARLEY_CMA_PORT_SPACES(PARLEY_X)
#undef PARLEY_X
};
std::string_view to_string(PortSpace space);

/// The service ID of a port: 0x0000000001062329 is TCP port 9001.
std::uint64_t service_id_of(PortSpace space, std::uint16_t port);
struct CmaService {
  PortSpace space = PortSpace::tcp;
  std::uint16_t port = 0;
  bool operator==(const CmaService&) const = default;
};
/// nullopt for a service ID of another form, or of a port space without a name.
std::optional<CmaService> cma_service_of(std::uint64_t service_id);

/// The Q_Key that Linux gives to queue pairs of the port space UDP and uses to join groups (RDMA_UDP_QKEY). Peers
/// expect it.
inline constexpr std::uint32_t udp_q_key = 0x01234567;

/// The first 36 octets of the private data of a REQ or SIDR_REQ to such a service. The destination's port is in the
/// service ID only.
struct CmaHeader {
  Address source;       ///< with its port
  Address destination;  ///< port 0; of the source's family

  /// Errors: truncated; unsupported (a version other than 0, or neither IPv4 nor IPv6).
  static Result<CmaHeader> parse(ConstBytes private_data);
  void emit(MutBytes out) const;  ///< 36 octets
  bool operator==(const CmaHeader&) const = default;
};

}  // namespace parley::wire::ib
