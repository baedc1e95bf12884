// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The provenance of a report: version, commit, date, command and inputs, and their form in JSON and JUnit.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "draw/provenance.hpp"
#include "tools/output.hpp"

namespace parley::tools {

/// The command in a form that can be typed again: argv[0] becomes "parley", words are quoted for a shell, a very long
/// command line is cut.
std::string command_line_of(int argc, const char* const* argv);
/// "2026-01-31T12:00:00Z": now, or the time in SOURCE_DATE_EPOCH, which makes reports reproducible.
std::string report_date();
draw::Provenance provenance(const Output& out, std::vector<draw::InputFile> inputs = {});
/// Printed before the report; the verdict stays last.
void print_provenance(Output& out, const draw::Provenance& report, bool with_inputs = true);

/// The object "report".
Json report_json(const draw::Provenance& report);
/// "report.version", ..., "input.path", "input.sha256", "input.size"; with several inputs "input.1.path" and so on.
std::vector<std::pair<std::string, std::string>> report_properties(const draw::Provenance& report);

}  // namespace parley::tools
