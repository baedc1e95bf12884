// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Between Parley's verbs and libibverbs' structures. Enumerations with the same numbers are cast; the rest is spelled out.
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
/// What `mask` says is there.
QpAttr from_ibv(const ibv_qp_attr& attr, int mask);

/// Errors: unsupported (an operation that verbs lack).
Result<ibv_wr_opcode> to_ibv(SendWr::Opcode opcode);
WcOpcode completes_as(SendWr::Opcode opcode);

/// What a failed call of the libraries means: the errno, as an Error whose sentence names the call. `call` has static
/// lifetime.
tl::unexpected<Error> refused(int error, std::string_view call);

}  // namespace parley::verbs
