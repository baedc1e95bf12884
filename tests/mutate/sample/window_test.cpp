// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Tests that leave something out on purpose: nobody looks at `most`, and nobody fills the window to its last place.
#include <gtest/gtest.h>

#include "window.hpp"

TEST(Window, TakesWhatFits) {
  sample::Window window;
  EXPECT_TRUE(sample::take(window, 3));
  EXPECT_EQ(window.used, 3U);
  EXPECT_FALSE(sample::take(window, 6));
  EXPECT_FALSE(sample::take(window, 0));
}

TEST(Window, CountsTheInitiatorsOnly) {
  sample::Window initiator, responder{.from = sample::Side::responder};
  EXPECT_TRUE(sample::take(initiator, 1));
  EXPECT_TRUE(sample::take(responder, 1));
  EXPECT_EQ(initiator.initiators, 1U);
  EXPECT_EQ(responder.initiators, 0U);
}
