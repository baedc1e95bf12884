// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The RoCE queue pair: verbs' states around its two halves. nic/common/qp_modify.hpp has the attributes of each
// transition; tests/states/roce_qp.txt has every state with every event.
//
//   state       requests posted     packets of the peer         sends
//   RESET       refused             dropped                     nothing
//   INIT        receives            dropped                     nothing
//   RTR         receives            requests are executed       answers
//   RTS         all                 all                         all
//   SQD         all, none begun     all                         begun requests, answers
//   SQE         sends are flushed   requests (UC, UD)           nothing
//   ERR         all are flushed     dropped                     waiting answers, and the NAK that caused ERR
//
//   A failure of its own request moves it from RTS or SQD to ERR, and UC and UD to SQE (IBA §10.3.1); an error in a
//   request of the peer moves RC and XRC_TGT to ERR after a NAK.
#pragma once
#include "nic/roce/requester.hpp"
#include "nic/roce/responder.hpp"

namespace parley::nic::roce {

/// The receiver of events about a queue pair: itself, or each handle of an XRC_TGT.
class EventReceiver : public RoceQp {
 public:
  std::uint32_t waiting_notices = 0, waiting_events = 0;  // bits by QueuePairEvent::Kind
};

class Qp final : public EventReceiver {
 public:
  explicit Qp(QpContext context);
  ~Qp() override;
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  std::uint32_t qp_num() const override { return qp_.number; }
  QpType type() const override { return qp_.type; }
  QpState state() const override { return qp_.state; }
  Result<void> modify(const QpAttr& attr) override;
  QpAttr query() const override;
  Result<void> post_send(const SendWr& wr) override { return post_sends({&wr, 1}); }
  Result<void> post_sends(std::span<const SendWr> all) override;
  Result<void> post_recv(const RecvWr& wr) override;
  Result<void> attach_multicast(const Gid& group) override;
  Result<void> detach_multicast(const Gid& group) override;
  const parley::roce::QpCounters& counters() const override { return qp_.counters; }
  std::size_t sends_open() const override { return requester_.open(); }
  void watch(Instant now, const QpWatch& watch) override;
  void handle_unreachable(Instant now) override;
  const QpFailure& failure() const override { return qp_.failure; }

  /// A packet for this queue pair, of any service.
  void handle_packet(Instant now, const PacketFrom& from, const wire::ib::Packet& packet);
  /// The same for packets with only a BTH and a payload, `size` octets each, the first of them with `bth`: handles as
  /// many as directly follow one another. 0: nothing was done, because the first is unusual and must go to
  /// handle_packet(). `placed`: their payload is already in its place.
  std::size_t handle_middles(Instant now, const PacketFrom& from, const wire::ib::Bth& bth, std::size_t size,
                             ConstBytes packets, bool placed = false);
  /// Where handle_middles() would place them.
  PacketPlacement place_of(const PacketFrom& from, const wire::ib::Bth& bth, std::size_t size, ConstBytes packets);
  void handle_cnp() { ++qp_.counters.cnp_received; }
  bool ready() const;
  /// The next packet, and up to `most` if they are in the middle of one message: RoceDevice::poll_run(). May return
  /// none even if ready().
  PacketRun transmit(Instant now, std::size_t most, PacketTo& to, MutBytes out);
  void handle_deadline(Instant now);
  /// RoceDevice::set_pace() has no room for its packets: it has a deadline for the next try.
  bool is_held(Instant now);
  /// The region is removed: RoceDevice::withdraw_mr().
  void withdraw(std::uint32_t region);
  Nic& nic() const { return *qp_.nic; }
  const XrcDomainRing* domain() const { return &*qp_.domain; }  // only for an XRC_TGT
  std::vector<EventReceiver*> handles;                          // of an XRC_TGT: each gets the events

  // For Nic: its index in Nic's lists.
  std::uint32_t slot = 0;
  Instant wakes = never;
  bool dirty = false;
  Qp* dirty_previous = nullptr;
  Qp* dirty_next = nullptr;

 private:
  // modify.cpp
  Result<void> check_values(const QpAttr& attr) const;
  Result<Path> check_path(const QpAttr& attr) const;
  void apply(const QpAttr& attr, const Path& path);
  void go_to(QpState to);
  void reset();

  // post.cpp
  Result<void> check_posting_send() const;
  Result<void> check_shape(const SendWr& wr) const;
  Result<void> check_target(const SendWr& wr) const;
  Result<void> check_bind(const SendWr& wr) const;
  Result<void> accept(const SendWr& wr);
  Result<void> fill(SendWqe& wqe, const SendWr& wr) const;

  // watch.cpp
  void check_peer(Instant now);
  void peer_is_dead(QpFailure::Cause cause, Duration elapsed);
  Instant dead_at() const;
  Instant warning_at() const;
  Instant ask_at() const;
  Instant next_check(Instant now) const;

  // qp.cpp
  bool accepts(const PacketFrom& from, const wire::ib::Packet& packet);
  bool accepts_middles(const PacketFrom& from, const wire::ib::Bth& bth, std::size_t size) const;
  bool comes_from_peer(const PacketFrom& from) const;
  bool drop_group(const Gid& group);
  void note_congestion(Instant now, const PacketFrom& from, const wire::ib::Packet& packet);
  void write_cnp(PacketTo& to, MutBytes out);
  void to_error();
  void own_failure();
  void notify(QueuePairEvent::Kind kind) { qp_.nic->notify(*this, kind); }
  void settle();

  QpContext qp_;
  Requester requester_;
  Responder responder_;
  bool requester_had_turn_ = false;
  bool established_ = false;            // reported, or past RTR
  bool drain_told_ = true;              // SQD: reported that nothing is in flight
  Instant ack_at_ = never;              // when the delayed ACK is sent
  Instant heard_at_{};                  // the peer's last packet
  Instant check_at_ = never;            // qp_.watch: is the peer silent, or dead
  Instant warned_at_ = Instant::min();  // PeerSilent was reported last
  Instant refused_at_{};                // ICMP said so first; of interest while it is behind heard_at_
  bool cnp_due_ = false;
  Instant next_cnp_ = Instant::min();
  Path cnp_path_;
  std::uint32_t cnp_qpn_ = 0;
  std::vector<Gid> groups_;  // at most 64
};

/// A handle of an XRC_TGT queue pair, which exists until the last handle is closed (ibv_open_qp).
class Target final : public EventReceiver {
 public:
  explicit Target(std::shared_ptr<Qp> qp) : qp_(std::move(qp)) { qp_->handles.push_back(this); }
  ~Target() override {
    std::erase(qp_->handles, this);
    qp_->nic().forget(*this);
  }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  std::uint32_t qp_num() const override { return qp_->qp_num(); }
  QpType type() const override { return qp_->type(); }
  QpState state() const override { return qp_->state(); }
  Result<void> modify(const QpAttr& attr) override { return qp_->modify(attr); }
  QpAttr query() const override { return qp_->query(); }
  Result<void> post_send(const SendWr& wr) override { return qp_->post_send(wr); }
  Result<void> post_sends(std::span<const SendWr> all) override { return qp_->post_sends(all); }
  Result<void> post_recv(const RecvWr& wr) override { return qp_->post_recv(wr); }
  Result<void> attach_multicast(const Gid& group) override { return qp_->attach_multicast(group); }
  Result<void> detach_multicast(const Gid& group) override { return qp_->detach_multicast(group); }
  const parley::roce::QpCounters& counters() const override { return qp_->counters(); }
  std::size_t sends_open() const override { return 0; }
  void watch(Instant now, const QpWatch& watch) override { qp_->watch(now, watch); }
  void handle_unreachable(Instant now) override { qp_->handle_unreachable(now); }
  const QpFailure& failure() const override { return qp_->failure(); }
  const std::shared_ptr<Qp>& qp() const { return qp_; }

 private:
  std::shared_ptr<Qp> qp_;
};

}  // namespace parley::nic::roce
