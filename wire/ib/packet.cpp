// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/ib/packet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/bytes_io.hpp"

namespace parley::wire::ib {
namespace {

std::uint32_t be24(Reader& r) {
  const std::uint32_t high = r.u8();
  return high << 16 | r.be16();
}
void put_be24(Writer& w, std::uint32_t value) {
  w.u8(static_cast<std::uint8_t>(value >> 16));
  w.be16(static_cast<std::uint16_t>(value));
}

constexpr unsigned service_bit(Service service) {
  switch (service) {
    case Service::rc: return PARLEY_IB_ON_RC;
    case Service::uc: return PARLEY_IB_ON_UC;
    case Service::ud: return PARLEY_IB_ON_UD;
    case Service::xrc: return PARLEY_IB_ON_XRC;
    default: return 0;
  }
}

struct OperationRule {
  std::uint8_t value;
  unsigned services, headers;
  bool response;
  std::string_view text;
};
constexpr OperationRule operation_rules[] = {
#define PARLEY_X(name, value, services, headers, response, text) {value, services, headers, response != 0, text},
    PARLEY_IB_OPERATIONS(PARLEY_X)
#undef PARLEY_X
};

constexpr const OperationRule* find_operation(std::uint8_t opcode) {
  for (const OperationRule& rule : operation_rules)
    if (rule.value == (opcode & PARLEY_IB_OPERATION_MASK))
      return (rule.services & service_bit(service_of(opcode))) != 0 ? &rule : nullptr;
  return nullptr;
}

}  // namespace

std::string_view to_string(Service service) {
  switch (service) {
#define PARLEY_X(name, value, text) \
  case Service::name: return text;
    PARLEY_IB_SERVICES(PARLEY_X)
#undef PARLEY_X
  }
  return "reserved";
}

namespace {

constexpr OpcodeRule make_rule(std::uint8_t opcode) {
  if (opcode == PARLEY_IB_OPCODE_CNP) return {.assigned = true, .response = true, .headers = 0};
  const OperationRule* rule = find_operation(opcode);
  if (rule == nullptr) return {};
  unsigned headers = rule->headers;
  if (service_of(opcode) == Service::ud) headers |= PARLEY_IB_DETH;
  if (service_of(opcode) == Service::xrc && !rule->response) headers |= PARLEY_IB_XRCETH;
  return {.assigned = true, .response = rule->response, .headers = headers};
}

// A table, since each packet looks up its opcode's rule several times.
constexpr auto rules = [] {
  std::array<OpcodeRule, 256> all{};
  for (std::size_t opcode = 0; opcode < all.size(); ++opcode)
    all[opcode] = make_rule(static_cast<std::uint8_t>(opcode));
  return all;
}();

}  // namespace

OpcodeRule rule_of(std::uint8_t opcode) { return rules[opcode]; }

std::string opcode_text(std::uint8_t opcode) {
  if (opcode == PARLEY_IB_OPCODE_CNP) return "CNP";
  const OperationRule* rule = find_operation(opcode);
  if (rule == nullptr) return "unassigned opcode";
  return fmt::format("{} {}", to_string(service_of(opcode)), rule->text);
}

std::size_t size_of_headers(unsigned headers) {
  std::size_t size = 0;
#define PARLEY_X(name, mask, length) size += (headers & (mask)) != 0 ? (length) : 0;
  PARLEY_IB_HEADERS(PARLEY_X)
#undef PARLEY_X
  return size;
}

namespace {

// The BTH is read and written in whole words: reading a word just after writing its octets one by one stalls the CPU.
std::uint32_t word(ConstBytes in, std::size_t at) { return load<std::uint32_t>(in.data() + at, std::endian::big); }

void put_word(MutBytes out, std::size_t at, std::uint32_t value) { store(out.data() + at, value, std::endian::big); }

void read_bth(ConstBytes in, Bth& out) {
  const std::uint32_t first = word(in, 0), second = word(in, 4), third = word(in, 8);
  const auto flags = static_cast<std::uint8_t>(first >> 16);
  out.opcode = static_cast<std::uint8_t>(first >> 24);
  out.solicited = (flags & PARLEY_IB_BTH_SE) != 0;
  out.mig_req = (flags & PARLEY_IB_BTH_M) != 0;
  out.pad_count = static_cast<std::uint8_t>((flags & PARLEY_IB_BTH_PAD) >> 4);
  out.tver = flags & PARLEY_IB_BTH_TVER;
  out.p_key = static_cast<std::uint16_t>(first);
  const auto congestion = static_cast<std::uint8_t>(second >> 24);
  out.fecn = (congestion & PARLEY_IB_BTH_FECN) != 0;
  out.becn = (congestion & PARLEY_IB_BTH_BECN) != 0;
  out.reserved6 = congestion & 0x3F;
  out.dest_qpn = second & 0xFFFFFF;
  const auto ack = static_cast<std::uint8_t>(third >> 24);
  out.ack_req = (ack & PARLEY_IB_BTH_ACK_REQ) != 0;
  out.reserved7 = ack & 0x7F;
  out.psn = third & 0xFFFFFF;
}

void emit_bth(const Bth& bth, unsigned pad_count, MutBytes out) {
  const unsigned flags = (bth.solicited ? PARLEY_IB_BTH_SE : 0U) | (bth.mig_req ? PARLEY_IB_BTH_M : 0U) |
                         (pad_count & 3) << 4 | (bth.tver & PARLEY_IB_BTH_TVER);
  const unsigned congestion =
      (bth.fecn ? PARLEY_IB_BTH_FECN : 0U) | (bth.becn ? PARLEY_IB_BTH_BECN : 0U) | (bth.reserved6 & 0x3FU);
  const unsigned ack = (bth.ack_req ? PARLEY_IB_BTH_ACK_REQ : 0U) | (bth.reserved7 & 0x7FU);
  put_word(out, 0, std::uint32_t{bth.opcode} << 24 | flags << 16 | bth.p_key);
  put_word(out, 4, congestion << 24 | (bth.dest_qpn & 0xFFFFFF));
  put_word(out, 8, ack << 24 | (bth.psn & 0xFFFFFF));
}

}  // namespace

Result<Bth> Bth::parse(ConstBytes in) {
  if (in.size() < PARLEY_IB_BTH_LEN) return fail(Errc::truncated);
  Bth out;
  read_bth(in, out);
  return out;
}

void Bth::read(ConstBytes in) { read_bth(in, *this); }

void Bth::emit(MutBytes out) const {
  if (out.size() >= PARLEY_IB_BTH_LEN) emit_bth(*this, pad_count, out);
}

namespace {

void read_headers(Reader& r, unsigned headers, Packet& p) {
  if ((headers & PARLEY_IB_DETH) != 0) {
    p.deth.q_key = r.be32();
    p.deth.reserved = r.u8();
    p.deth.source_qpn = be24(r);
  }
  if ((headers & PARLEY_IB_XRCETH) != 0) {
    p.xrceth.reserved = r.u8();
    p.xrceth.srqn = be24(r);
  }
  if ((headers & PARLEY_IB_RETH) != 0) {
    p.reth.va = r.be64();
    p.reth.r_key = r.be32();
    p.reth.dma_length = r.be32();
  }
  if ((headers & PARLEY_IB_ATOMIC_ETH) != 0) {
    p.atomic.va = r.be64();
    p.atomic.r_key = r.be32();
    p.atomic.swap_add = r.be64();
    p.atomic.compare = r.be64();
  }
  if ((headers & PARLEY_IB_AETH) != 0) {
    p.aeth.syndrome = r.u8();
    p.aeth.msn = be24(r);
  }
  if ((headers & PARLEY_IB_ATOMIC_ACK_ETH) != 0) p.atomic_original = r.be64();
  if ((headers & PARLEY_IB_IMM) != 0) {
    const ConstBytes octets = r.bytes(p.imm.size());
    std::copy(octets.begin(), octets.end(), p.imm.begin());
  }
  if ((headers & PARLEY_IB_IETH) != 0) p.invalidate = r.be32();
}

void write_headers(Writer& w, unsigned headers, const Packet& p) {
  if ((headers & PARLEY_IB_DETH) != 0) {
    w.be32(p.deth.q_key);
    w.u8(p.deth.reserved);
    put_be24(w, p.deth.source_qpn);
  }
  if ((headers & PARLEY_IB_XRCETH) != 0) {
    w.u8(p.xrceth.reserved);
    put_be24(w, p.xrceth.srqn);
  }
  if ((headers & PARLEY_IB_RETH) != 0) {
    w.be64(p.reth.va);
    w.be32(p.reth.r_key);
    w.be32(p.reth.dma_length);
  }
  if ((headers & PARLEY_IB_ATOMIC_ETH) != 0) {
    w.be64(p.atomic.va);
    w.be32(p.atomic.r_key);
    w.be64(p.atomic.swap_add);
    w.be64(p.atomic.compare);
  }
  if ((headers & PARLEY_IB_AETH) != 0) {
    w.u8(p.aeth.syndrome);
    put_be24(w, p.aeth.msn);
  }
  if ((headers & PARLEY_IB_ATOMIC_ACK_ETH) != 0) w.be64(p.atomic_original);
  if ((headers & PARLEY_IB_IMM) != 0) w.bytes(p.imm);
  if ((headers & PARLEY_IB_IETH) != 0) w.be32(p.invalidate);
}

}  // namespace

Result<Packet> Packet::parse(ConstBytes in) {
  Packet out;
  if (auto read = out.read(in); !read) return tl::unexpected(read.error());
  return out;
}

Result<void> Packet::read(ConstBytes in) {
  if (in.size() < PARLEY_IB_BTH_LEN + PARLEY_IB_ICRC_LEN) return fail(Errc::truncated);
  // Clear the headers of the packet that was read before. If its opcode had none, they are already empty.
  if (rule_of(bth.opcode).headers != 0) *this = Packet{};
  read_bth(in, bth);
  Reader r(in.subspan(PARLEY_IB_BTH_LEN, in.size() - PARLEY_IB_BTH_LEN - PARLEY_IB_ICRC_LEN));
  if (const unsigned headers = rule_of(bth.opcode).headers; headers != 0) read_headers(r, headers, *this);
  if (!r.ok()) return fail(Errc::truncated);
  if (bth.pad_count > r.left())
    return fail(Errc::malformed, "the BTH counts {a} octets of pad; {b} are left", bth.pad_count,
                static_cast<std::int64_t>(r.left()));
  payload = r.bytes(r.left() - bth.pad_count);
  pad = r.rest();
  Reader trailer(in.last(PARLEY_IB_ICRC_LEN));
  icrc = trailer.le32();
  return {};
}

std::size_t Packet::size() const {
  return PARLEY_IB_BTH_LEN + size_of_headers(rule_of(bth.opcode).headers) + payload.size() + pad_of(payload.size()) +
         PARLEY_IB_ICRC_LEN;
}

std::size_t Packet::emit_headers(std::size_t payload_size, MutBytes out) const {
  const unsigned headers = rule_of(bth.opcode).headers;
  if (out.size() < PARLEY_IB_BTH_LEN + size_of_headers(headers)) return 0;
  emit_bth(bth, pad_of(payload_size), out);
  Writer w(out.subspan(PARLEY_IB_BTH_LEN));
  if (headers != 0) write_headers(w, headers, *this);
  return PARLEY_IB_BTH_LEN + w.size();
}

std::size_t Packet::emit(MutBytes out) const {
  if (out.size() < size()) return 0;
  const std::size_t headers = emit_headers(payload.size(), out);
  Writer w(out.subspan(headers));
  w.bytes(payload);
  w.zeros(pad_of(payload.size()));
  w.le32(icrc);
  return headers + w.size();
}

}  // namespace parley::wire::ib
