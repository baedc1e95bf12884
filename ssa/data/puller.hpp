// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The child's side of its data connection: pulls versions from the parent. A StreamMachine (base/stream_port.hpp) with
// at most one connection, which stays open between two pulls: its end tells at once that the parent has died.
//
//   state       input                            next        event
//   none        pull()                           connecting
//   connecting  connected                        reading     the request is sent
//   connecting  refused                          none        parent_lost
//   reading     the end of the stream            idle        loaded; a version that was asked for meanwhile is pulled
//   reading     another version than asked for   none        failed; or the version that was asked for meanwhile is pulled
//   reading     a refusal, a wrong stream        none        failed
//   reading     no octets for silence_max        none        failed
//   reading     not complete after pull_max      none        failed
//   idle        pull()                           reading
//   idle        octets                           none        reset; counted
//   any         the connection ends              none        parent_lost
#pragma once
#include <deque>

#include "base/stream_port.hpp"
#include "ssa/data/pull.hpp"
#include "ssa/loader.hpp"

namespace parley::ssa {

struct DataPullerOptions {
  std::uint64_t key = 0;                              ///< SSA_Key
  Gid gid{};                                          ///< of this node's port
  std::size_t octets_max = LoadOptions().octets_max;  ///< of a database
  Duration silence_max = std::chrono::seconds(10);    ///< also of the parent's answer to the connection
  Duration pull_max = std::chrono::seconds(600);      ///< of one pull
  Duration keepalive = std::chrono::seconds(10), dead_after = std::chrono::seconds(30);  ///< of TCP
};

struct PullEvent {
  enum class Kind : std::uint8_t { loaded, failed, parent_lost };
  Kind kind{};
  Gid parent{};
  SnapshotPtr snapshot;  ///< loaded
  std::string why;       ///< failed, parent_lost: a sentence
};

struct DataPullerCounters {
  std::uint64_t pulls = 0, failed = 0, octets = 0;
  std::uint64_t loaded = 0, deltas = 0;        ///< versions; of these: by what changed
  std::uint64_t connections = 0, unasked = 0;  ///< unasked: octets without a pull; times
};

class DataPuller final : public StreamMachine {
 public:
  explicit DataPuller(const DataPullerOptions& options) : options_(options) {}

  /// Pulls the version `newest`, or a newer one, from the parent that takes connections at `address`. While a pull runs, the
  /// last one asked for follows it. A connection to another parent is given up.
  void pull(Instant now, const Gid& parent, const Address& address, Epoch newest);
  /// Gives up the connection without an event.
  void stop();
  /// The version that this node has, which the next pull names. Null: none.
  void set_base(SnapshotPtr base) { base_ = std::move(base); }
  /// At most two wait.
  std::optional<PullEvent> poll_event();
  bool is_pulling() const { return stage_ == Stage::connecting || stage_ == Stage::reading; }
  bool is_connected() const { return stage_ == Stage::reading || stage_ == Stage::idle; }
  const DataPullerCounters& counters() const { return counters_; }

  void handle_listening(Instant, StreamId, const Address&) override {}
  void handle_listen_failed(Instant, StreamId, std::error_code) override {}
  void handle_connected(Instant now, StreamId stream, const StreamInfo& info) override;
  void handle_connect_failed(Instant now, StreamId stream, std::error_code why) override;
  bool handle_accepted(Instant, StreamId, StreamId, const StreamInfo&) override { return false; }
  void handle_bytes(Instant now, StreamId stream, ConstBytes in) override;
  void handle_end(Instant now, StreamId stream, StreamEnd end) override;
  void handle_deadline(Instant now) override;
  bool poll_command(StreamCommand& out) override;
  StreamId poll_ready() override;
  std::size_t gather(StreamId stream, std::span<ConstBytes> out) override;
  void sent(Instant now, StreamId stream, std::size_t n) override;
  Instant next_deadline() const override;

 private:
  enum class Stage : std::uint8_t { none, connecting, reading, idle };

  void ask(Instant now);
  void expect(Epoch newest);
  void read(Instant now, ConstBytes in);
  void loaded(Instant now);
  void failed(std::string why);
  void outdated(Instant now, std::string why);
  void lost(std::string why);
  void forget();

  DataPullerOptions options_;
  Stage stage_ = Stage::none;
  StreamId stream_ = 0, last_stream_ = 0;
  Gid parent_{};
  Address address_;
  Epoch newest_, next_;  // that of the pull; that of the one that follows it
  SnapshotPtr base_;
  std::optional<Loader> loader_;
  Bytes head_;  // of the answer, until it is known what it is: less than the header of a management datagram
  Bytes out_;   // the request
  std::size_t out_at_ = 0;
  bool ready_ = false;
  Instant silent_at_ = never, over_at_ = never;
  std::deque<StreamCommand> commands_;
  std::deque<PullEvent> events_;
  DataPullerCounters counters_;
};

}  // namespace parley::ssa
