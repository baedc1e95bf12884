// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The program on a host, apart from the system below it: its end, its stop, and what the system does meanwhile.
#include <utility>

#include "sim/host/host_impl.hpp"

namespace parley::sim {

void SimHost::end_process() {
  if (!up_ || ended_ || given_ != nullptr || given_packets_ != nullptr) return;
  if (in_turn_) {
    post(now(), event_end_process);  // the App that asks is still using what would be destroyed
    return;
  }
  note(NoteKind::process_ended, "the program of host " + name_ + " ended");
  drop_process();
  reset_sockets();
  forget_ways();
  ++incarnation_;  // no timer of the program's
  ticks_.clear();
  kick_pending_ = stopped_ = false;
  ended_ = true;
  start_process();  // an RNIC or HCA that nothing uses
  stirred_ = false;
  turn();
}

/// As the system closes the descriptors of a program that sends nothing more: with SO_LINGER of 0 s, by RST.
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
  note(NoteKind::process_stopped, "the program of host " + name_ + " stopped");
  for (std::uint32_t slot = 0; slot < stack_->slots(); ++slot) hold(stack_->at(slot));
}

void SimHost::continue_process() {
  if (!up_ || !stopped_) return;
  stopped_ = false;
  note(NoteKind::process_continued, "the program of host " + name_ + " goes on");
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

/// What arrives stays in the receive buffer.
void SimHost::hold(TcpConnection& c) {
  if (!c.tcp || c.tcp->paused()) return;
  c.tcp->pause();
  c.held = true;
}

/// flush() gives the machine what waited.
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
  for (const std::uint64_t cookie : std::exchange(late_, {})) {
    in_turn_ = true;
    if (app_ != nullptr && !ended_) app_->on_timer(*this, cookie);
    in_turn_ = false;
    turn();
  }
}

/// Packets of RoCE and ICMP errors about them; the system answers all else itself.
bool SimHost::is_of_the_program(const FrameIn& in) {
  return in.kind == FrameIn::Kind::roce || in.kind == FrameIn::Kind::port_closed;
}

bool SimHost::keeps(std::uint16_t port, const Frame& frame) {
  if (!stopped_ || !is_of_the_program(in_)) return false;
  if (socket_.size() < options_.ring) socket_.push_back({port, engine_.frames.copy(frame)});
  return true;
}

}  // namespace parley::sim
