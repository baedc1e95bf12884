// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/ssa/answer.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/text.hpp"
#include "tools/hex.hpp"
#include "tools/output.hpp"

namespace parley::tools {

namespace {

constexpr char between = '\x1f';
constexpr std::size_t record_octets_max = 256;

std::string without_controls(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  return text;
}

std::string emit_value(const AnswerValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "b1" : "b0";
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return fmt::format("n{}", *number);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("r{}", *real);
  if (const auto* text = std::get_if<std::string>(&value)) return "s" + without_controls(*text);
  return "0";
}

template <class T>
std::optional<T> number_in(std::string_view text) {
  T out{};
  const auto [end, why] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (why != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

std::optional<AnswerValue> parse_value(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const std::string_view rest = text.substr(1);
  switch (text.front()) {
    case '0': return rest.empty() ? std::optional(AnswerValue()) : std::nullopt;
    case 'b': return rest == "0" || rest == "1" ? std::optional(AnswerValue(rest == "1")) : std::nullopt;
    case 'n':
      if (const auto number = number_in<std::uint64_t>(rest)) return AnswerValue(*number);
      return std::nullopt;
    case 'r':
      if (const auto real = number_in<double>(rest)) return AnswerValue(*real);
      return std::nullopt;
    case 's': return AnswerValue(std::string(rest));
    default: return std::nullopt;
  }
}

/// "name", value, "name", value.
std::optional<AnswerMembers> parse_members(std::string_view text) {
  AnswerMembers out;
  while (!text.empty()) {
    const std::size_t middle = text.find(between);
    if (middle == std::string_view::npos || middle == 0) return std::nullopt;
    const std::size_t end = std::min(text.find(between, middle + 1), text.size());
    const auto value = parse_value(text.substr(middle + 1, end - middle - 1));
    if (!value) return std::nullopt;
    out.emplace_back(text.substr(0, middle), *value);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::optional<AnswerLine> parse_line(std::string_view line) {
  AnswerLine out;
  out.text = line.substr(1);
  switch (line.front()) {
    case 'T': out.kind = AnswerLine::Kind::text; return out;
    case 'E': out.kind = AnswerLine::Kind::error; return out;
    case 'P': {
      out.kind = AnswerLine::Kind::record;
      if (!parse_hex_into(out.text, out.record, record_octets_max).empty()) return std::nullopt;
      return out;
    }
    case 'J': {
      out.kind = AnswerLine::Kind::event;
      auto members = parse_members(out.text);
      if (!members) return std::nullopt;
      out.members = std::move(*members);
      return out;
    }
    default: return std::nullopt;
  }
}

}  // namespace

void Answer::event(std::string name, AnswerMembers members) {
  members.insert(members.begin(), {"event", std::move(name)});
  lines.push_back({AnswerLine::Kind::event, {}, std::move(members), {}});
}

void Answer::error(int exit_code, std::string line) {
  exit = exit_code;
  lines.push_back({AnswerLine::Kind::error, std::move(line), {}, {}});
}

std::string emit(const Answer& answer) {
  std::string out;
  for (const AnswerLine& line : answer.lines) {
    switch (line.kind) {
      case AnswerLine::Kind::text: out += 'T' + without_controls(line.text); break;
      case AnswerLine::Kind::error: out += 'E' + without_controls(line.text); break;
      case AnswerLine::Kind::record: out += 'P' + hex_digits(line.record); break;
      case AnswerLine::Kind::event:
        out += 'J';
        for (std::size_t i = 0; i < line.members.size(); ++i) {
          if (i > 0) out += between;
          out += line.members[i].first + between + emit_value(line.members[i].second);
        }
        break;
    }
    out += '\n';
  }
  return out + fmt::format("X{}\n", answer.exit);
}

Result<Answer> parse_answer(std::string_view text) {
  Answer out;
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos || end == 0)
      return fail(Errc::malformed, "line {a} of the daemon's answer is empty or has no end", number);
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line.front() == 'X') {
      const auto code = number_in<int>(line.substr(1));
      const bool has_error = std::any_of(out.lines.begin(), out.lines.end(),
                                         [](const AnswerLine& l) { return l.kind == AnswerLine::Kind::error; });
      const bool known = code && *code >= 0 && *code <= parley::tools::code(Exit::environment);
      if (!known || !text.empty() || has_error != (*code != 0))
        return fail(Errc::malformed, "line {a} of the daemon's answer is not an end", number);
      out.exit = *code;
      return out;
    }
    auto parsed = parse_line(line);
    if (!parsed) return fail(Errc::malformed, "line {a} of the daemon's answer is not understood", number);
    out.lines.push_back(std::move(*parsed));
  }
  return fail(Errc::truncated, "the daemon's answer has no end");
}

}  // namespace parley::tools
