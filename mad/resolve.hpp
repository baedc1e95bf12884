// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The way to a port that is known by its GID or LID, as subnet administration has it (IBA §15.2.5.16).
#pragma once
#include "mad/port.hpp"

namespace parley::mad {

struct Destination {
  std::optional<Gid> gid;            ///< or
  std::optional<std::uint16_t> lid;  ///< one of them at least
};

/// A Path by which requests get there: LID, SL, P_Key and packet life time of the PathRecord, a GRH where its hop limit says that a router is
/// on the way. `query` may have more members of the PathRecord to ask by. Errors: of the query; is_no_records() where there is no way;
/// Fault::malformed where the record has no unicast LID.
Task<Reply<Path>> resolve_path(Port& port, Destination destination, wire::mad::Query<wire::mad::PathRecord> query = {});
/// The same of subnet administration that `administration` leads to.
Task<Reply<Path>> resolve_path(Port& port, Path administration, Destination destination,
                               wire::mad::Query<wire::mad::PathRecord> query = {});

}  // namespace parley::mad
