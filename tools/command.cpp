// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/command.hpp"

#include <array>
#include <exception>
#include <ostream>

#include <fmt/format.h>

#include "tools/pcap.hpp"

namespace parley::tools {

namespace {

/// Every subcommand, in the order in which --help lists them.
constexpr std::array commands = {register_listen, register_connect, register_rping,   register_demo,  register_sim,
                                 register_pcap,   register_replay,  register_conform, register_quirks};

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
  // A group of options is an App without a name.
  const auto known = group.get_subcommands([](const CLI::App* sub) { return !sub->get_name().empty(); });
  const std::vector<std::string> left = group.remaining();
  if (known.empty() || left.empty() || left.front().empty() || left.front().front() == '-')
    return one_line(error.what());
  std::vector<std::string> names;
  for (const CLI::App* sub : known) names.push_back(sub->get_name());
  return fmt::format("no command '{}'; there are: {}", left.front(), fmt::join(names, ", "));
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

int run_command_line(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  Context context{Output(out, err), {}};
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
