// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Samples exist from the start, so that rates can be computed from the first event; those of the root's work only at the root.
#include "tools/ssa/metrics.hpp"

#include <array>

#include "drivers/clock.hpp"

namespace parley::tools {

namespace {

using Type = ops::Exposition::Type;

using Numbers = std::initializer_list<std::pair<std::string_view, std::uint64_t>>;

void write(ops::Exposition& out, std::string_view name, Type type, std::string_view help, std::uint64_t value) {
  out.family(name, type, help);
  out.sample({}, value);
}
void write(ops::Exposition& out, std::string_view name, Type type, std::string_view help, std::string_view label,
           const Numbers& values) {
  out.family(name, type, help);
  for (const auto& [word, value] : values) out.sample({{label, word}}, value);
}

}  // namespace

std::string SsadMetrics::text() const {
  ops::Exposition out;
  out.family("parley_build_info", Type::gauge, "Always 1; the label has the version.");
  out.sample({{"version", PARLEY_VERSION}}, 1);
  write_place(out);
  write_database(out);
  write_data(out);
  write_refusals(out);
  write_lookups(out);
  return out.text();
}

void SsadMetrics::write_place(ops::Exposition& out) const {
  const ssa::Member* const member = daemon_.member();
  const std::string_view now = member == nullptr ? no_manager_text : state_text(member->node().state());
  out.family("parley_ssa_state", Type::gauge, "1 for the state of the node in the tree, else 0.");
  out.sample({{"state", no_manager_text}}, now == no_manager_text);
  using enum ssa::NodeState;
  for (const ssa::NodeState state : {idle, joining, orphan, have_parent, connecting, connected})
    out.sample({{"state", state_text(state)}}, now == state_text(state));
  const ssa::NodeCounters node = member == nullptr ? ssa::NodeCounters() : member->node().counters();
  write(out, "parley_ssa_children", Type::gauge, "Nodes that have this one as parent or backup.",
        member == nullptr ? 0 : member->node().children().size());
  write(out, "parley_ssa_lost_total", Type::counter, "Nodes that were lost, by what they were.", "node",
        {{"parent", node.parents_lost}, {"backup", node.backups_lost}, {"child", node.children_lost}});
  if (member == nullptr || member->master() == nullptr) return;
  write(out, "parley_ssa_members", Type::gauge, "At the root: members of the tree.", member->master()->members());
  const ssa_driver::SurveyFacts& surveys = daemon_.surveys();
  write(out, "parley_ssa_collections_total", Type::counter, "At the root: collections of the subnet.", "result",
        {{"good", surveys.done}, {"failed", surveys.failed}});
}

void SsadMetrics::write_database(ops::Exposition& out) const {
  const ssa::SnapshotPtr snapshot = daemon_.current().get();
  const ssa_driver::Freshness fresh = daemon_.freshness(clock_now());
  const ssa::Epoch epoch = snapshot == nullptr ? ssa::Epoch{} : snapshot->epoch();
  write(out, "parley_ssa_epoch_incarnation", Type::gauge, "Incarnation of the database's master; 0: no database.",
        epoch.incarnation);
  write(out, "parley_ssa_epoch_counter", Type::gauge, "Version of the database within its incarnation.", epoch.counter);
  write(out, "parley_ssa_current", Type::gauge, "1: the database is known to be the newest.", fresh.current);
  write(out, "parley_ssa_stale", Type::gauge, "1: the database is older than --stale-after.", fresh.stale);
  out.family("parley_ssa_age_seconds", Type::gauge, "Since the database was last known to be the newest.");
  if (fresh.has_database) out.sample({}, fresh.age);
}

void SsadMetrics::write_data(ops::Exposition& out) const {
  const ssa::DataPullerCounters& puller = daemon_.puller().counters();
  const ssa::DataServerCounters& server = daemon_.server().counters();
  write(out, "parley_ssa_loads_total", Type::counter, "Versions from parents: whole databases, or what changed.",
        "kind", {{"whole", puller.loaded - puller.deltas}, {"delta", puller.deltas}});
  write(out, "parley_ssa_pulls_total", Type::counter, "Requests to parents for a version.", puller.pulls);
  write(out, "parley_ssa_pulls_failed_total", Type::counter, "Requests to parents that brought no version.",
        puller.failed);
  write(out, "parley_ssa_streams_total", Type::counter, "Versions for children: whole databases, or what changed.",
        "kind", {{"whole", server.pulls - server.deltas}, {"delta", server.deltas}});
  write(out, "parley_ssa_data_bytes_total", Type::counter, "Octets of data connections.", "direction",
        {{"received", puller.octets}, {"sent", server.octets}});
  write(out, "parley_ssa_data_connections", Type::gauge, "Data connections of children now.",
        daemon_.server().streams());
}

void SsadMetrics::write_refusals(ops::Exposition& out) const {
  const ssa::Member* const member = daemon_.member();
  const bool is_root = member != nullptr && member->master() != nullptr;
  const ssa::NodeCounters node = member == nullptr ? ssa::NodeCounters() : member->node().counters();
  const ssa::MasterCounters root = is_root ? member->master()->counters() : ssa::MasterCounters();
  const ssa::DataServerCounters& server = daemon_.server().counters();
  write(out, "parley_ssa_refused_total", Type::counter, "Control messages that were refused.", "reason",
        {{"malformed", node.malformed + root.malformed},
         {"wrong_key", node.wrong_key + root.wrong_key},
         {"wrong_master", node.wrong_master},
         {"wrong_parent", node.wrong_parent},
         {"wrong_child", node.wrong_child},
         {"wrong_node", node.wrong_node + root.wrong_node},
         {"replayed", node.replayed},
         {"unexpected", node.unexpected + root.unexpected},
         {"children_max", node.children_refused},
         {"denied", root.denied},
         {"foreign_p_keys", root.foreign_p_keys},
         {"future_epochs", root.future_epochs},
         {"members_max", root.full}});
  write(out, "parley_ssa_data_refused_total", Type::counter, "Pulls that were refused, connections that were ended.",
        "reason", {{"pull", server.refused}, {"malformed", server.malformed}, {"timed_out", server.timed_out}});
  write(out, "parley_ssa_control_refused_total", Type::counter, "Clients of the control socket that were refused.",
        control_.refused());
}

void SsadMetrics::write_lookups(ops::Exposition& out) const {
  const QuestionCounts& asked = questions_;
  write(out, "parley_ssa_questions_total", Type::counter, "Questions at the control socket.", "question",
        {{"status", asked.status},
         {"tree", asked.tree},
         {"epoch", asked.epoch},
         {"query", asked.query},
         {"other", asked.other}});
  out.family("parley_ssa_lookups_total", Type::counter, "Paths that were looked up, by who asked.");
  out.sample({{"by", "control"}, {"result", "found"}}, asked.found);
  out.sample({{"by", "control"}, {"result", "missing"}}, asked.missing);
  using ssa::acm::Counter;
  const auto acm = [&](Counter which) { return acm_ == nullptr ? 0 : acm_->counter(which); };
  out.sample({{"by", "acm"}, {"result", "found"}}, acm(Counter::route_cache));
  out.sample({{"by", "acm"}, {"result", "missing"}}, acm(Counter::no_data));
  out.sample({{"by", "acm"}, {"result", "refused"}}, acm(Counter::error));
}

}  // namespace parley::tools
