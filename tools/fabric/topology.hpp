// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The options that select the subnet of `parley fabric`.
#pragma once
#include "sim/subnet/plan.hpp"
#include "tools/options.hpp"

namespace parley::tools {

struct TopologyArgs {
  std::string file, fat_tree, torus, dragonfly;
  std::string spelt = "--";  ///< prefix of a shape's name in errors
  std::size_t sources() const {
    return static_cast<std::size_t>(!file.empty()) + static_cast<std::size_t>(!fat_tree.empty()) +
           static_cast<std::size_t>(!torus.empty()) + static_cast<std::size_t>(!dragonfly.empty());
  }
};
void add_topology_options(Command sub, TopologyArgs& args);
/// The value of `option`, in one word: "fat-tree:2,8,4,4", "torus:4x4,2", "dragonfly:4,2,2", else a file.
TopologyArgs topology_in(const std::string& option, const std::string& word);
/// Errors: usage (sizes), environment (the file, with its line).
Or<sim::subnet::Plan> load_topology(const TopologyArgs& args);

}  // namespace parley::tools
