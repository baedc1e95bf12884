// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Negotiations over streams: listens for peers, dials others, tries again and elsewhere, and tells how each one ended. A
// StreamMachine, so that it runs over sockets, in the simulator and in tests.
//
// dialling | input                          | becomes  | what happens
// ---------+--------------------------------+----------+---------------------------------------------------------------
// opening  | connected                      | talking  | a variant is made; its Hello leaves
// opening  | refused, time limit            | waiting  | the next backup at once, or all again after the back-off
// talking  | the session fails in transport | waiting  | as above, unless the stage info was over: then it is final
// talking  | the session ends otherwise     | over     | Ended
// waiting  | the wait is over               | opening  |
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <variant>

#include "base/stream_port.hpp"
#include "cm/neg/session.hpp"
#include "cm/retries.hpp"
#include "parley/cm.hpp"

namespace parley::neg {

struct Dial {
  Request request;
  Config config{};
  Address server;
  std::vector<Address> backups{};  ///< at most cm::backups_max
  cm::Retry retry{};
  SessionOptions session{};
  Duration connect_timeout = std::chrono::seconds(10);  ///< for each address; 0: the system's
};

struct PeersOptions {
  SessionOptions session{};            ///< of the sessions that others begin
  std::uint32_t sessions_max = 1024;   ///< that others have begun and that are not over
  std::uint64_t seed = 0;              ///< of the random part of waits
};

class Peers final : public StreamMachine {
 public:
  using DialId = std::uint64_t;
  struct Listening {
    Address local;
  };
  struct ListenFailed {
    std::error_code why;
  };
  /// Another attempt follows.
  struct Retrying {
    DialId dial = 0;
    Failure why;
    Address failed, next;
    Duration wait{};
  };
  struct Ended {
    DialId dial = 0;  ///< 0: the peer had begun it
    Address peer;
    Request request;
    std::optional<Failure> failure;    ///< none: all stages are over
    std::uint32_t attempts = 1;
    std::deque<Exchange> history;      ///< of the last attempt
    std::unique_ptr<Variant> variant;  ///< null where none was made
  };
  using Event = std::variant<Listening, ListenFailed, Retrying, Ended>;

  Peers(const Framework& framework, const PeersOptions& options);
  ~Peers() override;

  /// Answered by Listening or ListenFailed.
  void listen(const Address& local);
  /// Answered by Ended. Errors: those of Framework::make(); configuration_error (backups, retry, time limits).
  Outcome<DialId> dial(Instant now, Dial dial);
  std::optional<Event> poll_event();

  void handle_listening(Instant now, StreamId listener, const Address& local) override;
  void handle_listen_failed(Instant now, StreamId listener, std::error_code why) override;
  void handle_connected(Instant now, StreamId stream, const StreamInfo& info) override;
  void handle_connect_failed(Instant now, StreamId stream, std::error_code why) override;
  bool handle_accepted(Instant now, StreamId listener, StreamId stream, const StreamInfo& info) override;
  void handle_bytes(Instant now, StreamId stream, ConstBytes in) override;
  void handle_end(Instant now, StreamId stream, StreamEnd end) override;
  void handle_deadline(Instant now) override;
  bool poll_command(StreamCommand& out) override;
  StreamId poll_ready() override;
  std::size_t gather(StreamId stream, std::span<ConstBytes> out) override;
  void sent(Instant now, StreamId stream, std::size_t n) override;
  Instant next_deadline() const override;

 private:
  struct Talk;
  struct Dialling;
  Dialling* dialling(DialId id);
  void open(Instant now, Dialling& d, const Address& peer);
  void attempt_failed(Instant now, Dialling& d, Failure why, std::error_code code, cm::Stage stage);
  void settle(Instant now, StreamId stream);
  void ended(Instant now, StreamId stream);

  const Framework& framework_;
  PeersOptions options_;
  cm::Retries retries_;
  std::map<StreamId, std::unique_ptr<Talk>> talks_;          // at most sessions_max, and one per dial
  std::map<DialId, std::unique_ptr<Dialling>> dialling_;
  std::deque<StreamCommand> commands_;  // at most two per stream
  std::deque<StreamId> ready_;          // each stream once
  std::deque<Event> events_;
  StreamId next_stream_ = 1, listener_ = 0;
  DialId next_dial_ = 1;
  std::uint32_t accepted_ = 0;
};

}  // namespace parley::neg
