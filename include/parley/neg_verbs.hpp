// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The driver "verbs": negotiated queue pairs of the machine's RDMA devices, through libibverbs. docs/negotiation.md lists
// its parameters.
#pragma once
#include "parley/neg_qp.hpp"

namespace parley::neg {

/// For make_builtin_plugin(). Devices are opened with the first queue pair and closed with the last. Without libibverbs the
/// result is empty, and "manual" is the only driver.
QpDrivers verbs_drivers();

}  // namespace parley::neg
