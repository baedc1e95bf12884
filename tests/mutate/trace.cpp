// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Linked into a test program whose source has many mutants. PARLEY_MUTANT=n chooses one. With PARLEY_MUTANT_TRACE=file
// each test tells which of them it reaches and how long it takes: "name nanoseconds n n n", one line each.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>

extern "C" {
int parley_mutant = 0;
unsigned char parley_mutant_reached[1 << 16];
}

namespace {

class Trace : public testing::EmptyTestEventListener {
 public:
  explicit Trace(const char* path) : out_(path) {}

 private:
  void OnTestStart(const testing::TestInfo&) override {
    std::memset(parley_mutant_reached, 0, sizeof parley_mutant_reached);
    begin_ = std::chrono::steady_clock::now();
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    out_ << test.test_suite_name() << '.' << test.name() << ' ' << (std::chrono::steady_clock::now() - begin_).count();
    for (unsigned n = 1; n < sizeof parley_mutant_reached; ++n)
      if (parley_mutant_reached[n] != 0) out_ << ' ' << n;
    out_ << '\n' << std::flush;
  }

  std::ofstream out_;
  std::chrono::steady_clock::time_point begin_;
};

const bool started = [] {
  if (const char* chosen = std::getenv("PARLEY_MUTANT")) parley_mutant = std::atoi(chosen);
  if (const char* path = std::getenv("PARLEY_MUTANT_TRACE"))
    testing::UnitTest::GetInstance()->listeners().Append(new Trace(path));
  return true;
}();

}  // namespace
