// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/mad/decode.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "wire/mad/cc.hpp"
#include "wire/mad/sa.hpp"
#include "wire/mad/smp.hpp"

namespace parley::wire::mad {

namespace {

const Layout& layout_of(StructureId id) { return *all_layouts()[static_cast<std::size_t>(id)]; }

/// The octet at which the class's header ends and the data begins.
std::size_t header_end(const Decoded& decoded) {
  return decoded.data != 0 ? decoded.data : std::size_t{decoded.format.layout->octets};
}

bool has_table(Method method) {
  return method == Method::get_table_resp || method == Method::get_trace_resp || method == Method::get_multi_resp;
}

/// Octets of records in the datagram. In a last segment RMPP's payload length counts them and the 20 octets of the
/// class's header (IBA §13.6.2.1). 0 for segments after the first: they begin in the middle of a record.
std::size_t table_octets(ConstBytes mad) {
  const auto header = RmppHeader::parse(mad);
  const std::size_t there = mad.size() - SaHeader::size;
  if (!header || (header->get(RmppHeader::rmpp_flags) & rmpp_flags::active) == 0) return there;
  if (header->get(RmppHeader::rmpp_type) != RmppType::data || header->get(RmppHeader::data1) > 1) return 0;
  const bool last = (header->get(RmppHeader::rmpp_flags) & rmpp_flags::last) != 0;
  const std::size_t payload = header->get(RmppHeader::data2), header_part = SaHeader::size - RmppHeader::size;
  if (!last || payload < header_part) return last ? 0 : there;
  return std::min(there, payload - header_part);
}

/// IBA §15.2.1.1: a record begins every `attribute_offset` times 8 octets.
void add_records(Decoded& out, const Layout& layout, ConstBytes mad) {
  const auto header = SaHeader::parse(mad);
  if (!header) return;
  const std::size_t stride = std::size_t{header->get(SaHeader::attribute_offset)} * 8;
  if (stride < layout.octets) return;
  const std::size_t octets = table_octets(mad);
  for (std::size_t at = 0; at + layout.octets <= octets; at += stride)
    out.bodies.push_back({&layout, out.data + at, mad.subspan(out.data + at, layout.octets)});
}

/// IBA §14.2.5.1: the layout of a subnet management trap's DataDetails; null if the trap is unknown.
const Layout* details_of(std::uint16_t trap) {
#define PARLEY_X(first, last, structure) \
  if (trap >= first && trap <= last) return &structure::layout;
  PARLEY_MAD_TRAP_DETAILS(PARLEY_X)
#undef PARLEY_X
  return nullptr;
}

void add_details(Decoded& out) {
  if (out.mgmt_class != MgmtClass::subn && out.mgmt_class != MgmtClass::subn_directed &&
      out.mgmt_class != MgmtClass::subn_adm)
    return;
  for (const Part& body : out.bodies) {
    if (body.layout != &Notice::layout) continue;
    const auto notice = Notice::parse(body.view);
    if (!notice || !notice->get(Notice::is_generic)) continue;
    const std::size_t at = Notice::data_details.bit / 8;
    if (const Layout* layout = details_of(notice->get(Notice::trap_number)))
      out.details.push_back({layout, body.octet + at, body.view.subspan(at, layout->octets)});
  }
}

std::string method_name(const Decoded& decoded) {
  const std::string_view name = name_of(Kind::method, static_cast<std::uint32_t>(decoded.method));
  return name.empty() ? fmt::format("method 0x{:02X}", static_cast<std::uint32_t>(decoded.method)) : std::string(name);
}

std::string attribute_name(const Decoded& decoded) {
  const Layout* layout = attribute_layout(decoded.mgmt_class, decoded.attribute);
  if (!decoded.bodies.empty()) layout = decoded.bodies.front().layout;
  return layout != nullptr ? std::string(layout->name) : fmt::format("attribute 0x{:04X}", decoded.attribute);
}

/// All octets from the data on. In a directed SMP they include the paths after the data.
ConstBytes rest_of(const Decoded& decoded, ConstBytes mad) {
  const std::size_t end = std::min(header_end(decoded), mad.size());
  return mad.subspan(end);
}

/// Calls `take` for each member of the format except its data.
template <class Take>
void each_header_field(const Decoded& decoded, const Take& take) {
  for (const Field& field : decoded.format.layout->fields)
    if (std::string_view(field.name) != "data") take(field);
}

/// A format as a layout without its data.
struct Headers {
  std::vector<Field> fields;
  Layout layout;
  explicit Headers(const Decoded& decoded) : layout(*decoded.format.layout) {
    each_header_field(decoded, [this](const Field& field) { fields.push_back(field); });
    layout.fields = fields;
  }
  Headers(const Headers&) = delete;
  Headers& operator=(const Headers&) = delete;
};

}  // namespace

const Layout* attribute_layout(MgmtClass mgmt_class, std::uint16_t attribute, std::uint8_t first) {
  const ClassFacts* facts = facts_of_class(static_cast<std::uint32_t>(mgmt_class));
  if (attribute == 0 || facts == nullptr) return nullptr;
  const MgmtClass wanted = same_rpcs(facts->mgmt_class);
  if (wanted == MgmtClass::vendor && attribute > PARLEY_MAD_COMMON_ATTRIBUTE_LAST)
    return nullptr;  // depends on the vendor
  if (wanted == MgmtClass::cc && attribute == SwitchCongestionLog::attribute && first == 2)
    return &CaCongestionLog::layout;
  for (const LegalRow& row : legal_rows) {
    const Layout& layout = layout_of(row.structure);
    if (row.mgmt_class == wanted && layout.attribute == attribute) return &layout;
  }
  return nullptr;
}

Result<Decoded> decode(ConstBytes mad) {
  const auto header = MadHeader::parse(mad);
  if (!header) return fail(Errc::truncated);
  Decoded out;
  out.mgmt_class = header->get(MadHeader::mgmt_class);
  out.method = header->get(MadHeader::method);
  out.attribute = header->get(MadHeader::attribute_id);
  out.status = header->get(MadHeader::status);
  out.base_version = header->get(MadHeader::base_version);
  out.class_version = header->get(MadHeader::class_version);
  const ClassFacts* facts = facts_of_class(static_cast<std::uint32_t>(out.mgmt_class));
  const Layout* format = facts != nullptr ? &layout_of(facts->format) : &MadHeader::layout;
  if (facts != nullptr && facts->has_version(out.class_version) && out.base_version == PARLEY_IB_MAD_BASE_VERSION)
    out.data = facts->data;
  else
    format = &MadHeader::layout;  // another version may have other structures
  out.format = {format, 0, mad.first(std::min<std::size_t>(format->octets, mad.size()))};
  if (out.data == 0 || mad.size() <= out.data) return out;
  const Layout* layout = attribute_layout(out.mgmt_class, out.attribute, mad[out.data]);
  if (layout == nullptr || layout->octets == 0) return out;
  if (has_table(out.method) && out.mgmt_class == MgmtClass::subn_adm)
    add_records(out, *layout, mad);
  else if (mad.size() - out.data >= layout->octets)
    out.bodies.push_back({layout, out.data, mad.subspan(out.data, layout->octets)});
  add_details(out);
  return out;
}

std::string title(const Decoded& decoded) {
  const auto number = static_cast<std::uint32_t>(decoded.mgmt_class);
  const ClassFacts* facts = facts_of_class(number);
  const std::string method = method_name(decoded), attribute = attribute_name(decoded);
  if (facts == nullptr) return fmt::format("class 0x{:02X} {}({})", number, method, attribute);
  const bool range = facts->is_range();
  return fmt::format("{}{}{}{}({})", facts->prefix, range ? fmt::format(" 0x{:02X} ", number) : "",
                     method.starts_with("method") && !range ? " " : "", method, attribute);
}

// IBA §13.4.7; the upper octet is class-specific.
std::string status_text(const Decoded& decoded) {
  const bool directed = decoded.mgmt_class == MgmtClass::subn_directed;
  const std::uint32_t status = directed ? decoded.status & 0x7FFFU : decoded.status;  // IBA §14.2.1.2: bit 15 is D
  std::vector<std::string> parts;
  if ((status & PARLEY_MAD_STATUS_BUSY) != 0) parts.push_back("busy");
  if ((status & PARLEY_MAD_STATUS_REDIRECT) != 0) parts.push_back("redirection required");
  std::uint32_t left = status & ~std::uint32_t{PARLEY_MAD_STATUS_BUSY | PARLEY_MAD_STATUS_REDIRECT};
  const auto take = [&](std::uint32_t mask, std::uint32_t value, std::string_view text) {
    if (value == 0 || (left & mask) != value) return;
    parts.emplace_back(text);
    left &= ~mask;
  };
#define PARLEY_X(name, value, text) take(PARLEY_MAD_STATUS_CODE, value, text);
  PARLEY_MAD_STATUSES(PARLEY_X)
#undef PARLEY_X
  if (decoded.mgmt_class == MgmtClass::subn_adm) {
#define PARLEY_X(name, value, text) take(0xFF00, value << 8, text);
    PARLEY_MAD_SA_STATUSES(PARLEY_X)
#undef PARLEY_X
  }
  if (left != 0) parts.push_back(fmt::format("0x{:04X}", left));
  return fmt::format("{}", fmt::join(parts, ", "));
}

// IBA §15.2.1.1.
std::vector<std::string> components(const Decoded& decoded) {
  const auto header = SaHeader::parse(decoded.format.view);
  if (decoded.format.layout != &SaFormat::layout || !header) return {};
  const Layout* record = attribute_layout(decoded.mgmt_class, decoded.attribute);
  return record != nullptr ? component_names(*record, header->get(SaHeader::component_mask))
                           : std::vector<std::string>();
}

std::string dump(const Decoded& decoded, ConstBytes mad) {
  std::string out = title(decoded) + "\n";
  if (const auto names = components(decoded); !names.empty()) out += fmt::format("by {}\n", fmt::join(names, ", "));
  if (const std::string status = status_text(decoded); !status.empty()) out += fmt::format("status: {}\n", status);
  const Headers headers(decoded);
  out += fmt::format("{}\n{}", headers.layout.name, dump(headers.layout, decoded.format.view));
  for (const Part& body : decoded.bodies)
    out += fmt::format("{} at octet {}\n{}", body.layout->name, body.octet, dump(*body.layout, body.view));
  for (const Part& part : decoded.details)
    out += fmt::format("{} at octet {}\n{}", part.layout->name, part.octet, dump(*part.layout, part.view));
  const ConstBytes rest = rest_of(decoded, mad);
  if (decoded.bodies.empty() && !rest.empty()) out += fmt::format("data\n  {}\n", hex_digits(rest));
  return out;
}

std::string dotted(const Decoded& decoded, ConstBytes mad) {
  const Headers headers(decoded);
  std::string out = dotted(headers.layout, decoded.format.view);
  for (std::size_t i = 0; i < decoded.bodies.size(); ++i) {
    const Part& body = decoded.bodies[i];
    const std::string number = has_table(decoded.method) ? fmt::format("[{}]", i) : std::string();
    out += dotted(*body.layout, body.view, fmt::format("{}{}.", body.layout->name, number));
  }
  for (const Part& part : decoded.details)
    out += dotted(*part.layout, part.view, fmt::format("{}.", part.layout->name));
  const ConstBytes rest = rest_of(decoded, mad);
  if (decoded.bodies.empty() && !rest.empty()) out += fmt::format("data={}\n", hex_digits(rest));
  return out;
}

Json json_of(const Decoded& decoded, ConstBytes mad) {
  JsonEnds ends = json_ends(decoded, mad);
  Json records = Json::array();
  for (const Part& body : decoded.bodies) records.push_back(json_of(*body.layout, body.view));
  ends.head["records"] = std::move(records);
  ends.head.update(std::move(ends.tail));
  return std::move(ends.head);
}

JsonEnds json_ends(const Decoded& decoded, ConstBytes mad) {
  const ClassFacts* facts = facts_of_class(static_cast<std::uint32_t>(decoded.mgmt_class));
  const Headers headers(decoded);
  Json details = Json::array();
  for (const Part& part : decoded.details)
    details.push_back({{"name", part.layout->name}, {"fields", json_of(*part.layout, part.view)}});
  const Layout* attribute =
      decoded.bodies.empty() ? attribute_layout(decoded.mgmt_class, decoded.attribute) : decoded.bodies.front().layout;
  const std::string status = status_text(decoded);
  JsonEnds out;
  out.head = {
      {"title", title(decoded)},
      {"class",
       facts != nullptr ? Json(name_of(Kind::mgmt_class, static_cast<std::uint32_t>(facts->mgmt_class))) : Json()},
      {"method", method_name(decoded)},
      {"attribute", attribute != nullptr ? Json(attribute->name) : Json()},
      {"status", status.empty() ? Json() : Json(status)},
      {"components", components(decoded)},
      {"header", json_of(headers.layout, decoded.format.view)}};
  out.tail = {{"details", std::move(details)}};
  if (decoded.bodies.empty()) out.tail["data"] = hex_digits(rest_of(decoded, mad));
  return out;
}

}  // namespace parley::wire::mad
