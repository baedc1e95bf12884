// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The daemon's control socket: its mode, its bounds, and clients that are silent or send garbage.
#include "drivers/ssa/control.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "drivers/clock.hpp"
#include "drivers/private_folder.hpp"

namespace parley::ssa_driver {
namespace ssa_control_test {
namespace {

using namespace std::chrono_literals;

struct SsaControl : testing::Test {
  std::unique_ptr<PrivateFolder> folder = PrivateFolder::create("parley-ssa-control-");
  std::string path = folder->path() + "/control";
  std::unique_ptr<ControlServer> server;

  void open() {
    auto opened =
        ControlServer::open(path, [](std::string_view question) { return "<" + std::string(question) + ">"; });
    ASSERT_TRUE(opened) << opened.error().message();
    server = std::move(*opened);
  }
  int connect() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  static bool is_closed(int fd) {
    char octet = 0;
    return ::recv(fd, &octet, 1, MSG_DONTWAIT) == 0;
  }
};

TEST_F(SsaControl, AnswersItsOwnerOnly) {
  open();
  struct stat is {};
  ASSERT_EQ(::stat(path.c_str(), &is), 0);
  EXPECT_EQ(is.st_mode & 0777U, 0600U);
  std::atomic<bool> over = false;
  std::thread serving([&] {
    while (!over) server->turn(clock_now());
  });
  const auto answer = ask_daemon(path, "status", 60s);
  over = true;
  serving.join();
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(*answer, "<status>");
}

TEST_F(SsaControl, TwoDaemonsDoNotShareASocketAndADeadOnesIsReplaced) {
  open();
  const auto second = ControlServer::open(path, [](std::string_view) { return std::string(); });
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error(), Errc::address_in_use);
  const std::string kept = path + "-kept";
  ASSERT_EQ(::rename(path.c_str(), kept.c_str()), 0);
  server.reset();
  ASSERT_EQ(::rename(kept.c_str(), path.c_str()), 0);
  open();
  server.reset();
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
  EXPECT_FALSE(ask_daemon(path, "status"));
}

TEST_F(SsaControl, AFileThatIsNoSocketIsLeftAlone) {
  folder->put("/control", "mine");
  EXPECT_FALSE(ControlServer::open(path, [](std::string_view) { return std::string(); }));
  EXPECT_EQ(::access(path.c_str(), F_OK), 0);
  EXPECT_FALSE(ControlServer::open(std::string(200, 'x'), [](std::string_view) { return std::string(); }));
}

TEST_F(SsaControl, ClientsThatAreSilentOrTooLongOrTooManyAreDropped) {
  open();
  const Instant now = clock_now();
  const int silent = connect(), garbage = connect();
  const std::string line(4 * ControlServer::request_max, 'x');
  ASSERT_EQ(::send(garbage, line.data(), line.size(), 0), static_cast<ssize_t>(line.size()));
  for (int i = 0; i < 8; ++i) server->turn(now);
  EXPECT_EQ(server->refused(), 1U);
  server->turn(now + ControlServer::client_time);
  EXPECT_TRUE(is_closed(silent));
  EXPECT_EQ(server->refused(), 2U);
  std::vector<int> many;
  for (std::size_t i = 0; i < ControlServer::clients_max + 1; ++i) {
    many.push_back(connect());
    server->turn(now);
  }
  EXPECT_EQ(server->refused(), 3U);
  EXPECT_TRUE(is_closed(many.back()));
  for (const int fd : many) ::close(fd);
  ::close(silent);
  ::close(garbage);
}

TEST_F(SsaControl, AServerRemovesOnlyItsOwnSocket) {
  open();
  ASSERT_EQ(::unlink(path.c_str()), 0);
  folder->put("/control", "another's");
  server.reset();
  EXPECT_EQ(::access(path.c_str(), F_OK), 0);
}

TEST_F(SsaControl, ADaemonThatIsStoppedIsGivenUpWhateverItsQueueHas) {
  open();
  std::vector<int> queue;
  for (std::size_t i = 0; i < ControlServer::clients_max + 1; ++i) queue.push_back(connect());
  for (int i = 0; i < 2; ++i) {
    const auto answer = ask_daemon(path, "status", 20ms);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error(), Errc::timed_out);
  }
  for (const int fd : queue) ::close(fd);
}

TEST_F(SsaControl, ADaemonThatTricklesIsGivenUpAtTheDeadline) {
  open();
  std::atomic<bool> over = false;
  std::thread trickling([&] {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string other = path + "-other";
    std::memcpy(address.sun_path, other.data(), other.size());
    const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    ::listen(listener, 1);
    const int client = ::accept(listener, nullptr, nullptr);
    while (!over && ::send(client, "x", 1, MSG_NOSIGNAL) == 1) ::usleep(1000);
    ::close(client);
    ::close(listener);
  });
  while (::access((path + "-other").c_str(), F_OK) != 0) std::this_thread::yield();
  Result<std::string> answer = fail(Errc::refused);
  // The socket may not listen yet.
  do answer = ask_daemon(path + "-other", "status", 50ms);
  while (!answer && answer.error() == std::errc::connection_refused);
  over = true;
  trickling.join();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error(), Errc::timed_out);
}

TEST_F(SsaControl, WithoutDescriptorsTheListenerIsLeftOutForAWhile) {
  open();
  const int client = connect();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{3, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Instant now = clock_now();
  server->turn(now);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  std::vector<pollfd> polls;
  server->add_to(polls);
  EXPECT_TRUE(polls.empty());
  const Instant later = server->next_deadline();
  EXPECT_GT(later, now);
  server->turn(later);
  server->add_to(polls);
  EXPECT_EQ(polls.size(), 2U) << "the listener and the client";
  ::close(client);
}

}  // namespace
}  // namespace ssa_control_test
}  // namespace parley::ssa_driver
