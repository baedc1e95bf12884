// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whether what a live side said means the same as what a recorded one did. Not compared: how TCP and DDP cut it, names
// of memory (mapping.hpp), what the recording does not hold, and where the answer to a Read is to be placed, which is
// up to the live side.
#pragma once
#include <bitset>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "replay/mapping.hpp"

namespace parley::replay {

struct Mismatch {
  std::string what;  ///< "the private data differ at octet 12: recorded 0a, live 0b"
  std::string rule;  ///< "RFC 6581 §9.2"; empty if no clause is involved
};

/// What in an answer a user may allow to differ; not what kind of answer it is, nor whether it ends.
enum class Compared : std::uint8_t {
  revision,
  m,
  c,
  r,
  s,
  reserved,
  ird,
  ord,
  rtr,  ///< A, B, C and D of the enhanced data (RFC 6581 §9.2)
  pd_length,
  private_data,
  version,
  stag,
  to,
  qn,
  msn,
  mo,
  length,
  payload,
  terminate,
  terminate_order,
  marker,
  pad,
  // Of the InfiniBand CM and RoCE alone; roce_compare.hpp.
  service,
  p_key,
  responder_resources,
  initiator_depth,
  retry_count,
  rnr_retry_count,
  flow_control,
  srq,
  path_mtu,
  timeouts,  ///< response, ACK and service timeouts, the target ACK delay
  failover,
  reason,  ///< of a REJ with its additional information; status of a SIDR_REP or APR
  q_key,
  r_key,
  va,
  immediate,
  solicited,
};
inline constexpr std::size_t compared_count = static_cast<std::size_t>(Compared::solicited) + 1;
using Ignored = std::bitset<compared_count>;
/// Their names, in the order of the enumeration: "revision", "M", "C", ...
std::span<const std::string_view> compared_names();
/// By name, in upper or lower case.
std::optional<Compared> find_compared(std::string_view name);

/// How lenient a comparison is, and what it let pass.
struct Leniency {
  Ignored ignored;
  std::vector<Mismatch>* told = nullptr;  ///< where ignored differences are listed; null: nowhere
};

/// `masks`: the fields of the recorded item. `less`: how many recorded messages of its queue before it the live side
/// does not send; it therefore counts its MSN without them. Returns the first difference, or nothing.
std::optional<Mismatch> compare(const Item& recorded, const Item& live, std::span<const Field> masks,
                                std::uint32_t less = 0, const Leniency& leniency = {});

/// The first octet, if any, in which two runs of octets differ outside of the masks; octets that only one has do not count.
std::optional<std::size_t> differs_at(ConstBytes recorded, ConstBytes live, std::span<const Field> masks);

}  // namespace parley::replay
