// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a failing test says of the values it compared.
#include "tests/unit/printing.hpp"

#include <gtest/gtest-spi.h>

#include <chrono>
#include <optional>

#include "parley/bytes.hpp"
#include "parley/failure.hpp"
#include "parley/iwarp.hpp"
#include "parley/mpa.hpp"
#include "parley/qp.hpp"
#include "parley/time.hpp"
#include "parley/work.hpp"

namespace parley {
namespace {

using namespace std::chrono_literals;
using testing::PrintToString;

TEST(FailingTests, NameEnumerators) {
  EXPECT_EQ(PrintToString(QpState::sqd), "sqd");
  EXPECT_EQ(PrintToString(WcStatus::success), "success");
  EXPECT_EQ(PrintToString(cm::Stage::reply), "reply");
  EXPECT_EQ(PrintToString(mpa::Rtr::read), "read");
  EXPECT_EQ(PrintToString(std::optional(mpa::Role::responder)), "(responder)");
  EXPECT_EQ(PrintToString(std::vector{iwarp::QpState::idle, iwarp::QpState::rts}), "{ idle, rts }");
  EXPECT_EQ(PrintToString(static_cast<QpState>(63)), "63 (no enumerator)");
  EXPECT_EQ(PrintToString(static_cast<QpState>(200)), "200 (no enumerator)");
}

TEST(FailingTests, ShowTimesWithTheirUnits) {
  EXPECT_EQ(PrintToString(Duration(1500us)), "1.5 ms");
  EXPECT_EQ(PrintToString(-2s), "-2 s");
  EXPECT_EQ(PrintToString(Duration{}), "0 s");
  EXPECT_EQ(PrintToString(Instant(7ns)), "7 ns");
  EXPECT_EQ(PrintToString(never), "never");
}

TEST(FailingTests, ShowOctetsInHexadecimal) {
  const Bytes octets = {0x4D, 0x50, 0x41, 0x20, 0x49, 0x00};
  EXPECT_EQ(PrintToString(octets), "6 octets: 4d504120 4900");
  EXPECT_EQ(PrintToString(ConstBytes(octets).first(1)), "1 octet: 4d");
  EXPECT_EQ(PrintToString(Bytes()), "0 octets");
}

TEST(FailingTests, BeginWithTheFirstDifferenceOfOctets) {
  EXPECT_NONFATAL_FAILURE(EXPECT_EQ((Bytes{1, 2, 3}), (Bytes{1, 9, 3})),
                          "They differ first at octet 1: 02 and 09.\nExpected equality");
  EXPECT_NONFATAL_FAILURE(EXPECT_EQ((Bytes{1, 2}), (Bytes{1, 2, 3})), "They differ first at octet 2: the end and 03.");
}

TEST(FailingTests, BeginWithTheFirstLineThatDiffers) {
  const std::string was = "one\ntwo\nthree\n", is = "one\ntwice\nthree\n", longer = was + "four\n";
  EXPECT_NONFATAL_FAILURE(EXPECT_EQ(was, is), "They differ first in line 2:\n- two\n+ twice\nExpected equality");
  EXPECT_NONFATAL_FAILURE(EXPECT_EQ(was, longer), "They differ first in line 4:\n- \n+ four\nExpected equality");
  EXPECT_NONFATAL_FAILURE(EXPECT_EQ(is, "x" + is), "They differ first in line 1:\n- one\n+ xone\n");
}

}  // namespace
}  // namespace parley
