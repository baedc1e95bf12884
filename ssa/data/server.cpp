// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/data/server.hpp"

#include <algorithm>
#include <utility>

#include "base/after.hpp"

namespace parley::ssa {

namespace {
constexpr StreamId listener_id = 1;
constexpr std::size_t chunk_octets = 64 << 10;
}  // namespace

void DataServer::listen(const Address& local) {
  commands_.push_back({.kind = StreamCommand::Kind::listen,
                       .id = listener_id,
                       .address = local,
                       .keepalive = options_.keepalive,
                       .dead_after = options_.dead_after});
}

void DataServer::handle_listening(Instant, StreamId, const Address& local) { listening_ = local; }
void DataServer::handle_listen_failed(Instant, StreamId, std::error_code why) { failure_ = why; }

bool DataServer::handle_accepted(Instant now, StreamId, StreamId stream, const StreamInfo&) {
  const auto strangers = static_cast<std::size_t>(
      std::count_if(children_.begin(), children_.end(), [](const auto& item) { return !item.second.has_pulled; }));
  if ((children_.size() >= options_.streams_max || strangers >= options_.strangers_max) && !drop_oldest()) return false;
  children_[stream].until = after(now, options_.request_max);
  return true;
}

bool DataServer::handle_no_room(Instant, StreamId) { return drop_oldest(); }

/// A child that has pulled keeps its connection: who only connects cannot displace it.
bool DataServer::drop_oldest() {
  auto oldest = children_.end();
  for (auto at = children_.begin(); at != children_.end(); ++at)
    if (!at->second.has_pulled && (oldest == children_.end() || at->second.until < oldest->second.until)) oldest = at;
  if (oldest == children_.end()) return false;
  drop(oldest);
  return true;
}

void DataServer::drop(Children::iterator at) {
  commands_.push_back({.kind = StreamCommand::Kind::reset, .id = at->first});
  children_.erase(at);
}

void DataServer::handle_bytes(Instant now, StreamId stream, ConstBytes in) {
  const auto at = children_.find(stream);
  if (at == children_.end() || in.empty()) return;
  Child& child = at->second;
  const bool sending = child.out_at < child.out.size() || child.source;
  if (sending || child.in.size() + in.size() > pull_octets) {
    ++counters_.malformed;
    return drop(at);
  }
  child.in.insert(child.in.end(), in.begin(), in.end());
  if (child.in.size() < pull_octets) {
    if (child.until == never) child.until = after(now, options_.request_max);
    return;
  }
  const auto pull = parse_pull(child.in);
  child.in.clear();
  if (!pull) {
    ++counters_.malformed;
    return drop(at);
  }
  child.out_at = 0;
  if (const AnswerStatus status = judge(*pull); status != AnswerStatus::ok) {
    ++counters_.refused;
    child.out = emit_refusal(status, snapshot_ == nullptr ? Epoch{} : snapshot_->epoch());
    if (status != AnswerStatus::denied) child.has_pulled = true;
  } else {
    child.has_pulled = true;
    child.out.clear();
    child.source.emplace(snapshot_, pull->epoch);
    ++counters_.pulls;
    if (child.source->is_delta()) ++counters_.deltas;
    fill(child);
  }
  child.until = after(now, options_.stall_max);
  ready_.push_back(stream);
}

AnswerStatus DataServer::judge(const Pull& pull) const {
  if (pull.key != options_.key) return AnswerStatus::denied;
  if (!is_child_ || !is_child_(pull.child)) return AnswerStatus::unknown_node;
  if (snapshot_ == nullptr || compare(pull.epoch, snapshot_->epoch()) == EpochOrder::newer)
    return AnswerStatus::not_ready;
  return AnswerStatus::ok;
}

/// The next messages, when all before them were written.
void DataServer::fill(Child& child) {
  child.out.clear();
  child.out_at = 0;
  Bytes message;
  while (child.source && child.out.size() < chunk_octets) {
    if (!child.source->next(message)) {
      child.source.reset();
      break;
    }
    child.out.insert(child.out.end(), message.begin(), message.end());
  }
}

void DataServer::handle_end(Instant, StreamId stream, StreamEnd end) {
  const auto at = children_.find(stream);
  if (at == children_.end()) return;
  if (end == StreamEnd::fin)
    drop(at);
  else
    children_.erase(at);  // the driver has already dropped the stream
}

void DataServer::handle_deadline(Instant now) {
  for (auto at = children_.begin(); at != children_.end();) {
    const auto next = std::next(at);
    if (at->second.until <= now) {
      ++counters_.timed_out;
      drop(at);
    }
    at = next;
  }
}

Instant DataServer::next_deadline() const {
  Instant first = never;
  for (const auto& [stream, child] : children_) first = std::min(first, child.until);
  return first;
}

bool DataServer::poll_command(StreamCommand& out) {
  if (commands_.empty()) return false;
  out = commands_.front();
  commands_.pop_front();
  return true;
}

StreamId DataServer::poll_ready() {
  while (!ready_.empty()) {
    const StreamId stream = ready_.front();
    ready_.pop_front();
    if (children_.contains(stream)) return stream;
  }
  return 0;
}

std::size_t DataServer::gather(StreamId stream, std::span<ConstBytes> out) {
  const auto at = children_.find(stream);
  if (at == children_.end() || out.empty() || at->second.out_at == at->second.out.size()) return 0;
  out[0] = ConstBytes(at->second.out).subspan(at->second.out_at);
  return 1;
}

void DataServer::sent(Instant now, StreamId stream, std::size_t n) {
  const auto at = children_.find(stream);
  if (at == children_.end() || n == 0) return;
  Child& child = at->second;
  counters_.octets += n;
  child.until = after(now, options_.stall_max);
  child.out_at += std::min(n, child.out.size() - child.out_at);
  if (child.out_at < child.out.size()) return;
  fill(child);
  if (!child.out.empty())
    ready_.push_back(stream);
  else  // a child that was refused by its key has to pull again soon
    child.until = child.has_pulled ? never : after(now, options_.request_max);
}

}  // namespace parley::ssa
