// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Names and IP addresses of ports. The file has the form of ibacm_hosts.data: a line for each address, with the GID behind
// it; `#` begins a comment.
//
//   luna3          fe80::8:f104:39a:169
//   192.168.1.3    fe80::8:f104:39a:169
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/gid.hpp"
#include "ssa/acm/message.hpp"

namespace parley::ssa::acm {

inline constexpr std::size_t addresses_max = std::size_t{1} << 20;
inline constexpr std::size_t name_octets_max = info_octets - 1;  ///< a 0 follows

/// The name or IP address of a record.
struct AddressKey {
  std::uint16_t type = 0;  ///< record_type
  std::string octets{};    ///< a name, 4 or 16 octets
  bool operator==(const AddressKey&) const = default;
};
/// An IP address, or else a name. Errors: invalid_argument (empty, longer than name_octets_max).
Result<AddressKey> address_key(std::string_view text);
/// None: the type is not that of an address, or a name has no end.
std::optional<AddressKey> address_key(const Record& record);
/// A record of the type and with the information of `key`.
Record record_of(const AddressKey& key, std::uint32_t flags);

class Addresses {
 public:
  /// Adds the lines of a file. They take precedence over add_name(). Errors: malformed (the line, and what is wrong with it), no_space
  /// (addresses_max). Lines before the wrong one stay.
  Result<void> add_file(std::string_view text);
  /// A NodeDescription, and its first word if it has several. A name of two ports is unknown, and one that is too
  /// long is left out.
  void add_name(std::string_view name, const Gid& gid);
  /// Gives the subnet's prefix to link-local GIDs, so that a port has one GID.
  void set_prefix(std::uint64_t prefix);

  /// Null: unknown.
  const Gid* find(const AddressKey& key) const;
  /// The first address of that type that was added for the GID. Null: none.
  const AddressKey* address_of(const Gid& gid, std::uint16_t type) const;
  /// All of the GID, as text, in the order in which they were added.
  std::vector<std::string> texts_of(const Gid& gid) const;
  std::size_t size() const { return gids_.size(); }

 private:
  struct KeyHash {
    std::size_t operator()(const AddressKey& key) const { return std::hash<std::string>()(key.octets) + key.type; }
  };
  struct GidHash {
    std::size_t operator()(const Gid& gid) const;
  };
  struct Entry {
    Gid gid{};
    bool from_file = false;
    bool ambiguous = false;
  };

  Result<void> add_line(std::string_view line, std::int64_t number);
  void add_word(std::string_view name, const Gid& gid);

  std::unordered_map<AddressKey, Entry, KeyHash> gids_;  // addresses_max
  std::unordered_map<Gid, std::vector<AddressKey>, GidHash> keys_;
};

}  // namespace parley::ssa::acm
