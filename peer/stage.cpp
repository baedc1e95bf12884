// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "peer/stage.hpp"

#include <algorithm>

namespace parley::peer {

// ---- Line ----------------------------------------------------------------------------------------------------------

void Line::note(bool by_us, Said::Kind kind, ConstBytes octets) {
  const std::size_t kept = std::min(octets.size(), kept_max - kept_);
  if (history_.size() >= said_max) return;
  kept_ += kept;
  history_.push_back({stage_->now(), by_us, kind,
                      Bytes(octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(kept)), octets.size()});
}

void Line::send(ConstBytes octets) {
  if (over_ || fin_wanted_ || octets.empty()) return;
  if (out_octets_ + octets.size() > unsent_max) return reset();
  note(true, Said::Kind::octets, octets);
  out_.emplace_back(octets.begin(), octets.end());
  out_octets_ += octets.size();
  stage_->want_write(*this);
}

void Line::fin() {
  if (over_ || fin_wanted_) return;
  fin_wanted_ = true;
  note(true, Said::Kind::fin, {});
  // The driver sends what is queued before the FIN, but what is still here it does not know of.
  if (out_.empty()) {
    fin_out_ = true;
    stage_->command(StreamCommand::Kind::shutdown, id_);
  }
}

void Line::reset() {
  if (over_) return;
  note(true, Said::Kind::rst, {});
  stage_->command(StreamCommand::Kind::reset, id_);
  stage_->end_line(*this);
}

void Line::take(std::size_t n) {
  taken_ += std::min(n, in_.size() - taken_);
  if (taken_ < in_.size() && taken_ < unread_max) return;
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(taken_));
  taken_ = 0;
}

// ---- Stage: scripts
// --------------------------------------------------------------------------------------------------

void Stage::start(Instant now, Task<void> script) {
  now_ = now;
  wait_.reset();
  script_ = std::move(script);
  running_ = true;
  script_.start();
  running_ = false;
  advance(now);
}

void Stage::suspend(Wait& wait, std::coroutine_handle<> who) {
  const Instant deadline = wait.patience_ < never - now_ ? now_ + wait.patience_ : never;
  wait_ = Suspended{&wait, who, deadline};
}

void Stage::advance(Instant now) {
  now_ = std::max(now_, now);
  if (running_) return;
  running_ = true;
  while (wait_ && (wait_->wait->ready_() || now_ >= wait_->deadline)) {
    const auto who = wait_->who;
    wait_.reset();
    who.resume();
  }
  running_ = false;
}

Stage::Wait Stage::sleep(Duration time) {
  return until([] { return false; }, time);
}

Stage::Wait Stage::more(const Line& line, std::size_t n, Duration patience) {
  return until([&line, n] { return line.unread().size() > n || line.ended(); }, patience);
}

Stage::Wait Stage::end(const Line& line, Duration patience) {
  return until([&line] { return line.ended(); }, patience);
}

Task<Line*> Stage::connect(Address to, Duration patience) {
  const StreamId id = serial_;
  serial_ += 2;
  if (lines_.size() >= lines_max) {
    why_ = "too many connections in one script";
    co_return nullptr;
  }
  Line& line = add_line(id);
  command(StreamCommand::Kind::open, id, to);
  const bool decided = co_await until([&line] { return line.up_ || line.refused_; }, patience);
  if (line.up_) co_return &line;
  why_ = decided ? line.why_.message() : "no answer to the SYN";
  if (!decided) command(StreamCommand::Kind::reset, id);
  end_line(line);
  co_return nullptr;
}

Task<std::optional<Address>> Stage::listen(Address at, Duration patience) {
  if (listener_ != 0) command(StreamCommand::Kind::close, listener_);
  listener_ = serial_;
  serial_ += 2;
  listening_at_.reset();
  listen_failed_ = false;
  command(StreamCommand::Kind::listen, listener_, at);
  co_await until([this] { return listening_at_.has_value() || listen_failed_; }, patience);
  co_return listening_at_;
}

Task<Line*> Stage::accept(Duration patience) {
  co_await until([this] { return !waiting_.empty(); }, patience);
  if (waiting_.empty()) {
    why_ = "nobody connected";
    co_return nullptr;
  }
  Line* line = waiting_.front();
  waiting_.pop_front();
  co_return line;
}

void Stage::drop_waiting() {
  for (Line* line : waiting_) line->reset();
  waiting_.clear();
}

void Stage::forget_line(Line& line) {
  line.reset();
  std::erase(waiting_, &line);
  std::erase_if(lines_, [&line](const auto& l) { return l.get() == &line; });
}

void Stage::forget_lines() {
  drop_waiting();
  for (const auto& line : lines_) line->reset();
  lines_.clear();
}

// ---- Stage: the machine
// ------------------------------------------------------------------------------------------------

void Stage::command(StreamCommand::Kind kind, StreamId id, const Address& address) {
  commands_.push_back({.kind = kind, .id = id, .address = address});
}

Line* Stage::find(StreamId id) {
  const auto found = std::find_if(lines_.begin(), lines_.end(), [id](const auto& l) { return l->id_ == id; });
  return found == lines_.end() || (*found)->over_ ? nullptr : found->get();
}

Line& Stage::add_line(StreamId id) {
  lines_.push_back(std::make_unique<Line>());
  Line& line = *lines_.back();
  line.stage_ = this;
  line.id_ = id;
  return line;
}

void Stage::want_write(Line& line) {
  if (line.ready_ || line.out_.empty()) return;
  line.ready_ = true;
  ready_.push_back(line.id_);
}

void Stage::end_line(Line& line) {
  if (!line.ended()) line.ended_at_ = now_;
  line.over_ = true;
  line.out_.clear();
  line.out_octets_ = 0;
}

void Stage::handle_listening(Instant now, StreamId listener, const Address& local) {
  if (listener == listener_) listening_at_ = local;
  advance(now);
}

void Stage::handle_listen_failed(Instant now, StreamId listener, std::error_code why) {
  if (listener == listener_) {
    listen_failed_ = true;
    why_ = why.message();
  }
  advance(now);
}

void Stage::handle_connected(Instant now, StreamId stream, const StreamInfo& info) {
  if (Line* line = find(stream)) {
    line->up_ = true;
    line->info_ = info;
  }
  advance(now);
}

void Stage::handle_connect_failed(Instant now, StreamId stream, std::error_code why) {
  if (Line* line = find(stream)) {
    line->refused_ = true;
    line->why_ = why;
  }
  advance(now);
}

bool Stage::handle_accepted(Instant now, StreamId listener, StreamId stream, const StreamInfo& info) {
  if (listener != listener_ || waiting_.size() >= waiting_max || lines_.size() >= lines_max) return false;
  Line& line = add_line(stream);
  line.up_ = true;
  line.info_ = info;
  line.heard_at_ = now;
  waiting_.push_back(&line);
  advance(now);
  return true;
}

void Stage::handle_bytes(Instant now, StreamId stream, ConstBytes in) {
  now_ = std::max(now_, now);
  if (Line* line = find(stream)) {
    line->note(false, Said::Kind::octets, in);
    line->received_ += in.size();
    line->heard_at_ = now_;
    if (line->unread().size() + in.size() > Line::unread_max) {
      line->reset();
    } else {
      line->in_.insert(line->in_.end(), in.begin(), in.end());
    }
  }
  advance(now);
}

void Stage::handle_end(Instant now, StreamId stream, StreamEnd end) {
  now_ = std::max(now_, now);
  if (Line* line = find(stream)) {
    line->ended_at_ = now_;
    line->fin_in_ |= end == StreamEnd::fin;
    line->rst_in_ |= end == StreamEnd::rst;
    line->timed_out_ |= end == StreamEnd::timeout;
    line->note(false,
               end == StreamEnd::fin   ? Said::Kind::fin
               : end == StreamEnd::rst ? Said::Kind::rst
                                       : Said::Kind::timeout,
               {});
    if (end != StreamEnd::fin) end_line(*line);
  }
  advance(now);
}

void Stage::handle_deadline(Instant now) { advance(now); }

bool Stage::poll_command(StreamCommand& out) {
  if (commands_.empty()) return false;
  out = commands_.front();
  commands_.pop_front();
  return true;
}

StreamId Stage::poll_ready() {
  while (!ready_.empty()) {
    const StreamId id = ready_.front();
    ready_.pop_front();
    if (Line* line = find(id)) {
      line->ready_ = false;
      if (!line->out_.empty()) return id;
    }
  }
  return 0;
}

std::size_t Stage::gather(StreamId stream, std::span<ConstBytes> out) {
  Line* line = find(stream);
  if (line == nullptr || line->out_.empty() || out.empty()) return 0;
  out[0] = ConstBytes(line->out_.front()).subspan(line->out_first_);
  return 1;
}

void Stage::sent(Instant now, StreamId stream, std::size_t n) {
  now_ = std::max(now_, now);
  Line* line = find(stream);
  if (line == nullptr || line->out_.empty()) return;
  line->sent_ += n;
  line->out_octets_ -= n;
  line->out_first_ += n;
  if (line->out_first_ < line->out_.front().size()) return;  // the driver comes back when it can write
  line->out_.pop_front();
  line->out_first_ = 0;
  if (!line->out_.empty()) {
    want_write(*line);
  } else if (line->fin_wanted_ && !line->fin_out_) {
    line->fin_out_ = true;
    command(StreamCommand::Kind::shutdown, line->id_);
  }
}

}  // namespace parley::peer
