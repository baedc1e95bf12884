// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The table of commands and options: commands fill it in, the command line is parsed by it, and --help, completion and
// "did you mean" read it. The parser is CLI11; it is dear to compile, and only cli.cpp includes it.
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

/// One option or positional of the table. A handle: copies mean the same option.
class Option {
 public:
  /// What is wrong with a value, in words that follow the option's name; empty: nothing.
  using Check = std::function<std::string(const std::string& value)>;

  Option required();
  /// What --help calls the value, and what completion knows it by: FILE, DIR, SCENARIO, FORM, QUIRK.
  Option type(const std::string& name);
  /// --help shows what the variable holds now.
  Option shows_default();
  Option shows_default(const std::string& text);
  Option range(int least, int most);
  Option range(unsigned least, unsigned most);
  Option range(std::size_t least, std::size_t most);
  Option one_of(std::vector<std::string> values);
  Option one_of_numbers(std::vector<int> values);
  Option check(Check check);
  /// Several values in one word.
  Option delimiter(char between);
  /// One value each time that it is given.
  Option one_at_a_time();
  /// The same of a list: it may be given again and again, and takes no word that follows its value.
  Option repeatable();
  Option needs(Option other);
  Option excludes(Option other);
  /// Called when a value was given.
  Option when_given(std::function<void()> then);

 private:
  friend class Command;
  explicit Option(CLI::Option& option) : option_(&option) {}
  CLI::Option* option_;
};

/// What the table says of an option, for those who read it.
struct OptionFacts {
  std::vector<std::string> words;  ///< "--count", "-n"; none: it is only a positional
  std::string help;
  std::string type;            ///< "FILE", "TEXT:{bash,zsh}"
  std::string positional;      ///< its name as one, if it is one
  std::size_t values_max = 0;  ///< how many it takes; 0: it is a flag
  std::string fallback;        ///< its default, as --help shows it
};

/// A command, or a group of options in one. A handle: copies mean the same command.
class Command {
 public:
  /// Variables are set while the command line is parsed and must outlive that; names are as in "-n,--count", and
  /// without dashes for a positional.
  Option option(const std::string& names, std::string& value, const std::string& help);
  Option option(const std::string& names, std::vector<std::string>& values, const std::string& help);
  Option option(const std::string& names, std::vector<std::uint16_t>& values, const std::string& help);
  Option option(const std::string& names, std::uint16_t& value, const std::string& help);
  Option option(const std::string& names, unsigned& value, const std::string& help);
  Option option(const std::string& names, std::uint64_t& value, const std::string& help);
  Option option(const std::string& names, int& value, const std::string& help);
  Option option(const std::string& names, double& value, const std::string& help);
  Option option(const std::string& names, std::optional<std::uint64_t>& value, const std::string& help);
  /// For values of other types: `take` sets them, and says what is wrong with a text if something is.
  Option option(const std::string& names, Option::Check take, const std::string& help);
  Option option(const std::string& names, std::function<std::string(const std::vector<std::string>&)> take,
                const std::string& help);
  Option option(const std::string& names, std::function<void(std::uint16_t)> take, const std::string& help);
  /// "--crc,!--no-crc": the latter makes it false.
  Option flag(const std::string& names, bool& value, const std::string& help);
  Option flag(const std::string& names, std::function<void()> given, const std::string& help);
  /// A flag that counts how often it was given: -vv is 2.
  Option count(const std::string& names, unsigned& times, const std::string& help);

  Command subcommand(const std::string& name, const std::string& help);
  void requires_subcommand();
  /// Options of which one must be given, and one only.
  Command one_of(const std::string& name, const std::string& help);
  void footer(const std::string& text);
  /// What the command does, once the whole command line was understood. `wrong` looks at all options together; it says
  /// what is wrong with them, or nothing.
  void run(std::function<int()> work, std::function<std::string()> wrong = {});
  void before_parsing(std::function<void()> work);
  /// Makes `value` the default of an option ("--ird"; a flag takes "true" or "false"), by the rules for a value that is
  /// given. Says what is wrong with it; empty: nothing.
  std::string preset(const std::string& option, const std::string& value);

  std::string name() const;
  std::string help() const;
  /// "parley pcap check"
  std::string path() const;
  /// All that --help prints.
  std::string explained() const;
  std::vector<Command> commands() const;
  /// Those of groups too.
  std::vector<OptionFacts> options() const;
  /// Options that the command line gave, by each of their words; a preset is none.
  std::vector<std::string> given() const;
  /// The command below this one that the command line named last, or this one.
  Command chosen() const;
  /// Words of the command line that it had no use for.
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
  /// told: --help or --version was asked for, and is printed to `out`. wrong: wrong() says what, in one line.
  Parsed parse(int argc, const char* const* argv, std::ostream& out);
  const std::string& wrong() const { return wrong_; }

 private:
  std::unique_ptr<CLI::App> app_;
  Context& context_;
  std::string wrong_;
};

}  // namespace parley::tools
