// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The only file that knows toml++, which takes long to compile.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

// toml++ 3.3 has assertions that malformed text can trigger ("[=]"), and after each of them reports an error anyway.
// With NDEBUG it would tell the compiler that such text is impossible. Therefore: neither.
#undef NDEBUG
#define TOML_ASSERT(condition) static_assert(true)
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include "sim/scenario/scenario_ascii.hpp"
#include "sim/scenario/scenario_value.hpp"

namespace parley::sim {
namespace {

constexpr std::size_t document_max = 1 << 20;

/// The lines of a file, to quote a value as its author wrote it.
class Source {
 public:
  explicit Source(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      lines_.push_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  /// Empty if it is not on one line of ASCII: toml++'s columns count characters, but offsets here are octets.
  std::string quote(const toml::source_region& region) const {
    if (region.begin.line != region.end.line || region.begin.line == 0 || region.begin.line > lines_.size()) return {};
    const std::string_view line = lines_[region.begin.line - 1];
    const std::size_t from = region.begin.column - 1, to = region.end.column - 1;
    if (from >= to || to > line.size()) return {};
    if (std::any_of(line.begin(), line.end(), [](char c) { return (c & 0x80) != 0; })) return {};
    return std::string(line.substr(from, std::min<std::size_t>(to - from, 40)));
  }

 private:
  std::vector<std::string_view> lines_;
};

void set_place(DocValue& out, const toml::node& node) {
  out.line = static_cast<int>(node.source().begin.line);
  out.column = static_cast<int>(node.source().begin.column);
}

// toml++ nests at most 256 levels deep, and so does this recursion.
DocValue convert(const toml::node& node, const Source& source) {
  DocValue out;
  set_place(out, node);
  if (const auto* table = node.as_table()) {
    out.kind = DocValue::Kind::table;
    for (const auto& [key, value] : *table) {
      DocEntry entry{.key = std::string(key.str()),
                     .line = static_cast<int>(key.source().begin.line),
                     .column = static_cast<int>(key.source().begin.column),
                     .value = convert(value, source)};
      out.entries.push_back(std::move(entry));
    }
    std::stable_sort(out.entries.begin(), out.entries.end(), [](const DocEntry& a, const DocEntry& b) {
      return std::pair(a.line, a.column) < std::pair(b.line, b.column);
    });
  } else if (const auto* array = node.as_array()) {
    out.kind = DocValue::Kind::array;
    for (const toml::node& item : *array) out.items.push_back(convert(item, source));
  } else if (const auto* text = node.as_string()) {
    out.kind = DocValue::Kind::text;
    out.text = text->get();
  } else if (const auto* integer = node.as_integer()) {
    out.kind = DocValue::Kind::integer;
    out.integer = integer->get();
  } else if (const auto* boolean = node.as_boolean()) {
    out.kind = DocValue::Kind::boolean;
    out.boolean = boolean->get();
  } else {
    out.kind = node.is_floating_point() ? DocValue::Kind::real : DocValue::Kind::date;
    out.text = source.quote(node.source());
  }
  return out;
}

tl::expected<DocValue, ScenarioError> parse_once(std::string_view toml, std::string_view file_name) {
  ScenarioError error{.file = std::string(file_name), .key = {}, .text = {}};
  if (toml.size() > document_max) {
    error.text = fmt::format("the file has {} octets, at most {} are read", toml.size(), document_max);
    return tl::unexpected(std::move(error));
  }
  // toml++ 3.3 tells the compiler that a character like U+00E9 is impossible where it looks for white space.
  if (const auto at = beyond_ascii(toml)) {
    const std::string_view before = toml.substr(0, *at);
    error.line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
    error.column = static_cast<int>(*at - (before.rfind('\n') + 1)) + 1;
    error.text = fmt::format("not TOML: octet 0x{:02X}, beyond ASCII, outside of a string or comment",
                             static_cast<unsigned char>(toml[*at]));
    return tl::unexpected(std::move(error));
  }
  const toml::parse_result result = toml::parse(toml, std::string_view());
  if (!result) {
    error.line = static_cast<int>(result.error().source().begin.line);
    error.column = static_cast<int>(result.error().source().begin.column);
    error.text = fmt::format("not TOML: {}", result.error().description());
    return tl::unexpected(std::move(error));
  }
  return convert(result.table(), Source(toml));
}

bool is_toml(std::string_view text) { return !beyond_ascii(text) && toml::parse(text, std::string_view()); }

/// The header of an inner table, such as `[connect.mpa`; empty if nothing more is known of it.
std::string inner_table(std::string_view name) {
  name = name.substr(0, name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_."));
  return name.empty() || name.back() == '.' ? std::string() : fmt::format("[{}]", name);
}

/// Replaces an invalid line by one that keeps the following lines valid: the same key with a number that no scenario
/// accepts, or the same table. Empty: the intention is unknown, or the error began on another line.
std::string stand_in(std::string_view line, const ScenarioError& error) {
  constexpr std::string_view blank = " \t";
  constexpr std::string_view word = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  const std::size_t first = line.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  const bool table = line[first] == '[';
  const std::size_t begin = table ? line.find_first_not_of("[ \t", first) : first;
  if (begin == std::string_view::npos) return {};
  const std::size_t end = std::min(line.find_first_not_of(word, begin), line.size());
  if (table && end < line.size() && line[end] == '.') return inner_table(line.substr(begin));
  const std::string name(line.substr(begin, end - begin));
  if (name.empty()) return {};
  // A duplicate key is only wrong because of an earlier line, and can be removed.
  if (is_toml(line)) return error.text.find("redefine") == std::string::npos ? std::string() : " ";
  if (table) return fmt::format("[[{}]]", name);
  const std::size_t equals = line.find_first_not_of(blank, end);
  if (equals == std::string_view::npos || line[equals] != '=') return {};
  return name + " = nan";
}

}  // namespace

Document read_document(std::string_view toml, std::string_view file_name) {
  constexpr std::size_t errors_max = 50;
  Document out;
  std::string mended(toml);
  for (;;) {
    auto read = parse_once(mended, file_name);
    if (read) {
      out.root = std::move(*read);
      return out;
    }
    out.errors.push_back(std::move(read.error()));
    const ScenarioError& error = out.errors.back();
    out.whole = false;
    const bool again = out.errors.size() > 1 && error.line <= out.errors[out.errors.size() - 2].line;
    if (again) out.errors.pop_back();  // caused by the replacement
    if (again || error.line == 0 || out.errors.size() == errors_max) return out;
    std::size_t begin = 0;
    for (int line = 1; line < error.line && begin < mended.size(); ++line)
      begin = std::min(mended.find('\n', begin), mended.size() - 1) + 1;
    const std::size_t end = std::min(mended.find('\n', begin), mended.size());
    const std::string better = stand_in(std::string_view(mended).substr(begin, end - begin), error);
    if (better.empty()) return out;
    mended.replace(begin, end - begin, better);
    out.whole = true;
  }
}

tl::expected<DocValue, ScenarioError> parse_document(std::string_view toml, std::string_view file_name) {
  Document read = read_document(toml, file_name);
  if (!read.errors.empty()) return tl::unexpected(std::move(read.errors.front()));
  return std::move(read.root);
}

}  // namespace parley::sim
