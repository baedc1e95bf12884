// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/findings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace parley::capture {

void Findings::keep(Finding finding) {
  if (list_.size() >= list_max || ++seen_[{finding.rule, finding.text.substr(0, 40)}] > same_max)
    ++dropped_;
  else
    list_.push_back(std::move(finding));
}

std::vector<Finding> Findings::listed(std::uint64_t last_frame) const {
  std::vector<Finding> out = list_;
  if (dropped_ > 0)
    out.push_back(
        {last_frame, Severity::note, "", fmt::format("{} more findings like these are not listed", dropped_), {}, {}});
  std::stable_sort(out.begin(), out.end(), [](const Finding& a, const Finding& b) { return a.frame < b.frame; });
  return out;
}

}  // namespace parley::capture
