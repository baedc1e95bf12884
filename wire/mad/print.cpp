// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/mad/print.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/bits.hpp"
#include "base/escape.hpp"
#include "base/text.hpp"

namespace parley::wire::mad {

namespace {

bool is_string(const Field& field) { return field.kind == Kind::text || field.kind == Kind::octets; }

ConstBytes all_octets(const Field& field, ConstBytes octets) { return octets.subspan(field.octet(), field.count); }

std::string text_of(ConstBytes octets) {
  return std::string(octets.begin(), std::find(octets.begin(), octets.end(), 0));
}

/// Digits as wide as the field.
std::string hex_value(const Field& field, std::uint64_t value) {
  return fmt::format("0x{:0{}X}", value, (field.width + 3) / 4);
}

/// 4.096 us * 2^value (IBA §13.4.6.2, §12.7.34).
std::string exponent_text(std::uint64_t value) {
  if (value > 40) return std::to_string(value);
  return fmt::format("{} ({})", value, brief_duration_text(Duration(std::int64_t{4096} << value)));
}

std::vector<std::string_view> bit_names(const KindFacts& facts, std::uint64_t& left) {
  std::vector<std::string_view> out;
  for (const Name& name : facts.names) {
    if ((left & name.value) == 0) continue;
    out.push_back(name.text);
    left &= ~std::uint64_t{name.value};
  }
  return out;
}

std::string mask_text(const Field& field, std::uint64_t value) {
  std::uint64_t left = value;
  const auto names = bit_names(facts_of(field.kind), left);
  std::string text = fmt::format("{} ({}", hex_value(field, value), fmt::join(names, ", "));
  if (names.empty()) return hex_value(field, value);
  return text + (left != 0 ? fmt::format(", {})", hex_value(field, left)) : ")");
}

std::string reserved_text(const Field& field, ConstBytes octets) {
  std::string bits;
  for (std::size_t at = 0; at < field.width; at += 8) {
    const std::size_t width = std::min<std::size_t>(8, field.width - at);
    bits += fmt::format("{:02x}", read_bits(octets, field.bit + at, width));
  }
  return bits;
}

bool is_zero(const Field& field, ConstBytes octets) {
  return reserved_text(field, octets).find_first_not_of('0') == std::string::npos;
}

std::string number_text(const Field& field, std::uint64_t value) {
  const KindFacts& facts = facts_of(field.kind);
  if (facts.mask) return mask_text(field, value);
  if (!facts.names.empty()) {
    const std::string_view name = name_of(field.kind, value);
    return name.empty() ? std::to_string(value) : fmt::format("{} ({})", name, value);
  }
  if (!facts.unit.empty())
    return facts.factor == 1 ? fmt::format("{} {}", value, facts.unit)
                             : fmt::format("{} x {} {}", value, facts.factor, facts.unit);
  switch (field.kind) {
    case Kind::hex:
    case Kind::guid:
    case Kind::service_data:
    case Kind::path_service_id: return hex_value(field, value);
    case Kind::exponent: return exponent_text(value);
    case Kind::flag: return value != 0 ? "yes" : "no";
    default: return std::to_string(value);
  }
}

/// Whether the field is cut off: the beginning of a nested structure is missing, or the end of any other field.
bool is_cut(const Field& field, ConstBytes octets) {
  if (field.nested != nullptr && field.count == 1) return field.octet() >= octets.size();
  return (field.bit + field.bits() + 7) / 8 > octets.size();
}

/// The octets of a nested structure, as far as they are present.
ConstBytes part_at(ConstBytes octets, const Field& field, std::size_t index) {
  const std::size_t at = field.octet() + index * field.width / 8;
  return octets.subspan(at, std::min<std::size_t>(field.width / 8U, octets.size() - at));
}

/// The members of a structure, nested ones too, one at a time.
class Walk {
 public:
  struct Step {
    const Field& field;
    std::string path;   // "node_info.num_ports", "entry[3].ccti_timer"
    std::size_t octet;  // where its structure begins in the outermost one
    ConstBytes octets;  // of that structure
    std::size_t index;  // in its array
  };

  template <class Take>
  static void go(const Layout& layout, ConstBytes octets, const std::string& prefix, std::size_t at, const Take& take) {
    for (const Field& field : layout.fields) {
      if (is_cut(field, octets)) return;
      if (field.reserved()) {
        if (!is_zero(field, octets)) take(Step{field, fmt::format("{}reserved_{}", prefix, field.bit), at, octets, 0});
        continue;
      }
      const bool array = field.count > 1 && !is_string(field);
      for (std::size_t i = 0; i < (array ? field.count : 1U); ++i) {
        const std::string path = prefix + field.name + (array ? fmt::format("[{}]", i) : std::string());
        if (field.nested != nullptr)
          go(*field.nested, part_at(octets, field, i), path + ".", at + field.octet() + i * field.width / 8, take);
        else
          take(Step{field, path, at, octets, i});
      }
    }
  }
};

/// The first octet's number, and at most 8 of the octets that hold the member.
std::string place_text(const Walk::Step& step) {
  const Field& field = step.field;
  const bool all = is_string(field) || field.reserved();
  const std::size_t bit = field.bit + (all ? 0 : step.index * field.width), first = bit / 8;
  const std::size_t last = (bit + (all ? field.bits() : field.width) + 7) / 8;
  const ConstBytes octets = step.octets.subspan(first, last - first);
  const std::string shown = hex_digits(octets.first(std::min<std::size_t>(8, octets.size())));
  return fmt::format("{:>4}  {:<18}", step.octet + first, octets.size() > 8 ? shown + ".." : shown);
}

Json number_json(const Field& field, std::uint64_t value) {
  const KindFacts& facts = facts_of(field.kind);
  if (facts.mask) {
    std::uint64_t left = value;
    Json names = Json::array();
    for (const std::string_view name : bit_names(facts, left)) names.push_back(name);
    return {{"value", value}, {"names", std::move(names)}};
  }
  if (!facts.names.empty()) {
    const std::string_view name = name_of(field.kind, value);
    return {{"value", value}, {"name", name.empty() ? Json() : Json(name)}};
  }
  switch (field.kind) {
    case Kind::hex:
    case Kind::guid:
    case Kind::service_data:
    case Kind::path_service_id: return hex_value(field, value);
    case Kind::exponent:
      return {{"value", value},
              {"us", value > 40 ? Json() : Json(static_cast<double>(std::int64_t{4096} << value) / 1e3)}};
    case Kind::flag: return value != 0;
    default: return value;
  }
}

Json element_json(const Field& field, ConstBytes octets, std::size_t index) {
  if (field.nested != nullptr) return json_of(*field.nested, part_at(octets, field, index));
  if (field.kind == Kind::gid) return value_text(field, octets, index);
  return number_json(field, number_at(octets, field, index));
}

Json field_json(const Field& field, ConstBytes octets) {
  if (field.kind == Kind::text) return text_of(all_octets(field, octets));
  if (field.kind == Kind::octets) return hex_digits(all_octets(field, octets));
  if (field.count == 1) return element_json(field, octets, 0);
  Json out = Json::array();
  for (std::size_t i = 0; i < field.count; ++i) out.push_back(element_json(field, octets, i));
  return out;
}

}  // namespace

std::string value_text(const Field& field, ConstBytes octets, std::size_t index) {
  switch (field.kind) {
    case Kind::reserved: return reserved_text(field, octets);
    case Kind::structure: return hex_digits(octets_at(octets, field, index));
    case Kind::text: return fmt::format("\"{}\"", printable(text_of(all_octets(field, octets)), true));
    case Kind::octets: return hex_digits(all_octets(field, octets));
    case Kind::gid: {
      Gid gid{};
      const ConstBytes in = octets_at(octets, field, index);
      std::copy(in.begin(), in.end(), gid.begin());
      return gid_text(gid);
    }
    default: return number_text(field, number_at(octets, field, index));
  }
}

std::string dump(const Layout& layout, ConstBytes octets) {
  std::string out;
  Walk::go(layout, octets, "", 0, [&out](const Walk::Step& step) {
    out += fmt::format("{}  {:<40} {}\n", place_text(step), step.path, value_text(step.field, step.octets, step.index));
  });
  return out;
}

std::string dotted(const Layout& layout, ConstBytes octets, std::string_view prefix) {
  std::string out;
  Walk::go(layout, octets, std::string(prefix), 0, [&out](const Walk::Step& step) {
    out += fmt::format("{}={}\n", step.path, value_text(step.field, step.octets, step.index));
  });
  return out;
}

Json json_of(const Layout& layout, ConstBytes octets) {
  Json out = Json::object();
  Json reserved = Json::object();
  bool any = false;
  for (const Field& field : layout.fields) {
    if (is_cut(field, octets)) break;
    if (!field.reserved()) {
      out[field.name] = field_json(field, octets);
    } else if (!is_zero(field, octets)) {
      reserved[std::to_string(field.bit)] = reserved_text(field, octets);
      any = true;
    }
  }
  if (any) out["reserved"] = std::move(reserved);
  return out;
}

}  // namespace parley::wire::mad
