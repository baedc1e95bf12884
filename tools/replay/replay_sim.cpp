// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/replay/replay_sim.hpp"

#include <fmt/format.h>

#include <functional>
#include <optional>

#include "replay/machine.hpp"
#include "sim/record/record.hpp"
#include "tools/replay/replay_mirror.hpp"
#include "tools/replay/roce_mirror.hpp"
#include "tools/sim/sim_files.hpp"
#include "tools/version.hpp"

namespace parley::tools {

namespace {
constexpr std::uint16_t port = 7471;
constexpr Duration limit = std::chrono::hours(24);  // virtual time, longer than any playable recording

/// Two hosts and a link. The traffic is written to the file if there is one.
class Bench {
 public:
  Bench(OutputFile* file, const sim::HostOptions& replayer, const sim::HostOptions& live) : file_(file) {
    replayer_ = *world_.add_host("replay", replayer);
    live_ = *world_.add_host("parley", live);
    constexpr std::uint16_t jumbo = 9000;  // enough for a path MTU of 4096 octets
    (void)world_.add_link(replayer_->id(), live_->id(), {.mtu = roce(live) ? jumbo : sim::LinkOptions{}.mtu});
  }
  static bool roce(const sim::HostOptions& host) { return host.engine == sim::NicEngine::roce; }
  sim::Host& replayer() { return *replayer_; }
  sim::Host& live() { return *live_; }
  void run(const std::function<bool()>& over) {
    if (file_ != nullptr) {
      tap_.emplace(sim::RecordInfo{application_text(), "parley replay", 1},
                   [this](ConstBytes octets) { return file_->write(octets); });
      tap_->begin(world_);
      world_.set_tap(&*tap_);
    }
    (void)world_.run_until(over, limit);
    world_.run_for(std::chrono::seconds(1));
    if (tap_) tap_->finish(nullptr);
  }

 private:
  OutputFile* file_;
  sim::World world_{1};
  sim::Host *replayer_ = nullptr, *live_ = nullptr;
  std::optional<sim::PcapngTap> tap_;
};

constexpr const char* stuck = "nothing is left to happen, and the recording is not over";

}  // namespace

Or<ReplaySimResult> replay_in_simulator(const replay::Recording& recording, capture::Side side,
                                        const ReplaySimOptions& options, const replay::Recording* program) {
  auto file = open_output(options.pcapng, Readers::owner);
  if (!file) return tl::unexpected(file.error());
  replay::PlayOptions play = options.play;
  play.says_recorded_only = true;
  replay::Player player(recording, side, play);
  Mirror mirror(program != nullptr ? *program : recording, capture::other(side), options.quirk, player);
  if (const auto ready = mirror.prepare(); !ready) return tl::unexpected(ready.error());
  const bool listens = side == capture::Side::responder;
  std::optional<replay::PlayerMachine> machine;
  ReplaySimResult out;
  {
    Bench bench(file->get(), {}, {});
    const auto with_port = [](Address a) { return a.port = port, a; };
    machine.emplace(player, listens ? Address::any(Address::Family::v4, port) : with_port(bench.live().address()),
                    listens);
    bench.replayer().set_machine(&*machine);
    bench.live().set_app(&mirror);
    if (listens)
      mirror.connect_to(with_port(bench.replayer().address()));
    else
      mirror.listen_at(port);
    bench.run([&] { return machine->over(); });
    if (!player.done()) player.fail(stuck);
    out.events = mirror.events();
    mirror.release();
  }
  if (*file)
    if (const auto written = (*file)->finish(); !written) return tl::unexpected(written.error());
  out.played = player.result();
  return out;
}

Or<ReplaySimResult> replay_in_simulator(const replay::RoceRecording& recording, capture::Side side,
                                        const ReplaySimOptions& options, const replay::RoceRecording* program) {
  auto file = open_output(options.pcapng, Readers::owner);
  if (!file) return tl::unexpected(file.error());
  const bool listens = side == capture::Side::responder;
  const bool v6 = recording.report.initiator.family == Address::Family::v6;
  const Address::Family family = v6 ? Address::Family::v6 : Address::Family::v4;
  ReplaySimResult out;
  // The player needs the address of its peer's host, which is created below.
  replay::RoceTarget target;
  std::optional<replay::RocePlayer> player;
  const replay::RoceRecording& wanted = program != nullptr ? *program : recording;
  RoceMirror plan(wanted, capture::other(side));
  if (const auto ready = plan.prepare(); !ready) return tl::unexpected(ready.error());
  {
    sim::HostOptions live;
    live.engine = sim::NicEngine::roce;
    live.hca = plan.hca();
    live.hca.play_quirk = options.quirk;
    Bench bench(file->get(), {.engine = sim::NicEngine::roce}, live);
    target.where = listens ? Address::any(family, plan.port()) : bench.live().address(family);
    target.where.port = plan.port();
    player.emplace(recording, side, options.play, target);
    plan.play_against(*player);
    bench.replayer().set_machine(&player->machine());
    bench.live().set_app(&plan);
    if (listens) {
      Address to = bench.replayer().address(family);
      to.port = plan.port();
      plan.connect_to(to);
    }
    player->start(Instant{});
    bench.run([&] { return player->done(); });
    if (!player->done()) player->fail(stuck);
    out.events = plan.events();
    plan.release();
  }
  if (*file)
    if (const auto written = (*file)->finish(); !written) return tl::unexpected(written.error());
  out.played = player->result();
  return out;
}

}  // namespace parley::tools
