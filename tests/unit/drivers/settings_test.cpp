// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What TcpHostOptions sets is what a host does, and what cannot be is refused by name.
#include <gtest/gtest.h>

#include <functional>

#include "parley/tcp_host.hpp"
#include "tests/unit/hang_limit.hpp"

namespace parley::settings_test {
namespace {

using namespace std::chrono_literals;

const Address anywhere = Address::loopback(Address::Family::v4, 0);

/// Turns the hosts until the first event of kind E at `at`; the others' requests are accepted.
template <class E>
std::optional<E> next(TcpHost& at, std::initializer_list<TcpHost*> hosts) {
  std::optional<E> found;
  for (const Instant end = at.now() + hang_limit; !found && at.now() < end;) {
    for (TcpHost* host : hosts) {
      host->run_once(1ms);
      while (auto event = host->cm().poll_event()) {
        if (auto* request = std::get_if<cm::ConnectRequest>(&*event)) (void)request->id.accept();
        if (auto* wanted = std::get_if<E>(&*event); wanted != nullptr && host == &at) found = std::move(*wanted);
      }
    }
  }
  return found;
}

TEST(Settings, LingerEndsTheWaitForAPeerThatKeepsItsHalfOpen) {
  const auto server = *TcpHost::open();
  const auto client = *TcpHost::open({.iwarp = {.linger = 30ms}});
  ASSERT_TRUE(server->cm().listen(anywhere));
  const auto up = next<cm::Listening>(*server, {server.get()});
  ASSERT_TRUE(up);
  auto id = *client->cm().connect(up->local, {.transport = mpa::Options{.rtr = mpa::Rtr::read}});
  ASSERT_TRUE(next<cm::Established>(*client, {client.get(), server.get()}));
  const Instant start = client->now();
  ASSERT_TRUE(id.disconnect());
  const auto ended = next<cm::Disconnected>(*client, {client.get()});  // the server has no turn any more
  ASSERT_TRUE(ended);
  EXPECT_FALSE(ended->graceful);
  EXPECT_EQ(ended->why.code, make_error_code(Errc::timed_out));
  EXPECT_GE(client->now() - start, 30ms);
  EXPECT_EQ(ended->why.received, "no FIN for 30 ms") << "the default is 5 s";
}

TEST(Settings, IdsAliveAreBounded) {
  const auto host = *TcpHost::open({.manager = {.endpoints_max = 1}});
  ASSERT_TRUE(host->cm().listen(anywhere));
  const auto second = host->cm().listen(anywhere);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error(), Errc::no_space);
  EXPECT_NE(second.error().sentence().find("1 ids are alive, which is endpoints_max"), std::string::npos);
}

TEST(Settings, TaggedOffsetsMayBeginAnywhere) {
  const auto host = *TcpHost::open({.iwarp = {.tagged_offset_base = 0x1000}});
  Bytes memory(64);
  EXPECT_EQ(host->device().reg_mr(*host->device().alloc_pd(), memory, Access::local_write)->addr, 0x1000U);
}

TEST(Settings, WhatCannotBeIsRefusedByName) {
  const auto sentence = [](const TcpHostOptions& options) {
    const auto host = TcpHost::open(options);
    if (host) return std::string("not refused");
    EXPECT_EQ(host.error(), Errc::invalid_argument);
    return host.error().sentence();
  };
  EXPECT_EQ(sentence({.receive_buffer = (1U << 30) + 1}),
            "TcpHostOptions::receive_buffer is 1073741825; at most 1073741824");
  EXPECT_EQ(sentence({.manager = {.endpoints_max = (1U << 24) + 1}}),
            "ManagerOptions::endpoints_max is 16777217; at most 16777216");
  EXPECT_EQ(sentence({.iwarp = {.linger = 0ns}}), "IwarpProviderOptions::linger is 0 ns; must be at least 1");
  EXPECT_EQ(sentence({.iwarp = {.half_close_grace = -1ns}}),
            "IwarpProviderOptions::half_close_grace is -1 ns; must be at least 0");
  EXPECT_EQ(sentence({.iwarp = {.echo_watch = -5ns}}), "IwarpProviderOptions::echo_watch is -5 ns; must be at least 0");
}

}  // namespace
}  // namespace parley::settings_test
