// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Negotiations over streams: listens for peers, dials others, retries and uses backup addresses, and reports how each ended. A
// StreamMachine, so it runs over sockets, in the simulator and in tests.
//
// dialling | input                          | becomes  | what happens
// ---------+--------------------------------+----------+---------------------------------------------------------------
// opening  | connected                      | talking  | a variant is created; its Hello is sent
// opening  | refused, time limit            | waiting  | the next backup at once, or all again after the back-off
// talking  | the session fails in transport | waiting  | as above, unless the stage info was over: then it is final
// talking  | the session ends otherwise     | over     | Ended
// waiting  | the wait is over               | opening  |
//
// A stream outlives its session until its remaining octets are sent and the peer has closed its half, or until `linger` has passed:
// an Abort must not be lost to the RST of a socket that is closed with unread octets.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "base/stream_port.hpp"
#include "cm/admission.hpp"
#include "cm/retries.hpp"
#include "parley/cm.hpp"
#include "parley/neg_tcp.hpp"

namespace parley::neg {

class Traced;

class Peers final : public StreamMachine {
 public:
  using DialId = neg::DialId;
  using Listening = neg::Listening;
  using ListenFailed = neg::ListenFailed;
  using Retrying = neg::Retrying;
  using Ended = neg::Ended;
  using Event = neg::Event;

  /// `framework` is not owned and must outlive this object.
  Peers(const Framework& framework, const PeersOptions& options);
  ~Peers() override;

  /// Completes with Listening or ListenFailed. One address at a time. Without offers: every variant that is not raw, with default
  /// parameters. Errors: those of Framework::find(); configuration_error (a second listener; a raw variant together with others,
  /// because a peer cannot name one).
  Outcome<void> listen(const Address& local, std::vector<Offer> offers = {});
  void stop_listening();
  /// Completes with exactly one Ended. Errors: those of Framework::make(); configuration_error (address, backups, retry, time
  /// limits).
  Outcome<DialId> dial(Instant now, Dial dial);
  std::optional<Event> poll_event();
  bool has_events() const { return !events_.empty(); }
  /// Number of sessions, of both sides, that are not over, and of dials that wait.
  std::size_t busy() const { return dialling_.size() + accepted_; }
  /// Number of open streams, including those that linger.
  std::size_t streams() const { return talks_.size(); }

  void handle_listening(Instant now, StreamId listener, const Address& local) override;
  void handle_listen_failed(Instant now, StreamId listener, std::error_code why) override;
  void handle_connected(Instant now, StreamId stream, const StreamInfo& info) override;
  void handle_connect_failed(Instant now, StreamId stream, std::error_code why) override;
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
  struct Talk;
  struct Dialling;
  /// Deadlines with their keys: a dial's key is below `first_stream`, a stream's is not.
  using Deadlines = std::set<std::pair<Instant, std::uint64_t>>;

  static Config toward(const Framework::Entry& entry, Config config, const Address& peer);
  Outcome<std::unique_ptr<Variant>> make(const Offer& offer, Role role, const Address& peer) const;
  Outcome<std::unique_ptr<Variant>> choose(const Request& request, const Address& peer) const;
  Outcome<Session> begin(Instant now, Dialling& d);
  void open(Instant now, Dialling& d);
  void attempt_failed(Instant now, Dialling& d, Failure why, const cm::Failure& judged, Session* session);
  static void conclude(Ended& ended, Session& session);
  void finish(Instant now, Dialling& d, std::optional<Failure> failure, Session* session);
  void due(Dialling& d, Instant at);
  void settle(Instant now, Talk& talk);
  void over(Instant now, Talk& talk);
  void dial_over(Instant now, Talk& talk, Dialling& d);
  void leave(Instant now, Talk& talk);
  void drop(Talk& talk, StreamCommand::Kind how);
  void evict(Instant now, StreamId stream);
  Talk* talk(StreamId stream);
  std::unique_ptr<Traced> begin_trace(const Address& local, const Address& peer);
  static void trace_end(Instant now, Traced* trace, const Ended& ended);
  Dialling* opening(StreamId stream);

  const Framework& framework_;
  PeersOptions options_;
  cm::Retries retries_;
  cm::Admission admission_;
  std::vector<Offer> offers_;
  std::map<StreamId, Talk> talks_;       // at most sessions_max, plus one per dial, plus those that linger
  std::map<DialId, Dialling> dialling_;  // one per dial
  std::map<StreamId, DialId> openings_;  // one per dial
  Deadlines dial_deadlines_, talk_deadlines_;
  std::deque<StreamCommand> commands_;  // at most two per stream
  std::deque<StreamId> ready_;          // each stream at most once
  std::deque<Event> events_;            // one Ended per session; a Retrying per attempt
  Address listen_address_{};
  StreamId next_stream_ = 1, listener_ = 0;
  DialId next_dial_ = 1;
  std::size_t accepted_ = 0;
  std::uint64_t traced_ = 0;
};

}  // namespace parley::neg
