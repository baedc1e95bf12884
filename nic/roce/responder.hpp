// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The receiving half of a queue pair: IBA §9.7.4, §9.7.5 (reliable), §9.8.2 (UC), §9.8.3 (UD).
//
// Answers are sent in the order of their requests. Read responses are read from memory when they are sent, and the
// R_Key is checked for each packet, so a region may be deregistered at any time. Waiting ACKs are merged.
#pragma once
#include "nic/roce/context.hpp"
#include "nic/roce/middle.hpp"
#include "nic/roce/output.hpp"

namespace parley::nic::roce {

/// The part of a message in a packet.
struct Part {
  bool begins = false, ends = false;
};

class Responder {
 public:
  explicit Responder(QpContext& qp);

  /// At RTR: sets the first expected PSN.
  void start(std::uint32_t rq_psn);
  /// max_dest_rd_atomic has changed: waiting answers stay, and the number of remembered Reads and Atomics is adapted.
  void depth_changed();
  Result<void> post(const RecvWr& wr);

  /// A request on RC, UC or XRC. False: it was answered with a NAK, after which the queue pair is in ERR.
  bool handle_request(const wire::ib::Packet& packet);
  /// RC packets in the middle of a Send or Write; returns how many were taken. 0: nothing was done, and the first must
  /// go to handle_request().
  std::size_t handle_middles(const MiddlePackets& middles, bool placed);
  /// Like Requester::fitting().
  std::size_t fitting(const MiddlePackets& middles, MutBytes& place);
  /// A datagram with the right Q_Key.
  void handle_datagram(const PacketFrom& from, const wire::ib::Packet& packet);

  bool has_reply() const { return !replies_.empty() && held_ == 0; }
  /// An ACK is delayed: DeviceOptions::ack_delay.
  bool holds_ack() const { return held_ > 0; }
  void release_ack() { held_ = 0; }
  /// failed: the QP moved to ERR. nothing: this reply was dropped; try the next one.
  enum class Sent : std::uint8_t { packet, nothing, failed };
  /// The next packet of the current answer, and up to `most` in the middle of a Read's response.
  Sent transmit(std::size_t most, PacketTo& to, MutBytes out, PacketRun& run);

  /// Posted receives, and receives taken from the shared receive queue, complete as flushed. Waiting answers are still
  /// sent.
  void flush();
  void drop_replies();
  /// The current message arrives in memory of the region.
  bool uses(std::uint32_t slot) { return arriving_.taken && nic::uses(receive().memory, slot); }
  /// Removes the region from posted receives.
  void withdraw(std::uint32_t slot) { nic::withdraw(qp_.tables().regions, receives_, receives_.head(), slot); }
  /// Removes the receives without completions.
  void drop();

 private:
  enum class Message : std::uint8_t { none, send, write };
  /// A waiting answer.
  struct Reply {
    enum class Kind : std::uint8_t { acknowledge, read, atomic };
    Kind kind = Kind::acknowledge;
    std::uint8_t syndrome = 0;
    bool begun = false;   // Read: a packet has been sent
    bool repeat = false;  // for a request that was answered before
    std::uint32_t msn = 0;
    Psn psn = 0, end = 0;        // Read: the part that is still to be sent
    std::uint64_t original = 0;  // Atomic
    std::uint64_t va = 0;        // Read
    std::uint32_t length = 0, rkey = 0;
    PdHandle pd = 0;
  };
  /// An accepted Read or Atomic, remembered in case it is repeated (IBA §9.4.5, §9.7.5).
  struct Fetch {
    bool atomic = false;
    Psn first = 0, end = 0;
    std::uint64_t va = 0;
    std::uint32_t length = 0, rkey = 0;
    PdHandle pd = 0;
    std::uint64_t original = 0;
  };
  /// Where a request finds memory and receives: the queue pair's own, or on XRC those of the shared receive queue in
  /// the packet (IBA §A14).
  struct Receiver {
    PdHandle pd = 0;
    Ref<SrqRing> srq;
    CqRing* cq = nullptr;
  };
  /// The message that is arriving.
  struct Arriving {
    Message message = Message::none;  // none: between messages
    bool taken = false;               // a receive was taken: `shared`, or the first of the queue's own
    RecvWqe shared;
    Receiver receiver;                   // XRC: from its first packet
    std::uint32_t got = 0;               // octets
    std::uint32_t length = 0, rkey = 0;  // Write
    std::uint64_t va = 0;
  };
  /// The reason for refusing a request.
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
  bool answers_read_of(std::uint32_t rkey) const;
  bool refuse(Refusal refusal, Psn psn);
  void handle_unreliable(const wire::ib::Packet& packet, Psn psn);
  bool refuses_again(const wire::ib::Packet& packet) const;
  void handle_duplicate(const wire::ib::Packet& packet, Psn psn);
  void repeat_read(const wire::ib::Packet& packet, Psn psn, const Fetch& fetch);
  Reply& last_in_order(std::uint64_t at, Psn psn);

  // responder.cpp: receives and answers
  bool consume_receive(Receiver& from);
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
  Receiver receiver_;           // for the current packet
  Arriving arriving_;
  Psn expected_ = 0;
  std::uint32_t msn_ = 0;              // IBA §9.7.7.1: completed messages, 24 bits
  bool nak_sent_ = false;              // a NAK was sent, and the expected PSN has not arrived since
  bool dropping_ = false;              // UC: until the next message begins
  GrowRing<Reply> replies_;            // at most twice max_dest_rd_atomic plus 4
  std::uint32_t held_ = 0;             // messages acknowledged by the delayed ACK, which is then the only reply
  std::uint32_t fetches_waiting_ = 0;  // replies other than repeats and ACKs
  GrowRing<Fetch> fetches_;            // at most max_dest_rd_atomic
};

}  // namespace parley::nic::roce
