// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One draw of draw_swarm: a copy of the scenario, and a generator that supplies one number at a time.
#pragma once
#include <bit>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "sim/fault/layer.hpp"
#include "sim/scenario/scenario_value.hpp"

namespace parley::sim {

class Swarm {
 public:
  Swarm(const Scenario& base, std::uint64_t seed) : rng_(seed), roce_rng_(~seed), s_(base) { mild_ = one_in(2); }
  Scenario draw() {
    draw_engines();
    draw_hosts();
    draw_links();
    draw_work();
    settle_roce();
    draw_roce();
    fit_datagrams();
    draw_groups();
    fit_xrc();
    make_room();
    draw_faults();
    // The drawn parameters may leave a fault without a target.
    for (ScenarioFault& fault : s_.faults) fault.may_miss = true;
    return std::move(s_);
  }

 private:
  bool one_in(std::uint32_t n) { return rng_.chance({1, n}); }
  /// From low to high, each order of magnitude as likely as the others.
  std::uint64_t around(std::uint64_t low, std::uint64_t high);
  Duration time(Duration low, Duration high);
  std::uint64_t pick(std::initializer_list<std::uint64_t> values) { return values.begin()[rng_.below(values.size())]; }

  void draw_engines();
  bool may_be_roce(const std::set<std::string>& group) const;
  void draw_hosts();
  void draw_links();
  void draw_work();
  void draw_rtr(ScenarioListen& listen, const std::vector<ScenarioConnect*>& clients);
  static void settle_depths(ScenarioListen& listen, const std::vector<ScenarioConnect*>& clients);
  void draw_flags(mpa::StartupOptions& options);
  void draw_connect(ScenarioConnect& connect);
  void fit_payload();
  void widen_queues();
  void settle_roce();
  void draw_roce();
  void fit_datagrams();
  void draw_groups();
  void fit_xrc();
  std::uint32_t datagram_max() const;
  void draw_hca(cm::RoceProviderOptions& hca);

  void make_room();
  void make_room(ScenarioListen& listen);
  void limit_tries();
  void draw_faults();
  void draw_window(FaultRule& rule);
  ScenarioFault on_a_link();
  void draw_frame_fault();
  void draw_mask();
  void draw_partition();
  void draw_pause();
  void draw_crash();
  void draw_rate();
  void draw_message_fault();
  void draw_damage(FaultRule& rule);
  void draw_packet_damage(FaultRule& rule, const KindRow& kind);
  MessageKind some_checked_kind();
  const std::string& some_host();
  MessageKind some_kind(LayerRole from);

  Rng rng_;
  Rng roce_rng_;  ///< for RoCE parameters: the draws for iWARP stay the same for each seed
  Scenario s_;
  bool mild_ = false;
  bool iwarp_ = true, roce_ = false;  ///< some host has that engine
  std::uint32_t smallest_buffer_ = 1 << 20;
  std::uint16_t smallest_mtu_ = 9000;
  std::uint32_t hits_left_ = 2;  ///< mild: remaining messages that may be lost on purpose
};

}  // namespace parley::sim
