// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// DDP and RDMAP headers: RFC 5041 §4, RFC 5040 §4, RFC 7306 §5-6. The parsers check lengths only; the caller validates
// the values.
#pragma once
#include <array>
#include <optional>
#include <string_view>

#include "parley/bytes.hpp"
#include "parley/result.hpp"
#include "parley/wire/rdmap.h"

namespace parley::wire {

enum class RdmapOpcode : std::uint8_t {
#define PARLEY_X(name, value, tagged, qn, text) name = value,
  PARLEY_RDMAP_OPCODES(PARLEY_X)
#undef PARLEY_X
};
/// "unassigned opcode" for C..F.
std::string_view to_string(RdmapOpcode opcode);
struct RdmapOpcodeRule {
  bool assigned = false;
  bool tagged = false;
  std::uint32_t qn = 0;
};
RdmapOpcodeRule rule_of(RdmapOpcode opcode);

/// The DDP header with RDMAP's control octet: 14 octets tagged, 18 untagged.
struct DdpHeader {
  bool tagged = false, last = true;
  std::uint8_t ddp_version = PARLEY_DDP_DV;
  std::uint8_t rdmap_version = 1;
  RdmapOpcode opcode = RdmapOpcode::send;
  std::uint32_t stag = 0;                 ///< tagged: STag; untagged: the reserved word, or the STag to invalidate
  std::uint64_t to = 0;                   ///< tagged
  std::uint32_t qn = 0, msn = 0, mo = 0;  ///< untagged

  std::size_t size() const { return tagged ? PARLEY_DDP_TAGGED_LEN : PARLEY_DDP_UNTAGGED_LEN; }
  /// Errors: truncated, when the ULPDU is shorter than the header that its T bit selects.
  static Result<DdpHeader> parse(ConstBytes ulpdu);
  std::size_t emit(MutBytes out) const;
};

struct ReadRequest {
  std::uint32_t sink_stag = 0;
  std::uint64_t sink_to = 0;
  std::uint32_t size = 0;
  std::uint32_t source_stag = 0;
  std::uint64_t source_to = 0;
  static Result<ReadRequest> parse(ConstBytes in);
  void emit(MutBytes out) const;  ///< 28 octets
};

struct AtomicRequest {
  std::uint8_t aop = 0;  ///< 4 bits
  std::uint32_t request_id = 0;
  std::uint32_t stag = 0;
  std::uint64_t to = 0;
  std::uint64_t add_swap = 0, add_swap_mask = 0, compare = 0, compare_mask = 0;
  static Result<AtomicRequest> parse(ConstBytes in);
  void emit(MutBytes out) const;  ///< 52 octets
};

struct AtomicResponse {
  std::uint32_t request_id = 0;
  std::uint64_t original = 0;
  static Result<AtomicResponse> parse(ConstBytes in);
  void emit(MutBytes out) const;  ///< 12 octets
};

/// Terminate payload (after its DDP header): RFC 5040 §4.8.
struct Terminate {
  std::uint8_t layer = 0, etype = 0, code = 0;
  bool m = false, d = false, r = false;
  bool nibbles_swapped = false;  ///< the wire format has Linux siw's order of octet 0 and the header bits
  std::uint16_t ddp_segment_length = 0;
  ConstBytes ddp_header;    ///< 14 or 18 octets when d
  ConstBytes read_request;  ///< 28 octets when r
  /// Errors: truncated below 4 octets. Parts that are cut off are empty spans.
  static Result<Terminate> parse(ConstBytes in);
  std::size_t size() const;
  void emit(MutBytes out) const;  ///< in the RFC's order, or in siw's if nibbles_swapped is set
};
/// The registered meaning of (layer, etype, code); empty when there is none. Layer 2 type 3 (cxgb4, irdma) counts as
/// type 0.
std::string_view terminate_text(std::uint8_t layer, std::uint8_t etype, std::uint8_t code);

}  // namespace parley::wire
