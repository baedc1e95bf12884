// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/sa_view.hpp"

namespace parley::mad {

using wire::mad::LinkRecord;
using wire::mad::PKeyTable;
using wire::mad::PKeyTableRecord;
using wire::mad::PortInfo;
using wire::mad::PortInfoRecord;

Task<Reply<Path>> lid_path_of(Port& port, Path path) {
  if (!path.route) co_return path;
  const Route route = *path.route;
  Path out = Path::by_lid(route.destination_lid);
  out.retries = path.retries;
  out.timeout = path.timeout;
  if (route.destination_lid != PARLEY_MAD_PERMISSIVE_LID) co_return out;
  std::uint16_t lid = path.address.lid == PARLEY_MAD_PERMISSIVE_LID ? port.local().lid : path.address.lid;
  // The first port of the route is the number of the local port: a channel adapter has no other link at that LID.
  for (std::size_t hop = 0; hop < route.hops; ++hop) {
    Query<LinkRecord> query;
    query.set(LinkRecord::from_lid, lid).set(LinkRecord::from_port, route.ports()[hop]);
    const Reply<LinkRecord> link = co_await port.sa_get(query);
    if (!link)
      co_return tl::unexpected(
          MadError(link.error()).about("following " + path.text() + " from LID " + std::to_string(lid)));
    lid = link->get(LinkRecord::to_lid);
  }
  out.address.lid = lid;
  co_return out;
}

namespace detail {

Task<Reply<PortInfo>> sa_port_info(Port& port, Path path, std::uint32_t modifier, bool is_switch) {
  const Reply<Path> by_lid = co_await lid_path_of(port, path);
  if (!by_lid) co_return tl::unexpected(by_lid.error());
  Query<PortInfoRecord> query;
  query.set(PortInfoRecord::endport_lid, by_lid->address.lid);
  if (modifier != 0 || is_switch) {
    query.set(PortInfoRecord::port_num, static_cast<std::uint8_t>(modifier));
    const Reply<PortInfoRecord> record = co_await port.sa_get(query);
    if (!record) co_return tl::unexpected(record.error());
    co_return record->get(PortInfoRecord::port_info);
  }
  // The type of the node is not known: if there is a port 0, it is a switch; otherwise take the first record.
  const Reply<std::vector<PortInfoRecord>> records = co_await port.sa_get_table(query);
  if (!records) co_return tl::unexpected(records.error());
  if (records->empty()) co_return tl::unexpected(MadError(Fault::malformed, "the table of its ports is empty"));
  const PortInfoRecord* found = &records->front();
  for (const PortInfoRecord& record : *records)
    if (record.get(PortInfoRecord::port_num) == 0) found = &record;
  co_return found->get(PortInfoRecord::port_info);
}

Task<Reply<PKeyTable>> sa_pkey_table(Port& port, Path path, std::uint32_t modifier, bool is_adapter) {
  const Reply<Path> by_lid = co_await lid_path_of(port, path);
  if (!by_lid) co_return tl::unexpected(by_lid.error());
  Query<PKeyTableRecord> query;
  query.set(PKeyTableRecord::lid, by_lid->address.lid)
      .set(PKeyTableRecord::block_num, static_cast<std::uint16_t>(modifier));
  if (!is_adapter) query.set(PKeyTableRecord::port_num, static_cast<std::uint8_t>(modifier >> 16));
  const Reply<PKeyTableRecord> record = co_await port.sa_get(query);
  if (record) co_return record->get(PKeyTableRecord::p_key_table);
  if (record.error().is_no_records()) co_return PKeyTable{};
  co_return tl::unexpected(record.error());
}

}  // namespace detail

}  // namespace parley::mad
