// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Assembles a world: nodes, links, scheduled faults, and the step.
#include <fmt/core.h>

#include <map>
#include <utility>
#include <vector>

#include "base/after.hpp"
#include "base/rng.hpp"
#include "base/text.hpp"
#include "sim/host/host.hpp"
#include "sim/net/link.hpp"
#include "sim/net/switch.hpp"
#include "sim/net/topology.hpp"

namespace parley::sim {

struct World::Impl final : EventTarget, HostActions {
  enum Kind : std::uint32_t { host_action, rate_change, timed_action };
  static constexpr std::size_t faults_max = 100'000;  // scheduled ones; rules of links are counted at the link

  explicit Impl(std::uint64_t seed) : Impl(Rng(seed)) {}
  explicit Impl(Rng seed) : work_rng(seed.split()), host_rng(seed.split()), link_rng(seed.split()) {}

  void start();
  void make_neighbours_known();
  void teach_switches(LinkId link, std::uint8_t end, const wire::Mac& mac,
                      const std::vector<std::vector<LinkId>>& trunks);
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void schedule(Instant at, const FaultRule& rule) override;
  void act(FaultAction action, HostNode& host);
  bool would_act(FaultAction action, const HostNode& host) const;
  void tally(std::uint32_t number, bool hit);
  void change_rate(std::size_t change);
  Checked<Topology::Ports> nics_of(const LinkEnd& a, const LinkEnd& b) const;
  Checked<void> check_host(const FaultRule& rule) const;
  Checked<void> add_rate_change(LinkId link, LinkDirection way, const FaultRule& rule);
  LinkWay& way(LinkId link, std::size_t end) { return *ways[link * 2 + end]; }

  struct RateChange {
    LinkId link = 0;
    LinkDirection way = LinkDirection::both;
    std::uint64_t rate_bps = 0;
    std::uint32_t number = 0;
  };

  // Destroyed in reverse order: hosts return their frames, and the engine's pool frees those in flight.
  Engine engine;
  Rng work_rng, host_rng, link_rng;
  Topology topology;
  std::vector<RateChange> rate_changes;
  struct TimedAction {
    FaultAction action = FaultAction::crash;
    NodeId host = 0;
    std::uint32_t number = 0;
  };
  std::vector<TimedAction> timed_actions;
  std::vector<FaultTally> timed_tallies;  // by FaultRule::number
  std::size_t timed_faults = 0;
  bool started = false;
  Neighbours neighbours = Neighbours::discovered;
  std::map<std::uint32_t, NeighbourDirectory> directories;  // by segment; only if neighbours are known
  std::vector<std::unique_ptr<LinkWay>> ways;               // two per link, forward first
  std::vector<std::unique_ptr<Switch>> switches;
  std::vector<std::unique_ptr<HostNode>> hosts;
  std::vector<HostNode*> host_of;  // by NodeId; null for switches
  std::vector<Switch*> switch_of;  // by NodeId; null for hosts
};

// ---- topology ----------------------------------------------------------------------------------------------------

World::World(std::uint64_t seed) : impl_(std::make_unique<Impl>(seed)) {}
World::~World() = default;
World::World(World&&) noexcept = default;

Checked<Host*> World::add_host(std::string_view name, const HostOptions& options) {
  if (impl_->started) return tl::unexpected(fmt::format("host '{}': the world runs already", name));
  if (auto nics = Topology::check_nics(name, options.nics); !nics) return tl::unexpected(nics.error());
  const auto id = impl_->topology.add_node(name, false);
  if (!id) return tl::unexpected(id.error());
  const auto number = static_cast<std::uint32_t>(impl_->hosts.size());
  impl_->hosts.push_back(make_host(impl_->engine, *id, number, std::string(name), options, impl_->host_rng.split()));
  impl_->host_of.push_back(impl_->hosts.back().get());
  impl_->switch_of.push_back(nullptr);
  return impl_->hosts.back().get();
}

Checked<NodeId> World::add_switch(std::string_view name, const SwitchOptions& options) {
  if (impl_->started) return tl::unexpected(fmt::format("switch '{}': the world runs already", name));
  const auto id = impl_->topology.add_node(name, true);
  if (!id) return id;
  impl_->switches.push_back(std::make_unique<Switch>(impl_->engine, *id, std::string(name), options));
  impl_->host_of.push_back(nullptr);
  impl_->switch_of.push_back(impl_->switches.back().get());
  return id;
}

/// The NICs that a link uses; none at a switch.
Checked<Topology::Ports> World::Impl::nics_of(const LinkEnd& a, const LinkEnd& b) const {
  Topology::Ports out;
  std::size_t end = 0;
  for (const LinkEnd* e : {&a, &b}) {
    const std::size_t at = end++;
    if (e->node >= host_of.size()) continue;
    if (host_of[e->node] == nullptr && !e->nic.empty())
      return tl::unexpected(
          fmt::format("switch {} has no NIC '{}': name the switch alone", topology.name(e->node), e->nic));
    if (host_of[e->node] == nullptr) continue;
    const auto nic = host_of[e->node]->free_nic(e->nic);
    if (!nic) return tl::unexpected(nic.error());
    out[at] = *nic;
  }
  return out;
}

Checked<LinkId> World::add_link(LinkEnd a, LinkEnd b, const LinkOptions& options) {
  Impl& w = *impl_;
  if (w.started)
    return tl::unexpected(fmt::format("a link from node {} to node {}: the world runs already", a.node, b.node));
  const auto nics = w.nics_of(a, b);
  if (!nics) return tl::unexpected(nics.error());
  std::vector<Topology::Placed> placed;
  const auto id = w.topology.add_link(a.node, b.node, options, placed, *nics);
  if (!id) return id;
  const NodeId ends[2] = {a.node, b.node};
  std::uint16_t ports[2] = {0, 0};
  for (std::uint8_t end = 0; end < 2; ++end) {
    HostNode* host = w.host_of[ends[end]];
    w.ways.push_back(std::make_unique<LinkWay>(w.engine, w, *id, end, options, host != nullptr, w.link_rng.split()));
    LinkWay& way = *w.ways.back();
    if (host != nullptr) host->attach(*(*nics)[end], way);
    ports[end] = host != nullptr ? *(*nics)[end] : w.switch_of[ends[end]]->attach(way);
  }
  for (std::size_t end = 0; end < 2; ++end) {
    const NodeId other = ends[1 - end];
    Node& receiver = w.host_of[other] != nullptr ? static_cast<Node&>(*w.host_of[other]) : *w.switch_of[other];
    w.way(*id, end).connect(receiver, ports[1 - end], w.way(*id, 1 - end));
  }
  for (const Topology::Placed& place : placed) w.host_of[place.host]->set_network(place.port, place.network);
  return id;
}

Host* World::find_host(std::string_view name) {
  const auto id = impl_->topology.find(name);
  return id ? impl_->host_of[*id] : nullptr;
}
std::size_t World::host_count() const { return impl_->hosts.size(); }
Host& World::host(std::size_t index) { return *impl_->hosts[index]; }
const Host& World::host(std::size_t index) const { return *impl_->hosts[index]; }
std::size_t World::link_count() const { return impl_->topology.link_count(); }
LinkEndInfo World::link_end(LinkId link, std::uint8_t end) const {
  LinkEndInfo info = impl_->topology.end_info(link, end);
  if (const HostNode* host = impl_->host_of[info.node])
    info.name = host->name() + "/" + host->nic_name(impl_->topology.port(link, end));
  return info;
}
const LinkOptions& World::link_options(LinkId link) const { return impl_->topology.options(link); }
std::size_t World::node_count() const { return impl_->topology.node_count(); }
const std::string& World::node_name(NodeId node) const { return impl_->topology.name(node); }
bool World::is_switch(NodeId node) const { return impl_->topology.is_switch(node); }

// ---- faults ------------------------------------------------------------------------------------------------------

Checked<void> World::Impl::check_host(const FaultRule& rule) const {
  if (auto sound = check_rule(rule); !sound) return sound;
  if (rule.host < host_of.size() && host_of[rule.host] != nullptr) return {};
  if (rule.host < host_of.size()) {
    return tl::unexpected(
        fmt::format("{}: {} is a switch; write a host", to_string(rule.action), topology.name(rule.host)));
  }
  return tl::unexpected(fmt::format("{}: there is no node {}", to_string(rule.action), rule.host));
}

Checked<void> World::Impl::add_rate_change(LinkId link, LinkDirection way_of, const FaultRule& rule) {
  if (auto sound = check_rule(rule); !sound) return sound;
  if (rule.rate_bps > Topology::rate_max) {
    return tl::unexpected(fmt::format("set_rate: a rate of {} b/s is above {}", rule.rate_bps, Topology::rate_max));
  }
  if (rule.until <= rule.from) {
    return tl::unexpected(std::string("set_rate: until is not after from: leave it out, or write a later one"));
  }
  if (timed_faults++ == faults_max) {
    return tl::unexpected(fmt::format("a world has at most {} faults at a time", faults_max));
  }
  rate_changes.push_back({link, way_of, rule.rate_bps, rule.number});
  engine.at(rule.from, *this, rate_change, rate_changes.size() - 1);
  if (rule.until == never) return {};
  rate_changes.push_back({link, way_of, topology.options(link).rate_bps, rule.number});
  engine.at(rule.until, *this, rate_change, rate_changes.size() - 1);
  return {};
}

Checked<void> World::add_fault(LinkId link, LinkDirection way, const FaultRule& given) {
  Impl& w = *impl_;
  if (link >= w.topology.link_count()) {
    return tl::unexpected(fmt::format("a fault of link {}: there is no such link", link));
  }
  const auto named = [&](std::string why) { return fmt::format("link {}: {}", w.topology.link_name(link), why); };
  if (given.action == FaultAction::set_rate) return w.add_rate_change(link, way, given).map_error(named);
  FaultRule rule = given;
  if (is_host_action(rule.action)) {
    if (auto sound = w.check_host(rule); !sound) return sound.map_error(named);
    rule.host_name = w.topology.name(rule.host);
  }
  if (way != LinkDirection::backward) {
    if (auto added = w.way(link, 0).add_fault(rule); !added) return added.map_error(named);
  }
  if (way != LinkDirection::forward) {
    if (auto added = w.way(link, 1).add_fault(rule); !added) return added.map_error(named);
  }
  return {};
}

Checked<void> World::add_fault(const FaultRule& host_rule) {
  if (!is_host_action(host_rule.action)) {
    return tl::unexpected(fmt::format("{} is of a link: name one", to_string(host_rule.action)));
  }
  if (auto sound = impl_->check_host(host_rule); !sound) return sound;
  if (impl_->timed_faults++ == Impl::faults_max) {
    return tl::unexpected(fmt::format("a world has at most {} faults at a time", Impl::faults_max));
  }
  const Instant at = after(host_rule.from, host_rule.delay);
  impl_->timed_actions.push_back({host_rule.action, host_rule.host, host_rule.number});
  impl_->engine.at(at, *impl_, Impl::timed_action, impl_->timed_actions.size() - 1);
  return {};
}

void World::Impl::schedule(Instant at, const FaultRule& rule) {
  engine.at(at, *this, host_action, std::uint64_t{static_cast<std::uint8_t>(rule.action)} << 32 | rule.host);
}

void World::Impl::on_event(std::uint32_t kind, std::uint64_t argument) {
  if (kind == rate_change) return change_rate(argument);
  if (kind == timed_action) {
    const TimedAction& timed = timed_actions[argument];
    HostNode& host = *host_of[timed.host];
    tally(timed.number, would_act(timed.action, host));
    return act(timed.action, host);
  }
  act(static_cast<FaultAction>(argument >> 32), *host_of[argument & 0xFFFFFFFF]);
}

void World::Impl::tally(std::uint32_t number, bool hit) {
  if (number == 0) return;
  if (timed_tallies.size() <= number) timed_tallies.resize(std::size_t{number} + 1);
  ++timed_tallies[number].aimed;
  if (hit) ++timed_tallies[number].hit;
}

/// Whether the action changes the host's state.
bool World::Impl::would_act(FaultAction action, const HostNode& host) const {
  switch (action) {
    case FaultAction::crash: return host.up();
    case FaultAction::pause: return host.up() && !host.paused();
    case FaultAction::resume: return host.paused();
    case FaultAction::end_process: return host.up() && !host.process_ended();
    case FaultAction::stop_process: return host.up() && !host.process_ended() && !host.process_stopped();
    case FaultAction::continue_process: return host.up() && host.process_stopped();
    default: return true;
  }
}

/// The host itself reports to the tap.
void World::Impl::act(FaultAction action, HostNode& host) {
  switch (action) {
    case FaultAction::crash: return host.crash();
    case FaultAction::restart: return host.restart();
    case FaultAction::pause: return host.pause();
    case FaultAction::resume: return host.resume();
    case FaultAction::end_process: return host.end_process();
    case FaultAction::stop_process: return host.stop_process();
    case FaultAction::continue_process: return host.continue_process();
    default: return;
  }
}

void World::Impl::change_rate(std::size_t index) {
  const RateChange& change = rate_changes[index];
  tally(change.number, true);
  for (std::uint8_t end = 0; end < 2; ++end) {
    if (change.way == (end == 0 ? LinkDirection::backward : LinkDirection::forward)) continue;
    way(change.link, end).set_rate(change.rate_bps);
    if (engine.tap == nullptr) continue;
    const NodeId from = topology.end(change.link, end), to = topology.end(change.link, 1 - end);
    engine.tap->on_note(engine.now(), from, NoteKind::rate,
                        fmt::format("rate from {} to {} is {}", topology.name(from), topology.name(to),
                                    bit_rate_text(change.rate_bps)));
  }
}

// ---- running -----------------------------------------------------------------------------------------------------

void World::set_tap(Tap* tap) { impl_->engine.tap = tap; }
void World::set_drop_mask(std::uint64_t mask, Layer layer) {
  impl_->engine.drop_mask = mask;
  impl_->engine.mask_layer = layer;
}
Instant World::now() const { return impl_->engine.now(); }
Rng& World::rng() { return impl_->work_rng; }

Checked<void> World::set_neighbours(Neighbours neighbours) {
  if (impl_->started) return tl::unexpected(std::string("neighbours: the world runs already"));
  impl_->neighbours = neighbours;
  return {};
}

/// `trunks`: by node, the links of a switch to other switches. The switches of a segment form a tree.
void World::Impl::teach_switches(LinkId link, std::uint8_t end, const wire::Mac& mac,
                                 const std::vector<std::vector<LinkId>>& trunks) {
  struct Arrival {
    LinkId link;
    std::uint8_t end;  // of the switch
  };
  std::vector<Arrival> open{{link, end}};
  while (!open.empty()) {
    const Arrival at = open.back();
    open.pop_back();
    const NodeId node = topology.end(at.link, at.end);
    switch_of[node]->know(mac, topology.port(at.link, at.end));
    for (const LinkId trunk : trunks[node])
      if (trunk != at.link) open.push_back({trunk, static_cast<std::uint8_t>(topology.end(trunk, 0) == node ? 1 : 0)});
  }
}

void World::Impl::make_neighbours_known() {
  std::vector<std::vector<LinkId>> trunks(topology.node_count());
  const auto is_switch = [this](LinkId link, std::uint8_t end) { return topology.is_switch(topology.end(link, end)); };
  for (LinkId link = 0; link < topology.link_count(); ++link)
    for (std::uint8_t end = 0; end < 2; ++end)
      if (is_switch(link, 0) && is_switch(link, 1)) trunks[topology.end(link, end)].push_back(link);
  for (LinkId link = 0; link < topology.link_count(); ++link)
    for (std::uint8_t end = 0; end < 2; ++end) {
      if (is_switch(link, end)) continue;
      HostNode& host = *host_of[topology.end(link, end)];
      const wire::Mac mac = host.use_directory(topology.port(link, end), directories[topology.segment(link)]);
      const auto other = static_cast<std::uint8_t>(1 - end);
      if (is_switch(link, other)) teach_switches(link, other, mac, trunks);
    }
}

void World::Impl::start() {
  started = true;
  if (neighbours == Neighbours::known) make_neighbours_known();
  for (const auto& host : hosts) host->start();
}

bool World::step(Instant limit) {
  if (!impl_->started) impl_->start();
  return impl_->engine.step(limit);
}

void World::run_for(Duration time) {
  const Instant end = after(now(), time);
  while (step(end)) {
  }
  if (end != never && !impl_->engine.exhausted()) impl_->engine.advance_to(end);
}

std::vector<FaultTally> World::fault_tallies() const {
  std::vector<FaultTally> out = impl_->timed_tallies;
  for (const auto& way : impl_->ways) way->add_tallies(out);
  return out;
}

WorldCounters World::counters() const {
  WorldCounters counters = impl_->engine.counters;
  counters.exhausted = impl_->engine.exhausted();
  counters.events_pending = impl_->engine.pending();
  counters.frames_in_flight = impl_->engine.frames.out();
  counters.frames_peak = impl_->engine.frames.peak();
  return counters;
}

}  // namespace parley::sim
