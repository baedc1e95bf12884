// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// From a document to a Scenario, by the lists of keys in scenario_schema.hpp.
#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/scenario/scenario_check.hpp"
#include "sim/scenario/scenario_groups.hpp"
#include "sim/scenario/scenario_schema.hpp"

namespace parley::sim {
namespace {

constexpr std::size_t errors_max = 50;

struct SectionName {
  std::string_view key;
  std::string_view shown;
  bool array;
};
constexpr std::array<SectionName, 10> section_names{{{"bounds", "[bounds]", false},
                                                     {"host", "[[host]]", true},
                                                     {"switch", "[[switch]]", true},
                                                     {"link", "[[link]]", true},
                                                     {"listen", "[[listen]]", true},
                                                     {"connect", "[[connect]]", true},
                                                     {"member", "[[member]]", true},
                                                     {"send", "[[send]]", true},
                                                     {"exit", "[[exit]]", true},
                                                     {"fault", "[[fault]]", true}}};

template <class T>
void add_names(std::vector<std::string_view>& out, std::span<const Key<T>> keys) {
  for (const Key<T>& key : keys) out.push_back(key.key);
}
template <class T>
const Key<T>* find_key(std::span<const Key<T>> keys, std::string_view name) {
  const auto found = std::find_if(keys.begin(), keys.end(), [name](const Key<T>& key) { return key.key == name; });
  return found == keys.end() ? nullptr : &*found;
}
template <class T>
bool has_key(std::span<const Key<T>> keys, std::string_view name) {
  return find_key(keys, name) != nullptr;
}

/// The current name of a key; empty if it was never renamed.
std::string_view renamed(std::string_view section, std::string_view key) {
  return section == "connect" && key == "tcp_timeout" ? "transport_timeout" : std::string_view();
}

/// The table of MPA-only keys, in one of a listen or connect.
const DocValue* mpa_table(const DocValue& table) {
  const DocEntry* entry = table.find("mpa");
  return entry == nullptr || entry->value.kind != DocValue::Kind::table ? nullptr : &entry->value;
}

/// The table in which a misplaced key belongs; empty if there is none.
std::string_view home_of(std::string_view key, std::string_view section) {
  if (section == "[listen.mpa]" && has_key(listen_keys(), key)) return "[[listen]]";
  if (section == "[connect.mpa]" && key == "tcp_timeout") return "[[connect]], as transport_timeout";
  if (has_key(link_keys(), key)) return "[[link]]";
  if (has_key(connect_keys(), key)) return "[[connect]]";
  if (has_key(connect_mpa_keys(), key)) return "[connect.mpa]";
  if (has_key(listen_keys(), key)) return "[[listen]]";
  if (has_key(listen_mpa_keys(), key)) return "[listen.mpa]";
  if (has_key(fault_keys(), key)) return "[[fault]]";
  if (has_key(bounds_keys(), key)) return "[bounds]";
  if (has_key(tcp_keys(), key)) return "tcp = {...} of a [[host]]";
  if (has_key(rnic_keys(), key)) return "rnic = {...} of a [[host]]";
  if (has_key(hca_keys(), key)) return "hca = {...} of a [[host]]";
  if (has_key(host_keys(), key)) return "[[host]]";
  if (has_key(member_keys(), key)) return "[[member]]";
  if (has_key(exit_keys(), key)) return "[[exit]]";
  return {};
}

class ScenarioReader {
 public:
  explicit ScenarioReader(std::string_view file) { scenario_.file = file; }

  tl::expected<Scenario, std::vector<ScenarioError>> read(Document& document) {
    errors_ = std::move(document.errors);
    for (const ScenarioError& error : errors_) broken_lines_.insert(error.line);
    if (document.whole) read_tables(document.root);
    std::stable_sort(errors_.begin(), errors_.end(), [](const ScenarioError& a, const ScenarioError& b) {
      return std::tie(a.line, a.column) < std::tie(b.line, b.column);
    });
    if (errors_.empty()) return std::move(scenario_);
    if (errors_.size() > errors_max) errors_.resize(errors_max);
    return tl::unexpected(std::move(errors_));
  }

 private:
  void read_tables(const DocValue& root) {
    read_keys(root, "a scenario", scenario_keys(), scenario_, section_keys());
    for (const DocEntry& entry : root.entries) read_section(root, entry);
    put_hosts_in_order();
    expand_counts();
    settle_names_and_ways();
    judge(root);
  }

  static std::vector<std::string_view> section_keys() {
    std::vector<std::string_view> out;
    for (const SectionName& section : section_names) out.push_back(section.key);
    return out;
  }

  void add_problem(int line, int column, std::string_view key, std::string text) {
    if (broken_lines_.contains(line)) return;  // already reported that this line is not TOML
    // More errors are of no use; the list is cut to errors_max after sorting.
    if (errors_.size() < 20 * errors_max)
      errors_.push_back({scenario_.file, line, column, std::string(key), std::move(text)});
  }

  void add_unknown_key(const DocValue& table, const DocEntry& entry, std::string_view section,
                       const std::vector<std::string_view>& known) {
    const std::string_view home = home_of(entry.key, section);
    const std::string_view meant = nearest(entry.key, known);
    lost_[&table].emplace(meant);
    std::string text = fmt::format("key '{}' is unknown in {}", entry.key.substr(0, 60), section);
    if (entry.key == "transport" || entry.key == "ib" || entry.key == "roce")
      text += "; write engine = \"roce\" at both hosts: the keys of RoCE belong in their hca = {...}";
    else if (!home.empty())
      text += fmt::format("; it belongs in {}", home);
    else if (!meant.empty())
      text += fmt::format("; did you mean '{}'?", meant);
    else
      text += fmt::format("; known are {}", fmt::join(known, ", "));
    add_problem(entry.line, entry.column, entry.key, std::move(text));
  }

  /// `others`: keys of the table that are read elsewhere.
  template <class T>
  void read_keys(const DocValue& table, std::string_view section, std::span<const Key<T>> keys, T& out,
                 const std::vector<std::string_view>& others = {}) {
    for (const DocEntry& entry : table.entries) {
      if (std::find(others.begin(), others.end(), entry.key) != others.end()) continue;
      const Key<T>* key = find_key(keys, entry.key);
      if (key == nullptr) {
        std::vector<std::string_view> known = others;
        add_names(known, keys);
        add_unknown_key(table, entry, section, known);
        continue;
      }
      std::string wrong = key->read(entry.value, out);
      if (wrong.empty()) continue;
      lost_[&table].emplace(entry.key);
      add_problem(entry.line, entry.column, entry.key, fmt::format("{}: {}", entry.key, wrong));
    }
  }

  void read_section(const DocValue& root, const DocEntry& entry) {
    for (const SectionName& section : section_names) {
      if (section.key != entry.key) continue;
      const DocValue& value = entry.value;
      if (!section.array) {
        if (value.kind == DocValue::Kind::table) return read_bounds(value);
        malformed_.emplace(section.key);
        return add_problem(entry.line, entry.column, entry.key,
                           fmt::format("{} is a table: write {}", entry.key, section.shown));
      }
      const bool tables = value.kind == DocValue::Kind::array &&
                          std::all_of(value.items.begin(), value.items.end(),
                                      [](const DocValue& item) { return item.kind == DocValue::Kind::table; });
      if (!tables) {
        malformed_.emplace(section.key);
        if (lost(&root, {section.key}) && mpa_table(value) != nullptr)
          return;  // the name of the parent table is
                   // misspelt
        return add_problem(
            entry.line, entry.column, entry.key,
            fmt::format("there can be several of {}: write {} with two brackets", entry.key, section.shown));
      }
      for (const DocValue& item : value.items) read_item(section, item);
      return;
    }
  }

  void read_item(const SectionName& section, const DocValue& item) {
    if (section.key == "host") read_host(item);
    if (section.key == "switch") {
      ScenarioHost& out = begin(item, scenario_.hosts, Section::host);
      out.is_switch = true;
      read_keys(item, section.shown, switch_keys(), out);
    }
    if (section.key == "link") read_keys(item, section.shown, link_keys(), begin(item, scenario_.links, Section::link));
    if (section.key == "listen")
      read_end(item, section, listen_keys(), listen_mpa_keys(), begin(item, scenario_.listens, Section::listen));
    if (section.key == "connect")
      read_end(item, section, connect_keys(), connect_mpa_keys(), begin(item, scenario_.connects, Section::connect));
    if (section.key == "member")
      read_keys(item, section.shown, member_keys(), begin(item, scenario_.members, Section::member));
    if (section.key == "send") read_keys(item, section.shown, send_keys(), begin(item, scenario_.sends, Section::send));
    if (section.key == "exit") read_keys(item, section.shown, exit_keys(), begin(item, scenario_.exits, Section::exit));
    if (section.key == "fault") read_fault(item);
  }

  template <class T>
  T& begin(const DocValue& item, std::vector<T>& list, Section section) {
    list.emplace_back();
    list.back().line = item.line;
    tables_[static_cast<std::size_t>(section)].push_back(&item);
    return list.back();
  }

  void read_bounds(const DocValue& table) {
    tables_[static_cast<std::size_t>(Section::bounds)].push_back(&table);
    read_keys(table, "[bounds]", bounds_keys(), scenario_.bounds);
  }

  void read_host(const DocValue& item) {
    ScenarioHost& out = begin(item, scenario_.hosts, Section::host);
    read_keys(item, "[[host]]", host_keys(), out, {"tcp", "rnic", "hca", "nic"});
    read_inner(item, "tcp", "tcp of a host", tcp_keys(), out);
    read_inner(item, "rnic", "rnic of a host", rnic_keys(), out);
    read_inner(item, "hca", "hca of a host", hca_keys(), out);
    read_nics(item, out);
  }

  void read_nics(const DocValue& item, ScenarioHost& out) {
    const DocEntry* entry = item.find("nic");
    if (entry == nullptr) return;
    const auto is_table = [](const DocValue& value) { return value.kind == DocValue::Kind::table; };
    if (entry->value.kind != DocValue::Kind::array ||
        !std::all_of(entry->value.items.begin(), entry->value.items.end(), is_table)) {
      lost_[&item].emplace("nic");
      return add_problem(entry->line, entry->column, "nic",
                         "there can be several of nic: write [[host.nic]] with two brackets");
    }
    for (const DocValue& nic : entry->value.items) {
      read_keys(nic, "[[host.nic]]", nic_keys(), out.options.nics.emplace_back());
      if (lost(&nic, {"name"})) lost_[&item].emplace("nic");
    }
  }

  /// One end of connections, with the table of MPA-only keys.
  template <class T>
  void read_end(const DocValue& item, const SectionName& section, std::span<const Key<T>> keys,
                std::span<const Key<T>> mpa_keys, T& out) {
    std::vector<std::string_view> others{"mpa"};
    for (const DocEntry& entry : item.entries) {  // as in earlier versions
      const std::string_view name = renamed(section.key, entry.key);
      const Key<T>* key = name.empty() ? find_key(mpa_keys, entry.key) : find_key(keys, name);
      if (key == nullptr) continue;
      add_problem(
          entry.line, entry.column, entry.key,
          fmt::format("{0}.{1} is now {0}.{2}{3}", section.key, entry.key, name.empty() ? "mpa." : "", key->key));
      (void)key->read(entry.value, out);
      lost_[&item].emplace(key->key);
      others.push_back(entry.key);
    }
    read_keys(item, section.shown, keys, out, others);
    read_inner(item, "mpa", fmt::format("[{}.mpa]", section.key), mpa_keys, out);
    if (const DocEntry* mpa = item.find("mpa")) out.mpa_line = mpa->line;
  }

  template <class T>
  void read_inner(const DocValue& item, std::string_view name, std::string_view shown, std::span<const Key<T>> keys,
                  T& out) {
    const DocEntry* entry = item.find(name);
    if (entry == nullptr) return;
    if (entry->value.kind != DocValue::Kind::table)
      return add_problem(entry->line, entry->column, name,
                         fmt::format("{} is a table: write {} = {{ {} = ... }}", name, name, keys.front().key));
    read_keys(entry->value, shown, keys, out);
  }

  void read_fault(const DocValue& item) {
    ScenarioFault& out = begin(item, scenario_.faults, Section::fault);
    read_keys(item, "[[fault]]", fault_keys(), out);
    if (item.find("action") == nullptr && !lost(&item, {"action"})) {
      add_problem(item.line, item.column, "action", "the fault has no action: add action = \"drop\" or another");
      lost_[&item].emplace("action");
    }
    const DocEntry* at = item.find("at");
    if (at != nullptr && item.find("from") != nullptr)
      add_problem(at->line, at->column, "at", "at and from are the same time: leave one out");
    else if (at != nullptr && !lost(&item, {"action"}) && !is_momentary(out))
      add_problem(at->line, at->column, "at",
                  fmt::format("{} lasts: write from (and until) in place of at", to_string(out.rule.action)));
    // `nth = 2` alone means the second and no other.
    if (item.find("nth") != nullptr && item.find("times") == nullptr) out.rule.match.times = 1;
  }

  /// [[host]] and [[switch]] may alternate; nodes are numbered in file order.
  void put_hosts_in_order() {
    auto& tables = tables_[static_cast<std::size_t>(Section::host)];
    std::vector<std::size_t> order(tables.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(tables[a]->line, tables[a]->column) < std::pair(tables[b]->line, tables[b]->column);
    });
    std::vector<ScenarioHost> hosts;
    std::vector<const DocValue*> places;
    for (const std::size_t i : order) {
      hosts.push_back(std::move(scenario_.hosts[i]));
      places.push_back(tables[i]);
    }
    scenario_.hosts = std::move(hosts);
    tables = std::move(places);
  }

  void expand_counts() {
    Expansion expansion = expand_hosts(scenario_);
    for (const ScenarioProblem& problem : expansion.problems) {
      const auto [line, column] = place_of(problem);
      add_problem(line, column, problem.key, problem.text);
      lost_[tables_[static_cast<std::size_t>(problem.section)][problem.index]].emplace(problem.key);
    }
    for (std::size_t section = 0; expansion.changed && section < tables_.size(); ++section) {
      std::vector<const DocValue*> places;
      for (const std::size_t origin : expansion.origins[section]) places.push_back(tables_[section][origin]);
      if (!places.empty()) tables_[section] = std::move(places);
    }
    origins_ = std::move(expansion.origins);
  }

  void settle_names_and_ways() {
    if (scenario_.name.empty()) {
      std::string_view stem = scenario_.file;
      if (const std::size_t slash = stem.rfind('/'); slash != std::string_view::npos) stem.remove_prefix(slash + 1);
      scenario_.name = stem.substr(0, stem.rfind(".toml"));
    }
    for (ScenarioLink& link : scenario_.links)
      if (link.name.empty()) link.name = default_link_name(link);
    std::map<std::string_view, const ScenarioLink*> links;  // the last one with each name
    for (const ScenarioLink& link : scenario_.links) links[link.name] = &link;
    for (ScenarioFault& fault : scenario_.faults) {
      const auto link = links.find(fault.link);
      if (fault.toward.empty() || link == links.end()) continue;
      fault.way = fault.toward == link->second->ends[1] ? LinkDirection::forward : LinkDirection::backward;
    }
  }

  /// Whether one of these keys of a table was unreadable or misspelt.
  bool lost(const DocValue* table, std::initializer_list<std::string_view> keys) const {
    const auto found = lost_.find(table);
    return found != lost_.end() &&
           std::any_of(keys.begin(), keys.end(), [&](std::string_view key) { return found->second.contains(key); });
  }

  /// The same for any table of a section, or for the section's own name.
  bool lost(const DocValue& root, Section section, std::initializer_list<std::string_view> names,
            std::initializer_list<std::string_view> keys) const {
    const auto& tables = tables_[static_cast<std::size_t>(section)];
    return lost(&root, names) ||
           std::any_of(names.begin(), names.end(), [&](std::string_view name) { return malformed_.contains(name); }) ||
           std::any_of(tables.begin(), tables.end(), [&](const DocValue* table) { return lost(table, keys); });
  }

  void judge(const DocValue& root) {
    const UncheckedParts unchecked{
        .hosts = lost(root, Section::host, {"host", "switch"}, {"name", "count"}),
        .counts = lost(root, Section::host, {"host"}, {"count"}),
        .links = lost(root, Section::link, {"link"}, {"name", "ends"}),
        .nics = lost(root, Section::host, {"host"}, {"nic"}),
        .engines = lost(root, Section::host, {"host"}, {"engine"}),
        .listens = lost(root, Section::listen, {"listen"}, {"host", "port", "address", "qp", "processes"})};
    const bool connects_lost = lost(root, Section::connect, {"connect"}, {}) || lost(root, Section::send, {"send"}, {});
    for (ScenarioProblem& finding : find_faults(scenario_, unchecked, origins_)) {
      if (finding.section == Section::scenario && connects_lost) continue;
      const auto& tables = tables_[static_cast<std::size_t>(finding.section)];
      if (finding.index < tables.size() &&
          (lost(tables[finding.index], {finding.key}) || lost(mpa_table(*tables[finding.index]), {finding.key})))
        continue;
      // The keys that a fault may have depend on its action.
      if (finding.section == Section::fault && lost(tables[finding.index], {"action"})) continue;
      const auto [line, column] = place_of(finding);
      add_problem(line, column, finding.key, std::move(finding.text));
    }
  }

  std::pair<int, int> place_of(const ScenarioProblem& finding) const {
    const auto& tables = tables_[static_cast<std::size_t>(finding.section)];
    if (finding.index >= tables.size()) return {1, 1};
    const DocValue& table = *tables[finding.index];
    const DocEntry* entry = table.find(finding.key);
    if (entry == nullptr && finding.key == "from") entry = table.find("at");
    if (const DocValue* mpa = mpa_table(table); entry == nullptr && mpa != nullptr) entry = mpa->find(finding.key);
    if (entry == nullptr) return {table.line, table.column};
    return {entry->line, entry->column};
  }

  Scenario scenario_;
  std::vector<ScenarioError> errors_;
  std::array<std::vector<const DocValue*>, 10> tables_;  // by Section, one for each entry of the scenario's vector
  // Keys that a table should have but that were not read: those with a wrong value, and those probably meant by a
  // misspelt one.
  std::map<const DocValue*, std::set<std::string, std::less<>>> lost_;
  std::set<std::string_view> malformed_;  // sections that are not tables
  std::set<int> broken_lines_;            // that are invalid TOML
  SectionOrigins origins_;                // of the tables that hosts with a count have multiplied
};

}  // namespace

std::string ScenarioError::to_string() const {
  std::string out = file.empty() ? std::string("scenario") : file;
  if (line > 0) out += fmt::format(":{}", line);
  if (line > 0 && column > 0) out += fmt::format(":{}", column);
  return fmt::format("{}: {}", out, text);
}

tl::expected<Scenario, std::vector<ScenarioError>> parse_scenario(std::string_view toml, std::string_view file_name) {
  Document document = read_document(toml, file_name);
  return ScenarioReader(file_name).read(document);
}

}  // namespace parley::sim
