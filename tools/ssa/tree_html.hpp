// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The distribution tree as one self-contained page: a drawing by levels, a table of all nodes, a search; nodes without a parent in red.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "draw/provenance.hpp"

namespace parley::tools {

/// With more nodes, only parents are drawn, with the number of their children; of these the first ones.
inline constexpr std::size_t drawn_tree_nodes_max = 100;

struct TreeNode {
  std::string gid, roles{}, stage{};
  std::string parent{}, backup{};  ///< GIDs; empty: none
  bool is_root = false;
  bool is_known = true;  ///< false: it is only named as another node's parent or backup
};

/// Nodes that are only named as parents and backups are added. `asked`: the GID of the daemon that told the tree, which knows all of it
/// only if it is the root.
void tree_page(std::vector<TreeNode> nodes, const std::string& asked, const draw::Provenance& report,
               const std::function<void(std::string_view)>& take);

}  // namespace parley::tools
