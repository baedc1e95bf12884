// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The registry of plug-ins: what may be registered, and what a configuration may hold.
#include <algorithm>
#include <charconv>
#include <exception>
#include <set>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/escape.hpp"
#include "cm/neg/guarded.hpp"

namespace parley::neg {
namespace {

constexpr std::size_t name_max = 64;

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= name_max && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  });
}

/// Empty, or what is wrong with the value.
std::string wrong_value(const Parameter& p, std::string_view value) {
  switch (p.kind) {
    case Parameter::Kind::text: return {};
    case Parameter::Kind::flag: return value == "true" || value == "false" ? "" : "write true or false";
    case Parameter::Kind::choice:
      return std::find(p.choices.begin(), p.choices.end(), value) != p.choices.end()
                 ? std::string()
                 : fmt::format("write {}", fmt::join(p.choices, ", "));
    case Parameter::Kind::number: break;
  }
  const bool hex = value.starts_with("0x");
  if (hex) value.remove_prefix(2);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number, hex ? 16 : 10);
  const bool whole = error == std::errc{} && end == value.data() + value.size();
  return whole && number >= p.least && number <= p.most ? std::string()
                                                        : fmt::format("write a number, {} to {}", p.least, p.most);
}

/// Whether all values are printable. They reach the plug-in unchanged, so they cannot be escaped.
bool shows(const Parameter& p) {
  return printable(p.otherwise, false) == p.otherwise &&
         std::all_of(p.choices.begin(), p.choices.end(),
                     [](const std::string& choice) { return printable(choice, false) == choice; });
}

/// Escapes the texts that are shown to people, so that they have no effect on terminals and logs.
void make_printable(VariantInfo& info) {
  info.summary = printable(info.summary, false);
  for (Parameter& p : info.parameters) p.help = printable(p.help, false);
}

Outcome<void> check_parameter(const std::string& where, const Parameter& p) {
  const auto refused = [&](std::string_view what) {
    return failed(Problem::plugin_refused, fmt::format("{}: parameter '{}' {}", where, p.name, what));
  };
  if (!is_name(p.name)) return refused("has no name that can be: letters, digits, '-', '_' and '.', at most 64");
  if (p.kind == Parameter::Kind::choice && p.choices.empty()) return refused("is a choice of nothing");
  if (!shows(p)) return refused("has a value with control characters, or one that is not UTF-8");
  if (p.required && !p.otherwise.empty()) return refused("is required and has a value where none is given");
  if (!p.required && !p.otherwise.empty() && !wrong_value(p, p.otherwise).empty())
    return refused(fmt::format("would not take its own value '{}'", p.otherwise));
  return {};
}

Outcome<void> check_variant(const std::string& plugin, const VariantInfo& info) {
  const std::string where = fmt::format("plug-in '{}', variant '{}'", plugin, info.id);
  if (!is_name(info.id))
    return failed(Problem::plugin_refused, where + ": a name is letters, digits, '-', '_' and '.', at most 64");
  if (info.parameters.size() > Framework::parameters_max)
    return failed(Problem::plugin_refused, fmt::format("{}: {} parameters; at most {}", where, info.parameters.size(),
                                                       Framework::parameters_max));
  std::set<std::string_view> seen;
  for (const Parameter& p : info.parameters) {
    if (auto checked = check_parameter(where, p); !checked) return checked;
    if (!seen.insert(p.name).second)
      return failed(Problem::plugin_refused, fmt::format("{}: parameter '{}' is there twice", where, p.name));
  }
  return {};
}

Outcome<void> check_variants(const std::string& plugin, const std::vector<VariantInfo>& variants) {
  if (variants.empty()) return failed(Problem::plugin_refused, fmt::format("plug-in '{}' has no variant", plugin));
  if (variants.size() > Framework::variants_max)
    return failed(Problem::plugin_refused, fmt::format("plug-in '{}' has {} variants; at most {}", plugin,
                                                       variants.size(), Framework::variants_max));
  std::set<std::string_view> seen;
  for (const VariantInfo& info : variants) {
    if (auto checked = check_variant(plugin, info); !checked) return checked;
    if (!seen.insert(info.id).second)
      return failed(Problem::plugin_refused, fmt::format("plug-in '{}' has the variant '{}' twice", plugin, info.id));
  }
  return {};
}

/// The configuration with the default values added. Errors: configuration_error.
Outcome<Config> checked_config(const Framework::Entry& entry, const Config& given) {
  const auto wrong = [&](std::string_view key, std::string_view what) {
    return failed(Problem::configuration_error,
                  fmt::format("{}/{}: '{}': {}", entry.plugin, entry.variant.id, key, what));
  };
  Config out;
  for (const Parameter& p : entry.variant.parameters) {
    const auto at = given.find(p.name);
    if (at == given.end() && p.required) return wrong(p.name, "is required" + (p.help.empty() ? "" : ": " + p.help));
    if (at == given.end() && p.otherwise.empty()) continue;
    const std::string& value = at == given.end() ? p.otherwise : at->second;
    if (const std::string what = wrong_value(p, value); !what.empty())
      return wrong(p.name, fmt::format("'{}' cannot be; {}", value.substr(0, 60), what));
    out.emplace(p.name, value);
  }
  for (const auto& [key, value] : given) {
    if (out.contains(key)) continue;
    std::vector<std::string_view> names;
    for (const Parameter& p : entry.variant.parameters) names.push_back(p.name);
    return wrong(key.substr(0, 60), names.empty() ? std::string("there are no parameters")
                                                  : fmt::format("is unknown; there are {}", fmt::join(names, ", ")));
  }
  return out;
}

}  // namespace

Framework::Framework() = default;
Framework::~Framework() = default;
Framework::Framework(Framework&&) noexcept = default;
Framework& Framework::operator=(Framework&&) noexcept = default;

Outcome<void> Framework::add(std::unique_ptr<Plugin> plugin) {
  return guarded([&]() -> Outcome<void> {
    if (!plugin) return failed(Problem::plugin_refused, "there is no plug-in");
    if (plugins_.size() == plugins_max)
      return failed(Problem::resource_exhaustion, fmt::format("{} plug-ins are the most", plugins_max));
    const std::string id = plugin->id(), version = printable(plugin->version(), false);
    if (!is_name(id))
      return failed(
          Problem::plugin_refused,
          fmt::format("'{}': a plug-in's id is letters, digits, '-', '_' and '.', at most 64", id.substr(0, 80)));
    if (version.empty()) return failed(Problem::plugin_refused, fmt::format("plug-in '{}' has no version", id));
    for (const Entry& entry : entries_)
      if (entry.plugin == id)
        return failed(Problem::plugin_refused,
                      fmt::format("plug-in '{}' {} is there already, as {}", id, version, entry.version),
                      "take one of the two out");
    std::vector<VariantInfo> variants = plugin->variants();
    if (auto checked = check_variants(id, variants); !checked) return checked;
    if (auto started = plugin->initialize(); !started) return started;
    std::for_each(variants.begin(), variants.end(), make_printable);
    for (VariantInfo& info : variants)
      entries_.push_back({.plugin = id, .version = version, .variant = std::move(info)});
    plugins_.push_back(std::move(plugin));
    return {};
  });
}

Outcome<const Framework::Entry*> Framework::find(std::string_view plugin, std::string_view variant) const {
  std::vector<std::string> all, own;
  for (const Entry& entry : entries_) {
    if (entry.plugin == plugin && entry.variant.id == variant) return &entry;
    if (entry.plugin == plugin) own.push_back(entry.variant.id);
    all.push_back(entry.plugin + "/" + entry.variant.id);
  }
  if (!own.empty())
    return failed(Problem::variant_not_available,
                  fmt::format("plug-in '{}' has no variant '{}'", plugin.substr(0, 64), variant.substr(0, 64)),
                  fmt::format("there are {}", fmt::join(own, ", ")));
  return failed(
      Problem::plugin_not_found, fmt::format("no plug-in '{}'", plugin.substr(0, 64)),
      all.empty() ? std::string("no plug-in is registered") : fmt::format("there are {}", fmt::join(all, ", ")));
}

Outcome<std::unique_ptr<Variant>> Framework::make(std::string_view plugin, std::string_view variant, Role role,
                                                  const Config& config) const {
  const auto entry = find(plugin, variant);
  if (!entry) return tl::unexpected(entry.error());
  auto checked = checked_config(**entry, config);
  if (!checked) return tl::unexpected(checked.error());
  for (const auto& candidate : plugins_) {
    if (candidate->id() != plugin) continue;
    auto made = guarded([&] { return candidate->make(variant, role, *checked); });
    if (made && !*made)
      return failed(Problem::plugin_refused, fmt::format("plug-in '{}' made no variant and no error", plugin));
    return made;
  }
  return failed(Problem::plugin_not_found, fmt::format("no plug-in '{}'", plugin));
}

}  // namespace parley::neg
