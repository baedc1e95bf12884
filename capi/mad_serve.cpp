// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Requests of other ports: a C program registers for them, receives and answers them.
#include <algorithm>

#include <fmt/format.h>

#include "capi/mad_port.hpp"
#include "capi/options.hpp"
#include "mad/serve.hpp"
#include "wire/mad/decode.hpp"
#include "wire/mad/gs.hpp"

namespace parley::capi {

namespace {

using wire::mad::ClassFacts;
using wire::mad::facts_of_class;
using wire::mad::MadHeader;
using wire::mad::Method;
using wire::mad::MgmtClass;
using wire::mad::VendorOuiFormat;

constexpr std::size_t services_max = 64;
constexpr unsigned methods_end = PARLEY_IB_MAD_RESPONSE;  // methods of requests are below

bool has_method(const std::uint64_t (&methods)[2], unsigned method) {
  return method < methods_end && (methods[method / 64] >> method % 64 & 1) != 0;
}

/// Whether the service has the class, version, OUI and method of a datagram.
bool wants(const MadService& service, ConstBytes mad) {
  if (mad.size() < MadHeader::size || mad[1] != service.mgmt_class || mad[2] != service.class_version) return false;
  if (!has_method(service.methods, mad[3])) return false;
  if (!wire::mad::has_oui(mad[1])) return true;
  constexpr std::size_t oui_end = (VendorOuiFormat::oui.bit + VendorOuiFormat::oui.width) / 8U;
  return mad.size() >= oui_end && read_bits(mad, VendorOuiFormat::oui.bit, VendorOuiFormat::oui.width) == service.oui;
}

int read_service(const parley_mad_service& given, MadService& out) {
  parley_mad_service s = PARLEY_MAD_SERVICE_INIT;
  if (const int rc = read_options(&given, s); rc != 0) return rc;
  const ClassFacts* facts = s.mgmt_class <= 0xFF ? facts_of_class(s.mgmt_class) : nullptr;
  if (facts == nullptr) return wrong(fmt::format("mgmt_class is 0x{:02X}, a class that is not known", s.mgmt_class));
  if (s.class_version > 0xFF)
    return capi::fail(PARLEY_E_INVALID_ARGUMENT, "class_version is {a}; it is at most 255", s.class_version);
  if (s.oui > (wire::mad::has_oui(static_cast<std::uint8_t>(s.mgmt_class)) ? 0xFFFFFFU : 0U))
    return wrong(fmt::format("oui is 0x{:X}; it has 24 bits, and is 0 for a class without an OUI", s.oui));
  if ((s.methods[0] & 1) != 0) return wrong("methods has bit 0; methods are 1 to 127");
  if (s.methods[0] == 0 && s.methods[1] == 0) s.methods[0] = PARLEY_MAD_GET | PARLEY_MAD_SET;
  const std::uint32_t version = s.class_version != 0 ? s.class_version : std::max<std::uint32_t>(facts->version, 1);
  out = {static_cast<std::uint8_t>(s.mgmt_class), static_cast<std::uint8_t>(version), s.oui, {}};
  std::copy_n(s.methods, 2, out.methods);
  return 0;
}

ConstBytes view_of(const parley_mad_response& r) {
  return {static_cast<const std::uint8_t*>(r.body), static_cast<std::size_t>(r.body != nullptr ? r.body_length : 0)};
}

/// The answer in `out`, as Port::post() takes it.
int make_table(ConstBytes request, const parley_mad_response& r, Bytes& out) {
  constexpr std::uint32_t record_max = 0xFFFF * 8;  // IBA §15.2.1.1: AttributeOffset has 16 bits
  if (r.body_length > mad::rmpp::message_max)
    return wrong(
        fmt::format("body_length is {}; a message has at most {} octets", r.body_length, mad::rmpp::message_max));
  if (request[1] != static_cast<std::uint8_t>(MgmtClass::subn_adm)) {
    out = mad::long_reply(request, view_of(r));
    return 0;
  }
  if (r.record_size == 0 ? r.body_length != 0 : r.body_length % r.record_size != 0)
    return wrong(
        fmt::format("body_length is {}, no multiple of record_size, which is {}", r.body_length, r.record_size));
  if (r.record_size > record_max)
    return wrong(fmt::format("record_size is {}; a record has at most {} octets", r.record_size, record_max));
  const std::uint64_t step = (std::uint64_t{r.record_size} + 7) / 8 * 8;
  if (r.record_size != 0 && r.body_length / r.record_size * step > mad::rmpp::message_max)
    return wrong(fmt::format("the records have {} octets, each at a multiple of 8; a message has at most {}",
                             r.body_length / r.record_size * step, mad::rmpp::message_max));
  out = mad::table_reply(request, view_of(r), std::max<std::size_t>(r.record_size, 1));
  return 0;
}

int make_datagram(ConstBytes request, const ClassFacts& facts, const parley_mad_response& r, Bytes& out) {
  // IBA §14.2.1.1: an SMP has 64 octets of data.
  const std::size_t room = wire::mad::is_smp(request[1]) ? 64 : std::size_t{PARLEY_IB_MAD_LEN} - facts.data;
  if (r.body_length > room)
    return wrong(
        fmt::format("body_length is {}; an answer to this method has room for {} octets", r.body_length, room));
  const auto status = static_cast<std::uint16_t>(r.status);
  const auto reply =
      r.body == nullptr && status != 0 ? mad::error_reply(request, status) : mad::reply_to(request, view_of(r), status);
  if (!reply) return wrong("a trap can be repressed, not refused: status must be 0");
  out.assign(reply->begin(), reply->end());
  return 0;
}

int read_response(const parley_mad_response& given, parley_mad_response& out) {
  if (const int rc = read_options(&given, out); rc != 0) return rc;
  if (out.reserved != 0) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "reserved is {a}, not 0", out.reserved);
  if (out.status > 0xFFFF) return wrong(fmt::format("status is 0x{:X}; it has 16 bits", out.status));
  if (out.body == nullptr && out.body_length != 0) return wrong("body is null, and body_length is not 0");
  return 0;
}

}  // namespace

int MadPort::serve(const parley_mad_service& given) {
  if (broken_) return gone();
  MadService service;
  if (const int rc = read_service(given, service); rc != 0) return rc;
  if (services_.size() >= services_max)
    return capi::fail(PARLEY_E_NO_SPACE, "{a} services of this port are registered", services_max);
  services_.reserve(services_.size() + 1);
  std::vector<Method> methods;
  for (unsigned method = 1; method < methods_end; ++method)
    if (has_method(service.methods, method)) methods.push_back(static_cast<Method>(method));
  const Result<void> served = transport_->serve({service.mgmt_class, service.class_version, service.oui, methods});
  if (!served) return capi::fail(served.error());
  services_.push_back(service);
  port_.serve();
  return 0;
}

/// Finds the next request of a registered service. Others are dropped.
void MadPort::find_incoming() {
  while (!next_ && port_.has_request()) {
    auto fresh = std::make_unique<MadIncoming>();
    fresh->request = *port_.poll_request();
    if (std::any_of(services_.begin(), services_.end(),
                    [&](const MadService& service) { return wants(service, fresh->request.mad); }))
      next_ = std::move(fresh);
  }
}

int MadPort::receive(parley_mad_incoming& out) {
  if (const int rc = check_size<parley_mad_incoming>(out.size); rc != 0) return rc;
  find_incoming();
  if (!next_) {
    arm();
    return broken_ ? gone() : 0;
  }
  parley_mad_incoming told = PARLEY_MAD_INCOMING_INIT;
  describe(*next_, told);  // may throw; the request then stays in next_
  if (told.answers != 0 && incoming_.size() >= PARLEY_MAD_INCOMING_MAX)
    return capi::fail(PARLEY_E_NO_SPACE, "{a} requests are unanswered: answer or drop them by parley_mad_respond()",
                      PARLEY_MAD_INCOMING_MAX);
  told.id = last_ + 1;
  std::unique_ptr<MadIncoming>& slot = told.answers != 0 ? incoming_[told.id] : unanswerable_;
  slot = std::move(next_);
  ++last_;
  (void)write_attributes(&out, told);  // its size has been checked
  arm();
  return 1;
}

void MadPort::describe(MadIncoming& incoming, parley_mad_incoming& out) const {
  const ConstBytes mad = incoming.request.mad;
  const mad::Address& from = incoming.request.from;
  const auto header = *MadHeader::parse(mad);
  const ClassFacts& facts = *facts_of_class(mad[1]);
  mad::Path path;
  path.address = from;
  incoming.path = mad::path_spec(path.reverse());
  out.mgmt_class = mad[1];
  out.class_version = mad[2];
  if (wire::mad::has_oui(mad[1]))
    out.oui = static_cast<std::uint32_t>(read_bits(mad, VendorOuiFormat::oui.bit, VendorOuiFormat::oui.width));
  out.method = mad[3];
  out.attribute = header.get(MadHeader::attribute_id);
  out.modifier = header.get(MadHeader::attribute_modifier);
  out.transaction_id = header.get(MadHeader::transaction_id);
  const ConstBytes body = mad.subspan(std::min<std::size_t>(facts.data, mad.size()));
  out.body = body.data();
  out.body_length = static_cast<std::uint32_t>(body.size());
  const wire::mad::Layout* layout =
      wire::mad::attribute_layout(facts.mgmt_class, out.attribute, body.empty() ? std::uint8_t{0} : body[0]);
  if (layout != nullptr && layout->octets <= body.size()) out.structure = layout->name.data();
  out.mad = mad.data();
  out.mad_length = static_cast<std::uint32_t>(mad.size());
  out.path = incoming.path.c_str();
  out.qpn = from.qpn;
  out.lid = from.lid;
  out.pkey = from.pkey;
  if (from.grh) std::copy(from.grh->gid.begin(), from.grh->gid.end(), out.gid);
  out.answers = mad::response_to(static_cast<Method>(mad[3])) ? 1 : 0;
}

int MadPort::respond(std::uint64_t id, const parley_mad_response* given) {
  if (broken_) return gone();
  const auto found = incoming_.find(id);
  if (found == incoming_.end())
    return capi::fail(PARLEY_E_BAD_HANDLE,
                      "the port has no such request: it was never received, it is answered, or it needs no answer");
  if (given != nullptr)
    if (const int rc = answer(found->second->request, *given); rc != 0) return rc;
  incoming_.erase(found);
  arm();
  return 0;
}

int MadPort::answer(const mad::Incoming& request, const parley_mad_response& given) {
  parley_mad_response r = PARLEY_MAD_RESPONSE_INIT;
  if (const int rc = read_response(given, r); rc != 0) return rc;
  const ClassFacts& facts = *facts_of_class(request.mad[1]);
  const bool is_table = facts.rmpp && r.status == 0 && wire::mad::gives_table(static_cast<Method>(request.mad[3]));
  Bytes reply;
  const int rc = is_table ? make_table(request.mad, r, reply) : make_datagram(request.mad, facts, r, reply);
  if (rc != 0) return rc;
  const Result<void> posted = port_.post(request.from, reply);
  if (!posted) return capi::fail(posted.error());
  answers_wait_ = true;
  return 0;
}

}  // namespace parley::capi
