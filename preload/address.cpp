// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Address handles, and multicast groups.
#include <algorithm>
#include <cerrno>

#include "drivers/verbs/convert.hpp"
#include "preload/link_layer.hpp"
#include "preload/objects.hpp"
#include "wire/ib/roce.hpp"

namespace parley::preload {

// As in other drivers, bits of the flow label beyond 20 are ignored: UCX sets all of them.
AhAttr address_of(ibv_context* context, const ibv_ah_attr& attr) {
  AhAttr out = verbs::from_ibv(attr);
  add_route(out, of(context).engine->address(0));
  if (out.grh) out.grh->flow_label &= 0xFFFFF;
  return out;
}

int with_group(const char* call, ibv_qp* qp, const ibv_gid& gid, bool attach) {
  Gid group{};
  std::copy(std::begin(gid.raw), std::end(gid.raw), group.begin());
  const auto done = with(qp->context, [&](Device&) -> Result<void> {
    auto* const inner = roce::queue_pair(of(qp).inner.get());
    return attach ? inner->attach_multicast(group) : inner->detach_multicast(group);
  });
  return outcome(call, done);
}

}  // namespace parley::preload

using namespace parley::preload;  // NOLINT: the functions below are libibverbs' and have no namespace
using parley::Device;

PARLEY_VERB ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  auto made = with(pd->context,
                   [&](Device& device) { return device.create_ah(of(pd).number, address_of(pd->context, *attr)); });
  if (!made) return none<ibv_ah>("ibv_create_ah", made.error());
  auto* const ah = new Ah{};
  ah->context = pd->context;
  ah->pd = pd;
  ah->inner = std::move(*made);
  return ah;
}

PARLEY_VERB int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* wc, ibv_grh* grh,
                                    ibv_ah_attr* out) {
  if ((wc->wc_flags & IBV_WC_GRH) == 0)
    return refused("ibv_init_ah_from_wc", EINVAL, "RoCE has no address but that in the GRH");
  const auto header = parley::wire::ib::header_of_datagram({reinterpret_cast<const std::uint8_t*>(grh), sizeof *grh});
  const auto own = of(context).engine->with_nic([&](auto& nic) { return nic.find_gid(header.destination); });
  *out = {};
  out->port_num = port;
  out->is_global = 1;
  std::copy(header.source.begin(), header.source.end(), out->grh.dgid.raw);
  out->grh.flow_label = header.flow_label;
  out->grh.traffic_class = header.traffic_class;
  out->grh.sgid_index = own.value_or(0);  // a datagram to a multicast group: any GID
  out->grh.hop_limit = 64;
  return 0;
}

PARLEY_VERB ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port) {
  ibv_ah_attr attr{};
  return ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) == 0 ? ibv_create_ah(pd, &attr) : nullptr;
}

PARLEY_VERB int ibv_destroy_ah(ibv_ah* ah) {
  with(ah->context, [&](Device&) { of(ah).inner.reset(); });
  delete &of(ah);
  return 0;
}

PARLEY_VERB int ibv_resolve_eth_l2_from_gid(ibv_context*, ibv_ah_attr*, std::uint8_t[6], std::uint16_t*) {
  return refused("ibv_resolve_eth_l2_from_gid", EOPNOTSUPP, "Ethernet addresses are the system's business");
}
