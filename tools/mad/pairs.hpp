// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Pairs of ports whose paths are wanted, as words, from files or of a whole subnet; and how a path is printed.
#pragma once
#include <istream>

#include "mad/error.hpp"
#include "mad/topology.hpp"
#include "tools/command.hpp"
#include "wire/mad/sa.hpp"

namespace parley::tools {

inline constexpr std::size_t pairs_max = 16 << 20;

struct PairEnd {
  std::uint16_t lid = 0;
  std::optional<Gid> gid{};
  std::string text() const;
};
struct Pair {
  PairEnd from, to;
};

struct PairOptions {
  std::vector<std::string> words;
  std::string file;
  bool all_pairs = false;
  std::uint64_t sample = 0, seed = 1;
  std::vector<Pair> pairs;  ///< those of the words and the file
};
void add_pair_options(Command sub, PairOptions& options);
/// Reads the words. Returns an error, or nothing.
std::string parse_words(PairOptions& options);
/// Reads the file, if there is one. Returns an error, or nothing.
std::string read_file(PairOptions& options);
/// Adds the pairs of channel adapters that a discovery has found. Returns an error, or nothing.
std::string add_all_pairs(const mad::Topology& topology, PairOptions& options);

/// `more`: further members of the event.
void show_path(const Pair& pair, const wire::mad::PathRecord& record, bool quiet, Output& out,
               const Json& more = Json::object());

}  // namespace parley::tools
