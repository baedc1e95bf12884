// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Metrics over HTTP (RFC 9110, RFC 9112): answers GET /metrics and rejects everything else, one request per connection.
// This is a StreamMachine, so that the driver of the connections drives it too, and no client can block it:
//
// State    | input                                  | next     | what happens
// ---------|----------------------------------------|----------|-------------------------------------------------
// reading  | header not complete, within its bound  | reading  |
// reading  | header complete, or beyond its bound   | writing  | the answer is created
// reading  | FIN                                    | gone     | closed
// writing  | all written                            | leaving  | FIN; further input is discarded
// leaving  | FIN                                    | gone     | closed
// any      | deadline                               | gone     | reset
// any      | a newcomer connection without room     | gone     | the oldest connection is reset
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "base/stream_port.hpp"

namespace parley::ops {

class MetricsSource;

struct HttpLimits {
  std::size_t connections_max = 16;
  std::size_t header_max = 8192;                      ///< octets of a request
  Duration connection_max = std::chrono::seconds(5);  ///< from accept to the end
};

class MetricsServer final : public StreamMachine {
 public:
  /// `metrics` must outlive this object.
  explicit MetricsServer(const MetricsSource& metrics, const HttpLimits& limits = {})
      : metrics_(metrics), limits_(limits) {}

  /// Call it once. listening() or failure() has the result.
  void listen(const Address& local);
  const std::optional<Address>& listening() const { return listening_; }
  const std::error_code& failure() const { return failure_; }
  std::size_t connections() const { return clients_.size(); }

  void handle_listening(Instant now, StreamId listener, const Address& local) override;
  void handle_listen_failed(Instant now, StreamId listener, std::error_code why) override;
  void handle_connected(Instant, StreamId, const StreamInfo&) override {}
  void handle_connect_failed(Instant, StreamId, std::error_code) override {}
  bool handle_accepted(Instant now, StreamId listener, StreamId stream, const StreamInfo& info) override;
  bool handle_no_room(Instant now, StreamId listener) override;
  void handle_bytes(Instant now, StreamId stream, ConstBytes in) override;
  void handle_end(Instant now, StreamId stream, StreamEnd end) override;
  void handle_deadline(Instant now) override;
  bool poll_command(StreamCommand& out) override;
  StreamId poll_ready() override;
  std::size_t gather(StreamId stream, std::span<ConstBytes> out) override;
  void sent(Instant now, StreamId stream, std::size_t n) override;
  Instant next_deadline() const override;

 private:
  struct Client {
    Instant until{};
    std::string in;          ///< at most header_max
    Bytes out;               ///< the answer: empty while reading
    std::size_t out_at = 0;  ///< octets of it that were written
    bool peer_ended = false;
  };
  using Clients = std::map<StreamId, Client>;  ///< at most connections_max

  void answer(StreamId stream, Client& client);
  void drop(Clients::iterator at, StreamCommand::Kind how);
  Clients::iterator oldest();

  const MetricsSource& metrics_;
  HttpLimits limits_;
  std::optional<Address> listening_;
  std::error_code failure_;
  Clients clients_;
  std::deque<StreamCommand> commands_;  ///< at most three for each client between two drains
  std::deque<StreamId> ready_;          ///< at most one for each client
};

/// The answer to the part of a request that has arrived. Empty while the header is incomplete and within `header_max`.
std::string http_answer(std::string_view request, std::size_t header_max, const MetricsSource& metrics);

}  // namespace parley::ops
