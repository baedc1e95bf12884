// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley mad sa`: many PathRecords, a window of queries at a time.
#include <fstream>
#include <iostream>
#include <sstream>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "base/rng.hpp"
#include "base/text.hpp"
#include "tools/mad/mad.hpp"
#include "tools/mad/subnet.hpp"
#include "tools/rping/session.hpp"
#include "wire/mad/print.hpp"

namespace parley::tools {

namespace {

using wire::mad::PathRecord;

constexpr std::size_t pairs_max = 16 << 20;

std::string too_many() { return fmt::format("more than {} pairs", pairs_max); }

struct End {
  std::uint16_t lid = 0;
  std::optional<Gid> gid;
  std::string text() const { return gid ? gid_text(*gid) : std::to_string(lid); }
};
struct Pair {
  End from, to;
};

struct SaArgs {
  MadOptions mad;
  std::vector<std::string> words;
  std::string file;
  bool all_pairs = false, quiet = false;
  std::uint64_t sample = 0, seed = 1;
  std::vector<Pair> pairs;
  SaArgs() { mad.window = 16; }
};

std::string parse_end(std::string_view text, End& out) {
  const auto path = mad::parse_path(text);
  if (!path) return path.error();
  if (path->path.route || (path->gid && !path->device.empty()))
    return fmt::format("'{}' is not a LID, GID or GUID", text);
  out.gid = path->gid;
  if (!out.gid) out.lid = path->path.address.lid;
  return {};
}

/// "FROM,TO": neither LIDs nor GIDs have commas.
std::string parse_pair(std::string_view text, std::vector<Pair>& pairs) {
  const std::size_t comma = text.find_first_of(", \t");
  if (comma == std::string_view::npos)
    return fmt::format("'{}' is not a pair FROM,TO, each a LID, or a port's GID or GUID", text);
  const std::size_t next = text.find_first_not_of(", \t", comma);
  Pair pair;
  std::string wrong = parse_end(text.substr(0, comma), pair.from);
  if (wrong.empty())
    wrong = parse_end(next == std::string_view::npos ? std::string_view() : text.substr(next), pair.to);
  if (!wrong.empty()) return wrong;
  if (pairs.size() >= pairs_max) return too_many();
  pairs.push_back(pair);
  return {};
}

std::string parse_lines(std::istream& in, std::vector<Pair>& pairs) {
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    const std::size_t end = line.find_last_not_of(" \t\r");
    if (std::string wrong = parse_pair(std::string_view(line).substr(begin, end - begin + 1), pairs); !wrong.empty())
      return fmt::format("line {}: {}", number, wrong);
  }
  if (in.bad()) return fmt::format("line {}: cannot be read", number + 1);
  return {};
}

/// LIDs of all linked ports of channel adapters.
std::vector<std::uint16_t> adapter_lids(const mad::Topology& topology) {
  std::vector<std::uint16_t> out;
  for (std::uint32_t i = 0; i < topology.nodes().size(); ++i) {
    const mad::TopologyNode& node = topology.nodes()[i];
    if (node.type != wire::mad::NodeType::channel_adapter) continue;
    for (const mad::TopologyPort& port : topology.ports_of(node))
      if (port.known && mad::is_unicast_lid(port.lid)) out.push_back(port.lid);
  }
  return out;
}

/// Returns an error, or nothing.
std::string add_pairs(const std::vector<std::uint16_t>& lids, SaArgs& args) {
  const std::uint64_t all = lids.size() < 2 ? 0 : std::uint64_t{lids.size()} * (lids.size() - 1);
  const auto pair = [&](std::uint64_t n) {
    const std::size_t from = n / (lids.size() - 1), rest = n % (lids.size() - 1), to = rest + (rest >= from ? 1 : 0);
    args.pairs.push_back({{.lid = lids[from]}, {.lid = lids[to]}});
  };
  const bool drawn = args.sample != 0 && args.sample < all;
  if ((drawn ? args.sample : all) > pairs_max - args.pairs.size()) return too_many() + ": use --sample";
  Rng rng(args.seed);
  for (std::uint64_t n = 0; n < (drawn ? args.sample : all); ++n) pair(drawn ? rng.below(all) : n);
  return {};
}

class Queries {
 public:
  Queries(const SaArgs& args, MadSession& session, Output& out) : args_(args), session_(session), out_(out) {}

  mad::Task<void> run(mad::Port& port) {
    results_.resize(args_.pairs.size());
    std::size_t at = 0;
    const auto next = [&]() -> std::optional<mad::Task<void>> {
      if (at == args_.pairs.size()) return std::nullopt;
      return one(port, at++);
    };
    const mad::ScopeOptions limits{.on_error = mad::OnError::keep, .limit = std::size_t{args_.mad.window} * 2};
    static_cast<void>(co_await mad::run_each(port, limits, next));
  }
  /// Prints the results in order, up to the first that is not done.
  void show() {
    for (; shown_ < results_.size() && results_[shown_]; ++shown_) {
      show_one(args_.pairs[shown_], *results_[shown_]);
      results_[shown_].reset();
    }
  }
  std::size_t found() const { return found_; }
  std::size_t missing() const { return missing_; }
  std::size_t done() const { return found_ + missing_; }

 private:
  mad::Task<void> one(mad::Port& port, std::size_t index) {
    const Pair& pair = args_.pairs[index];
    mad::Query<PathRecord> query;
    if (pair.from.gid)
      query.set(PathRecord::sgid, *pair.from.gid);
    else
      query.set(PathRecord::slid, pair.from.lid);
    if (pair.to.gid)
      query.set(PathRecord::dgid, *pair.to.gid);
    else
      query.set(PathRecord::dlid, pair.to.lid);
    query.set(PathRecord::num_path, 1).set(PathRecord::reversible, true);
    mad::Reply<PathRecord> record = co_await port.sa_get(session_.with_options(port.sa_path()), query);
    if (!record && record.error().fault() == mad::Fault::cancelled) co_return;
    ++(record ? found_ : missing_);
    results_[index] = std::move(record);
  }

  void show_one(const Pair& pair, const mad::Reply<PathRecord>& record) {
    const std::string ends = fmt::format("{} -> {}", pair.from.text(), pair.to.text());
    if (!record) {
      out_.text(fmt::format("{}  none: {}", ends, record.error().message()));
      Json object = error_json(record.error());
      object["from"] = pair.from.text();
      object["to"] = pair.to.text();
      return out_.object(object);
    }
    if (args_.quiet && !out_.json) return;
    const auto value = [&](const auto& member) { return record->get(member); };
    out_.text(fmt::format("{}  LID {} -> {}  SL {}  P_Key 0x{:04x}  MTU {}  rate {}  life time {}", ends,
                          value(PathRecord::slid), value(PathRecord::dlid), value(PathRecord::sl),
                          value(PathRecord::p_key), named(wire::mad::Kind::mtu, value(PathRecord::mtu)),
                          named(wire::mad::Kind::rate, value(PathRecord::rate)), value(PathRecord::packet_life_time)));
    out_.object({{"event", "path"},
                 {"from", pair.from.text()},
                 {"to", pair.to.text()},
                 {"record", wire::mad::json_of(PathRecord::layout, record->octets())}});
  }

  template <class Enumeration>
  static std::string named(wire::mad::Kind kind, Enumeration value) {
    const auto number = static_cast<std::uint32_t>(value);
    const std::string_view name = wire::mad::name_of(kind, number);
    return name.empty() ? std::to_string(number) : std::string(name);
  }

  const SaArgs& args_;
  MadSession& session_;
  Output& out_;
  std::vector<std::optional<mad::Reply<PathRecord>>> results_;
  std::size_t shown_ = 0, found_ = 0, missing_ = 0;
};

int ask_all(const SaArgs& args, MadSession& session, Output& out) {
  const StopSignals signals;
  CommandProgress work(out, "queries", args.pairs.size());
  Queries queries(args, session, out);
  const Instant began = session.now();
  mad_driver::RunHooks hooks = work.hooks([&] { return queries.done(); });
  hooks.tick = [&queries, tick = std::move(hooks.tick)] {
    queries.show();
    if (tick) tick();
  };
  const auto ran = session.run(queries.run(session.port()), hooks);
  work.clear();
  queries.show();
  const Duration took = session.now() - began;
  const bool whole = ran && queries.done() == args.pairs.size();
  const std::string cut_by = ran ? "interrupted" : ran.error().text;
  const double rate = took.count() > 0 ? static_cast<double>(queries.done()) / in_seconds(took) : 0.0;
  out.text(fmt::format("{}{}, {} without, of {}; {} ({:.0f} a second)",
                       whole ? "" : fmt::format("PARTIAL ({}): ", cut_by), counted(queries.found(), "path"),
                       queries.missing(), counted(args.pairs.size(), "pair"), measured_duration_text(took), rate));
  out.object({{"event", "summary"},
              {"whole", whole},
              {"cut_by", whole ? Json() : Json(cut_by)},
              {"pairs", args.pairs.size()},
              {"paths", queries.found()},
              {"missing", queries.missing()},
              {"took_s", in_seconds(took)}});
  if (!ran) return out.error(ran.error().exit, ran.error().text);
  return code(whole && queries.missing() == 0 ? Exit::ok : Exit::failed);
}

int run_sa(SaArgs& args, Output& out) {
  if (args.file == "-") {
    if (const std::string wrong = parse_lines(std::cin, args.pairs); !wrong.empty())
      return out.error(Exit::environment, wrong);
  } else if (!args.file.empty()) {
    std::ifstream file(args.file);
    if (!file) return out.error(Exit::environment, fmt::format("'{}' cannot be read", args.file));
    if (const std::string wrong = parse_lines(file, args.pairs); !wrong.empty())
      return out.error(Exit::environment, fmt::format("{}, {}", args.file, wrong));
  }
  auto session = MadSession::open(args.mad, out);
  if (!session) return out.error(session.error().exit, session.error().text);
  if ((*session)->port().local().sm_lid == 0)
    return out.error(Exit::environment, "no subnet manager: PortInfo of this port has no SM LID");
  bool good = true;
  if (args.all_pairs) {
    const DiscoveredSubnet subnet = discover_subnet(**session, {}, out);
    if (!subnet.cut_by.empty())
      return out.error(Exit::failed, fmt::format("discovery was incomplete: {}", subnet.cut_by));
    good = print_doubts(subnet, out);
    if (const std::string wrong = add_pairs(adapter_lids(subnet.found.topology), args); !wrong.empty())
      return out.error(Exit::environment, wrong);
  }
  if (args.pairs.empty()) return out.error(Exit::environment, "no pair to query");
  int status = ask_all(args, **session, out);
  if (status == code(Exit::ok) && !good) status = code(Exit::failed);
  if (const auto written = (*session)->finish(); !written) return out.error(written.error().exit, written.error().text);
  return status;
}

std::string understand(SaArgs& args) {
  if (args.words.empty() && args.file.empty() && !args.all_pairs)
    return "no pairs: use FROM,TO, --from FILE or --all-pairs";
  for (const std::string& word : args.words)
    if (std::string wrong = parse_pair(word, args.pairs); !wrong.empty()) return wrong;
  return {};
}

}  // namespace

void register_mad_sa(Command mad, Context& context) {
  auto args = std::make_shared<SaArgs>();
  Command sub = mad.subcommand("sa", "Query many paths from subnet administration");
  sub.option("pairs", args->words, "FROM,TO: each a LID, or a port's GID or GUID").type("PAIR");
  sub.option("--from", args->file, "Read pairs from a file, one per line; - is standard input").type("FILE");
  sub.flag("--all-pairs", args->all_pairs, "Query all pairs of channel adapters that a discovery finds");
  sub.option("--sample", args->sample, "Number of random pairs for --all-pairs; 0: all")
      .range(std::uint64_t{0}, std::uint64_t{pairs_max})
      .shows_default();
  sub.option("--seed", args->seed, "Seed for --sample").shows_default();
  sub.flag("-q,--quiet", args->quiet, "Print only pairs without a path, and the summary");
  add_mad_options(sub, args->mad);
  add_json_flag(sub, context);
  sub.footer(
      "Exit status 1: a pair has no path, the run was interrupted, or the discovery for --all-pairs was incomplete.\n"
      "Examples:\n"
      "  parley mad sa 1,3 3,1\n"
      "  parley mad sa --all-pairs --sample 1000 --window 64 -q\n"
      "  parley mad sa --from pairs.txt --json");
  sub.run([args, &context] { return run_sa(*args, context.out); }, [args] { return understand(*args); });
}

}  // namespace parley::tools
