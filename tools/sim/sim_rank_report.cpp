// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/sim/sim_rank_report.hpp"

#include <chrono>
#include <utility>

#include "tools/sim/sim_sweep.hpp"

namespace parley::tools {
namespace {

constexpr std::size_t waiting_octets_max = 16 << 20;  ///< of records that wait for a slow reader
constexpr auto idle_interval = std::chrono::milliseconds(100);

}  // namespace

RankReport::RankReport(const RankedSweep& ranked, const Ranks::Take& take, const Ranks::Idle& idle, Output& out)
    : ranked_(ranked), take_(take), idle_(idle), out_(out), thread_([this] { serve(); }) {}

RankReport::~RankReport() {
  stop();
  if (thread_.joinable()) thread_.join();
}

bool RankReport::room() {
  const std::lock_guard lock(mutex_);
  return octets_ < waiting_octets_max;
}

void RankReport::put(sim::ranks::Leader::Record record) {
  const std::lock_guard lock(mutex_);
  octets_ += record.octets.size();
  records_.push_back(std::move(record));
  came_.notify_one();
}

void RankReport::note(std::string text) {
  const std::lock_guard lock(mutex_);
  notes_.push_back(std::move(text));
  came_.notify_one();
}

void RankReport::stop() {
  const std::lock_guard lock(mutex_);
  stop_ = true;
  came_.notify_one();
}

bool RankReport::ended() {
  const std::lock_guard lock(mutex_);
  return ended_;
}

std::string RankReport::finish() {
  stop();
  if (thread_.joinable()) thread_.join();
  print_notes();
  if (error_ != nullptr) std::rethrow_exception(error_);
  return wrong_record_;
}

void RankReport::serve() {
  try {
    report_all();
  } catch (...) {
    error_ = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
}

void RankReport::report_all() {
  while (idle_()) {
    print_notes();
    const auto record = next();
    if (record && !report(*record)) return;
    const std::lock_guard lock(mutex_);
    if (stop_) return;
  }
}

bool RankReport::report(const sim::ranks::Leader::Record& record) {
  const std::uint64_t index = ranked_.shard.run_at(record.position);
  auto result = result_of(run_of(ranked_.sweep, ranked_.file, index), record.octets, out_.json);
  if (!result) {
    wrong_record_ = "a rank sent results that are not those of its runs";
    return false;
  }
  return take_(record.position, std::move(*result)) && record.position != ranked_.last;
}

void RankReport::print_notes() {
  std::deque<std::string> notes;
  {
    const std::lock_guard lock(mutex_);
    notes.swap(notes_);
  }
  for (const std::string& note : notes) out_.note(note);
}

std::optional<sim::ranks::Leader::Record> RankReport::next() {
  std::unique_lock lock(mutex_);
  came_.wait_for(lock, idle_interval, [this] { return stop_ || !records_.empty() || !notes_.empty(); });
  if (stop_ || records_.empty()) return std::nullopt;
  auto first = std::move(records_.front());
  records_.pop_front();
  octets_ -= first.octets.size();
  return first;
}

}  // namespace parley::tools
