// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/ssa/nodes.hpp"

#include <fmt/format.h>

#include "base/bits.hpp"
#include "base/escape.hpp"
#include "base/words.hpp"
#include "tools/hex.hpp"
#include "tools/read_whole.hpp"
#include "wire/mad/ssa.hpp"

namespace parley::tools {

namespace {

struct Role {
  std::string_view name;
  std::uint8_t bit;
};
constexpr Role all_roles[] = {
#define PARLEY_X(name, bit, text) {text, bit},
    PARLEY_SSA_ROLES(PARLEY_X)
#undef PARLEY_X
};

/// An error, or nothing.
std::string parse_line(std::string_view line, NodesFile& out) {
  line = line.substr(0, line.find('#'));
  const std::string_view who = take_word(line);
  if (who.empty()) return {};
  NodeEntry entry;
  const auto roles = parse_roles(take_word(line));
  if (!roles) return roles.error();
  entry.roles = *roles;
  if (const std::string_view where = take_word(line); !where.empty()) {
    const auto address = Address::parse(where);
    if (!address || address->port != 0 || address->is_any())
      return fmt::format("'{}' is not an address without a port", printable(where, false));
    entry.address = *address;
  }
  if (!take_word(line).empty()) return "more than three words";
  if (who == "*") {
    if (out.others) return "a second line for *";
    out.others = entry;
    return {};
  }
  const auto guid = parse_hex_number(who);
  if (!guid || *guid == 0) return fmt::format("'{}' is neither a port GUID nor *", printable(who, false));
  return out.by_guid.emplace(*guid, entry).second ? std::string() : fmt::format("a second line for 0x{:016x}", *guid);
}

}  // namespace

const NodeEntry* NodesFile::find(std::uint64_t guid) const {
  const auto at = by_guid.find(guid);
  if (at != by_guid.end()) return &at->second;
  return others ? &*others : nullptr;
}

Result<Address> address_in(const NodesFile& nodes, const Gid& gid) {
  const NodeEntry* entry = nodes.find(read_bits(gid, 64, 64));
  if (entry != nullptr && entry->address) return *entry->address;
  return fail(Errc::bad_address, "the file of --nodes has no address for this parent");
}

tl::expected<std::uint8_t, std::string> parse_roles(std::string_view text) {
  unsigned out = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    const unsigned before = out;
    for (const Role& role : all_roles)
      if (role.name == word) out |= role.bit;
    if (out == before)
      return tl::unexpected(
          fmt::format("'{}' is not a further role of core, distribution, access, consumer", printable(word, false)));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (rest.empty() && comma != std::string_view::npos) return tl::unexpected(std::string("no role behind the comma"));
  }
  if (out == 0) return tl::unexpected(std::string("no role"));
  return static_cast<std::uint8_t>(out);
}

std::string roles_text(std::uint8_t roles) {
  std::string out;
  for (const Role& role : all_roles)
    if ((roles & role.bit) != 0) out += (out.empty() ? "" : ",") + std::string(role.name);
  return out;
}

tl::expected<NodesFile, std::string> parse_nodes(std::string_view text) {
  NodesFile out;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (const std::string wrong = parse_line(text.substr(0, end), out); !wrong.empty())
      return tl::unexpected(fmt::format("line {}: {}", number, wrong));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

Or<NodesFile> read_nodes(const std::string& path) {
  const auto text = read_whole(path, nodes_file_octets_max);
  if (!text) return tl::unexpected(text.error());
  auto parsed = parse_nodes(*text);
  if (!parsed) return command_error(Exit::environment, fmt::format("{}, {}", path, parsed.error()));
  return std::move(*parsed);
}

}  // namespace parley::tools
