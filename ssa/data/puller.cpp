// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/data/puller.hpp"

#include <algorithm>
#include <utility>

#include "base/after.hpp"

namespace parley::ssa {

namespace {
constexpr std::size_t head_octets = 24;
}

void DataPuller::pull(Instant now, const Gid& parent, const Address& address, Epoch newest) {
  if (stage_ != Stage::none && (parent != parent_ || address != address_)) stop();
  if (is_pulling()) {
    next_ = newest;
    // The parent may answer with this version already.
    if (stage_ == Stage::reading && head_.empty()) expect(std::exchange(next_, {}));
    return;
  }
  newest_ = newest;
  if (stage_ == Stage::idle) return ask(now);
  parent_ = parent;
  address_ = address;
  stage_ = Stage::connecting;
  stream_ = last_stream_ += last_stream_ == 0 ? 1 : 2;
  silent_at_ = after(now, options_.silence_max);
  over_at_ = never;
  ++counters_.connections;
  commands_.push_back({.kind = StreamCommand::Kind::open,
                       .id = stream_,
                       .address = address,
                       .local = Address::any(address.family, 0),
                       .keepalive = options_.keepalive,
                       .dead_after = options_.dead_after});
}

void DataPuller::stop() {
  if (stage_ != Stage::none) commands_.push_back({.kind = StreamCommand::Kind::reset, .id = stream_});
  forget();
}

void DataPuller::forget() {
  stage_ = Stage::none;
  stream_ = 0;
  next_ = {};
  loader_.reset();
  head_.clear();
  out_.clear();
  out_at_ = 0;
  ready_ = false;
  silent_at_ = over_at_ = never;
}

std::optional<PullEvent> DataPuller::poll_event() {
  if (events_.empty()) return std::nullopt;
  std::optional<PullEvent> out(std::move(events_.front()));
  events_.pop_front();
  return out;
}

void DataPuller::handle_connected(Instant now, StreamId stream, const StreamInfo&) {
  if (stream == stream_ && stage_ == Stage::connecting) ask(now);
}

void DataPuller::handle_connect_failed(Instant, StreamId stream, std::error_code why) {
  if (stream == stream_ && stage_ == Stage::connecting)
    lost("no data connection to " + address_.to_string() + ": " + why.message());
}

void DataPuller::expect(Epoch newest) {
  newest_ = newest;
  loader_.emplace(base_, LoadOptions{.octets_max = options_.octets_max, .newest = newest_});
}

void DataPuller::ask(Instant now) {
  stage_ = Stage::reading;
  ++counters_.pulls;
  head_.clear();
  const Epoch next = std::exchange(next_, {});
  expect(next.is_valid() ? next : newest_);
  out_ = emit(Pull{options_.key, options_.gid, base_ == nullptr ? Epoch{} : base_->epoch()});
  out_at_ = 0;
  ready_ = true;
  silent_at_ = after(now, options_.silence_max);
  over_at_ = after(now, options_.pull_max);
}

void DataPuller::handle_bytes(Instant now, StreamId stream, ConstBytes in) {
  if (stream != stream_ || stage_ == Stage::none || in.empty()) return;
  if (stage_ != Stage::reading) {
    ++counters_.unasked;
    return stop();
  }
  counters_.octets += in.size();
  silent_at_ = after(now, options_.silence_max);
  if (head_.size() >= head_octets) return read(now, in);
  const std::size_t take = std::min(head_octets - head_.size(), in.size());
  head_.insert(head_.end(), in.begin(), in.begin() + static_cast<std::ptrdiff_t>(take));
  if (head_.size() < head_octets) return;
  if (const auto status = refusal_in(head_)) return failed("the parent refuses: " + std::string(status_text(*status)));
  read(now, head_);
  if (stage_ == Stage::reading && in.size() > take) read(now, in.subspan(take));
}

void DataPuller::read(Instant now, ConstBytes in) {
  const auto done = loader_->feed(in);
  if (!done && done.error() == Errc::wrong_state) return outdated(now, done.error().message());
  if (!done) return failed(done.error().message());
  if (*done) loaded(now);
}

void DataPuller::loaded(Instant now) {
  ++counters_.loaded;
  if (loader_->is_delta()) ++counters_.deltas;
  base_ = loader_->take();
  loader_.reset();
  stage_ = Stage::idle;
  silent_at_ = over_at_ = never;
  events_.push_back({PullEvent::Kind::loaded, parent_, base_, {}});
  if (!next_.is_valid() || next_ == base_->epoch())
    next_ = {};
  else
    ask(now);
}

/// A stream may be newer than what was asked for; if that version is known by now, it is pulled.
void DataPuller::outdated(Instant now, std::string why) {
  const Epoch next = next_;
  if (!next.is_valid() || next == newest_) return failed(std::move(why));
  ++counters_.failed;
  stop();
  pull(now, parent_, address_, next);
}

void DataPuller::failed(std::string why) {
  ++counters_.failed;
  stop();
  events_.push_back({PullEvent::Kind::failed, parent_, nullptr, std::move(why)});
}

/// The driver has dropped the stream.
void DataPuller::lost(std::string why) {
  forget();
  events_.push_back({PullEvent::Kind::parent_lost, parent_, nullptr, std::move(why)});
}

void DataPuller::handle_end(Instant, StreamId stream, StreamEnd end) {
  if (stream != stream_ || stage_ == Stage::none) return;
  if (end == StreamEnd::fin) commands_.push_back({.kind = StreamCommand::Kind::reset, .id = stream});
  lost("the parent has ended the data connection to " + address_.to_string());
}

void DataPuller::handle_deadline(Instant now) {
  if (now >= silent_at_ || now >= over_at_) failed("the parent at " + address_.to_string() + " does not answer");
}

bool DataPuller::poll_command(StreamCommand& out) {
  if (commands_.empty()) return false;
  out = commands_.front();
  commands_.pop_front();
  return true;
}

StreamId DataPuller::poll_ready() { return std::exchange(ready_, false) ? stream_ : 0; }

std::size_t DataPuller::gather(StreamId stream, std::span<ConstBytes> out) {
  if (stream != stream_ || out.empty() || out_at_ == out_.size()) return 0;
  out[0] = ConstBytes(out_).subspan(out_at_);
  return 1;
}

void DataPuller::sent(Instant, StreamId stream, std::size_t n) {
  if (stream == stream_) out_at_ += std::min(n, out_.size() - out_at_);
}

Instant DataPuller::next_deadline() const { return std::min(silent_at_, over_at_); }

}  // namespace parley::ssa
