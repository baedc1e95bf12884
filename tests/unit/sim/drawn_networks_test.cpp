// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Networks of drawn hosts, NICs, switches and links with drawn work: what the checks say of those that cannot be, and how
// the others run, beside tests/states/sim_networks.txt.
#include <gtest/gtest.h>

#include "base/rng.hpp"
#include "reports_kit.hpp"
#include "sim/scenario/scenario.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::sim::test {
namespace {

using namespace std::chrono_literals;

class DrawnNetwork {
 public:
  explicit DrawnNetwork(std::uint64_t seed) : rng_(seed) {}

  Scenario draw() {
    s_.file = "drawn";
    s_.name = "drawn";
    s_.bounds.time = 60s;
    s_.bounds.events = 40'000;
    const std::uint64_t hosts = rng_.between(2, 6), switches = rng_.below(4);
    for (std::uint64_t i = 0; i < hosts; ++i) s_.hosts.push_back(host(i));
    for (std::uint64_t i = 0; i < switches; ++i) s_.hosts.push_back({.name = fmt::format("s{}", i), .is_switch = true});
    draw_links(hosts, switches);
    for (std::uint64_t i = rng_.between(1, 4); i > 0; --i) s_.listens.push_back(listen());
    for (std::uint64_t i = rng_.between(1, 4); i > 0; --i) s_.connects.push_back(connect());
    int line = 1;
    for (ScenarioHost& h : s_.hosts) h.line = line++;
    for (ScenarioLink& l : s_.links) l.line = line++;
    for (ScenarioListen& l : s_.listens) l.line = line++;
    for (ScenarioConnect& c : s_.connects) c.line = line++;
    return std::move(s_);
  }

 private:
  bool one_in(std::uint64_t n) { return rng_.below(n) == 0; }
  std::string some_host() {
    for (;;)
      if (const ScenarioHost& h = s_.hosts[rng_.below(s_.hosts.size())]; !h.is_switch || one_in(40)) return h.name;
  }
  std::string some_nic(const std::string& host) {
    if (one_in(30)) return "n9";
    for (const ScenarioHost& h : s_.hosts)
      if (h.name == host && !h.options.nics.empty()) return h.options.nics[rng_.below(h.options.nics.size())].name;
    return {};
  }
  std::uint16_t port() { return static_cast<std::uint16_t>(one_in(40) ? 0 : 7000 + rng_.below(2)); }
  AddressKind address() {
    constexpr AddressKind kinds[] = {AddressKind::v4, AddressKind::v4, AddressKind::v6, AddressKind::link_local};
    return kinds[rng_.below(4)];
  }

  ScenarioHost host(std::uint64_t i) {
    ScenarioHost h{.name = fmt::format("h{}", i)};
    h.options.ipv6 = !one_in(6);
    h.options.learn_announcements = one_in(3);
    if (one_in(4)) h.options.ring = static_cast<std::uint32_t>(rng_.between(0, 5));
    if (one_in(5)) h.options.manager.endpoints_max = static_cast<std::uint32_t>(rng_.between(1, 4));
    if (one_in(2)) return h;
    for (std::uint64_t n = rng_.between(1, 3); n > 0; --n) {
      NicOptions nic{.name = fmt::format("n{}", h.options.nics.size() + 1)};
      if (one_in(4)) nic.mtu = static_cast<std::uint16_t>(rng_.between(576, 1600));
      if (one_in(6)) nic.engine = NicEngine::none;
      h.options.nics.push_back(nic);
    }
    return h;
  }

  void link(const std::string& a, const std::string& b) {
    ScenarioLink l;
    const bool turned = one_in(2);
    l.ends[0] = turned ? b : a;
    l.ends[1] = turned ? a : b;
    for (int end = 0; end < 2; ++end)
      if (one_in(3)) l.nics[end] = some_nic(l.ends[end]);
    if (one_in(2)) l.name = fmt::format("l{}", s_.links.size());
    l.options.delay = Duration(static_cast<std::int64_t>(rng_.below(2'000'000)));
    l.options.rate_bps = 1'000'000 * (1 + rng_.below(2000));
    if (one_in(4)) l.options.queue_octets = static_cast<std::uint32_t>(rng_.between(1500, 20000));
    s_.links.push_back(l);
  }

  void draw_links(std::uint64_t hosts, std::uint64_t switches) {
    for (std::uint64_t i = 1; i < switches; ++i)
      if (!one_in(5)) link(fmt::format("s{}", i), fmt::format("s{}", rng_.below(i)));
    for (std::uint64_t i = 0; i < hosts; ++i) {
      const std::string name = fmt::format("h{}", i);
      if (switches > 0 && !one_in(8)) link(name, fmt::format("s{}", rng_.below(switches)));
      if (one_in(3) && hosts > 1) link(name, fmt::format("h{}", rng_.below(hosts)));
      if (one_in(6) && switches > 0) link(name, fmt::format("s{}", rng_.below(switches)));
    }
    if (one_in(10) && switches > 1) link("s0", "s1");
  }

  ScenarioListen listen() {
    ScenarioListen l;
    l.host = some_host();
    l.port = port();
    l.address = address();
    if (one_in(3)) l.accept_after = Duration(static_cast<std::int64_t>(rng_.below(50'000'000)));
    if (one_in(4)) l.reject_every = static_cast<std::uint32_t>(rng_.between(1, 3));
    if (one_in(4)) l.pending_max = static_cast<std::uint32_t>(rng_.between(1, 3));
    if (one_in(4)) l.at = Instant(Duration(static_cast<std::int64_t>(rng_.below(300'000'000))));
    if (one_in(3)) l.private_data = std::string(rng_.below(100), 'r');
    l.mpa.ird = l.mpa.ord = static_cast<std::uint16_t>(rng_.between(1, 9));
    return l;
  }

  ScenarioConnect connect() {
    ScenarioConnect c;
    c.from = some_host();
    c.to = one_in(3) ? some_host() : s_.listens[rng_.below(s_.listens.size())].host;
    if (one_in(4)) c.from_nic = some_nic(c.from);
    if (one_in(4)) c.to_nic = some_nic(c.to);
    if (one_in(4))
      if (const std::string nic = some_nic(c.to); !nic.empty()) c.backups.push_back(nic);
    const ScenarioListen& l = s_.listens[rng_.below(s_.listens.size())];
    c.port = one_in(4) ? port() : l.port;
    c.address = one_in(4) ? address() : l.address;
    constexpr Expect expects[] = {Expect::settled,     Expect::settled, Expect::settled,
                                  Expect::established, Expect::failed,  Expect::rejected};
    c.expect = expects[rng_.below(6)];
    c.count = static_cast<std::uint32_t>(rng_.between(1, 5));
    if (one_in(2)) c.interval = Duration(static_cast<std::int64_t>(rng_.below(20'000'000)));
    c.transfer = static_cast<Transfer>(rng_.below(3));
    c.messages = static_cast<std::uint32_t>(rng_.below(6));
    c.octets = static_cast<std::uint32_t>(rng_.below(one_in(3) ? 20'000 : 300));
    c.both_ways = one_in(2);
    c.closer = static_cast<ClosingSide>(rng_.below(4));
    c.retries = static_cast<std::uint32_t>(rng_.below(3));
    if (one_in(3)) c.close_after = Duration(static_cast<std::int64_t>(rng_.below(30'000'000)));
    if (one_in(3)) c.private_data = std::string(rng_.below(100), 'q');
    constexpr mpa::Rtr forms[] = {mpa::Rtr::none, mpa::Rtr::send, mpa::Rtr::write, mpa::Rtr::read};
    c.mpa.rtr = forms[rng_.below(4)];
    c.mpa.ird = c.mpa.ord = static_cast<std::uint16_t>(rng_.below(9));
    return c;
  }

  Rng rng_;
  Scenario s_;
};

/// Without what stands in the lines of errors, until there are none; nothing if nothing is left to do.
std::optional<Scenario> mended(Scenario s) {
  for (int rounds = 0; rounds < 100; ++rounds) {
    const auto errors = check_scenario(s);
    if (errors.empty()) return s;
    const auto at_fault = [&](const auto& entry) { return entry.line == errors.front().line; };
    if (errors.front().line == 0 || s.connects.empty()) return std::nullopt;
    std::erase_if(s.hosts, at_fault);
    std::erase_if(s.links, at_fault);
    std::erase_if(s.listens, at_fault);
    std::erase_if(s.connects, at_fault);
  }
  return std::nullopt;
}

/// What of a drawn network can run, as it was drawn and as a swarm. What is too small for the work may fail it: then its
/// violations are in the report.
struct DrawnRuns {
  std::vector<ScenarioError> errors;
  std::optional<Recorded> plain, swarm;
};
DrawnRuns drawn_network(std::uint64_t seed) {
  const Scenario drawn = DrawnNetwork(seed).draw();
  DrawnRuns out{.errors = check_scenario(drawn)};
  const auto right = mended(drawn);
  if (!right) return out;
  auto s = parse_scenario(to_toml(*right), "drawn.toml");
  if (s)
    for (ScenarioFault& fault : s->faults) fault.may_miss = true;  // drawn, whatever else was
  if (!s) ADD_FAILURE() << s.error().front().to_string() << '\n' << to_toml(*right);
  if (!s) return out;
  out.plain = record_run(*s, seed);
  const Scenario swarm = draw_swarm(*s, seed);
  for (const ScenarioError& error : check_scenario(swarm))
    ADD_FAILURE() << "swarm " << seed << ": " << error.to_string();
  out.swarm = record_run(swarm, seed);
  return out;
}

TEST(SimNetworks, DrawnOnesAreJudgedAndRunAsReviewed) {
  std::string out =
      "# Drawn networks: line, key and a letter for each error, and the run without them. The first seeds line by\n"
      "# line, the others by what they come to.\n";
  Legend legend;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const DrawnRuns runs = drawn_network(seed);
    out += fmt::format("{}:", seed);
    for (const ScenarioError& e : runs.errors)
      out += fmt::format(" {} {} [{}];", e.line, e.key, legend.letter_of_form(e.text));
    out += runs.plain ? " " + run_line(*runs.plain, legend) : " nothing to run\n";
    if (runs.swarm)
      out += fmt::format("  swarm: {}; faults {} hops {} pcapng {}\n", connections_text(runs.swarm->report),
                         runs.swarm->report.faults_hit, runs.swarm->report.counters.packet_hops, runs.swarm->pcapng);
  }
  out += legend.text();
  Tally tally;
  for (std::uint64_t seed = 41; seed <= 640; ++seed) {
    const DrawnRuns runs = drawn_network(seed);
    for (const ScenarioError& e : runs.errors)
      tally.add(fmt::format("{}: {}", e.key, without_numbers(e.text)), {e.line});
    if (runs.plain) add_run(tally, *runs.plain);
    if (runs.swarm) add_run(tally, *runs.swarm);
  }
  expect_as_reviewed("sim_networks.txt", out + tally.text());
}

}  // namespace
}  // namespace parley::sim::test
