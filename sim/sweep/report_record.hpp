// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The report of one run of a sweep as octets, for files of results and for messages between ranks.
#pragma once
#include <optional>

#include "parley/bytes.hpp"
#include "sim/run/run.hpp"

namespace parley::sim {

/// Octets of one record, at most. A report with the most and longest texts that a run makes has a quarter of it.
inline constexpr std::size_t report_record_max = 1 << 20;
/// And at least: each number, text and list takes one.
inline constexpr std::size_t report_record_min = 26;

struct ReportRecord {
  RunReport report;  ///< without `outcomes` and `streams`, which no report of many runs shows
  std::uint64_t cpu_us = 0;
};

/// Texts are cut at 4096 octets and have no control characters.
Bytes encode_record(const ReportRecord& record);
/// Nothing if the octets are not exactly one record, or if a text has a control character.
std::optional<ReportRecord> decode_record(ConstBytes octets);

}  // namespace parley::sim
