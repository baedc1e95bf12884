// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Commands, events and timers of a connection. Segments in: tcp_input.cpp; segments out: tcp_output.cpp.
#include "sim/tcp/tcp.hpp"

#include <algorithm>
#include <bit>

namespace parley::sim {
namespace {

/// Back-off continues while the time-out is below its maximum; this many doublings reach any maximum in use.
constexpr std::uint8_t backoff_max = 32;

// RFC 7323 §2.3: the smallest shift that can announce the whole buffer; at most 14.
std::uint8_t scale_for(std::uint32_t buffer) {
  std::uint8_t scale = 0;
  while (scale < 14 && (65535u << scale) < buffer) ++scale;
  return scale;
}

}  // namespace

std::string_view to_string(TcpState state) {
  switch (state) {
    case TcpState::closed: return "closed";
    case TcpState::syn_sent: return "syn_sent";
    case TcpState::syn_received: return "syn_received";
    case TcpState::established: return "established";
    case TcpState::fin_wait_1: return "fin_wait_1";
    case TcpState::fin_wait_2: return "fin_wait_2";
    case TcpState::close_wait: return "close_wait";
    case TcpState::closing: return "closing";
    case TcpState::last_ack: return "last_ack";
    case TcpState::time_wait: return "time_wait";
  }
  return "?";
}

std::string_view to_string(TcpEvent event) {
  switch (event) {
    case TcpEvent::none: return "none";
    case TcpEvent::connected: return "connected";
    case TcpEvent::fin: return "fin";
    case TcpEvent::reset: return "reset";
    case TcpEvent::refused: return "refused";
    case TcpEvent::timeout: return "timeout";
    case TcpEvent::closed: return "closed";
  }
  return "?";
}

Tcp::Tcp(const TcpOptions& options, TcpBuffers& buffers, std::uint16_t mss, std::uint32_t iss)
    : options_(&options),
      buffers_(&buffers),
      iss_(iss),
      snd_una_(iss),
      snd_nxt_(iss),
      snd_max_(iss),
      snd_end_(iss + 1),
      recover_(iss),
      mss_(std::max(mss, mss_min)),
      emss_(mss_) {}

Tcp::~Tcp() {
  send_.release(*buffers_);
  if (reassembly_ != nullptr) reassembly_->ring.release(*buffers_);
}

std::uint32_t Tcp::receive_buffer() const {
  return std::clamp<std::uint32_t>(options_->receive_buffer, 1, TcpRing::capacity_max);
}

void Tcp::connect(Instant) {
  if (state_ != TcpState::closed || snd_max_ != iss_ || events_ != 0) return;
  active_ = true;
  timestamps_ = options_->timestamps;
  sack_ = options_->sack_permitted;
  scaling_ = options_->window_scale;
  rcv_scale_ = scaling_ ? scale_for(receive_buffer()) : std::uint8_t{0};
  enter(TcpState::syn_sent);
}

void Tcp::accept(Instant now, const wire::TcpHeader& syn) {
  if (state_ != TcpState::closed || snd_max_ != iss_ || events_ != 0) return;
  timestamps_ = options_->timestamps;
  sack_ = options_->sack_permitted;
  scaling_ = options_->window_scale;
  rcv_scale_ = scaling_ ? scale_for(receive_buffer()) : std::uint8_t{0};
  learn_options(now, syn);
  enter(TcpState::syn_received);
}

void Tcp::enter(TcpState state) { state_ = state; }

/// The end of the connection; `why` none: only `closed` is reported.
void Tcp::finish(TcpEvent why) {
  if (state_ == TcpState::closed) return;
  enter(TcpState::closed);
  stop_timer();
  ack_at_ = never;
  if (watch_ != nullptr) watch_->check_at = never;
  ack_now_ = send_first_again_ = send_probe_ = send_keepalive_ = false;
  send_.release(*buffers_);
  snd_end_ = snd_una_;
  if (reassembly_ != nullptr) reassembly_->ranges.clear();
  if (why == TcpEvent::none) {
    raise(TcpEvent::closed);
    return;
  }
  if (unread() != 0) events_ = static_cast<std::uint8_t>(events_ & ~(1u << static_cast<unsigned>(TcpEvent::fin)));
  rcv_read_ = data_edge();
  release_idle_memory();
  if (why != TcpEvent::closed) raise(why);
  raise(TcpEvent::closed);
}

void Tcp::release_idle_memory() {
  if (reassembly_ == nullptr || unread() != 0 || !reassembly_->ranges.empty()) return;
  reassembly_->ring.release(*buffers_);
  reassembly_.reset();
}

std::size_t Tcp::send_queue() const {
  const std::uint32_t first = snd_una_ == iss_ ? iss_ + 1 : snd_una_;
  return seq_lt(first, snd_end_) ? snd_end_ - first : 0;
}

std::size_t Tcp::room() const {
  if (state_ == TcpState::closed || fin_queued_) return 0;
  const std::size_t buffer = std::min(options_->send_buffer, TcpRing::capacity_max);
  const std::size_t queued = send_queue();
  return queued < buffer ? buffer - queued : 0;
}

std::size_t Tcp::write(Instant, ConstBytes octets) {
  const std::size_t taken = std::min(octets.size(), room());
  if (taken == 0) return 0;
  const auto queued = static_cast<std::uint32_t>(send_queue());
  const auto added = static_cast<std::uint32_t>(taken);
  send_.reserve(*buffers_, snd_end_ - queued, queued, queued + added);
  send_.put(snd_end_, octets.first(taken));
  snd_end_ += added;
  return taken;
}

// RFC 9293 §3.10.4. Before the handshake completes, the FIN waits; establish() continues from there.
void Tcp::shutdown(Instant) {
  if (state_ == TcpState::closed || fin_queued_) return;
  fin_queued_ = true;
  if (state_ == TcpState::established) enter(TcpState::fin_wait_1);
  if (state_ == TcpState::close_wait) enter(TcpState::last_ack);
}

void Tcp::close(Instant now) {
  orphan_ = true;
  if (state_ == TcpState::syn_sent) {  // RFC 9293 §3.10.4: no connection to end yet
    finish(TcpEvent::closed);
    return;
  }
  if (unread() != 0 || (reassembly_ != nullptr && !reassembly_->ranges.empty())) {
    abort(now);  // RFC 9293 §3.6.1: the peer must learn that octets were lost
    return;
  }
  shutdown(now);
  if (state_ == TcpState::fin_wait_2) set_timer(Timer::end, now + options_->time_wait);
}

// RFC 9293 §3.10.5. Also in CLOSING and LAST-ACK, where it prescribes silence: the FIN may not have arrived, and a peer
// that waits for it would wait for ever.
void Tcp::abort(Instant) {
  send_reset_ = state_ != TcpState::closed && state_ != TcpState::syn_sent && state_ != TcpState::time_wait;
  finish(TcpEvent::closed);
}

void Tcp::pause() { paused_ = true; }

void Tcp::resume(Instant) { paused_ = false; }

ConstBytes Tcp::poll_received() {
  if (paused_ || reassembly_ == nullptr) return {};
  if (unread() == 0) {
    release_idle_memory();
    return {};
  }
  const ConstBytes piece = reassembly_->ring.view(rcv_read_, unread())[0];
  rcv_read_ += static_cast<std::uint32_t>(piece.size());
  // RFC 9293 §3.8.6.2.2: a wider window is announced when it has grown by two segments or half of the buffer.
  if (!fin_taken_ && offered_edge() - rcv_adv_ >= window_step()) ack_now_ = true;
  return piece;
}

TcpEvent Tcp::poll_event() {
  unsigned ready = events_;
  if (unread() != 0)
    ready &= 1u << static_cast<unsigned>(TcpEvent::connected);  // the remaining events follow the
                                                                // octets
  if (ready == 0) return TcpEvent::none;
  const int lowest = std::countr_zero(ready);
  events_ = static_cast<std::uint8_t>(events_ & ~(1u << lowest));
  return static_cast<TcpEvent>(lowest);
}

void Tcp::handle_deadline(Instant now) {
  if (ack_at_ <= now) {
    ack_at_ = never;
    ack_now_ = true;
  }
  if (watch_ != nullptr && watch_->check_at <= now) check_peer(now);
  if (timer_at_ > now) return;
  const Timer expired = timer_;
  stop_timer();
  if (expired == Timer::end) {
    finish(TcpEvent::none);
    return;
  }
  if (expired == Timer::none) return;
  const bool opening = state_ == TcpState::syn_sent || state_ == TcpState::syn_received;
  if (retries_ >= (opening ? options_->syn_retries : options_->retries)) {
    finish(TcpEvent::timeout);
    return;
  }
  ++retries_;
  if (backoff_ < backoff_max) ++backoff_;  // RFC 6298 §5.5
  if (expired == Timer::persist) {
    send_probe_ = true;  // RFC 9293 §3.8.6.1
    return;
  }
  // RFC 5681 §3.1: half of the octets in flight, once for a segment; then slow start from one segment. RFC 6582 §3.2
  // step 4: no fast retransmit for octets sent before.
  if (retries_ == 1) ssthresh_ = std::max((snd_max_ - snd_una_) / 2, 2u * emss_);
  cwnd_ = emss_;
  cwnd_credit_ = 0;
  recover_ = snd_max_;
  recovering_ = timing_ = send_first_again_ = false;  // RFC 6298 §3: retransmissions are not timed
  duplicates_ = 0;
  snd_nxt_ = snd_una_;
}

bool Tcp::gives_way_to(const wire::TcpHeader& syn) const {
  if (state_ != TcpState::time_wait || !syn.syn() || syn.rst() || syn.has_ack()) return false;
  // RFC 6191 §2: the timestamp clock distinguishes an old SYN from a new one, whatever their sequence numbers.
  if (timestamps_ && syn.timestamps && ts_recent_ != syn.ts_value) return seq_lt(ts_recent_, syn.ts_value);
  return seq_lt(rcv_nxt_ - 1, syn.seq);
}

}  // namespace parley::sim
