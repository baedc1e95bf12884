// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/mad/pairs.hpp"

#include <fstream>
#include <iostream>

#include <fmt/format.h>

#include "base/rng.hpp"
#include "mad/path_text.hpp"
#include "wire/mad/print.hpp"

namespace parley::tools {

namespace {

using wire::mad::PathRecord;

std::string too_many() { return fmt::format("more than {} pairs", pairs_max); }

std::string parse_end(std::string_view text, PairEnd& out) {
  const auto path = mad::parse_path(text);
  if (!path) return path.error();
  if (path->path.route || (path->gid && !path->device.empty()))
    return fmt::format("'{}' is not a LID, GID or GUID", text);
  out.gid = path->gid;
  if (!out.gid) out.lid = path->path.address.lid;
  return {};
}

/// "FROM,TO": neither LIDs nor GIDs have commas.
std::string parse_pair(std::string_view text, std::vector<Pair>& pairs) {
  const std::size_t comma = text.find_first_of(", \t");
  if (comma == std::string_view::npos)
    return fmt::format("'{}' is not a pair FROM,TO, each a LID, or a port's GID or GUID", text);
  const std::size_t next = text.find_first_not_of(", \t", comma);
  Pair pair;
  std::string wrong = parse_end(text.substr(0, comma), pair.from);
  if (wrong.empty())
    wrong = parse_end(next == std::string_view::npos ? std::string_view() : text.substr(next), pair.to);
  if (!wrong.empty()) return wrong;
  if (pairs.size() >= pairs_max) return too_many();
  pairs.push_back(pair);
  return {};
}

std::string parse_lines(std::istream& in, std::vector<Pair>& pairs) {
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    const std::size_t end = line.find_last_not_of(" \t\r");
    if (std::string wrong = parse_pair(std::string_view(line).substr(begin, end - begin + 1), pairs); !wrong.empty())
      return fmt::format("line {}: {}", number, wrong);
  }
  if (in.bad()) return fmt::format("line {}: cannot be read", number + 1);
  return {};
}

/// LIDs of all linked ports of channel adapters.
std::vector<std::uint16_t> adapter_lids(const mad::Topology& topology) {
  std::vector<std::uint16_t> out;
  for (std::uint32_t i = 0; i < topology.nodes().size(); ++i) {
    const mad::TopologyNode& node = topology.nodes()[i];
    if (node.type != wire::mad::NodeType::channel_adapter) continue;
    for (const mad::TopologyPort& port : topology.ports_of(node))
      if (port.known && mad::is_unicast_lid(port.lid)) out.push_back(port.lid);
  }
  return out;
}

std::string add_pairs(const std::vector<std::uint16_t>& lids, PairOptions& args) {
  const std::uint64_t all = lids.size() < 2 ? 0 : std::uint64_t{lids.size()} * (lids.size() - 1);
  const auto pair = [&](std::uint64_t n) {
    const std::size_t from = n / (lids.size() - 1), rest = n % (lids.size() - 1), to = rest + (rest >= from ? 1 : 0);
    args.pairs.push_back({{.lid = lids[from]}, {.lid = lids[to]}});
  };
  const bool drawn = args.sample != 0 && args.sample < all;
  if ((drawn ? args.sample : all) > pairs_max - args.pairs.size()) return too_many() + ": use --sample";
  Rng rng(args.seed);
  for (std::uint64_t n = 0; n < (drawn ? args.sample : all); ++n) pair(drawn ? rng.below(all) : n);
  return {};
}

template <class Enumeration>
std::string named(wire::mad::Kind kind, Enumeration value) {
  const auto number = static_cast<std::uint32_t>(value);
  const std::string_view name = wire::mad::name_of(kind, number);
  return name.empty() ? std::to_string(number) : std::string(name);
}

}  // namespace

std::string PairEnd::text() const { return gid ? gid_text(*gid) : std::to_string(lid); }

void add_pair_options(Command sub, PairOptions& options) {
  sub.option("pairs", options.words, "FROM,TO: each a LID, or a port's GID or GUID").type("PAIR");
  sub.option("--from", options.file, "Read pairs from a file, one per line; - is standard input").type("FILE");
  sub.flag("--all-pairs", options.all_pairs, "All pairs of channel adapters that a discovery finds");
  sub.option("--sample", options.sample, "Number of random pairs for --all-pairs; 0: all")
      .range(std::uint64_t{0}, std::uint64_t{pairs_max})
      .shows_default();
  sub.option("--seed", options.seed, "Seed for --sample").shows_default();
}

std::string parse_words(PairOptions& options) {
  if (options.words.empty() && options.file.empty() && !options.all_pairs)
    return "no pairs: use FROM,TO, --from FILE or --all-pairs";
  for (const std::string& word : options.words)
    if (std::string wrong = parse_pair(word, options.pairs); !wrong.empty()) return wrong;
  return {};
}

std::string read_file(PairOptions& options) {
  if (options.file.empty()) return {};
  if (options.file == "-") return parse_lines(std::cin, options.pairs);
  std::ifstream file(options.file);
  if (!file) return fmt::format("'{}' cannot be read", options.file);
  const std::string wrong = parse_lines(file, options.pairs);
  return wrong.empty() ? wrong : fmt::format("{}, {}", options.file, wrong);
}

std::string add_all_pairs(const mad::Topology& topology, PairOptions& options) {
  return add_pairs(adapter_lids(topology), options);
}

void show_path(const Pair& pair, const PathRecord& record, bool quiet, Output& out, const Json& more) {
  if (quiet && !out.json) return;
  const auto value = [&](const auto& member) { return record.get(member); };
  out.text(fmt::format("{} -> {}  LID {} -> {}  SL {}  P_Key 0x{:04x}  MTU {}  rate {}  life time {}", pair.from.text(),
                       pair.to.text(), value(PathRecord::slid), value(PathRecord::dlid), value(PathRecord::sl),
                       value(PathRecord::p_key), named(wire::mad::Kind::mtu, value(PathRecord::mtu)),
                       named(wire::mad::Kind::rate, value(PathRecord::rate)), value(PathRecord::packet_life_time)));
  Json object{{"event", "path"},
              {"from", pair.from.text()},
              {"to", pair.to.text()},
              {"record", wire::mad::json_of(PathRecord::layout, record.octets())}};
  object.update(more);
  out.object(object);
}

}  // namespace parley::tools
