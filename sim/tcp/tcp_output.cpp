// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The segments that a connection sends, one at a time (RFC 9293 §3.8, §3.10.7).
#include <algorithm>

#include "sim/tcp/tcp.hpp"

namespace parley::sim {
namespace {

using wire::tcp_flag::ack;
using wire::tcp_flag::fin;
using wire::tcp_flag::psh;
using wire::tcp_flag::rst;
using wire::tcp_flag::syn;

constexpr std::uint8_t flags_of(int flags) { return static_cast<std::uint8_t>(flags); }

}  // namespace

/// RFC 6298 §2, §5.5 and §5.7, doubled for each time-out since the last sample.
Duration Tcp::rto() const {
  Duration rto =
      syn_was_late_ ? std::max<Duration>(std::chrono::seconds(3), options_->rto_initial) : options_->rto_initial;
  if (srtt_ != Duration{}) rto = srtt_ + std::max<Duration>(std::chrono::microseconds(1), 4 * rttvar_);
  rto = std::clamp(rto, std::min(options_->rto_min, options_->rto_max), options_->rto_max);
  for (int i = 0; i < backoff_ && rto < options_->rto_max; ++i) rto = std::min(2 * rto, options_->rto_max);
  return rto;
}

/// The right edge of the receive space, at least the announced one: a window does not shrink (RFC 9293 §3.8.6).
std::uint32_t Tcp::offered_edge() const {
  const std::uint32_t full = rcv_read_ + receive_buffer();
  const std::uint32_t fits = seq_lt(rcv_nxt_, full) ? full - rcv_nxt_ : 0;
  return seq_max(rcv_adv_, rcv_nxt_ + std::min(fits, 65535u << rcv_scale_));
}

void Tcp::fill_header(Instant now, wire::TcpHeader& header, std::uint32_t seq, std::uint8_t flags) {
  header.seq = seq;
  header.ack = rcv_nxt_;
  header.flags = flags;
  rcv_adv_ = offered_edge();
  header.window = static_cast<std::uint16_t>(std::min((rcv_adv_ - rcv_nxt_) >> rcv_scale_, 65535u));
  if (timestamps_) {
    header.timestamps = true;
    header.ts_value = timestamp_of(now);
    header.ts_echo = ts_recent_;
  }
  rcv_acked_ = rcv_nxt_;
  ack_now_ = false;
  ack_at_ = never;
}

// RFC 2018 §4: the block with the newest octets first; then the others, highest sequence numbers first.
void Tcp::emit_sack(wire::TcpHeader& header) const {
  if (!sack_ || reassembly_ == nullptr) return;
  const auto& ranges = reassembly_->ranges;
  const auto add = [&](const TcpRange& range) {
    if (header.sack_count < header.sack.size()) header.sack[header.sack_count++] = {range.left, range.right};
  };
  for (const TcpRange& range : ranges)
    if (range.left == reassembly_->newest) add(range);
  for (auto range = ranges.rbegin(); range != ranges.rend() && header.sack_count < header.sack.size(); ++range)
    if (range->left != reassembly_->newest) add(*range);
}

void Tcp::emit_syn(Instant now, wire::TcpHeader& header) {
  const bool answer = state_ == TcpState::syn_received;
  const std::uint8_t scale = rcv_scale_;
  rcv_scale_ = 0;  // RFC 7323 §2.2: the window of a SYN is never scaled
  fill_header(now, header, iss_, flags_of(answer ? syn | ack : syn));
  rcv_scale_ = scale;
  if (!answer) header.ack = 0;
  header.mss = mss_;
  header.sack_permitted = sack_;
  if (scaling_) header.window_scale = static_cast<std::int8_t>(scale);
  if (snd_max_ == iss_) {
    timing_ = true;
    rtt_from_ = now;
    rtt_end_ = iss_ + 1;
  } else {
    ++retransmits_;
    timing_ = false;
  }
  snd_nxt_ = iss_ + 1;
  snd_max_ = seq_max(snd_max_, snd_nxt_);
  set_timer(Timer::retransmit, now + rto());
}

/// Returns the sequence number after the segment.
std::uint32_t Tcp::emit_data(Instant now, TcpOutput& out, std::uint32_t seq, std::uint32_t size, bool with_fin) {
  const bool last = seq + size == snd_end_;
  fill_header(now, out.header, seq, flags_of(ack | (last && size != 0 ? psh : 0) | (with_fin ? fin : 0)));
  if (size != 0) out.payload = send_.view(seq, size);
  const std::uint32_t end = seq + size + (with_fin ? 1 : 0);
  if (watch_ != nullptr && snd_una_ == snd_max_) watch_->waits_since = now;
  if (seq_lt(seq, snd_max_)) {
    ++retransmits_;
    timing_ = false;  // RFC 6298 §3
  } else if (!timing_) {
    timing_ = true;
    rtt_from_ = now;
    rtt_end_ = end;
  }
  snd_max_ = seq_max(snd_max_, end);
  return end;
}

/// From nxt on, as the windows allow. Less than a full segment only if it is the last one, or no data is in flight that
/// would open the window (RFC 9293 §3.8.6.2.1).
bool Tcp::emit_new_data(Instant now, TcpOutput& out) {
  const bool fin_due = fin_queued_ && seq_le(snd_nxt_, snd_end_);
  const std::uint32_t waiting = seq_lt(snd_nxt_, snd_end_) ? snd_end_ - snd_nxt_ : 0;
  if (waiting == 0 && !fin_due) return false;
  const std::uint32_t under_way = snd_nxt_ - snd_una_;
  const std::uint32_t window = snd_wnd_ > under_way ? snd_wnd_ - under_way : 0;
  const std::uint32_t congestion = cwnd_ > under_way ? cwnd_ - under_way : 0;
  const std::uint32_t wanted = std::min<std::uint32_t>(waiting, emss_);
  const std::uint32_t size = std::min({wanted, window, congestion});
  const bool with_fin = fin_due && size == waiting && window > size;  // RFC 9293 §3.4: FIN takes a sequence number
  if (under_way == 0 && window == 0) {
    if (timer_ != Timer::persist) set_timer(Timer::persist, now + rto());
    return false;
  }
  if ((size < wanted && under_way != 0) || (size == 0 && !with_fin)) return false;
  snd_nxt_ = emit_data(now, out, snd_nxt_, size, with_fin);
  probing_ = false;
  if (timer_ != Timer::retransmit) set_timer(Timer::retransmit, now + rto());  // RFC 6298 §5.1
  return true;
}

/// The first unacknowledged segment: fast retransmit, and partial ACKs (RFC 6582 §3.2).
bool Tcp::emit_first_again(Instant now, TcpOutput& out) {
  send_first_again_ = false;
  const std::uint32_t edge = fin_sent() ? snd_end_ : snd_max_;
  const std::uint32_t sent = seq_lt(snd_una_, edge) ? edge - snd_una_ : 0;
  const bool only_fin = snd_una_ == snd_end_ && fin_sent();
  if (sent == 0 && !only_fin) return false;
  const std::uint32_t size = std::min<std::uint32_t>(sent, emss_);
  emit_data(now, out, snd_una_, size, fin_sent() && size == sent);
  return true;
}

bool Tcp::poll_segment(Instant now, TcpOutput& out) {
  out = {};
  if (send_stray_reset_) {
    send_stray_reset_ = false;
    out.header.seq = reset_seq_;
    out.header.flags = rst;
    return true;
  }
  switch (state_) {
    case TcpState::closed:
      if (!send_reset_) return false;
      send_reset_ = false;
      fill_header(now, out.header, probing_ ? snd_una_ : snd_max_, flags_of(rst | ack));
      return true;
    case TcpState::syn_sent:
    case TcpState::syn_received:
      if (snd_nxt_ == iss_) return emit_syn(now, out.header), true;
      break;
    case TcpState::established:
    case TcpState::fin_wait_1:
    case TcpState::close_wait:
    case TcpState::closing:
    case TcpState::last_ack:
      if (send_first_again_ && emit_first_again(now, out)) return true;
      if (send_probe_) {
        // One octet beyond the window, or the FIN: in any case the answer carries the window.
        send_probe_ = false;
        probing_ = true;
        const std::uint32_t size = snd_una_ == snd_end_ ? 0 : 1;
        emit_data(now, out, snd_una_, size, size == 0);
        timing_ = false;
        set_timer(Timer::persist, now + rto());
        return true;
      }
      if (emit_new_data(now, out)) return true;
      break;
    case TcpState::fin_wait_2:
    case TcpState::time_wait: break;
  }
  if (state_ != TcpState::syn_sent && send_keepalive_) {
    // RFC 9293 §3.8.4: an octet that the peer has already acknowledged, and must acknowledge again.
    send_keepalive_ = false;
    fill_header(now, out.header, snd_max_ - 1, ack);
    return true;
  }
  if (state_ == TcpState::syn_sent || !ack_now_) return false;
  // After a time-out nxt has gone back: an ACK there would be outside the peer's window, and ignored.
  fill_header(now, out.header, probing_ ? snd_una_ : snd_max_, ack);
  emit_sack(out.header);
  return true;
}

}  // namespace parley::sim
