// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The sending half of a queue pair: IBA §9.7.3 to §9.7.6 (reliable), §9.8.2 (UC), §9.8.3 (UD).
//
// The oldest request is at the head of the queue until it is complete, so `una_`, the first unacknowledged PSN, is
// always in it. A request gets its PSNs when it begins, and keeps them; a retransmission sets the cursor back.
#pragma once
#include <algorithm>

#include "nic/roce/context.hpp"
#include "nic/roce/middle.hpp"
#include "nic/roce/output.hpp"
#include "wire/ib/packet.hpp"

namespace parley::nic::roce {

/// One posted send request.
struct SendWqe {
  enum class Kind : std::uint8_t { send, write, read, cmp_swap, fetch_add, bind, local_inv };
  std::uint64_t wr_id = 0;
  Kind kind = Kind::send;
  bool signaled = true, solicited = false, fence = false;
  bool with_imm = false;
  bool begun = false;      // has its PSNs; local: was executed
  bool failed = false;     // local: was refused, and fails as soon as all earlier requests are complete
  bool keepalive = false;  // not posted by a user: no completion, and not counted in max_send_wr
  WrMemory memory;
  std::uint32_t imm = 0;
  std::uint32_t invalidate = 0;  // 0: none
  MwBind bind;                   // only of that kind
  std::uint32_t rkey = 0;
  std::uint64_t remote_addr = 0;
  std::uint64_t swap_add = 0, compare = 0;
  std::uint32_t srqn = 0;     // XRC
  Path path;                  // UD
  std::uint32_t qpn = 0;      // UD
  std::uint32_t q_key = 0;    // UD
  Psn first = 0, end = 0;     // end: one past its last
  std::uint32_t arrived = 0;  // Read: response packets that are in memory

  /// Executed here, without a packet.
  bool local() const { return kind == Kind::bind || kind == Kind::local_inv; }
  bool fetches() const { return kind == Kind::read || kind == Kind::cmp_swap || kind == Kind::fetch_add; }
};

class Requester {
 public:
  explicit Requester(QpContext& qp) : qp_(qp), sends_(qp.max_send_wr) {}

  /// At RTS: sets the first PSN.
  void start(std::uint32_t sq_psn);
  /// Reserves a place at the end of the queue, and one in the completion queue. The caller assigns all of it, or calls
  /// cancel().
  Result<SendWqe*> push();
  void cancel();
  /// Undoes the last push() whose place was assigned, with its pinned memory; nothing of the request was sent.
  void undo_push();

  /// A packet can be sent now, or execute_local() has something to do.
  bool ready() const;
  /// Executes the local requests (bind_mw, local_inv) at the cursor. Call it before transmit(). False: the oldest request
  /// failed, and the queue pair with it.
  bool execute_local();
  /// If ready(): the way of that packet.
  const Path& path() const { return qp_.type == QpType::ud ? sends_[at_].path : qp_.path; }
  /// The next packet, if ready(), and up to `most` in the middle of a message. None: the oldest request failed instead,
  /// and the queue pair with it.
  PacketRun transmit(Instant now, std::size_t most, PacketTo& to, MutBytes out);
  /// An acknowledgment or a response. False: a request failed, and the queue pair with it.
  bool handle_response(Instant now, const wire::ib::Packet& packet);
  /// RC packets in the middle of a Read's response; returns how many were taken. 0: nothing was done, and the first
  /// must go to handle_response().
  std::size_t handle_middles(Instant now, const MiddlePackets& middles, bool placed);
  /// How many of them would be taken, and `place`: the destination, if it is one piece.
  std::size_t fitting(const MiddlePackets& middles, MutBytes& place);
  Instant deadline() const { return std::min(ack_deadline_, rnr_until_); }
  /// False as for handle_response().
  bool handle_deadline(Instant now);

  /// Posted requests that are not complete.
  std::size_t open() const { return sends_.size() - keepalives_; }
  /// Sends a keepalive to a silent peer if nothing is in flight; otherwise retransmits the oldest request, which does
  /// not count as a retry.
  void ask(Instant now);
  bool idle() const { return sends_.empty(); }
  bool only_keepalive() const { return keepalives_ == 1 && sends_.size() == 1; }
  /// When the oldest unacknowledged packet was first sent, or the last progress; never: all is acknowledged.
  Instant waits_since() const { return sent_end_ == una_ ? never : waits_since_; }
  /// The peer is dead: the oldest request fails, if there is one.
  void give_up();
  /// A request has begun and is not complete.
  bool under_way() const { return !sends_.empty() && sends_.front().begun; }
  /// A Read or Atomic is posted and has not begun.
  bool fetch_waits() const;
  /// A posted request uses memory of the region.
  bool uses(std::uint32_t slot) const;
  /// IBA §10.3.1: posted requests complete as flushed.
  void flush();
  /// Removes the requests without completions.
  void drop();
  void limits_changed();

 private:
  bool fail(WcStatus status);
  bool fail(WcStatus status, const QpFailure& why);
  void complete(SendWqe& wqe, WcStatus status);
  bool may_begin(const SendWqe& wqe) const;
  bool perform(const SendWqe& wqe);
  void step();
  void retire_local();
  void begin(SendWqe& wqe);
  std::size_t write(SendWqe& wqe, MutBytes out);
  PacketRun write_middles(SendWqe& wqe, std::size_t most, MutBytes out);
  bool asks_for_ack(Psn psn, bool last);
  void fill(const SendWqe& wqe, wire::ib::Packet& head) const;
  wire::ib::Operation operation(const SendWqe& wqe, bool first, bool last) const;
  void sent(Instant now, SendWqe& wqe, std::uint32_t packets);

  // requester_rx.cpp
  bool acknowledge(Instant now, Psn upto);
  void progress(Instant now);
  void move_cursor_up();
  bool go_back(Instant now);
  bool implied_nak(Instant now);
  bool handle_ack(Instant now, Psn psn, std::uint8_t syndrome);
  bool handle_rnr(Instant now, Psn psn, std::uint8_t code);
  bool handle_nak(Instant now, Psn psn, std::uint8_t code);
  SendWqe* fetch_at(Psn psn);
  bool handle_read_response(Instant now, Psn psn, const wire::ib::Packet& packet);
  bool handle_atomic_ack(Instant now, Psn psn, const wire::ib::Packet& packet);
  void arm(Instant now);

  QpContext& qp_;
  GrowRing<SendWqe> sends_;        // at most max_send_wr
  std::uint64_t at_ = 0;           // cursor: the request whose packet is next
  std::uint32_t at_packet_ = 0;    // the next packet of that request
  Psn una_ = 0;                    // all earlier PSNs are acknowledged
  Psn next_ = 0;                   // for the next request that begins
  Psn sent_end_ = 0;               // one past the last PSN that expects an answer
  std::uint32_t fetches_out_ = 0;  // at most max_rd_atomic
  std::uint32_t since_ack_req_ = 0;
  std::uint8_t retries_left_ = 0, rnr_left_ = 0;
  bool went_back_ = false;       // it went back, and nothing was acknowledged since
  std::uint8_t keepalives_ = 0;  // in sends_, in addition to max_send_wr; at most one
  Instant waits_since_{};
  Instant ack_deadline_ = never, rnr_until_ = never;
};

}  // namespace parley::nic::roce
