// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Subnet administration's answer to an AcmQuery.
#pragma once
#include "mad/port.hpp"
#include "mad/text_request.hpp"
#include "ssa/acm/message.hpp"
#include "wire/mad/sa.hpp"

namespace parley::ssa_driver {

/// The query for a path: each member of `record` that is not 0.
wire::mad::Query<wire::mad::PathRecord> query_of(const wire::mad::PathRecord& record);

/// The path, or the status of the answer without one. The address is that of the port's subnet administration
/// when the task starts; `options` has retries, times and keys.
mad::Task<tl::expected<wire::mad::PathRecord, ssa::acm::Status>> ask_sa(mad::Port& port, mad::PathDefaults options,
                                                                        wire::mad::PathRecord record);

}  // namespace parley::ssa_driver
