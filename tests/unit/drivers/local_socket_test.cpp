// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Names at which a process listens: what is replaced and what is refused, modes, and what is left at the end.
#include "drivers/asio/local_socket.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "drivers/asio/replacement.hpp"
#include "drivers/private_folder.hpp"

namespace parley {
namespace local_socket_test {
namespace {

struct LocalSocket : testing::Test {
  std::unique_ptr<PrivateFolder> folder = PrivateFolder::create("parley-local-");
  std::string place = folder->path() + "/sock";

  static Result<LocalListener> open(const std::string& path, mode_t mode = 0600, std::string_view link = {}) {
    return LocalListener::open(path, {.type = SOCK_SEQPACKET, .mode = mode, .link_target = link});
  }
  static bool is_refused(const Result<LocalListener>& result, Errc why) { return !result && result.error() == why; }
  static bool is_there(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }
};

TEST_F(LocalSocket, TheFileHasItsModeAndGoesWithTheListenerButTheLockStays) {
  for (const mode_t mode : {0600, 0666}) {
    const mode_t before = ::umask(0022);
    const auto listener = open(place, mode);
    const mode_t after = ::umask(before);
    EXPECT_EQ(after, 0022U);
    ASSERT_TRUE(listener) << listener.error().message();
    struct stat s {};
    ASSERT_EQ(::lstat(place.c_str(), &s), 0);
    EXPECT_EQ(s.st_mode & 0777U, mode);
    EXPECT_TRUE(is_refused(open(place), Errc::address_in_use)) << "it does not listen yet, but has the lock";
    ASSERT_EQ(::listen(listener->fd(), 1), 0);
    const asio_driver::Descriptor client(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    EXPECT_EQ(SocketAddress::of(place)->connect(client.fd), 0);
  }
  EXPECT_FALSE(is_there(place));
  EXPECT_TRUE(is_there(place + ".lock"));
}

TEST_F(LocalSocket, AListenerThatWasMovedKeepsItsName) {
  auto first = open(place);
  ASSERT_TRUE(first);
  {
    const LocalListener second = std::move(*first);
    EXPECT_TRUE(is_there(place));
  }
  EXPECT_FALSE(is_there(place));
}

TEST_F(LocalSocket, OnlyADeadSocketOrTheNamedLinkIsReplaced) {
  const auto dead = bind_name(*SocketAddress::of(place), SOCK_SEQPACKET, 0600);
  ASSERT_TRUE(dead);
  ::close(*dead);
  EXPECT_TRUE(open(place));
  std::ofstream(place) << "text";
  EXPECT_TRUE(is_refused(open(place), Errc::address_in_use));
  EXPECT_TRUE(is_there(place));
  folder->link("/link", "old.sock");
  EXPECT_TRUE(is_refused(open(folder->path() + "/link"), Errc::address_in_use));
  EXPECT_TRUE(is_refused(open(folder->path() + "/link", 0600, "other.sock"), Errc::address_in_use));
  EXPECT_TRUE(open(folder->path() + "/link", 0600, "old.sock"));
}

TEST_F(LocalSocket, ALockThatIsALinkIsNotFollowed) {
  folder->link("/sock.lock", folder->path() + "/elsewhere");
  EXPECT_FALSE(open(place));
  EXPECT_FALSE(is_there(folder->path() + "/elsewhere"));
  EXPECT_FALSE(is_there(place));
}

TEST_F(LocalSocket, APathHasALength) {
  EXPECT_TRUE(is_refused(open({}), Errc::invalid_argument));
  EXPECT_TRUE(is_refused(open(std::string(108, 'x')), Errc::invalid_argument));
  EXPECT_TRUE(SocketAddress::of(std::string(107, 'x')));
}

TEST_F(LocalSocket, AReplacementIsSeenWholeOrNotAtAll) {
  const std::string inner = folder->path() + "/inner", file = inner + "/file";
  ASSERT_EQ(::mkdir(inner.c_str(), 0700), 0);
  const auto content = [&] {
    std::ifstream stream(file);
    std::string out;
    std::getline(stream, out);
    return out;
  };
  {
    Replacement fresh(file);
    ASSERT_TRUE(fresh.write("one", 0640));
    EXPECT_FALSE(is_there(file));
    ASSERT_TRUE(fresh.close() && fresh.take_name());
  }
  EXPECT_EQ(content(), "one");
  struct stat s {};
  ASSERT_EQ(::stat(file.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777U, 0640U);
  { EXPECT_TRUE(Replacement(file).write("two", 0600)); }
  EXPECT_EQ(content(), "one");
  ASSERT_EQ(::unlink(file.c_str()), 0);
  EXPECT_EQ(::rmdir(inner.c_str()), 0) << "no other file is left";
  EXPECT_FALSE(Replacement(file).write("three", 0600)) << "its folder is gone";
}

}  // namespace
}  // namespace local_socket_test
}  // namespace parley
