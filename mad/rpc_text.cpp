// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/rpc_text.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "mad/path_text.hpp"
#include "mad/words.hpp"
#include "wire/mad/rpc.hpp"

namespace parley::mad {

namespace {

using wire::mad::all_layouts;
using wire::mad::class_rows;
using wire::mad::ClassFacts;
using wire::mad::Components;
using wire::mad::components_of;
using wire::mad::facts_of;
using wire::mad::facts_of_class;
using wire::mad::Field;
using wire::mad::find_field;
using wire::mad::Kind;
using wire::mad::KindFacts;
using wire::mad::Layout;
using wire::mad::legal_rows;
using wire::mad::LegalRow;
using wire::mad::Method;
using wire::mad::MgmtClass;
using wire::mad::Name;
using wire::mad::same_rpcs;
using wire::mad::StructureId;

bool same_word(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

struct ClassMethod {
  MgmtClass mgmt_class;
  Method method;
};

/// "SubnAdmGetTable" is the class's prefix and the method's name.
std::optional<ClassMethod> find_method(std::string_view name) {
  for (const ClassFacts& facts : class_rows) {
    if (facts.mgmt_class == MgmtClass::subn_directed || name.size() <= facts.prefix.size() ||
        !same_word(name.substr(0, facts.prefix.size()), facts.prefix))
      continue;
    for (const Name& method : facts_of(Kind::method).names)
      if (method.value < PARLEY_IB_MAD_RESPONSE && same_word(name.substr(facts.prefix.size()), method.text))
        return ClassMethod{facts.mgmt_class, static_cast<Method>(method.value)};
  }
  return std::nullopt;
}

const Layout& layout_of(StructureId id) { return *all_layouts()[static_cast<std::size_t>(id)]; }

std::string no_member(const Layout& layout, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Field& field : layout.fields)
    if (!field.reserved()) names.emplace_back(field.name);
  return fmt::format("{} has no member {}; there are: {}", layout.name, quoted(name), fmt::join(names, ", "));
}

/// Finds "name" or "name[3]" in a structure. Returns what is wrong, or nothing.
std::string find_element(const Layout& layout, std::string_view word, const Field*& field, std::size_t& index,
                         bool& indexed) {
  const std::size_t open = word.find('[');
  const std::string_view name = word.substr(0, open);
  field = find_field(layout, name);
  if (field == nullptr) return no_member(layout, name);
  indexed = open != std::string_view::npos;
  if (!indexed) return {};
  const auto given = word.ends_with(']') ? number_in(word.substr(open + 1, word.size() - open - 2)) : std::nullopt;
  if (!given || *given >= field->count)
    return fmt::format("{} of {} has elements 0 to {}: {}[0]", name, layout.name, field->count - 1, name);
  index = *given;
  return {};
}

std::string find_place(const Layout& layout, std::string_view name, MemberPlace& out) {
  const std::size_t dot = name.find('.');
  bool outer_indexed = false;
  std::string wrong = find_element(layout, name.substr(0, dot), out.outer, out.outer_index, outer_indexed);
  if (!wrong.empty()) return wrong;
  out.field = out.outer;
  if (dot == std::string_view::npos) {
    if (out.outer->nested != nullptr)
      return fmt::format("{} is a structure: name one of its members, as in {}.{}", out.outer->name, out.outer->name,
                         out.outer->nested->fields.front().name);
    out.index = out.outer_index;
    out.indexed = outer_indexed;
    return {};
  }
  if (out.outer->nested == nullptr) return fmt::format("{} of {} has no members", out.outer->name, layout.name);
  return find_element(*out.outer->nested, name.substr(dot + 1), out.field, out.index, out.indexed);
}

/// The value of a name of the field's kind (for masks: of names joined with '+'), or of a number. Names come first,
/// because MTUs have names that look like numbers.
std::optional<std::uint64_t> named_value(const Field& field, std::string_view text) {
  if (field.kind == Kind::flag) {
    if (text == "true" || text == "yes") return 1;
    if (text == "false" || text == "no") return 0;
  }
  const KindFacts& facts = facts_of(field.kind);
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = facts.mask ? std::min(text.find('+', at), text.size()) : text.size();
    const auto found = std::find_if(facts.names.begin(), facts.names.end(),
                                    [&](const Name& n) { return same_word(n.text, text.substr(at, end - at)); });
    if (found == facts.names.end()) return number_in(text);
    sum |= found->value;
    at = end + 1;
  }
  return sum;
}

std::string put_named(const Field& field, std::string_view text, MutBytes octets, std::size_t index) {
  const auto value = named_value(field, text);
  const std::uint64_t most = field.width >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << field.width) - 1;
  if (value && *value <= most) {
    wire::mad::put_number(octets, field, index, *value);
    return {};
  }
  std::vector<std::string_view> names;
  for (const Name& name : facts_of(field.kind).names) names.push_back(name.text);
  return fmt::format("{} must be a number from 0 to {}{}, not {}", field.name, most,
                     names.empty() ? std::string() : fmt::format(" or one of: {}", fmt::join(names, ", ")),
                     quoted(text));
}

std::string put_octets(const Field& field, std::string_view text, MutBytes octets) {
  const MutBytes place = octets.subspan(field.octet(), field.count);
  if (text.size() % 2 != 0 || text.size() / 2 > place.size())
    return fmt::format("{} must be at most {} octets as pairs of hexadecimal digits", field.name, place.size());
  std::fill(place.begin() + static_cast<std::ptrdiff_t>(text.size() / 2), place.end(), std::uint8_t{0});
  for (std::size_t i = 0; i < text.size() / 2; ++i) {
    const auto octet = number_in("0x" + std::string(text.substr(2 * i, 2)));
    if (!octet) return fmt::format("{} must be hexadecimal digits, not {}", field.name, quoted(text));
    place[i] = static_cast<std::uint8_t>(*octet);
  }
  return {};
}

std::string put_value(const Field& field, std::size_t index, std::string_view text, MutBytes octets) {
  switch (field.kind) {
    case Kind::gid: {
      const auto given = parse_path(text);
      if (!given || !given->gid)
        return fmt::format("{} must be a GID (fe80::2:c903:0:1491) or a port's GUID, not {}", field.name, quoted(text));
      const MutBytes place = octets.subspan(field.octet() + index * 16, 16);
      std::copy(given->gid->begin(), given->gid->end(), place.begin());
      return {};
    }
    case Kind::text: {
      if (text.size() > field.count) return fmt::format("{} has at most {} octets", field.name, field.count);
      const MutBytes place = octets.subspan(field.octet(), field.count);
      std::fill(std::copy(text.begin(), text.end(), place.begin()), place.end(), std::uint8_t{0});
      return {};
    }
    case Kind::octets: return put_octets(field, text, octets);
    default: return put_named(field, text, octets, index);
  }
}

/// IBA C15-0.1.27: an element has its own bit if the array has one bit per element.
Components bits_of(const Layout& record, const MemberPlace& place) {
  const std::size_t inner = place.field->bit;
  Components bits = place.field == place.outer ? components_of(record, place.outer->bit)
                                               : components_of(record, place.outer->bit, &inner);
  if (place.indexed && bits.count == place.field->count && bits.count > 1)
    bits = {static_cast<std::uint8_t>(bits.first + place.index), 1};
  return bits;
}

/// The class of a vendor or of an application, whose range must have the request's method names. Returns what is wrong,
/// or nothing.
std::string set_class(Rpc& rpc, std::string_view value) {
  const std::string_view prefix = facts_of_class(static_cast<std::uint32_t>(rpc.mgmt_class))->prefix;
  const auto given = number_in(value);
  const ClassFacts* row = given && *given <= 0xFF ? facts_of_class(static_cast<std::uint32_t>(*given)) : nullptr;
  if (row != nullptr && row->prefix == prefix) {
    rpc.mgmt_class = row->mgmt_class;
    rpc.class_number = static_cast<std::uint8_t>(*given);
    return {};
  }
  std::vector<std::string> ranges;
  for (const ClassFacts& facts : class_rows)
    if (facts.prefix == prefix)
      ranges.push_back(fmt::format("0x{:02X} to 0x{:02X}", static_cast<std::uint32_t>(facts.mgmt_class), facts.last));
  const std::string other = row == nullptr ? std::string() : fmt::format(": its requests begin with {}", row->prefix);
  return fmt::format("class must be {}, not {}{}", fmt::join(ranges, " or "), quoted(value), other);
}

/// Sets a value of the request instead of its attribute; `mine`: it has one of that name. Returns what is wrong, or
/// nothing.
std::string set_own(Rpc& rpc, std::string_view name, std::string_view value, bool& mine) {
  const auto given = number_in(value);
  const auto take = [&](auto& member, std::uint64_t most) -> std::string {
    mine = true;
    if (!given || *given > most)
      return fmt::format("{} must be a number from 0 to {}, not {}", name, most, quoted(value));
    member = static_cast<std::remove_reference_t<decltype(member)>>(*given);
    return {};
  };
  const bool vendor = rpc.mgmt_class == MgmtClass::vendor || rpc.mgmt_class == MgmtClass::vendor_oui;
  const ClassFacts& facts = *facts_of_class(static_cast<std::uint32_t>(rpc.mgmt_class));
  if (name == "modifier") return take(rpc.modifier, 0xFFFFFFFF);
  if (name == "key" && (rpc.mgmt_class == MgmtClass::bm || rpc.mgmt_class == MgmtClass::cc))
    return take(rpc.key, ~std::uint64_t{0});
  if (name == "class" && facts.is_range()) {
    mine = true;
    return set_class(rpc, value);
  }
  if (name == "version" && facts.version == 0) return take(rpc.class_version, 0xFF);
  if (name == "oui" && vendor) return take(rpc.oui, 0xFFFFFF);
  return {};
}

}  // namespace

std::vector<std::string> method_names() {
  std::vector<std::string> out;
  for (const ClassFacts& facts : class_rows) {
    if (facts.mgmt_class == MgmtClass::subn_directed || facts.mgmt_class == MgmtClass::vendor_oui) continue;
    for (const Name& method : facts_of(Kind::method).names) {
      const std::string name = std::string(facts.prefix) + std::string(method.text);
      if (method.value < PARLEY_IB_MAD_RESPONSE && !attributes_of(name).empty()) out.push_back(name);
    }
  }
  return out;
}

std::vector<std::string_view> attributes_of(std::string_view method) {
  std::vector<std::string_view> out;
  const auto found = find_method(method);
  if (!found) return out;
  for (const LegalRow& row : legal_rows)
    if (row.mgmt_class == same_rpcs(found->mgmt_class) && row.has(found->method))
      out.push_back(layout_of(row.structure).name);
  return out;
}

tl::expected<RpcText, std::string> parse_rpc(std::string_view method, std::string_view attribute) {
  const auto found = find_method(method);
  if (!found || attributes_of(method).empty())
    return tl::unexpected(fmt::format("no request {}; there are: {}", quoted(method), fmt::join(method_names(), ", ")));
  for (const LegalRow& row : legal_rows) {
    const Layout& layout = layout_of(row.structure);
    if (row.mgmt_class != same_rpcs(found->mgmt_class) || !row.has(found->method) || !same_word(layout.name, attribute))
      continue;
    RpcText out;
    out.rpc.mgmt_class = found->mgmt_class;
    out.rpc.method = found->method;
    out.rpc.attribute = layout.attribute;
    out.attribute = &layout;
    out.body.resize(layout.octets);
    return out;
  }
  return tl::unexpected(fmt::format("{} has no attribute {}; there are: {}", method, quoted(attribute),
                                    fmt::join(attributes_of(method), ", ")));
}

tl::expected<MemberPlace, std::string> find_member(const Layout& layout, std::string_view name) {
  MemberPlace place;
  if (std::string wrong = find_place(layout, name, place); !wrong.empty()) return tl::unexpected(std::move(wrong));
  return place;
}

tl::expected<MemberPlace, std::string> set_member(const Layout& layout, MutBytes octets, std::string_view name,
                                                  std::string_view value) {
  auto place = find_member(layout, name);
  if (!place) return place;
  const MutBytes inner = octets.subspan(place->base(), place->octets(layout));
  if (std::string wrong = put_value(*place->field, place->index, value, inner); !wrong.empty())
    return tl::unexpected(std::move(wrong));
  return place;
}

std::string set_field(RpcText& request, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) return fmt::format("a member is set as NAME=VALUE, not {}", quoted(assignment));
  const std::string_view name = assignment.substr(0, equals), value = assignment.substr(equals + 1);
  bool mine = false;
  if (std::string wrong = set_own(request.rpc, name, value, mine); mine) return wrong;
  const auto place = set_member(*request.attribute, request.body, name, value);
  if (!place) return place.error();
  if (request.rpc.mgmt_class == MgmtClass::subn_adm)
    request.rpc.component_mask |= bits_of(*request.attribute, *place).mask();
  return {};
}

}  // namespace parley::mad
