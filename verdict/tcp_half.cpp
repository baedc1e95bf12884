// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "verdict/tcp_half.hpp"

#include <algorithm>

namespace parley::verdict {

void TcpHalf::syn(std::uint32_t seq) {
  syn_seq_ = seq;
  from_syn_ = synchronised_ = true;
  next_seq_ = seq + 1;
  position_ = 0;
}

std::optional<std::uint64_t> TcpHalf::position_of(std::uint32_t seq) const {
  if (!synchronised_) return {};
  const std::int64_t distance = static_cast<std::int32_t>(seq - next_seq_);
  const std::int64_t at = static_cast<std::int64_t>(position_) + distance;
  if (at < 0) return {};
  return static_cast<std::uint64_t>(at);
}

void TcpHalf::acked(std::uint32_t ack) {
  if (!synchronised_) {  // the capture began later: the receiver knows where this direction stands
    synchronised_ = true;
    next_seq_ = ack;
    return;
  }
  if (const auto at = position_of(ack); at && *at > acked_ && *at < position_ + absurd_distance) acked_ = *at;
}

void TcpHalf::remember(ConstBytes data) {
  if (!keep_history_) return;
  if (data.size() > history_max) data = data.last(history_max);
  if (history_.size() + data.size() > 2 * history_max) {
    const std::size_t drop = history_.size() - std::min(history_.size(), history_max);
    history_.erase(history_.begin(), history_.begin() + static_cast<std::ptrdiff_t>(drop));
  }
  history_.insert(history_.end(), data.begin(), data.end());
}

void TcpHalf::compare(std::uint64_t at, ConstBytes data) {
  const std::uint64_t from = position_ - history_.size();  // history_ ends at position_
  const std::uint64_t begin = std::max(at, from), end = std::min<std::uint64_t>(at + data.size(), position_);
  if (begin >= end) return;
  const ConstBytes old = ConstBytes(history_).subspan(begin - from, end - begin);
  const ConstBytes now = data.subspan(begin - at, end - begin);
  if (!std::equal(old.begin(), old.end(), now.begin())) differed_ = true;
}

void TcpHalf::deliver(ConstBytes data, std::uint32_t length, const SegmentRef& ref, bool start, HalfSink& sink) {
  remember(data);
  position_ += data.size();
  next_seq_ += static_cast<std::uint32_t>(data.size());
  if (!data.empty()) sink.octets(data, ref, start);
  if (length > data.size()) {
    const std::uint32_t cut = length - static_cast<std::uint32_t>(data.size());
    history_.clear();
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
  if (t.length == 0) return distance == -1 && !t.fin() && !t.syn() ? SegmentClass::keepalive : SegmentClass::empty;
  if (distance == 0) {
    waited_ = 0;
    deliver(t.payload, t.length, ref, true, sink);
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
  if (t.payload.size() < keep) {  // cut before what is new
    deliver({}, t.length - static_cast<std::uint32_t>(back), ref, false, sink);
  } else {
    deliver(fresh, t.length - static_cast<std::uint32_t>(back), ref, false, sink);
  }
  drain(budget, sink);
  return SegmentClass::in_order;
}

void TcpHalf::hold(std::uint64_t at, const wire::TcpSegmentView& t, const SegmentRef& ref, ReassemblyBudget& budget) {
  std::uint64_t begin = at;
  const std::uint64_t end = at + t.length;
  auto it = held_.upper_bound(begin);
  if (it != held_.begin()) --it;
  while (begin < end) {
    // Skip what is held already; take what lies before the next held piece.
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
    Held piece;
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

void TcpHalf::drain(ReassemblyBudget& budget, HalfSink& sink) {
  while (!held_.empty() && held_.begin()->first <= position_) {
    auto node = held_.extract(held_.begin());
    Held& h = node.mapped();
    const std::uint64_t back = position_ - node.key();
    held_octets_ -= h.length;
    budget.used -= h.data.size();
    if (back >= h.length) continue;
    const ConstBytes data(h.data);
    deliver(data.size() > back ? data.subspan(back) : ConstBytes{}, h.length - static_cast<std::uint32_t>(back), h.ref,
            h.start && back == 0, sink);
  }
}

void TcpHalf::skip_hole(const SegmentRef& ref, ReassemblyBudget& budget, HalfSink& sink) {
  if (held_.empty()) return;
  const std::uint64_t n = held_.begin()->first - position_;
  history_.clear();
  position_ += n;
  next_seq_ += static_cast<std::uint32_t>(n);
  waited_ = 0;
  sink.missing(n, ref, false);
  drain(budget, sink);
}

void TcpHalf::tick(const SegmentRef& ref, ReassemblyBudget& budget, HalfSink& sink) {
  if (held_.empty() || acked_ <= position_) return;
  if (++waited_ > patience) skip_hole(ref, budget, sink);
}

void TcpHalf::flush(const SegmentRef& ref, ReassemblyBudget& budget, HalfSink& sink) {
  while (!held_.empty()) skip_hole(ref, budget, sink);
  // One octet more than seen is the FIN's place in the sequence, not data.
  if (synchronised_ && acked_ > position_ + 1) {
    const std::uint64_t n = acked_ - position_;
    position_ += n;
    next_seq_ += static_cast<std::uint32_t>(n);
    history_.clear();
    sink.missing(n, ref, false);
  }
}

void TcpHalf::forget(ReassemblyBudget& budget) {
  for (const auto& [at, h] : held_) budget.used -= h.data.size();
  held_.clear();
  held_octets_ = 0;
  history_ = {};
  keep_history_ = false;
}

}  // namespace parley::verdict
