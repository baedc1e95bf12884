// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/ssa/report.hpp"

#include <fmt/format.h>

#include "base/bits.hpp"
#include "base/escape.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "mad/path_text.hpp"
#include "tools/output.hpp"
#include "tools/ssa/nodes.hpp"

namespace parley::tools {

namespace {

using ssa::Epoch;
using ssa_driver::Daemon;

AnswerValue gid_value(const Gid& gid) { return gid == Gid{} ? AnswerValue() : AnswerValue(gid_text(gid)); }
std::string gid_or_none(const Gid& gid) { return gid == Gid{} ? "none" : gid_text(gid); }
AnswerValue epoch_value(Epoch epoch) { return epoch.is_valid() ? AnswerValue(epoch_text(epoch)) : AnswerValue(); }
AnswerValue count(std::uint64_t n) { return n; }

std::string_view stage_text(ssa::MemberStage stage) {
  switch (stage) {
    case ssa::MemberStage::waiting: return "waiting";
    case ssa::MemberStage::asked: return "asked";
    case ssa::MemberStage::assigned: return "assigned";
    case ssa::MemberStage::confirmed: return "confirmed";
  }
  return "unknown";
}

AnswerValue age_value(const ssa_driver::Freshness& fresh) {
  return fresh.has_database ? AnswerValue(in_seconds(fresh.age)) : AnswerValue();
}
/// The members that say how old the database is.
void add_age(const ssa_driver::Freshness& fresh, AnswerMembers& out) {
  out.emplace_back("current", fresh.current);
  out.emplace_back("stale", fresh.stale);
  out.emplace_back("age_s", age_value(fresh));
}
std::string age_text(const ssa_driver::Freshness& fresh) {
  if (fresh.current) return "the newest";
  return fmt::format("{}known to be the newest {:.1f} s ago", fresh.stale ? "stale: " : "", in_seconds(fresh.age));
}

/// Messages that were refused, by reason.
void add_refusals(const ssa::NodeCounters& node, const ssa::Master* master, AnswerMembers& out) {
  const ssa::MasterCounters as_master = master == nullptr ? ssa::MasterCounters() : master->counters();
  for (const auto& [name, number] : {std::pair{"malformed", node.malformed + as_master.malformed},
                                     {"wrong_key", node.wrong_key + as_master.wrong_key},
                                     {"wrong_master", node.wrong_master},
                                     {"wrong_parent", node.wrong_parent},
                                     {"wrong_child", node.wrong_child},
                                     {"replayed", node.replayed},
                                     {"parents_lost", node.parents_lost},
                                     {"children_lost", node.children_lost},
                                     {"denied", as_master.denied},
                                     {"foreign_p_keys", as_master.foreign_p_keys},
                                     {"future_epochs", as_master.future_epochs}})
    out.emplace_back(name, count(number));
}

void add_data(const Daemon& daemon, AnswerMembers& out) {
  const ssa::DataServerCounters& server = daemon.server().counters();
  const ssa::DataPullerCounters& puller = daemon.puller().counters();
  for (const auto& [name, number] : {std::pair{"pulls", puller.pulls},
                                     {"pulls_failed", puller.failed},
                                     {"octets_pulled", puller.octets},
                                     {"pulls_served", server.pulls},
                                     {"deltas_served", server.deltas},
                                     {"pulls_refused", server.refused},
                                     {"data_malformed", server.malformed},
                                     {"octets_served", server.octets}})
    out.emplace_back(name, count(number));
}

void add_surveys(const ssa_driver::SurveyFacts& surveys, Answer& answer, AnswerMembers& out) {
  out.emplace_back("collections", count(surveys.done));
  out.emplace_back("collections_failed", count(surveys.failed));
  out.emplace_back("partitions_without_sl", count(surveys.sl_unknown.size()));
  answer.text(fmt::format("collections  {}, {} failed; the last took {} with {}", surveys.done, surveys.failed,
                          measured_duration_text(surveys.took), counted(surveys.asked, "request")));
  if (!surveys.sl_unknown.empty())
    answer.text(fmt::format("the SL of {} is unknown", counted(surveys.sl_unknown.size(), "partition")));
  if (!surveys.error.empty()) answer.text("the last collection failed: " + surveys.error);
}

void add_database(const Daemon& daemon, Instant now, Answer& answer, AnswerMembers& out) {
  const ssa::SnapshotPtr snapshot = daemon.current().get();
  const auto fresh = daemon.freshness(now);
  out.emplace_back("epoch", epoch_value(snapshot == nullptr ? Epoch{} : snapshot->epoch()));
  add_age(fresh, out);
  answer.text("database     " +
              (snapshot == nullptr ? "none" : fmt::format("{}, {}", epoch_text(snapshot->epoch()), age_text(fresh))));
}

void answer_status(const Daemon& daemon, Instant now, Answer& answer) {
  const ssa::Member* member = daemon.member();
  AnswerMembers out{{"gid", gid_value(daemon.local().gid)},
                    {"lid", count(daemon.local().lid)},
                    {"roles", roles_text(daemon.options().roles)}};
  answer.text(fmt::format("port         {}  LID {}", gid_text(daemon.local().gid), daemon.local().lid));
  answer.text("roles        " + roles_text(daemon.options().roles));
  if (member == nullptr) {
    out.emplace_back("state", std::string(no_manager_text));
    answer.text("state        the port has no LID, or no subnet manager");
    add_database(daemon, now, answer, out);
    return answer.event("status", std::move(out));
  }
  const ssa::Node& node = member->node();
  out.emplace_back("state", std::string(state_text(node.state())));
  out.emplace_back("parent", gid_value(node.parent().gid()));
  out.emplace_back("backup", gid_value(node.backup().gid()));
  out.emplace_back("children", count(node.children().size()));
  answer.text(fmt::format("state        {}", state_text(node.state())));
  answer.text(fmt::format("parent       {}", gid_or_none(node.parent().gid())));
  answer.text(fmt::format("backup       {}", gid_or_none(node.backup().gid())));
  answer.text(fmt::format("children     {}", node.children().size()));
  add_database(daemon, now, answer, out);
  if (member->master() != nullptr) {
    out.emplace_back("members", count(member->master()->members()));
    answer.text(fmt::format("members      {}", member->master()->members()));
    add_surveys(daemon.surveys(), answer, out);
  }
  add_refusals(node.counters(), member->master(), out);
  add_data(daemon, out);
  answer.event("status", std::move(out));
}

void answer_epoch(const Daemon& daemon, Instant now, Answer& answer) {
  const ssa::SnapshotPtr snapshot = daemon.current().get();
  if (snapshot == nullptr) return answer.error(code(Exit::failed), "there is no database yet");
  answer.text(epoch_text(snapshot->epoch()));
  AnswerMembers out{{"incarnation", count(snapshot->epoch().incarnation)},
                    {"counter", count(snapshot->epoch().counter)},
                    {"digest", fmt::format("0x{:08x}", snapshot->digest())}};
  add_age(daemon.freshness(now), out);
  answer.event("epoch", std::move(out));
}

/// The whole tree where the master is; elsewhere what the node knows of it.
void answer_tree(const Daemon& daemon, Answer& answer) {
  const ssa::Member* member = daemon.member();
  if (member == nullptr)
    return answer.error(code(Exit::failed), "the node is not in the tree: its port has no LID, or no subnet manager");
  if (member->master() == nullptr) {
    const ssa::Node& node = member->node();
    answer.text(fmt::format("{}  {}, parent {}, backup {}", gid_text(daemon.local().gid), state_text(node.state()),
                            gid_or_none(node.parent().gid()), gid_or_none(node.backup().gid())));
    answer.event("tree", {{"gid", gid_value(daemon.local().gid)},
                          {"roles", roles_text(daemon.options().roles)},
                          {"is_root", false},
                          {"parent", gid_value(node.parent().gid())},
                          {"backup", gid_value(node.backup().gid())}});
    node.children().each([&](const ssa::Children::Child& child) {
      answer.text(fmt::format("  {}{}", gid_text(child.gid), child.is_backup ? "  (this node is its backup)" : ""));
      answer.event("child", {{"gid", gid_value(child.gid)}, {"is_backup", child.is_backup}});
    });
    return;
  }
  std::size_t members = 0;
  answer.text(fmt::format("{}  root", gid_text(daemon.local().gid)));
  answer.event("tree", {{"gid", gid_value(daemon.local().gid)},
                        {"roles", roles_text(daemon.options().roles)},
                        {"is_root", true},
                        {"parent", AnswerValue()},
                        {"backup", AnswerValue()}});
  member->master()->each([&](const ssa::MemberFacts& facts) {
    ++members;
    answer.text(fmt::format("{}  {}  {}, parent {}, backup {}, children {}", gid_text(facts.gid),
                            roles_text(facts.roles), stage_text(facts.stage), gid_or_none(facts.parent),
                            gid_or_none(facts.backup), facts.children));
    answer.event("member", {{"gid", gid_value(facts.gid)},
                            {"roles", roles_text(facts.roles)},
                            {"stage", std::string(stage_text(facts.stage))},
                            {"parent", gid_value(facts.parent)},
                            {"backup", gid_value(facts.backup)},
                            {"children", count(facts.children)}});
  });
  answer.text(counted(members, "member"));
}

/// A word of the question into either member of a query. An error, or nothing.
std::string parse_end(std::string_view word, std::optional<Gid>& gid, std::uint16_t& lid) {
  const auto path = mad::parse_path(word);
  if (!path || path->path.route) return fmt::format("'{}' is not a LID, GID or GUID", printable(word, false));
  gid = path->gid;
  if (!gid) lid = path->path.address.lid;
  return {};
}

/// The path or the error, and the age of the database that it comes from.
void answer_query(std::string_view words, const Daemon& daemon, Instant now, Answer& answer, QuestionCounts& counts) {
  if (daemon.paths() == nullptr) return answer.error(code(Exit::environment), "there is no database yet");
  const std::size_t blank = words.find(' ');
  ssa::PathQuery query;
  std::string wrong = parse_end(words.substr(0, blank), query.sgid, query.slid);
  if (wrong.empty())
    wrong = parse_end(blank == std::string_view::npos ? std::string_view() : words.substr(blank + 1), query.dgid,
                      query.dlid);
  if (!wrong.empty()) return answer.error(code(Exit::usage), wrong);
  const auto record = daemon.paths()->find(query);
  ++(record ? counts.found : counts.missing);
  if (record)
    answer.record(record->octets());
  else
    answer.error(code(Exit::failed), record.error().message());
  const auto fresh = daemon.freshness(now);
  AnswerMembers age;
  add_age(fresh, age);
  answer.event("age", std::move(age));
  if (!fresh.current) answer.text("the database is " + age_text(fresh));
}

}  // namespace

std::string_view state_text(ssa::NodeState state) {
  switch (state) {
    case ssa::NodeState::idle: return "idle";
    case ssa::NodeState::joining: return "joining";
    case ssa::NodeState::orphan: return "orphan";
    case ssa::NodeState::have_parent: return "have_parent";
    case ssa::NodeState::connecting: return "connecting";
    case ssa::NodeState::connected: return "connected";
  }
  return "unknown";
}

std::string epoch_text(Epoch epoch) {
  return epoch.is_valid() ? fmt::format("{}.{}", epoch.incarnation, epoch.counter) : std::string("none");
}

Answer answer_question(std::string_view question, const Daemon& daemon, Instant now, QuestionCounts& counts) {
  Answer answer;
  constexpr std::string_view query = "query ";
  if (question == "status") {
    ++counts.status;
    answer_status(daemon, now, answer);
  } else if (question == "epoch") {
    ++counts.epoch;
    answer_epoch(daemon, now, answer);
  } else if (question == "tree") {
    ++counts.tree;
    answer_tree(daemon, answer);
  } else if (question.starts_with(query)) {
    ++counts.query;
    answer_query(question.substr(query.size()), daemon, now, answer, counts);
  } else {
    ++counts.other;
    answer.error(code(Exit::usage), "the question is not one of status, tree, epoch, query FROM TO");
  }
  return answer;
}

}  // namespace parley::tools
