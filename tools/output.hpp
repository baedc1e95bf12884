// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How a subcommand prints and ends: exit codes, text or JSON. This header does not include the option parser
// (tools/command.hpp), so that code that does not need the parser compiles fast.
#pragma once
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.hpp"

namespace parley::tools {

enum class Exit : int {
  ok = 0,
  failed = 1,       ///< the attempt failed (refused, rejected, wrong data), or a check found something
  usage = 2,        ///< the command line is wrong; nothing was tried
  environment = 3,  ///< the system or an input prevents it: port in use, unresolvable name, unreadable file
};
constexpr int code(Exit exit) { return static_cast<int>(exit); }

/// The output of a command: text for people or, with --json, one JSON object per line. Every line is flushed, so that a
/// program that reads the pipe receives it at once.
class Output {
 public:
  Output(std::ostream& out, std::ostream& err) : out_(out), err_(err) {}

  bool json = false;               ///< set by --json
  std::string command;             ///< "rping", "pcap check": the prefix of errors
  std::string command_line, date;  ///< the whole command line and its start time, for reports
  bool colour = false;             ///< text() colours verdicts
  bool terminal = false;           ///< standard output is a terminal
  std::size_t columns = 0;  ///< of the terminal; 0 if there is none or its width is unknown: lines are not wrapped

  /// Prints one or more lines for people on standard output; nothing with --json.
  void text(std::string_view lines);
  /// As text(), but without colours: for a document or a script on standard output.
  void verbatim(std::string_view lines);
  /// Prints one object on one line of standard output; nothing without --json. Octets that are not UTF-8 become U+FFFD.
  void object(const Json& value);
  /// As object(), for an object with a long list that is never held in memory as a whole: the members of `head`, then
  /// the list `key` of element(0) to element(count - 1), then the members of `tail`. `head` and `tail` must not be
  /// empty.
  void object(const Json& head, std::string_view key, std::size_t count,
              const std::function<Json(std::size_t)>& element, const Json& tail);
  /// Prints a line for people on standard error, also with --json: progress, and peer errors that the command survived.
  void note(std::string_view line);
  /// Writes octets unchanged to the terminal on standard error, for a bar that redraws itself.
  void draw(std::string_view octets);
  /// Prints "parley rping: <line>" on standard error; with --json also {"event":"error","exit":n,"text":line}.
  /// Returns the exit code, so that `return out.error(Exit::environment, "...")` ends a command.
  int error(Exit exit, std::string_view line);

 private:
  std::ostream& out_;
  std::ostream& err_;
};

struct Context {
  Output out;
  std::function<int()> run;  ///< set by the chosen subcommand's callback
  std::string config_file;   ///< --config
  /// Wrong settings (tools/ops/config.hpp). The command does not run, but --help works.
  std::optional<std::pair<Exit, std::string>> refused = {};
};

/// The whole program: parses, runs, returns the exit code. main() only calls this; tests call it in process.
int run_command_line(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace parley::tools
