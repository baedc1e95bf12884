// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The receiving half of a queue pair: IBA §9.7.4, §9.7.5 (reliable), §9.8.2 (UC), §9.8.3 (UD).
//
// Answers leave in the order of their requests: those of Reads are read from memory when their turn comes, and the R_Key
// is checked for each packet, so a region may be deregistered at any time. ACKs that wait are merged.
#pragma once
#include "nic/roce/context.hpp"
#include "nic/roce/middle.hpp"
#include "nic/roce/output.hpp"

namespace parley::nic::roce {

/// Which part of a message a packet has.
struct Part {
  bool begins = false, ends = false;
};

class Responder {
 public:
  explicit Responder(QpContext& qp);

  /// At RTR: the first PSN expected.
  void start(std::uint32_t rq_psn);
  /// max_dest_rd_atomic is another: answers that wait stay, and as many Reads and Atomics are remembered as it now says.
  void depth_changed();
  Result<void> post(const RecvWr& wr);

  /// A request of RC, UC or XRC. False: it was answered with a NAK after which the queue pair is in ERR.
  bool handle_request(const wire::ib::Packet& packet);
  /// Packets of RC in the middle of a Send or Write; returns how many were taken. 0: nothing was done, and the first is for
  /// handle_request().
  std::size_t take_middles(const Middles& middles, bool placed);
  /// As Requester::fitting().
  std::size_t fitting(const Middles& middles, MutBytes& place);
  /// A datagram, whose Q_Key is right.
  void handle_datagram(const PacketFrom& from, const wire::ib::Packet& packet);

  bool has_reply() const { return !replies_.empty() && held_ == 0; }
  /// An ACK may wait for what comes next: DeviceOptions::ack_delay.
  bool holds_ack() const { return held_ > 0; }
  void release_ack() { held_ = 0; }
  /// failed: as handle_request's false. nothing: the answer that was due is given up, and the next one may be due.
  enum class Sent : std::uint8_t { packet, nothing, failed };
  /// The next packet of the answer that is due, and at most `most` in the middle of a Read's response.
  Sent transmit(std::size_t most, PacketTo& to, MutBytes out, PacketRun& run);

  /// What is posted and what was taken from the shared receive queue completes as flushed. Answers that wait still go out.
  void flush();
  void drop_replies();
  /// The message under way arrives in memory of the region.
  bool uses(std::uint32_t slot) { return arriving_.taken && nic::uses(receive().memory, slot); }
  /// For receives that wait.
  void withdraw(std::uint32_t slot) { nic::withdraw(qp_.tables().regions, receives_, receives_.head(), slot); }
  /// Without completions.
  void drop();

 private:
  enum class Message : std::uint8_t { none, send, write };
  /// An answer that waits for its turn.
  struct Reply {
    enum class Kind : std::uint8_t { acknowledge, read, atomic };
    Kind kind = Kind::acknowledge;
    std::uint8_t syndrome = 0;
    bool begun = false;   // Read: a packet has been sent
    bool repeat = false;  // of a request that was answered before
    std::uint32_t msn = 0;
    Psn psn = 0, end = 0;        // Read: of what is still to be sent
    std::uint64_t original = 0;  // Atomic
    std::uint64_t va = 0;        // Read
    std::uint32_t length = 0, rkey = 0;
    PdHandle pd = 0;
  };
  /// A Read or Atomic that was accepted, for when it comes again (IBA §9.4.5, §9.7.5).
  struct Fetch {
    bool atomic = false;
    Psn first = 0, end = 0;
    std::uint64_t va = 0;
    std::uint32_t length = 0, rkey = 0;
    PdHandle pd = 0;
    std::uint64_t original = 0;
  };
  /// Where a request finds memory and receives: the queue pair's own, but on XRC those of the shared receive queue that it
  /// names (IBA §A14).
  struct Receiver {
    PdHandle pd = 0;
    Ref<SrqRing> srq;
    CqRing* cq = nullptr;
  };
  /// The message that is arriving.
  struct Arriving {
    Message message = Message::none;  // none: between messages
    bool taken = false;               // a receive, which is `shared` or the first of the queue's own
    RecvWqe shared;
    Receiver receiver;                   // XRC: of its first packet
    std::uint32_t got = 0;               // octets
    std::uint32_t length = 0, rkey = 0;  // Write
    std::uint64_t va = 0;
  };
  /// What a request is refused with.
  enum class Refusal : std::uint8_t { none, rnr, invalid, too_long, access };

  // responder_rx.cpp: what came in
  bool find_receiver(const wire::ib::Packet& packet);
  bool fits_message(wire::ib::Operation operation) const;
  Refusal execute(const wire::ib::Packet& packet);
  Refusal execute_send(const wire::ib::Packet& packet);
  Refusal execute_write(const wire::ib::Packet& packet);
  Refusal execute_read(const wire::ib::Packet& packet);
  Refusal execute_atomic(const wire::ib::Packet& packet);
  Refusal finish_send(const wire::ib::Packet& packet);
  void executed(bool ack_req, Part part);
  void acknowledge(bool may_wait);
  bool grants(Access right) const { return has(qp_.attr.access.value_or(Access::none), right); }
  bool may_fetch() const;
  bool refuse(Refusal refusal, Psn psn);
  void handle_unreliable(const wire::ib::Packet& packet, Psn psn);
  bool refuses_again(const wire::ib::Packet& packet) const;
  void handle_duplicate(const wire::ib::Packet& packet, Psn psn);
  void repeat_read(const wire::ib::Packet& packet, Psn psn, const Fetch& fetch);
  Reply& last_in_order(std::uint64_t at, Psn psn);

  // responder.cpp: receives and answers
  bool take_receive(Receiver& from);
  RecvWqe& receive() { return arriving_.receiver.srq ? arriving_.shared : receives_.front(); }
  WorkCompletion& complete(WcOpcode opcode, WcStatus status, bool solicited = false);
  void forget_message();
  void answer(std::uint8_t syndrome, Psn psn);
  void accept_fetch(const Fetch& fetch);
  void answer_fetch(const Fetch& fetch);
  Sent send_read(Reply& reply, std::size_t most, MutBytes out, PacketRun& run);
  PacketRun write_middles(Reply& reply, std::size_t most, MutBytes out);
  Sent refuse_read(const Reply& reply);

  QpContext& qp_;
  GrowRing<RecvWqe> receives_;  // at most max_recv_wr; unused with a shared receive queue
  Receiver receiver_;           // of the packet that is looked at
  Arriving arriving_;
  Psn expected_ = 0;
  std::uint32_t msn_ = 0;              // IBA §9.7.7.1: messages completed, 24 bits
  bool nak_sent_ = false;              // and the expected PSN has not come since
  bool dropping_ = false;              // UC: until a message begins
  GrowRing<Reply> replies_;            // at most twice max_dest_rd_atomic and 4
  std::uint32_t held_ = 0;             // messages of the ACK that waits, which is the only reply then
  std::uint32_t fetches_waiting_ = 0;  // replies that are no repeats and no ACKs
  GrowRing<Fetch> fetches_;            // at most max_dest_rd_atomic
};

}  // namespace parley::nic::roce
