// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Compares the meaning of a live item with that of a recorded one. Not compared: segmentation by TCP and DDP, names of
// memory (mapping.hpp), octets that the recording lacks, and the sink of a Read, which the live side chooses.
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

/// The parts of an answer that a user may allow to differ. The kind of an answer and the end of a connection are always
/// compared.
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
  // The InfiniBand CM and RoCE only; roce_compare.hpp.
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
/// Finds an entry by name, in upper or lower case.
std::optional<Compared> find_compared(std::string_view name);

/// The differences that a comparison ignores, and where it lists those that it found.
struct Leniency {
  Ignored ignored;
  std::vector<Mismatch>* told = nullptr;  ///< where ignored differences are listed; null: nowhere
};

/// `masks`: the fields of the recorded item. `less`: the number of earlier recorded messages of its queue that the live
/// side does not send, so that its MSN is lower by `less`. Returns the first difference, or nullopt.
std::optional<Mismatch> compare(const Item& recorded, const Item& live, std::span<const Field> masks,
                                std::uint32_t less = 0, const Leniency& leniency = {});

/// The first octet in which the two differ outside of the masks, if any. Octets beyond the shorter one do not count.
std::optional<std::size_t> differs_at(ConstBytes recorded, ConstBytes live, std::span<const Field> masks);

}  // namespace parley::replay
