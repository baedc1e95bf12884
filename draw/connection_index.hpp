// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The index of connections on a page of ladders: a list that a form filters by result, outcome and text. It is plain
// HTML with links; the script only adds the filter.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace parley::draw {

struct IndexEntry {
  std::string href;     ///< "#c1"; empty: there is no link
  std::string name;     ///< "192.0.2.1:40000 -> 192.0.2.2:9001"
  std::string where;    ///< the file, or the numbers of its ends; may be empty
  std::string result;   ///< "failed: 1 error"; the filter uses its first word
  std::string outcome;  ///< "established"
  std::size_t number = 0;
};

/// The entries in the given order. Empty for fewer than two entries, which need no index.
std::string index_html(const std::vector<IndexEntry>& entries);

extern const std::string_view index_style;
/// Defines connectionIndex(changed): wires the form, calls `changed` after each filter and returns the list's items. A
/// page without an index has none.
extern const std::string_view index_script;

}  // namespace parley::draw
