// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The process on a host, as opposed to its kernel: how it ends and stops, and how the kernel acts meanwhile.
#include <utility>

#include "sim/host/host_impl.hpp"

namespace parley::sim {

void SimHost::end_process() {
  if (!up_ || ended_ || given_ != nullptr || given_packets_ != nullptr) return;
  if (in_turn_) {
    post(now(), event_end_process);  // the calling App still uses what would be destroyed
    return;
  }
  note(NoteKind::process_ended, "the process on host " + name_ + " ended");
  drop_process();
  reset_sockets();
  forget_ways();
  ++incarnation_;  // pending timers of the process are dropped
  ticks_.clear();
  kick_pending_ = stopped_ = false;
  ended_ = true;
  start_process();  // a new RNIC or HCA without connections
  stirred_ = false;
  turn();
}

/// As a kernel closes the sockets of a process that ended (SO_LINGER of 0 s): RST for each connection.
void SimHost::reset_sockets() {
  for (const StreamId listener : stack_->listeners()) (void)close_listener(listener);
  for (std::uint32_t slot = 0; slot < stack_->slots(); ++slot) {
    TcpConnection& c = stack_->at(slot);
    c.held = false;
    if (c.phase == ConnectionPhase::opening || c.phase == ConnectionPhase::up) close(slot, true);
  }
}

void SimHost::stop_process() {
  if (!up_ || stopped_ || ended_) return;
  stopped_ = true;
  note(NoteKind::process_stopped, "the process on host " + name_ + " stopped");
  for (std::uint32_t slot = 0; slot < stack_->slots(); ++slot) hold(stack_->at(slot));
}

void SimHost::continue_process() {
  if (!up_ || !stopped_) return;
  stopped_ = false;
  note(NoteKind::process_continued, "the process on host " + name_ + " continued");
  if (!started_) return;
  release_held();
  while (!socket_.empty() && !paused_) {
    const RingFrame next = std::move(socket_.front());
    socket_.pop_front();
    handle_frame(next.port, *next.frame);
    turn();
  }
  if (paused_) return;
  run_late_timers();
  tick();
}

/// Received octets stay in the receive buffer.
void SimHost::hold(TcpConnection& c) {
  if (!c.tcp || c.tcp->paused()) return;
  c.tcp->pause();
  c.held = true;
}

/// flush() passes the held octets to the machine.
void SimHost::release_held() {
  for (std::uint32_t slot = 0; slot < stack_->slots(); ++slot) {
    TcpConnection& c = stack_->at(slot);
    if (!c.tcp) continue;
    if (std::exchange(c.held, false)) c.tcp->resume(now());
    mark_dirty(slot);
    if (!c.blocked || c.tcp->room() == 0) continue;
    c.blocked = false;
    write(c.stream);
  }
}

void SimHost::run_late_timers() {
  if (stopped_) return;
  for (const std::uint64_t cookie : std::exchange(late_, {})) app_timer(cookie);
}

void SimHost::app_timer(std::uint64_t cookie) {
  in_turn_ = true;
  if (app_ != nullptr && !ended_) app_->on_timer(*this, cookie);
  in_turn_ = false;
  turn();
}

/// RoCE packets, and ICMP errors about them; the kernel handles all other frames itself.
bool SimHost::is_for_the_process(const FrameIn& in) {
  return in.kind == FrameIn::Kind::roce || (in.kind == FrameIn::Kind::unreachable && !in.undelivered.tcp);
}

bool SimHost::keeps(std::uint16_t port, const Frame& frame) {
  if (!stopped_ || !is_for_the_process(in_)) return false;
  if (socket_.size() < options_.ring) socket_.push_back({port, engine_.frames.copy(frame)});
  return true;
}

}  // namespace parley::sim
