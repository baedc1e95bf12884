// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/subnet/fault.hpp"

#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "sim/scenario/scenario_value.hpp"
#include "wire/mad/rpc.hpp"

namespace parley::sim::subnet {

namespace {

using Text = std::string_view;

tl::unexpected<std::string> misread(std::string text) { return tl::unexpected(std::move(text)); }
std::string shown(Text word) { return printable(word, false); }

Text parse_word(Text& text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  const Text word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  while (text.starts_with(' ')) text.remove_prefix(1);
  return word;
}

/// "3rd"
std::optional<std::uint32_t> ordinal_number(Text word) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const Text rest = word.substr(static_cast<std::size_t>(end - word.data()));
  if (error != std::errc() || value == 0) return std::nullopt;
  if (rest != "st" && rest != "nd" && rest != "rd" && rest != "th") return std::nullopt;
  return value;
}

Said<void> parse_attribute(Text text, FaultMatch& match) {
  if (text == "*") return {};
  if (const wire::mad::Layout* const layout = wire::mad::find_layout(text);
      layout != nullptr && layout->attribute != 0) {
    match.attribute = layout->attribute;
    return {};
  }
  std::uint16_t value = 0;
  if (text.starts_with("0x")) {
    const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
    if (error == std::errc() && end == text.data() + text.size()) {
      match.attribute = value;
      return {};
    }
  }
  return misread(fmt::format("'{}' is not an attribute", shown(text)));
}

/// "SubnGetResp(PortInfo)", "SubnGet(*)", "*"
Said<void> parse_title(Text text, FaultMatch& match) {
  if (text == "*") return {};
  const std::size_t open = text.find('(');
  if (open == text.npos || !text.ends_with(')'))
    return misread(fmt::format("'{}' is not a MAD: write SubnGet(NodeInfo), SubnGet(*) or *", shown(text)));
  const Text name = text.substr(0, open);
  std::size_t longest = 0;
  for (const wire::mad::ClassFacts& facts : wire::mad::class_rows) {
    if (!name.starts_with(facts.prefix) || facts.prefix.size() < longest ||
        facts.mgmt_class == wire::mad::MgmtClass::subn_directed)
      continue;
    for (const wire::mad::Name& method : wire::mad::facts_of(wire::mad::Kind::method).names) {
      if (name.substr(facts.prefix.size()) != method.text) continue;
      longest = facts.prefix.size();
      match.mgmt_class = static_cast<std::uint8_t>(facts.mgmt_class);
      match.method = static_cast<std::uint8_t>(method.value);
    }
  }
  if (!match.method) return misread(fmt::format("'{}' is not a method of a class", shown(name)));
  return parse_attribute(text.substr(open + 1, text.size() - open - 2), match);
}

/// "3rd", "every 10th", "5% of"
Said<void> parse_count(Text& text, FaultMatch& match) {
  Text rest = text;
  Text word = parse_word(rest);
  if (word == "every") {
    const auto nth = ordinal_number(parse_word(rest));
    if (!nth) return misread("'every' must be followed by a number like '10th'");
    match.nth = *nth;
    match.repeated = true;
    text = rest;
  } else if (const auto nth = ordinal_number(word)) {
    match.nth = *nth;
    text = rest;
  } else if (word.ends_with('%')) {
    const auto chance = parse_percentage(word);
    if (!chance) return misread(chance.error());
    match.chance = *chance;
    if (parse_word(rest) != "of") return misread(fmt::format("'{}' must be followed by 'of'", shown(word)));
    text = rest;
  }
  return {};
}

Said<std::uint32_t> node_named(Text name, const State& state) {
  if (const auto node = state.find_node(name)) return *node;
  return misread(fmt::format("there is no node '{}'", shown(name)));
}

/// "S0007:3"
Said<std::uint32_t> port_named(Text text, const State& state) {
  const std::size_t colon = text.rfind(':');
  std::uint32_t number = 0;
  if (colon == text.npos ||
      std::from_chars(text.data() + colon + 1, text.data() + text.size(), number).ec != std::errc())
    return misread(fmt::format("'{}' is not a port: write NODE:PORT", shown(text)));
  const auto node = node_named(text.substr(0, colon), state);
  if (!node) return node;
  const std::uint32_t port = state.port_of(*node, number);
  if (port == nowhere || state.port(port).peer == nowhere)
    return misread(fmt::format("port {} has no link", shown(text)));
  return port;
}

/// Actions on a port, independent of traffic.
constexpr std::pair<Text, FaultAction> port_operations[] = {{"down", FaultAction::down},
                                                            {"up", FaultAction::up},
                                                            {"integrity", FaultAction::integrity},
                                                            {"overrun", FaultAction::overrun},
                                                            {"watchdog", FaultAction::watchdog}};
const FaultAction* port_operation(Text word) {
  for (const auto& [name, action] : port_operations)
    if (name == word) return &action;
  return nullptr;
}

Said<void> parse_operation(Text word, Text& text, const State& state, FaultRule& rule) {
  const Text name = parse_word(text);
  if (word == "reset") {
    const auto node = node_named(name, state);
    if (!node) return misread(node.error());
    rule.action = FaultAction::reset;
    rule.match.node = *node;
  } else if (const FaultAction* const action = port_operation(word)) {
    const auto port = port_named(name, state);
    if (!port) return misread(port.error());
    rule.action = *action;
    rule.port = *port;
  } else {
    return misread(fmt::format("'{}' is not one of reset, down, up, integrity, overrun, watchdog", shown(word)));
  }
  return {};
}

/// Faults that only apply to agents' answers, or that no trap of the subnet itself can have: otherwise the rule would
/// count hits without effect.
Said<void> check_meant(const FaultRule& rule) {
  using wire::mad::MgmtClass, wire::mad::Method;
  if (!rule.match.method) return {};
  const auto method = static_cast<Method>(*rule.match.method);
  const auto mgmt_class = static_cast<MgmtClass>(*rule.match.mgmt_class);
  const bool by_agent = mgmt_class == MgmtClass::subn || mgmt_class == MgmtClass::perf;
  if (rule.action == FaultAction::busy && !(by_agent && (method == Method::get || method == Method::set)))
    return misread("only SubnGet, SubnSet, PerformanceGet and PerformanceSet can be answered BUSY");
  if (rule.action == FaultAction::reset && mgmt_class == MgmtClass::subn && method == Method::trap)
    return misread("a trap cannot reset a node");
  return {};
}

/// Whether a MAD's class is that of a rule, or in the range that begins with it.
bool is_of(std::uint8_t mgmt_class, wire::mad::MgmtClass rule) {
  const wire::mad::ClassFacts* facts = wire::mad::facts_of_class(mgmt_class);
  return facts != nullptr && wire::mad::same_rpcs(facts->mgmt_class) == wire::mad::same_rpcs(rule);
}

/// Whether the text begins like the MADs of a rule, and not with the name of a node.
bool names_mads(Text text) {
  const Text word = parse_word(text);
  return word == "*" || word == "every" || word.ends_with('%') || word.find('(') != word.npos || ordinal_number(word);
}

/// "of S0007", or nothing.
Said<void> parse_node(Text& text, const State& state, FaultRule& rule) {
  if (text.empty()) return {};
  if (parse_word(text) != "of") return misread("only 'of' and a node may follow the MAD");
  const auto node = node_named(parse_word(text), state);
  if (!node) return misread(node.error());
  rule.match.node = *node;
  return {};
}

/// "8 20us of S0007"
Said<void> parse_vl15(Text& text, const State& state, FaultRule& rule) {
  constexpr std::uint32_t buffers_max = 4096;
  rule.action = FaultAction::vl15;
  const Text count = parse_word(text);
  const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), rule.buffers);
  if (error != std::errc() || end != count.data() + count.size() || rule.buffers == 0 || rule.buffers > buffers_max)
    return misread(fmt::format("'{}' is not a number of buffers from 1 to {}", shown(count), buffers_max));
  const auto each = parse_span(parse_word(text));
  if (!each) return misread(each.error());
  if (*each == Duration::zero() || *each > std::chrono::seconds(1))
    return misread("the time per SMP must be above 0 and at most 1 s");
  rule.delay = *each;
  return parse_node(text, state, rule);
}

Said<void> parse_matched(Text word, Text& text, const State& state, FaultRule& rule) {
  constexpr std::pair<Text, FaultAction> actions[] = {{"lose", FaultAction::lose},
                                                      {"delay", FaultAction::delay},
                                                      {"duplicate", FaultAction::duplicate},
                                                      {"busy", FaultAction::busy},
                                                      {"reset", FaultAction::reset}};
  const auto* const action =
      std::find_if(std::begin(actions), std::end(actions), [&](const auto& row) { return row.first == word; });
  if (action == std::end(actions))
    return misread(fmt::format("'{}' is not one of lose, delay, duplicate, busy, reset, vl15, at", shown(word)));
  rule.action = action->second;
  if (rule.action == FaultAction::delay) {
    const auto span = parse_span(parse_word(text));
    if (!span) return misread(span.error());
    if (*span > fault_delay_max) return misread("a delay is at most 60 s");
    rule.delay = *span;
  }
  if (auto counted = parse_count(text, rule.match); !counted) return counted;
  if (auto title = parse_title(parse_word(text), rule.match); !title) return title;
  if (auto meant = check_meant(rule); !meant) return meant;
  return parse_node(text, state, rule);
}

}  // namespace

Said<Ratio> parse_percentage(Text text) {
  const auto ratio = parse_ratio(text);
  if (!ratio || (ratio->of != 0 && !text.ends_with('%')))
    return misread(fmt::format("'{}' is not a percentage: write 1%", shown(text)));
  return *ratio;
}

Said<Duration> parse_span(Text text) {
  constexpr Duration limit = std::chrono::seconds(1'000'000);
  const auto time = parse_time(text);
  if (!time || *time >= limit) return misread(fmt::format("'{}' is not a time: write 20ms or 1.5s", shown(text)));
  return *time;
}

Said<FaultRule> parse_fault(Text text, const State& state) {
  FaultRule rule;
  rule.text = shown(text);
  const Text word = parse_word(text);
  Said<void> done;
  if (word == "at") {
    const auto at = parse_span(parse_word(text));
    if (!at) return misread(at.error());
    rule.at = *at;
    done = parse_operation(parse_word(text), text, state, rule);
  } else if (port_operation(word) != nullptr || (word == "reset" && !names_mads(text))) {
    rule.at = Duration::zero();
    done = parse_operation(word, text, state, rule);
  } else if (word == "vl15") {
    done = parse_vl15(text, state, rule);
  } else {
    done = parse_matched(word, text, state, rule);
  }
  if (!done) return misread(done.error());
  if (!text.empty()) return misread(fmt::format("'{}' is not expected here", shown(text)));
  return rule;
}

bool Faults::hits(FaultRule& rule, ConstBytes mad, std::uint32_t node) {
  const FaultMatch& match = rule.match;
  if (rule.at || rule.action == FaultAction::vl15) return false;
  if (match.node != nowhere && match.node != node) return false;
  if (match.mgmt_class && !is_of(mad[1], static_cast<wire::mad::MgmtClass>(*match.mgmt_class))) return false;
  if (match.method && *match.method != mad[3]) return false;
  if (match.attribute && *match.attribute != read_bits(mad, 128, 16)) return false;
  ++rule.seen;
  if (match.nth == 0) return rng_.chance(match.chance);
  return match.repeated ? rule.seen % match.nth == 0 : rule.seen == match.nth;
}

FaultRule* Faults::vl15_of(std::uint32_t node) {
  FaultRule* of_all = nullptr;
  for (FaultRule& rule : rules_) {
    if (rule.action != FaultAction::vl15) continue;
    if (rule.match.node == node) return &rule;
    if (rule.match.node == nowhere && of_all == nullptr) of_all = &rule;
  }
  return of_all;
}

FaultDecision Faults::judge(ConstBytes mad, std::uint32_t node) {
  FaultDecision out{.lost = rng_.chance(loss_), .delay = delay_};
  for (FaultRule& rule : rules_) {
    if (!hits(rule, mad, node)) continue;
    ++rule.hits;
    switch (rule.action) {
      case FaultAction::lose: out.lost = true; break;
      case FaultAction::delay: out.delay += rule.delay; break;
      case FaultAction::duplicate: out.twice = true; break;
      case FaultAction::busy: out.busy = true; break;
      case FaultAction::reset: out.reset = rule.match.node == nowhere ? node : rule.match.node; break;
      default: break;
    }
  }
  return out;
}

}  // namespace parley::sim::subnet
