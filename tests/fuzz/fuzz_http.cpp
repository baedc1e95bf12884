// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Any octets as requests for metrics, from several clients that come, say a part, read a part and leave in any order: no
// more clients than there may be, each answer is whole and one of a few, it does not depend on how its request was cut,
// and when all time is over nobody is left.
#include <array>
#include <map>
#include <string>

#include "ops/http/metrics_server.hpp"
#include "ops/metrics/metrics.hpp"
#include "tests/fuzz/draw.hpp"

namespace parley::fuzz {
namespace {

using ops::HttpLimits;
using ops::MetricsServer;

struct Client {
  Bytes said;  ///< until it was answered
  std::string heard;
  bool over = false;
};

class Driver {
 public:
  explicit Driver(Draw& draw) : draw_(draw) {}

  void run() {
    while (!draw_.empty()) {
      step(draw_.u8());
      drain();
      PARLEY_ASSERT(server_.connections() <= limits_.connections_max);
    }
    now_ += limits_.connection_max;
    server_.handle_deadline(now_);
    drain();
    PARLEY_ASSERT(server_.connections() == 0);
    PARLEY_ASSERT(server_.next_deadline() == never);
    for (const auto& [id, client] : clients_) judge(client);
  }

 private:
  void step(std::uint8_t what) {
    const StreamId id = 2 + 2 * (draw_.u8() % 8) + 16 * (clients_.size() / 8);
    const auto at = clients_.find(id);
    const bool known = at != clients_.end() && !at->second.over;
    if (what % 8 == 0) {
      now_ += std::chrono::milliseconds(draw_.u8() * 20);
      server_.handle_deadline(now_);
    } else if (!known && at == clients_.end()) {
      clients_[id].over = !server_.handle_accepted(now_, 1, id, {});
    } else if (known && what % 8 == 1) {
      const StreamEnd end = draw_.bit() ? StreamEnd::fin : StreamEnd::rst;
      server_.handle_end(now_, id, end);
      at->second.over = end == StreamEnd::rst;
    } else if (known) {
      const ConstBytes said = draw_.bytes(what);
      if (at->second.heard.empty()) at->second.said.insert(at->second.said.end(), said.begin(), said.end());
      server_.handle_bytes(now_, id, said);
    }
  }

  void drain() {
    StreamCommand command;
    for (;;) {
      while (server_.poll_command(command))
        if (command.kind == StreamCommand::Kind::close || command.kind == StreamCommand::Kind::reset)
          clients_[command.id].over = true;
      const StreamId id = server_.poll_ready();
      if (id == 0) return;
      write(id);
    }
  }

  void write(StreamId id) {
    std::array<ConstBytes, 2> pieces;
    while (server_.gather(id, pieces) > 0) {
      PARLEY_ASSERT(!pieces[0].empty() && !clients_[id].over);
      const std::size_t n = std::min<std::size_t>(pieces[0].size(), 4096);
      clients_[id].heard.append(pieces[0].begin(), pieces[0].begin() + static_cast<std::ptrdiff_t>(n));
      server_.sent(now_, id, n);
    }
  }

  void judge(const Client& client) const {
    if (client.heard.empty()) return;
    const std::string said(client.said.begin(), client.said.end());
    const std::string whole = ops::http_answer(said.substr(0, limits_.header_max), limits_.header_max, metrics_);
    PARLEY_ASSERT(client.heard == whole);
    PARLEY_ASSERT(client.heard.starts_with("HTTP/1.1 "));
    const std::size_t head = client.heard.find("\r\n\r\n");
    PARLEY_ASSERT(head != std::string::npos);
    const std::size_t length = client.heard.find("Content-Length: ");
    const std::size_t body = client.heard.size() - head - 4;
    PARLEY_ASSERT(body == 0 || std::stoul(client.heard.substr(length + 16)) == body);
  }

  Draw& draw_;
  HttpLimits limits_{.connections_max = 3, .header_max = 64, .connection_max = std::chrono::seconds(5)};
  ops::Metrics metrics_{"fuzz"};
  MetricsServer server_{metrics_, limits_};
  Instant now_{std::chrono::seconds(1)};
  std::map<StreamId, Client> clients_;
};

}  // namespace
}  // namespace parley::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parley::fuzz::Draw draw({data, size});
  parley::fuzz::Driver(draw).run();
  return 0;
}
