// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Queue pairs and shared receive queues of a real NIC. Every request is posted to the NIC as signaled, so that it is
// known what is done; completions of those that the program wanted unsignaled are not passed on.
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
  void set_number(std::uint32_t number) { number_ = number; }  // of an XRC one
  /// A queue pair's receives from here complete there: all that are posted may do so before anybody polls. Errors:
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
  /// Without a PD and queues, where an XRC one has none.
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
  /// Requests that are posted and not complete.
  std::size_t sends_open() const { return sends_.open(); }
  /// Requests of which the NIC has not confirmed that they were carried out: not complete, failed or flushed.
  std::uint64_t sends_unconfirmed() const { return sends_.open() + sends_.failed(); }
  /// Posts an RDMA Write of length 0: the peer's NIC acknowledges it, its program does not notice, and address and key are not looked at
  /// (IBA C9-88). It takes no place of the program's in either queue. False: it cannot be posted now, or not at all.
  bool probe();
  static constexpr unsigned probes_max = 5;  // under way at once
  unsigned probes() const { return sends_.probes(); }
  /// Rises with each sign of life of a peer that acknowledges requests.
  std::uint64_t heard() const { return sends_.succeeded() + receives_.succeeded(); }
  /// The send queue has places for probes.
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
