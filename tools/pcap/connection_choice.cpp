// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/pcap/connection_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "tools/command.hpp"

namespace parley::tools {
namespace {

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return n;
}

}  // namespace

Or<ConnectionChoice> ConnectionChoice::parse(std::string_view text) {
  const auto wrong = [&](std::string_view part, std::string_view why) {
    return command_error(Exit::usage,
                         fmt::format("'{}'{} {}", part, part == text ? "" : fmt::format(" in '{}'", text), why));
  };
  ConnectionChoice choice;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t dash = part.find('-');
    const auto first = number_of(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number_of(part.substr(dash + 1));
    if (!first || !last)
      return wrong(part, "is neither the number of a connection nor a range of them; write 5, 5-9 or 1,5-9");
    if (*first == 0) return wrong(part, "begins with 0; connections are numbered from 1");
    if (*last < *first) return wrong(part, "is reversed; the smaller number comes first");
    if (choice.ranges_.size() == ranges_max)
      return command_error(Exit::usage, fmt::format("more than {} numbers and ranges of connections", ranges_max));
    choice.ranges_.emplace_back(*first, *last);
    if (comma == std::string_view::npos) return choice;
    rest.remove_prefix(comma + 1);
  }
}

std::uint64_t ConnectionChoice::highest() const {
  std::uint64_t most = 0;
  for (const auto& [first, last] : ranges_) most = std::max(most, last);
  return most;
}

bool ConnectionChoice::has(std::uint64_t number) const {
  return ranges_.empty() || std::any_of(ranges_.begin(), ranges_.end(), [&](const auto& range) {
           return number >= range.first && number <= range.second;
         });
}

std::vector<std::size_t> ConnectionChoice::of(const capture::FileReport& file) const {
  std::vector<std::size_t> meant;
  const auto standing = [&](std::size_t i) { return file.connections[i].judgement.standing; };
  for (std::size_t i = 0; i < file.connections.size(); ++i)
    if (has(i + 1) && (!failed_only_ || standing(i) == capture::Standing::failed)) meant.push_back(i);
  std::stable_sort(meant.begin(), meant.end(),
                   [&](std::size_t a, std::size_t b) { return rank(standing(a)) < rank(standing(b)); });
  return meant;
}

int rank(capture::Standing standing) {
  switch (standing) {
    case capture::Standing::failed: return 0;
    case capture::Standing::partial: return 1;
    case capture::Standing::passed: break;
  }
  return 2;
}

void add_connection_choice(Command sub, ConnectionChoice& choice) {
  sub.flag(
      "--failed", [&choice] { choice.failed_only(); }, "Only MPA connections that failed");
  sub.option(
         "-n,--connection",
         [&choice](const std::string& text) {
           auto parsed = ConnectionChoice::parse(text);
           if (!parsed) return parsed.error().text;
           choice.numbers_of(*parsed);
           return std::string();
         },
         "Only MPA connections of these numbers in the file: 5, 5-9 or 1,5-9")
      .type("N");
}

}  // namespace parley::tools
