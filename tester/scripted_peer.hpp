// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A TCP peer that follows a script, octet by octet: for intentionally faulty peers, and for tests of a live peer. The
// script is a coroutine; the same script runs over sockets and in the simulator, since ScriptedPeer is a StreamMachine.
//
//   Task<void> script(ScriptedPeer& peer) {
//     TcpStream* tcp = co_await peer.connect(address, 5s);
//     if (tcp == nullptr) co_return;
//     tcp->send(request);
//     const bool answered = co_await peer.more(*tcp, 0, 10s);
//     ...
//   }
//   ScriptedPeer peer;
//   peer.start(now, script(peer));     // then drive it: base/pump.hpp, drivers/asio, sim::Host::set_machine
//
// Write `co_await` as the whole right side of its statement: g++ 12 loses temporaries in the middle of expressions.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/stream_port.hpp"
#include "tester/task.hpp"

namespace parley::tester {

/// An event on a stream, sent or received, for reports.
struct StreamRecord {
  enum class Kind : std::uint8_t { octets, fin, rst, timeout };
  Instant at{};
  bool by_us = false;
  Kind kind = Kind::octets;
  Bytes octets;          ///< as many as fit into TcpStream::kept_max
  std::size_t size = 0;  ///< the full number of octets
};

/// A script's TCP connection. It exists until the ScriptedPeer forgets it.
class TcpStream {
 public:
  static constexpr std::size_t unread_max = 4 << 20;  ///< octets not taken; beyond it the stream is reset
  static constexpr std::size_t unsent_max = 4 << 20;  ///< octets not sent; send() beyond it resets the stream
  static constexpr std::size_t kept_max = 64 << 10;   ///< octets in history()
  static constexpr std::size_t exchanged_max = 4096;  ///< entries of history()

  const StreamInfo& info() const { return info_; }
  /// One write; writes are not merged here, but TCP may do so.
  void send(ConstBytes octets);
  void fin();                          ///< after everything sent so far
  void reset();                        ///< at once; the stream is over
  bool over() const { return over_; }  ///< no more can be sent or received

  /// Octets received and not taken.
  ConstBytes unread() const { return in_; }
  void take(std::size_t n);
  std::uint64_t received() const { return received_; }
  std::uint64_t sent() const { return sent_; }
  bool fin_seen() const { return fin_in_; }
  bool rst_seen() const { return rst_in_; }
  bool timed_out() const { return timed_out_; }  ///< TCP gave up
  /// The peer will send no more.
  bool ended() const { return fin_in_ || rst_in_ || timed_out_ || over_; }
  Instant ended_at() const { return ended_at_; }
  /// When the last octets arrived.
  Instant received_at() const { return received_at_; }
  const std::deque<StreamRecord>& history() const { return history_; }

 private:
  friend class ScriptedPeer;
  void note(bool by_us, StreamRecord::Kind kind, ConstBytes octets);

  class ScriptedPeer* peer_ = nullptr;
  StreamId id_ = 0;
  StreamInfo info_;
  bool up_ = false, refused_ = false, over_ = false;
  bool fin_in_ = false, rst_in_ = false, timed_out_ = false, fin_wanted_ = false;
  std::error_code why_;
  Instant ended_at_{}, received_at_{};
  Bytes in_;               // received and not taken: at most unread_max
  std::deque<Bytes> out_;  // at most unsent_max octets
  std::size_t out_octets_ = 0, out_first_ = 0;
  bool ready_ = false;  // is in ScriptedPeer::ready_
  std::uint64_t received_ = 0, sent_ = 0;
  std::deque<StreamRecord> history_;  // at most exchanged_max entries with kept_max octets
  std::size_t kept_ = 0;
};

class ScriptedPeer final : public StreamMachine {
 public:
  static constexpr std::size_t streams_max = 256;  ///< of one script, including ended ones; forget_streams() empties
  static constexpr std::size_t waiting_max = 64;   ///< accepted, not yet taken by accept(); more are refused

  ScriptedPeer() = default;
  ScriptedPeer(const ScriptedPeer&) = delete;
  ScriptedPeer& operator=(const ScriptedPeer&) = delete;

  /// Runs the script to its first wait. One script at a time.
  void start(Instant now, Task<void> script);
  bool done() const { return script_.done(); }
  /// Destroys the script at the point where it waits.
  void stop() {
    wait_.reset();
    script_ = {};
  }

  // ---- for scripts ----
  Instant now() const { return now_; }

  /// A wait of a script. True: the condition holds; false: `patience` ended first.
  class Wait {
   public:
    Wait(ScriptedPeer& peer, std::function<bool()> ready, Duration patience)
        : peer_(peer), ready_(std::move(ready)), patience_(patience) {}
    bool await_ready() { return ready_(); }
    void await_suspend(std::coroutine_handle<> who) { peer_.suspend(*this, who); }
    bool await_resume() { return ready_(); }

   private:
    friend class ScriptedPeer;
    ScriptedPeer& peer_;
    std::function<bool()> ready_;
    Duration patience_;
  };
  Wait until(std::function<bool()> ready, Duration patience) { return Wait(*this, std::move(ready), patience); }
  Wait sleep(Duration time);
  /// Waits for more than `n` unread octets, or the end of the stream.
  Wait more(const TcpStream& tcp, std::size_t n, Duration patience);
  /// Waits for the end of the stream (FIN, RST, TCP timeout); octets before it do not end the wait.
  Wait end(const TcpStream& tcp, Duration patience);

  /// Null if it failed or took too long; why() has the reason.
  Task<TcpStream*> connect(Address to, Duration patience);
  /// Returns the address on which it listens. nullopt: why() has the reason.
  Task<std::optional<Address>> listen(Address at, Duration patience);
  /// The oldest connection not yet taken; null if none came in time.
  Task<TcpStream*> accept(Duration patience);
  /// Resets accepted connections that were not yet taken, so that later accept() calls do not return them.
  void drop_waiting();
  std::size_t waiting() const { return waiting_.size(); }
  const std::string& why() const { return why_; }
  /// Resets that stream if it is open, and forgets it.
  void forget_stream(TcpStream& tcp);
  /// Resets open streams, and forgets all streams.
  void forget_streams();

  // ---- StreamMachine ----
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
  Instant next_deadline() const override { return wait_ ? wait_->deadline : never; }

 private:
  friend class TcpStream;
  struct Suspended {
    Wait* wait = nullptr;
    std::coroutine_handle<> who;
    Instant deadline = never;
  };

  void suspend(Wait& wait, std::coroutine_handle<> who);
  void advance(Instant now);
  TcpStream* find(StreamId id);
  TcpStream& add_stream(StreamId id);
  void want_write(TcpStream& tcp);
  void end_stream(TcpStream& tcp);
  void command(StreamCommand::Kind kind, StreamId id, const Address& address = {});

  Instant now_{};
  Task<void> script_;
  std::optional<Suspended> wait_;
  std::vector<std::unique_ptr<TcpStream>> streams_;  // at most streams_max
  std::deque<TcpStream*> waiting_;                   // at most waiting_max
  std::deque<StreamCommand> commands_;               // a few for each stream
  std::deque<StreamId> ready_;                       // each stream once
  StreamId serial_ = 1;                              // odd numbers are ours
  StreamId listener_ = 0;
  std::optional<Address> listening_at_;
  bool listen_failed_ = false;
  std::string why_;
};

}  // namespace parley::tester
