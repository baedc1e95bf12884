// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Findings as tables compare them: severity (E, W, N), frame, side (i, r, - for neither) and the id of the rule. Sentences are
// for people: tests/states/capture_sentences.txt has one of each form.
#pragma once
#include <fmt/format.h>

#include <map>
#include <set>

#include "tests/unit/capture/exchange.hpp"
#include "tests/unit/reviewed.hpp"
#include "tests/unit/runs.hpp"

namespace parley::capture::test {

/// "mpa.crc: the initiator sent an FPDU with CRC #, its octets give #"
inline std::string form_of(const Finding& f) {
  return std::string(f.key().empty() ? "-" : f.key()) + ": " + without_numbers(f.text);
}

/// The first sentence of each form that the running test has met.
class Sentences {
 public:
  static Sentences& met() {
    static Sentences one;
    const auto* const now = testing::UnitTest::GetInstance()->current_test_info();
    if (one.test_ != now) one = Sentences(now);
    return one;
  }
  void add(const Finding& f) {
    firsts_.try_emplace(form_of(f), std::string(f.key().empty() ? "-" : f.key()) + ": " + f.text);
  }
  std::string text() const {
    std::string out;
    for (const auto& [form, sentence] : firsts_) out += sentence + "\n";
    return out;
  }
  /// Those whose forms tests/states/capture_sentences.txt does not have, each behind a blank.
  std::string others() const {
    static const std::set<std::string> known = [] {
      std::set<std::string> out;
      std::ifstream file(PARLEY_SOURCE_DIR "/tests/states/capture_sentences.txt");
      for (std::string line; std::getline(file, line);) {
        const std::size_t colon = line.find(": ");
        if (colon == std::string::npos) continue;
        Finding f;
        f.text = line.substr(colon + 2);
        out.insert(line.substr(0, colon) + form_of(f).substr(1));
      }
      return out;
    }();
    std::string out;
    for (const auto& [form, sentence] : firsts_)
      if (!known.contains(form)) out += " " + sentence + "\n";
    return out;
  }

 private:
  explicit Sentences(const testing::TestInfo* test = nullptr) : test_(test) {}
  const testing::TestInfo* test_;
  std::map<std::string, std::string> firsts_;
};

/// "; E6i mpa.crc" for each finding.
inline std::string found(const ConnectionReport& c) {
  std::string out;
  for (const Finding& f : c.findings) {
    Sentences::met().add(f);
    out += fmt::format("; {}{}{} {}",
                       f.severity == Severity::error     ? 'E'
                       : f.severity == Severity::warning ? 'W'
                                                         : 'N',
                       f.frame, f.side ? to_string(*f.side)[0] : '-', f.key().empty() ? "-" : f.key());
  }
  return out;
}

/// A table of ids, and the sentences of forms that it alone has met.
inline void expect_ids_as_reviewed(const std::string& name, const std::string& table) {
  expect_as_reviewed(name, table + Sentences::met().others());
}

}  // namespace parley::capture::test
