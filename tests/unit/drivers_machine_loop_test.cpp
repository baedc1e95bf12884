// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Scripts over real sockets: the same Stage that lives in the simulator, driven by MachineLoop.
#include "drivers/asio/machine_loop.hpp"

#include <gtest/gtest.h>

#include "peer/stage.hpp"

namespace parley::asio_driver {
namespace {

using namespace std::chrono_literals;
using peer::Line;
using peer::Stage;
using peer::Task;

Task<void> echo(Stage& stage, std::optional<Address>& at, bool& finished) {
  at = co_await stage.listen(Address::v4(127, 0, 0, 1, 0), 5s);
  Line* line = co_await stage.accept(5s);
  if (line == nullptr) co_return;
  while (!line->ended()) {
    co_await stage.more(*line, 0, 5s);
    const Bytes said(line->unread().begin(), line->unread().end());
    line->take(said.size());
    line->send(said);
  }
  line->fin();
  finished = line->fin_seen();
}

Task<void> ask(Stage& stage, const std::optional<Address>& at, Bytes& answer, bool& finished) {
  co_await stage.until([&at] { return at.has_value(); }, 5s);
  Line* line = co_await stage.connect(*at, 5s);
  if (line == nullptr) co_return;
  for (int i = 0; i < 100; ++i) line->send(Bytes(10'000, static_cast<std::uint8_t>(i)));
  line->fin();
  co_await stage.end(*line, 5s);
  answer.assign(line->unread().begin(), line->unread().end());
  finished = line->fin_seen();
}

void run(MachineLoop& loop, Stage& stage, Task<void> script) { stage.start(loop.now(), std::move(script)); }

TEST(MachineLoop, CarriesScriptsOverSockets) {
  Stage server, client;
  auto server_loop = MachineLoop::open(server);
  auto client_loop = MachineLoop::open(client);
  ASSERT_TRUE(server_loop && client_loop);
  std::optional<Address> at;
  bool server_done = false, client_done = false;
  Bytes answer;
  run(**server_loop, server, echo(server, at, server_done));
  run(**client_loop, client, ask(client, at, answer, client_done));
  const Instant limit = (*client_loop)->now() + 20s;
  while (!(server.done() && client.done()) && (*client_loop)->now() < limit) {
    (*server_loop)->run_once(1ms);
    (*client_loop)->run_once(1ms);
  }
  EXPECT_TRUE(server_done && client_done);
  ASSERT_EQ(answer.size(), 1'000'000U);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(answer[i * 10'000 + 9'999], i);
}

TEST(MachineLoop, TellsWhyAConnectionCouldNotBeHad) {
  Stage client;
  auto loop = MachineLoop::open(client);
  ASSERT_TRUE(loop);
  const auto nobody = [](Stage& stage) -> Task<void> {
    // Port 1 of the loopback address: nothing listens there.
    Line* line = co_await stage.connect(Address::v4(127, 0, 0, 1, 1), 5s);
    EXPECT_EQ(line, nullptr);
  };
  run(**loop, client, nobody(client));
  const Instant limit = (*loop)->now() + 10s;
  while (!client.done() && (*loop)->now() < limit) (*loop)->run_once(10ms);
  EXPECT_TRUE(client.done());
  EXPECT_FALSE(client.why().empty());
}

TEST(MachineLoop, RefusesOptionsThatCannotWork) {
  Stage stage;
  TcpHostOptions none;
  none.streams_max = 0;
  EXPECT_FALSE(MachineLoop::open(stage, none));
  TcpHostOptions odd;
  odd.congestion = "no-such-algorithm";
  EXPECT_FALSE(MachineLoop::open(stage, odd));
}

}  // namespace
}  // namespace parley::asio_driver
