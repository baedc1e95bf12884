// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley mad sa`: many PathRecords, a window of queries at a time.
#include <fmt/format.h>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "tools/mad/mad.hpp"
#include "tools/mad/pairs.hpp"
#include "tools/mad/subnet.hpp"
#include "tools/rping/session.hpp"

namespace parley::tools {

namespace {

using wire::mad::PathRecord;

struct SaArgs {
  MadOptions mad;
  PairOptions asked;
  bool quiet = false;
  SaArgs() { mad.window = 16; }
};

class Queries {
 public:
  Queries(const SaArgs& args, MadSession& session, Output& out) : args_(args), session_(session), out_(out) {}

  mad::Task<void> run(mad::Port& port) {
    results_.resize(args_.asked.pairs.size());
    std::size_t at = 0;
    const auto next = [&]() -> std::optional<mad::Task<void>> {
      if (at == args_.asked.pairs.size()) return std::nullopt;
      return one(port, at++);
    };
    const mad::ScopeOptions limits{.on_error = mad::OnError::keep, .limit = std::size_t{args_.mad.window} * 2};
    static_cast<void>(co_await mad::run_each(port, limits, next));
  }
  /// Prints the results in order, up to the first that is not done.
  void show() {
    for (; shown_ < results_.size() && results_[shown_]; ++shown_) {
      show_one(args_.asked.pairs[shown_], *results_[shown_]);
      results_[shown_].reset();
    }
  }
  std::size_t found() const { return found_; }
  std::size_t missing() const { return missing_; }
  std::size_t done() const { return found_ + missing_; }

 private:
  mad::Task<void> one(mad::Port& port, std::size_t index) {
    const Pair& pair = args_.asked.pairs[index];
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
    if (record) return show_path(pair, *record, args_.quiet, out_);
    out_.text(fmt::format("{} -> {}  none: {}", pair.from.text(), pair.to.text(), record.error().message()));
    Json object = error_json(record.error());
    object["from"] = pair.from.text();
    object["to"] = pair.to.text();
    out_.object(object);
  }

  const SaArgs& args_;
  MadSession& session_;
  Output& out_;
  std::vector<std::optional<mad::Reply<PathRecord>>> results_;
  std::size_t shown_ = 0, found_ = 0, missing_ = 0;
};

int ask_all(const SaArgs& args, MadSession& session, Output& out) {
  const StopSignals signals;
  CommandProgress work(out, "queries", args.asked.pairs.size());
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
  const bool whole = ran && queries.done() == args.asked.pairs.size();
  const std::string cut_by = ran ? "interrupted" : ran.error().text;
  const double rate = took.count() > 0 ? static_cast<double>(queries.done()) / in_seconds(took) : 0.0;
  out.text(fmt::format("{}{}, {} without, of {}; {} ({:.0f} a second)",
                       whole ? "" : fmt::format("PARTIAL ({}): ", cut_by), counted(queries.found(), "path"),
                       queries.missing(), counted(args.asked.pairs.size(), "pair"), measured_duration_text(took),
                       rate));
  out.object({{"event", "summary"},
              {"whole", whole},
              {"cut_by", whole ? Json() : Json(cut_by)},
              {"pairs", args.asked.pairs.size()},
              {"paths", queries.found()},
              {"missing", queries.missing()},
              {"took_s", in_seconds(took)}});
  if (!ran) return out.error(ran.error().exit, ran.error().text);
  return code(whole && queries.missing() == 0 ? Exit::ok : Exit::failed);
}

int run_sa(SaArgs& args, Output& out) {
  if (const std::string wrong = read_file(args.asked); !wrong.empty()) return out.error(Exit::environment, wrong);
  auto session = MadSession::open(args.mad, out);
  if (!session) return out.error(session.error().exit, session.error().text);
  if ((*session)->port().local().sm_lid == 0)
    return out.error(Exit::environment, "no subnet manager: PortInfo of this port has no SM LID");
  bool good = true;
  if (args.asked.all_pairs) {
    const DiscoveredSubnet subnet = discover_subnet(**session, {}, out);
    if (!subnet.cut_by.empty())
      return out.error(Exit::failed, fmt::format("discovery was incomplete: {}", subnet.cut_by));
    good = print_doubts(subnet, out);
    if (const std::string wrong = add_all_pairs(subnet.found.topology, args.asked); !wrong.empty())
      return out.error(Exit::environment, wrong);
  }
  if (args.asked.pairs.empty()) return out.error(Exit::environment, "no pairs");
  int status = ask_all(args, **session, out);
  if (status == code(Exit::ok) && !good) status = code(Exit::failed);
  if (const auto written = (*session)->finish(); !written) return out.error(written.error().exit, written.error().text);
  return status;
}

}  // namespace

void register_mad_sa(Command mad, Context& context) {
  auto args = std::make_shared<SaArgs>();
  Command sub = mad.subcommand("sa", "Query many paths from subnet administration");
  add_pair_options(sub, args->asked);
  sub.flag("-q,--quiet", args->quiet, "Print only pairs without a path, and the summary");
  add_mad_options(sub, args->mad);
  add_json_flag(sub, context);
  sub.footer(
      "Exit status 1: a pair has no path, the run was interrupted, or the discovery for --all-pairs was incomplete.\n"
      "Examples:\n"
      "  parley mad sa 1,3 3,1\n"
      "  parley mad sa --all-pairs --sample 1000 --window 64 -q\n"
      "  parley mad sa --from pairs.txt --json");
  sub.run([args, &context] { return run_sa(*args, context.out); }, [args] { return parse_words(args->asked); });
}

}  // namespace parley::tools
