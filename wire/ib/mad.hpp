// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The header of management datagrams: IBA vol. 1 §13.4.2.
#pragma once
#include <cstdint>

#include "parley/bytes.hpp"
#include "parley/result.hpp"
#include "parley/wire/ib.h"

namespace parley::wire::ib {

/// 24 octets; a MAD has 256.
struct MadHeader {
  std::uint8_t base_version = PARLEY_IB_MAD_BASE_VERSION;
  std::uint8_t mgmt_class = 0;
  std::uint8_t class_version = 0;
  std::uint8_t method = 0;  ///< with the R bit, PARLEY_IB_MAD_RESPONSE
  std::uint16_t status = 0;
  std::uint16_t class_specific = 0;
  std::uint64_t transaction_id = 0;
  std::uint16_t attribute_id = 0;
  std::uint16_t reserved = 0;
  std::uint32_t attribute_modifier = 0;

  /// Errors: truncated.
  static Result<MadHeader> parse(ConstBytes in);
  void emit(MutBytes out) const;
  bool operator==(const MadHeader&) const = default;
};

}  // namespace parley::wire::ib
