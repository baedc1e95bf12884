// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Structures that begin with `size`: the program and the library may have been compiled with different versions of
// them.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/address_text.hpp"
#include "capi/error.hpp"
#include "parley/mad.h"
#include "parley/xrc.h"

namespace parley::capi {

inline constexpr std::size_t structure_max = 4096;  // octets; no valid structure is larger

/// The size of each structure in version 1.0, which is the minimum. New members are added behind it, and this stays.
template <class Structure>
inline constexpr std::size_t first_size = 0;
#define PARLEY_FIRST(structure, last) \
  template <>                         \
  inline constexpr std::size_t first_size<structure> = offsetof(structure, last) + sizeof(structure::last);
PARLEY_FIRST(parley_world_opts, reserved)
PARLEY_FIRST(parley_opts, seed)
PARLEY_FIRST(parley_attr, max_rd_atomic)
PARLEY_FIRST(parley_qp_init, max_recv_wr)
PARLEY_FIRST(parley_listen_opts, user)
PARLEY_FIRST(parley_connect_opts, user)
PARLEY_FIRST(parley_accept_opts, user)
PARLEY_FIRST(parley_id_attr, user)
PARLEY_FIRST(parley_event, established_ns)
PARLEY_FIRST(parley_mr, length)
PARLEY_FIRST(parley_send_wr, reserved)
PARLEY_FIRST(parley_recv_wr, sges)
PARLEY_FIRST(parley_wc, reserved)
PARLEY_FIRST(parley_xrc_opts, reserved)
PARLEY_FIRST(parley_xrc_tgt, age_ns)
PARLEY_FIRST(parley_xrc_event, sticky)
PARLEY_FIRST(parley_mad_opts, sm_key)
PARLEY_FIRST(parley_mad_attr, gid)
PARLEY_FIRST(parley_mad_request, user)
PARLEY_FIRST(parley_mad_reply, error)
PARLEY_FIRST(parley_mad_service, methods)
PARLEY_FIRST(parley_mad_incoming, reserved)
PARLEY_FIRST(parley_mad_response, reserved)
#undef PARLEY_FIRST
static_assert(sizeof(parley_sge) == 16, "arrays of it carry no size");
static_assert(sizeof(parley_xrc_peer) == 16, "it is passed and has no size");

/// Returns 0, or a code after fail().
template <class Structure>
int check_size(std::size_t size) noexcept {
  constexpr std::size_t first = first_size<Structure>;
  static_assert(first != 0, "first_size says what version 1.0 had");
  if (size >= first && size <= structure_max) return 0;
  return fail(PARLEY_E_INVALID_ARGUMENT,
              "the structure's size is {a}; must be {b} to 4096: set it to sizeof, as its _INIT macro does",
              static_cast<std::int64_t>(std::min<std::size_t>(size, INT64_MAX)), static_cast<std::int64_t>(first));
}

/// Copies a program's options into `out`, which has the defaults. A null pointer leaves them all; an older program's
/// structure leaves those that it does not have. Members that only a newer library knows must be 0.
template <class Options>
int read_options(const Options* given, Options& out) noexcept {
  if (given == nullptr) return 0;
  std::uint32_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (const int rc = check_size<Options>(size); rc != 0) return rc;
  const auto* octets = reinterpret_cast<const unsigned char*>(given);
  const std::size_t known = std::min<std::size_t>(size, sizeof(Options));
  if (std::any_of(octets + known, octets + size, [](unsigned char octet) { return octet != 0; }))
    return fail(PARLEY_E_INVALID_ARGUMENT,
                "an option is set that this version of Parley does not know: octets beyond {a} are not 0",
                sizeof(Options));
  std::memcpy(&out, given, known);
  return 0;
}

/// Writes `size` octets, which the caller has checked. Members that the library does not know become 0.
template <class Structure>
void write_bounded(void* to, const Structure& from, std::size_t size) noexcept {
  auto* octets = static_cast<unsigned char*>(to);
  const std::size_t known = std::min(size, sizeof(Structure));
  std::memcpy(octets, &from, known);
  std::fill(octets + known, octets + size, static_cast<unsigned char>(0));
}

/// Fills a program's structure up to its `size`.
template <class Attributes>
int write_attributes(Attributes* to, const Attributes& from) noexcept {
  std::uint32_t size = 0;
  std::memcpy(&size, to, sizeof size);
  if (const int rc = check_size<Attributes>(size); rc != 0) return rc;
  write_bounded(to, from, size);
  std::memcpy(to, &size, sizeof size);
  return 0;
}

/// Copies text into a fixed array, truncated if needed and always null-terminated.
template <std::size_t n>
void write_text(char (&to)[n], std::string_view text) noexcept {
  const std::size_t length = std::min(text.size(), n - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

inline void write_text(char (&to)[PARLEY_ADDRSTRLEN], const Address& address) {
  static_assert(PARLEY_ADDRSTRLEN > address_text_max);
  *write_address(address, to) = '\0';
}

}  // namespace parley::capi
