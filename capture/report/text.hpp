// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A report as text.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "capture/report.hpp"

namespace parley::capture {

struct TextOptions {
  std::size_t width = 100;
  bool notes = true;  ///< with findings of severity note
};

/// The file's name, one block per connection, then the notes and a summary line. Ends with a newline.
std::string to_text(std::string_view file, const FileReport& report, const TextOptions& options = {});
/// Passes the same text in pieces of about 64 KiB, each of whole lines, so that a large report need not be in memory.
void write_text(std::string_view file, const FileReport& report, const TextOptions& options,
                const std::function<void(std::string_view)>& write);
/// The end of that text: the notes about the file and the summary line.
std::string summary_text(std::string_view file, const FileReport& report);
/// One connection's block, without the file.
std::string to_text(const ConnectionReport& connection, const TextOptions& options = {});
/// "RoCEv2 RC", "RoCEv2 UD (SIDR)"
std::string ib_kind_text(const IbSeen& ib);
/// The part of to_text() for a connection with `ib`.
std::string ib_text(const ConnectionReport& connection, const TextOptions& options);
/// "fe80::1"
std::string gid_text(const std::array<std::uint8_t, 16>& gid);
/// One negotiation's block.
std::string to_text(const NegotiationReport& negotiation, const TextOptions& options = {});
/// "RTR read", "RTR write or read agreed, not seen", "no RTR in common", "no RTR".
std::string rtr_text(const ConnectionReport& connection);
/// "rejected, passed", "established, failed: 1 error".
std::string result_text(const ConnectionReport& connection);
/// "passed", "failed: 1 error"
std::string standing_text(const Judgement& judgement);

}  // namespace parley::capture
