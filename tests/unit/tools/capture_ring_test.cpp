// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The ring of capture files: how many there are, how large they are, what they hold, and what is said when the disk
// takes no more.
#include "tools/pcap/capture_ring.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tools/pcap/capture_feed.hpp"

namespace parley::tools {
namespace {

namespace fs = std::filesystem;

class Ring : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "parley-ring-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string base() const { return directory_ / "trace"; }
  CaptureRing::Options options(std::uint32_t files = 3, std::uint64_t octets = 1'000'000) const {
    return {.base = base(), .size = {files, octets}, .interface = "eth0", .link_type = 1, .comment = ""};
  }
  std::unique_ptr<CaptureRing> open(std::uint32_t files = 3, std::uint64_t octets = 1'000'000) const {
    auto ring = CaptureRing::open(options(files, octets));
    EXPECT_TRUE(ring.has_value()) << ring.error().text;
    return std::move(*ring);
  }
  std::vector<std::string> files() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(directory_)) out.push_back(entry.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }
  /// Packets of 1,000 octets, each with its number in its first four, a millisecond apart.
  static Or<void> put(CaptureRing& ring, std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t n = first; n <= last; ++n) {
      Bytes octets(1000);
      for (int i = 0; i < 4; ++i) octets[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(n >> (8 * i));
      if (auto put = ring.packet(n, Instant(std::chrono::milliseconds(n)), octets, 1500); !put) return put;
    }
    return {};
  }
  /// The numbers of the packets in a file.
  static std::vector<std::uint32_t> numbers(const std::string& path) {
    std::vector<std::uint32_t> out;
    const FeedResult fed = feed_capture(path, [&](const wire::CapturedPacket& p) {
      EXPECT_EQ(p.octets.size(), 1000u);
      EXPECT_EQ(p.original_length, 1500u);
      EXPECT_EQ(p.link_type, 1u);
      std::uint32_t n = 0;
      for (int i = 3; i >= 0; --i) n = n << 8 | p.octets[static_cast<std::size_t>(i)];
      EXPECT_EQ(p.at, Instant(std::chrono::milliseconds(n)));
      out.push_back(n);
    });
    EXPECT_EQ(fed.error, "");
    return out;
  }

  fs::path directory_;
};

TEST_F(Ring, HoldsAllPacketsWhileThereIsRoom) {
  const auto ring = open();
  ASSERT_TRUE(put(*ring, 1, 10));
  ASSERT_TRUE(ring->finish());
  EXPECT_EQ(files(), std::vector<std::string>{"trace_00001.pcapng"});
  EXPECT_EQ(fs::status(base() + "_00001.pcapng").permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(numbers(base() + "_00001.pcapng"), (std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

TEST_F(Ring, WhatWasFlushedCanBeReadWhileItGoesOn) {
  const auto ring = open();
  ASSERT_TRUE(put(*ring, 1, 2));
  ASSERT_TRUE(ring->flush());
  EXPECT_EQ(numbers(ring->current()).size(), 2u);
}

TEST_F(Ring, TheOldestFileGoesAndNoneIsLongerThanItMayBe) {
  const auto ring = open(3);
  ASSERT_TRUE(put(*ring, 1, 5000));
  ASSERT_TRUE(ring->finish());
  const auto there = files();
  ASSERT_EQ(there, (std::vector<std::string>{"trace_00004.pcapng", "trace_00005.pcapng", "trace_00006.pcapng"}));
  std::vector<std::uint32_t> all;
  for (const std::string& name : there) {
    EXPECT_LE(fs::file_size(directory_ / name), 1'000'000u);
    const auto some = numbers((directory_ / name).string());
    all.insert(all.end(), some.begin(), some.end());
  }
  EXPECT_GT(all.size(), 2000u) << "files are filled";
  EXPECT_EQ(all.back(), 5000u);
  EXPECT_EQ(all.back() - all.front() + 1, all.size()) << "without a hole";
}

TEST_F(Ring, AFileIsNeverMissingBesideThoseThatMayStay) {
  const auto ring = open(2);
  for (std::uint32_t n = 1; n <= 4000; ++n) {
    ASSERT_TRUE(put(*ring, n, n));
    ASSERT_LE(files().size(), 2u);
  }
}

TEST_F(Ring, TellsWhereAPacketStands) {
  const auto ring = open(2);
  ASSERT_TRUE(put(*ring, 1, 3000));
  ASSERT_TRUE(ring->flush());
  EXPECT_FALSE(ring->place_of(1)) << "overwritten";
  EXPECT_FALSE(ring->place_of(3001)) << "not yet written";
  for (const std::uint32_t frame : {2000u, 2999u, 3000u}) {
    const auto place = ring->place_of(frame);
    ASSERT_TRUE(place);
    EXPECT_EQ(numbers(place->file).at(place->frame - 1), frame);
  }
}

TEST_F(Ring, AnEarlierRunOnTheSameNameIsPartOfTheRing) {
  ASSERT_TRUE(put(*open(3), 1, 2500));
  ASSERT_EQ(files().size(), 3u);
  std::ofstream(directory_ / "trace_1.pcapng") << "another's";
  std::ofstream(directory_ / "trace_000002.pcapng") << "another's";
  std::ofstream(directory_ / "trace_00001.pcapng.gz") << "another's";
  std::ofstream(directory_ / "tracer_00001.pcapng") << "another's";
  const auto ring = open(3);
  EXPECT_EQ(ring->current(), base() + "_00004.pcapng");
  EXPECT_EQ(files(), (std::vector<std::string>{"trace_000002.pcapng", "trace_00001.pcapng.gz", "trace_00002.pcapng",
                                               "trace_00003.pcapng", "trace_00004.pcapng", "trace_1.pcapng",
                                               "tracer_00001.pcapng"}));
}

TEST_F(Ring, AnExtensionIsNotSaidTwice) {
  auto o = options();
  o.base += ".pcapng";
  const auto ring = CaptureRing::open(o);
  ASSERT_TRUE(ring);
  EXPECT_EQ((*ring)->current(), base() + "_00001.pcapng");
}

TEST_F(Ring, ADirectoryThatIsNotThereIsSaidAtOnce) {
  auto o = options();
  o.base = (directory_ / "none" / "trace").string();
  const auto ring = CaptureRing::open(o);
  ASSERT_FALSE(ring);
  EXPECT_EQ(ring.error().exit, Exit::environment);
  EXPECT_THAT(ring.error().text, testing::HasSubstr("No such file or directory"));
  o.base = directory_.string() + "/";
  EXPECT_EQ(CaptureRing::open(o).error().exit, Exit::usage);
}

TEST_F(Ring, AWriteThatFailsIsSaidAndStaysFailed) {
  const auto ring = open();
  // The system's own limit on files stands for the full disk: the write is short, and the next one fails.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto given = put(*ring, 1, 10);
  const auto flushed = ring->flush();
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(given);
  ASSERT_FALSE(flushed);
  EXPECT_EQ(flushed.error().exit, Exit::environment);
  EXPECT_EQ(flushed.error().text, "cannot write '" + base() + "_00001.pcapng': File too large");
  EXPECT_FALSE(put(*ring, 11, 11));
  EXPECT_EQ(ring->finish().error().text, flushed.error().text);
}

TEST(RingSize, HasFilesAndTheirSize) {
  const auto is = [](std::string_view text, std::uint32_t files, std::uint64_t octets) {
    const auto size = parse_ring_size(text);
    ASSERT_TRUE(size) << text << ": " << size.error();
    EXPECT_EQ(size->files, files) << text;
    EXPECT_EQ(size->octets, octets) << text;
  };
  is("10x100MB", 10, 100'000'000);
  is("2x1000kB", 2, 1'000'000);
  is("3x1MiB", 3, 1 << 20);
  is("100000x1GiB", 100'000, std::uint64_t{1} << 30);
  is("2x1024GiB", 2, std::uint64_t{1} << 40);
}

TEST(RingSize, RefusesWhatIsNoSuchThing) {
  for (const std::string_view text :
       {"", "10", "10x", "x100MB", "10x100", "10x100mb", "10x-1MB", "-1x1MB", "10x1MBx", "10 x 100MB", "1x100MB",
        "0x1MB", "100001x1MB", "2x999kB", "2x1025GiB", "2x18446744073709551615GiB", "99999999999999999999x1MB"})
    EXPECT_FALSE(parse_ring_size(text)) << text;
}

}  // namespace
}  // namespace parley::tools
