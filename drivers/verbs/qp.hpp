// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Queue pairs and shared receive queues of a real NIC. Every request is posted to the NIC as signaled, so that its
// completion is known; completions of requests that the program posted as unsignaled are not passed on.
#pragma once
#include <memory>

#include "drivers/verbs/device.hpp"

namespace parley::verbs {

class Srq final : public SharedReceiveQueue {
 public:
  Srq(NicDevice& device, PdHandle pd, ibv_srq* srq, std::size_t capacity);
  ~Srq() override;
  Srq(const Srq&) = delete;
  Srq& operator=(const Srq&) = delete;
  Result<void> post_recv(const RecvWr& wr) override;
  std::size_t available() const override { return posted_.open(); }
  Result<void> modify(const SrqAttr& attr) override;
  SrqAttr query() const override;
  std::optional<std::uint32_t> srq_num() const override { return number_; }
  ibv_srq* srq() const { return srq_; }
  void set_number(std::uint32_t number) { number_ = number; }  // for an XRC queue
  /// From now on, a queue pair's receives complete there: all posted ones may do so before the queue is polled. Errors:
  /// no_space.
  Result<void> reserve_at(const std::shared_ptr<HwCq>& cq);

 private:
  NicDevice& device_;
  PdHandle pd_;
  ibv_srq* srq_;
  std::size_t capacity_;
  std::uint32_t key_;
  std::optional<std::uint32_t> number_;
  Posted posted_;
  std::vector<std::weak_ptr<HwCq>> reserved_;  // each queue once
};

class Qp final : public QueuePair {
 public:
  /// Without PD and queues, where an XRC queue pair has none.
  Qp(NicDevice& device, const QpInit& init, ibv_qp* qp, std::shared_ptr<HwCq> send_cq, std::shared_ptr<HwCq> recv_cq);
  ~Qp() override;
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;
  std::uint32_t qp_num() const override { return qp_->qp_num; }
  QpState state() const override;
  Result<void> modify(const QpAttr& attr) override;
  QpAttr query() const override;
  Result<void> post_send(const SendWr& wr) override;
  Result<void> post_recv(const RecvWr& wr) override;

  ibv_qp* qp() const { return qp_; }
  NicDevice& device() const { return device_; }
  /// Posted requests that are not complete.
  std::size_t sends_open() const { return sends_.open(); }
  /// Requests whose execution the NIC has not confirmed: incomplete, failed or flushed.
  std::uint64_t sends_unconfirmed() const { return sends_.open() + sends_.failed(); }
  /// Posts an RDMA Write of length 0: the peer's NIC acknowledges it, its program does not notice, and address and key
  /// are not checked (IBA C9-88). It takes no place of the program's requests in either queue. False: it cannot be
  /// posted now, or not at all.
  bool probe();
  static constexpr unsigned probes_max = 5;  // in flight
  unsigned probes() const { return sends_.probes(); }
  /// Increases with each sign of life of a peer that acknowledges requests.
  std::uint64_t heard() const { return sends_.succeeded() + receives_.succeeded(); }
  /// The send queue has room for probes.
  void set_probes(bool able) { can_probe_ = able; }

 private:
  NicDevice& device_;
  QpType type_;
  PdHandle pd_;
  ibv_qp* qp_;
  std::shared_ptr<HwCq> send_cq_, recv_cq_;
  bool xrc() const { return type_ == QpType::xrc_ini || type_ == QpType::xrc_tgt; }
  bool shared_;  // receives come from a shared receive queue
  bool can_probe_ = false;
  std::uint32_t send_key_, recv_key_;
  Posted sends_, receives_;
};

}  // namespace parley::verbs
