// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A report as comma-separated values: one line per MPA connection, quoted as RFC 4180 §2 says. Lines end with LF, so
// that tools which read lines do not find a CR in the last column.
#pragma once
#include <string>
#include <string_view>

#include "capture/report.hpp"
#include "draw/provenance.hpp"

namespace parley::capture {

/// The names of the columns; they only ever grow at the end.
std::string csv_header(const draw::Provenance* provenance = nullptr);
/// The line of one connection, of that number.
std::string to_csv(std::string_view file, std::uint64_t number, const ConnectionReport& connection,
                   const draw::Provenance* provenance = nullptr);
/// A line per connection of the file that is listed; if it has none at all, one that says so.
std::string to_csv(std::string_view file, const FileReport& report, const draw::Provenance* provenance = nullptr);

}  // namespace parley::capture
