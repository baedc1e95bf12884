// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley ssa status`, `tree`, `epoch` and `query`: questions to a daemon by its control socket.
#include <fstream>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "drivers/ssa/control.hpp"
#include "tools/mad/pairs.hpp"
#include "tools/options.hpp"
#include "tools/provenance.hpp"
#include "tools/ssa/answer.hpp"
#include "tools/ssa/ssa.hpp"
#include "tools/ssa/tree_html.hpp"

namespace parley::tools {

namespace {

struct QuestionArgs {
  std::string control, html;
  PairOptions asked;
  bool quiet = false;
};

Or<Answer> ask(const std::string& control, std::string_view question) {
  const auto text = ssa_driver::ask_daemon(control, question);
  if (!text)
    return command_error(Exit::environment,
                         fmt::format("no answer at {}: {}; is `parley ssad` running with this --control?",
                                     printable(control, false), text.error().message()));
  auto answer = parse_answer(*text);
  if (!answer) return command_error(Exit::environment, answer.error().message());
  return std::move(*answer);
}

Json json_of(const AnswerValue& value) {
  return std::visit(
      [](const auto& known) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(known)>, std::monostate>)
          return {};
        else
          return known;
      },
      value);
}

std::string text_in(const AnswerLine& event, std::string_view name) {
  for (const auto& [key, value] : event.members)
    if (const auto* text = std::get_if<std::string>(&value); text != nullptr && key == name) return *text;
  return {};
}
bool flag_in(const AnswerLine& event, std::string_view name) {
  for (const auto& [key, value] : event.members)
    if (const auto* flag = std::get_if<bool>(&value); flag != nullptr && key == name) return *flag;
  return false;
}

/// The page of an answer to `tree`.
Or<void> write_tree(const Answer& answer, const std::string& path, const Output& out) {
  std::vector<TreeNode> nodes;
  std::string asked;
  for (const AnswerLine& line : answer.lines) {
    if (line.kind != AnswerLine::Kind::event) continue;
    const std::string event = text_in(line, "event");
    if (event == "tree") asked = text_in(line, "gid");
    TreeNode node{.gid = text_in(line, "gid"),
                  .roles = text_in(line, "roles"),
                  .stage = text_in(line, "stage"),
                  .parent = text_in(line, "parent"),
                  .backup = text_in(line, "backup"),
                  .is_root = flag_in(line, "is_root")};
    if (event == "child") (flag_in(line, "is_backup") ? node.backup : node.parent) = asked;
    node.is_known = event != "child" || !node.parent.empty();
    if (!node.gid.empty()) nodes.push_back(std::move(node));
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  tree_page(std::move(nodes), asked, provenance(out), [&file](std::string_view piece) { file << piece; });
  if (!file.flush())
    return command_error(Exit::environment, fmt::format("'{}' cannot be written", printable(path, false)));
  return {};
}

int run_question(const QuestionArgs& args, std::string_view question, Output& out) {
  const auto answer = ask(args.control, question);
  if (!answer) return out.error(answer.error().exit, answer.error().text);
  if (!args.html.empty() && answer->exit == code(Exit::ok))
    if (const auto written = write_tree(*answer, args.html, out); !written)
      return out.error(written.error().exit, written.error().text);
  for (const AnswerLine& line : answer->lines) {
    if (line.kind == AnswerLine::Kind::text) out.text(printable(line.text, false));
    if (line.kind == AnswerLine::Kind::error)
      return out.error(static_cast<Exit>(answer->exit), printable(line.text, false));
    if (line.kind != AnswerLine::Kind::event) continue;
    Json object = Json::object();
    for (const auto& [name, value] : line.members) object[name] = json_of(value);
    out.object(object);
  }
  return answer->exit;
}

/// What an answer says of the age of the daemon's database.
struct AnswerAge {
  Json members = Json::object();  ///< current, stale, age_s
  std::string text{};             ///< empty: the database is the newest
};
AnswerAge age_in(const Answer& answer) {
  AnswerAge out;
  for (const AnswerLine& line : answer.lines) {
    if (line.kind == AnswerLine::Kind::text) out.text = printable(line.text, false);
    if (line.kind == AnswerLine::Kind::event)
      for (const auto& [name, value] : line.members)
        if (name != "event") out.members[name] = json_of(value);
  }
  return out;
}

/// Shows the path, or why there is none. Errors: environment, usage.
Or<bool> query(const QuestionArgs& args, const Pair& pair, Output& out, std::string& age_text) {
  const auto answer = ask(args.control, fmt::format("query {} {}", pair.from.text(), pair.to.text()));
  if (!answer) return tl::unexpected(answer.error());
  if (answer->lines.empty()) return command_error(Exit::environment, "the daemon's answer is empty");
  const AnswerLine& line = answer->lines.front();
  if (line.kind == AnswerLine::Kind::error && answer->exit != code(Exit::failed))
    return command_error(static_cast<Exit>(answer->exit), printable(line.text, false));
  const auto record = wire::mad::PathRecord::parse(line.record);
  AnswerAge age = age_in(*answer);
  age_text = std::move(age.text);
  if (line.kind == AnswerLine::Kind::record && record) {
    show_path(pair, *record, args.quiet, out, age.members);
    return true;
  }
  if (line.kind != AnswerLine::Kind::error)
    return command_error(Exit::environment, "the daemon's answer has no path record that can be read");
  const std::string why = printable(line.text, false);
  out.text(fmt::format("{} -> {}  none: {}", pair.from.text(), pair.to.text(), why));
  Json object{{"event", "no_path"}, {"from", pair.from.text()}, {"to", pair.to.text()}, {"text", why}};
  object.update(age.members);
  out.object(object);
  return false;
}

int run_query(QuestionArgs& args, Output& out) {
  if (const std::string wrong = read_file(args.asked); !wrong.empty()) return out.error(Exit::environment, wrong);
  if (args.asked.pairs.empty()) return out.error(Exit::environment, "no pairs");
  bool all = true;
  std::string age;  // as of the last answer
  for (const Pair& pair : args.asked.pairs) {
    const auto found = query(args, pair, out, age);
    if (!found) return out.error(found.error().exit, found.error().text);
    all = all && *found;
  }
  if (!age.empty()) out.note("parley ssa query: " + age);
  return code(all ? Exit::ok : Exit::failed);
}

void add_question(Command ssa, Context& context, const std::string& name, const std::string& help,
                  const std::string& footer) {
  auto args = std::make_shared<QuestionArgs>();
  Command sub = ssa.subcommand(name, help);
  if (name == "tree") sub.option("--html", args->html, "Also draw the tree as one searchable page").type("FILE");
  add_control_option(sub, args->control);
  add_json_flag(sub, context);
  sub.footer(footer);
  sub.run([args, name, &context] { return run_question(*args, name, context.out); });
}

void add_query(Command ssa, Context& context) {
  auto args = std::make_shared<QuestionArgs>();
  Command sub = ssa.subcommand("query", "Ask a daemon for paths, out of the database that it has");
  sub.option("pairs", args->asked.words, "FROM,TO: each a LID, or a port's GID or GUID").type("PAIR");
  sub.option("--from", args->asked.file, "Read pairs from a file, one per line; - is standard input").type("FILE");
  sub.flag("-q,--quiet", args->quiet, "Print only pairs without a path");
  add_control_option(sub, args->control);
  add_json_flag(sub, context);
  sub.footer(
      "The daemon answers from its database at any time, also when it has no parent. A note on standard error tells "
      "its\n"
      "age if it is not known to be the newest.\n"
      "Exit status 1: a pair has no path.\n"
      "Examples:\n"
      "  parley ssa query 1,3 fe80::10:1,fe80::10:9\n"
      "  parley ssa query --from pairs.txt --json");
  sub.run([args, &context] { return run_query(*args, context.out); },
          [args] {
            return args->asked.words.empty() && args->asked.file.empty() ? "no pairs: use FROM,TO or --from FILE"
                                                                         : parse_words(args->asked);
          });
}

}  // namespace

void register_ssa_questions(Command ssa, Context& context) {
  add_question(ssa, context, "status", "Show a daemon's place in the tree, its database and its counters",
               "Examples:\n"
               "  parley ssa status\n"
               "  parley ssa status --control /run/parley-ssad.sock --json");
  add_question(ssa, context, "tree", "Show all members of the tree (at the root), or a node's parents and children",
               "Examples:\n"
               "  parley ssa tree\n"
               "  parley ssa tree --html tree.html");
  add_question(ssa, context, "epoch", "Show which version of the database a daemon has",
               "Exit status 1: it has none yet.\n"
               "Examples:\n"
               "  parley ssa epoch --json");
  add_query(ssa, context);
}

}  // namespace parley::tools
