// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/sweep/leader.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"

namespace parley::sim::ranks {
namespace {

constexpr std::uint32_t chunks_at_once = 2;  ///< for each job of a rank
/// Each job may be this many chunks ahead of the first result that is missing.
constexpr std::uint64_t chunks_ahead = 4;

HandOutOptions hand_out_options(const LeaderOptions& options) {
  return {options.last, options.ranks, rank_chunk_max, chunks_ahead * rank_chunk_max * options.ranks};
}

}  // namespace

Leader::Leader(LeaderOptions options, Instant now)
    : options_(std::move(options)),
      hand_out_(hand_out_options(options_)),
      ranks_(options_.ranks),
      awaited_(options_.ranks) {
  for (Rank& rank : ranks_) rank.heard = now;
}

std::string Leader::name_of(std::uint32_t rank) const {
  const std::string& host = ranks_[rank].host;
  return host.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} ({})", rank, host);
}

void Leader::receive(std::uint32_t rank, ConstBytes octets, Instant now) {
  if (rank >= ranks_.size() || refusal_ || ranks_[rank].state == State::cut) return;
  Rank& from = ranks_[rank];
  auto message = decode_message(octets);
  const bool hello = message && std::holds_alternative<Hello>(*message);
  if (!message || hello != from.host.empty()) {
    refusal_ = fmt::format("{} sent a message that is not expected: it runs another version or program", name_of(rank));
    return;
  }
  from.heard = now;
  if (from.state == State::lost) {
    from.state = State::working;
    notes_.push_back(fmt::format("{} answers again", name_of(rank)));
  }
  if (const auto* m = std::get_if<Hello>(&*message)) on(rank, *m);
  if (auto* m = std::get_if<Results>(&*message)) on(rank, std::move(*m));
  if (const auto* m = std::get_if<Failure>(&*message)) refusal_ = fmt::format("{}: {}", name_of(rank), m->text);
  if (hello)
    assign();  // it may be the last one that was awaited
  else
    assign_to(rank, chunks_at_once);
}

void Leader::on(std::uint32_t rank, const Hello& hello) {
  Rank& from = ranks_[rank];
  if (from.state == State::awaited) --awaited_;
  from.state = State::working;
  from.host = hello.host.empty() ? "unnamed" : hello.host;
  from.jobs = hello.jobs;
  jobs_ += hello.jobs;
  const std::uint32_t workers = std::max(jobs_, options_.ranks);
  hand_out_.set_workers(workers, chunks_ahead * rank_chunk_max * workers);
  if (hello.build != options_.build) {
    refusal_ = fmt::format("{} runs {}, and rank 0 {}", name_of(rank), hello.build, options_.build);
    return;
  }
  send(rank, options_.work);
}

void Leader::on(std::uint32_t rank, Results results) {
  Rank& from = ranks_[rank];
  if (from.chunks > 0) --from.chunks;
  if (hand_out_.finished(results.chunk, results.took))
    results_.emplace(results.chunk.first, std::move(results.records));
}

void Leader::lose(std::uint32_t rank, State state, const std::string& why) {
  Rank& lost = ranks_[rank];
  const std::uint64_t runs = hand_out_.lost(rank);
  if (lost.state == State::awaited) --awaited_;
  lost.state = state;
  lost.chunks = 0;
  notes_.push_back(fmt::format("{} is lost: {}; {}", name_of(rank), why,
                               runs == 0 ? "it had no runs" : counted(runs, "run") + " will be repeated"));
}

bool Leader::lost_any() const { return !std::ranges::all_of(ranks_, there); }

void Leader::stood_still(Instant now) {
  for (Rank& rank : ranks_) rank.heard = now;
}

void Leader::cut(std::uint32_t rank) {
  if (rank == 0 || rank >= ranks_.size() || refusal_ || ranks_[rank].state == State::cut) return;
  lose(rank, State::cut, "MPI could not carry a message to or from it");
  assign();
}

void Leader::tick(Instant now) {
  if (refusal_) return;
  for (std::uint32_t rank = 1; rank < ranks_.size(); ++rank)
    if (there(ranks_[rank]) && now - ranks_[rank].heard >= options_.silence)
      lose(rank, State::lost, "it was silent for " + precise_duration_text(now - ranks_[rank].heard));
  assign();
}

Instant Leader::deadline() const {
  Instant first = never;
  if (refusal_) return first;
  for (std::uint32_t rank = 1; rank < ranks_.size(); ++rank)
    if (there(ranks_[rank])) first = std::min(first, ranks_[rank].heard + options_.silence);
  return first;
}

bool Leader::assign_to(std::uint32_t rank, std::uint32_t wanted) {
  if (awaited_ > 0 || refusal_) return false;
  while (ranks_[rank].state == State::working && ranks_[rank].chunks < wanted * ranks_[rank].jobs) {
    const auto chunk = hand_out_.next(rank);
    starved_ = !chunk;
    if (!chunk) return false;
    ++ranks_[rank].chunks;
    turn_ = static_cast<std::uint32_t>((rank + 1) % ranks_.size());
    send(rank, Assignment{*chunk});
  }
  return true;
}

void Leader::assign() {
  // One chunk for each rank before the second for any, from the rank behind the last one that got a chunk.
  for (std::uint32_t wanted = 1; wanted <= chunks_at_once; ++wanted)
    for (std::uint32_t i = 0, first = turn_; i < ranks_.size(); ++i)
      if (!assign_to(static_cast<std::uint32_t>((first + i) % ranks_.size()), wanted)) return;
}

std::optional<Leader::Outgoing> Leader::next_message() {
  if (out_.empty()) return std::nullopt;
  Outgoing first = std::move(out_.front());
  out_.pop_front();
  return first;
}

std::optional<Leader::Record> Leader::next_record() {
  const auto chunk = results_.empty() ? results_.end() : results_.begin();
  if (chunk == results_.end() || chunk->first + taken_in_chunk_ != taken_) return std::nullopt;
  Record record{taken_++, std::move(chunk->second[taken_in_chunk_++])};
  if (taken_in_chunk_ == chunk->second.size()) {
    results_.erase(chunk);
    taken_in_chunk_ = 0;
    hand_out_.delivered_up_to(taken_);
    if (starved_) assign();
  }
  return record;
}

std::optional<std::string> Leader::next_note() {
  if (notes_.empty()) return std::nullopt;
  std::string first = std::move(notes_.front());
  notes_.pop_front();
  return first;
}

}  // namespace parley::sim::ranks
