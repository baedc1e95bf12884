// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Scripts over real sockets: the same ScriptedPeer that lives in the simulator, driven by MachineLoop.
#include "drivers/asio/machine_loop.hpp"

#include <gtest/gtest.h>

#include "tester/scripted_peer.hpp"
#include "tests/unit/hang_limit.hpp"

namespace parley::asio_driver {
namespace {

using namespace std::chrono_literals;
using tester::ScriptedPeer;
using tester::Task;
using tester::TcpStream;

Task<void> echo(ScriptedPeer& peer, std::optional<Address>& at, bool& finished) {
  at = co_await peer.listen(Address::v4(127, 0, 0, 1, 0), hang_limit);
  TcpStream* stream = co_await peer.accept(hang_limit);
  if (stream == nullptr) co_return;
  while (!stream->ended()) {
    co_await peer.more(*stream, 0, hang_limit);
    const Bytes said(stream->unread().begin(), stream->unread().end());
    stream->take(said.size());
    stream->send(said);
  }
  stream->fin();
  finished = stream->fin_seen();
}

Task<void> ask(ScriptedPeer& peer, const std::optional<Address>& at, Bytes& answer, bool& finished) {
  co_await peer.until([&at] { return at.has_value(); }, hang_limit);
  TcpStream* stream = co_await peer.connect(*at, hang_limit);
  if (stream == nullptr) co_return;
  for (int i = 0; i < 100; ++i) stream->send(Bytes(10'000, static_cast<std::uint8_t>(i)));
  stream->fin();
  co_await peer.end(*stream, hang_limit);
  answer.assign(stream->unread().begin(), stream->unread().end());
  finished = stream->fin_seen();
}

void run(MachineLoop& loop, ScriptedPeer& peer, Task<void> script) { peer.start(loop.now(), std::move(script)); }

TEST(MachineLoop, CarriesScriptsOverSockets) {
  ScriptedPeer server, client;
  auto server_loop = MachineLoop::open(server);
  auto client_loop = MachineLoop::open(client);
  ASSERT_TRUE(server_loop && client_loop);
  std::optional<Address> at;
  bool server_done = false, client_done = false;
  Bytes answer;
  run(**server_loop, server, echo(server, at, server_done));
  run(**client_loop, client, ask(client, at, answer, client_done));
  const Instant limit = (*client_loop)->now() + hang_limit;
  while (!(server.done() && client.done()) && (*client_loop)->now() < limit) {
    (*server_loop)->run_once(1ms);
    (*client_loop)->run_once(1ms);
  }
  EXPECT_TRUE(server_done && client_done);
  ASSERT_EQ(answer.size(), 1'000'000U);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(answer[i * 10'000 + 9'999], i);
}

TEST(MachineLoop, TellsWhyAConnectionCouldNotBeHad) {
  ScriptedPeer client;
  auto loop = MachineLoop::open(client);
  ASSERT_TRUE(loop);
  const auto nobody = [](ScriptedPeer& peer) -> Task<void> {
    // Port 1 of the loopback address: nothing listens there.
    TcpStream* stream = co_await peer.connect(Address::v4(127, 0, 0, 1, 1), hang_limit);
    EXPECT_EQ(stream, nullptr);
  };
  run(**loop, client, nobody(client));
  const Instant limit = (*loop)->now() + hang_limit;
  while (!client.done() && (*loop)->now() < limit) (*loop)->run_once(10ms);
  EXPECT_TRUE(client.done());
  EXPECT_FALSE(client.why().empty());
}

TEST(MachineLoop, RefusesOptionsThatCannotWork) {
  ScriptedPeer peer;
  TcpHostOptions none;
  none.streams_max = 0;
  EXPECT_FALSE(MachineLoop::open(peer, none));
  TcpHostOptions odd;
  odd.congestion = "no-such-algorithm";
  EXPECT_FALSE(MachineLoop::open(peer, odd));
}

}  // namespace
}  // namespace parley::asio_driver
