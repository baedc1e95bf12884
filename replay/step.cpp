// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "replay/step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/bytes_io.hpp"
#include "wire/mpa.hpp"

namespace parley::replay {
namespace {

using capture::Known;
using capture::SegmentRef;

bool begins_like(ConstBytes head, std::string_view text) {
  const std::size_t n = std::min(head.size(), text.size());
  return std::equal(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(n), text.begin(),
                    [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); });
}

void append(Bytes& to, ConstBytes in) { to.insert(to.end(), in.begin(), in.end()); }

}  // namespace

std::string_view to_string(Step::Kind kind) {
  switch (kind) {
    case Step::Kind::startup: return "startup frame";
    case Step::Kind::rtr_frame: return "Rtr frame";
    case Step::Kind::fpdu: return "FPDU";
    case Step::Kind::raw: return "octets that are not an FPDU";
    case Step::Kind::gap: return "octets that are not in the recording";
    case Step::Kind::fin: return "FIN";
    case Step::Kind::rst: return "RST";
  }
  return "";
}

std::optional<capture::StartupSeen> decode_startup(ConstBytes frame) {
  const auto v = wire::MpaFrameView::parse(frame);
  if (!v) return {};
  return capture::read_startup(*v);
}

Step& StepReader::add(Step::Kind kind, const SegmentRef& first, const SegmentRef& last) {
  Step s;
  s.kind = kind;
  s.first = first;
  s.last = last;
  s.end = taken_;
  steps_.push_back(std::move(s));
  return steps_.back();
}

void StepReader::octets(ConstBytes in, const SegmentRef& ref, bool start) {
  position_ += in.size();
  read(in, ref, start);
}

void StepReader::missing(std::uint64_t n, const SegmentRef& ref, bool cut) {
  position_ += n;
  skip_missing(n, ref, cut);
}

void StepReader::read(ConstBytes in, const SegmentRef& ref, bool start) {
  taken_ += in.size();
  switch (phase_) {
    case Phase::startup: return startup_octets(in, ref);
    case Phase::waiting: return keep({Bytes(in.begin(), in.end()), 0, false, start, ref});
    case Phase::rtr_frame: keep({Bytes(in.begin(), in.end()), 0, false, start, ref}); return rtr_or_fpdus();
    case Phase::fpdus: return walk(in, ref, start);
    case Phase::raw: return raw(in, ref);
  }
}

void StepReader::skip_missing(std::uint64_t n, const SegmentRef& ref, bool cut) {
  taken_ += n;
  switch (phase_) {
    case Phase::startup: {
      // If only private data are missing, the frame's length is known.
      const auto v = wire::MpaFrameView::parse(head_);
      if (v && head_.size() + n <= v->frame_size()) {
        head_.resize(head_.size() + static_cast<std::size_t>(n));
        return startup_octets({}, ref);
      }
      gap(n + head_.size(), ref);
      head_.clear();
      // FPDUs may be found again; their beginning is a guess.
      startup_length_ = position_;
      phase_ = Phase::waiting;
      return;
    }
    case Phase::waiting: return keep({{}, n, cut, false, ref});
    case Phase::rtr_frame: keep({{}, n, cut, false, ref}); return rtr_or_fpdus();
    case Phase::fpdus:
      if (walker_.markers() == Known::unknown) {  // only its first octets would have shown them
        gap(n, ref);
        phase_ = Phase::raw;
        return;
      }
      pending_.resize(pending_.size() + static_cast<std::size_t>(std::min<std::uint64_t>(n, 1 << 20)));
      walker_.missing(n, ref, *this);
      note_loss(ref);
      return after_walk();
    case Phase::raw: return gap(n, ref);
  }
}

void StepReader::startup_octets(ConstBytes in, const SegmentRef& ref) {
  constexpr std::string_view key_head = "MPA ID ";
  if (!in.empty() || head_parts_.empty()) head_parts_.emplace_back(head_.size(), ref);
  if (head_known_ == head_.size()) head_known_ += in.size();
  append(head_, in);
  if (!begins_like(head_, key_head) && mid_stream_) {
    startup_length_ = position_ - head_.size();
    gap(1, head_parts_.front().second);  // its length is unknown
    without_startup_ = true;
    phase_ = Phase::waiting;
    return keep({std::exchange(head_, {}), 0, false, true, ref});
  }
  if (!begins_like(head_, key_head)) return head_is_raw();
  const auto v = wire::MpaFrameView::parse(head_);
  if (!v || head_.size() < v->frame_size()) return;
  const std::size_t size = v->frame_size();
  const Bytes rest(head_.begin() + static_cast<std::ptrdiff_t>(size), head_.end());
  head_.resize(size);
  startup_length_ = position_ - rest.size();
  Step& s = add(Step::Kind::startup, head_parts_.front().second, ref);
  s.end = startup_length_;
  s.known = std::min(head_known_, size);
  s.octets = std::move(head_);
  head_.clear();
  phase_ = Phase::waiting;
  if (!rest.empty()) keep({rest, 0, false, false, ref});
}

// It is not a startup frame, or an incomplete one: its octets become raw steps.
void StepReader::head_is_raw() {
  phase_ = Phase::raw;
  const Bytes all = std::exchange(head_, {});
  for (std::size_t i = 0; i < head_parts_.size(); ++i) {
    const std::size_t from = head_parts_[i].first;
    const std::size_t to = i + 1 < head_parts_.size() ? head_parts_[i + 1].first : all.size();
    raw(ConstBytes(all).subspan(from, to - from), head_parts_[i].second);
    if (!steps_.empty()) steps_.back().end = position_ - all.size() + to;
  }
}

void StepReader::keep(Chunk chunk) {
  if (kept_memory_ > kept_max) {
    chunk.missing += chunk.data.size();
    chunk.data.clear();
  }
  kept_octets_ += chunk.data.size();
  if (chunk.data.empty() && !kept_.empty() && kept_.back().data.empty()) {
    kept_.back().missing += chunk.missing;
    return;
  }
  kept_memory_ += chunk.data.size() + sizeof(Chunk);
  kept_.push_back(std::move(chunk));
}

void StepReader::agreed(Known crc, Known markers, bool rtr_frame) {
  if (phase_ == Phase::raw) return;
  crc_ = crc;
  markers_ = markers;
  if (phase_ == Phase::startup) return;
  if (without_startup_ && markers != Known::no) {
    // Markers are at multiples of 512 from an octet that was not captured (RFC 5044 §4.3).
    phase_ = Phase::raw;
    taken_ = position_;
    gap(kept_octets_, kept_.empty() ? SegmentRef{} : kept_.front().ref);
    return kept_.clear();
  }
  fpdu_base_ = startup_length_;
  if (rtr_frame) {
    phase_ = Phase::rtr_frame;
    return rtr_or_fpdus();
  }
  begin_fpdus();
}

void StepReader::no_fpdus() {
  if (phase_ == Phase::startup) return;
  phase_ = Phase::raw;
  taken_ = startup_length_;
  flush_kept();
}

void StepReader::rtr_or_fpdus() {
  constexpr std::string_view rtr_head = "MPA ID R";
  // Each chunk is appended only once, so that many small chunks cost little.
  for (; !rtr_cut_ && rtr_chunks_ < kept_.size(); ++rtr_chunks_) {
    const Chunk& c = kept_[rtr_chunks_];
    if (c.missing > 0)
      rtr_cut_ = true;
    else
      append(rtr_head_, c.data);
  }
  const Bytes& head = rtr_head_;
  const bool more_may_come = kept_.empty() || kept_.back().missing == 0;
  const auto v = wire::MpaFrameView::parse(head);
  if (begins_like(head, rtr_head) && (!v || head.size() < v->frame_size()) && more_may_come) return;
  if (begins_like(head, rtr_head) && v && head.size() >= v->frame_size() && v->key != wire::MpaKey::req &&
      v->key != wire::MpaKey::rep) {
    std::size_t skip = v->frame_size();
    Step& s = add(Step::Kind::rtr_frame, kept_.front().ref, kept_.back().ref);
    s.octets.assign(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(skip));
    s.known = skip;
    s.end = fpdu_base_ = startup_length_ + skip;
    while (skip > 0) {
      Chunk& c = kept_.front();
      const std::size_t n = std::min(skip, c.data.size());
      c.data.erase(c.data.begin(), c.data.begin() + static_cast<std::ptrdiff_t>(n));
      c.start = false;
      skip -= n;
      if (c.data.empty()) kept_.pop_front();
    }
  }
  begin_fpdus();
}

void StepReader::begin_fpdus() {
  phase_ = Phase::fpdus;
  taken_ = fpdu_base_;
  rtr_head_ = {};
  walker_.start(crc_, markers_);
  walker_.trust_agreement();  // do not wait for further octets to confirm it: a live side may not send any
  flush_kept();
}

void StepReader::flush_kept() {
  std::deque<Chunk> kept;
  kept.swap(kept_);
  kept_octets_ = kept_memory_ = 0;
  for (const Chunk& c : kept) {
    if (!c.data.empty()) read(c.data, c.ref, c.start);
    if (c.missing > 0) skip_missing(c.missing, c.ref, c.cut);
  }
}

void StepReader::walk(ConstBytes in, const SegmentRef& ref, bool start) {
  pending_parts_.emplace_back(pending_base_ + pending_.size(), ref);
  append(pending_, in);
  walker_.octets(in, ref, start, *this);
  note_loss(ref);
  after_walk();
}

void StepReader::note_loss(const SegmentRef& ref) {
  if (walker_.lost() && !lost_ref_) lost_ref_ = ref;
}

void StepReader::after_walk() {
  const std::uint64_t from = broken_ ? broken_at_ : walker_.position();
  const std::uint64_t skip = from - std::min(from, pending_base_);
  pending_.erase(pending_.begin(),
                 pending_.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(skip, pending_.size())));
  pending_base_ = std::max(pending_base_, from);
  while (pending_parts_.size() > 1 && pending_parts_[1].first <= pending_base_) pending_parts_.pop_front();
  if (!broken_) return;
  // Without a length the FPDU boundaries are lost (RFC 5044 §8): the remaining octets are raw.
  phase_ = Phase::raw;
  raw_pending();
}

// Makes the pending octets raw steps, each part with its segment.
void StepReader::raw_pending() {
  const Bytes all = std::exchange(pending_, {});
  for (std::size_t i = 0; i < pending_parts_.size(); ++i) {
    const auto at = [&](std::size_t part) {
      const std::uint64_t position = pending_parts_[part].first;
      return static_cast<std::size_t>(std::clamp<std::uint64_t>(position, pending_base_, pending_base_ + all.size()) -
                                      pending_base_);
    };
    const std::size_t from = at(i), to = i + 1 < pending_parts_.size() ? at(i + 1) : all.size();
    if (to <= from) continue;
    raw(ConstBytes(all).subspan(from, to - from), pending_parts_[i].second);
    steps_.back().end = fpdu_base_ + pending_base_ + to;
  }
  pending_parts_.clear();
}

void StepReader::raw(ConstBytes in, const SegmentRef& ref) {
  if (in.empty()) return;
  Step& s = add(Step::Kind::raw, ref, ref);
  s.octets.assign(in.begin(), in.end());
  s.known = in.size();
}

void StepReader::gap(std::uint64_t n, const SegmentRef& ref) {
  if (n == 0) return;
  add(Step::Kind::gap, ref, ref).lost = n;
}

void StepReader::fpdu(const capture::WalkedFpdu& f) {
  if (broken_) return;
  Step& s = add(Step::Kind::fpdu, f.first, f.last);
  s.octets.assign(f.ulpdu.begin(), f.ulpdu.end());
  s.known = f.known;
  s.bad_crc = f.crc == capture::WalkedFpdu::Crc::bad;
  s.crc_error = s.bad_crc ? f.crc_sent ^ f.crc_computed : 0;
  s.bad_pad = f.pad_not_zero;
  s.bad_marker = !f.marker_fault.empty();
  s.end = fpdu_base_ + f.position + f.wire_octets;
}

void StepReader::bad_length(std::uint32_t, const SegmentRef&) {
  if (broken_) return;
  broken_ = true;
  broken_at_ = walker_.position();
}

void StepReader::resynchronised(std::uint64_t octets, const SegmentRef& ref) {
  lost_ref_.reset();
  if (broken_ || octets == 0) return;
  gap(octets, ref);
  steps_.back().end = fpdu_base_ + walker_.position();
}

std::string StepReader::begun() const {
  if (phase_ == Phase::startup && !head_.empty()) {
    const auto v = wire::MpaFrameView::parse(head_);
    return fmt::format("{} of the {}{} octets of a startup frame", head_.size(), v ? "" : "at least ",
                       v ? v->frame_size() : std::size_t{PARLEY_MPA_HEADER_LEN});
  }
  if (pending_.empty() || broken_ || walker_.lost()) return "";
  const bool markers = walker_.markers() == Known::yes;
  Reader r(pending_);
  if (markers && pending_base_ % PARLEY_MPA_MARKER_INTERVAL == 0) r.skip(PARLEY_MPA_MARKER_LEN);
  const std::uint32_t length = r.be16();  // 0 if it has not arrived yet
  if (length == 0) return fmt::format("{} octets of an FPDU", pending_.size());
  return fmt::format("{} of the {} octets of an FPDU", pending_.size(),
                     capture::FpduWalker::wire_size(pending_base_, length, markers));
}

void StepReader::finish(const SegmentRef& ref, bool closed) {
  if (phase_ == Phase::startup && !head_.empty()) {
    if (closed) return head_is_raw();
    phase_ = Phase::raw;
    return gap(std::exchange(head_, {}).size(), ref);
  }
  if (phase_ == Phase::rtr_frame) begin_fpdus();
  if (phase_ == Phase::waiting && !kept_.empty()) begin_fpdus();
  if (phase_ == Phase::fpdus && walker_.lost()) {  // no FPDU was found after missing octets or a wrong FPDU
    pending_.clear();
    return gap(taken_ - fpdu_base_ - walker_.lost_at(), lost_ref_.value_or(ref));
  }
  if (phase_ != Phase::fpdus || pending_.empty()) return;
  // A recording that stops within an FPDU does not show that the sender stopped there.
  if (closed) {
    const std::size_t before = steps_.size();
    raw_pending();
    for (std::size_t i = before; i < steps_.size(); ++i) steps_[i].begun = true;
    return;
  }
  gap(std::exchange(pending_, {}).size(), ref);
}

}  // namespace parley::replay
