// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Conversion between Parley's verbs and libibverbs' structures. Enumerations with the same numbers are cast; the others
// are converted explicitly.
#pragma once
#include <infiniband/verbs.h>

#include <system_error>

#include "parley/verbs.hpp"

namespace parley::verbs {

int to_ibv(Access access);
ibv_qp_type to_ibv(QpType type);
QpState from_ibv(ibv_qp_state state);
ibv_ah_attr to_ibv(const AhAttr& attr);
AhAttr from_ibv(const ibv_ah_attr& attr);

struct ModifyArgs {
  ibv_qp_attr attr{};
  int mask = 0;
};
ModifyArgs to_ibv(const QpAttr& attr);
/// Converts the attributes that `mask` selects.
QpAttr from_ibv(const ibv_qp_attr& attr, int mask);

/// Errors: unsupported (an operation that does not exist in verbs).
Result<ibv_wr_opcode> to_ibv(SendWr::Opcode opcode);
WcOpcode completes_as(SendWr::Opcode opcode);

/// The errno of a failed library call, as an Error whose sentence names the call. `call` has static lifetime.
tl::unexpected<Error> refused(int error, std::string_view call);

}  // namespace parley::verbs
