// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The master's database: ids, versions, what versions share, and what is refused.
#include <gmock/gmock.h>

#include "tests/unit/ssa/ssa_kit.hpp"

namespace parley::ssa {
namespace database_test {
namespace {

using testing::HasSubstr;

Bytes link(std::uint8_t fill) { return Bytes(12, fill); }

TEST(SsaDatabase, HasWhatWasPutIntoItInEachVersion) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Drawn drawn(seed);
    std::vector<std::pair<SnapshotPtr, Model>> versions;
    for (int i = 0; i < 20; ++i) {
      const SnapshotPtr version = drawn.commit(drawn.rng.below(60));
      versions.emplace_back(version, drawn.model);
      if (drawn.rng.below(10) == 0) drawn.writer.compact();
    }
    for (const auto& [version, model] : versions)  // the older ones too
      ASSERT_EQ(seen(*version), model) << "seed " << seed << ", counter " << version->epoch().counter;
    EXPECT_EQ(versions.back().first->size(links) + versions.back().first->size(ports), drawn.model.rows.size());
  }
}

TEST(SsaDatabase, AVersionIsOneEpochAndNoChangeIsNone) {
  DatabaseWriter writer = *DatabaseWriter::create(two_tables(), 7);
  const SnapshotPtr empty = writer.commit();
  EXPECT_EQ(empty->epoch(), (Epoch{7, 1}));
  ASSERT_TRUE(writer.insert(links, link(1)));
  const SnapshotPtr one = writer.commit();
  EXPECT_EQ(one->epoch(), (Epoch{7, 2}));
  ASSERT_TRUE(writer.update(links, 0, link(1)));  // the same
  EXPECT_EQ(writer.commit(), one);
}

// 64 records share an epoch, and a table has that of its last change.
TEST(SsaDatabase, AChangeMarksItsBlockAndItsTableAndTheRestIsShared) {
  DatabaseWriter writer = *DatabaseWriter::create(two_tables(), 7);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(writer.insert(links, link(1)));
  ASSERT_TRUE(writer.insert(ports, Bytes(20), Bytes(5)));
  const SnapshotPtr before = writer.commit();
  ASSERT_TRUE(writer.update(links, 64, link(2)));
  const SnapshotPtr after = writer.commit();
  const auto &was = before->tables()[links], &is = after->tables()[links];
  ASSERT_EQ(is.blocks.size(), 4U);
  EXPECT_EQ(is.changed, 3U);
  EXPECT_EQ(after->tables()[ports].changed, 2U);
  for (std::size_t b = 0; b < 4; ++b) {
    EXPECT_EQ(is.blocks[b] == was.blocks[b], b != 1) << b;
    EXPECT_EQ(is.blocks[b]->changed, b == 1 ? 3U : 2U) << b;
  }
  EXPECT_EQ(after->tables()[ports].segments[0], before->tables()[ports].segments[0]);
  EXPECT_EQ(before->record(links, 64)[0], 1);
  EXPECT_EQ(after->record(links, 64)[0], 2);
}

TEST(SsaDatabase, AnIdIsUsedAgainOnlyAfterAVersionWithoutIt) {
  DatabaseWriter writer = *DatabaseWriter::create(two_tables(), 7);
  for (int i = 0; i < 64; ++i) ASSERT_EQ(*writer.insert(links, link(1)), static_cast<RecordId>(i));
  writer.commit();
  ASSERT_TRUE(writer.erase(links, 5));
  EXPECT_EQ(*writer.insert(links, link(2)), 64U) << "5 was freed by the same version";
  EXPECT_TRUE(writer.commit()->record(links, 5).empty());
  EXPECT_EQ(*writer.insert(links, link(3)), 65U) << "no reader has seen a version without it for an epoch";
  writer.commit();
  EXPECT_EQ(*writer.insert(links, link(4)), 5U);
  EXPECT_EQ(writer.commit()->record(links, 5)[0], 4);
}

TEST(SsaDatabase, AnErasedRecordCannotBeChanged) {
  DatabaseWriter writer = *DatabaseWriter::create(two_tables(), 7);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(writer.insert(links, link(1)));
  ASSERT_TRUE(writer.erase(links, 0));
  EXPECT_FALSE(writer.erase(links, 0));
  EXPECT_FALSE(writer.update(links, 0, link(2)));
  const SnapshotPtr snapshot = writer.commit();
  EXPECT_TRUE(snapshot->record(links, 0).empty());
  EXPECT_EQ(snapshot->record(links, 1)[0], 1);
}

TEST(SsaDatabase, CompactingTakesUnusedOctetsOutOfTheVariableArea) {
  Drawn drawn(3);
  for (int i = 0; i < 20; ++i) drawn.commit(50);
  const std::size_t before = drawn.writer.last()->tables()[ports].area_octets();
  EXPECT_GT(drawn.writer.wasted(ports), before / 10);
  drawn.writer.compact();
  const SnapshotPtr after = drawn.writer.commit();
  EXPECT_LT(after->tables()[ports].area_octets(), before);
  EXPECT_EQ(seen(*after), drawn.model);
  EXPECT_EQ(after->floor(), after->epoch().counter) << "older versions load the whole";
}

TEST(SsaDatabase, RefusesWhatDoesNotFit) {
  DatabaseWriter writer = *DatabaseWriter::create(two_tables(), 7);
  const auto error = [](const auto& result) { return result ? std::string("accepted") : result.error().message(); };
  EXPECT_THAT(error(writer.insert(2, link(0))), HasSubstr("there is no table 2"));
  EXPECT_THAT(error(writer.insert(links, Bytes(11))),
              HasSubstr("the record has 11 octets; those of its table have 12"));
  EXPECT_THAT(error(writer.insert(links, link(0), Bytes(1))), HasSubstr("records of table 0 have no variable part"));
  EXPECT_THAT(error(writer.insert(ports, Bytes(20), Bytes(4097))), HasSubstr("the variable part has 4097 octets"));
  EXPECT_THAT(error(writer.update(links, 3, link(0))), HasSubstr("table 0 has no record 3"));
  EXPECT_THAT(error(writer.erase(9, 3)), HasSubstr("table 9 has no record 3"));
  EXPECT_EQ(writer.commit()->epoch().counter, 1U) << "nothing has changed";
  EXPECT_FALSE(DatabaseWriter::create(two_tables(), 0));
}

// The limits themselves are accepted.
TEST(SsaDatabase, ASchemaHasItsLimits) {
  const auto tables = [](std::size_t n) { return Schema{std::vector<TableDef>(n, {"T", 12, no_variable_part})}; };
  const auto one = [](std::string name, std::uint16_t octets, std::uint16_t ref_at = no_variable_part) {
    return Schema{{{"first", 12, no_variable_part}, {std::move(name), octets, ref_at}}};
  };
  for (const Schema& good :
       {tables(1), tables(64), one(std::string(32, 'T'), 1), one("T", 1024), one("T", 8, 0), one("T", 12, 4)}) {
    const auto created = DatabaseWriter::create(good, 7);
    EXPECT_TRUE(created) << created.error().message();
  }
  const std::pair<Schema, std::string> bad[] = {
      {tables(0), "a database has 0 tables, and must have 1 to 64"},
      {tables(65), "a database has 65 tables, and must have 1 to 64"},
      {one("", 12), "a table's name has 0 octets, and must have 1 to 32"},
      {one(std::string(33, 'T'), 12), "a table's name has 33 octets, and must have 1 to 32"},
      {one(std::string("T\0", 2), 12), "a table's name has 2 octets"},
      {one("T", 0), "a record has 0 octets, and must have 1 to 1024"},
      {one("T", 1025), "a record has 1025 octets, and must have 1 to 1024"},
      {one("T", 7, 0), "the reference to the variable part at octet 0 is not within a record of 7 octets"},
      {one("T", 12, 5), "the reference to the variable part at octet 5 is not within a record of 12 octets"}};
  for (const auto& [schema, error] : bad) {
    const auto created = DatabaseWriter::create(schema, 7);
    ASSERT_FALSE(created) << error;
    EXPECT_THAT(created.error().message(), HasSubstr(error));
  }
}

}  // namespace
}  // namespace database_test
}  // namespace parley::ssa
