// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Tables of what becomes of something when each of its octets in turn is altered, cut off or lost: neighbouring cases of
// one outcome share a line.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace parley {

/// Numbers of octets that go with a case, each by a letter that stands for it in the table.
using Numbers = std::vector<std::pair<char, std::size_t>>;
inline std::string by_letters(std::string text, const Numbers& numbers) {
  for (const auto& [letter, value] : numbers) {
    const std::string number = std::to_string(value);
    for (std::size_t at = text.find(number + " octet"); at != std::string::npos; at = text.find(number + " octet", at))
      if (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9')
        ++at;
      else
        text.replace(at, text.find_first_of(" \n,", at + number.size() + 1) - at, std::string(1, letter) + " octets");
  }
  return text;
}

/// Outcomes by case: what is other than `usual`, line by line. One that was there before is only named.
class Runs {
 public:
  /// `gone`: lines of `usual` that are not there are told.
  explicit Runs(std::string usual = {}, bool gone = true) : usual_(std::move(usual)), gone_(gone) {}
  void add(const std::string& name, const std::string& outcome) {
    if (first_.empty() || outcome != outcome_) {
      end();
      first_ = name;
      outcome_ = outcome;
    }
    last_ = name;
  }
  std::string text() {
    end();
    return std::exchange(text_, {});
  }

 private:
  static std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      out.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return out;
  }
  std::string differences() const {
    std::vector<std::string> was = lines(usual_);
    std::string out;
    for (const std::string& line : lines(outcome_)) {
      const auto same = std::find(was.begin(), was.end(), line);
      if (same == was.end())
        out += line + "\n";
      else
        was.erase(same);
    }
    for (const std::string& line : was)
      if (gone_ && line.starts_with("    ")) out += "    not: " + line.substr(4) + "\n";
    return out;
  }
  void end() {
    if (first_.empty()) return;
    text_ += first_ == last_ ? first_ : first_ + " to " + last_;
    const auto [before, added] = seen_.try_emplace(outcome_, first_);
    text_ += outcome_ == usual_ ? ": as usual\n" : added ? "\n" + differences() : ": as " + before->second + "\n";
    first_.clear();
  }
  std::string usual_, first_, last_, outcome_, text_;
  bool gone_;
  std::map<std::string, std::string> seen_;
};

}  // namespace parley
