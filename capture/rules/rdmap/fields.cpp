// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/rules/rdmap/fields.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "capture/rules/rdmap/rdmap_check.hpp"

namespace parley::capture {
namespace {

using wire::DdpHeader;
using wire::RdmapOpcode;

std::string yes_no(bool value) { return value ? "1" : "0"; }

void body_fields(const DdpHeader& h, ConstBytes body, Fields& out) {
  if (h.opcode == RdmapOpcode::read_request && !h.tagged) {
    if (const auto q = wire::ReadRequest::parse(body)) {
      out.emplace_back("Sink STag", fmt::format("0x{:08x}", q->sink_stag));
      out.emplace_back("Sink TO", fmt::format("0x{:x}", q->sink_to));
      out.emplace_back("RDMA Read size", fmt::format("{}", q->size));
      out.emplace_back("Source STag", fmt::format("0x{:08x}", q->source_stag));
      out.emplace_back("Source TO", fmt::format("0x{:x}", q->source_to));
      return;
    }
  }
  if (h.opcode == RdmapOpcode::terminate && !h.tagged) {
    if (const auto t = wire::Terminate::parse(body)) {
      out.emplace_back("Layer", fmt::format("{}", t->layer));
      out.emplace_back("Error type", fmt::format("{}", t->etype));
      out.emplace_back("Error code", fmt::format("0x{:02x}", t->code));
      out.emplace_back("Meaning", describe_terminate(t->layer, t->etype, t->code));
      out.emplace_back("M, D, R", fmt::format("{} {} {}", yes_no(t->m), yes_no(t->d), yes_no(t->r)));
      if (!t->ddp_header.empty()) out.emplace_back("Terminated DDP header", hex_text(t->ddp_header));
      return;
    }
  }
  out.emplace_back("Payload octets", fmt::format("{}", body.size()));
  if (body.empty()) return;
  out.emplace_back("Payload", hex_text(body));
  out.emplace_back("Payload as text", readable_text(body, 64));
}

std::string crc_text(const WalkedFpdu& f) {
  switch (f.crc) {
    case WalkedFpdu::Crc::good: return fmt::format("0x{:08x}, right", f.crc_sent);
    case WalkedFpdu::Crc::bad:
      return fmt::format("0x{:08x}, wrong: the octets give 0x{:08x}", f.crc_sent, f.crc_computed);
    case WalkedFpdu::Crc::off: return "not in use";
    case WalkedFpdu::Crc::not_seen: return "not seen";
  }
  return "";
}

}  // namespace

void startup_fields(const StartupSeen& s, Fields& out) {
  out.emplace_back("Key", std::string(to_string(s.key)));
  out.emplace_back("M (markers required)", yes_no(s.m()));
  out.emplace_back("C (CRC preferred)", yes_no(s.c()));
  out.emplace_back("R (rejected)", yes_no(s.r()));
  out.emplace_back(s.revision >= 2 ? "S (enhanced set-up)" : "S (Rtr frame)", yes_no(s.s()));
  if (const unsigned bits = s.flags & PARLEY_MPA_RES_V2; bits != 0)  // S has its own field
    out.emplace_back("Reserved bits", fmt::format("0x{:02x}", bits));
  out.emplace_back("Rev", fmt::format("{}", s.revision));
  out.emplace_back("PD_Length", fmt::format("{}", s.pd_length));
  if (s.enhanced) {
    const auto& e = *s.enhanced;
    out.emplace_back("A (peer to peer)", yes_no(e.a));
    out.emplace_back("B (RTR by Send)", yes_no(e.b));
    out.emplace_back("C (RTR by RDMA Write)", yes_no(e.c));
    out.emplace_back("D (RTR by RDMA Read)", yes_no(e.d));
    out.emplace_back("IRD", fmt::format("{}", e.ird));
    out.emplace_back("ORD", fmt::format("{}", e.ord));
  }
  if (s.private_data.empty()) return;
  out.emplace_back("Private data", hex_text(s.private_data, 64));
  out.emplace_back("Private data as text", readable_text(s.private_data, 64));
}

void fpdu_fields(const WalkedFpdu& f, const DdpHeader& h, Fields& out) {
  out.emplace_back("ULPDU_Length", fmt::format("{}", f.ulpdu.size()));
  out.emplace_back("DDP", fmt::format("{}, {}, version {}", h.tagged ? "tagged" : "untagged",
                                      h.last ? "last segment" : "more segments follow", h.ddp_version));
  out.emplace_back("RDMAP version", fmt::format("{}", h.rdmap_version));
  out.emplace_back("Opcode", fmt::format("0x{:X}, {}", static_cast<unsigned>(h.opcode), to_string(h.opcode)));
  if (h.tagged) {
    out.emplace_back("STag", fmt::format("0x{:08x}", h.stag));
    out.emplace_back("TO", fmt::format("0x{:x}", h.to));
  } else {
    if (h.stag != 0) out.emplace_back("Invalidate STag", fmt::format("0x{:08x}", h.stag));
    out.emplace_back("QN", fmt::format("{}", h.qn));
    out.emplace_back("MSN", fmt::format("{}", h.msn));
    out.emplace_back("MO", fmt::format("{}", h.mo));
  }
  body_fields(h, f.ulpdu.subspan(h.size()), out);
  out.emplace_back("CRC", crc_text(f));
}

}  // namespace parley::capture
