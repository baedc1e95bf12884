// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Metrics over HTTP against clients of every kind: whole, halved, slow, loud, many, and gone.
#include "ops/http/metrics_server.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "ops/metrics/metrics.hpp"

namespace parley::ops {
namespace {

using namespace std::chrono_literals;
using Kind = StreamCommand::Kind;

ConstBytes octets(const std::string& text, Bytes& store) {
  store.assign(text.begin(), text.end());
  return store;
}

/// The machine with a driver that takes so many octets at once.
struct Served {
  explicit Served(HttpLimits limits = {}) : server(metrics, limits) {
    server.listen(Address::v4(127, 0, 0, 1, 9464));
    drain();
    server.handle_listening(now, 1, Address::v4(127, 0, 0, 1, 9464));
  }
  StreamId connect() {
    const StreamId id = next += 2;
    taken = server.handle_accepted(now, 1, id, {});
    drain();
    return id;
  }
  void say(StreamId id, const std::string& text) {
    Bytes store;
    server.handle_bytes(now, id, octets(text, store));
    drain();
  }
  void drain() {
    StreamCommand command;
    for (;;) {
      while (server.poll_command(command)) commands[command.id].push_back(command.kind);
      const StreamId ready = server.poll_ready();
      if (ready == 0) return;
      write(ready);
    }
  }
  void write(StreamId id) {
    for (;;) {
      std::array<ConstBytes, 4> pieces;
      if (server.gather(id, pieces) == 0) return;
      const std::size_t n = std::min(window, pieces[0].size());
      heard[id].append(pieces[0].begin(), pieces[0].begin() + static_cast<std::ptrdiff_t>(n));
      server.sent(now, id, n);
      if (n < pieces[0].size() && one_write) return;
    }
  }
  std::string status(StreamId id) { return heard[id].substr(0, heard[id].find('\r')); }
  std::string ask(const std::string& text) {
    const StreamId id = connect();
    say(id, text);
    return status(id);
  }

  Metrics metrics{"1"};
  MetricsServer server;
  Instant now{100s};
  StreamId next = 0;
  bool taken = false, one_write = false;
  std::size_t window = 1000;
  std::map<StreamId, std::string> heard;
  std::map<StreamId, std::vector<Kind>> commands;
};

const std::string good = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

TEST(MetricsHttp, AnswersWithTheMetricsAndCloses) {
  Served s;
  const StreamId id = s.connect();
  s.say(id, good);
  const std::string text = s.metrics.text();
  EXPECT_EQ(s.heard[id],
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: " +
                std::to_string(text.size()) + "\r\nConnection: close\r\n\r\n" + text);
  EXPECT_EQ(s.commands[id], std::vector{Kind::shutdown});
  EXPECT_EQ(s.server.connections(), 1U);  // until the peer's FIN
  s.server.handle_end(s.now, id, StreamEnd::fin);
  s.drain();
  EXPECT_EQ(s.commands[id], (std::vector{Kind::shutdown, Kind::close}));
  EXPECT_EQ(s.server.connections(), 0U);
  EXPECT_EQ(s.server.next_deadline(), never);
}

TEST(MetricsHttp, TakesARequestInPiecesOfAnySize) {
  for (std::size_t size = 1; size < good.size(); ++size) {
    Served s;
    const StreamId id = s.connect();
    for (std::size_t at = 0; at < good.size(); at += size) {
      EXPECT_EQ(s.heard[id], "") << at;
      s.say(id, good.substr(at, size));
    }
    EXPECT_EQ(s.status(id), "HTTP/1.1 200 OK") << size;
  }
}

TEST(MetricsHttp, TakesWhatHttpAllows) {
  Served s;
  EXPECT_EQ(s.ask("GET /metrics HTTP/1.0\r\n\r\n"), "HTTP/1.1 200 OK");
  EXPECT_EQ(s.ask("GET /metrics?x=y HTTP/1.1\nHost: x\n\n"), "HTTP/1.1 200 OK");
  EXPECT_EQ(s.ask("GET /metrics HTTP/1.1\nHost: x\n\r\n"), "HTTP/1.1 200 OK");
  EXPECT_EQ(s.ask("\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 OK");
  EXPECT_EQ(s.ask("GET http://127.0.0.1:9464/metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 OK");
  EXPECT_EQ(s.ask(good + "GET /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 OK");
}

TEST(MetricsHttp, RefusesAllElse) {
  Served s;
  EXPECT_EQ(s.ask("GET / HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
  EXPECT_EQ(s.ask("GET /metrics/ HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
  EXPECT_EQ(s.ask("GET //metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
  EXPECT_EQ(s.ask("GET http://metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
  EXPECT_EQ(s.ask("GET ?/metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
  EXPECT_EQ(s.ask("POST /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 Method Not Allowed");
  EXPECT_EQ(s.ask("GET /metrics HTTP/2.0\r\n\r\n"), "HTTP/1.1 505 HTTP Version Not Supported");
  for (const std::string line :
       {"GET", "GET /metrics", "GET /a b HTTP/1.1", "G\tT /metrics HTTP/1.1", "G:T / HTTP/1.1", "GET  HTTP/1.1",
        " /metrics HTTP/1.1", "GET /metrics FTP/1.1", "GET /\x01 HTTP/1.1", "\x16\x03\x01\x02"})
    EXPECT_EQ(s.ask(line + "\r\n\r\n"), "HTTP/1.1 400 Bad Request") << line;
}

TEST(MetricsHttp, AnswersToHeadHaveNoContent) {
  Served s;
  const StreamId id = s.connect();
  s.say(id, "HEAD /metrics HTTP/1.1\r\n\r\n");
  EXPECT_EQ(s.status(id), "HTTP/1.1 405 Method Not Allowed");
  EXPECT_TRUE(s.heard[id].ends_with("\r\n\r\n")) << s.heard[id];
  EXPECT_NE(s.heard[id].find("\r\nAllow: GET\r\n"), std::string::npos);
}

TEST(MetricsHttp, AHeaderWithoutEndIsRefusedAtItsBound) {
  Served s({.header_max = 100});
  const StreamId id = s.connect();
  s.say(id, "GET /metrics HTTP/1.1\r\nX: " + std::string(73, 'x'));
  EXPECT_EQ(s.heard[id], "");
  s.say(id, "x");
  EXPECT_EQ(s.status(id), "HTTP/1.1 431 Request Header Fields Too Large");
  s.say(id, std::string(1 << 20, 'x'));  // discarded
  EXPECT_EQ(s.commands[id], std::vector{Kind::shutdown});
  EXPECT_EQ(s.ask(std::string(100, '\n')), "HTTP/1.1 431 Request Header Fields Too Large");
  EXPECT_EQ(s.ask(std::string(1 << 20, '\0')), "HTTP/1.1 431 Request Header Fields Too Large");
}

TEST(MetricsHttp, AWholeHeaderBeyondTheBoundIsRefusedToo) {
  Served s({.header_max = good.size()});
  EXPECT_EQ(s.ask(good), "HTTP/1.1 200 OK");
  EXPECT_EQ(s.ask("GET /metrics HTTP/1.1\r\nHost: xy\r\n\r\n"), "HTTP/1.1 431 Request Header Fields Too Large");
}

TEST(MetricsHttp, OneRequestIsAnswered) {
  Served s;
  const StreamId id = s.connect();
  s.say(id, "GET / HTTP/1.1\r\n\r\n");
  const std::string first = s.heard[id];
  s.say(id, good);
  EXPECT_EQ(s.heard[id], first);
  EXPECT_EQ(s.commands[id], std::vector{Kind::shutdown});
}

TEST(MetricsHttp, WhoIsGoneBeforeTheAnswerLeavesIsNotWrittenTo) {
  Served s;
  const StreamId gone = s.connect();
  Bytes store;
  s.server.handle_bytes(s.now, gone, octets(good, store));
  s.server.handle_end(s.now, gone, StreamEnd::rst);
  EXPECT_EQ(s.server.poll_ready(), 0U);
}

TEST(MetricsHttp, WhoSaysNothingIsResetWhenItsTimeIsOver) {
  Served s({.connection_max = 5s});
  const StreamId silent = s.connect();
  s.now += 4s;
  const StreamId half = s.connect();
  s.say(half, "GET /metrics HT");
  EXPECT_EQ(s.server.next_deadline(), Instant{105s});
  s.now += 1s;
  s.server.handle_deadline(s.now);
  s.drain();
  EXPECT_EQ(s.commands[silent], std::vector{Kind::reset});
  EXPECT_TRUE(s.commands[half].empty());
  EXPECT_EQ(s.server.next_deadline(), Instant{109s});
}

TEST(MetricsHttp, WhoDoesNotReadIsResetToo) {
  Served s;
  s.window = 10;
  s.one_write = true;
  const StreamId id = s.connect();
  s.say(id, good);
  EXPECT_EQ(s.heard[id].size(), 10U);
  s.now += 6s;
  s.server.handle_deadline(s.now);
  s.drain();
  EXPECT_EQ(s.commands[id], std::vector{Kind::reset});
}

TEST(MetricsHttp, ASlowReaderGetsAllOfIt) {
  Served s;
  s.window = 1;
  s.one_write = true;
  const StreamId id = s.connect();
  s.say(id, good);
  s.server.handle_end(s.now, id, StreamEnd::fin);  // it sends no more, but it reads
  for (int i = 0; i < 100000 && s.server.connections() > 0; ++i) s.write(id);
  s.drain();
  EXPECT_TRUE(s.heard[id].ends_with(s.metrics.text()));
  EXPECT_EQ(s.commands[id], std::vector{Kind::close});
}

TEST(MetricsHttp, WhenAllPlacesAreTakenTheOldestMakesRoom) {
  Served s({.connections_max = 3});
  std::vector<StreamId> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(s.connect());
    s.now += 10ms;
  }
  s.say(ids[0], "GET ");
  EXPECT_EQ(s.ask(good), "HTTP/1.1 200 OK");
  EXPECT_EQ(s.commands[ids[0]], std::vector{Kind::reset});
  EXPECT_TRUE(s.commands[ids[1]].empty());
  EXPECT_EQ(s.server.connections(), 3U);
  EXPECT_TRUE(s.server.handle_no_room(s.now, 1));  // the driver has none
  s.drain();
  EXPECT_EQ(s.commands[ids[1]], std::vector{Kind::reset});
}

TEST(MetricsHttp, WhoLeavesEarlyLeavesNothingBehind) {
  Served s;
  for (const StreamEnd end : {StreamEnd::fin, StreamEnd::rst, StreamEnd::timeout}) {
    const StreamId id = s.connect();
    s.say(id, "GET /metrics HTTP/1.1\r\n");
    s.server.handle_end(s.now, id, end);
    s.drain();
    EXPECT_EQ(s.heard[id], "");
    EXPECT_EQ(s.server.connections(), 0U);
    s.say(id, "\r\n");
    s.server.handle_end(s.now, id, end);
    s.server.sent(s.now, id, 1);
    s.drain();
    EXPECT_EQ(s.commands[id].size(), end == StreamEnd::fin ? 1U : 0U);
  }
  EXPECT_FALSE(s.server.handle_no_room(s.now, 1));
}

TEST(MetricsHttp, APortInUseIsToldAsTheDriverTellsIt) {
  Served s;
  EXPECT_EQ(s.server.listening()->port, 9464);
  s.server.handle_listen_failed(s.now, 1, make_error_code(Errc::address_in_use));
  EXPECT_EQ(s.server.failure(), make_error_code(Errc::address_in_use));
}

}  // namespace
}  // namespace parley::ops
