// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Tables of what becomes of something when each of its octets in turn is altered, cut off or lost: the cases of one
// outcome share a line.
#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
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

/// A sentence in which every word with a digit in it is a #: its form.
inline std::string without_numbers(std::string_view text) {
  const auto in_word = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    bool digit = false;
    for (; end < text.size() && in_word(text[end]); ++end) digit |= text[end] >= '0' && text[end] <= '9';
    if (end == at) ++end;
    out += digit ? "#" : text.substr(at, end - at);
    at = end;
  }
  return out;
}

/// Sentences that a table names by a letter, and has once at its end.
class Legend {
 public:
  std::string letter(const std::string& sentence) { return of(sentence, sentence); }
  /// One letter for all that differ in numbers alone; the first of them is shown.
  std::string letter_of_form(const std::string& sentence) { return of(without_numbers(sentence), sentence); }
  std::string text() const {
    std::string out;
    for (std::size_t i = 0; i < sentences_.size(); ++i) out += name(i) + ": " + sentences_[i] + "\n";
    return out;
  }

 private:
  std::string of(const std::string& key, const std::string& sentence) {
    const auto [place, added] = places_.try_emplace(key, sentences_.size());
    if (added) sentences_.push_back(sentence);
    return name(place->second);
  }
  static std::string name(std::size_t i) {
    return (i < 26 ? std::string() : std::string(1, static_cast<char>('a' + i / 26 - 1))) +
           static_cast<char>('a' + i % 26);
  }
  std::map<std::string, std::size_t> places_;
  std::vector<std::string> sentences_;
};

/// What many drawn cases come to, where no one reads each: how often each thing happened, and sums of the numbers with it.
class Tally {
 public:
  void add(const std::string& name, std::initializer_list<std::int64_t> numbers = {}) {
    std::vector<std::int64_t>& sums = sums_[name];
    sums.resize(std::max(sums.size(), numbers.size() + 1));
    ++sums[0];
    std::size_t i = 0;
    for (const std::int64_t n : numbers) sums[++i] += n;
  }
  std::string text() const {
    std::string out;
    for (const auto& [name, sums] : sums_) {
      out += name + ":";
      for (const std::int64_t n : sums) out += " " + std::to_string(n);
      out += "\n";
    }
    return out;
  }

 private:
  std::map<std::string, std::vector<std::int64_t>> sums_;
};

/// Outcomes by case: a line for each, with the cases that have it. Of an outcome that is other than `usual` the lines that differ.
class Runs {
 public:
  /// `gone`: lines of a `usual` of several lines that are not there are shown.
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
    std::string out;
    for (const auto& [outcome, cases] : groups_) out += differences(outcome) + "  <- " + cases + "\n";
    groups_.clear();
    place_.clear();
    return out;
  }

 private:
  static std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::size_t begin = std::min(text.find_first_not_of(' ', at), end);
      out.push_back(text.substr(begin, end - begin));
      at = end + 1;
    }
    return out;
  }
  std::string differences(const std::string& outcome) const {
    if (outcome == usual_) return "as usual";
    std::vector<std::string> was = lines(usual_);
    std::string out;
    const auto add = [&out](const std::string& line) { out += (out.empty() ? "" : "; ") + line; };
    for (const std::string& line : lines(outcome)) {
      const auto same = std::find(was.begin(), was.end(), line);
      if (same == was.end())
        add(line);
      else
        was.erase(same);
    }
    for (const std::string& line : was)
      if (gone_ && usual_.find('\n') != usual_.npos) add("not: " + line);
    return out;
  }
  void end() {
    if (first_.empty()) return;
    const auto [place, added] = place_.try_emplace(outcome_, groups_.size());
    if (added) groups_.emplace_back(outcome_, "");
    std::string& cases = groups_[place->second].second;
    if (!cases.empty()) cases += ", ";
    cases += first_ == last_ ? first_ : first_ + " to " + last_;
    first_.clear();
  }
  std::string usual_, first_, last_, outcome_;
  bool gone_;
  std::vector<std::pair<std::string, std::string>> groups_;  ///< by outcome, in the order in which they came
  std::map<std::string, std::size_t> place_;
};

}  // namespace parley
