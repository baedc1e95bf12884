// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mpa/quirks.hpp"

#include <array>

namespace parley::mpa {
namespace {

constexpr Quirk none{};

constexpr Quirk siw{
    .name = "siw",
    .summary =
        "Linux siw as loaded by default: echoes reserved bits and R, no markers, no CRC unless asked, A=0, depths "
        "capped at 128, fence not kept, Terminate nibbles swapped, a first FPDU right after the Reply may hang.",
    .evidence = "measured on Linux 6.1.192; same code in 7.2.13 (drivers/infiniband/sw/siw/siw_cm.c)",
    .echoes_reserved = true,
    .echoes_r = true,
    .crc_off = true,
    .refuses_markers = true,
    .private_data_max = 256,
    .rejects_short_enhanced = true,
    .ignores_reply_a = true,
    .prefers_write = true,
    .depth_cap = 128,
    .no_ird_raise = true,
    .fallback = Fallback::never,
    .no_fence = true,
    .terminate_nibbles_swapped = true,
    .first_fpdu_delay = 10ms,
};

constexpr Quirk with_peer_to_peer(Quirk q) {
  q.name = "siw-p2p";
  q.summary = "Linux siw built with peer_to_peer=1: as siw, and its Request has A=1 and offers Write and Read.";
  q.evidence = "measured on Linux 6.1.192 with the constant made a module parameter";
  q.rtr_offer = {.write = true, .read = true};
  return q;
}

constexpr Quirk without_a(Quirk q) {
  q.name = "siw-no-a";
  q.summary = "Old softiwarp: as siw, and its Reply leaves A=0 although C or D are set.";
  q.evidence = "softiwarp issue 18 (cxgb4 reports an RTR mismatch)";
  q.omits_a = true;
  return q;
}

constexpr Quirk cxgb4{
    .name = "cxgb4",
    .summary =
        "Chelsio T4 to T6: one RTR kind by module parameter (Read), insisted on; an unannounced Read RTR under "
        "revision 1; revision 2 is parsed as enhanced even without S; refuses tagged STag 0.",
    .evidence = "Linux 6.1.192 drivers/infiniband/hw/cxgb4/cm.c and qp.c; octets on the wire not observed",
    .private_data_max = 256,
    .enhanced_by_revision = true,
    .rtr_offer = {.read = true},
    .own_rtr = Rtr::read,
    .own_rtr_only = true,
    .rtr_on_v1 = true,
    .fallback = Fallback::rst,
    .terminate_llp_etype = 3,
    .refuses_stag_zero = true,
};

constexpr Quirk with_write(Quirk q) {
  q.name = "cxgb4-write";
  q.summary = "Chelsio T4 to T6 with p2p_type=0: as cxgb4, with the zero-length Write as its RTR kind.";
  q.rtr_offer = {.write = true};
  q.own_rtr = Rtr::write;
  return q;
}

constexpr Quirk with_stag_zero(Quirk q) {
  q.name = "cxgb4-stag0";
  q.summary = "A cxgb4-like peer whose own RTR carries STag 0, which real cxgb4 hardware refuses.";
  q.evidence = "softiwarp issue 21 and pull request 17: the exchange that broke";
  q.rtr_stag_zero = true;
  return q;
}

constexpr Quirk irdma{
    .name = "irdma",
    .summary =
        "Intel irdma: frames must arrive in one segment; looks at the revision only; needs A=1 with C or D; "
        "prefers Read; its Write RTR carries STag 0; an unannounced Read RTR under revision 1.",
    .evidence = "Linux 7.2.13 drivers/infiniband/hw/irdma/cm.c and ctrl.c; octets on the wire not observed",
    .whole_frame_only = true,
    .enhanced_by_revision = true,
    .needs_peer_to_peer = true,
    .rtr_offer = {.write = true, .read = true},
    .own_rtr = Rtr::read,
    .rtr_on_v1 = true,
    .fallback = Fallback::rst,
    .terminate_llp_etype = 3,
    .rtr_stag_zero = true,
};

constexpr Quirk qedr{
    .name = "qedr",
    .summary = "Marvell FastLinQ: peer-to-peer with Send, Write and Read offered; answers with every kind in common.",
    .evidence = "Linux drivers/net/ethernet/qlogic/qed/qed_iwarp.c",
    .rtr_offer = {.send = true, .write = true, .read = true},
    .answers_every_common = true,
};

constexpr Quirk erdma{
    .name = "erdma",
    .summary = "Alibaba erdma: revision 129 with eight octets between header and private data; talks to nothing else.",
    .evidence = "Linux drivers/infiniband/hw/erdma/erdma_cm.c and erdma_cm.h",
    .refuses_markers = true,
    .private_revision = 129,
    .private_extension = 8,
    .fallback = Fallback::never,
};

constexpr Quirk echo_reserved{
    .name = "echo-reserved",
    .summary = "A revision 1 peer that copies the reserved bits of the Request into the Reply, S included.",
    .evidence = "Linux siw, alone among the peers studied",
    .echoes_reserved = true,
};

constexpr Quirk no_fence{
    .name = "no-fence",
    .summary = "A responder that sends FPDUs before it received one, against RFC 5044 §7.1.2 rule 4.",
    .evidence = "Linux siw (queue pair enters RTS before the Reply leaves)",
    .no_fence = true,
};

constexpr std::array table{
    siw,   with_peer_to_peer(siw), without_a(siw), cxgb4, with_write(cxgb4), with_stag_zero(cxgb4), irdma, qedr,
    erdma, echo_reserved,          no_fence};

}  // namespace

Result<const Quirk*> find_quirk(std::string_view name) {
  if (name.empty()) return &none;
  for (const Quirk& quirk : table)
    if (quirk.name == name) return &quirk;
  return fail(Errc::invalid_argument, "no quirk has this name; mpa/quirks.hpp and `parley quirks` list them");
}

std::span<const Quirk> all_quirks() { return table; }

}  // namespace parley::mpa
