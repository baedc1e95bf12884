// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/sim/sim_ranks.hpp"

#include <unistd.h>

#include <array>
#include <thread>

#include <fmt/format.h>

#include "sim/sweep/leader.hpp"
#include "tools/rping/session.hpp"
#include "tools/sim/sim_rank_report.hpp"
#include "tools/sim/sim_rank_worker.hpp"
#include "tools/sim/sim_sweep.hpp"
#include "tools/version.hpp"

namespace parley::tools {
namespace {

using std::chrono::steady_clock;

constexpr auto turn_time = std::chrono::milliseconds(2);         ///< MPI is asked so often; its own waiting would spin
constexpr auto alive_interval = std::chrono::milliseconds(500);  ///< between sim::ranks::Alive messages
constexpr auto leader_silence = std::chrono::minutes(2);         ///< then a rank gives rank 0 up
constexpr auto farewell_time = std::chrono::seconds(10);         ///< for the last messages of all ranks
constexpr auto turn_max = std::chrono::seconds(1);               ///< rank 0 stood still if a turn takes longer

Instant rank_clock() { return Instant(std::chrono::duration_cast<Duration>(steady_clock::now().time_since_epoch())); }

sim::ranks::Hello hello(unsigned jobs) {
  std::array<char, 256> name{};
  (void)::gethostname(name.data(), name.size() - 1);
  return {application_text(), name.data(), jobs};
}

}  // namespace

Or<std::unique_ptr<Ranks>> Ranks::join() {
  const mpi::Launcher launcher = mpi::launcher();
  if (launcher == mpi::Launcher::none) return std::unique_ptr<Ranks>();
  auto world = mpi::World::join(launcher);
  if (!world) return command_error(Exit::environment, world.error());
  return std::unique_ptr<Ranks>(new Ranks(std::move(*world)));
}

Ranks::~Ranks() {
  if (!leads()) return;
  if (!released_) release();
  if (all_answered_) world_->finish();
}

void Ranks::release() {
  released_ = true;
  for (std::uint32_t rank = 1; rank < world_->size(); ++rank)
    world_->send(rank, sim::ranks::encode_message(sim::ranks::Done{together_}));
  // MPI may not end while messages are under way: each rank answers behind its last one.
  const auto until = steady_clock::now() + (together_ ? farewell_time : steady_clock::duration(turn_time));
  std::uint32_t missing = world_->size() - 1;
  while ((missing > 0 || world_->sending() > 0) && steady_clock::now() < until) {
    while (const auto received = world_->receive(sim::ranks::rank_message_max)) {
      const auto message = sim::ranks::decode_message(received->octets);
      if (message && std::holds_alternative<sim::ranks::Done>(*message)) --missing;
    }
    std::this_thread::sleep_for(turn_time);
  }
  all_answered_ = together_ && missing == 0;
}

void Ranks::take_leave(bool together) {
  world_->send(0, sim::ranks::encode_message(sim::ranks::Done{together}));
  const auto until = steady_clock::now() + farewell_time;
  while (world_->sending() > 0 && steady_clock::now() < until) std::this_thread::sleep_for(turn_time);
  if (together) world_->finish();
}

int Ranks::follow(unsigned jobs, Output& out) {
  const auto give_up = [&](std::string_view why) {
    return out.error(Exit::environment, fmt::format("rank {} gives up: {}", world_->rank(), why));
  };
  const StopSignals signals;
  RankWorker worker(jobs);
  world_->send(0, sim::ranks::encode_message(hello(jobs)));
  auto alive_at = steady_clock::now(), heard = alive_at;
  for (;;) {
    while (const auto received = world_->receive(sim::ranks::rank_message_max)) {
      heard = steady_clock::now();
      const auto message = sim::ranks::decode_message(received->octets);
      if (const auto* done = message ? std::get_if<sim::ranks::Done>(&*message) : nullptr) {
        take_leave(done->together);
        return code(Exit::ok);
      }
      worker.put(received->octets);
    }
    while (auto made = worker.take(turn_time)) world_->send(0, std::move(*made));
    const std::size_t sending = world_->sending();
    if (world_->next_failed()) return give_up("MPI could not carry a message to or from rank 0");
    const auto time = steady_clock::now();
    if (time - alive_at >= alive_interval && sending == 0) {
      alive_at = time;
      world_->send(0, sim::ranks::encode_message(sim::ranks::Alive{}));
    }
    // After a signal rank 0 ends the sweep: it gets the signal too.
    const auto patience = StopSignals::requested() ? farewell_time : steady_clock::duration(leader_silence);
    if (time - heard >= patience)
      return give_up(fmt::format("rank 0 was silent for {}", precise_duration_text(time - heard)));
  }
}

namespace {

/// One sweep on rank 0.
class Lead {
 public:
  Lead(mpi::World& world, const RankedSweep& ranked, Output& out)
      : world_(world),
        ranked_(ranked),
        out_(out),
        worker_(ranked.jobs),
        leader_({.ranks = world.size(),
                 .last = ranked.last,
                 .build = application_text(),
                 .work = {encode_sweep(ranked.sweep), ranked.shard.number, ranked.shard.count},
                 .silence = ranked.silence},
                rank_clock()) {
    leader_.receive(0, sim::ranks::encode_message(hello(ranked.jobs)), rank_clock());
  }

  /// Returns why the ranks cannot do this together; empty if they can.
  std::string run(const Ranks::Take& take, const Ranks::Idle& idle) {
    RankReport report(ranked_, take, idle, out_);
    while (!report.ended()) {
      if (steady_clock::now() - turn_at_ >= turn_max) leader_.stood_still(rank_clock());
      turn_at_ = steady_clock::now();
      receive();
      if (rank_clock() >= leader_.deadline()) leader_.tick(rank_clock());
      while (report.room()) {
        auto record = leader_.next_record();
        if (!record) break;
        report.put(std::move(*record));
      }
      while (auto note = leader_.next_note()) report.note(std::move(*note));
      send();
      if (leader_.refusal()) report.stop();
    }
    const std::string wrong = report.finish();
    return wrong.empty() ? leader_.refusal().value_or("") : wrong;
  }
  /// All ranks are there.
  bool together() const { return !leader_.lost_any(); }

 private:
  void receive() {
    while (auto received = world_.receive(sim::ranks::rank_message_max))
      leader_.receive(received->rank, received->octets, rank_clock());
    while (const auto failed = world_.next_failed()) leader_.cut(*failed);
    while (auto made = worker_.take(turn_time)) leader_.receive(0, *made, rank_clock());
    if (steady_clock::now() - alive_at_ < alive_interval) return;
    alive_at_ = steady_clock::now();
    for (std::uint32_t rank = 1; rank < world_.size(); ++rank)
      if (world_.sending_to(rank) == 0) world_.send(rank, sim::ranks::encode_message(sim::ranks::Alive{}));
  }
  void send() {
    while (auto message = leader_.next_message())
      if (message->rank == 0)
        worker_.put(message->octets);
      else
        world_.send(message->rank, std::move(message->octets));
    world_.sending();
  }

  mpi::World& world_;
  const RankedSweep& ranked_;
  Output& out_;
  RankWorker worker_;
  sim::ranks::Leader leader_;
  steady_clock::time_point alive_at_ = steady_clock::now(), turn_at_ = alive_at_;
};

}  // namespace

std::string Ranks::in_order(const RankedSweep& ranked, const Take& take, const Idle& idle, Output& out) {
  Lead lead(*world_, ranked, out);
  std::string refusal = lead.run(take, idle);
  together_ = lead.together();
  if (together_) release();  // the report may take long, and all wait for each other in MPI
  return refusal;
}

}  // namespace parley::tools
