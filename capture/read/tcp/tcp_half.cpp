// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/read/tcp/tcp_half.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace parley::capture {
namespace {

// Visits `n` octets of a ring from stream position `at` on, as one or two pieces.
template <class Span, class Visit>
void pieces_of(Span ring, std::uint64_t at, std::size_t n, Visit&& visit) {
  const std::size_t begin = at & (ring.size() - 1), first = std::min(n, ring.size() - begin);
  visit(ring.subspan(begin, first), 0);
  if (n > first) visit(ring.first(n - first), first);
}

}  // namespace

void TcpHalf::syn(std::uint32_t seq, bool counted) {
  syn_seq_ = seq;
  if (synchronised_ && (counted || position_ > 0 || !held_.empty() || acked_ > 0)) {
    from_syn_ = next_seq_ - static_cast<std::uint32_t>(position_) == seq + 1;
    return;
  }
  from_syn_ = synchronised_ = true;
  next_seq_ = seq + 1;
  position_ = 0;
}

bool TcpHalf::may_begin_at(std::uint32_t seq) const {
  return synchronised_ && next_seq_ - static_cast<std::uint32_t>(position_) - (seq + 1) <= late_syn_max;
}

// An empty segment has the sequence number of the next octet (RFC 9293 §3.4): all octets before it were sent.
void TcpHalf::note_sent(const wire::TcpSegmentView& t) {
  const auto at = position_of(t.seq + t.length);
  if (t.syn() || !at || *at > position_ + held_octets_max) return;
  sent_ = std::max(sent_, *at);
  if (t.fin() && !ends_at_) ends_at_ = *at;
}

std::optional<std::uint64_t> TcpHalf::position_of(std::uint32_t seq) const {
  if (!synchronised_) return {};
  const std::int64_t distance = static_cast<std::int32_t>(seq - next_seq_);
  const std::int64_t at = static_cast<std::int64_t>(position_) + distance;
  if (at < 0) return {};
  return static_cast<std::uint64_t>(at);
}

void TcpHalf::acked(std::uint32_t ack) {
  if (!synchronised_) {  // the capture began later: the ACK gives the position of this direction
    synchronised_ = true;
    next_seq_ = ack;
    return;
  }
  if (const auto at = position_of(ack); at && *at > acked_ && *at < position_ + absurd_distance) acked_ = *at;
}

// Enlarges the ring unless the budget of all connections is exhausted.
bool TcpHalf::grow_history(std::size_t wanted, ReassemblyBudget& budget) {
  const std::size_t size = std::bit_ceil(std::clamp(wanted, history_min, history_max));
  if (size <= history_.size() || budget.history + size - history_.size() > ReassemblyBudget::history_max) return false;
  Bytes larger(size);
  const std::uint64_t from = position_ - history_known_;
  if (history_known_ > 0)
    pieces_of(ConstBytes(history_), from, history_known_, [&](ConstBytes old, std::size_t skip) {
      pieces_of(MutBytes(larger), from + skip, old.size(), [&](MutBytes piece, std::size_t done) {
        std::copy_n(old.begin() + static_cast<std::ptrdiff_t>(done), piece.size(), piece.begin());
      });
    });
  budget.history += size - history_.size();
  history_.swap(larger);
  return true;
}

void TcpHalf::remember(ConstBytes data, ReassemblyBudget& budget) {
  if (!keep_history_ || data.empty()) return;
  if (history_known_ + data.size() > history_.size() && history_.size() < history_max)
    (void)grow_history(history_known_ + data.size(), budget);
  if (history_.empty()) return;
  const std::size_t skip = data.size() - std::min(data.size(), history_.size());
  const ConstBytes kept = data.subspan(skip);
  pieces_of(MutBytes(history_), position_ + skip, kept.size(), [&](MutBytes piece, std::size_t done) {
    std::copy_n(kept.begin() + static_cast<std::ptrdiff_t>(done), piece.size(), piece.begin());
  });
  history_known_ = std::min(history_.size(), history_known_ + data.size());
}

void TcpHalf::compare(std::uint64_t at, ConstBytes data) {
  const std::uint64_t from = position_ - history_known_;  // the history ends at position_
  const std::uint64_t begin = std::max(at, from), end = std::min<std::uint64_t>(at + data.size(), position_);
  if (begin >= end) return;
  pieces_of(ConstBytes(history_), begin, end - begin, [&](ConstBytes old, std::size_t done) {
    const ConstBytes now = data.subspan(begin - at + done, old.size());
    if (!std::equal(old.begin(), old.end(), now.begin())) differed_ = true;
  });
}

void TcpHalf::deliver(ConstBytes data, std::uint32_t length, const SegmentRef& ref, bool start,
                      ReassemblyBudget& budget, HalfSink& sink) {
  remember(data, budget);
  position_ += data.size();
  next_seq_ += static_cast<std::uint32_t>(data.size());
  if (!data.empty()) sink.octets(data, ref, start);
  if (length > data.size()) {
    const std::uint32_t cut = length - static_cast<std::uint32_t>(data.size());
    history_known_ = 0;
    position_ += cut;
    next_seq_ += cut;
    sink.missing(cut, ref, true);
  }
}

SegmentClass TcpHalf::segment(const wire::TcpSegmentView& t, const SegmentRef& ref, ReassemblyBudget& budget,
                              HalfSink& sink) {
  differed_ = false;
  const std::uint32_t seq = t.syn() ? t.seq + 1 : t.seq;
  if (!synchronised_) {
    synchronised_ = true;
    next_seq_ = seq;
  }
  const std::int64_t distance = static_cast<std::int32_t>(seq - next_seq_);
  if (t.length == 0 || t.fin()) note_sent(t);
  if (t.length == 0) return distance == -1 && !t.fin() && !t.syn() ? SegmentClass::keepalive : SegmentClass::empty;
  const bool queue = must_wait(ref) || (!held_.empty() && held_.begin()->first == position_);
  if (queue && distance > -static_cast<std::int64_t>(t.length) &&
      distance <= static_cast<std::int64_t>(absurd_distance) && !(distance == -1 && t.length == 1)) {
    const std::uint64_t at = position_ + static_cast<std::uint64_t>(distance), next = held_in_a_row();
    if (distance < 0) compare(at, t.payload);
    hold(at, t, ref, budget);
    if (held_octets_ > held_octets_max || held_.size() > held_segments_max || budget.used > ReassemblyBudget::max)
      never_wait();
    drain(budget, sink);
    return at > next               ? SegmentClass::out_of_order
           : at + t.length <= next ? SegmentClass::retransmission
                                   : SegmentClass::in_order;
  }
  if (distance == 0) {
    waited_ = 0;
    deliver(t.payload, t.length, ref, true, budget, sink);
    drain(budget, sink);
    return SegmentClass::in_order;
  }
  if (distance > 0) {
    if (static_cast<std::uint64_t>(distance) > absurd_distance) return SegmentClass::absurd;
    hold(position_ + static_cast<std::uint64_t>(distance), t, ref, budget);
    if (held_octets_ > held_octets_max || held_.size() > held_segments_max || budget.used > ReassemblyBudget::max)
      skip_hole(ref, budget, sink);
    return SegmentClass::out_of_order;
  }
  // RFC 9293 §3.8.4: a keep-alive repeats the last octet, with any content.
  if (distance == -1 && t.length == 1) return SegmentClass::keepalive;
  const auto back = static_cast<std::uint64_t>(-distance);
  if (back <= position_) compare(position_ - back, t.payload);
  if (back >= t.length) return SegmentClass::retransmission;
  const auto keep = static_cast<std::size_t>(back);
  const ConstBytes fresh = t.payload.size() > keep ? t.payload.subspan(keep) : ConstBytes{};
  if (t.payload.size() < keep) {  // the snap length cut all new octets
    deliver({}, t.length - static_cast<std::uint32_t>(back), ref, false, budget, sink);
  } else {
    deliver(fresh, t.length - static_cast<std::uint32_t>(back), ref, false, budget, sink);
  }
  drain(budget, sink);
  return SegmentClass::in_order;
}

void TcpHalf::hold(std::uint64_t at, const wire::TcpSegmentView& t, const SegmentRef& ref, ReassemblyBudget& budget) {
  std::uint64_t begin = std::max(at, position_);
  const std::uint64_t end = at + t.length;
  auto it = held_.upper_bound(begin);
  if (it != held_.begin()) --it;
  while (begin < end) {
    // Skip octets that are already held; take those before the next held piece.
    while (it != held_.end() && it->first + it->second.length <= begin) ++it;
    std::uint64_t stop = end;
    if (it != held_.end() && it->first < end) {
      if (it->first <= begin) {
        const std::uint64_t common = std::min(end, it->first + it->second.length) - begin;
        const auto piece_of = [&](ConstBytes data, std::uint64_t from) {
          return from < data.size() ? data.subspan(from, std::min<std::uint64_t>(common, data.size() - from))
                                    : ConstBytes{};
        };
        const ConstBytes mine = piece_of(t.payload, begin - at), theirs = piece_of(it->second.data, begin - it->first);
        const std::size_t both = std::min(mine.size(), theirs.size());
        if (!std::equal(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(both), theirs.begin()))
          differed_ = true;
        begin += common;
        continue;
      }
      stop = it->first;
    }
    BufferedSegment piece;
    piece.length = static_cast<std::uint32_t>(stop - begin);
    piece.start = begin == at;
    piece.ref = ref;
    if (begin - at < t.payload.size()) {
      const ConstBytes part = t.payload.subspan(begin - at);
      piece.data.assign(part.begin(),
                        part.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(part.size(), piece.length)));
    }
    held_octets_ += piece.length;
    budget.used += piece.data.size();
    held_.emplace(begin, std::move(piece));
    begin = stop;
  }
}

// Removes held octets before position_: a segment that was delivered may have included some of them.
void TcpHalf::trim(ReassemblyBudget& budget) {
  while (!held_.empty() && held_.begin()->first < position_) {
    auto node = held_.extract(held_.begin());
    BufferedSegment& h = node.mapped();
    const std::uint64_t back = std::min<std::uint64_t>(position_ - node.key(), h.length);
    const std::size_t known = std::min<std::size_t>(back, h.data.size());
    held_octets_ -= back;
    budget.used -= known;
    if (back == h.length) continue;
    h.data.erase(h.data.begin(), h.data.begin() + static_cast<std::ptrdiff_t>(known));
    h.length -= static_cast<std::uint32_t>(back);
    h.start = false;
    node.key() = position_;
    held_.insert(std::move(node));
  }
}

void TcpHalf::drain(ReassemblyBudget& budget, HalfSink& sink) {
  trim(budget);
  while (!held_.empty() && held_.begin()->first == position_ && !must_wait(held_.begin()->second.ref)) {
    const auto node = held_.extract(held_.begin());
    const BufferedSegment& h = node.mapped();
    held_octets_ -= h.length;
    budget.used -= h.data.size();
    deliver(h.data, h.length, h.ref, h.start, budget, sink);
  }
}

void TcpHalf::skip_hole(const SegmentRef& ref, ReassemblyBudget& budget, HalfSink& sink) {
  if (held_.empty()) return;
  waited_ = 0;
  lose(held_.begin()->first - position_, ref, sink);
  drain(budget, sink);
}

void TcpHalf::lose(std::uint64_t n, const SegmentRef& ref, HalfSink& sink) {
  if (n == 0) return;
  history_known_ = 0;
  position_ += n;
  next_seq_ += static_cast<std::uint32_t>(n);
  sink.missing(n, ref, false);
}

std::uint64_t TcpHalf::held_in_a_row() const {
  std::uint64_t end = position_;
  for (const auto& [at, h] : held_) {
    if (at != end) break;
    end += h.length;
  }
  return end;
}

std::uint64_t TcpHalf::waits_for() const {
  if (held_.empty() || held_.begin()->first != position_) return 0;
  return must_wait(held_.begin()->second.ref) ? held_.begin()->second.ref.peer_received : 0;
}

bool TcpHalf::waited_long() {
  if (++waiting_ <= wait_max) return false;
  waiting_ = 0;
  ++vain_waits_;
  return true;
}

void TcpHalf::concede(std::uint64_t position, const SegmentRef& ref, ReassemblyBudget& budget, HalfSink& sink) {
  while (position_ < position) {
    const std::uint64_t next = held_.empty() ? position : std::min(position, held_.begin()->first);
    lose(next - position_, ref, sink);
    const std::uint64_t before = position_;
    drain(budget, sink);
    if (position_ < position && position_ == before && !held_.empty() && held_.begin()->first == position_) {
      never_wait();  // both directions wait for each other
      drain(budget, sink);
    }
  }
}

void TcpHalf::tick(const SegmentRef& ref, ReassemblyBudget& budget, HalfSink& sink) {
  if (held_.empty() || acked_ <= position_ || held_.begin()->first == position_) return;
  if (++waited_ > patience) skip_hole(ref, budget, sink);
}

void TcpHalf::flush(const SegmentRef& ref, ReassemblyBudget& budget, HalfSink& sink) {
  never_wait();
  drain(budget, sink);
  while (!held_.empty()) skip_hole(ref, budget, sink);
  const std::uint64_t shown = std::max(acked_, sent_);
  if (ends_at_ && *ends_at_ > position_)
    lose(*ends_at_ - position_, ref, sink);
  else if (synchronised_ && !ends_at_ && shown > position_ + 1)
    // One octet more than seen is the sequence number of a FIN, not data.
    lose(shown - position_, ref, sink);
}

void TcpHalf::forget(ReassemblyBudget& budget) {
  for (const auto& [at, h] : held_) budget.used -= h.data.size();
  held_.clear();
  held_octets_ = 0;
  budget.history -= history_.size();
  history_ = {};
  history_known_ = 0;
  keep_history_ = false;
}

}  // namespace parley::capture
