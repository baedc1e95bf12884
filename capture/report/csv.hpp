// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A report as comma-separated values: one line per MPA or RoCE connection, quoted according to RFC 4180 §2. Lines end
// with LF, so that line-based tools find no CR in the last column.
#pragma once
#include <string>
#include <string_view>

#include "capture/report.hpp"
#include "draw/provenance.hpp"

namespace parley::capture {

/// The names of the columns. New columns are only appended.
std::string csv_header(const draw::Provenance* provenance = nullptr);
/// The line of connection `number`.
std::string to_csv(std::string_view file, std::uint64_t number, const ConnectionReport& connection,
                   const draw::Provenance* provenance = nullptr);
/// A line for each listed connection of the file; if the file has none, one line that says so.
std::string to_csv(std::string_view file, const FileReport& report, const draw::Provenance* provenance = nullptr);

}  // namespace parley::capture
