// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Checks a whole scenario: everything that it names must exist, and everything that it requests must be possible.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/scenario/scenario_check.hpp"
#include "sim/scenario/scenario_route.hpp"
#include "sim/scenario/scenario_schema.hpp"

namespace parley::sim {

class Checker {
 public:
  /// `origins` must outlive the checker.
  Checker(const Scenario& scenario, const UncheckedParts& unchecked, const SectionOrigins& origins);
  std::vector<ScenarioProblem> run();

 private:
  static constexpr std::size_t findings_max = 1000;
  static constexpr std::size_t none = ~std::size_t{0};

  void index();
  static std::string name_of(const ScenarioLink& link);
  void add(Section section, std::size_t index, std::string_view key, std::string text);
  /// Another element of the same table has a problem of this key. To be asked before a text that takes long to make.
  bool repeats(Section section, std::size_t index, std::string_view key) const;
  const ScenarioHost* node(std::string_view name) const;
  std::string unknown(std::string_view what, std::string_view name, bool switches) const;
  /// The host of that name; reports an error if there is none.
  const ScenarioHost* expect_host(Section section, std::size_t index, std::string_view key, const std::string& name);

  void check_bounds();
  void check_hosts();
  void check_host(std::size_t index);
  void check_nics(std::size_t host);
  void check_links();
  void check_link_nics();
  void check_one_nic_in_a_network();
  std::string path(std::size_t from, std::size_t to, std::size_t end) const;
  void check_loops();
  bool reaches(const std::string& a, const std::string& b) const;

  void check_listens();
  void check_connects();
  void check_connect(std::size_t index);
  void check_amounts(std::size_t index);
  void check_partner(std::size_t index);
  void check_partner_nics(std::size_t index);
  void check_listener(std::size_t index);
  void check_listen_mpa(std::size_t index);
  void check_mpa(Section section, std::size_t index, mpa::Role role, const mpa::StartupOptions& options);
  /// True if the hosts have RoCE, or differ: then MPA settings are not checked.
  bool check_roce_listen(std::size_t index);
  bool check_roce_connect(std::size_t index);
  void check_iwarp_qp(Section section, std::size_t index, QpKind qp, bool hosts_known);
  void check_datagrams(std::size_t connect, const ScenarioHost* from, const ScenarioHost* to);
  template <class End>
  void check_roce_end(Section section, std::size_t index, const End& end, std::span<const Key<End>> mpa_keys);
  void check_hca(std::size_t host);
  void check_xrc_listen(std::size_t listen);
  void check_xrc_connect(std::size_t connect);
  void check_exits();
  /// The listener for XRC at this port of the host; null: there is none.
  const ScenarioListen* xrc_listener(std::string_view host, std::uint16_t port) const;
  void check_groups();
  void check_member(std::size_t index);
  void check_send(std::size_t index);
  void check_group_end(Section section, std::size_t index, std::string_view key, const std::string& host,
                       const Address& group);
  void check_group_bounds();
  void check_quirk(Section section, std::size_t index, std::string_view key, const std::string& name);
  void check_faults();
  void check_fault(std::size_t index);
  void check_fault_place(std::size_t index);

  const Scenario& s_;
  const UncheckedParts unchecked_;
  const SectionOrigins& origins_;
  std::map<std::tuple<Section, std::size_t, std::string>, std::size_t> reported_;  // by origin and key: the element
  std::map<std::string, std::size_t> nodes_, links_;                               // the first one with each name
  Segments segments_;
  std::map<std::string, std::set<std::size_t>> segments_of_;  // by node
  std::optional<RouteFinder> routes_;
  std::map<std::pair<std::string_view, std::uint16_t>, std::vector<std::size_t>> connects_to_;  // by host and port
  std::map<std::string_view, std::vector<std::size_t>> listens_of_;                             // by host
  std::vector<ScenarioProblem> problems_;
};

}  // namespace parley::sim
