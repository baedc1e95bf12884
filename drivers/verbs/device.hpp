// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A real NIC as a parley::Device, through libibverbs. All its completion queues report to one completion channel of the
// system, whose descriptor a driver waits for; collect() moves completions to where the program polls them.
#pragma once
#include <infiniband/verbs.h>

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "drivers/verbs/queue.hpp"

namespace parley::verbs {

class Qp;
class Srq;
class Xrcd;

/// The Error of a released device.
tl::unexpected<Error> removed();
/// "rxe0: ibv_open_xrcd: Operation not supported (errno 95)": the error of the device's driver or of the kernel. The
/// text is kept for ever.
tl::unexpected<Error> refused_by(const std::string& device, std::string_view call, int error);

class NicDevice final : public Device {
 public:
  /// `context` is closed with the device, or if this fails. `other`: a context of the same device that librdmacm opened
  /// and keeps open; it is released with the device if the system removes that. Objects created from the device must be
  /// destroyed before it. Errors: io, no_space.
  static Result<std::unique_ptr<NicDevice>> open(ibv_context* context, ibv_context* other = nullptr);
  ~NicDevice() override;
  NicDevice(const NicDevice&) = delete;
  NicDevice& operator=(const NicDevice&) = delete;

  Result<PdHandle> alloc_pd() override;
  Result<void> dealloc_pd(PdHandle pd) override;
  Result<MemoryRegion> reg_mr(PdHandle pd, MutBytes memory, Access access) override;
  Result<void> dereg_mr(std::uint32_t lkey) override;
  Result<std::unique_ptr<CompletionChannel>> create_comp_channel() override;
  Result<std::unique_ptr<CompletionQueue>> create_cq(const CqInit& init) override;
  using Device::create_cq;
  Result<std::unique_ptr<SharedReceiveQueue>> create_srq(const SrqInit& init) override;
  using Device::create_srq;
  Result<std::unique_ptr<QueuePair>> create_qp(const QpInit& init) override;
  Result<std::unique_ptr<XrcDomain>> open_xrcd(const XrcdInit& init) override;
  using Device::open_xrcd;
  Result<std::unique_ptr<QueuePair>> open_qp(XrcDomain& domain, std::uint32_t qp_num) override;
  Result<std::unique_ptr<AddressHandle>> create_ah(PdHandle pd, const AhAttr& attr) override;
  std::optional<AsyncEvent> poll_async_event() override;
  DeviceAttr query() const override { return attr_; }

  Result<std::unique_ptr<Qp>> make_qp(const QpInit& init);
  /// Whether the queue pair can be created on this device: it owns the protection domain and the queues.
  bool owns(const QpInit& init) const;
  /// Null after release().
  ibv_context* context() const { return context_; }
  const std::string& name() const { return attr_.name; }
  /// Its name in /dev/infiniband: "uverbs0".
  const std::string& node() const { return node_; }
  Transport transport() const { return attr_.transport; }
  /// Like query(), without a copy.
  const DeviceAttr& attr() const { return attr_; }

  /// Takes the events of the system's completion channel and asynchronous events. True if there were any.
  bool collect();
  /// Requests a notification for the next completion. True if something completed meanwhile: then do not wait.
  bool arm();
  int completion_fd() const { return channel_->fd; }
  int async_fd() const { return context_->async_fd; }
  /// A completion channel or poll_async_event() has an event.
  bool has_events() const { return tables_->has_events() || !async_.empty(); }
  /// The system is removing the device, according to an asynchronous event or told().
  bool gone() const { return gone_; }
  void mark_gone() { gone_ = true; }
  /// Its device file is also gone. Before that, librdmacm would open the device again.
  bool node_gone() const { return node_gone_; }
  void mark_node_gone() { gone_ = node_gone_ = true; }
  /// No objects created from it are left, except protection domains.
  bool idle() const;
  /// Releases the system's objects; every call fails from then on. Only when idle().
  void release();
  bool released() const { return context_ == nullptr; }
  /// Queue pairs with a failed request since the last call: number and status.
  std::vector<std::pair<std::uint32_t, WcStatus>> take_broken() { return std::exchange(broken_, {}); }
  /// Queue pairs that received the peer's first packet before its confirmation (IBV_EVENT_COMM_EST).
  std::vector<std::uint32_t> take_reached() { return std::exchange(reached_, {}); }
  /// A turn is needed before any wait: a completion queue is not armed; or completions that may concern a connection
  /// were taken since settled(), by arm() or by a post that found its queue full; or a removed device can be released.
  bool due() const { return unarmed_ || taken_ || (node_gone_ && !released() && idle()); }
  void settled() { taken_ = false; }

 private:
  friend class Qp;
  friend class Srq;
  friend class Xrcd;
  struct Pd {
    ibv_pd* pd = nullptr;
    std::uint32_t users = 0;
  };
  struct Mr {
    ibv_mr* mr = nullptr;
    PdHandle pd = 0;
  };
  NicDevice(ibv_context* context, ibv_context* other);
  Result<void> start();
  Pd* find_pd(PdHandle pd);
  std::shared_ptr<HwCq> find_cq(const CompletionQueue* cq) const;
  Result<std::shared_ptr<HwCq>> make_hw_cq(nic::Ref<nic::CqRing> ring);
  bool drain(HwCq& hw);
  void complete(HwCq& hw, const ibv_wc& wc);
  void handle(const ibv_async_event& event);

  // xrc.cpp
  Xrcd* find_xrcd(const XrcDomain* domain) const;
  Result<std::unique_ptr<SharedReceiveQueue>> create_xrc_srq(const SrqInit& init);
  Result<std::unique_ptr<Qp>> make_xrc_qp(const QpInit& init);
  void notify_target(const ibv_async_event& event);
  void forget_target(const Qp* qp);

  ibv_context* context_;
  ibv_context* other_;  // librdmacm's; null: none
  bool gone_ = false, node_gone_ = false;
  ibv_comp_channel* channel_ = nullptr;
  DeviceAttr attr_;
  std::string node_;
  std::uint32_t qps_ = 0;
  nic::Ref<nic::Tables> tables_;
  PdHandle next_pd_ = 1;
  std::uint32_t next_posted_ = 1;
  std::unordered_map<PdHandle, Pd> pds_;
  std::unordered_map<std::uint32_t, Mr> mrs_;          // by lkey
  std::unordered_map<std::uint32_t, Posted*> posted_;  // by the upper half of wr_id
  std::unordered_map<ibv_cq*, std::weak_ptr<HwCq>> cqs_;
  std::unordered_map<const CompletionQueue*, std::weak_ptr<HwCq>> cq_of_;
  std::vector<Srq*> srqs_;
  std::vector<Xrcd*> xrcds_;
  std::vector<Qp*> targets_;                                // XRC_TGT
  std::vector<std::pair<std::uint32_t, WcStatus>> broken_;  // each failure, in order
  std::vector<std::uint32_t> reached_;
  bool unarmed_ = false, taken_ = false;
  std::deque<AsyncEvent> async_;  // at most one of each kind per object
};

/// An XRC domain of the system, which other processes may also have open.
class Xrcd final : public XrcDomain {
 public:
  Xrcd(NicDevice& device, ibv_xrcd* handle);
  ~Xrcd() override;
  Xrcd(const Xrcd&) = delete;
  Xrcd& operator=(const Xrcd&) = delete;
  ibv_xrcd* const xrcd;

 private:
  NicDevice& device_;
};

/// The destination of datagrams of UD queue pairs.
class Ah final : public AddressHandle {
 public:
  explicit Ah(ibv_ah* handle) : ah(handle) {}
  ~Ah() override { ibv_destroy_ah(ah); }
  Ah(const Ah&) = delete;
  Ah& operator=(const Ah&) = delete;
  ibv_ah* const ah;
};

}  // namespace parley::verbs
