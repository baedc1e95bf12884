// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Makes a failing scenario smaller. Lists lose halves, then quarters, down to single entries (delta debugging);
// unreferenced elements are removed; numbers are halved; options return to their defaults one key at a time, using the
// key table of the file reader. All of this repeats until nothing more can be removed.
#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "sim/scenario/scenario_schema.hpp"

namespace parley::sim {
namespace {

class Shrinker {
 public:
  Shrinker(const Scenario& failing, const std::function<bool(const Scenario&)>& fails, std::uint32_t tries_max,
           const std::function<void(const ShrinkStep&)>& progress)
      : best_(failing), fails_(fails), tries_max_(tries_max), progress_(progress) {}

  Scenario run() {
    bool smaller = true;
    while (smaller && tries_ < tries_max_) {
      smaller = false;
      smaller |= thin_out(&Scenario::faults, "fault");
      smaller |= thin_out(&Scenario::connects, "connect");
      smaller |= thin_out(&Scenario::sends, "send");
      smaller |= thin_out(&Scenario::members, "member");
      smaller |= thin_out(&Scenario::exits, "exit");
      smaller |= thin_out(&Scenario::listens, "listen");
      smaller |= drop_unused();
      smaller |= lower_numbers();
      smaller |= reset_keys();
      smaller |= mend_faults();
      smaller |= round_times();
    }
    return std::move(best_);
  }

 private:
  /// Accepts the candidate if it is a valid scenario and still fails.
  bool take(Scenario&& candidate, const std::string& what) {
    if (tries_ >= tries_max_ || !check_scenario(candidate).empty()) return false;
    ++tries_;
    if (!fails_(candidate)) return false;
    best_ = std::move(candidate);
    if (progress_) progress_({tries_, what});
    return true;
  }

  template <class T>
  bool thin_out(std::vector<T> Scenario::*list, std::string_view name) {
    bool any = false;
    for (std::size_t size = std::max<std::size_t>((best_.*list).size(), 1); size > 0; size /= 2) {
      // From the back, so that the remaining elements keep their numbers for as long as possible.
      std::size_t end = (best_.*list).size();
      while (end > 0) {
        const std::size_t begin = end > size ? end - size : 0;
        Scenario candidate = best_;
        auto& items = candidate.*list;
        items.erase(items.begin() + static_cast<std::ptrdiff_t>(begin),
                    items.begin() + static_cast<std::ptrdiff_t>(end));
        const std::string what = end - begin == 1 ? fmt::format("{} {} removed", name, end)
                                                  : fmt::format("{}s {} to {} removed", name, begin + 1, end);
        any |= take(std::move(candidate), what);
        end = begin;
      }
    }
    return any;
  }

  static std::string name_of(const ScenarioLink& link) {
    return link.name.empty() ? default_link_name(link) : link.name;
  }

  // ---- what nothing refers to -------------------------------------------------------------------------------------

  static bool is_used(const Scenario& s, const std::string& host) {
    return std::any_of(s.connects.begin(), s.connects.end(),
                       [&](const ScenarioConnect& c) { return c.from == host || c.to == host; }) ||
           std::any_of(s.listens.begin(), s.listens.end(), [&](const ScenarioListen& l) { return l.host == host; }) ||
           std::any_of(s.members.begin(), s.members.end(), [&](const ScenarioMember& m) { return m.host == host; }) ||
           std::any_of(s.sends.begin(), s.sends.end(), [&](const ScenarioSend& send) { return send.from == host; }) ||
           std::any_of(s.faults.begin(), s.faults.end(), [&](const ScenarioFault& f) { return f.host == host; });
  }

  static Scenario without_host(const Scenario& s, std::size_t index) {
    Scenario out = s;
    const std::string name = out.hosts[index].name;
    out.hosts.erase(out.hosts.begin() + static_cast<std::ptrdiff_t>(index));
    std::set<std::string> cut;
    std::erase_if(out.links, [&](const ScenarioLink& link) {
      const bool gone = link.ends[0] == name || link.ends[1] == name;
      if (gone) cut.insert(name_of(link));
      return gone;
    });
    std::erase_if(out.faults, [&](const ScenarioFault& fault) { return cut.count(fault.link) != 0; });
    return out;
  }

  static Scenario without_link(const Scenario& s, std::size_t index) {
    Scenario out = s;
    const ScenarioLink& link = s.links[index];
    const std::string name = name_of(link);
    out.links.erase(out.links.begin() + static_cast<std::ptrdiff_t>(index));
    std::erase_if(out.faults, [&](const ScenarioFault& fault) { return fault.link == name; });
    return out;
  }

  /// Replaces two links and the switch between them by one link, with the options and the name of one and the faults of
  /// both.
  static Scenario without_switch(const Scenario& s, std::size_t index, bool second) {
    const std::string name = s.hosts[index].name;
    std::vector<std::size_t> around;
    for (std::size_t i = 0; i < s.links.size(); ++i)
      if (s.links[i].ends[0] == name || s.links[i].ends[1] == name) around.push_back(i);
    if (around.size() != 2) return s;
    if (second) std::swap(around[0], around[1]);
    Scenario out = s;
    out.hosts.erase(out.hosts.begin() + static_cast<std::ptrdiff_t>(index));
    out.links.erase(out.links.begin() + static_cast<std::ptrdiff_t>(around[1]));
    ScenarioLink& kept = out.links[around[0] - (around[1] < around[0] ? 1 : 0)];
    const ScenarioLink& gone = s.links[around[1]];
    kept.name = name_of(kept);
    const std::string near = kept.ends[0] == name ? kept.ends[1] : kept.ends[0];
    const std::string far = gone.ends[0] == name ? gone.ends[1] : gone.ends[0];
    for (std::size_t end = 0; end < 2; ++end) {
      if (kept.ends[end] != name) continue;
      kept.ends[end] = far;
      kept.nics[end] = gone.nics[gone.ends[0] == name ? 1 : 0];
    }
    for (ScenarioFault& fault : out.faults) {
      const bool of_gone = fault.link == name_of(gone);
      if (fault.link != kept.name && !of_gone) continue;
      fault.link = kept.name;
      if (fault.way == LinkDirection::both) continue;
      if (fault.toward == name) fault.toward = of_gone ? near : far;
      fault.way = fault.toward == kept.ends[1] ? LinkDirection::forward : LinkDirection::backward;
    }
    return out;
  }

  bool drop_unused() {
    bool any = false;
    for (std::size_t i = best_.hosts.size(); i-- > 0;) {
      const std::string name = best_.hosts[i].name;
      if (is_used(best_, name)) continue;
      const bool is_switch = best_.hosts[i].is_switch;
      const std::string what = fmt::format("{} {} removed", is_switch ? "switch" : "host", name);
      if (take(without_host(best_, i), what)) {
        any = true;
        continue;
      }
      if (!is_switch) continue;
      for (const bool second : {false, true}) {
        Scenario joined = without_switch(best_, i, second);
        if (joined.hosts.size() == best_.hosts.size() || !take(std::move(joined), what)) continue;
        any = true;
        break;
      }
    }
    for (std::size_t i = best_.links.size(); i-- > 0;) {
      const std::string name = name_of(best_.links[i]);
      any |= take(without_link(best_, i), fmt::format("link {} removed", name));
    }
    return any;
  }

  // ---- numbers ----------------------------------------------------------------------------------------------------

  /// Tries the least value, then smaller and smaller steps towards it.
  template <class T, class N>
  bool lower(std::vector<T> Scenario::*list, std::size_t index, N T::*member, std::uint64_t least,
             std::string_view what) {
    bool any = false;
    const auto attempt = [&](std::uint64_t value) {
      Scenario candidate = best_;
      (candidate.*list)[index].*member = static_cast<N>(value);
      const bool taken = take(std::move(candidate), fmt::format("{} lowered to {}", what, value));
      any |= taken;
      return taken;
    };
    const auto now = [&] { return static_cast<std::uint64_t>((best_.*list)[index].*member); };
    if (now() <= least || attempt(least)) return any;
    while (now() / 2 > least && attempt(now() / 2)) {
    }
    for (std::uint64_t step = now() / 4; step > 0; step /= 2)
      while (now() > least + step && attempt(now() - step)) {
      }
    return any;
  }

  bool lower_numbers() {
    bool any = false;
    for (std::size_t i = 0; i < best_.connects.size(); ++i) {
      const std::string where = fmt::format("connect {}: ", i + 1);
      any |= lower(&Scenario::connects, i, &ScenarioConnect::count, 1, where + "count");
      any |= lower(&Scenario::connects, i, &ScenarioConnect::messages, 0, where + "messages");
      any |= lower(&Scenario::connects, i, &ScenarioConnect::octets, 0, where + "octets");
      any |= lower(&Scenario::connects, i, &ScenarioConnect::retries, 0, where + "retries");
    }
    for (std::size_t i = 0; i < best_.sends.size(); ++i) {
      const std::string where = fmt::format("send {}: ", i + 1);
      any |= lower(&Scenario::sends, i, &ScenarioSend::messages, 0, where + "messages");
      any |= lower(&Scenario::sends, i, &ScenarioSend::octets, ScenarioSend::octets_min, where + "octets");
    }
    return any;
  }

  // ---- options ----------------------------------------------------------------------------------------------------

  /// Resets each key that is not at its default. `kept`: keys that are required, or that state an expectation; those
  /// are not options.
  template <class T>
  bool reset_list(std::vector<T> Scenario::*list, std::span<const Key<T>> keys, std::string_view name,
                  const std::set<std::string_view>& kept) {
    bool any = false;
    for (std::size_t i = 0; i < (best_.*list).size(); ++i) {
      for (const Key<T>& key : keys) {
        if (kept.count(key.key) != 0 || key.reset == nullptr || key.write((best_.*list)[i]).empty()) continue;
        Scenario candidate = best_;
        key.reset((candidate.*list)[i]);
        any |= take(std::move(candidate), fmt::format("{} {}: {} back to its default", name, i + 1, key.key));
      }
    }
    return any;
  }

  /// The two sides of a set-up must match: resetting only one could make it fail for another reason.
  bool reset_mpa() {
    Scenario candidate = best_;
    for (ScenarioListen& listen : candidate.listens) listen.mpa = {};
    for (ScenarioConnect& connect : candidate.connects) connect.mpa = {};
    if (to_toml(candidate) == to_toml(best_)) return false;
    return take(std::move(candidate), "all MPA options back to their defaults");
  }

  bool reset_keys() {
    bool any = reset_mpa();
    any |= reset_list(&Scenario::hosts, host_keys(), "host", {"name", "engine"});
    any |= reset_list(&Scenario::hosts, tcp_keys(), "host", {});
    any |= reset_list(&Scenario::hosts, rnic_keys(), "host", {});
    any |= reset_list(&Scenario::hosts, hca_keys(), "host", {"mtu"});
    any |= reset_list(&Scenario::hosts, switch_keys(), "switch", {"name"});
    any |= reset_list(&Scenario::links, link_keys(), "link", {"name", "ends"});
    any |= reset_list(&Scenario::listens, listen_keys(), "listen", {"host", "port", "address", "reject"});
    any |= reset_list(&Scenario::listens, listen_mpa_keys(), "listen", {});
    any |= reset_list(&Scenario::connects, connect_keys(), "connect",
                      {"from", "to", "port", "address", "expect", "count", "messages", "octets", "retries"});
    any |= reset_list(&Scenario::connects, connect_mpa_keys(), "connect", {});
    any |= reset_list(&Scenario::members, member_keys(), "member", {"host", "group", "expect"});
    any |= reset_list(&Scenario::sends, send_keys(), "send", {"from", "group", "messages", "octets"});
    any |= reset_list(&Scenario::exits, exit_keys(), "exit", {"host", "port", "process"});
    any |= reset_list(&Scenario::faults, fault_keys(), "fault",
                      {"link", "to", "host", "match", "fpdu", "psn", "connection", "chance", "mask", "until", "count",
                       "octets", "field", "value", "rate", "delay"});
    for (const Key<ScenarioBounds>& key : bounds_keys()) {
      if (key.write(best_.bounds).empty() || key.key == "fence") continue;
      Scenario candidate = best_;
      key.reset(candidate.bounds);
      any |= take(std::move(candidate), fmt::format("bounds: {} back to its default", key.key));
    }
    return any;
  }

  // ---- faults -----------------------------------------------------------------------------------------------------

  bool mend_faults() {
    bool any = false;
    for (std::size_t i = 0; i < best_.faults.size(); ++i) {
      const std::string where = fmt::format("fault {}: ", i + 1);
      any |= lower_fault_numbers(i);
      if (best_.faults[i].way == LinkDirection::both && !best_.faults[i].link.empty()) any |= one_way(i, where);
      if (best_.faults[i].rule.mask) any |= thin_mask(i, where);
      // Only for a fault with a limit: a permanent loss with probability 1 would fail for another reason.
      if (best_.faults[i].rule.chance != Ratio{1, 1} && best_.faults[i].rule.match.times != 0) {
        Scenario candidate = best_;
        candidate.faults[i].rule.chance = {1, 1};
        any |= take(std::move(candidate), where + "chance became certain");
      }
    }
    return any;
  }

  bool lower_fault_numbers(std::size_t i) {
    bool any = false;
    const std::string where = fmt::format("fault {}: ", i + 1);
    const auto attempt = [&](auto change, std::string_view what) {
      Scenario candidate = best_;
      change(candidate.faults[i].rule);
      return take(std::move(candidate), where + std::string(what));
    };
    const FaultRule& rule = best_.faults[i].rule;
    if (rule.action == FaultAction::duplicate || rule.action == FaultAction::corrupt)
      if (rule.count > 1) any |= attempt([](FaultRule& r) { r.count = 1; }, "count lowered to 1");
    while (best_.faults[i].rule.match.times > 1 && attempt([](FaultRule& r) { --r.match.times; }, "one time less"))
      any = true;
    while (best_.faults[i].rule.match.nth > 1 && attempt([](FaultRule& r) { --r.match.nth; }, "an earlier frame"))
      any = true;
    if (best_.faults[i].rule.match.times == 0 && !is_momentary(best_.faults[i]) && !best_.faults[i].rule.mask)
      any |= attempt([](FaultRule& r) { r.match.times = 1; }, "hits once only");
    return any;
  }

  bool one_way(std::size_t i, const std::string& where) {
    for (const LinkDirection way : {LinkDirection::forward, LinkDirection::backward}) {
      Scenario candidate = best_;
      ScenarioFault& fault = candidate.faults[i];
      fault.way = way;
      for (const ScenarioLink& link : candidate.links)
        if (name_of(link) == fault.link) fault.toward = link.ends[way == LinkDirection::forward ? 1 : 0];
      if (take(std::move(candidate), where + "one way only")) return true;
    }
    return false;
  }

  /// Bit by bit, from the last.
  bool thin_mask(std::size_t i, const std::string& where) {
    bool any = false;
    for (unsigned bit = 64; bit-- > 0;) {
      const std::uint64_t mask = *best_.faults[i].rule.mask;
      if ((mask >> bit & 1) == 0 || mask == (std::uint64_t{1} << bit)) continue;
      Scenario candidate = best_;
      candidate.faults[i].rule.mask = mask & ~(std::uint64_t{1} << bit);
      any |= take(std::move(candidate), fmt::format("{}bit {} of the mask cleared", where, bit));
    }
    return any;
  }

  // ---- rounder times ----------------------------------------------------------------------------------------------

  static Duration rounder(Duration time) {
    std::int64_t unit = 1;
    while (time.count() / unit >= 10) unit *= 10;
    return Duration((time.count() + unit / 2) / unit * unit);
  }

  template <class Get>
  bool round(Get get, const std::string& what) {
    const Duration before = get(best_);
    const Duration after = rounder(before);
    if (after == before) return false;
    Scenario candidate = best_;
    get(candidate) = after;
    return take(std::move(candidate), what + " rounded");
  }
  /// The same for a point in time.
  template <class Get>
  bool round_moment(Get get, const std::string& what) {
    const Instant before = get(best_);
    if (before == never) return false;
    const Instant after = Instant(rounder(before.time_since_epoch()));
    if (after == before) return false;
    Scenario candidate = best_;
    get(candidate) = after;
    return take(std::move(candidate), what + " rounded");
  }

  bool round_times() {
    bool any = false;
    for (std::size_t i = 0; i < best_.links.size(); ++i)
      any |= round(
          [i](auto& s) -> auto& { return s.links[i].options.delay; }, fmt::format("link {}: delay", i + 1));
    for (std::size_t i = 0; i < best_.listens.size(); ++i)
      any |= round(
          [i](auto& s) -> auto& { return s.listens[i].accept_after; }, fmt::format("listen {}: accept_after", i + 1));
    for (std::size_t i = 0; i < best_.connects.size(); ++i) {
      any |= round(
          [i](auto& s) -> auto& { return s.connects[i].interval; }, fmt::format("connect {}: interval", i + 1));
      any |= round(
          [i](auto& s) -> auto& { return s.connects[i].close_after; }, fmt::format("connect {}: close_after", i + 1));
      any |= round_moment(
          [i](auto& s) -> auto& { return s.connects[i].at; }, fmt::format("connect {}: at", i + 1));
    }
    for (std::size_t i = 0; i < best_.faults.size(); ++i) {
      const std::string where = fmt::format("fault {}: ", i + 1);
      any |= round_moment(
          [i](auto& s) -> auto& { return s.faults[i].rule.from; }, where + "from");
      any |= round_moment(
          [i](auto& s) -> auto& { return s.faults[i].rule.until; }, where + "until");
      any |= round(
          [i](auto& s) -> auto& { return s.faults[i].rule.delay; }, where + "delay");
      any |= round(
          [i](auto& s) -> auto& { return s.faults[i].rule.jitter; }, where + "jitter");
    }
    return any;
  }

  Scenario best_;
  const std::function<bool(const Scenario&)>& fails_;
  const std::uint32_t tries_max_;
  const std::function<void(const ShrinkStep&)>& progress_;
  std::uint32_t tries_ = 0;
};

}  // namespace

Scenario shrink(const Scenario& failing, const std::function<bool(const Scenario&)>& fails, std::uint32_t tries_max,
                const std::function<void(const ShrinkStep&)>& progress) {
  return Shrinker(failing, fails, tries_max, progress).run();
}

}  // namespace parley::sim
