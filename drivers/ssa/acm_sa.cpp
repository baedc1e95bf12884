// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/ssa/acm_sa.hpp"

namespace parley::ssa_driver {

using wire::mad::PathRecord;

wire::mad::Query<PathRecord> query_of(const PathRecord& record) {
  wire::mad::Query<PathRecord> out;
  const auto copy = [&](auto... members) {
    const auto one = [&](auto member) {
      const auto value = record.get(member);
      if (value != decltype(value){}) out.set(member, value);
    };
    (one(members), ...);
  };
  copy(PathRecord::service_id, PathRecord::dgid, PathRecord::sgid, PathRecord::dlid, PathRecord::slid,
       PathRecord::flow_label, PathRecord::hop_limit, PathRecord::traffic_class, PathRecord::reversible,
       PathRecord::num_path, PathRecord::p_key, PathRecord::qos_class, PathRecord::sl);
  // A selector without a value would ask for more than 0.
  const auto copy_selected = [&](auto selector, auto member) {
    if (record.get(member) == decltype(record.get(member)){}) return;
    out.set(selector, record.get(selector)).set(member, record.get(member));
  };
  copy_selected(PathRecord::mtu_selector, PathRecord::mtu);
  copy_selected(PathRecord::rate_selector, PathRecord::rate);
  copy_selected(PathRecord::packet_life_time_selector, PathRecord::packet_life_time);
  return out;
}

mad::Task<tl::expected<PathRecord, ssa::acm::Status>> ask_sa(mad::Port& port, mad::PathDefaults options,
                                                             PathRecord record) {
  using ssa::acm::Status;
  const mad::Reply<PathRecord> reply = co_await port.sa_get(options.apply(port.sa_path()), query_of(record));
  if (reply) co_return *reply;
  if (reply.error().is_no_records()) co_return tl::unexpected(Status::no_data);
  co_return tl::unexpected(reply.error().fault() == mad::Fault::timeout ? Status::timed_out : Status::invalid);
}

}  // namespace parley::ssa_driver
