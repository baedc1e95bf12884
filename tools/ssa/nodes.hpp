// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The file that assigns roles to ports, and says where each takes data connections. The same file may be on all machines.
//
//   # port GUID          roles          address of data connections
//   0x0002c90300001234   core           192.0.2.1
//   0x0002c90300001235   access         192.0.2.2
//   *                    consumer
//
// `*` is all other ports. Without it, they have no role.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/gid.hpp"
#include "parley/address.hpp"
#include "parley/result.hpp"
#include "tools/options.hpp"

namespace parley::tools {

inline constexpr std::size_t nodes_file_octets_max = 8 << 20;

struct NodeEntry {
  std::uint8_t roles = 0;            ///< bits of PARLEY_SSA_ROLES
  std::optional<Address> address{};  ///< without a port
};

struct NodesFile {
  std::map<std::uint64_t, NodeEntry> by_guid;
  std::optional<NodeEntry> others;

  /// Null: the file has neither the port nor `*`.
  const NodeEntry* find(std::uint64_t guid) const;
};

/// Where the port with this GID takes data connections. Errors: bad_address (it has no address in the file).
Result<Address> address_in(const NodesFile& nodes, const Gid& gid);

/// "core", "distribution,access". Errors: a sentence.
tl::expected<std::uint8_t, std::string> parse_roles(std::string_view text);
std::string roles_text(std::uint8_t roles);
/// Errors: a sentence with the number of the line.
tl::expected<NodesFile, std::string> parse_nodes(std::string_view text);
/// Errors: environment (cannot be read, too large, wrong).
Or<NodesFile> read_nodes(const std::string& path);

}  // namespace parley::tools
