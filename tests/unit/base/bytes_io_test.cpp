// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <gtest/gtest.h>

#include <array>

#include "base/bytes_io.hpp"

namespace parley {
namespace {

const Bytes count{0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08};

TEST(Reader, ReadsBothByteOrders) {
  EXPECT_EQ(Reader(count).u8(), 0x01);
  EXPECT_EQ(Reader(count).be16(), 0x0102);
  EXPECT_EQ(Reader(count).be32(), 0x01020304u);
  EXPECT_EQ(Reader(count).be64(), 0x0102030405060708u);
  EXPECT_EQ(Reader(count).le16(), 0x0201);
  EXPECT_EQ(Reader(count).le32(), 0x04030201u);
  EXPECT_EQ(Reader(count).le64(), 0x0807060504030201u);
}

TEST(Reader, MovesOnAndKnowsWhereItIs) {
  Reader r(count);
  r.skip(2);
  EXPECT_EQ(r.be16(), 0x0304);
  EXPECT_EQ(r.offset(), 4u);
  EXPECT_EQ(r.left(), 4u);
  const ConstBytes two = r.bytes(2);
  EXPECT_EQ(two.data(), count.data() + 4);  // a view, not a copy
  EXPECT_EQ(r.rest().size(), 2u);
  EXPECT_EQ(r.left(), 0u);
  EXPECT_TRUE(r.ok());
}

TEST(Reader, FailureSticks) {
  Reader r(count);
  r.skip(7);
  EXPECT_EQ(r.be16(), 0u);  // one octet short
  EXPECT_FALSE(r.ok());
  EXPECT_EQ(r.u8(), 0u);  // although one octet is there
  EXPECT_TRUE(r.bytes(1).empty());
  EXPECT_TRUE(r.rest().empty());
  EXPECT_EQ(r.left(), 0u);
  EXPECT_FALSE(r.ok());
}

TEST(Reader, HugeLengthsDoNotWrap) {
  Reader r(count);
  r.skip(1);
  EXPECT_TRUE(r.bytes(SIZE_MAX).empty());
  EXPECT_FALSE(r.ok());
}

TEST(Reader, NothingOfNothingIsFine) {
  Reader r(ConstBytes{});
  EXPECT_TRUE(r.rest().empty());
  EXPECT_TRUE(r.bytes(0).empty());
  EXPECT_TRUE(r.ok());
  (void)r.u8();
  EXPECT_FALSE(r.ok());
}

TEST(Writer, WritesBothByteOrders) {
  Bytes out(30);
  Writer w(out);
  w.u8(0x01);
  w.be16(0x0203);
  w.be32(0x04050607);
  w.be64(0x08090A0B0C0D0E0F);
  w.le16(0x1110);
  w.le32(0x15141312);
  w.le64(0x1D1C1B1A19181716);
  EXPECT_TRUE(w.ok());
  EXPECT_EQ(w.size(), 29u);
  for (std::size_t i = 0; i < 29; ++i) EXPECT_EQ(out[i], i + 1);
}

TEST(Writer, CopiesAndFills) {
  Bytes out(8, 0xFF);
  Writer w(out);
  w.bytes(ConstBytes(count).first(3));
  w.zeros(2);
  w.bytes({});
  w.zeros(0);
  EXPECT_EQ(out, (Bytes{1, 2, 3, 0, 0, 0xFF, 0xFF, 0xFF}));
}

TEST(Writer, FailureSticksAndWritesNothingMore) {
  Bytes out(3, 0xFF);
  Writer w(out);
  w.be16(0x0102);
  w.be16(0x0304);  // one octet short
  w.u8(0x05);      // although there is room for one
  w.bytes(ConstBytes(count).first(1));
  w.zeros(1);
  EXPECT_FALSE(w.ok());
  EXPECT_EQ(out, (Bytes{1, 2, 0xFF}));
  EXPECT_EQ(w.size(), 2u);
}

}  // namespace
}  // namespace parley
