// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley ssa paths`: PathRecords from the subnet's tables, without a query for each.
#include <fmt/format.h>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "drivers/ssa/subnet_database.hpp"
#include "ssa/paths.hpp"
#include "tools/mad/pairs.hpp"
#include "tools/mad/subnet.hpp"
#include "tools/rping/session.hpp"
#include "tools/ssa/ssa.hpp"

namespace parley::tools {

namespace {

struct PathsArgs {
  MadOptions mad;
  PairOptions asked;
  bool quiet = false, route_sls = false;
  PathsArgs() { mad.window = 32; }
};

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

/// The map of the subnet. Errors: environment (records that contradict each other), failed (no answer, interrupted).
Or<std::shared_ptr<const ssa::PathMap>> collect_map(const PathsArgs& args, MadSession& session,
                                                    const mad::Topology& topology, Output& out) {
  const StopSignals signals;
  CommandProgress work(out, "requests", 0);
  ssa_driver::SubnetTables tables;
  ssa_driver::CollectOptions options{.path = session.with_options(mad::Path::to_self()), .route_sls = args.route_sls};
  const auto hooks = work.hooks([&] { return tables.asked; });
  const auto ran = session.run(ssa_driver::collect(session.port(), topology, options, tables), hooks);
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
  return std::move(*map);
}

int show_paths(const PathsArgs& args, const ssa::PathMap& map, const Duration took, Output& out) {
  std::size_t found = 0, missing = 0;
  for (const Pair& pair : args.asked.pairs) {
    const auto record =
        map.find({.sgid = pair.from.gid, .dgid = pair.to.gid, .slid = pair.from.lid, .dlid = pair.to.lid});
    ++(record ? found : missing);
    if (record) {
      show_path(pair, *record, args.quiet, out);
      continue;
    }
    const std::string why = record.error().message();
    out.text(fmt::format("{} -> {}  none: {}", pair.from.text(), pair.to.text(), why));
    out.object({{"event", "no_path"}, {"from", pair.from.text()}, {"to", pair.to.text()}, {"text", why}});
  }
  out.text(fmt::format("{}, {} without, of {}; tables of {} ports read in {}", counted(found, "path"), missing,
                       counted(args.asked.pairs.size(), "pair"), map.ends().size(), measured_duration_text(took)));
  out.object({{"event", "summary"},
              {"whole", true},
              {"cut_by", Json()},
              {"pairs", args.asked.pairs.size()},
              {"paths", found},
              {"missing", missing},
              {"took_s", in_seconds(took)}});
  return code(missing == 0 ? Exit::ok : Exit::failed);
}

int run_paths(PathsArgs& args, Output& out) {
  if (const std::string wrong = read_file(args.asked); !wrong.empty()) return out.error(Exit::environment, wrong);
  auto session = MadSession::open(args.mad, out);
  if (!session) return out.error(session.error().exit, session.error().text);
  const Instant began = (*session)->now();
  const DiscoveredSubnet subnet = discover_subnet(**session, {}, out);
  if (!subnet.cut_by.empty())
    return out.error(Exit::failed, fmt::format("discovery was incomplete: {}", subnet.cut_by));
  const bool good = print_doubts(subnet, out);
  if (args.asked.all_pairs)
    if (const std::string wrong = add_all_pairs(subnet.found.topology, args.asked); !wrong.empty())
      return out.error(Exit::environment, wrong);
  if (args.asked.pairs.empty()) return out.error(Exit::environment, "no pairs");
  const auto map = collect_map(args, **session, subnet.found.topology, out);
  if (!map) return out.error(map.error().exit, map.error().text);
  const int status = show_paths(args, **map, (*session)->now() - began, out);
  if (const auto written = (*session)->finish(); !written) return out.error(written.error().exit, written.error().text);
  return good ? status : code(Exit::failed);
}

}  // namespace

void register_ssa_paths(Command ssa, Context& context) {
  auto args = std::make_shared<PathsArgs>();
  Command sub = ssa.subcommand("paths", "Compute paths from forwarding tables, links and P_Keys");
  add_pair_options(sub, args->asked);
  sub.flag(
      "--route-sls", args->route_sls,
      "Ask the SA for all paths of one host of each switch, for their SLs: needed if the routing engine chooses SLs");
  sub.flag("-q,--quiet", args->quiet, "Print only pairs without a path, and the summary");
  add_mad_options(sub, args->mad);
  add_json_flag(sub, context);
  sub.footer(
      "Discovers the subnet, reads its tables, and computes the paths as a node of the distribution tree does.\n"
      "Exit status 1: a pair has no path, the run was interrupted, or the discovery was incomplete.\n"
      "Examples:\n"
      "  parley ssa paths 1,3 3,1\n"
      "  parley ssa paths --all-pairs --sample 1000 -q\n"
      "  parley ssa paths --from pairs.txt --json");
  sub.run([args, &context] { return run_paths(*args, context.out); }, [args] { return parse_words(args->asked); });
}

}  // namespace parley::tools
