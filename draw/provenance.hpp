// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The provenance of a report: the build, the date, the command, and the input files. tools/ fills it in; this file has
// only the data and their renderings. tools/provenance.hpp has those for JSON and JUnit.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace parley::draw {

/// An input file.
struct InputFile {
  std::string path;                     ///< as given; "-" is standard input
  std::optional<std::uint64_t> size{};  ///< octets of the stored (even compressed) file; none: not read to its end
  std::string sha256{};         ///< of the same octets, in hexadecimal; empty in the same cases, and if without_digest
  bool without_digest = false;  ///< omitted at the user's request
};

struct Provenance {
  std::string version;  ///< "0.1.0"
  std::string commit;   ///< "1a2b3c4d5e6f", "1a2b3c4d5e6f-dirty", "unknown"
  std::string date;     ///< "2026-01-31T12:00:00Z"
  std::string command;  ///< "parley pcap check siw.pcap"
  std::vector<InputFile> inputs{};
};

/// "parley 0.1.0 (commit 1a2b3c4d5e6f) at 2026-01-31T12:00:00Z: parley pcap check siw.pcap". Without the inputs.
std::string provenance_text(const Provenance& report);
/// "siw.pcap: 1234 octets, SHA-256 e3b0..."
std::string input_text(const InputFile& input);
/// provenance_text() and a line for each input. Ends without a newline.
std::string provenance_text_with_inputs(const Provenance& report);

/// The footer of a page.
std::string footer_html(const Provenance& report);

/// The names of the columns at the end of a CSV table, and their values for a line. Each begins with a comma.
std::string_view csv_report_names();
std::string csv_report(const Provenance& report, std::string_view path);

}  // namespace parley::draw
