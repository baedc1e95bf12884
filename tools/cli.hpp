// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The table of commands and options. Commands fill it in. The parser, --help, completion and "did you mean" read it.
// The parser is CLI11. It is slow to compile, so that only cli.cpp includes it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace parley::tools {

struct Context;

/// One option or positional of the table. This is a handle: copies refer to the same option.
class Option {
 public:
  /// Returns what is wrong with a value, as text that follows the option's name, or an empty string.
  using Check = std::function<std::string(const std::string& value)>;

  Option required();
  /// The placeholder for the value in --help, which also selects completion: FILE, DIR, SCENARIO, FORM, QUIRK.
  Option type(const std::string& name);
  /// --help shows the variable's current value as the default.
  Option shows_default();
  Option shows_default(const std::string& text);
  Option range(int least, int most);
  Option range(unsigned least, unsigned most);
  Option range(std::size_t least, std::size_t most);
  Option one_of(std::vector<std::string> values);
  Option one_of_numbers(std::vector<int> values);
  Option check(Check check);
  /// Splits one argument into several values at `between`.
  Option delimiter(char between);
  /// For a list: the option may be repeated, and each occurrence takes exactly one value.
  Option repeatable();
  Option needs(Option other);
  Option excludes(Option other);
  /// Called for each value that is given.
  Option when_given(std::function<void()> then);

 private:
  friend class Command;
  explicit Option(CLI::Option& option) : option_(&option) {}
  CLI::Option* option_;
};

/// The table's facts about one option, for help and completion.
struct OptionFacts {
  std::vector<std::string> words;  ///< "--count", "-n"; empty for a pure positional
  std::string help;
  std::string type;            ///< "FILE", "TEXT:{bash,zsh}"
  std::string positional;      ///< the positional's name; empty if it is none
  std::size_t values_max = 0;  ///< how many values it accepts; 0 for a flag
  std::string fallback;        ///< the default, as --help shows it
};

/// A command, or a group of options in one. This is a handle: copies refer to the same command.
class Command {
 public:
  /// The parser writes to `value`, which must outlive the parse. `names` are as in "-n,--count", without dashes for a
  /// positional.
  Option option(const std::string& names, std::string& value, const std::string& help);
  Option option(const std::string& names, std::vector<std::string>& values, const std::string& help);
  Option option(const std::string& names, std::vector<std::uint16_t>& values, const std::string& help);
  Option option(const std::string& names, std::uint16_t& value, const std::string& help);
  Option option(const std::string& names, unsigned& value, const std::string& help);
  Option option(const std::string& names, std::uint64_t& value, const std::string& help);
  Option option(const std::string& names, int& value, const std::string& help);
  Option option(const std::string& names, double& value, const std::string& help);
  Option option(const std::string& names, std::optional<std::uint64_t>& value, const std::string& help);
  /// For values of other types. `take` stores the value and returns what is wrong with it, or an empty string.
  Option option(const std::string& names, Option::Check take, const std::string& help);
  Option option(const std::string& names, std::function<std::string(const std::vector<std::string>&)> take,
                const std::string& help);
  Option option(const std::string& names, std::function<void(std::uint16_t)> take, const std::string& help);
  /// In "--crc,!--no-crc", --no-crc sets `value` to false.
  Option flag(const std::string& names, bool& value, const std::string& help);
  Option flag(const std::string& names, std::function<void()> given, const std::string& help);
  /// The last positional: everything from the first word that is neither an option nor an option's value, as it is on
  /// the command line; options among these words are not this command's. A "--" in front of them is left out.
  Option rest(const std::string& name, std::vector<std::string>& words, const std::string& help);
  /// Whether the command has such a positional.
  bool has_rest() const;
  /// A flag that counts its occurrences: -vv sets 2.
  Option count(const std::string& names, unsigned& times, const std::string& help);

  Command subcommand(const std::string& name, const std::string& help);
  void requires_subcommand();
  /// A group of options of which exactly one must be given.
  Command one_of(const std::string& name, const std::string& help);
  void footer(const std::string& text);
  /// `work` runs after the whole command line was parsed. `wrong` checks the options together: it returns what is wrong
  /// with them, or an empty string.
  void run(std::function<int()> work, std::function<std::string()> wrong = {});
  void before_parsing(std::function<void()> work);
  /// Makes `value` the default of an option ("--ird"; a flag takes "true" or "false"), checked like a value on the
  /// command line. Returns what is wrong with it, or an empty string.
  std::string preset(const std::string& option, const std::string& value);

  std::string name() const;
  std::string help() const;
  /// "parley pcap check"
  std::string path() const;
  /// The whole text of --help.
  std::string explained() const;
  std::vector<Command> commands() const;
  /// The options of this command and of its groups.
  std::vector<OptionFacts> options() const;
  /// All names of the options on the command line. Options set only by preset() are not included.
  std::vector<std::string> given() const;
  /// The innermost subcommand that the command line named, or this command.
  Command chosen() const;
  /// Arguments that the parser did not consume.
  std::vector<std::string> left() const;

 private:
  friend class CommandLine;
  Command(CLI::App& app, Context& context) : app_(&app), context_(&context) {}
  template <class T>
  Option add(const std::string& names, T& value, const std::string& help);
  template <class T>
  Option add_checked(const std::string& names, std::function<std::string(const T&)> take, const std::string& help);

  CLI::App* app_;
  Context* context_;
};

/// The whole table, and the parser.
class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& about, const std::string& version, Context& context);
  ~CommandLine();

  Command root();

  enum class Parsed { good, told, wrong };
  /// told: --help or --version was printed to `out`. wrong: wrong() returns the error in one line. `own`: the number of
  /// words after argv[0] that are not part of a rest(); see words_before_rest().
  Parsed parse(int argc, const char* const* argv, std::size_t own, std::ostream& out);
  const std::string& wrong() const { return wrong_; }

 private:
  std::unique_ptr<CLI::App> app_;
  Context& context_;
  std::string wrong_;
};

}  // namespace parley::tools
