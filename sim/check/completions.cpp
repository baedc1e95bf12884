// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/check/completions.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace parley::sim::check {
namespace {
constexpr std::string_view completions_checker = "completions";
}

void Ledger::posted(std::uint64_t wr_id, WcOpcode opcode, bool signaled) {
  requests_.push_back({wr_id, opcode, signaled});
}

void Ledger::completed(const WorkCompletion& completion, bool corrupted, std::string_view label, Instant at,
                       Judge& judge) {
  const auto wrong = [&](std::string text) {
    judge.add(completions_checker, at, label, std::move(text), "RFC 5040 §5.3");
  };
  const auto found =
      std::find_if(requests_.begin(), requests_.end(), [&](const Request& r) { return r.wr_id == completion.wr_id; });
  if (found == requests_.end()) {
    wrong(fmt::format("a completion of {} {} that was never posted or has completed before", name_, completion.wr_id));
    return;
  }
  // Unsignaled requests before this one may have succeeded without a completion.
  for (auto skipped = requests_.begin(); skipped != found; ++skipped) {
    if (!skipped->signaled) continue;
    wrong(fmt::format("{} {} completed before {} {}, which was posted earlier", name_, completion.wr_id, name_,
                      skipped->wr_id));
  }
  const Request request = *found;
  requests_.erase(requests_.begin(), std::next(found));
  if (completion.opcode != request.opcode)
    wrong(fmt::format("{} {} was posted as {} and completed as {}", name_, request.wr_id, to_string(request.opcode),
                      to_string(completion.opcode)));
  if (completion.status == WcStatus::success && flushing_)
    wrong(fmt::format("{} {} succeeded after an earlier one was flushed", name_, request.wr_id));
  if (completion.status == WcStatus::success && !request.signaled)
    wrong(fmt::format("{} {} is unsignaled, succeeded, and left a completion", name_, request.wr_id));
  if (completion.status == WcStatus::wr_flush_err) flushing_ = true;
  if (completion.status != WcStatus::success && completion.status != WcStatus::wr_flush_err && !corrupted)
    wrong(fmt::format("{} {} failed: {}", name_, request.wr_id, to_string(completion.status)));
}

std::size_t Ledger::open() const {
  std::size_t n = requests_.size();
  for (auto at = requests_.rbegin(); at != requests_.rend() && !at->signaled; ++at) --n;
  return n;
}

void Ledger::ended(std::string_view label, Instant at, Judge& judge) const {
  if (open() == 0) return;
  judge.add(completions_checker, at, label,
            fmt::format("the connection has ended, and {} of its {} requests have not completed (first: {})", open(),
                        name_, requests_.front().wr_id),
            "RFC 5040 §5.3");
}

}  // namespace parley::sim::check
