// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/replay/replay_sim.hpp"

#include <fmt/format.h>

#include "replay/machine.hpp"
#include "sim/record/record.hpp"
#include "tools/replay/replay_mirror.hpp"
#include "tools/sim/sim_files.hpp"
#include "tools/version.hpp"

namespace parley::tools {

namespace {
constexpr std::uint16_t port = 7471;
constexpr Duration limit = std::chrono::hours(24);  // of virtual time: no recording that can be played is longer
}  // namespace

Or<ReplaySimResult> replay_in_simulator(const replay::Recording& recording, capture::Side side,
                                        const ReplaySimOptions& options) {
  auto file = open_output(options.pcapng);
  if (!file) return tl::unexpected(file.error());
  replay::PlayOptions play = options.play;
  play.says_recorded_only = true;
  replay::Player player(recording, side, play);
  Mirror mirror(options.program != nullptr ? *options.program : recording, capture::other(side), options.quirk, player);
  if (const auto ready = mirror.prepare(); !ready) return tl::unexpected(ready.error());
  const bool listens = side == capture::Side::responder;
  std::optional<replay::PlayerMachine> machine;
  std::optional<sim::PcapngTap> tap;
  ReplaySimResult out;
  {
    sim::World world(1);
    sim::Host* replayer = *world.add_host("replay");
    sim::Host* live = *world.add_host("parley");
    (void)world.add_link(replayer->id(), live->id());
    const auto with_port = [](Address a) { return a.port = port, a; };
    machine.emplace(player, listens ? Address::any(Address::Family::v4, port) : with_port(live->address()), listens);
    replayer->set_machine(&*machine);
    live->set_app(&mirror);
    if (listens)
      mirror.connect_to(with_port(replayer->address()));
    else
      mirror.listen_at(port);
    if (*file) {
      tap.emplace(sim::RecordInfo{application_text(), "parley replay", 1},
                  [&](ConstBytes octets) { return (*file)->write(octets); });
      tap->begin(world);
      world.set_tap(&*tap);
    }
    (void)world.run_until([&] { return machine->over(); }, limit);
    world.run_for(std::chrono::seconds(1));
    if (!player.done()) player.fail("nothing is left to happen, and the recording is not over");
    out.events = mirror.events();
    if (tap) tap->finish(nullptr);
    mirror.let_go();
  }
  if (*file)
    if (const auto written = (*file)->finish(); !written) return tl::unexpected(written.error());
  out.played = player.result();
  return out;
}

}  // namespace parley::tools
