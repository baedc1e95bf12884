// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/resolve.hpp"

namespace parley::mad {

using wire::mad::PathRecord;

Task<Reply<Path>> resolve_path(Port& port, Destination destination, wire::mad::Query<PathRecord> query) {
  return resolve_path(port, port.sa_path(), destination, query);
}

Task<Reply<Path>> resolve_path(Port& port, Path administration, Destination destination,
                               wire::mad::Query<PathRecord> query) {
  query.set(PathRecord::sgid, port.local().gid).set(PathRecord::reversible, true).set(PathRecord::num_path, 1);
  if (destination.gid) query.set(PathRecord::dgid, *destination.gid);
  if (destination.lid) query.set(PathRecord::dlid, *destination.lid);
  const Reply<PathRecord> record = co_await port.sa_get(administration, query);
  if (!record) co_return tl::unexpected(MadError(record.error()).about("resolving the path to a port"));
  const std::uint16_t lid = record->get(PathRecord::dlid);
  if (!is_unicast_lid(lid)) co_return tl::unexpected(MadError(Fault::malformed, "the PathRecord has no unicast LID"));
  Path out = Path::by_lid(lid, record->get(PathRecord::sl));
  const std::uint8_t hop_limit = record->get(PathRecord::hop_limit);
  if (hop_limit != 0)
    out.address.grh = Grh{.gid = record->get(PathRecord::dgid),
                          .traffic_class = record->get(PathRecord::traffic_class),
                          .hop_limit = hop_limit,
                          .flow_label = record->get(PathRecord::flow_label)};
  if (const std::uint16_t pkey = record->get(PathRecord::p_key); pkey != 0) out.address.pkey = pkey;
  out.packet_life_time = record->get(PathRecord::packet_life_time);
  out.timeout.reset();
  co_return out;
}

}  // namespace parley::mad
