// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How a subcommand prints and ends: exit codes, text or JSON. Light on purpose, so that code behind the options is
// compiled without the option parser (tools/command.hpp).
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
  failed = 1,       ///< the thing was tried and failed (refused, rejected, data wrong), or findings were made
  usage = 2,        ///< the command line is wrong; nothing was tried
  environment = 3,  ///< the system or an input stands in the way: port in use, unresolvable name, unreadable file
};
constexpr int code(Exit exit) { return static_cast<int>(exit); }

/// Where a command's words go: text for people or, with --json, one JSON object per line. Every line is flushed, so
/// that a program reading the pipe sees it at once.
class Output {
 public:
  Output(std::ostream& out, std::ostream& err) : out_(out), err_(err) {}

  bool json = false;               ///< set by --json
  std::string command;             ///< "rping", "pcap check": stands before errors
  std::string command_line, date;  ///< all of it, and when it began: for reports
  bool colour = false;             ///< text() puts words of judgement in colour
  bool terminal = false;           ///< standard output is one
  std::size_t columns = 0;  ///< of the terminal; 0: there is none, or it does not say, and no line need be wrapped

  /// A line (or several) for people on standard output; nothing under --json.
  void text(std::string_view lines);
  /// The same as it is, whatever the colours: a document or a script that goes to standard output.
  void verbatim(std::string_view lines);
  /// One object on one line of standard output; nothing without --json. Octets that are not UTF-8 become U+FFFD.
  void object(const Json& value);
  /// The same of an object with a long list, which is never held whole: the members of `head`, the list `key` with what `element` gives
  /// for 0 to `count` - 1, and the members of `tail`. Neither is empty.
  void object(const Json& head, std::string_view key, std::size_t count,
              const std::function<Json(std::size_t)>& element, const Json& tail);
  /// A line for people on standard error, in both modes: progress, peer faults that were survived.
  void note(std::string_view line);
  /// Octets for a terminal on standard error, as they are: a bar that redraws itself.
  void draw(std::string_view octets);
  /// "parley rping: <line>" on standard error; under --json also {"event":"error","exit":n,"text":line}.
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
  /// What settings are wrong (tools/ops/config.hpp): the command is not run, but --help is.
  std::optional<std::pair<Exit, std::string>> refused = {};
};

/// The whole command: parses, runs, returns the exit code. main() only calls this; tests call it in process.
int run_command_line(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace parley::tools
