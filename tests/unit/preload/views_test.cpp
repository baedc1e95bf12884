// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The files of the device in /sys and /dev. How programs get them: script.verbs.
#include "preload/views.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace parley::preload {
namespace {

class Views : public testing::Test {
 protected:
  Views() {
    std::string name = "/tmp/parley-views-test-XXXXXX";
    above_ = ::mkdtemp(name.data());
    ::setenv("TMPDIR", above_.c_str(), 1);
    ::setenv("PARLEY_VERBS_ADDRESS", "127.0.0.7,::1,127.0.0.7", 1);
  }
  // The process has one folder, which is gone when it ends: each test has a process of its own.
  template <class Test>
  void in_child(Test&& test) {
    const pid_t child = ::fork();
    if (child == 0) {
      test();
      std::exit(HasFailure() ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  ~Views() override {
    EXPECT_TRUE(std::filesystem::is_empty(above_)) << above_;
    std::filesystem::remove_all(above_);
    ::unsetenv("TMPDIR");
  }

  static std::string at(const char* path) {
    std::string kept;
    return viewed(path, kept);
  }
  static std::string read(const std::string& path) {
    std::ifstream file(at(path.c_str()));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string above_;
};

TEST_F(Views, AreOfTheDeviceAlone) {
  for (const char* path :
       {"/sys/class/infiniband", "/sys/class/infiniband/", "/sys/class/infiniband/x/y",
        "/sys/class/infiniband_verbs/uverbs0", "/dev/infiniband", "/dev/infiniband/", "/dev/infiniband/uverbs0"})
    EXPECT_TRUE(is_view(path)) << path;
  for (const char* path :
       {"", "/", "/sys/class", "/sys/class/infiniband_mad", "/sys/class/infinibandx", "/dev/infiniband/rdma_cm",
        "/dev/infiniband/uverbs01", "/dev/null", "sys/class/infiniband"}) {
    EXPECT_FALSE(is_view(path)) << path;
    EXPECT_EQ(at(path), path);
  }
  std::string kept;
  EXPECT_EQ(viewed(nullptr, kept), nullptr);
}

TEST_F(Views, SayWhatTheDeviceSays) {
  in_child([] {
    EXPECT_EQ(read("/sys/class/infiniband/parley0/node_type"), "1: CA\n");
    EXPECT_EQ(read("/sys/class/infiniband/parley0/ports/1/state"), "4: ACTIVE\n");
    EXPECT_EQ(read("/sys/class/infiniband/parley0/ports/1/gids/0"), "0000:0000:0000:0000:0000:ffff:7f00:0007\n");
    EXPECT_EQ(read("/sys/class/infiniband/parley0/ports/1/gids/1"), "0000:0000:0000:0000:0000:0000:0000:0001\n");
    EXPECT_EQ(read("/sys/class/infiniband/parley0/ports/1/gids/2"), "");
    EXPECT_EQ(read("/sys/class/infiniband/parley0/ports/1/gid_attrs/types/0"), "RoCE v2\n");
    EXPECT_EQ(read("/sys/class/infiniband/parley0/ports/1/gid_attrs/ndevs/0"), "lo\n");
    EXPECT_EQ(read("/sys/class/infiniband_verbs/uverbs0/ibdev"), "parley0\n");
    EXPECT_TRUE(std::filesystem::exists(at("/sys/class/infiniband/parley0/device/net/lo/mtu")));
    EXPECT_TRUE(std::filesystem::exists(at("/sys/class/infiniband_verbs/uverbs0/device/infiniband/parley0/node_guid")));
    struct stat is {};
    for (const char* path : {"/dev/infiniband/uverbs0", "/dev/infiniband/"}) {
      ASSERT_EQ(::stat(at(path).c_str(), &is), 0) << path;
      EXPECT_EQ(S_ISCHR(is.st_mode), path[16] == 'u');
    }
  });
}

TEST_F(Views, OfAnInfiniBandPortHaveItsLid) {
  in_child([] {
    ::setenv("PARLEY_VERBS_LINK_LAYER", "infiniband", 1);
    const std::string port = "/sys/class/infiniband/parley0/ports/1/";
    EXPECT_EQ(read(port + "link_layer"), "InfiniBand\n");
    EXPECT_EQ(read(port + "lid"), "0x7\n");
    EXPECT_EQ(read(port + "gid_attrs/types/0"), "IB/RoCE v1\n");
    EXPECT_FALSE(std::filesystem::exists(at((port + "gid_attrs/ndevs/0").c_str())));
  });
}

TEST_F(Views, OfAForkedChildAreItsOwn) {
  in_child([] {
    const std::string before = at("/sys/class/infiniband");
    const pid_t child = ::fork();
    if (child == 0) {
      EXPECT_NE(at("/sys/class/infiniband"), before);
      EXPECT_TRUE(std::filesystem::exists(at("/sys/class/infiniband/parley0")));
      std::exit(HasFailure() ? 1 : 0);  // which removes the child's alone
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(std::filesystem::exists(before + "/parley0"));
  });
}

}  // namespace
}  // namespace parley::preload
