// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/command.hpp"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <iterator>

#include <fmt/format.h>

#include "tools/command_tree.hpp"
#include "tools/ops/config.hpp"
#include "tools/provenance.hpp"
#include "tools/real_text.hpp"
#include "tools/ssa/ssa.hpp"
#include "tools/terminal.hpp"

namespace parley::tools {

namespace {

struct Registered {
  std::string_view name;
  void (*add)(Command app, Context& context);
  bool tells_of_others = false;
};
/// Every subcommand, in the order in which --help lists them.
constexpr Registered commands[] = {{"listen", register_listen},   {"connect", register_connect},
                                   {"rping", register_rping},     {"udping", register_udping},
                                   {"cmtime", register_cmtime},   {"demo", register_demo},
                                   {"sim", register_sim},         {"pcap", register_pcap},
                                   {"replay", register_replay},   {"conform", register_conform},
                                   {"quirks", register_quirks},   {"neg", register_neg},
                                   {"mad", register_mad},         {"fabric", register_fabric},
                                   {"ssa", register_ssa},         {"ssad", register_ssad},
                                   {"xrc", register_xrc},         {"xrcd", register_xrcd},
                                   {"run", register_run},         {"verbs", register_verbs},
                                   {"doctor", register_doctor},   {"config", register_config, true},
                                   {"help", register_help, true}, {"completion", register_completion, true},
                                   {"extcap", register_extcap}};

/// Adds all commands, or only the first one on the command line: building the other tables takes a third of the start
/// time.
void add_commands(const Command& app, Context& context, std::string_view first) {
  const auto named =
      std::find_if(std::begin(commands), std::end(commands), [&](const Registered& c) { return c.name == first; });
  if (named != std::end(commands) && !named->tells_of_others) return named->add(app, context);
  for (const Registered& command : commands) command.add(app, context);
}

/// "rping" or "pcap check": the subcommands that the user named, for messages and hints.
std::string chosen(CommandLine& line) {
  const std::string path = line.root().chosen().path(), all = line.root().name();
  return path == all ? std::string() : path.substr(all.size() + 1);
}

/// For an unknown word in place of a subcommand, the parser reports only a missing or an extra argument.
std::string what_is_wrong(CommandLine& line) {
  const Command command = line.root().chosen();
  const std::vector<std::string> left = command.left();
  if (left.empty() || left.front().empty()) return line.wrong();
  if (left.front().front() == '-') {
    const std::string meant = nearest_option(command, left.front());
    return line.wrong() + (meant.empty() ? std::string() : fmt::format("; did you mean '{}'?", meant));
  }
  return command.commands().empty() ? line.wrong() : no_command(command, left.front());
}

}  // namespace

void Output::text(std::string_view lines) {
  if (colour && !json)
    out_ << painted(lines) << std::endl;
  else
    verbatim(lines);
}

void Output::verbatim(std::string_view lines) {
  if (!json) out_ << lines << std::endl;
}

void Output::object(const Json& value) {
  if (json) out_ << value.dump(real_text) << std::endl;
}

void Output::object(const Json& head, std::string_view key, std::size_t count,
                    const std::function<Json(std::size_t)>& element, const Json& tail) {
  if (!json) return;
  std::string begin = head.dump(real_text), end = tail.dump(real_text);
  begin.pop_back();  // its brace
  out_ << begin << ',' << Json(key).dump(real_text) << ":[";
  for (std::size_t i = 0; i < count; ++i) out_ << (i > 0 ? "," : "") << element(i).dump(real_text);
  out_ << "]," << std::string_view(end).substr(1) << std::endl;
}

void Output::note(std::string_view line) { err_ << line << std::endl; }

void Output::draw(std::string_view octets) { err_ << octets << std::flush; }

int Output::error(Exit exit, std::string_view line) {
  err_ << (command.empty() ? "parley: " : "parley " + command + ": ") << line << std::endl;
  object({{"event", "error"}, {"exit", code(exit)}, {"text", line}});
  return code(exit);
}

void add_json_flag(Command sub, Context& context) {
  sub.flag("--json", context.out.json, "Print JSON, one object per line, instead of text");
}

void add_color_option(Command sub, Context& context) {
  // Runs without the option too. Only commands that have the option colour their text.
  sub.before_parsing([&context] { context.out.colour = context.out.terminal && !colour_refused(); });
  const auto take = [&context](const std::string& when) {
    if (when != "auto") context.out.colour = when == "always";
    return std::string();
  };
  sub.option("--color", take, "Verdicts in colour; auto: on a terminal, unless NO_COLOR is set")
      .one_of({"auto", "always", "never"})
      .type("WHEN")
      .shows_default("auto");
}

void add_width_option(Command sub, std::size_t& width, const Context& context, const std::string& help) {
  constexpr std::size_t least = 60, most = 1000;
  if (context.out.columns > 0) width = std::clamp(context.out.columns, least, most);
  sub.option("--width", width, help + ": the terminal's, or 100").range(least, most).shows_default();
}

int run_command_line(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  Context context{Output(out, err), {}, config_file_named(argc, argv)};
  context.out.command_line = command_line_of(argc, argv);
  context.out.date = report_date();
  if (&out == &std::cout) {
    context.out.terminal = is_terminal(STDOUT_FILENO);
    context.out.columns = terminal_columns(STDOUT_FILENO);
  }
  CommandLine line(
      "parley", "RDMA connections that work anywhere: iWARP over TCP, RoCEv2 over UDP, RDMA devices, or a simulator.",
      "parley " PARLEY_VERSION, context);
  line.root().footer(
      "Exit codes: 0 ok, 1 failed or findings, 2 usage, 3 environment or unreadable input.\n"
      "'parley COMMAND --help' explains a command and gives examples; see also parley(1).");
  add_commands(line.root(), context, argc > 1 ? argv[1] : "");
  const std::vector<std::string> own(argv + std::min(argc, 1), argv + argc);
  const std::size_t before_rest = words_before_rest(line.root(), own);
  const CommandLine::Parsed parsed = line.parse(argc, argv, before_rest, out);
  if (parsed == CommandLine::Parsed::told) return code(Exit::ok);
  context.out.command = chosen(line);
  if (parsed == CommandLine::Parsed::wrong) {
    // The parser may have stopped before it reached --json.
    const auto end = own.begin() + static_cast<std::ptrdiff_t>(before_rest);
    context.out.json = context.out.json || std::find(own.begin(), end, "--json") != end;
    return context.out.error(Exit::usage,
                             fmt::format("{}; try '{} --help'", what_is_wrong(line), line.root().chosen().path()));
  }
  if (!context.run) {
    err << line.root().chosen().explained();
    return code(Exit::usage);
  }
  if (context.refused) return context.out.error(context.refused->first, context.refused->second);
  try {
    const int result = context.run();
    if (!out.flush()) return context.out.error(Exit::environment, "standard output cannot be written");
    return result;
  } catch (const std::exception& error) {
    return context.out.error(Exit::environment, error.what());
  }
}

}  // namespace parley::tools
