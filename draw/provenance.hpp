// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What every report says about itself: which build made it, when, by which command, and from which files. Filled in by
// tools/; here it is only data and its renderings. JSON and JUnit have theirs in tools/provenance.hpp.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace parley::draw {

/// A file that was read.
struct InputFile {
  std::string path;                     ///< as given; "-" is standard input
  std::optional<std::uint64_t> size{};  ///< octets of the file as stored, even packed; nothing if not read to its end
  std::string sha256{};                 ///< of the same octets, in hexadecimal; empty likewise, and if it is
  bool without_digest = false;          ///< left out because the user said so
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
/// Both, with a line for each input. Ends without a newline.
std::string provenance_text_with_inputs(const Provenance& report);

/// The end of a page.
std::string footer_html(const Provenance& report);

/// Names of the columns at the end of a CSV table, and a line's values for them: each begins with a comma.
std::string_view csv_report_names();
std::string csv_report(const Provenance& report, std::string_view path);

}  // namespace parley::draw
