// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/ssa/tables.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "drivers/ssa/subnet_database.hpp"
#include "tools/rping/session.hpp"

namespace parley::tools {

namespace {

/// Partitions whose SL is not the subnet manager's.
void note_unknown_sls(const ssa_driver::SubnetTables& tables, Output& out) {
  constexpr std::size_t shown_max = 8;
  if (tables.sl_unknown.empty()) return;
  std::string keys;
  std::size_t shown = 0;
  for (const std::uint16_t p_key : tables.sl_unknown) {
    if (shown++ == shown_max) break;
    keys += fmt::format("{}0x{:04x}", keys.empty() ? "" : ", ", p_key);
  }
  if (shown > shown_max) keys += ", ...";
  out.note(fmt::format("parley {}: the SL of {} is unknown, because the SA gave no path by {}; {} taken as SL {}",
                       out.command, counted(tables.sl_unknown.size(), "partition"), keys,
                       tables.sl_unknown.size() == 1 ? "it is" : "they are", tables.subnet.sl));
}

}  // namespace

Or<ReadTables> read_tables(MadSession& session, const mad::Topology& topology, bool route_sls, Output& out) {
  const StopSignals signals;
  CommandProgress work(out, "requests", 0);
  ReadTables read;
  const ssa_driver::SubnetTables& tables = read.tables;
  const ssa_driver::CollectOptions options{.path = session.with_options(mad::Path::to_self()), .route_sls = route_sls};
  const auto hooks = work.hooks([&] { return tables.asked; });
  const auto ran = session.run(ssa_driver::collect(session.port(), topology, options, read.tables), hooks);
  work.clear();
  if (!ran) return tl::unexpected(ran.error());
  if (tables.lost > 0)
    return command_error(Exit::failed, fmt::format("{} had no good answer; the first: {}",
                                                   counted(tables.lost, "request"), tables.first_error));
  if (!tables.whole) return command_error(Exit::failed, "interrupted");
  note_unknown_sls(tables, out);
  const auto database = ssa_driver::database_of(topology, tables, 1);
  if (!database) return command_error(Exit::environment, database.error().message());
  auto map = ssa::PathMap::create(**database);
  if (!map) return command_error(Exit::environment, map.error().message());
  read.map = std::move(*map);
  return read;
}

}  // namespace parley::tools
