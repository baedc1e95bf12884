// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/mad/rpc.hpp"

#include "wire/mad/cc.hpp"
#include "wire/mad/gs.hpp"
#include "wire/mad/sa.hpp"
#include "wire/mad/smp.hpp"

namespace parley::wire::mad {

namespace {

template <class Format>
void set_key(MutBytes mad, Member<Format, std::uint64_t> key, std::uint64_t value) {
  write_bits(mad, key.bit, key.width, value);
}

void set_keys(MutBytes mad, MgmtClass mgmt_class, const RequestOptions& options) {
  switch (mgmt_class) {
    case MgmtClass::subn:
    case MgmtClass::subn_directed: return set_key(mad, SmpFormat::m_key, options.key);
    case MgmtClass::bm: return set_key(mad, BmFormat::b_key, options.key);
    case MgmtClass::cc: return set_key(mad, CcFormat::cc_key, options.key);
    case MgmtClass::subn_adm:
      set_key(mad, SaHeader::sm_key, options.key);
      return set_key(mad, SaHeader::component_mask, options.component_mask);
    case MgmtClass::vendor_oui:
      return write_bits(mad, VendorOuiFormat::oui.bit, VendorOuiFormat::oui.width, options.oui);
    default: return;
  }
}

}  // namespace

Datagram detail::build(const ClassFacts& facts, Method method, std::uint16_t attribute, ConstBytes body,
                       const RequestOptions& options) {
  Datagram out{};
  const std::uint8_t version = options.class_version != 0 ? options.class_version : facts.version;
  const bool given = facts.is_range() && options.mgmt_class != 0;
  MadHeader header;
  header.set(MadHeader::base_version, PARLEY_IB_MAD_BASE_VERSION)
      .set(MadHeader::mgmt_class, given ? static_cast<MgmtClass>(options.mgmt_class) : facts.mgmt_class)
      .set(MadHeader::class_version, version != 0 ? version : std::uint8_t{1})
      .set(MadHeader::method, method)
      .set(MadHeader::transaction_id, options.transaction_id)
      .set(MadHeader::attribute_id, attribute)
      .set(MadHeader::attribute_modifier, options.attribute_modifier);
  header.emit(MutBytes(out).first(MadHeader::size));
  set_keys(out, facts.mgmt_class, options);
  fill(MutBytes(out).subspan(facts.data, std::min<std::size_t>(body.size(), out.size() - facts.data)), body);
  return out;
}

Result<void> set_route(Datagram& smp, const DirectedRoute& route) {
  if (route.path.empty() || route.path.size() > PARLEY_MAD_PATH_MAX)
    return fail(Errc::invalid_argument,
                "a directed route has 0 to 63 hops behind its first octet; {a} octets are given",
                static_cast<std::int64_t>(route.path.size()));
  auto format = *DirectedSmpFormat::parse(smp);
  auto header = format.get(DirectedSmpFormat::mad_header);
  header.set(DirectedMadHeader::direction, false)
      .set(DirectedMadHeader::hop_pointer, 0)
      .set(DirectedMadHeader::hop_count, static_cast<std::uint8_t>(route.path.size() - 1));
  format.set(DirectedSmpFormat::mad_header, header)
      .set(DirectedSmpFormat::dr_slid, route.source_lid)
      .set(DirectedSmpFormat::dr_dlid, route.destination_lid)
      .set(DirectedSmpFormat::initial_path, route.path)
      .emit(smp);
  return {};
}

}  // namespace parley::wire::mad
