// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/command.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <iostream>

#include <fmt/format.h>

#include "tools/command_tree.hpp"
#include "tools/provenance.hpp"
#include "tools/terminal.hpp"

namespace parley::tools {

namespace {

/// Every subcommand, in the order in which --help lists them.
constexpr std::array commands = {register_listen, register_connect, register_rping,      register_demo,
                                 register_sim,    register_pcap,    register_replay,     register_conform,
                                 register_quirks, register_help,    register_completion, register_extcap};

/// "rping" or "pcap check": the subcommands the user named, for messages and hints.
std::string chosen(const CLI::App& app) {
  std::string path;
  for (const CLI::App* sub : app.get_subcommands()) {
    path = sub->get_name();
    if (const std::string below = chosen(*sub); !below.empty()) path += " " + below;
  }
  return path;
}

/// One line, even where the parser's message has several.
std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  while (!text.empty() && (text.back() == ' ' || text.back() == '.')) text.pop_back();
  return text;
}

const CLI::App& innermost(const CLI::App& app) {
  const auto chosen_here = app.get_subcommands();
  return chosen_here.empty() ? app : innermost(*chosen_here.back());
}

/// Where a command's name was due and another word stands, the parser says only that something is missing or too many.
std::string what_is_wrong(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& group = innermost(app);
  const std::vector<std::string> left = group.remaining();
  if (left.empty() || left.front().empty()) return one_line(error.what());
  if (left.front().front() == '-') {
    const std::string meant = nearest_option(group, left.front());
    return one_line(error.what()) + (meant.empty() ? std::string() : fmt::format("; did you mean '{}'?", meant));
  }
  return command_names(group).empty() ? one_line(error.what()) : no_command(group, left.front());
}

int parse_failed(const CLI::App& app, const CLI::ParseError& error, bool json_wanted, Context& context,
                 std::ostream& out) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {  // --help or --version
    return app.exit(error, out, out);
  }
  context.out.command = chosen(app);
  context.out.json = context.out.json || json_wanted;
  const std::string path = context.out.command.empty() ? "parley" : "parley " + context.out.command;
  return context.out.error(Exit::usage, fmt::format("{}; try '{} --help'", what_is_wrong(app, error), path));
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
  if (json) out_ << value.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
}

void Output::note(std::string_view line) { err_ << line << std::endl; }

void Output::draw(std::string_view octets) { err_ << octets << std::flush; }

int Output::error(Exit exit, std::string_view line) {
  err_ << (command.empty() ? "parley: " : "parley " + command + ": ") << line << std::endl;
  object({{"event", "error"}, {"exit", code(exit)}, {"text", line}});
  return code(exit);
}

void add_json_flag(CLI::App& sub, Context& context) {
  sub.add_flag("--json", context.out.json, "Print JSON, one object per line, instead of text");
}

void add_color_option(CLI::App& sub, Context& context) {
  // Without the option too: only commands that have it paint their text.
  sub.preparse_callback([&context](std::size_t) { context.out.colour = context.out.terminal && !colour_refused(); });
  sub.add_option_function<std::string>(
         "--color",
         [&context](const std::string& when) {
           if (when != "auto") context.out.colour = when == "always";
         },
         "Verdicts in colour; auto: on a terminal, unless NO_COLOR is set")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN")
      ->default_str("auto");
}

void add_width_option(CLI::App& sub, std::size_t& width, const Context& context, const std::string& help) {
  constexpr std::size_t least = 60, most = 1000;
  if (context.out.columns > 0) width = std::clamp(context.out.columns, least, most);
  sub.add_option("--width", width, help + ": the terminal's, or 100")
      ->check(CLI::Range(least, most))
      ->capture_default_str();
}

int run_command_line(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  Context context{Output(out, err), {}};
  context.out.command_line = command_line_of(argc, argv);
  context.out.date = report_date();
  if (&out == &std::cout) {
    context.out.terminal = is_terminal(STDOUT_FILENO);
    context.out.columns = terminal_columns(STDOUT_FILENO);
  }
  CLI::App app("RDMA connection set-up that works anywhere: iWARP over plain TCP, no NIC, no module, no root.",
               "parley");
  app.set_version_flag("--version", "parley " PARLEY_VERSION);
  app.footer(
      "Exit codes: 0 ok, 1 failed or findings, 2 usage, 3 environment or unreadable input.\n"
      "'parley COMMAND --help' explains a command and gives examples; see also parley(1).");
  app.require_subcommand(0, 1);
  for (const Register add : commands) add(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // The parser may have stopped before it came to the flag.
    const bool json_wanted = std::find(argv, argv + argc, std::string_view("--json")) != argv + argc;
    return parse_failed(app, error, json_wanted, context, out);
  }
  context.out.command = chosen(app);
  if (!context.run) {
    err << app.help();
    return code(Exit::usage);
  }
  try {
    const int result = context.run();
    if (!out.flush()) return context.out.error(Exit::environment, "standard output cannot be written");
    return result;
  } catch (const std::exception& error) {
    return context.out.error(Exit::environment, error.what());
  }
}

}  // namespace parley::tools
