// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/rdmap.hpp"

#include "base/bytes_io.hpp"

namespace parley::wire {
namespace {

struct TermText {
  std::uint8_t layer, etype, code;
  std::string_view text;
};
constexpr TermText term_texts[] = {
#define PARLEY_X(layer, etype, code, text) {layer, etype, code, text},
    PARLEY_RDMAP_TERM_CODES(PARLEY_X)
#undef PARLEY_X
};

// Linux siw lays out the Terminate control word with host bit-fields: on little-endian machines the nibbles of octet 0
// are swapped, and M, D, R are the low bits of octet 2. RFC 5040 §4.8 has them the other way round.
// `length`: of the whole Terminate.
bool is_swapped(std::uint8_t octet0, std::uint8_t code, std::uint8_t bits, std::size_t length) {
  const auto hi = static_cast<std::uint8_t>(octet0 >> 4), lo = static_cast<std::uint8_t>(octet0 & 0xF);
  const bool as_sent = !terminate_text(hi, lo, code).empty();
  const bool exchanged = !terminate_text(lo, hi, code).empty();
  if ((bits & 0xE0) != 0) return false;
  // If both nibbles are the same, the low bits are siw's M, D and R only if something follows the control word.
  if (hi == lo && length == PARLEY_RDMAP_TERM_CTRL_LEN) return false;
  if ((bits & (PARLEY_RDMAP_TERM_SIW_M | PARLEY_RDMAP_TERM_SIW_D | PARLEY_RDMAP_TERM_SIW_R)) != 0)
    return exchanged || !as_sent;
  // Codes 5 to 7 are registered for RDMAP remote operation errors and for MPA. The former come with a DDP header
  // (RFC 5040 §4.8), so without one the octet is siw's.
  const bool headerless_rdmap = hi == PARLEY_RDMAP_LAYER_RDMAP && lo == 2;
  return exchanged && (!as_sent || headerless_rdmap);
}

}  // namespace

std::string_view to_string(RdmapOpcode opcode) {
  switch (opcode) {
#define PARLEY_X(name, value, tagged, qn, text) \
  case RdmapOpcode::name: return text;
    PARLEY_RDMAP_OPCODES(PARLEY_X)
#undef PARLEY_X
  }
  return "unassigned opcode";
}

RdmapOpcodeRule rule_of(RdmapOpcode opcode) {
  switch (opcode) {
#define PARLEY_X(name, value, tagged, qn, text) \
  case RdmapOpcode::name: return {true, tagged != 0, qn};
    PARLEY_RDMAP_OPCODES(PARLEY_X)
#undef PARLEY_X
  }
  return {};
}

Result<DdpHeader> DdpHeader::parse(ConstBytes ulpdu) {
  Reader r(ulpdu);
  const std::uint8_t ddp = r.u8(), rdmap = r.u8();
  DdpHeader h;
  h.tagged = (ddp & PARLEY_DDP_T) != 0;
  h.last = (ddp & PARLEY_DDP_L) != 0;
  h.ddp_version = ddp & PARLEY_DDP_DV_MASK;
  h.rdmap_version = static_cast<std::uint8_t>((rdmap & PARLEY_RDMAP_RV_MASK) >> 6);
  h.opcode = static_cast<RdmapOpcode>(rdmap & PARLEY_RDMAP_OPCODE_MASK);
  h.stag = r.be32();
  if (h.tagged) {
    h.to = r.be64();
  } else {
    h.qn = r.be32();
    h.msn = r.be32();
    h.mo = r.be32();
  }
  if (!r.ok()) return fail(Errc::truncated);
  return h;
}

std::size_t DdpHeader::emit(MutBytes out) const {
  Writer w(out);
  w.u8(static_cast<std::uint8_t>((tagged ? PARLEY_DDP_T : 0) | (last ? PARLEY_DDP_L : 0) |
                                 (ddp_version & PARLEY_DDP_DV_MASK)));
  w.u8(static_cast<std::uint8_t>((rdmap_version & 3) << 6 | static_cast<int>(opcode)));
  w.be32(stag);
  if (tagged) {
    w.be64(to);
  } else {
    w.be32(qn);
    w.be32(msn);
    w.be32(mo);
  }
  return w.size();
}

Result<ReadRequest> ReadRequest::parse(ConstBytes in) {
  Reader r(in);
  ReadRequest q;
  q.sink_stag = r.be32();
  q.sink_to = r.be64();
  q.size = r.be32();
  q.source_stag = r.be32();
  q.source_to = r.be64();
  if (!r.ok()) return fail(Errc::truncated);
  return q;
}

void ReadRequest::emit(MutBytes out) const {
  Writer w(out);
  w.be32(sink_stag);
  w.be64(sink_to);
  w.be32(size);
  w.be32(source_stag);
  w.be64(source_to);
}

Result<AtomicRequest> AtomicRequest::parse(ConstBytes in) {
  Reader r(in);
  AtomicRequest q;
  q.aop = static_cast<std::uint8_t>(r.be32() & 0xF);
  q.request_id = r.be32();
  q.stag = r.be32();
  q.to = r.be64();
  q.add_swap = r.be64();
  q.add_swap_mask = r.be64();
  q.compare = r.be64();
  q.compare_mask = r.be64();
  if (!r.ok()) return fail(Errc::truncated);
  return q;
}

void AtomicRequest::emit(MutBytes out) const {
  Writer w(out);
  w.be32(aop & 0xF);
  w.be32(request_id);
  w.be32(stag);
  w.be64(to);
  w.be64(add_swap);
  w.be64(add_swap_mask);
  w.be64(compare);
  w.be64(compare_mask);
}

Result<AtomicResponse> AtomicResponse::parse(ConstBytes in) {
  Reader r(in);
  AtomicResponse a;
  a.request_id = r.be32();
  a.original = r.be64();
  if (!r.ok()) return fail(Errc::truncated);
  return a;
}

void AtomicResponse::emit(MutBytes out) const {
  Writer w(out);
  w.be32(request_id);
  w.be64(original);
}

std::string_view terminate_text(std::uint8_t layer, std::uint8_t etype, std::uint8_t code) {
  // cxgb4 and irdma send LLP errors with error type 3, which RFC 5041 §7 leaves to the LLP.
  if (layer == PARLEY_RDMAP_LAYER_LLP && etype == 3) etype = 0;
  for (const auto& t : term_texts)
    if (t.layer == layer && t.etype == etype && t.code == code) return t.text;
  if (layer == PARLEY_RDMAP_LAYER_RDMAP && etype == 0) return "RDMAP local catastrophic";
  return {};
}

Result<Terminate> Terminate::parse(ConstBytes in) {
  Reader r(in);
  std::uint8_t octet0 = r.u8();
  Terminate t;
  t.code = r.u8();
  const std::uint8_t bits = r.u8();
  r.skip(1);
  if (!r.ok()) return fail(Errc::truncated);
  t.nibbles_swapped = is_swapped(octet0, t.code, bits, in.size());
  if (t.nibbles_swapped) octet0 = static_cast<std::uint8_t>(octet0 << 4 | octet0 >> 4);
  t.layer = octet0 >> 4;
  t.etype = octet0 & 0xF;
  t.m = (bits & (t.nibbles_swapped ? PARLEY_RDMAP_TERM_SIW_M : PARLEY_RDMAP_TERM_M)) != 0;
  t.d = (bits & (t.nibbles_swapped ? PARLEY_RDMAP_TERM_SIW_D : PARLEY_RDMAP_TERM_D)) != 0;
  t.r = (bits & (t.nibbles_swapped ? PARLEY_RDMAP_TERM_SIW_R : PARLEY_RDMAP_TERM_R)) != 0;
  if (!t.m && !t.d) return t;
  t.ddp_segment_length = r.be16();
  if (t.d && r.left() > 0) {
    const bool tagged = (Reader(in.subspan(r.offset())).u8() & PARLEY_DDP_T) != 0;
    t.ddp_header = r.bytes(tagged ? PARLEY_DDP_TAGGED_LEN : PARLEY_DDP_UNTAGGED_LEN);
  }
  if (t.r) t.read_request = r.bytes(PARLEY_RDMAP_READ_REQUEST_LEN);
  return t;
}

std::size_t Terminate::size() const {
  return PARLEY_RDMAP_TERM_CTRL_LEN + (m || d ? 2 + ddp_header.size() + read_request.size() : 0);
}

void Terminate::emit(MutBytes out) const {
  const bool siw = nibbles_swapped;
  Writer w(out);
  w.u8(static_cast<std::uint8_t>(siw ? (etype << 4 | (layer & 0xF)) : (layer << 4 | (etype & 0xF))));
  w.u8(code);
  w.u8(static_cast<std::uint8_t>((m ? (siw ? PARLEY_RDMAP_TERM_SIW_M : PARLEY_RDMAP_TERM_M) : 0) |
                                 (d ? (siw ? PARLEY_RDMAP_TERM_SIW_D : PARLEY_RDMAP_TERM_D) : 0) |
                                 (r ? (siw ? PARLEY_RDMAP_TERM_SIW_R : PARLEY_RDMAP_TERM_R) : 0)));
  w.u8(0);
  if (!m && !d) return;
  w.be16(ddp_segment_length);
  w.bytes(ddp_header);
  w.bytes(read_request);
}

}  // namespace parley::wire
