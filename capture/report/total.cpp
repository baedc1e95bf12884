// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/report/total.hpp"

#include <fmt/format.h>

#include <numeric>

#include "base/text.hpp"
#include "capture/report/text.hpp"

namespace parley::capture {
namespace {

std::uint64_t of(const Total::ByStanding& counts, Standing s) { return counts[static_cast<std::size_t>(s)]; }

std::string counts_text(const Total::ByStanding& counts, std::string_view what) {
  return fmt::format("{}: {} passed, {} partial, {} failed", counted(sum(counts), what), of(counts, Standing::passed),
                     of(counts, Standing::partial), of(counts, Standing::failed));
}

}  // namespace

void Total::add(const FileReport& file, bool whole) {
  ++files[static_cast<std::size_t>(file.judgement.standing)];
  for (const Standing s : {Standing::passed, Standing::partial, Standing::failed}) {
    connections[static_cast<std::size_t>(s)] += file.connections_of(s);
    negotiations[static_cast<std::size_t>(s)] += file.negotiations_of(s);
  }
  roce += file.ib_connections();
  if (!whole) ++unread;
  errors += file.count(Severity::error);
  warnings += file.count(Severity::warning);
  for (const auto& [rule, count] : file.ignored) ignored[rule] += count;
}

std::uint64_t sum(const Total::ByStanding& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

std::string to_text(const Total& total) {
  const bool negotiated = sum(total.negotiations) > 0;
  return fmt::format("{}{}; {}{}; {}, {}{}", counts_text(total.files, "file"),
                     total.unread > 0 ? fmt::format(", {} of them not read to the end", total.unread) : "",
                     counts_text(total.connections, total.roce == 0                        ? "MPA connection"
                                                    : total.roce == sum(total.connections) ? "RoCE connection"
                                                                                           : "connection"),
                     negotiated ? "; " + counts_text(total.negotiations, "QP negotiation") : "",
                     counted(total.errors, "error"), counted(total.warnings, "warning"),
                     total.ignored.empty() ? "" : "; " + ignored_text(total.ignored));
}

}  // namespace parley::capture
