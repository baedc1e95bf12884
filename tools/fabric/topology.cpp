// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/fabric/topology.hpp"

#include <charconv>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "tools/read_whole.hpp"

namespace parley::tools {

namespace {

constexpr std::size_t file_max = 256 << 20;

/// "2,36,36,18": `least` to `most` numbers. Nothing if the text has another form.
std::optional<std::vector<unsigned>> numbers(std::string_view text, char between, std::size_t least, std::size_t most) {
  std::vector<unsigned> out;
  for (;;) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value > 65535) return std::nullopt;
    out.push_back(value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) break;
    if (text.front() != between || out.size() == most) return std::nullopt;
    text.remove_prefix(1);
  }
  if (out.size() < least) return std::nullopt;
  return out;
}

tl::unexpected<CommandError> not_a_shape(const std::string& option, const std::string& text, const char* form) {
  return command_error(Exit::usage, fmt::format("{}: '{}' is not {}", option, printable(text, false), form));
}

Or<sim::subnet::Plan> made(const std::string& option, sim::subnet::Planned<sim::subnet::Plan> plan) {
  if (!plan) return command_error(Exit::usage, fmt::format("{}: {}", option, plan.error().text));
  return std::move(*plan);
}

Or<sim::subnet::Plan> load_file(const std::string& name) {
  const std::string shown = printable(name, false);
  const auto text = read_whole(name, file_max);
  if (!text) return tl::unexpected(text.error());
  auto plan = sim::subnet::read_plan(*text);
  if (plan) return std::move(*plan);
  const sim::subnet::PlanError& wrong = plan.error();
  return command_error(Exit::environment, wrong.line == 0 ? fmt::format("{}: {}", shown, wrong.text)
                                                          : fmt::format("{}:{}: {}", shown, wrong.line, wrong.text));
}

Or<sim::subnet::Plan> make_torus(const std::string& option, const std::string& text) {
  constexpr const char* form = "SIZExSIZE...,HOSTS[,TRUNK]";
  const std::size_t comma = text.find(',');
  const auto sizes = numbers(std::string_view(text).substr(0, comma), 'x', 1, 4);
  const auto rest = comma == text.npos ? std::nullopt : numbers(std::string_view(text).substr(comma + 1), ',', 1, 2);
  if (!sizes || !rest) return not_a_shape(option, text, form);
  return made(option, make_plan(sim::subnet::Torus{*sizes, rest->front(), rest->size() > 1 ? rest->back() : 1U}));
}

}  // namespace

void add_topology_options(Command sub, TopologyArgs& args) {
  sub.option("file", args.file, "The subnet: ibsim's net format, or what ibnetdiscover printed").type("FILE");
  sub.option("--fat-tree", args.fat_tree, "2 or 3 levels of switches with RADIX ports, PODS, HOSTS at each leaf")
      .type("LEVELS,RADIX,PODS,HOSTS[,TRUNK]");
  sub.option("--torus", args.torus, "1 to 4 dimensions, HOSTS at each switch").type("SIZExSIZE...,HOSTS[,TRUNK]");
  sub.option("--dragonfly", args.dragonfly, "Groups of ROUTERS, each with GLOBALS links to other groups and HOSTS")
      .type("ROUTERS,GLOBALS,HOSTS[,GROUPS]");
}

TopologyArgs topology_in(const std::string& option, const std::string& word) {
  TopologyArgs out;
  out.spelt = option + " ";
  const std::pair<std::string_view, std::string*> shapes[] = {
      {"fat-tree:", &out.fat_tree}, {"torus:", &out.torus}, {"dragonfly:", &out.dragonfly}};
  for (const auto& [prefix, shape] : shapes)
    if (word.starts_with(prefix)) return *shape = word.substr(prefix.size()), out;
  out.file = word;
  return out;
}

Or<sim::subnet::Plan> load_topology(const TopologyArgs& args) {
  if (!args.file.empty()) return load_file(args.file);
  if (!args.torus.empty()) return make_torus(args.spelt + "torus", args.torus);
  if (!args.fat_tree.empty()) {
    const auto n = numbers(args.fat_tree, ',', 4, 5);
    if (!n) return not_a_shape(args.spelt + "fat-tree", args.fat_tree, "LEVELS,RADIX,PODS,HOSTS[,TRUNK]");
    return made(args.spelt + "fat-tree",
                make_plan(sim::subnet::FatTree{(*n)[0], (*n)[1], (*n)[2], (*n)[3], n->size() > 4 ? (*n)[4] : 1U}));
  }
  const auto n = numbers(args.dragonfly, ',', 3, 4);
  if (!n) return not_a_shape(args.spelt + "dragonfly", args.dragonfly, "ROUTERS,GLOBALS,HOSTS[,GROUPS]");
  return made(args.spelt + "dragonfly",
              make_plan(sim::subnet::Dragonfly{(*n)[0], (*n)[1], (*n)[2], n->size() > 3 ? (*n)[3] : 0U}));
}

}  // namespace parley::tools
