// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ops/metrics/exposition.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace parley::ops {
namespace {

/// Escapes backslashes and line feeds everywhere, and quotation marks in label values. Octets that are not UTF-8 become
/// U+FFFD, because readers reject the whole text otherwise.
void add_escaped(std::string& out, std::string_view text, bool quoted) {
  while (!text.empty()) {
    const Utf8Sequence next = utf8_sequence(text);
    const char c = text.front();
    if (!next.whole)
      out += "\xEF\xBF\xBD";
    else if (c == '\\')
      out += "\\\\";
    else if (c == '\n')
      out += "\\n";
    else if (c == '"' && quoted)
      out += "\\\"";
    else
      out += text.substr(0, next.length);
    text.remove_prefix(next.length);
  }
}

std::string_view to_string(Exposition::Type type) {
  switch (type) {
    case Exposition::Type::counter: return "counter";
    case Exposition::Type::gauge: return "gauge";
    case Exposition::Type::histogram: return "histogram";
  }
  return "untyped";
}

}  // namespace

std::string seconds_text(Duration time) {
  std::string text = decimal_seconds(time, 9);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

void Histogram::observe(Duration time) {
  time = std::max(time, Duration{});
  // Prometheus' "le": a bucket includes its limit. Times beyond the last limit are only in +Inf, which is the count.
  const auto at = std::lower_bound(limits.begin(), limits.end(), time);
  if (at != limits.end()) ++buckets_[static_cast<std::size_t>(at - limits.begin())];
  ++count_;
  sum_ += time;
}

void Exposition::family(std::string_view name, Type type, std::string_view help) {
  name_ = name;
  text_.append("# HELP ").append(name).append(" ");
  add_escaped(text_, help, false);
  text_.append("\n# TYPE ").append(name).append(" ").append(to_string(type)).append("\n");
}

void Exposition::line(std::string_view suffix, std::initializer_list<Label> labels, Label last,
                      std::string_view value) {
  text_.append(name_).append(suffix);
  char before = '{';
  const auto add = [&](const Label& label) {
    text_ += before;
    text_.append(label.name).append("=\"");
    add_escaped(text_, label.value, true);
    text_ += '"';
    before = ',';
  };
  for (const Label& label : labels) add(label);
  if (!last.name.empty()) add(last);
  if (before == ',') text_ += '}';
  text_.append(" ").append(value).append("\n");
}

void Exposition::sample(std::initializer_list<Label> labels, std::uint64_t value) {
  line("", labels, {}, std::to_string(value));
}

void Exposition::sample(std::initializer_list<Label> labels, Duration time) {
  line("", labels, {}, seconds_text(time));
}

void Exposition::sample(std::initializer_list<Label> labels, const Histogram& times) {
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < Histogram::limits.size(); ++i) {
    below += times.in_bucket(i);
    line("_bucket", labels, {"le", seconds_text(Histogram::limits[i])}, std::to_string(below));
  }
  line("_bucket", labels, {"le", "+Inf"}, std::to_string(times.count()));
  line("_sum", labels, {}, seconds_text(times.sum()));
  line("_count", labels, {}, std::to_string(times.count()));
}

}  // namespace parley::ops
