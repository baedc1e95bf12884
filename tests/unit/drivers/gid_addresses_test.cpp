// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Which address of the machine becomes which GID, and the files that several processes record.
#include "drivers/asio/gid_addresses.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "drivers/recording.hpp"

namespace parley::gid_addresses_test {
namespace {

using asio_driver::gid_addresses;
using asio_driver::in_gid_order;

std::vector<std::string> texts(const std::vector<Address>& of) {
  std::vector<std::string> out;
  for (const Address& address : of) out.push_back(asio_driver::text_without_port(address));
  return out;
}

Address at(const char* text) { return Address::parse(text).value(); }

TEST(GidAddresses, ComeInGroupsAndTheDefaultRoutesIsTheFirst) {
  const std::vector<Address> found{at("127.0.0.1"), at("172.17.0.1"),    at("192.0.2.7"),
                                   at("::1"),       at("[fe80::1%3]:0"), at("2001:db8::7")};
  EXPECT_EQ(texts(in_gid_order(found, std::nullopt)),
            (std::vector<std::string>{"172.17.0.1", "192.0.2.7", "2001:db8::7", "fe80::1%3", "127.0.0.1", "::1"}));
  EXPECT_EQ(texts(in_gid_order(found, at("192.0.2.7"))),
            (std::vector<std::string>{"192.0.2.7", "172.17.0.1", "2001:db8::7", "fe80::1%3", "127.0.0.1", "::1"}));
  EXPECT_EQ(texts(in_gid_order(found, at("198.51.100.7"))), texts(in_gid_order(found, std::nullopt)));
}

TEST(GidAddresses, NamedOnesKeepTheirOrder) {
  EXPECT_EQ(texts(gid_addresses("127.0.0.3,::1,127.0.0.1").value()),
            (std::vector<std::string>{"127.0.0.3", "::1", "127.0.0.1"}));
  EXPECT_EQ(texts(gid_addresses("[::1],127.0.0.1").value()), (std::vector<std::string>{"::1", "127.0.0.1"}));
  EXPECT_EQ(gid_addresses("127.0.0.3,no address").error(), Errc::bad_address);
}

TEST(GidAddresses, TheLastTwoOctetsAreTheLid) {
  for (const auto& [text, lid] : {std::pair{"192.0.2.7", 0x0207}, {"10.1.191.255", 0xBFFF}, {"127.0.0.1", 1}})
    EXPECT_EQ(asio_driver::lid_of(at(text)), lid) << text;
  for (const char* text : {"10.1.192.0", "10.1.0.0", "::1", "[fe80::1%3]:0"}) {
    EXPECT_EQ(asio_driver::lid_of(at(text)), 0) << text;
    EXPECT_NE(asio_driver::why_no_lid(at(text)), "") << text;
  }
  EXPECT_EQ(asio_driver::why_no_lid(at("127.0.0.1")), "");
  EXPECT_EQ(asio_driver::text_without_port(asio_driver::with_lid(at("192.0.2.7"), 0x8003)), "192.0.128.3");
}

TEST(GidAddresses, DefaultOnesFitIntoTheTable) {
  std::vector<Address> found{at("127.0.0.1")};
  for (std::uint8_t i = 0; i < 200; ++i)
    for (const std::uint8_t net : {std::uint8_t{1}, std::uint8_t{2}, std::uint8_t{1}})
      found.push_back(Address::v4(192, 0, net, i, 0));
  const auto all = texts(in_gid_order(found, at("192.0.2.199")));
  ASSERT_EQ(all.size(), 256U);
  EXPECT_EQ(all[0], "192.0.2.199");
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 256U);
}

TEST(GidAddresses, LoopbackIsAmongTheDefaultOnes) {
  const auto all = gid_addresses("");
  ASSERT_TRUE(all.has_value());
  EXPECT_NE(std::find(all->begin(), all->end(), at("127.0.0.1")), all->end());
}

class Recording : public testing::Test {
 protected:
  Recording() {
    std::string name = "/tmp/parley-recording-test-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    name_ = folder_ + "/a.b/x.pcapng";
    std::filesystem::create_directory(folder_ + "/a.b");
  }
  ~Recording() override { std::filesystem::remove_all(folder_); }

  /// The name that a process takes, and its file.
  std::string take(std::string name, pid_t pid) {
    std::FILE* const file = claim_recording(name, pid);
    EXPECT_NE(file, nullptr);
    files_.emplace_back(file, std::fclose);
    return name;
  }

  std::string folder_, name_;
  std::vector<std::unique_ptr<std::FILE, int (*)(std::FILE*)>> files_;
};

TEST_F(Recording, OneProcessHasTheNameAndOthersTheirNumber) {
  EXPECT_EQ(take(name_, 7), name_);
  EXPECT_EQ(take(name_, 8), folder_ + "/a.b/x.8.pcapng") << "the first has it, and has written nothing yet";
  std::fputs("packets", files_[0].get());
  files_[0].reset();
  EXPECT_EQ(take(name_, 9), folder_ + "/a.b/x.9.pcapng") << "the first ended";
  EXPECT_EQ(std::filesystem::file_size(name_), 7U);
}

TEST_F(Recording, ProcessesWithTheSameNumberHaveTheirOwnFiles) {
  EXPECT_EQ(take(name_, 1), name_);
  EXPECT_EQ(take(name_, 1), folder_ + "/a.b/x.1.pcapng");
  EXPECT_EQ(take(name_, 1), folder_ + "/a.b/x.2.pcapng");
  files_.clear();
  EXPECT_EQ(take(folder_ + "/a.b/x.%p.pcapng", 1), folder_ + "/a.b/x.3.pcapng");
}

TEST_F(Recording, AProcessRecordsItsFileAgainUnlessAnotherHasIt) {
  EXPECT_EQ(take(name_, 7), name_);
  std::fputs("packets", files_[0].get());
  std::fflush(files_[0].get());
  EXPECT_EQ(retake_recording(name_), nullptr);
  EXPECT_EQ(errno, EWOULDBLOCK);
  EXPECT_EQ(std::filesystem::file_size(name_), 7U);
  files_.clear();
  std::FILE* const again = retake_recording(name_);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(std::filesystem::file_size(name_), 0U);
  std::fclose(again);
}

TEST_F(Recording, TheMarkIsTheNumberOfTheProcess) {
  EXPECT_EQ(take(folder_ + "/%p-%p.pcapng", 7), folder_ + "/7-7.pcapng");
  EXPECT_EQ(of_process("/a.b/x", 7), "/a.b/x.7");
  EXPECT_EQ(of_process("/a.b/.x", 7), "/a.b/.x.7");
}

TEST_F(Recording, ANewRunEmptiesAFileThatNobodyWrites) {
  std::ofstream(name_) << "of an earlier run";
  EXPECT_EQ(begin_recording(name_), RecordingStart::ready);
  EXPECT_EQ(std::filesystem::file_size(name_), 0U);
  EXPECT_EQ(take(name_, 7), name_);
  std::fputs("packets", files_[0].get());
  std::fflush(files_[0].get());
  EXPECT_EQ(begin_recording(name_), RecordingStart::in_use);
  EXPECT_EQ(std::filesystem::file_size(name_), 7U) << "process 7 records there";
  EXPECT_EQ(begin_recording(folder_ + "/%p"), RecordingStart::ready);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/%p"));
  EXPECT_EQ(begin_recording(folder_ + "/none/x"), RecordingStart::failed);
  EXPECT_EQ(errno, ENOENT);
}

}  // namespace
}  // namespace parley::gid_addresses_test
