// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley sim list` and `parley sim check`: list scenarios, and check scenario files.
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "base/text.hpp"
#include "capture/report/text.hpp"
#include "draw/ladder_text.hpp"
#include "tools/sim/sim.hpp"
#include "tools/sim/sim_files.hpp"
#include "tools/sim/sim_once.hpp"

namespace parley::tools {

namespace {

struct ListArgs {
  std::vector<std::string> words;
  std::string directory;
};

int run_list(const ListArgs& args, Output& out) {
  std::vector<std::string> directories = library_directories();
  const bool shipped = args.directory.empty();
  if (!shipped) directories = {args.directory};
  if (directories.empty())
    return out.error(Exit::environment,
                     "the shipped scenarios are not found; PARLEY_SCENARIOS may name their directory");
  const auto all = load_scenarios(directories, out);
  if (!all) return out.error(all.error().exit, all.error().text);
  std::set<std::string> told;
  std::size_t widest = 0;
  for (const ScenarioFile& file : *all)
    widest = std::max(widest, std::filesystem::path(file.shown).stem().string().size());
  for (const ScenarioFile& file : *all) {
    const std::string name = std::filesystem::path(file.shown).stem().string();
    if (!told.insert(name).second) continue;  // the first directory takes precedence, as in a lookup by name
    std::string words = printable(file.scenario.description, false);
    if (out.columns > widest + 22) words = wrap(words, out.columns, widest + 2);
    out.text(fmt::format("{:<{}}  {}", name, widest, words));
    out.object({{"event", "scenario"},
                {"name", name},
                {"file", file.scenario.file},
                {"description", file.scenario.description},
                {"seed", seed_text(file.scenario.seed)},
                {"hosts", file.scenario.hosts.size()},
                {"connects", file.scenario.connects.size()},
                {"faults", file.scenario.faults.size()}});
  }
  return code(Exit::ok);
}

int run_check(const ListArgs& args, Output& out) {
  const auto all = load_scenarios(args.words, out);
  if (!all) return out.error(all.error().exit, all.error().text);
  for (const ScenarioFile& file : *all) {
    out.text(fmt::format("ok  {}", file.shown));
    out.object({{"event", "scenario"}, {"file", file.shown}, {"name", file.scenario.name}});
  }
  return code(Exit::ok);
}

}  // namespace

void add_sim_list(Command sim, Context& context) {
  auto args = std::make_shared<ListArgs>();
  Command sub = sim.subcommand("list", "Lists the shipped scenarios, or those of a directory");
  sub.option("DIR", args->directory, "A directory of scenarios");
  add_json_flag(sub, context);
  sub.footer("Examples:\n  parley sim list\n  parley sim list tests/seeds --json");
  sub.run([args, &context] { return run_list(*args, context.out); });
}

void add_sim_check(Command sim, Context& context) {
  auto args = std::make_shared<ListArgs>();
  Command sub = sim.subcommand("check", "Checks scenarios without running them");
  sub.option("FILE", args->words, "Scenarios, directories of them, or names of shipped ones")
      .type("SCENARIO")
      .required();
  add_color_option(sub, context);
  add_json_flag(sub, context);
  sub.footer(
      "Each error is a line 'file:line:column: key and what is wrong with it', which editors can jump to.\n"
      "Exit code: 0 all right, 2 a scenario is wrong, 3 a file cannot be read.\n\n"
      "Examples:\n  parley sim check my.toml\n  parley sim check scenarios/");
  sub.run([args, &context] { return run_check(*args, context.out); });
}

}  // namespace parley::tools
