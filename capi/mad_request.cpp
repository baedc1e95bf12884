// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Reads the requests of C programs, and finds the records in answers.
#include <fmt/format.h>

#include "capi/mad_port.hpp"
#include "wire/mad/decode.hpp"
#include "wire/mad/sa.hpp"

namespace parley::capi {

namespace {

using wire::mad::Layout;
using wire::mad::Method;
using wire::mad::MgmtClass;

constexpr std::uint32_t set_max = 1024;      // members set in a request
constexpr std::uint32_t body_max = 1 << 16;  // octets

bool is_table(const mad::Rpc& rpc) {
  return rpc.mgmt_class == MgmtClass::subn_adm && wire::mad::gives_table(rpc.method);
}

int parse_body(const parley_mad_request& q, std::size_t octets, bool exactly, Bytes& out) {
  if (q.body == nullptr && q.body_length != 0)
    return capi::fail(PARLEY_E_INVALID_ARGUMENT, "body is null, and body_length is {a}", q.body_length);
  if (q.body == nullptr) return 0;
  if (exactly ? q.body_length != octets : q.body_length > octets)
    return wrong(fmt::format("body_length is {}; {} {} octets", q.body_length,
                             exactly ? "the attribute has" : "there is room for", octets));
  const auto* const first = static_cast<const std::uint8_t*>(q.body);
  out.assign(first, first + q.body_length);
  return 0;
}

int read_names(const parley_mad_request& q, mad::TextRequest& out) {
  if (q.attribute == nullptr) return wrong("method is given, and attribute is null: SubnGet, NodeInfo");
  if (q.mgmt_class != 0 || q.method_number != 0 || q.attribute_number != 0)
    return wrong("if `method` is set, the three numbers must be 0");
  auto request = mad::parse_rpc(q.method, q.attribute);
  if (!request) return wrong(std::move(request.error()));
  request->rpc.modifier = q.modifier;
  request->rpc.component_mask = q.component_mask;
  request->rpc.key = q.key;
  request->rpc.oui = q.oui;
  const bool multi = request->rpc.method == Method::get_multi;  // its body has any number of GIDs
  if (const int rc = parse_body(q, multi ? body_max : request->body.size(), !multi, request->body); rc != 0) return rc;
  if (request->body.size() < request->attribute->octets && q.set_count != 0)
    request->body.resize(request->attribute->octets);
  for (std::uint32_t i = 0; i < q.set_count; ++i) {
    if (q.set[i] == nullptr) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "set[{a}] is null", i);
    if (std::string bad = mad::set_field(*request, q.set[i]); !bad.empty()) return wrong(std::move(bad));
  }
  out.rpc = request->rpc;
  out.body = std::move(request->body);
  return 0;
}

int read_numbers(const parley_mad_request& q, mad::TextRequest& out) {
  if (q.attribute != nullptr || q.set_count != 0)
    return wrong("without `method`, the request is given by numbers: attribute is null, and set_count 0");
  const wire::mad::ClassFacts* facts = wire::mad::facts_of_class(q.mgmt_class);
  if (facts == nullptr) return wrong(fmt::format("mgmt_class is 0x{:02X}, a class that is not known", q.mgmt_class));
  if (q.method_number == 0 || q.method_number >= PARLEY_IB_MAD_RESPONSE)
    return capi::fail(PARLEY_E_INVALID_ARGUMENT, "method_number is {a}; a request's is 1 to 127", q.method_number);
  const bool directed = facts->mgmt_class == MgmtClass::subn_directed;  // the path decides
  out.rpc = {.mgmt_class = directed ? MgmtClass::subn : facts->mgmt_class,
             .method = static_cast<Method>(q.method_number),
             .attribute = q.attribute_number,
             .modifier = q.modifier,
             .component_mask = q.component_mask,
             .key = q.key,
             .class_number = facts->is_range() ? static_cast<std::uint8_t>(q.mgmt_class) : std::uint8_t{0},
             .class_version = static_cast<std::uint8_t>(q.class_version),
             .oui = q.oui};
  const bool multi = facts->mgmt_class == MgmtClass::subn_adm && out.rpc.method == Method::get_multi;
  return parse_body(q, multi ? body_max : std::size_t{PARLEY_IB_MAD_LEN} - facts->data, false, out.body);
}

int read_path(const parley_mad_request& q, mad::TextRequest& out) {
  const bool administration = out.rpc.mgmt_class == MgmtClass::subn_adm;
  if (q.path == nullptr)
    return administration ? 0 : wrong("path is null, and only requests to subnet administration need none");
  auto path = mad::parse_path(q.path);
  if (!path) return wrong(std::move(path.error()));
  if (!path->device.empty()) return wrong("the path names a device: parley_mad_open() has the port to leave by");
  if (path->path.route && out.rpc.mgmt_class != MgmtClass::subn)
    return wrong("only subnet management can use directed routes");
  out.to = std::move(*path);
  return 0;
}

}  // namespace

int read_mad_waits(std::uint32_t timeout_ms, std::uint32_t retries, mad::PathDefaults& out) {
  if (retries > 255 && retries != PARLEY_MAD_NO_RETRIES)
    return capi::fail(PARLEY_E_INVALID_ARGUMENT, "retries is {a}; must be 0 to 255, or PARLEY_MAD_NO_RETRIES", retries);
  if (timeout_ms != 0) out.timeout = std::chrono::milliseconds(timeout_ms);
  if (retries != 0)
    out.retries = retries == PARLEY_MAD_NO_RETRIES ? std::uint8_t{0} : static_cast<std::uint8_t>(retries);
  return 0;
}

int read_mad_request(const parley_mad_request& q, const mad::PathDefaults& defaults, mad::TextRequest& out) {
  if (q.reserved != 0) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "reserved is {a}, not 0", q.reserved);
  if (q.reserved2 != 0) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "reserved2 is {a}, not 0", q.reserved2);
  if (q.class_version > (q.method != nullptr ? 0U : 0xFFU))
    return capi::fail(PARLEY_E_INVALID_ARGUMENT, "class_version is {a}; it is at most 255, and 0 if method is given",
                      q.class_version);
  if (q.set == nullptr && q.set_count != 0)
    return capi::fail(PARLEY_E_INVALID_ARGUMENT, "set is null, and set_count is {a}", q.set_count);
  if (q.set_count > set_max)
    return capi::fail(PARLEY_E_INVALID_ARGUMENT, "set_count is {a}; it is at most {b}", q.set_count, set_max);
  if (q.oui > 0xFFFFFF) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "oui is {a}; it has 24 bits", q.oui);
  out.defaults = defaults;
  if (const int rc = read_mad_waits(q.timeout_ms, q.retries, out.defaults); rc != 0) return rc;
  const int rc = q.method != nullptr ? read_names(q, out) : read_numbers(q, out);
  if (rc != 0) return rc;
  return read_path(q, out);
}

std::string read_mad_records(ConstBytes mad, const mad::Rpc& rpc, parley_mad_reply& out) {
  const wire::mad::ClassFacts& facts = *wire::mad::facts_of_class(static_cast<std::uint32_t>(rpc.mgmt_class));
  if (mad.size() < facts.data) return "the answer is shorter than its header";
  const ConstBytes body = mad.subspan(facts.data);
  const bool multi = rpc.method == Method::get_multi;
  const Layout* layout = multi ? wire::mad::find_layout("PathRecord")
                               : wire::mad::attribute_layout(rpc.mgmt_class, rpc.attribute, body.empty() ? 0 : body[0]);
  std::size_t stride = layout != nullptr ? layout->octets : body.size(), count = 1;
  if (is_table(rpc)) {
    // IBA §15.2.3.2: AttributeOffset is in units of eight octets; 0 if there are no records.
    stride = std::size_t{8} * wire::mad::SaHeader::parse(mad)->get(wire::mad::SaHeader::attribute_offset);
    if (stride != 0 && layout != nullptr && stride < layout->octets)
      return fmt::format("AttributeOffset is {} octets a record; {} has {}", stride, layout->name, layout->octets);
    count = stride == 0 ? 0 : body.size() / stride;
  } else if (body.size() < stride) {
    return fmt::format("the answer has {} octets of {}, which has {}", body.size(), layout->name, layout->octets);
  }
  out.structure = layout != nullptr ? layout->name.data() : nullptr;
  out.records = count == 0 ? nullptr : body.data();
  out.count = static_cast<std::uint32_t>(count);
  out.stride = static_cast<std::uint32_t>(stride);
  return {};
}

}  // namespace parley::capi
