// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The parent's side of the data connections: children pull the database, and get a stream or a refusal. A StreamMachine
// (base/stream_port.hpp); a snapshot that is on its way to a slow child stays as it is, while others get newer ones.
//
//   state     input                                  next      what happens
//   asking    a pull                                 sending   the stream of the present snapshot, or a refusal
//   asking    octets that are not a pull              gone      reset; counted
//   asking    no pull for request_max                gone      reset, unless the child has pulled before
//   sending   all sent                               asking
//   sending   octets of the child                    gone      reset: a child waits for the answer
//   sending   nothing sent for stall_max             gone      reset
//   any       a connection without room              gone      of those that have not pulled yet, the oldest is reset
#pragma once
#include <deque>
#include <functional>
#include <map>

#include "base/stream_port.hpp"
#include "ssa/data/pull.hpp"

namespace parley::ssa {

struct DataServerOptions {
  std::uint64_t key = 0;            ///< SSA_Key: a pull with another one is refused
  std::size_t streams_max = 1024;   ///< data connections
  std::size_t strangers_max = 256;  ///< of these: without a pull that has the key
  Duration request_max = std::chrono::seconds(10);
  Duration stall_max = std::chrono::seconds(30);
  Duration keepalive = std::chrono::seconds(10), dead_after = std::chrono::seconds(30);  ///< of TCP
};

struct DataServerCounters {
  std::uint64_t pulls = 0, deltas = 0;  ///< answered with a stream; of these: with what changed
  std::uint64_t octets = 0;             ///< sent
  std::uint64_t refused = 0;            ///< pulls
  std::uint64_t malformed = 0;          ///< connections ended because of what they sent
  std::uint64_t timed_out = 0;          ///< connections
};

class DataServer final : public StreamMachine {
 public:
  explicit DataServer(const DataServerOptions& options) : options_(options) {}

  /// Call it once. listening() or failure() has the result.
  void listen(const Address& local);
  const std::optional<Address>& listening() const { return listening_; }
  const std::error_code& failure() const { return failure_; }

  /// The version that children get from now on.
  void set_snapshot(SnapshotPtr snapshot) { snapshot_ = std::move(snapshot); }
  /// Whether the node has this child. None: no pull is answered.
  void set_children(std::function<bool(const Gid&)> is_child) { is_child_ = std::move(is_child); }
  std::size_t streams() const { return children_.size(); }
  const DataServerCounters& counters() const { return counters_; }

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
  struct Child {
    Instant until = never;
    bool has_pulled = false;
    Bytes in;                            // less than pull_octets
    std::optional<StreamSource> source;  // what is not yet in `out`
    Bytes out;                           // at most chunk_octets and a message
    std::size_t out_at = 0;              // octets of it that were written
  };
  using Children = std::map<StreamId, Child>;  // at most streams_max

  AnswerStatus judge(const Pull& pull) const;
  void fill(Child& child);
  void drop(Children::iterator at);
  bool drop_oldest();

  DataServerOptions options_;
  std::optional<Address> listening_;
  std::error_code failure_;
  SnapshotPtr snapshot_;
  std::function<bool(const Gid&)> is_child_;
  Children children_;
  std::deque<StreamCommand> commands_;
  std::deque<StreamId> ready_;
  DataServerCounters counters_;
};

}  // namespace parley::ssa
