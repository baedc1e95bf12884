// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How a connection handles a segment, in the order of RFC 9293 §3.10.7.
#include <algorithm>

#include "sim/tcp/tcp.hpp"

namespace parley::sim {
namespace {

/// RFC 7323 §5.5: a timestamp that was not renewed for this long is invalid.
constexpr Duration ts_lifetime = std::chrono::hours(24 * 24);
/// The minimum interval between answers to empty segments outside the window, so that two confused ends do not answer
/// each other for ever (RFC 5961 §7).
constexpr Duration quiet_time = std::chrono::milliseconds(500);
/// No window is larger, so no congestion window needs to be either.
constexpr std::uint32_t cwnd_max = 1u << 30;

}  // namespace

// Parameters of the peer's SYN; options apply if both sides sent them (RFC 7323 §1.3, RFC 2018 §2).
void Tcp::learn_options(Instant now, const wire::TcpHeader& syn) {
  irs_ = syn.seq;
  rcv_read_ = rcv_nxt_ = rcv_adv_ = rcv_acked_ = syn.seq + 1;
  timestamps_ = timestamps_ && syn.timestamps;
  ts_recent_ = syn.ts_value;
  ts_recent_at_ = now;
  sack_ = sack_ && syn.sack_permitted;
  scaling_ = scaling_ && syn.window_scale >= 0;
  if (!scaling_) rcv_scale_ = 0;
  snd_scale_ = static_cast<std::uint8_t>(scaling_ ? std::min<int>(syn.window_scale, 14) : 0);  // RFC 7323 §2.3
  // RFC 9293 §3.7.1: 536 octets if the peer announces none; its number does not include options.
  const std::uint16_t theirs = syn.mss == 0 ? std::uint16_t{536} : std::max(syn.mss, mss_min);
  emss_ = static_cast<std::uint16_t>(std::min(mss_, theirs) - (timestamps_ ? 12 : 0));
  cwnd_ = 10u * emss_;    // RFC 6928 §2: the number of segments, without its limit in octets
  snd_wnd_ = syn.window;  // RFC 7323 §2.2: the window of a SYN is never scaled
  snd_wl1_ = syn.seq;
  snd_wl2_ = syn.ack;
}

void Tcp::refuse(std::uint32_t seq) {
  send_stray_reset_ = true;
  reset_seq_ = seq;
}

void Tcp::establish(Instant now) {
  if (watch_ != nullptr) {
    watch_->heard_at = now;
    watch_->check_at = now + (watch_->keepalive > Duration{} ? watch_->keepalive : watch_->dead_after);
  }
  enter(fin_queued_ ? TcpState::fin_wait_1 : TcpState::established);
  raise(TcpEvent::connected);
}

// RFC 9293 §3.10.7.3. True: the connection is established and the segment's text may be processed.
bool Tcp::handle_syn_sent(Instant now, const wire::TcpHeader& header) {
  if (header.has_ack() && header.ack != iss_ + 1) {
    if (!header.rst()) refuse(header.ack);
    return false;
  }
  if (header.has_ack() && snd_max_ == iss_) return false;  // no octet was sent that could be acknowledged
  if (header.rst()) {
    if (header.has_ack()) finish(TcpEvent::refused);
    return false;
  }
  if (!header.syn()) return false;
  learn_options(now, header);
  if (!header.has_ack()) {  // simultaneous open: our SYN is retransmitted, with an ACK
    enter(TcpState::syn_received);
    snd_nxt_ = iss_;
    return false;
  }
  establish(now);
  handle_new_ack(now, header);
  ack_now_ = true;
  return true;
}

// RFC 9293 §3.10.7.4, first check. Answers segments outside the window, except RST.
void Tcp::answer_unacceptable(Instant now, const wire::TcpHeader& header, std::uint32_t length) {
  if (header.rst()) return;
  if (state_ == TcpState::syn_received && header.syn() && !header.has_ack() && header.seq == irs_) {
    snd_nxt_ = iss_;  // the peer's SYN again: our answer was lost
    return;
  }
  if (state_ == TcpState::time_wait && header.fin()) start_time_wait(now);
  if (length == 0) {
    if (now < quiet_until_) return;
    quiet_until_ = now + quiet_time;
  }
  ack_now_ = true;
}

// RFC 5961 §3.2: a RST is accepted if it has the next sequence number; elsewhere in the window it gets a challenge ACK.
void Tcp::handle_reset(const wire::TcpHeader& header) {
  if (header.seq != rcv_nxt_) {
    ack_now_ = true;
  } else if (state_ == TcpState::time_wait) {
    finish(TcpEvent::none);  // everything arrived; what is unread stays readable
  } else {
    finish(state_ == TcpState::syn_received && active_ ? TcpEvent::refused : TcpEvent::reset);
  }
}

// RFC 9293 §3.10.7.4, checks one to four. True: ACK and text are processed.
bool Tcp::check_segment(Instant now, const wire::TcpHeader& header, std::uint32_t length) {
  if (timestamps_ && !header.rst()) {
    if (!header.timestamps) return false;  // RFC 7323 §3.2
    if (seq_lt(header.ts_value, ts_recent_) && now - ts_recent_at_ < ts_lifetime) {
      answer_unacceptable(now, header, length);  // RFC 7323 §5.3: from before the numbers wrapped, or a copy
      return false;
    }
  }
  // A segment at rcv.nxt is accepted whatever the window, for its ACK and for RST. An empty one may be at the right
  // edge, as from a peer that has filled the window.
  const std::uint32_t from = header.seq - rcv_nxt_, window = rcv_adv_ - rcv_nxt_;
  const bool begins_inside = from < window || (length == 0 && from == window);
  const bool ends_inside = length != 0 && header.seq + length - 1 - rcv_nxt_ < window;
  if (from != 0 && !begins_inside && !ends_inside) {
    answer_unacceptable(now, header, length);
    return false;
  }
  if (header.rst()) {
    handle_reset(header);
    return false;
  }
  if (header.syn()) {  // RFC 5961 §4.2
    ack_now_ = true;
    return false;
  }
  if (!header.has_ack()) return false;
  // RFC 7323 §4.3: the timestamp of the earliest segment that the next ACK answers.
  if (timestamps_ && seq_le(header.seq, rcv_acked_) && seq_le(ts_recent_, header.ts_value)) {
    ts_recent_ = header.ts_value;
    ts_recent_at_ = now;
  }
  return true;
}

// RFC 6298 §2.
void Tcp::add_rtt_sample(Duration rtt) {
  rtt = std::clamp<Duration>(rtt, Duration(1), options_->rto_max);
  if (srtt_ == Duration{}) {
    srtt_ = rtt;
    rttvar_ = rtt / 2;
  } else {
    const Duration error = srtt_ < rtt ? rtt - srtt_ : srtt_ - rtt;
    rttvar_ = (3 * rttvar_ + error) / 4;
    srtt_ = std::max<Duration>((7 * srtt_ + rtt) / 8, Duration(1));
  }
  backoff_ = 0;
}

void Tcp::grow_congestion_window(std::uint32_t acknowledged) {
  if (cwnd_ >= cwnd_max) return;
  if (cwnd_ < ssthresh_) {
    cwnd_ += std::min<std::uint32_t>(acknowledged, emss_);  // RFC 5681 §3.1, slow start
    return;
  }
  cwnd_credit_ += acknowledged;  // RFC 5681 §3.1, congestion avoidance: a segment for each window acknowledged
  if (cwnd_credit_ < cwnd_) return;
  cwnd_credit_ -= cwnd_;
  cwnd_ += emss_;
}

// RFC 6582 §3.2 step 3, after una moved.
void Tcp::recover(std::uint32_t acknowledged) {
  duplicates_ = 0;
  if (!recovering_) {
    grow_congestion_window(acknowledged);
    return;
  }
  if (seq_lt(snd_una_, recover_)) {  // a partial ACK: the next hole
    send_first_again_ = true;
    cwnd_ -= std::min(cwnd_, acknowledged);
    cwnd_ = std::max<std::uint32_t>(cwnd_ + (acknowledged >= emss_ ? emss_ : 0), emss_);
    return;
  }
  recovering_ = send_first_again_ = false;
  cwnd_ = std::min(ssthresh_, std::max<std::uint32_t>(snd_max_ - snd_una_, emss_) + emss_);
  recover_ = snd_una_ - 1;  // only needed segments were retransmitted: duplicates from here on indicate a new loss
}

void Tcp::handle_new_ack(Instant now, const wire::TcpHeader& header) {
  const bool opening = snd_una_ == iss_;
  const std::uint32_t acknowledged = header.ack - snd_una_;
  snd_una_ = header.ack;
  if (watch_ != nullptr) watch_->waits_since = now;
  snd_nxt_ = seq_max(snd_nxt_, snd_una_);
  probing_ = false;
  // RFC 6298 §3: the timed segment, never retransmitted; or the echo, which identifies the copy.
  if (timing_ && seq_le(rtt_end_, snd_una_)) {
    timing_ = false;
    add_rtt_sample(now - rtt_from_);
  } else if (backoff_ != 0 && timestamps_ && header.timestamps) {
    add_rtt_sample(std::chrono::milliseconds(std::max<std::uint32_t>(timestamp_of(now) - header.ts_echo, 1)));
  } else if (opening && backoff_ != 0) {
    syn_was_late_ = true;  // RFC 6298 §5.7: after a SYN time-out (1 s), the RTO is 3 s until RTT is measured
    backoff_ = 0;
  }
  retries_ = 0;
  if (!opening) recover(acknowledged);
  if (!seq_lt(snd_una_, snd_end_)) send_.release(*buffers_);
  if (snd_una_ == snd_max_) {
    stop_timer();  // RFC 6298 §5.2
  } else {
    set_timer(Timer::retransmit, now + rto());  // RFC 6298 §5.3
  }
  if (fin_queued_ && snd_una_ == snd_end_ + 1) handle_fin_acknowledged(now);
}

// RFC 9293 §3.10.7.4, fifth check.
void Tcp::handle_fin_acknowledged(Instant now) {
  switch (state_) {
    case TcpState::fin_wait_1:
      enter(TcpState::fin_wait_2);
      if (orphan_) set_timer(Timer::end, now + options_->time_wait);
      break;
    case TcpState::closing: start_time_wait(now); break;
    case TcpState::last_ack: finish(TcpEvent::none); break;
    default: break;
  }
}

// RFC 5681 §3.2, RFC 6582 §3.2 steps 1 and 2.
void Tcp::handle_duplicate_ack() {
  if (recovering_) {
    if (cwnd_ < cwnd_max) cwnd_ += emss_;
    return;
  }
  if (duplicates_ < 3) ++duplicates_;
  if (duplicates_ != 3 || !seq_lt(recover_, snd_una_)) return;
  ssthresh_ = std::max((snd_max_ - snd_una_) / 2, 2u * emss_);
  cwnd_ = ssthresh_ + 3u * emss_;
  recover_ = snd_max_;
  recovering_ = send_first_again_ = true;
}

// RFC 9293 §3.10.7.4, fifth check. False: the text is ignored.
bool Tcp::handle_ack(Instant now, const wire::TcpHeader& header, std::uint32_t length) {
  if (state_ == TcpState::syn_received) {
    if (header.ack != iss_ + 1 || snd_max_ == iss_) {
      refuse(header.ack);
      return false;
    }
    establish(now);
    snd_wnd_ = std::uint32_t{header.window} << snd_scale_;
    snd_wl1_ = header.seq;
    snd_wl2_ = header.ack;
  }
  if (seq_lt(snd_max_, header.ack)) {
    answer_unacceptable(now, header, length);
    return false;
  }
  const std::uint32_t window = std::uint32_t{header.window} << snd_scale_;
  if (seq_lt(snd_una_, header.ack)) {
    handle_new_ack(now, header);
    if (state_ == TcpState::closed) return false;
  } else if (header.ack == snd_una_) {
    if (length == 0 && window == snd_wnd_ && window != 0 && snd_una_ != snd_max_) handle_duplicate_ack();
    // RFC 9293 §3.8.6.1: the peer is alive but has no room. An end without an owner does not wait for ever.
    if ((timer_ == Timer::persist || window == 0) && !orphan_) retries_ = 0;
  }
  if (seq_le(snd_una_, header.ack) &&
      (seq_lt(snd_wl1_, header.seq) || (snd_wl1_ == header.seq && seq_le(snd_wl2_, header.ack)))) {
    snd_wnd_ = window;
    snd_wl1_ = header.seq;
    snd_wl2_ = header.ack;
    if (timer_ == Timer::persist && window != 0) {
      stop_timer();
      backoff_ = 0;
    }
  }
  return true;
}

void Tcp::start_time_wait(Instant now) {
  enter(TcpState::time_wait);
  set_timer(Timer::end, now + options_->time_wait);
}

/// Stores in the buffer: after a gap, or in order and unread.
void Tcp::keep(std::uint32_t seq, ConstBytes payload) {
  if (reassembly_ == nullptr) reassembly_ = std::make_unique<TcpReassembly>();
  std::uint32_t used = unread();
  if (!reassembly_->ranges.empty()) used = reassembly_->ranges.back().right - rcv_read_;
  const std::uint32_t end = seq + static_cast<std::uint32_t>(payload.size()) - rcv_read_;
  reassembly_->ring.reserve(*buffers_, rcv_read_, used, std::max(used, end));
  reassembly_->ring.put(seq, payload);
}

/// `payload` begins at rcv.nxt and fits. Returns it if it can be delivered without passing through the buffer.
ConstBytes Tcp::accept_in_order(Instant now, std::uint32_t seq, ConstBytes payload) {
  const auto size = static_cast<std::uint32_t>(payload.size());
  const bool through = unread() == 0 && !paused_;
  if (!through) keep(seq, payload);
  rcv_nxt_ += size;
  if (through) rcv_read_ = rcv_nxt_;
  if (reassembly_ != nullptr && !reassembly_->ranges.empty()) {
    auto& ranges = reassembly_->ranges;
    auto joined = ranges.begin();
    for (; joined != ranges.end() && seq_le(joined->left, rcv_nxt_); ++joined)
      rcv_nxt_ = seq_max(rcv_nxt_, joined->right);
    ranges.erase(ranges.begin(), joined);
    ack_now_ = true;  // RFC 5681 §4.2: a gap was filled, completely or in part
  }
  // RFC 9293 §3.8.6.3: every second full segment at once; also if the peer would be left without a window.
  if (rcv_nxt_ - rcv_acked_ >= 2u * emss_ ||
      (rcv_adv_ - rcv_nxt_ < window_step() && offered_edge() - rcv_adv_ >= window_step()))
    ack_now_ = true;
  if (ack_at_ == never && !ack_now_) ack_at_ = now + options_->delayed_ack;
  return through ? payload : ConstBytes{};
}

// RFC 9293 §3.10.7.4, eighth check.
void Tcp::handle_fin(Instant now) {
  fin_taken_ = true;
  ++rcv_nxt_;
  rcv_adv_ = seq_max(rcv_adv_, rcv_nxt_);
  ack_now_ = true;
  raise(TcpEvent::fin);
  if (state_ == TcpState::established) {
    enter(TcpState::close_wait);
  } else if (state_ == TcpState::fin_wait_1) {
    enter(TcpState::closing);
  } else {
    start_time_wait(now);
  }
}

// RFC 9293 §3.10.7.4, seventh check.
ConstBytes Tcp::handle_text(Instant now, std::uint32_t seq, ConstBytes payload, bool fin) {
  if (state_ != TcpState::established && state_ != TcpState::fin_wait_1 && state_ != TcpState::fin_wait_2) return {};
  if (seq_lt(seq, rcv_nxt_)) {
    const std::size_t old = std::min<std::size_t>(rcv_nxt_ - seq, payload.size());
    payload = payload.subspan(old);
    seq += static_cast<std::uint32_t>(old);
    ack_now_ = true;
  }
  const std::uint32_t edge = fin_known_ ? fin_at_ : rcv_adv_;
  const std::uint32_t fits = seq_lt(seq, edge) ? edge - seq : 0;
  if (payload.size() > fits) {
    payload = payload.first(fits);
    fin = false;
    ack_now_ = true;
  }
  const std::uint32_t end = seq + static_cast<std::uint32_t>(payload.size());
  if (seq_lt(seq, rcv_nxt_)) return {};
  if (!payload.empty() && orphan_) {  // RFC 9293 §3.6.1: there is no reader
    abort(now);
    return {};
  }
  const bool gap = seq != rcv_nxt_;
  if (fin && !fin_known_ &&
      (reassembly_ == nullptr || reassembly_->ranges.empty() || seq_le(reassembly_->ranges.back().right, end))) {
    fin_known_ = true;
    fin_at_ = end;
  }
  ConstBytes out;
  if (gap) {
    if (payload.empty() && !fin) return {};
    ++out_of_order_;
    ack_now_ = true;  // RFC 5681 §4.2
    if (payload.empty()) return {};
    keep(seq, payload);
    reassembly_->insert({seq, end});
    return {};
  }
  if (!payload.empty()) out = accept_in_order(now, seq, payload);
  if (fin_known_ && rcv_nxt_ == fin_at_) handle_fin(now);
  return out;
}

ConstBytes Tcp::handle_segment(Instant now, const wire::TcpHeader& header, ConstBytes payload) {
  release_idle_memory();
  if (state_ == TcpState::closed) return {};
  if (watch_ != nullptr) watch_->heard_at = now;
  std::uint32_t seq = header.seq;
  if (state_ == TcpState::syn_sent) {
    if (!handle_syn_sent(now, header)) return {};
    ++seq;
  } else {
    const std::uint32_t length =
        static_cast<std::uint32_t>(payload.size()) + (header.fin() ? 1 : 0) + (header.syn() ? 1 : 0);
    if (!check_segment(now, header, length) || !handle_ack(now, header, length)) return {};
  }
  return handle_text(now, seq, payload, header.fin());
}

}  // namespace parley::sim
