// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Databases on their way down: whole ones, changes, and streams that lie.
#include <gmock/gmock.h>

#include <functional>

#include "base/bytes_io.hpp"
#include "mpa/crc32c.hpp"
#include "tests/unit/ssa/ssa_kit.hpp"

namespace parley::ssa {
namespace stream_test {
namespace {

using testing::HasSubstr;

TEST(SsaStream, AWholeDatabaseArrivesHoweverItIsCut) {
  Drawn drawn(1);
  const SnapshotPtr version = drawn.commit(400);
  for (const std::size_t piece : {1, 7, 40, 4096, 1 << 20}) {
    const auto loaded = load_from(nullptr, StreamSource(version), piece);
    ASSERT_TRUE(loaded) << loaded.error().message();
    EXPECT_EQ((*loaded)->epoch(), version->epoch());
    EXPECT_EQ((*loaded)->schema(), version->schema());
    EXPECT_EQ((*loaded)->digest(), version->digest());
    EXPECT_EQ(seen(**loaded), drawn.model);
  }
}

// Deltas from each version to each later one; a version without a delta gets the whole database.
TEST(SsaStream, ChangesLeadFromAnyVersionToAnyLaterOne) {
  std::size_t deltas = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Drawn drawn(seed);
    std::vector<SnapshotPtr> versions{drawn.writer.last()};
    for (int i = 0; i < 8; ++i) {
      versions.push_back(drawn.commit(1 + drawn.rng.below(80)));
      if (i == 4) drawn.writer.compact();
    }
    for (std::size_t from = 0; from < versions.size(); ++from)
      for (std::size_t to = from; to < versions.size(); ++to) {
        const StreamSource source(versions[to], versions[from]->epoch());
        deltas += source.is_delta() ? 1 : 0;
        const auto loaded = load_from(versions[from], source);
        ASSERT_TRUE(loaded) << loaded.error().message();
        EXPECT_EQ((*loaded)->digest(), versions[to]->digest()) << seed << ": " << from << " to " << to;
        EXPECT_EQ(seen(**loaded), seen(*versions[to]));
      }
  }
  EXPECT_GT(deltas, 200U);
}

TEST(SsaStream, ASmallChangeIsASmallStreamAndSharesTheRest) {
  DatabaseWriter writer = *DatabaseWriter::create(two_tables(), 7);
  for (int i = 0; i < 64 * 1000; ++i) ASSERT_TRUE(writer.insert(links, Bytes(12, 1)));
  const SnapshotPtr before = writer.commit();
  ASSERT_TRUE(writer.update(links, 640, Bytes(12, 2)));
  const SnapshotPtr after = writer.commit();
  const Bytes whole = whole_stream(StreamSource(after)), delta = whole_stream(StreamSource(after, before->epoch()));
  EXPECT_GT(whole.size(), 700'000U);
  EXPECT_LT(delta.size(), 1200U);
  const auto loaded = load_from(before, StreamSource(after, before->epoch()));
  ASSERT_TRUE(loaded) << loaded.error().message();
  for (std::size_t b = 0; b < 1000; ++b)
    EXPECT_EQ((*loaded)->tables()[links].blocks[b] == before->tables()[links].blocks[b], b != 10) << b;
}

// A newer node keeps its data; a node of another master loads the whole.
TEST(SsaStream, AnEpochDecidesWhatIsLoaded) {
  Drawn drawn(5), other(6, 8);
  const SnapshotPtr older = drawn.commit(100), newer = drawn.commit(100), others = other.commit(50);
  EXPECT_FALSE(StreamSource(older, newer->epoch()).is_delta()) << "from the future";
  EXPECT_FALSE(StreamSource(newer, others->epoch()).is_delta());
  EXPECT_FALSE(StreamSource(newer, Epoch{}).is_delta());
  const auto behind = load_from(newer, StreamSource(older));
  ASSERT_FALSE(behind);
  EXPECT_EQ(behind.error(), Errc::wrong_state);
  EXPECT_THAT(behind.error().message(), HasSubstr("the parent's database has the counter 2, behind ours, which has 3"));
  const auto without = load_from(nullptr, StreamSource(newer, older->epoch()));
  ASSERT_FALSE(without);
  EXPECT_THAT(without.error().message(), HasSubstr("changes since counter 2, which this node does not have"));
  EXPECT_FALSE(load_from(others, StreamSource(newer, older->epoch())));
  const auto whole = load_from(others, StreamSource(newer));
  ASSERT_TRUE(whole);
  EXPECT_EQ(seen(**whole), drawn.model);
  const auto overlapping = load_from(newer, StreamSource(drawn.commit(10), older->epoch()));
  ASSERT_TRUE(overlapping) << "it has some of the changes already";
  EXPECT_EQ(seen(**overlapping), drawn.model);
}

// A database of the same version is the same database, and none is newer than what the master has published.
TEST(SsaStream, AnEpochIsNotBelievedAgainstTheNodeOrTheMaster) {
  Drawn drawn(5), same_epoch(6), other(7, 8);
  const SnapshotPtr base = drawn.commit(100), lie = same_epoch.commit(100), others = other.commit(100);
  ASSERT_EQ(base->epoch(), lie->epoch());
  EXPECT_TRUE(load_from(base, StreamSource(base)));
  const auto loaded = load_from(base, StreamSource(lie));
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error(), Errc::crc_mismatch);
  EXPECT_THAT(loaded.error().message(), HasSubstr("has the epoch of ours"));
  const auto refusal = [](const SnapshotPtr& sent, Epoch newest) {
    Loader loader(nullptr, {.newest = newest});
    const auto fed = loader.feed(whole_stream(StreamSource(sent)));
    return fed ? std::string() : fed.error().message();
  };
  const SnapshotPtr next = drawn.commit(1);
  EXPECT_EQ(refusal(base, base->epoch()), "");
  EXPECT_EQ(refusal(base, next->epoch()), "") << "a parent may be behind";
  EXPECT_THAT(refusal(next, base->epoch()), HasSubstr("has the counter 3, and the newest that is announced has 2"));
  EXPECT_THAT(refusal(others, base->epoch()), HasSubstr("is of incarnation 8, and the master's of 7"));
}

/// A stream as its messages, which can be changed and sealed again with a right CRC and number.
struct Messages {
  std::vector<Bytes> all;

  explicit Messages(StreamSource source) {
    for (Bytes message; source.next(message);) all.push_back(message);
  }
  Bytes& of(StreamKind kind) {
    for (Bytes& message : all)
      if (parley::load<std::uint16_t>(message.data() + 16, std::endian::big) == static_cast<std::uint16_t>(kind))
        return message;
    ADD_FAILURE() << "no such message";
    return all.front();
  }
  static void seal(Bytes& message) {
    store(message.data() + 24, static_cast<std::uint32_t>(message.size()), std::endian::big);
    const ConstBytes body = ConstBytes(message).first(message.size() - 4);
    store(message.data() + message.size() - 4, mpa::crc32c(body), std::endian::big);
  }
  Result<bool> feed(Loader& loader) const {
    Result<bool> fed = false;
    for (std::size_t i = 0; i < all.size() && fed; ++i) fed = loader.feed(all[i]);
    return fed;
  }
};

template <class Number>
void put(Bytes& message, std::size_t at, Number value) {
  store(message.data() + at, value, std::endian::big);
}

struct Lie {
  const char* name;
  std::function<void(Messages&)> tell;
  const char* why;
};
std::ostream& operator<<(std::ostream& out, const Lie& lie) { return out << lie.name; }

class SsaLies : public testing::TestWithParam<Lie> {};

// Each with right CRCs, unless it is about them. Offsets are those of docs/ssa.md: 40 octets of header, then the payload.
const Lie lies[] = {
    {"CrcOfAMessage", [](Messages& m) { m.of(StreamKind::block).back() ^= 1; }, "the CRC of message 3"},
    {"AnOctetOfARecord", [](Messages& m) { m.of(StreamKind::block)[60] ^= 1; }, "the CRC of message 3"},
    {"LengthBeyondTheLongest", [](Messages& m) { put(m.of(StreamKind::block), 24, 0xFFFFFFFFU); },
     "says that it has 4294967295 octets"},
    {"LengthOfLessThanAHeader", [](Messages& m) { put(m.of(StreamKind::block), 24, 43U); },
     "says that it has 43 octets"},
    {"AnotherClass",
     [](Messages& m) {
       m.all[0][1] = 0x2D;
       m.seal(m.all[0]);
     },
     "has not the header"},
    {"AMessageTwice", [](Messages& m) { m.all.insert(m.all.begin() + 1, m.all[0]); },
     "message 0 of the database arrived, and message 1 is the next"},
    {"AMessageLeftOut", [](Messages& m) { m.all.erase(m.all.begin() + 3); },
     "message 4 of the database arrived, and message 3 is the next"},
    {"NoBeginning",
     [](Messages& m) {
       put(m.all[1], 28, 0U);
       m.seal(m.all[1]);
       m.all.erase(m.all.begin());
     },
     "the first alone begins it"},
    {"AnUnknownKind",
     [](Messages& m) {
       put(m.all[3], 16, std::uint16_t{0x1099});
       m.seal(m.all[3]);
     },
     "unknown kind"},
    {"AnEpochThatChanges",
     [](Messages& m) {
       put(m.all[3], 36, 99U);
       m.seal(m.all[3]);
     },
     "has the counter 99"},
    {"NoEpoch",
     [](Messages& m) {
       put(m.all[0], 36, 0U);
       m.seal(m.all[0]);
     },
     "the first message of the database"},
    {"TablesWithoutNumber",
     [](Messages& m) {
       put(m.all[0], 52, std::uint16_t{0});
       m.seal(m.all[0]);
     },
     "0 tables"},
    {"FewerTablesThanDefined",
     [](Messages& m) {
       put(m.all[0], 52, std::uint16_t{1});
       m.seal(m.all[0]);
     },
     "table 1 is defined, and table 1 is the next"},
    {"MoreTablesThanDefined",
     [](Messages& m) {
       put(m.all[0], 52, std::uint16_t{3});
       m.seal(m.all[0]);
     },
     "2 of 3 tables are defined"},
    {"AFloorInTheFuture",
     [](Messages& m) {
       put(m.all[0], 48, 99U);
       m.seal(m.all[0]);
     },
     "the first message of the database"},
    {"RecordsOfNoOctets",
     [](Messages& m) {
       put(m.all[1], 72, std::uint16_t{0});
       m.seal(m.all[1]);
     },
     "a record has 0 octets"},
    {"AReferenceBehindTheRecord",
     [](Messages& m) {
       put(m.all[2], 74, std::uint16_t{13});
       m.seal(m.all[2]);
     },
     "is not within a record of 20 octets"},
    {"ATableFromTheFuture",
     [](Messages& m) {
       put(m.all[1], 76, 99U);
       m.seal(m.all[1]);
     },
     "a table changed in epoch 99"},
    {"ATableThatIsOlderThanItsBlocks",
     [](Messages& m) {
       put(m.all[1], 76, 1U);
       m.seal(m.all[1]);
     },
     "of table 0 changed after its table"},
    {"ATableThatIsOlderThanItsSegments",
     [](Messages& m) {
       put(m.all[2], 76, 1U);
       m.seal(m.all[2]);
       for (Bytes& b : m.all)
         if (b[17] == 0x22 && b[23] == 1) {
           put(b, 44, 1U);
           m.seal(b);
         }
     },
     "segment 0 of table 1 changed after its table"},
    {"AGreatManyBlocks",
     [](Messages& m) {
       put(m.all[1], 80, 0x40001U);
       m.seal(m.all[1]);
     },
     "a table of 262145 blocks"},
    {"MoreThanANodeTakes",
     [](Messages& m) {
       put(m.all[1], 80, 0x40000U);
       put(m.all[1], 72, std::uint16_t{1024});
       m.seal(m.all[1]);
     },
     "the database has more than 1073741824 octets"},
    {"VariablePartsWithoutReferences",
     [](Messages& m) {
       put(m.all[1], 84, 5U);
       m.seal(m.all[1]);
     },
     "with 5 octets of variable parts"},
    {"ABlockThatIsNotThere",
     [](Messages& m) {
       Bytes& b = m.of(StreamKind::block);
       put(b, 40, 77U);
       m.seal(b);
     },
     "block 77: its table has"},
    {"ABlockFromTheFuture",
     [](Messages& m) {
       Bytes& b = m.of(StreamKind::block);
       put(b, 44, 99U);
       m.seal(b);
     },
     "records changed in epoch 99"},
    {"OtherRecordsThanThoseThatLive",
     [](Messages& m) {
       Bytes& b = m.of(StreamKind::block);
       put(b, 48, std::uint64_t{1});
       m.seal(b);
     },
     "and other records live"},
    {"ABlockOfNoTable",
     [](Messages& m) {
       Bytes& b = m.of(StreamKind::block);
       put(b, 20, 2U);
       m.seal(b);
     },
     "records of table 2: there are 2 tables"},
    {"ABlockInPlaceOfAnother",
     [](Messages& m) {
       put(m.all[4], 40, 0U);
       m.seal(m.all[4]);
     },
     "part 0 of table 0 comes twice"},
    {"ASegmentThatIsShort",
     [](Messages& m) {
       Bytes& s = m.of(StreamKind::segment);
       s.erase(s.end() - 9, s.end() - 4);
       m.seal(s);
     },
     "not its share"},
    {"ASegmentThatIsNotThere",
     [](Messages& m) {
       Bytes& s = m.of(StreamKind::segment);
       put(s, 40, 0x100000U);
       m.seal(s);
     },
     "segment 1048576: its table has"},
    {"AReferenceOutOfTheArea",
     [](Messages& m) {
       for (Bytes& b : m.all)
         if (b[17] == 0x22 && b[23] == 1) {
           put(b, 56 + 4, 0x7FFFFFFFU);
           put(b, 56 + 8, 16U);
           m.seal(b);
           break;
         }
     },
     "refers to octets outside of the variable area"},
    {"AReferenceOverTwoSegments",
     [](Messages& m) {
       for (Bytes& b : m.all)
         if (b[17] == 0x22 && b[23] == 1) {
           put(b, 56 + 4, 4090U);
           put(b, 56 + 8, 16U);
           m.seal(b);
           break;
         }
     },
     "refers to octets outside of the variable area"},
    {"AnotherRecord",
     [](Messages& m) {
       Bytes& b = m.of(StreamKind::block);
       b[60] ^= 1;
       m.seal(b);
     },
     "its digest is another"},
    {"AnotherDigest",
     [](Messages& m) {
       m.all.back()[41] ^= 1;
       m.seal(m.all.back());
     },
     "its digest is another"},
    {"OctetsAfterTheEnd", [](Messages& m) { m.all.push_back(Bytes(1)); }, "1 octets follow the end"},
    {"AnEndBeforeAllHasCome",
     [](Messages& m) {
       put(m.all.back(), 28, 4U);
       m.seal(m.all.back());
       m.all.erase(m.all.begin() + 4, m.all.end() - 1);
     },
     "is missing"},
};

TEST_P(SsaLies, AreOneClearErrorAndTheOldSnapshotStays) {
  Drawn drawn(11);
  const SnapshotPtr base = drawn.commit(300);
  const Model before = seen(*base);
  const SnapshotPtr next = drawn.commit(300);
  Messages messages{StreamSource(next)};
  GetParam().tell(messages);
  Loader loader(base);
  const auto fed = messages.feed(loader);
  ASSERT_FALSE(fed) << "accepted";
  EXPECT_THAT(fed.error().message(), HasSubstr(GetParam().why));
  EXPECT_EQ(loader.take(), nullptr);
  EXPECT_EQ(loader.feed(messages.all[0]).error().message(), fed.error().message()) << "for ever";
  EXPECT_EQ(seen(*base), before);
}

INSTANTIATE_TEST_SUITE_P(Each, SsaLies, testing::ValuesIn(lies),
                         [](const auto& info) { return std::string(info.param.name); });

// A delta is to the database that it changes.
TEST(SsaStream, ChangesOfAnotherDatabaseAreRefused) {
  Drawn drawn(12);
  const SnapshotPtr base = drawn.commit(300), next = drawn.commit(50);
  const auto told = [&](const std::function<void(Messages&)>& tell) {
    Messages messages{StreamSource(next, base->epoch())};
    tell(messages);
    Loader loader(base);
    const auto fed = messages.feed(loader);
    return fed ? std::string("accepted") : fed.error().message();
  };
  EXPECT_EQ(told([](Messages&) {}), "accepted");
  EXPECT_THAT(told([](Messages& m) {
                m.all[1][41] ^= 1;
                m.seal(m.all[1]);
              }),
              HasSubstr("another table 0"));
  EXPECT_THAT(told([](Messages& m) {
                put(m.all[1], 80, 1U);
                m.seal(m.all[1]);
              }),
              HasSubstr("make table 0 smaller"));
  EXPECT_THAT(told([](Messages& m) {
                put(m.all[1], 76, 1U);
                m.seal(m.all[1]);
              }),
              HasSubstr("table 0 of the changes changed in epoch 1"));
  EXPECT_THAT(told([](Messages& m) {
                put(m.all[3], 44, 2U);
                m.seal(m.all[3]);
              }),
              HasSubstr("records changed in epoch 2"));
  EXPECT_THAT(told([](Messages& m) {
                put(m.all[0], 44, 99U);
                m.seal(m.all[0]);
              }),
              HasSubstr("not a delta that can be"));
  EXPECT_THAT(told([](Messages& m) {
                put(m.all[0], 40, 99U);
                m.seal(m.all[0]);
              }),
              HasSubstr("not a delta that can be"));
}

// Damage anywhere, with and without right CRCs: an error or the same database, and never anything else.
TEST(SsaStream, DamageIsAnErrorOrChangesNothing) {
  Drawn drawn(13);
  const SnapshotPtr base = drawn.commit(100), next = drawn.commit(100);
  std::size_t refused = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Rng rng(seed);
    Messages messages{rng.below(2) == 0 ? StreamSource(next) : StreamSource(next, base->epoch())};
    Bytes& message = messages.all[rng.below(messages.all.size())];
    const std::size_t at = rng.below(message.size());
    message[at] = static_cast<std::uint8_t>(message[at] ^ (1U << rng.below(8)));
    if (rng.below(5) != 0) Messages::seal(message);
    Loader loader(base);
    const auto fed = messages.feed(loader);
    refused += fed ? 0 : 1;
    if (!fed || !*fed) continue;
    const SnapshotPtr loaded = loader.take();
    EXPECT_EQ(seen(*loaded), seen(*next)) << seed;  // a header's member without a meaning, such as the transaction ID
  }
  EXPECT_GT(refused, 1500U) << "the others hit what a seal restores, or the transaction ID";
}

}  // namespace
}  // namespace stream_test
}  // namespace parley::ssa
