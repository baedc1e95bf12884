// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The snapshot that a node answers from: readers of the old one and of the new one.
#include <gtest/gtest.h>

#include <thread>

#include "drivers/ssa/current.hpp"
#include "ssa/writer.hpp"

namespace parley::ssa_driver {
namespace ssa_current_test {
namespace {

using ssa::DatabaseWriter;
using ssa::Snapshot;
using ssa::SnapshotPtr;

ssa::Schema schema() { return {{{"LINK", 12, ssa::no_variable_part}}}; }

TEST(SsaCurrent, AReaderKeepsItsSnapshotAndNothingOlderReplacesIt) {
  Current current;
  EXPECT_EQ(current.get(), nullptr);
  EXPECT_FALSE(current.publish(nullptr));
  DatabaseWriter writer = *DatabaseWriter::create(schema(), 7);
  const SnapshotPtr first = writer.commit();
  ASSERT_TRUE(current.publish(first));
  const std::weak_ptr<const Snapshot> held = current.get();
  SnapshotPtr reader = current.get();
  ASSERT_TRUE(writer.insert(0, Bytes(12, 1)));
  ASSERT_TRUE(current.publish(writer.commit()));
  EXPECT_EQ(reader->size(0), 0U);
  EXPECT_EQ(current.get()->size(0), 1U);
  EXPECT_FALSE(current.publish(first)) << "older";
  EXPECT_EQ(current.get()->size(0), 1U);
  DatabaseWriter liar = *DatabaseWriter::create(schema(), 7);
  ASSERT_TRUE(liar.insert(0, Bytes(12, 2)));
  EXPECT_EQ(current.publish(liar.commit()).error(), Errc::crc_mismatch) << "the same epoch, another database";
  EXPECT_EQ(current.get()->record(0, 0)[0], 1);
  EXPECT_TRUE(current.publish(DatabaseWriter::create(schema(), 8)->commit())) << "another master";
  EXPECT_EQ(held.lock(), reader);
}

// For ThreadSanitizer, too.
TEST(SsaCurrent, AReaderInAnotherThreadSeesEpochsInOrder) {
  Current current;
  DatabaseWriter writer = *DatabaseWriter::create(schema(), 7);
  ASSERT_TRUE(current.publish(writer.last()));
  std::thread reader([&] {
    std::uint32_t before = 0;
    while (before < 201) {
      const std::uint32_t now = current.get()->epoch().counter;
      EXPECT_GE(now, before);
      before = now;
    }
  });
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(writer.insert(0, Bytes(12, 1)));
    EXPECT_TRUE(current.publish(writer.commit()));
  }
  EXPECT_EQ(current.get()->epoch().counter, 201U);
  reader.join();
}

}  // namespace
}  // namespace ssa_current_test
}  // namespace parley::ssa_driver
