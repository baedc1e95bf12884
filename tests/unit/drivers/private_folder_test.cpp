// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The folders of processes that are preloaded with Parley.
#include "drivers/private_folder.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace parley {
namespace {

class PrivateFolders : public testing::Test {
 protected:
  PrivateFolders() {
    std::string name = "/tmp/parley-folders-test-XXXXXX";
    above_ = ::mkdtemp(name.data());
    ::setenv("TMPDIR", above_.c_str(), 1);
  }
  ~PrivateFolders() override {
    std::filesystem::remove_all(above_);
    ::unsetenv("TMPDIR");
  }
  std::string above_;
};

TEST_F(PrivateFolders, AreNotRemovedWhileOthersAreCreated) {
  constexpr int threads_many = 4, folders_each = 150;
  std::atomic<int> missing{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < threads_many; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < folders_each; ++n) {
        const auto folder = PrivateFolder::create("x-");
        if (folder == nullptr || !std::filesystem::exists(folder->path() + "/lock")) ++missing;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(missing, 0);
  EXPECT_TRUE(std::filesystem::is_empty(above_));
}

TEST_F(PrivateFolders, OfAProcessThatWasKilledIsRemovedByTheNext) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto folder = PrivateFolder::create("x-");
    ::_exit(folder != nullptr ? 0 : 1);  // without destructors, as a signal ends it
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_FALSE(std::filesystem::is_empty(above_));
  const auto folder = PrivateFolder::create("x-");
  ASSERT_NE(folder, nullptr);
  for (const auto& one : std::filesystem::directory_iterator(above_)) EXPECT_EQ(one.path(), folder->path());
}

// A process that is killed in create() leaves the folder under its first name.
TEST_F(PrivateFolders, ThatWereNeverFinishedAreRemovedAfterAnHour) {
  const auto unfinished = [this](const std::string& name, std::chrono::minutes age, bool has_lock) {
    const std::filesystem::path path = std::filesystem::path(above_) / name;
    std::filesystem::create_directory(path);
    if (has_lock) std::ofstream(path / "lock") << "";
    std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - age);
    return path;
  };
  const auto old = unfinished(".x-aaaaaa", std::chrono::minutes(61), true);
  const auto without_lock = unfinished(".x-bbbbbb", std::chrono::minutes(61), false);
  const auto fresh = unfinished(".x-cccccc", std::chrono::minutes(58), true);
  const auto foreign = unfinished(".y-aaaaaa", std::chrono::minutes(61), true);
  const auto in_use = unfinished(".x-dddddd", std::chrono::minutes(61), true);
  const int held = ::open((in_use / "lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  ASSERT_NE(PrivateFolder::create("x-"), nullptr);
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_FALSE(std::filesystem::exists(without_lock));
  for (const auto& left : {fresh, foreign, in_use}) EXPECT_TRUE(std::filesystem::exists(left)) << left;
  ::close(held);
}

TEST_F(PrivateFolders, HasAnAbsolutePath) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(above_);
  ::setenv("TMPDIR", ".", 1);
  const auto folder = PrivateFolder::create("x-");
  std::filesystem::current_path(before);
  ASSERT_NE(folder, nullptr);
  EXPECT_TRUE(folder->path().starts_with('/')) << folder->path();
  EXPECT_TRUE(std::filesystem::is_directory(folder->path()));
}

}  // namespace
}  // namespace parley
