// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Queries subnet administration for the path to a port with a known GID or LID (IBA §15.2.5.16).
#pragma once
#include "mad/port.hpp"

namespace parley::mad {

struct Destination {
  std::optional<Gid> gid;  ///< this, or `lid`, or both
  std::optional<std::uint16_t> lid;
};

/// The Path for requests to the port: LID, SL, P_Key and packet life time of the PathRecord, and a GRH if its hop limit
/// is not 0, because there is a router on the path. `query` may set further members of the PathRecord. Errors: of the
/// query; is_no_records() if there is no path; Fault::malformed if the record has no unicast LID.
Task<Reply<Path>> resolve_path(Port& port, Destination destination, wire::mad::Query<wire::mad::PathRecord> query = {});
/// The same, with `administration` as the path to subnet administration.
Task<Reply<Path>> resolve_path(Port& port, Path administration, Destination destination,
                               wire::mad::Query<wire::mad::PathRecord> query = {});

}  // namespace parley::mad
