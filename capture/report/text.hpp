// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A report for people.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "capture/report.hpp"

namespace parley::capture {

struct TextOptions {
  std::size_t width = 100;
  bool notes = true;  ///< findings of severity note as well
};

/// The file's name, one block per connection, then a summary line. Ends with a newline.
std::string to_text(std::string_view file, const FileReport& report, const TextOptions& options = {});
/// The same in pieces of some 64 KiB, each ended by a newline: nobody has to hold the whole of a large report.
void write_text(std::string_view file, const FileReport& report, const TextOptions& options,
                const std::function<void(std::string_view)>& write);
/// What stands at the end of that: the notes about the file and the summary line.
std::string summary_text(std::string_view file, const FileReport& report);
/// One connection's block, without the file.
std::string to_text(const ConnectionReport& connection, const TextOptions& options = {});
/// "RoCEv2 RC", "RoCEv2 UD (SIDR)"
std::string ib_kind_text(const IbSeen& ib);
/// The block of one that has `ib`; to_text() calls it.
std::string ib_text(const ConnectionReport& connection, const TextOptions& options);
/// "fe80::1"
std::string gid_text(const std::array<std::uint8_t, 16>& gid);
/// One negotiation's block.
std::string to_text(const NegotiationReport& negotiation, const TextOptions& options = {});
/// "RTR read", "RTR read or write agreed, not seen", "no RTR in common", "no RTR".
std::string rtr_text(const ConnectionReport& connection);
/// "rejected, passed", "established, failed: 1 error".
std::string result_text(const ConnectionReport& connection);
/// "passed", "failed: 1 error"
std::string standing_text(const Judgement& judgement);

}  // namespace parley::capture
