// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Reports of a conformance run: Markdown that is the same from run to run, and one HTML page with every exchange.
#pragma once
#include <string>

#include "conform/core/run.hpp"
#include "draw/provenance.hpp"

namespace parley::conform {

struct ReportHead {
  std::string title;    ///< "Linux 6.1 siw"
  std::string command;  ///< how to repeat it
  bool strict = false;
  bool interrupted = false;  ///< the run was ended early: the report says that it is partial
  /// For the HTML page only, since the Markdown must be the same from run to run.
  const draw::Provenance* provenance = nullptr;
  std::string_view transport = "iWARP";  ///< names the report if `title` is empty
};

/// "pass", "FAIL", "FAIL (SHOULD)", "inconclusive", "not run".
std::string verdict_text(const Result& result, bool strict);
/// "41 passed, 3 failed, 1 SHOULD not met, 2 MAY not met, 12 inconclusive, 4 not run"
std::string tally_text(const Tally& tally);
/// Each case that failed or did not meet a SHOULD or MAY, with its clause and what was expected; empty: none.
std::string failures_text(const std::vector<Result>& results, bool strict);
/// No times, addresses or ports: two runs can be compared.
std::string markdown(const ReportHead& head, Iut iut, const std::vector<Result>& results);
/// The table of all cases of MPA, DDP and RDMAP, for docs/conform.md.
std::string case_table();
/// The table of the cases in `list`.
std::string case_table(std::string_view title, const std::vector<const Case*>& list);
/// One self-contained page.
std::string html(const ReportHead& head, Iut iut, const std::vector<Result>& results);

}  // namespace parley::conform
