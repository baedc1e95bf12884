// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Socket options that detect silent peers.
#include "drivers/asio/socket_end.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace parley::asio_driver {
namespace {

using namespace std::chrono_literals;

struct Socket {
  int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  Socket() = default;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { ::close(fd); }
  int option(int level, int name) const {
    int value = -1;
    socklen_t size = sizeof value;
    EXPECT_EQ(::getsockopt(fd, level, name, &value, &size), 0);
    return value;
  }
};

// The system looks once a second: the verdict has to lie within dead_after all the same.
TEST(SocketEnd, TheSystemIsGivenASecondLessThanDeadAfter) {
  struct Case {
    Duration keepalive, dead_after;
    int user_timeout, idle;  // ms, s: a second longer than `keepalive`, for a host that does not ask
  };
  for (const Case& c :
       {Case{5s, 12s, 11000, 6}, Case{1s, 3s, 2000, 2}, Case{1s, 1500ms, 750, 2}, Case{100ms, 300ms, 150, 2}}) {
    const Socket s;
    watch_peer(s.fd, c.keepalive, c.dead_after);
    EXPECT_EQ(s.option(IPPROTO_TCP, TCP_USER_TIMEOUT), c.user_timeout);
    EXPECT_EQ(s.option(IPPROTO_TCP, TCP_KEEPIDLE), c.idle);
    EXPECT_EQ(s.option(IPPROTO_TCP, TCP_KEEPINTVL), 1);
    EXPECT_EQ(s.option(SOL_SOCKET, SO_KEEPALIVE), 1);
  }
}

TEST(SocketEnd, APeerIsAskedAtOnceAndThenAsBefore) {
  const Socket s;
  watch_peer(s.fd, 4500ms, 12s);
  ask_peer(s.fd);
  EXPECT_EQ(s.option(IPPROTO_TCP, TCP_KEEPIDLE), 1);
  let_rest(s.fd, 4500ms);
  EXPECT_EQ(s.option(IPPROTO_TCP, TCP_KEEPIDLE), 6);
}

// Of an established stream only these are ends by the peer: the rest is what ICMP said before the time was up.
TEST(SocketEnd, AnErrorByIcmpMeansSilence) {
  for (const int error : {ECONNRESET, EPIPE}) EXPECT_FALSE(means_silence(error)) << error;
  for (const int error : {ETIMEDOUT, ENETUNREACH, EHOSTUNREACH, EHOSTDOWN, ENONET, ENOPROTOOPT, ECONNREFUSED,
                          EOPNOTSUPP, EMSGSIZE, EPROTO, EACCES})
    EXPECT_TRUE(means_silence(error)) << error;
}

TEST(SocketEnd, KeepalivesAreInWholeSeconds) {
  EXPECT_EQ(in_whole_seconds(0s), 0s);
  EXPECT_EQ(in_whole_seconds(1ms), 1s);
  EXPECT_EQ(in_whole_seconds(4500ms), 5s);
  EXPECT_EQ(in_whole_seconds(24h), 32766s);
}

TEST(SocketEnd, ZeroIsNever) {
  const Socket s;
  watch_peer(s.fd, 0s, 0s);
  EXPECT_EQ(s.option(IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
  EXPECT_EQ(s.option(SOL_SOCKET, SO_KEEPALIVE), 0);
}

}  // namespace
}  // namespace parley::asio_driver
