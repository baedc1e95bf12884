// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tester/scripted_peer.hpp"

#include <algorithm>

#include "base/after.hpp"

namespace parley::tester {

// ---- TcpStream -----------------------------------------------------------------------------------------------------

void TcpStream::note(bool by_us, StreamRecord::Kind kind, ConstBytes octets) {
  const std::size_t kept = std::min(octets.size(), kept_max - kept_);
  if (history_.size() >= exchanged_max) return;
  kept_ += kept;
  history_.push_back({peer_->now(), by_us, kind,
                      Bytes(octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(kept)), octets.size()});
}

void TcpStream::send(ConstBytes octets) {
  if (over_ || fin_wanted_ || octets.empty()) return;
  if (out_octets_ + octets.size() > unsent_max) return reset();
  note(true, StreamRecord::Kind::octets, octets);
  out_.emplace_back(octets.begin(), octets.end());
  out_octets_ += octets.size();
  peer_->want_write(*this);
}

void TcpStream::fin() {
  if (over_ || fin_wanted_) return;
  fin_wanted_ = true;
  note(true, StreamRecord::Kind::fin, {});
  // The driver sends its own queue before the FIN, but does not know the octets that are still queued here.
  if (out_.empty()) peer_->command(StreamCommand::Kind::shutdown, id_);
}

void TcpStream::reset() {
  if (over_) return;
  note(true, StreamRecord::Kind::rst, {});
  peer_->command(StreamCommand::Kind::reset, id_);
  peer_->end_stream(*this);
}

void TcpStream::take(std::size_t n) {
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(std::min(n, in_.size())));
}

// ---- ScriptedPeer: scripts -----------------------------------------------------------------------------------------

void ScriptedPeer::start(Instant now, Task<void> script) {
  now_ = now;
  wait_.reset();
  script_ = std::move(script);
  script_.start();
  advance(now);
}

void ScriptedPeer::suspend(Wait& wait, std::coroutine_handle<> who) {
  const Instant deadline = after(now_, wait.patience_);
  wait_ = Suspended{&wait, who, deadline};
}

void ScriptedPeer::advance(Instant now) {
  now_ = std::max(now_, now);
  while (wait_ && (wait_->wait->ready_() || now_ >= wait_->deadline)) {
    const auto who = wait_->who;
    wait_.reset();
    who.resume();
  }
}

ScriptedPeer::Wait ScriptedPeer::sleep(Duration time) {
  return until([] { return false; }, time);
}

ScriptedPeer::Wait ScriptedPeer::more(const TcpStream& tcp, std::size_t n, Duration patience) {
  return until([&tcp, n] { return tcp.unread().size() > n || tcp.ended(); }, patience);
}

ScriptedPeer::Wait ScriptedPeer::end(const TcpStream& tcp, Duration patience) {
  return until([&tcp] { return tcp.ended(); }, patience);
}

Task<TcpStream*> ScriptedPeer::connect(Address to, Duration patience) {
  const StreamId id = serial_;
  serial_ += 2;
  if (streams_.size() >= streams_max) {
    why_ = "too many connections in one script";
    co_return nullptr;
  }
  TcpStream& tcp = add_stream(id);
  command(StreamCommand::Kind::open, id, to);
  const bool decided = co_await until([&tcp] { return tcp.up_ || tcp.refused_; }, patience);
  if (tcp.up_) co_return &tcp;
  why_ = decided ? tcp.why_.message() : "no answer to the SYN";
  if (!decided) command(StreamCommand::Kind::reset, id);
  end_stream(tcp);
  co_return nullptr;
}

Task<std::optional<Address>> ScriptedPeer::listen(Address at, Duration patience) {
  if (listener_ != 0) command(StreamCommand::Kind::close, listener_);
  listener_ = serial_;
  serial_ += 2;
  listening_at_.reset();
  listen_failed_ = false;
  command(StreamCommand::Kind::listen, listener_, at);
  co_await until([this] { return listening_at_.has_value() || listen_failed_; }, patience);
  co_return listening_at_;
}

Task<TcpStream*> ScriptedPeer::accept(Duration patience) {
  co_await until([this] { return !waiting_.empty(); }, patience);
  if (waiting_.empty()) {
    why_ = "no peer connected";
    co_return nullptr;
  }
  TcpStream* tcp = waiting_.front();
  waiting_.pop_front();
  co_return tcp;
}

void ScriptedPeer::drop_waiting() {
  for (TcpStream* tcp : waiting_) tcp->reset();
  waiting_.clear();
}

void ScriptedPeer::forget_stream(TcpStream& tcp) {
  tcp.reset();
  std::erase_if(streams_, [&tcp](const auto& l) { return l.get() == &tcp; });
}

void ScriptedPeer::forget_streams() {
  drop_waiting();
  for (const auto& tcp : streams_) tcp->reset();
  streams_.clear();
}

// ---- ScriptedPeer: the machine -------------------------------------------------------------------------------------

void ScriptedPeer::command(StreamCommand::Kind kind, StreamId id, const Address& address) {
  commands_.push_back({.kind = kind, .id = id, .address = address});
}

TcpStream* ScriptedPeer::find(StreamId id) {
  const auto found = std::find_if(streams_.begin(), streams_.end(), [id](const auto& l) { return l->id_ == id; });
  return found == streams_.end() || (*found)->over_ ? nullptr : found->get();
}

TcpStream& ScriptedPeer::add_stream(StreamId id) {
  streams_.push_back(std::make_unique<TcpStream>());
  TcpStream& tcp = *streams_.back();
  tcp.peer_ = this;
  tcp.id_ = id;
  return tcp;
}

void ScriptedPeer::want_write(TcpStream& tcp) {
  if (tcp.ready_) return;
  tcp.ready_ = true;
  ready_.push_back(tcp.id_);
}

void ScriptedPeer::end_stream(TcpStream& tcp) {
  if (!tcp.ended()) tcp.ended_at_ = now_;
  tcp.over_ = true;
  tcp.out_.clear();
}

void ScriptedPeer::handle_listening(Instant now, StreamId listener, const Address& local) {
  if (listener == listener_) listening_at_ = local;
  advance(now);
}

void ScriptedPeer::handle_listen_failed(Instant now, StreamId listener, std::error_code why) {
  if (listener == listener_) {
    listen_failed_ = true;
    why_ = why.message();
  }
  advance(now);
}

void ScriptedPeer::handle_connected(Instant now, StreamId stream, const StreamInfo& info) {
  if (TcpStream* tcp = find(stream)) {
    tcp->up_ = true;
    tcp->info_ = info;
  }
  advance(now);
}

void ScriptedPeer::handle_connect_failed(Instant now, StreamId stream, std::error_code why) {
  if (TcpStream* tcp = find(stream)) {
    tcp->refused_ = true;
    tcp->why_ = why;
  }
  advance(now);
}

bool ScriptedPeer::handle_accepted(Instant now, StreamId listener, StreamId stream, const StreamInfo& info) {
  if (listener != listener_ || waiting_.size() >= waiting_max || streams_.size() >= streams_max) return false;
  TcpStream& tcp = add_stream(stream);
  tcp.info_ = info;
  tcp.received_at_ = now;
  waiting_.push_back(&tcp);
  advance(now);
  return true;
}

void ScriptedPeer::handle_bytes(Instant now, StreamId stream, ConstBytes in) {
  now_ = std::max(now_, now);
  if (TcpStream* tcp = find(stream)) {
    tcp->note(false, StreamRecord::Kind::octets, in);
    tcp->received_ += in.size();
    tcp->received_at_ = now_;
    if (tcp->unread().size() + in.size() > TcpStream::unread_max) {
      tcp->reset();
    } else {
      tcp->in_.insert(tcp->in_.end(), in.begin(), in.end());
    }
  }
  advance(now);
}

void ScriptedPeer::handle_end(Instant now, StreamId stream, StreamEnd end) {
  now_ = std::max(now_, now);
  if (TcpStream* tcp = find(stream)) {
    tcp->ended_at_ = now_;
    tcp->fin_in_ |= end == StreamEnd::fin;
    tcp->rst_in_ |= end == StreamEnd::rst;
    tcp->timed_out_ |= end == StreamEnd::timeout;
    tcp->note(false,
              end == StreamEnd::fin   ? StreamRecord::Kind::fin
              : end == StreamEnd::rst ? StreamRecord::Kind::rst
                                      : StreamRecord::Kind::timeout,
              {});
    if (end != StreamEnd::fin) end_stream(*tcp);
  }
  advance(now);
}

void ScriptedPeer::handle_deadline(Instant now) { advance(now); }

bool ScriptedPeer::poll_command(StreamCommand& out) {
  if (commands_.empty()) return false;
  out = commands_.front();
  commands_.pop_front();
  return true;
}

StreamId ScriptedPeer::poll_ready() {
  while (!ready_.empty()) {
    const StreamId id = ready_.front();
    ready_.pop_front();
    if (TcpStream* tcp = find(id)) {
      tcp->ready_ = false;
      if (!tcp->out_.empty()) return id;
    }
  }
  return 0;
}

std::size_t ScriptedPeer::gather(StreamId stream, std::span<ConstBytes> out) {
  TcpStream* tcp = find(stream);
  if (tcp == nullptr || tcp->out_.empty() || out.empty()) return 0;
  out[0] = ConstBytes(tcp->out_.front()).subspan(tcp->out_first_);
  return 1;
}

void ScriptedPeer::sent(Instant now, StreamId stream, std::size_t n) {
  now_ = std::max(now_, now);
  TcpStream* tcp = find(stream);
  if (tcp == nullptr || tcp->out_.empty()) return;
  tcp->sent_ += n;
  tcp->out_octets_ -= n;
  tcp->out_first_ += n;
  if (tcp->out_first_ < tcp->out_.front().size()) return;  // the driver calls again when it can write
  tcp->out_.pop_front();
  tcp->out_first_ = 0;
  if (!tcp->out_.empty()) {
    want_write(*tcp);
  } else if (tcp->fin_wanted_) {
    command(StreamCommand::Kind::shutdown, tcp->id_);
  }
}

}  // namespace parley::tester
