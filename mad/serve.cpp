// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/serve.hpp"

#include <algorithm>

#include "wire/mad/sa.hpp"
#include "wire/mad/smp.hpp"

namespace parley::mad {

using wire::mad::MadHeader;
using wire::mad::Method;
using wire::mad::MgmtClass;
using wire::mad::SaHeader;

namespace {

constexpr std::ptrdiff_t rmpp_at = MadHeader::size;  // RMPP's part of a datagram's headers
constexpr std::uint16_t bad_version = 0x04, unsupported_method = 0x08, unsupported_combination = 0x0C;

/// Whether the class has the method at all, and with that attribute.
struct Legality {
  bool method = false, both = false;
};
Legality legality_of(MgmtClass mgmt_class, Method method, std::uint16_t attribute) {
  Legality out;
  const auto layouts = wire::mad::all_layouts();
  for (const auto& row : wire::mad::legal_rows) {
    if (row.mgmt_class != wire::mad::same_rpcs(mgmt_class) || !row.has(method)) continue;
    out.method = true;
    out.both = out.both || layouts[static_cast<std::size_t>(row.structure)]->attribute == attribute;
  }
  return out;
}

}  // namespace

std::optional<Method> response_to(Method method) {
  switch (method) {
    case Method::trap: return Method::trap_repress;
    case Method::trap_repress:
    case Method::send: return std::nullopt;
    case Method::set: return Method::get_resp;
    default: break;
  }
  const auto number = static_cast<std::uint32_t>(method);
  if ((number & PARLEY_IB_MAD_RESPONSE) != 0) return std::nullopt;
  return static_cast<Method>(number | PARLEY_IB_MAD_RESPONSE);
}

tl::expected<ParsedRequest, RequestFault> parse_request(ConstBytes mad) {
  const auto refuse = [](std::uint16_t status, std::string_view why) {
    return tl::unexpected(RequestFault{status, why});
  };
  const auto header = MadHeader::parse(mad);
  if (!header) return refuse(0, "shorter than a header");
  const Method method = header->get(MadHeader::method);
  if (!response_to(method)) return refuse(0, "not a request");
  if (header->get(MadHeader::base_version) != PARLEY_IB_MAD_BASE_VERSION)
    return refuse(bad_version, "the base version is not 1");
  const auto* facts = wire::mad::facts_of_class(static_cast<std::uint32_t>(header->get(MadHeader::mgmt_class)));
  if (facts == nullptr) return refuse(unsupported_method, "unknown class");
  if (!facts->has_version(header->get(MadHeader::class_version)))
    return refuse(bad_version, "unsupported class version");
  if (mad.size() != PARLEY_IB_MAD_LEN && !rmpp::is_rmpp(mad)) return refuse(0, "not 256 octets");
  const std::uint16_t attribute = header->get(MadHeader::attribute_id);
  const bool range = facts->is_range();  // of vendors or applications, whose attributes are not all known
  const Legality legal = legality_of(facts->mgmt_class, method, attribute);
  if (!range && !legal.method) return refuse(unsupported_method, "the class has no such method");
  if (!range && !legal.both) return refuse(unsupported_combination, "the attribute has no such method");
  return ParsedRequest{facts, method, attribute, header->get(MadHeader::attribute_modifier), mad.subspan(facts->data)};
}

std::optional<Datagram> reply_to(ConstBytes request, ConstBytes body, std::uint16_t status) {
  auto out = error_reply(request, status);
  const auto* facts = wire::mad::facts_of_class(request.size() > 1 ? request[1] : 0U);
  if (!out || facts == nullptr) return out;
  const bool smp = wire::mad::same_rpcs(facts->mgmt_class) == MgmtClass::subn;  // the hops follow its 64 octets
  const std::size_t room = smp ? std::size_t{64} : out->size() - facts->data;
  wire::mad::detail::fill(MutBytes(*out).subspan(facts->data, room), body);
  return out;
}

std::optional<Datagram> error_reply(ConstBytes request, std::uint16_t status) {
  const auto header = MadHeader::parse(request);
  if (!header || (request.size() > PARLEY_IB_MAD_LEN && !rmpp::is_rmpp(request))) return std::nullopt;
  const Method method = header->get(MadHeader::method);
  const auto response = response_to(method);
  if (!response || (method == Method::trap && status != 0)) return std::nullopt;
  Datagram out{};
  std::copy_n(request.begin(), std::min(request.size(), out.size()), out.begin());
  if (rmpp::has_rmpp(out[1]))
    std::fill_n(out.begin() + rmpp_at, wire::mad::RmppHeader::size - rmpp_at, std::uint8_t{0});
  constexpr std::uint16_t direction = 0x8000;
  const bool directed = header->get(MadHeader::mgmt_class) == MgmtClass::subn_directed;
  auto answer = *header;
  answer.set(MadHeader::method, *response)
      .set(MadHeader::status, static_cast<std::uint16_t>((status & ~direction) | (directed ? direction : 0)))
      .emit(MutBytes(out).first(MadHeader::size));
  return out;
}

Bytes long_reply(ConstBytes request, ConstBytes data) {
  const auto head = error_reply(request.first(std::min<std::size_t>(request.size(), PARLEY_IB_MAD_LEN)), 0);
  if (!head || !rmpp::has_rmpp((*head)[1])) return {};
  Bytes out(head->begin(), head->begin() + static_cast<std::ptrdiff_t>(rmpp::header_octets_of((*head)[1])));
  auto part = *wire::mad::RmppHeader::parse(out);
  part.set(wire::mad::RmppHeader::rmpp_version, 1)
      .set(wire::mad::RmppHeader::rmpp_type, wire::mad::RmppType::data)
      .set(wire::mad::RmppHeader::rmpp_flags, static_cast<std::uint8_t>(wire::mad::rmpp_flags::active))
      .emit(out);
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

// IBA §15.2.1.1: AttributeOffset is in units of 8 octets.
Bytes table_reply(ConstBytes request, ConstBytes records, std::size_t size) {
  if (size == 0) return {};
  const std::size_t step = (size + 7) / 8 * 8, count = records.size() / size;
  Bytes data(count * step);
  for (std::size_t i = 0; i < count; ++i)
    std::copy_n(records.begin() + static_cast<std::ptrdiff_t>(i * size), size,
                data.begin() + static_cast<std::ptrdiff_t>(i * step));
  Bytes out = long_reply(request, data);
  if (out.size() < rmpp::header_octets || out[1] != static_cast<std::uint8_t>(MgmtClass::subn_adm)) return {};
  auto header = *SaHeader::parse(out);
  header.set(SaHeader::attribute_offset, static_cast<std::uint16_t>(count == 0 ? 0 : step / 8)).emit(out);
  return out;
}

}  // namespace parley::mad
