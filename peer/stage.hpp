// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A TCP peer that does what a script says, octet by octet: for peers that are wrong on purpose, and for questions put
// to a live peer. The script is a coroutine; the same script runs over sockets and in the simulator, since Stage is a
// StreamMachine.
//
//   Task<void> script(Stage& stage) {
//     Line* line = co_await stage.connect(address, 5s);
//     if (line == nullptr) co_return;
//     line->send(request);
//     const bool answered = co_await stage.more(*line, 0, 10s);
//     ...
//   }
//   Stage stage;
//   stage.start(now, script(stage));     // then drive it: base/pump.hpp, drivers/asio, sim::Host::set_machine
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
#include "peer/task.hpp"

namespace parley::peer {

/// Something that went over a line, for reports.
struct Said {
  enum class Kind : std::uint8_t { octets, fin, rst, timeout };
  Instant at{};
  bool by_us = false;
  Kind kind = Kind::octets;
  Bytes octets;          ///< as many as fit Line::kept_max
  std::size_t size = 0;  ///< how many there were
};

/// One TCP connection in the hand of a script. Ours until the Stage forgets it.
class Line {
 public:
  static constexpr std::size_t unread_max = 4 << 20;  ///< octets not taken; beyond it the line is reset
  static constexpr std::size_t unsent_max = 4 << 20;  ///< send() beyond it resets the line as well
  static constexpr std::size_t kept_max = 64 << 10;   ///< octets in history()
  static constexpr std::size_t said_max = 4096;       ///< entries of history()

  const StreamInfo& info() const { return info_; }
  /// One write; writes are not joined here, TCP may do so.
  void send(ConstBytes octets);
  void fin();                          ///< after what was sent
  void reset();                        ///< at once; the line is over
  bool over() const { return over_; }  ///< no more can be sent or received

  /// Octets received and not taken.
  ConstBytes unread() const { return ConstBytes(in_).subspan(taken_); }
  void take(std::size_t n);
  std::uint64_t received() const { return received_; }
  std::uint64_t sent() const { return sent_; }
  bool fin_seen() const { return fin_in_; }
  bool rst_seen() const { return rst_in_; }
  bool timed_out() const { return timed_out_; }  ///< TCP gave up
  /// The peer will send no more.
  bool ended() const { return fin_in_ || rst_in_ || timed_out_ || over_; }
  Instant ended_at() const { return ended_at_; }
  /// When the last octets came.
  Instant heard_at() const { return heard_at_; }
  const std::deque<Said>& history() const { return history_; }

 private:
  friend class Stage;
  void note(bool by_us, Said::Kind kind, ConstBytes octets);

  class Stage* stage_ = nullptr;
  StreamId id_ = 0;
  StreamInfo info_;
  bool up_ = false, refused_ = false, over_ = false;
  bool fin_in_ = false, rst_in_ = false, timed_out_ = false, fin_out_ = false, fin_wanted_ = false;
  std::error_code why_;
  Instant ended_at_{}, heard_at_{};
  Bytes in_;  // at most unread_max not taken, and as much again before it is moved down
  std::size_t taken_ = 0;
  std::deque<Bytes> out_;  // at most unsent_max octets
  std::size_t out_octets_ = 0, out_first_ = 0;
  bool ready_ = false;  // stands in Stage::ready_
  std::uint64_t received_ = 0, sent_ = 0;
  std::deque<Said> history_;  // at most said_max entries with kept_max octets
  std::size_t kept_ = 0;
};

class Stage final : public StreamMachine {
 public:
  static constexpr std::size_t lines_max = 256;   ///< of one script, ended ones included; forget_lines() empties
  static constexpr std::size_t waiting_max = 64;  ///< accepted, not yet taken by accept(); more are refused

  Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// One script at a time. It runs up to its first wait at once.
  void start(Instant now, Task<void> script);
  bool done() const { return script_.done(); }
  /// Drops the script where it waits.
  void stop() {
    wait_.reset();
    script_ = {};
  }

  // ---- for scripts ----
  Instant now() const { return now_; }

  /// What a script waits for; true when it came, false when `patience` ran out first.
  class Wait {
   public:
    Wait(Stage& stage, std::function<bool()> ready, Duration patience)
        : stage_(stage), ready_(std::move(ready)), patience_(patience) {}
    bool await_ready() { return ready_(); }
    void await_suspend(std::coroutine_handle<> who) { stage_.suspend(*this, who); }
    bool await_resume() { return ready_(); }

   private:
    friend class Stage;
    Stage& stage_;
    std::function<bool()> ready_;
    Duration patience_;
  };
  Wait until(std::function<bool()> ready, Duration patience) { return Wait(*this, std::move(ready), patience); }
  Wait sleep(Duration time);
  /// More than `n` unread octets, or the end of the line.
  Wait more(const Line& line, std::size_t n, Duration patience);
  /// The end of the line (FIN, RST, TCP's patience), whatever comes before it.
  Wait end(const Line& line, Duration patience);

  /// Null when it could not be had in time; why() then says it.
  Task<Line*> connect(Address to, Duration patience);
  /// The address listened at; none: why().
  Task<std::optional<Address>> listen(Address at, Duration patience);
  /// The oldest connection not yet taken; null when none came in time.
  Task<Line*> accept(Duration patience);
  /// Connections that came and were not taken are reset: of no interest to what follows.
  void drop_waiting();
  std::size_t waiting() const { return waiting_.size(); }
  const std::string& why() const { return why_; }
  /// Resets that line if it is open, and forgets it.
  void forget_line(Line& line);
  /// Resets what is still open, and forgets all lines.
  void forget_lines();

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
  friend class Line;
  struct Suspended {
    Wait* wait = nullptr;
    std::coroutine_handle<> who;
    Instant deadline = never;
  };

  void suspend(Wait& wait, std::coroutine_handle<> who);
  void advance(Instant now);
  Line* find(StreamId id);
  Line& add_line(StreamId id);
  void want_write(Line& line);
  void end_line(Line& line);
  void command(StreamCommand::Kind kind, StreamId id, const Address& address = {});

  Instant now_{};
  Task<void> script_;
  std::optional<Suspended> wait_;
  bool running_ = false;
  std::vector<std::unique_ptr<Line>> lines_;  // at most lines_max, and waiting_max
  std::deque<Line*> waiting_;                 // at most waiting_max
  std::deque<StreamCommand> commands_;        // a few for each line
  std::deque<StreamId> ready_;                // each line once
  StreamId serial_ = 1;                       // odd numbers are ours
  StreamId listener_ = 0;
  std::optional<Address> listening_at_;
  bool listen_failed_ = false;
  std::string why_;
};

}  // namespace parley::peer
