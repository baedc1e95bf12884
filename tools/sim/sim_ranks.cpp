// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/sim/sim_ranks.hpp"

#include <unistd.h>

#include <array>
#include <thread>

#include <fmt/format.h>

#include "sim/sweep/leader.hpp"
#include "tools/rping/session.hpp"
#include "tools/sim/sim_rank_worker.hpp"
#include "tools/sim/sim_sweep.hpp"
#include "tools/version.hpp"

namespace parley::tools {
namespace {

using std::chrono::steady_clock;

constexpr auto turn_time = std::chrono::milliseconds(2);         ///< MPI is asked so often; its own waiting would spin
constexpr auto alive_interval = std::chrono::milliseconds(500);  ///< between sim::ranks::Alive messages
constexpr auto leader_silence = std::chrono::minutes(2);         ///< then a rank gives rank 0 up
constexpr auto farewell_time = std::chrono::seconds(5);          ///< for the last messages of all ranks

Instant rank_clock() { return Instant(std::chrono::duration_cast<Duration>(steady_clock::now().time_since_epoch())); }

sim::ranks::Hello hello() {
  std::array<char, 256> name{};
  (void)::gethostname(name.data(), name.size() - 1);
  return {application_text(), name.data()};
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
  if (together_ && missing == 0) world_->finish();
}

void Ranks::take_leave(bool together) {
  world_->send(0, sim::ranks::encode_message(sim::ranks::Done{together}));
  const auto until = steady_clock::now() + farewell_time;
  while (world_->sending() > 0 && steady_clock::now() < until) std::this_thread::sleep_for(turn_time);
  if (together) world_->finish();
}

int Ranks::follow(unsigned jobs) {
  const StopSignals signals;
  RankWorker worker(jobs);
  world_->send(0, sim::ranks::encode_message(hello()));
  auto alive_at = steady_clock::now(), heard = alive_at;
  for (;;) {
    while (auto received = world_->receive(sim::ranks::rank_message_max)) {
      heard = steady_clock::now();
      const auto message = sim::ranks::decode_message(received->octets);
      if (const auto* done = message ? std::get_if<sim::ranks::Done>(&*message) : nullptr) {
        take_leave(done->together);
        return code(Exit::ok);
      }
      worker.put(std::move(received->octets));
    }
    while (auto made = worker.take(turn_time)) world_->send(0, std::move(*made));
    world_->sending();
    const auto time = steady_clock::now();
    if (time - alive_at >= alive_interval) {
      alive_at = time;
      world_->send(0, sim::ranks::encode_message(sim::ranks::Alive{}));
    }
    // After a signal rank 0 ends the sweep: it gets the signal too.
    if (time - heard >= (StopSignals::requested() ? farewell_time : steady_clock::duration(leader_silence)))
      return code(Exit::environment);
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
    leader_.receive(0, sim::ranks::encode_message(hello()), rank_clock());
  }

  void run(const Ranks::Take& take, const Ranks::Idle& idle) {
    bool all = false;
    while (!all && idle() && !leader_.refusal()) {
      receive();
      if (rank_clock() >= leader_.deadline()) leader_.tick(rank_clock());
      all = deliver(take);
      send();
    }
    while (auto note = leader_.next_note()) out_.note(*note);
  }
  /// All ranks are there.
  bool together() const { return !leader_.lost_any() && !StopSignals::requested(); }
  std::string refusal() const { return wrong_record_.empty() ? leader_.refusal().value_or("") : wrong_record_; }

 private:
  void receive() {
    while (auto received = world_.receive(sim::ranks::rank_message_max))
      leader_.receive(received->rank, received->octets, rank_clock());
    while (auto made = worker_.take(turn_time)) leader_.receive(0, *made, rank_clock());
    if (steady_clock::now() - alive_at_ < alive_interval) return;
    alive_at_ = steady_clock::now();
    for (std::uint32_t rank = 1; rank < world_.size(); ++rank)
      world_.send(rank, sim::ranks::encode_message(sim::ranks::Alive{}));
  }
  void send() {
    while (auto note = leader_.next_note()) out_.note(*note);
    while (auto message = leader_.next_message())
      if (message->rank == 0)
        worker_.put(std::move(message->octets));
      else
        world_.send(message->rank, std::move(message->octets));
    world_.sending();
  }
  /// Whether the sweep is over.
  bool deliver(const Ranks::Take& take) {
    while (auto record = leader_.next_record()) {
      auto result =
          result_of(run_of(ranked_.sweep, ranked_.file, ranked_.shard.run_at(record->position)), record->octets);
      if (!result) {
        wrong_record_ = "a rank sent results that are not those of its runs";
        return true;
      }
      if (!take(record->position, std::move(*result)) || record->position == ranked_.last) return true;
    }
    return false;
  }

  mpi::World& world_;
  const RankedSweep& ranked_;
  Output& out_;
  RankWorker worker_;
  sim::ranks::Leader leader_;
  steady_clock::time_point alive_at_ = steady_clock::now();
  std::string wrong_record_;
};

}  // namespace

std::string Ranks::in_order(const RankedSweep& ranked, const Take& take, const Idle& idle, Output& out) {
  Lead lead(*world_, ranked, out);
  lead.run(take, idle);
  together_ = lead.together();
  return lead.refusal();
}

}  // namespace parley::tools
