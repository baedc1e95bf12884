// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The output of `parley conform` for all protocols, and the selection of cases.
#pragma once
#include <memory>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "tools/command.hpp"
#include "tools/conform/conform.hpp"
#include "tools/junit.hpp"
#include "tools/report.hpp"
#include "tools/sim/sim_files.hpp"

namespace parley::tools {

/// Names of a table of cases: protocol "mpa", transport "iwarp".
struct ConformTable {
  std::string_view protocol, transport;
  /// "parley conform mpa responder"
  std::string command;
  /// For JUnit's class names and suites: "conform.mpa.responder".
  std::string class_name;
};

/// --only: names separated by commas, or a regular expression that must match a part of the name.
class CaseFilter {
 public:
  /// `names` are the names of all cases. Errors: usage.
  static Or<CaseFilter> parse(const std::string& text, const std::vector<std::string_view>& names);
  bool has(std::string_view name) const;

 private:
  // std::regex recurses over the text and into each group, so that both are limited. The names of all cases together
  // have about 3,000 octets.
  static constexpr std::size_t octets_max = 10'000, expression_octets_max = 1000;
  static constexpr std::ptrdiff_t groups_max = 100;
#ifdef __GLIBCXX__
  // Without this flag, the time to match "(a*)*b" doubles with each octet of the name.
  static constexpr auto flavour = std::regex::extended | std::regex_constants::__polynomial;
#else
  static constexpr auto flavour = std::regex::extended;
#endif
  bool all_ = true;
  std::vector<std::regex> patterns_;
};

Json case_json(const ConformTable& table, const conform::Case& c);
Json result_json(const ConformTable& table, const conform::Result& r);
JunitCase junit_case(const ConformTable& table, const conform::Result& r, bool strict);
/// Prints a line and an object for --list.
void list_case(const ConformTable& table, const conform::Case& c, bool live, Output& out);
/// One line of text: verdict, row, name and observation.
std::string conform_line(const conform::Result& result, bool strict, std::size_t columns);
/// The object `summary`.
Json summary_json(const ConformTable& table, conform::Iut iut, const conform::Tally& t, bool interrupted,
                  const draw::Provenance& provenance);

/// The exit code of a run in which the peer could be tested. Prints an error if the code is not due to failed cases.
int exit_of(bool interrupted, const conform::Tally& t, Output& out);

/// The report files. They are opened before the first case, so that unwritable files are reported first.
struct ConformOutputs {
  std::unique_ptr<OutputFile> junit, html, markdown;

  /// Errors: usage, environment.
  static Or<ConformOutputs> open(const ConformArgs& args);
  /// Errors: environment.
  Or<void> write(const ConformTable& table, const conform::ReportHead& head, conform::Iut iut,
                 const std::vector<conform::Result>& results) const;
};

/// Adds the options that all commands share.
void add_conform_options(Command sub, ConformArgs& args, Context& context);
/// `parley conform ibcm`.
void register_conform_ibcm(Command conform, Context& context);

}  // namespace parley::tools
