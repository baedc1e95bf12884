// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Two hosts in the program's own io_context, each in a coroutine: a server that echoes, and a client that sends three
// messages and waits for each.
#include <parley/asio.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "echo.hpp"

namespace {

namespace asio = boost::asio;
using asio::use_awaitable;

asio::awaitable<void> serve(echo::End& server) {
  parley::AsioHost loop(co_await asio::this_coro::executor, *server.host);
  server.on_message = [&](std::string_view text) { server.send(text); };
  while (!server.over) {
    co_await loop.async_turn(use_awaitable);
    server.drain();
  }
}

asio::awaitable<void> ask(echo::End& client, parley::Address to, int& echoed) {
  parley::AsioHost loop(co_await asio::this_coro::executor, *client.host);
  client.id = echo::must(client.host->cm().connect(
      to, {.transport = parley::mpa::Options{.rtr = parley::mpa::Rtr::read}, .qp = client.qp()}));
  client.receive();
  while (!client.established) client.handle(co_await loop.async_wait_event(use_awaitable));

  client.on_message = [&](std::string_view text) {
    std::printf("echoed: %.*s\n", static_cast<int>(text.size()), text.data());
    ++echoed;
  };
  for (int i = 0; i < 3; ++i) {
    client.send("message " + std::to_string(i + 1));
    while (echoed == i) {
      co_await loop.async_turn(use_awaitable);
      client.drain();
    }
  }
  echo::must(client.id.disconnect());
  while (!client.over) client.handle(co_await loop.async_wait_event(use_awaitable));
}

}  // namespace

int main() {
  echo::End server, client;
  asio::io_context context;
  int echoed = 0;
  echo::must(server.host->cm().listen(parley::Address::loopback(parley::Address::Family::v4, 0)));
  while (server.listening.port == 0) {
    server.host->run_once(parley::Duration{});
    server.drain();
  }
  asio::co_spawn(context, serve(server), asio::detached);
  asio::co_spawn(context, ask(client, server.listening, echoed), asio::detached);
  context.run();
  std::printf("%d came back\n", echoed);
  return echoed == 3 ? 0 : 1;
}
