// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One end of a TCP connection, as a machine: segments, octets and a time in; segments, octets and a deadline out.
// Modelled (RFC 9293 unless stated): the handshake, including simultaneous open, with MSS, window scale, SACK-permitted
// and timestamps (RFC 7323, RFC 2018), cumulative and delayed ACK, reassembly with SACK blocks in the ACKs, sliding
// window with zero-window probes, silly-window avoidance on both sides, RTO with back-off and Karn's rule (RFC 6298),
// fast retransmit and recovery by NewReno (RFC 6582) with slow start from 10 segments (RFC 6928), PAWS, FIN in every
// order, half-close, RST and SYN with the checks of RFC 5961 §3.2 and §4.2, TIME-WAIT, retry limits, keepalive (RFC 9293
// §3.8.4) with a user timeout (RFC 5482). Not modelled: selective retransmission, ECN, urgent data, fast open, path-MTU
// discovery, Nagle (TCP_NODELAY is always on), data on SYN, growth of buffers with the path, exact congestion control.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "base/stream_port.hpp"
#include "parley/sim.hpp"
#include "sim/tcp/tcp_buffers.hpp"
#include "sim/tcp/tcp_sequence.hpp"
#include "wire/tcp.hpp"

namespace parley::sim {

enum class TcpState : std::uint8_t {
  closed,
  syn_sent,
  syn_received,
  established,
  fin_wait_1,
  fin_wait_2,
  close_wait,
  closing,
  last_ack,
  time_wait,
};
std::string_view to_string(TcpState state);

/// A segment to be sent. The payload is in the send buffer: valid until the next non-const call.
struct TcpOutput {
  wire::TcpHeader header;               ///< ports left 0: the host knows them
  std::array<ConstBytes, 2> payload{};  ///< in order; the buffer is a ring, so up to two pieces
};

/// Events for the owner, in order; drained with poll_event.
enum class TcpEvent : std::uint8_t {
  none,
  connected,
  fin,      ///< the peer's FIN, after all its octets have been delivered
  reset,    ///< the peer's RST; unread octets are lost
  refused,  ///< RST in answer to our SYN
  timeout,  ///< retries are exhausted
  closed,   ///< the end needs no memory any more (both FINs acknowledged and TIME-WAIT over, or aborted); reported once
};
std::string_view to_string(TcpEvent event);

/// After each non-const call: drain poll_received, then poll_segment, then poll_event, then read
/// next_deadline(). Each of these loops ends.
class Tcp {
 public:
  /// `mss`: the largest payload for the path (MTU - 40 or - 60), before options. Options and buffers are not copied and
  /// must outlive the connection.
  Tcp(const TcpOptions& options, TcpBuffers& buffers, std::uint16_t mss, std::uint32_t iss);
  ~Tcp();
  Tcp(Tcp&&) noexcept = default;
  Tcp& operator=(Tcp&&) = delete;

  /// StreamCommand::keepalive and dead_after, once established; 0: never.
  void watch_peer(Duration keepalive, Duration dead_after);
  void connect(Instant now);
  /// Passive open in answer to a SYN.
  void accept(Instant now, const wire::TcpHeader& syn);
  /// Returns the octets of `payload` that are now next in order. The owner takes them at once (they count as consumed
  /// unless paused), then calls poll_received for octets that waited in the reassembly buffer.
  ConstBytes handle_segment(Instant now, const wire::TcpHeader& header, ConstBytes payload);
  /// More octets in order, until empty; each valid until the next non-const call. None while paused.
  ConstBytes poll_received();
  /// Accepts as much as fits; nothing before connect or accept, or after shutdown.
  std::size_t write(Instant now, ConstBytes octets);
  std::size_t room() const;
  void shutdown(Instant now);  ///< FIN after the queued octets; the receive half stays open
  /// shutdown, and the owner reads no more, like close() of a socket. Unread or arriving octets are answered with RST
  /// (RFC 9293 §3.6.1), the peer has TcpOptions::time_wait to send its FIN, and a window that stays closed uses up the
  /// retries.
  void close(Instant now);
  void abort(Instant now);  ///< RST at once
  bool paused() const { return paused_; }
  void pause();              ///< the owner stops reading: the window closes when the buffer is full
  void resume(Instant now);  ///< poll_received returns the waiting octets, then the window opens again

  bool poll_segment(Instant now, TcpOutput& out);
  TcpEvent poll_event();
  Instant next_deadline() const { return std::min({timer_at_, ack_at_, watch_ == nullptr ? never : watch_->check_at}); }
  void handle_deadline(Instant now);

  TcpState state() const { return state_; }
  /// `seq` was sent and is not acknowledged, so that an ICMP error about it is believed (RFC 5927 §4.1).
  bool awaits_ack_of(std::uint32_t seq) const { return seq - snd_una_ < snd_max_ - snd_una_; }
  std::uint16_t emss() const { return emss_; }  ///< octets of payload per segment, options taken off
  std::uint64_t retransmits() const { return retransmits_; }
  std::uint64_t out_of_order() const { return out_of_order_; }  ///< segments that arrived after a gap
  std::size_t send_queue() const;                               ///< octets not acknowledged; at most the send buffer
  /// Octets of memory for data waiting to be read; at most the receive buffer, rounded up to a power of two.
  std::size_t reassembly() const { return reassembly_ == nullptr ? 0 : reassembly_->ring.capacity(); }
  /// In TIME-WAIT, and `syn` opens a new connection between the same ports that cannot be confused with this one: the
  /// owner may destroy this end and accept (RFC 9293 §3.6.1, RFC 6191 §2).
  bool gives_way_to(const wire::TcpHeader& syn) const;

 private:
  /// A smaller segment has no room next to its options; a lower announced MSS is ignored.
  static constexpr std::uint16_t mss_min = 48;
  enum class Timer : std::uint8_t { none, retransmit, persist, end };

  void enter(TcpState state);
  void finish(TcpEvent why);
  void raise(TcpEvent event) { events_ = static_cast<std::uint8_t>(events_ | 1u << static_cast<unsigned>(event)); }
  void set_timer(Timer kind, Instant at) {
    timer_ = kind;
    timer_at_ = at;
  }
  void stop_timer() { set_timer(Timer::none, never); }
  void release_idle_memory();

  // sim/tcp/tcp_watch.cpp
  void check_peer(Instant now);
  Instant dead_at() const;
  Instant ask_at() const;

  // sim/tcp/tcp_input.cpp
  void learn_options(Instant now, const wire::TcpHeader& syn);
  bool handle_syn_sent(Instant now, const wire::TcpHeader& header);
  bool check_segment(Instant now, const wire::TcpHeader& header, std::uint32_t length);
  void answer_unacceptable(Instant now, const wire::TcpHeader& header, std::uint32_t length);
  void handle_reset(const wire::TcpHeader& header);
  void refuse(std::uint32_t seq);
  bool handle_ack(Instant now, const wire::TcpHeader& header, std::uint32_t length);
  void handle_new_ack(Instant now, const wire::TcpHeader& header);
  void handle_duplicate_ack();
  void handle_fin_acknowledged(Instant now);
  void recover(std::uint32_t acknowledged);
  void grow_congestion_window(std::uint32_t acknowledged);
  void add_rtt_sample(Duration rtt);
  void establish(Instant now);
  ConstBytes handle_text(Instant now, std::uint32_t seq, ConstBytes payload, bool fin);
  ConstBytes accept_in_order(Instant now, std::uint32_t seq, ConstBytes payload);
  void keep(std::uint32_t seq, ConstBytes payload);
  void handle_fin(Instant now);
  void start_time_wait(Instant now);

  // sim/tcp/tcp_output.cpp
  void fill_header(Instant now, wire::TcpHeader& header, std::uint32_t seq, std::uint8_t flags);
  /// RFC 7323 §5.4: a clock of 1 ms.
  static std::uint32_t timestamp_of(Instant now) {
    return static_cast<std::uint32_t>(now.time_since_epoch() / std::chrono::milliseconds(1));
  }
  void emit_syn(Instant now, wire::TcpHeader& header);
  std::uint32_t emit_data(Instant now, TcpOutput& out, std::uint32_t seq, std::uint32_t size, bool fin);
  bool emit_new_data(Instant now, TcpOutput& out);
  bool emit_first_again(Instant now, TcpOutput& out);
  void emit_sack(wire::TcpHeader& header) const;
  Duration rto() const;

  std::uint32_t receive_buffer() const;
  std::uint32_t offered_edge() const;
  /// The increase that justifies a separate ACK: two segments, or half of the buffer.
  std::uint32_t window_step() const {
    const std::uint32_t half = receive_buffer() / 2;
    return half == 0 ? 1 : half < 2u * emss_ ? half : 2u * emss_;
  }
  std::uint32_t unread() const { return data_edge() - rcv_read_; }
  std::uint32_t data_edge() const { return fin_taken_ ? rcv_nxt_ - 1 : rcv_nxt_; }
  bool fin_sent() const { return seq_lt(snd_end_, snd_max_); }

  /// Detection of a silent peer.
  struct Watch {
    Duration keepalive, dead_after;
    Instant heard_at{};        // the last segment of the peer
    Instant waits_since{};     // with unacknowledged octets: since they were sent, or since the last progress
    Instant asked_at{};        // the last keepalive; relevant while it is later than heard_at
    Instant check_at = never;  // next check whether the peer is silent, or dead
  };

  const TcpOptions* options_;
  std::unique_ptr<Watch> watch_;  // null: not watched
  TcpBuffers* buffers_;
  TcpRing send_;                               // [una, end), if not empty
  std::unique_ptr<TcpReassembly> reassembly_;  // allocated if there is a gap or unread octets
  Instant timer_at_ = never;                   // one timer: see Timer
  Instant ack_at_ = never;                     // delayed ACK
  Instant rtt_from_{};                         // when the timed segment was sent
  Duration srtt_{}, rttvar_{};                 // RFC 6298 §2; srtt 0: no sample yet
  bool syn_was_late_ = false;                  // the first SYN timed out, and it is unknown which one was answered
  Instant ts_recent_at_{};
  Instant quiet_until_{};  // until then, empty segments outside the window get no answer

  // The send sequence space, RFC 9293 §3.3.1: una <= nxt <= max; nxt goes back on a time-out. Data ends at `end`; a FIN
  // has that sequence number.
  std::uint32_t iss_, snd_una_, snd_nxt_, snd_max_, snd_end_;
  std::uint32_t snd_wnd_ = 0, snd_wl1_ = 0, snd_wl2_ = 0;
  std::uint32_t cwnd_ = 0, ssthresh_ = 0x7FFFFFFF, cwnd_credit_ = 0, recover_;
  std::uint32_t rtt_end_ = 0;
  // The receive sequence space: read <= nxt <= adv (the right edge that was announced).
  std::uint32_t irs_ = 0, rcv_read_ = 0, rcv_nxt_ = 0, rcv_adv_ = 0, rcv_acked_ = 0;
  std::uint32_t fin_at_ = 0, ts_recent_ = 0, reset_seq_ = 0;
  std::uint32_t retransmits_ = 0, out_of_order_ = 0;

  std::uint16_t mss_, emss_;
  TcpState state_ = TcpState::closed;
  Timer timer_ = Timer::none;
  std::uint8_t snd_scale_ = 0, rcv_scale_ = 0;
  std::uint8_t duplicates_ = 0, retries_ = 0, backoff_ = 0;
  std::uint8_t events_ = 0;  // a bit for each TcpEvent
  bool active_ = false, timestamps_ = false, sack_ = false, scaling_ = false;
  bool fin_queued_ = false, fin_known_ = false, fin_taken_ = false, orphan_ = false, paused_ = false;
  bool recovering_ = false, timing_ = false, probing_ = false;
  bool ack_now_ = false, send_first_again_ = false, send_probe_ = false, send_keepalive_ = false;
  bool send_reset_ = false, send_stray_reset_ = false;
};

}  // namespace parley::sim
