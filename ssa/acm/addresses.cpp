// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/acm/addresses.hpp"

#include <algorithm>
#include <utility>

#include "base/bytes_io.hpp"
#include "base/gid_hash.hpp"
#include "base/words.hpp"
#include "parley/address.hpp"
#include "ssa/paths.hpp"

namespace parley::ssa::acm {

namespace {

std::size_t octets_of_type(std::uint16_t type) { return type == record_type::ipv4 ? 4 : 16; }

std::string text_of(const AddressKey& key) {
  if (key.type == record_type::name) return key.octets;
  Address out{.family = key.type == record_type::ipv4 ? Address::Family::v4 : Address::Family::v6};
  std::copy(key.octets.begin(), key.octets.end(), out.octets.begin());
  if (key.type == record_type::ipv6) return gid_text(gid_of(out));
  const std::string with_port = out.to_string();
  return with_port.substr(0, with_port.rfind(':'));
}

}  // namespace

Result<AddressKey> address_key(std::string_view text) {
  if (text.empty()) return fail(Errc::invalid_argument, "an address must not be empty");
  if (text.size() > name_octets_max)
    return fail(Errc::invalid_argument, "the name has {a} octets; it may have {b}",
                static_cast<std::int64_t>(text.size()), static_cast<std::int64_t>(name_octets_max));
  const auto address = Address::parse(text);
  if (!address || address->port != 0 || address->scope_id != 0) return AddressKey{record_type::name, std::string(text)};
  const std::uint16_t type = address->family == Address::Family::v4 ? record_type::ipv4 : record_type::ipv6;
  return AddressKey{type, std::string(address->octets.begin(),
                                      address->octets.begin() + static_cast<std::ptrdiff_t>(octets_of_type(type)))};
}

std::optional<AddressKey> address_key(const Record& record) {
  const auto begin = record.info.begin();
  switch (record.type) {
    case record_type::ipv4:
    case record_type::ipv6:
      return AddressKey{record.type,
                        std::string(begin, begin + static_cast<std::ptrdiff_t>(octets_of_type(record.type)))};
    case record_type::name: {
      const auto end = std::find(begin, record.info.end(), 0);
      if (end == record.info.end()) return std::nullopt;
      return AddressKey{record.type, std::string(begin, end)};
    }
    default: return std::nullopt;
  }
}

Record record_of(const AddressKey& key, std::uint32_t flags) {
  Record out{flags, key.type, {}};
  std::copy_n(key.octets.begin(), std::min(key.octets.size(), info_octets), out.info.begin());
  return out;
}

std::size_t Addresses::GidHash::operator()(const Gid& gid) const { return mix_gid(0, gid); }

Result<void> Addresses::add_file(std::string_view text) {
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (const auto added = add_line(line.substr(0, line.find('#')), number); !added) return added;
  }
  return {};
}

Result<void> Addresses::add_line(std::string_view line, std::int64_t number) {
  const std::string_view address = take_word(line), gid = take_word(line);
  if (address.empty()) return {};
  if (gid.empty() || !take_word(line).empty())
    return fail(Errc::malformed, "line {a} must have two words: an address and a GID", number);
  const auto parsed = Address::parse(gid);
  if (!parsed || parsed->family != Address::Family::v6 || parsed->port != 0 || parsed->scope_id != 0)
    return fail(Errc::malformed, "the second word of line {a} must be a GID, such as fe80::8:f104:39a:169", number);
  auto key = address_key(address);
  if (!key) return fail(Errc::malformed, "the name in line {a} is longer than {b} octets", number, name_octets_max);
  if (gids_.size() >= addresses_max)
    return fail(Errc::no_space, "line {a}: there are more than {b} addresses", number, addresses_max);
  const Gid port = gid_of(*parsed);
  const auto [at, is_new] = gids_.try_emplace(*key, Entry{port, true, false});
  if (!is_new && at->second.from_file && at->second.gid != port)
    return fail(Errc::malformed, "line {a} gives an address that an earlier line has another GID", number);
  const bool repeated = !is_new && at->second.from_file;
  at->second = {port, true, false};
  if (!repeated) keys_[port].push_back(std::move(*key));
  return {};
}

void Addresses::add_name(std::string_view name, const Gid& gid) {
  add_word(name, gid);
  const std::string_view first = name.substr(0, name.find(' '));
  if (first.size() < name.size()) add_word(first, gid);
}

void Addresses::add_word(std::string_view name, const Gid& gid) {
  if (name.empty() || name.size() > name_octets_max || gids_.size() >= addresses_max) return;
  AddressKey key{record_type::name, std::string(name)};
  const auto [at, is_new] = gids_.try_emplace(key, Entry{gid, false, false});
  if (is_new)
    keys_[gid].push_back(std::move(key));
  else if (!at->second.from_file && at->second.gid != gid)
    at->second.ambiguous = true;
}

void Addresses::set_prefix(std::uint64_t prefix) {
  const auto adapt = [prefix](Gid& gid) {
    if (load<std::uint64_t>(gid.data(), std::endian::big) == link_local_prefix)
      store(gid.data(), prefix, std::endian::big);
  };
  for (auto& [key, entry] : gids_) adapt(entry.gid);
  auto before = std::exchange(keys_, {});
  for (auto& [gid, keys] : before) {
    Gid adapted = gid;
    adapt(adapted);
    auto& all = keys_[adapted];
    // Those of the subnet's prefix stay in front.
    all.insert(adapted == gid ? all.begin() : all.end(), keys.begin(), keys.end());
  }
}

std::vector<std::string> Addresses::texts_of(const Gid& gid) const {
  std::vector<std::string> out;
  const auto found = keys_.find(gid);
  if (found == keys_.end()) return out;
  for (const AddressKey& key : found->second)
    if (const Gid* named = find(key); named != nullptr && *named == gid) out.push_back(text_of(key));
  return out;
}

const Gid* Addresses::find(const AddressKey& key) const {
  const auto found = gids_.find(key);
  return found == gids_.end() || found->second.ambiguous ? nullptr : &found->second.gid;
}

const AddressKey* Addresses::address_of(const Gid& gid, std::uint16_t type) const {
  const auto found = keys_.find(gid);
  if (found == keys_.end()) return nullptr;
  for (const AddressKey& key : found->second)
    if (const Gid* named = find(key); key.type == type && named != nullptr && *named == gid) return &key;
  return nullptr;
}

}  // namespace parley::ssa::acm
