// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How connections end in the simulator, for each row of docs/cm.md's table of ends that a simulated host can play: the columns iWARP and
// RoCE, which tests/script/ends_test.py has from processes on sockets, hold for its two engines. PARLEY_REWRITE=1 writes the column
// "simulator" anew.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "host_kit.hpp"
#include "parley/mpa.hpp"
#include "parley/sim.hpp"

namespace parley::sim::testing_hosts {
namespace {

constexpr cm::Liveness watch{1s, 3s};

/// A client's Manager on host a, a server's on host b, each beside the host's own: one of them ends, or its host or link.
struct Party {
  std::unique_ptr<cm::Manager> manager;
  cm::Id id;
  std::vector<std::string> told;  // ends, as the table has them
  bool up = false, asked = false;
};

std::string text_of(const cm::Event& event) {
  const auto failed = [](std::string_view name, const cm::Failure& why) {
    return fmt::format("{} at `{}`: {}", name, cm::to_string(why.stage()), why.code.message());
  };
  if (const auto* e = std::get_if<cm::Disconnected>(&event)) return e->graceful ? "graceful" : e->why.code.message();
  if (const auto* e = std::get_if<cm::ConnectFailed>(&event)) return failed("connect_failed", e->why);
  if (const auto* e = std::get_if<cm::Retrying>(&event)) return failed("retrying", e->why);
  return {};
}

/// Takes the events of a party's manager; `decides`: it accepts each request.
void hear(Party& party, bool decides) {
  while (party.manager && party.manager->has_events()) {
    const cm::Event event = std::move(*party.manager->poll_event());
    if (const auto* request = std::get_if<cm::ConnectRequest>(&event)) {
      party.id = request->id;
      party.asked = true;
      if (decides) {
        EXPECT_TRUE(party.id.accept());
      }
    }
    party.up = party.up || std::holds_alternative<cm::Established>(event);
    if (std::string text = text_of(event); !text.empty()) party.told.push_back(std::move(text));
  }
}

/// The client's connection to port 7471 of `server`.
void connect(Party& client, const Host& server, NicEngine engine) {
  cm::ConnectOptions connecting;
  if (engine == NicEngine::iwarp) connecting.transport = mpa::Options{.rtr = mpa::Rtr::read};
  client.id = *client.manager->connect(with_port(server.address(), 7471), connecting);
}

/// How far the set-up is when the cause comes.
enum class Phase { begins, waits, up };

struct Ends {
  Ends(NicEngine engine_used, Phase begun) : engine(engine_used), phase(begun) {
    const bool decides = phase == Phase::up;
    HostOptions options;
    options.engine = engine;
    options.manager.liveness = watch;
    for (std::size_t i = 0; i < 2; ++i) {
      cable.add(options);
      cable.apps[i]->start = [this, i](Host& host) { parties[i].manager = *host.cm().open_beside(); };
      cable.apps[i]->crash = [this, i](Host&) { parties[i].id = {}, parties[i].manager.reset(); };
      cable.apps[i]->turn = [this, i, decides](Host&) { hear(parties[i], decides); };
    }
    cable.start();
    listener = *server().manager->listen(Address::any(Address::Family::v4, 7471));
    if (phase == Phase::begins) return;
    connect();
    EXPECT_TRUE(cable.run_until([&] { return decides ? client().up && server().up : server().asked; }));
    cable.run_for(200ms);
  }
  ~Ends() {
    for (Party& party : parties) party.id = {}, party.manager.reset();
  }
  void connect() { testing_hosts::connect(client(), *cable.hosts[1], engine); }
  Party& client() { return parties[0]; }
  Party& server() { return parties[1]; }
  void cut() {
    cable.passes = [](const Cable::Seen&) { return false; };
  }
  /// A router between the hosts answers each TCP segment and each datagram.
  void reject(Unreachable why) {
    cable.passes = [this, why](const Cable::Seen& sent) {
      const ConstBytes network = ConstBytes(sent.octets).subspan(ethernet_size);
      if (sent.type() != wire::ethertype_ipv4 || network[9] == protocol_icmp) return true;
      std::array<std::uint8_t, 16> sender{};
      std::copy_n(network.begin() + 12, 4, sender.begin());
      const FramePtr frame = write_unreachable(cable.engine.frames, router, LocalKind::v4, sender, network, 0, why);
      Bytes octets(frame->octets().begin(), frame->octets().end());
      std::copy_n(sent.octets.begin() + 6, 6, octets.begin());  // to the sender's MAC address
      cable.inject(1 - sent.from, std::move(octets));
      return false;
    };
  }

  NicEngine engine;
  Phase phase;
  PortAddresses router = make_addresses(9, 0, 0);
  Cable cable;
  std::array<Party, 2> parties;
  cm::Id listener;
};

void end_process(Ends& e, std::size_t which) {
  if (which == 1) e.listener = {};
  e.cable.hosts[which]->end_process();
}

template <Unreachable why>
void rejects(Ends& e, std::size_t) {
  e.reject(why);
}

struct Cause {
  std::string_view row;
  Phase phase;
  int survivor;  // 0: client, 1: server; -1: either, with the same outcome
  void (*act)(Ends&, std::size_t other);
};
const Cause causes[] = {
    {"disconnect", Phase::up, -1, [](Ends& e, std::size_t other) { EXPECT_TRUE(e.parties[other].id.disconnect()); }},
    {"close, nothing under way", Phase::up, -1,
     [](Ends& e, std::size_t other) {
       if (other == 1) e.listener = {};
       e.parties[other].id = {};
       e.parties[other].manager.reset();
     }},
    {"close, a Send not delivered", Phase::up, -1,
     [](Ends& e, std::size_t other) {
       EXPECT_TRUE(e.parties[other].id.qp()->post_send({}));      // of no octets; the survivor has no receive for it
       e.cable.hosts[other]->set_timer(e.cable.engine.now(), 0);  // its turn
       e.cable.run_for(1ms);
       if (other == 1) e.listener = {};
       e.parties[other].id = {};
       e.parties[other].manager.reset();
     }},
    {"destroy", Phase::up, -1, [](Ends& e, std::size_t other) { e.parties[other].id.destroy(); }},
    {"server killed, client waits for the decision", Phase::waits, 0, end_process},
    {"client killed, server decides", Phase::waits, 1, end_process},
    {"host gone", Phase::up, -1,
     [](Ends& e, std::size_t other) {
       if (other == 1) e.listener = {};
       e.cable.hosts[other]->crash();
     }},
    {"link gone", Phase::up, -1, [](Ends& e, std::size_t) { e.cut(); }},
    {"server's host gone, client waits for the decision", Phase::waits, 0,
     [](Ends& e, std::size_t other) {
       e.listener = {};
       e.cable.hosts[other]->crash();
     }},
    {"ICMP port unreachable", Phase::up, -1, rejects<Unreachable::port>},
    {"ICMP host unreachable", Phase::up, -1, rejects<Unreachable::host>},
    {"ICMP administratively prohibited", Phase::up, -1, rejects<Unreachable::prohibited>},
    {"connect, ICMP port unreachable", Phase::begins, 0, rejects<Unreachable::port>},
    {"connect, ICMP host unreachable", Phase::begins, 0, rejects<Unreachable::host>},
    {"connect, ICMP administratively prohibited", Phase::begins, 0, rejects<Unreachable::prohibited>},
    {"client gives up, server decides", Phase::waits, 1,
     [](Ends& e, std::size_t other) { e.parties[other].id.destroy(); }},
};

constexpr Instant acts_at = Instant(1s);

/// A row that is about a process: what happens to it from `acts_at` on are actions of a scenario.
struct ProcessCause {
  std::string_view row;
  FaultAction action;
  Duration continued_after{};  // stop_process: the process goes on, and disconnects; 0: it stays stopped
};
const ProcessCause process_causes[] = {
    {"exit", FaultAction::end_process},
    {"SIGKILL", FaultAction::end_process},
    {"SIGSTOP", FaultAction::stop_process},
    {"SIGSTOP, SIGCONT 1 s later, disconnect", FaultAction::stop_process, 1s},
    {"SIGSTOP, SIGCONT 6 s later, disconnect", FaultAction::stop_process, 6s},
};

/// A client and a server on two hosts of a World; the action applies to the process on host `other`.
struct ProcessEnds {
  ProcessEnds(NicEngine engine, const ProcessCause& cause, std::size_t other) {
    HostOptions options;
    options.engine = engine;
    options.manager.liveness = watch;
    for (std::size_t i = 0; i < 2; ++i) {
      hosts[i] = *world.add_host(i == 0 ? "a" : "b", options);
      apps[i].start = [this, i](Host& host) { parties[i].manager = *host.cm().open_beside(); };
      apps[i].crash = [this, i](Host&) {
        if (i == 1) listener = {};
        parties[i].id = {};
        parties[i].manager.reset();
      };
      apps[i].turn = [this, i](Host&) { hear(parties[i], true); };
      apps[i].timer = [this, i](Host&, std::uint64_t) {
        EXPECT_TRUE(parties[i].id.disconnect() || !told(1 - i).empty());
      };
      hosts[i]->set_app(&apps[i]);
    }
    EXPECT_TRUE(world.add_link(hosts[0]->id(), hosts[1]->id()));
    FaultRule rule{.from = acts_at, .action = cause.action, .host = hosts[other]->id()};
    EXPECT_TRUE(world.add_fault(rule));
    if (cause.continued_after != Duration{}) {
      rule.action = FaultAction::continue_process;
      rule.delay = cause.continued_after;
      EXPECT_TRUE(world.add_fault(rule));
      hosts[other]->set_timer(acts_at + 1ms, 0);  // stopped by then: it fires when the process goes on
    }
    world.run_for(1ms);
    listener = *parties[1].manager->listen(Address::any(Address::Family::v4, 7471));
    connect(parties[0], *hosts[1], engine);
    for (Host* host : hosts) (void)host->cm();  // an access from outside makes a host run its pending work
    EXPECT_TRUE(world.run_until([this] { return parties[0].up && parties[1].up; }, 500ms));
  }
  ~ProcessEnds() {
    for (Party& party : parties) party.id = {}, party.manager.reset();
  }
  std::vector<std::string>& told(std::size_t i) { return parties[i].told; }

  std::array<TestApp, 2> apps;
  World world{1};
  std::array<Host*, 2> hosts{};
  std::array<Party, 2> parties;
  cm::Id listener;
};

constexpr std::string_view nothing = "nothing: its system answers for it";

std::string outcome(NicEngine engine, const ProcessCause& cause) {
  std::array<std::string, 2> out;
  for (std::size_t survivor = 0; survivor < 2; ++survivor) {
    ProcessEnds e(engine, cause, 1 - survivor);
    const bool ends = e.world.run_until([&] { return !e.told(survivor).empty(); }, 60s);
    out[survivor] = ends ? e.told(survivor).front() : nothing;
  }
  EXPECT_EQ(out[0], out[1]) << cause.row << ": both roles report the same";
  return out[0];
}

/// The first end that the survivor reports.
std::string outcome(NicEngine engine, const Cause& cause, std::size_t survivor) {
  Ends e(engine, cause.phase);
  cause.act(e, 1 - survivor);
  if (cause.phase == Phase::begins) e.connect();
  Party& party = e.parties[survivor];
  if (!e.cable.run_until([&] { return !party.told.empty(); }, 60s)) return std::string(nothing);
  return party.told.front();
}

std::string outcome(NicEngine engine, const Cause& cause) {
  if (cause.survivor >= 0) return outcome(engine, cause, static_cast<std::size_t>(cause.survivor));
  const std::string client = outcome(engine, cause, 0), server = outcome(engine, cause, 1);
  EXPECT_EQ(client, server) << cause.row << ": both roles report the same";
  return client;
}

constexpr std::string_view path = PARLEY_SOURCE_DIR "/docs/cm.md";
constexpr std::string_view begin_mark = "<!-- ends: begin -->\n", end_mark = "<!-- ends: end -->";

std::string page() {
  std::ifstream in{std::string(path)};
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line.substr(2));
  for (std::string cell; std::getline(in, cell, '|');) {
    const std::size_t first = cell.find_first_not_of(' ');
    out.push_back(first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
  }
  return out;
}

enum Column : std::size_t { row, iwarp, roce, simulator };

template <class Row>
std::string cell_for(const std::vector<std::string>& cells, const Row& cause) {
  const std::string over_iwarp = outcome(NicEngine::iwarp, cause), over_roce = outcome(NicEngine::roce, cause);
  EXPECT_EQ(over_iwarp, cells[iwarp]) << cause.row;
  EXPECT_EQ(over_roce, cells[roce]) << cause.row;
  return over_iwarp == cells[iwarp] && over_roce == cells[roce] ? "the same" : over_iwarp + "; " + over_roce;
}

/// "-": no simulated host can play it.
std::string cell_for(const std::vector<std::string>& cells) {
  for (const Cause& cause : causes)
    if (cause.row == cells[row]) return cell_for(cells, cause);
  for (const ProcessCause& cause : process_causes)
    if (cause.row == cells[row]) return cell_for(cells, cause);
  return "-";
}

TEST(SimEndsTable, BothEnginesEndAsProcessesOnSocketsDo) {
  const std::string text = page();
  const std::size_t begin = text.find(begin_mark) + begin_mark.size(), end = text.find(end_mark);
  ASSERT_LT(begin, end);
  std::istringstream lines(text.substr(begin, end - begin));
  std::string wanted;
  std::size_t played = 0;
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> cells = cells_of(line);
    ASSERT_GT(cells.size(), simulator) << line;
    const bool heading = cells[iwarp] == "iWARP" || cells[iwarp].starts_with('-');
    if (!heading) {
      cells[simulator] = cell_for(cells);
      played += cells[simulator] != "-";
    }
    wanted += heading ? line + "\n" : fmt::format("| {} |\n", fmt::join(cells, " | "));
  }
  EXPECT_EQ(played, std::size(causes) + std::size(process_causes)) << "each cause is a row of the table";
  if (const char* rewrite = std::getenv("PARLEY_REWRITE"); rewrite != nullptr && *rewrite == '1') {
    std::ofstream(std::string(path)) << text.substr(0, begin) << wanted << text.substr(end);
    return;
  }
  EXPECT_EQ(text.substr(begin, end - begin), wanted);
}

TEST(SimEndsTable, AProgramThatStopsForLessThanDeadAfterKeepsItsConnections) {
  for (const NicEngine engine : {NicEngine::iwarp, NicEngine::roce})
    for (const std::size_t which : {0U, 1U}) {
      Ends e(engine, Phase::up);
      e.cable.hosts[which]->stop_process();
      e.cable.run_for(2s);
      e.cable.hosts[which]->continue_process();
      e.cable.run_for(30s);
      EXPECT_TRUE(e.client().told.empty() && e.server().told.empty()) << to_string(engine) << ' ' << which;
    }
}

}  // namespace
}  // namespace parley::sim::testing_hosts
