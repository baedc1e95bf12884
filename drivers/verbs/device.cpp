// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/verbs/device.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <mutex>
#include <utility>

#include "drivers/verbs/convert.hpp"
#include "drivers/verbs/qp.hpp"

namespace parley::verbs {
namespace {

constexpr std::uint32_t sges_of_hardware = 4;  // more make each entry of a NIC's queues longer
constexpr std::uint32_t probes_per_cq = 64;    // at the same time, for the queue pairs that share a completion queue

bool set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

// librdmacm keeps a device open until it sees a different list of devices, and it ignores an empty one (44 to 64
// alike). The system's removal waits for that, so the descriptors are closed here. Their numbers stay occupied, because
// librdmacm will close them too.
void release(const ibv_context& context) {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0) return;
  for (const int fd : {context.cmd_fd, context.async_fd}) (void)::dup3(nothing, fd, O_CLOEXEC);
  ::close(nothing);
}

/// librdmacm's contexts, which all hosts of a process share: each is released once, by the last user.
class Shared {
 public:
  void join(ibv_context* context) {
    const std::lock_guard lock(mutex_);
    ++users_[context];
  }
  void leave(ibv_context* context, bool removed) {
    const std::lock_guard lock(mutex_);
    if (--users_[context] != 0) return;
    users_.erase(context);
    if (removed) release(*context);
  }

 private:
  std::mutex mutex_;
  std::map<ibv_context*, int> users_;
};

Shared& shared() {
  static Shared it;
  return it;
}

DeviceAttr attr_of(const ibv_context& context, const ibv_device_attr& from) {
  const bool iwarp = context.device->transport_type == IBV_TRANSPORT_IWARP;
  DeviceAttr out;
  out.name = ibv_get_device_name(context.device);
  out.transport = iwarp ? Transport::iwarp : Transport::roce;
  out.qp_types = iwarp ? std::vector{QpType::rc} : std::vector{QpType::rc, QpType::uc, QpType::ud};
  out.imm_data = !iwarp;
  out.address_handles = !iwarp;
  out.xrc = !iwarp && (from.device_cap_flags & IBV_DEVICE_XRC) != 0;
  if (out.xrc) out.qp_types.insert(out.qp_types.end(), {QpType::xrc_ini, QpType::xrc_tgt});
  const auto positive = [](int n) { return static_cast<std::uint32_t>(std::max(n, 0)); };
  out.max_pd = positive(from.max_pd);
  out.max_mr = positive(from.max_mr);
  // Leaves room for probes even if a program uses the maximum.
  const auto leaving = [iwarp](std::uint32_t all, std::uint32_t probes) {
    return iwarp ? all : all - std::min(probes, (all + 1) / 2);
  };
  out.max_cqe = leaving(positive(from.max_cqe), probes_per_cq);
  out.max_qp_wr = leaving(positive(from.max_qp_wr), Qp::probes_max);
  out.max_srq_wr = positive(from.max_srq_wr);
  out.max_sge = std::min(positive(from.max_sge), sges_of_hardware);
  out.max_sge_rd = std::min(iwarp ? 1 : positive(from.max_sge_rd), sges_of_hardware);
  out.max_qp_rd_atom = positive(from.max_qp_rd_atom);
  out.max_qp_init_rd_atom = positive(from.max_qp_init_rd_atom);
  return out;
}

}  // namespace

// Every other object needs a protection domain, which a released device does not have.
tl::unexpected<Error> removed() { return fail(Errc::unreachable, "the device was removed"); }

HwCq::~HwCq() {
  if (events != 0) ibv_ack_cq_events(cq, events);
  ibv_destroy_cq(cq);
}

NicDevice::NicDevice(ibv_context* context, ibv_context* other)
    : context_(context), other_(other), tables_(new nic::Tables) {
  if (other_ != nullptr) shared().join(other_);
}

Result<std::unique_ptr<NicDevice>> NicDevice::open(ibv_context* context, ibv_context* other) {
  std::unique_ptr<NicDevice> device(new NicDevice(context, other));
  if (auto started = device->start(); !started) return tl::unexpected(started.error());
  return device;
}

Result<void> NicDevice::start() {
  node_ = context_->device->dev_name;
  ibv_device_attr attr{};
  if (const int error = ibv_query_device(context_, &attr); error != 0)
    return refused(error, "ibv_query_device: errno {a}");
  attr_ = attr_of(*context_, attr);
  channel_ = ibv_create_comp_channel(context_);
  if (channel_ == nullptr) return refused(errno, "ibv_create_comp_channel: errno {a}");
  if (!set_nonblocking(channel_->fd) || !set_nonblocking(context_->async_fd))
    return refused(errno, "a descriptor of the device cannot be made non-blocking: errno {a}");
  return {};
}

NicDevice::~NicDevice() {
  for (auto& [lkey, mr] : mrs_) ibv_dereg_mr(mr.mr);
  release();
}

bool NicDevice::idle() const {
  return qps_ == 0 && srqs_.empty() && mrs_.empty() && xrcds_.empty() &&
         std::all_of(cqs_.begin(), cqs_.end(), [](const auto& entry) { return entry.second.expired(); });
}

void NicDevice::release() {
  if (context_ == nullptr) return;
  for (auto& [handle, pd] : pds_) ibv_dealloc_pd(pd.pd);
  pds_.clear();
  cqs_.clear();
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
  channel_ = nullptr;
  ibv_close_device(context_);
  context_ = nullptr;
  if (other_ != nullptr) shared().leave(std::exchange(other_, nullptr), node_gone_);
}

NicDevice::Pd* NicDevice::find_pd(PdHandle pd) {
  const auto at = pds_.find(pd);
  return at == pds_.end() ? nullptr : &at->second;
}

Result<PdHandle> NicDevice::alloc_pd() {
  if (released()) return removed();
  ibv_pd* pd = ibv_alloc_pd(context_);
  if (pd == nullptr) return refused(errno, "ibv_alloc_pd: errno {a}");
  const PdHandle handle = next_pd_++;
  pds_[handle] = {.pd = pd};
  return handle;
}

Result<void> NicDevice::dealloc_pd(PdHandle handle) {
  Pd* pd = find_pd(handle);
  if (pd == nullptr) return fail(Errc::invalid_argument, "there is no protection domain {a}", handle);
  if (pd->users != 0) return fail(Errc::wrong_state, "{a} objects use the protection domain", pd->users);
  if (const int error = ibv_dealloc_pd(pd->pd); error != 0) return refused(error, "ibv_dealloc_pd: errno {a}");
  pds_.erase(handle);
  return {};
}

Result<MemoryRegion> NicDevice::reg_mr(PdHandle handle, MutBytes memory, Access access) {
  if (released()) return removed();
  Pd* pd = find_pd(handle);
  if (pd == nullptr) return fail(Errc::invalid_argument, "there is no protection domain {a}", handle);
  ibv_mr* mr = ibv_reg_mr(pd->pd, memory.data(), memory.size(), static_cast<unsigned>(to_ibv(access)));
  if (mr == nullptr)
    return errno == ENOMEM ? refused(errno, "ibv_reg_mr: no memory, or more than may be locked (ulimit -l)")
                           : refused(errno, "ibv_reg_mr: errno {a}");
  ++pd->users;
  mrs_[mr->lkey] = {.mr = mr, .pd = handle};
  return MemoryRegion{.lkey = mr->lkey,
                      .rkey = mr->rkey,
                      .addr = reinterpret_cast<std::uint64_t>(memory.data()),
                      .length = memory.size(),
                      .pd = handle,
                      .access = access};
}

Result<void> NicDevice::dereg_mr(std::uint32_t lkey) {
  const auto at = mrs_.find(lkey);
  if (at == mrs_.end()) return fail(Errc::invalid_argument, "there is no region with lkey {a}", lkey);
  if (const int error = ibv_dereg_mr(at->second.mr); error != 0) return refused(error, "ibv_dereg_mr: errno {a}");
  --find_pd(at->second.pd)->users;
  mrs_.erase(at);
  return {};
}

Result<std::unique_ptr<CompletionChannel>> NicDevice::create_comp_channel() { return nic::make_channel(tables_); }

Result<std::shared_ptr<HwCq>> NicDevice::make_hw_cq(nic::Ref<nic::CqRing> ring) {
  if (released()) return removed();
  const auto capacity = static_cast<std::uint32_t>(ring->done.max());
  const std::uint32_t probes = attr_.transport == Transport::iwarp ? 0 : std::min(probes_per_cq, attr_.max_cqe);
  ibv_cq* cq = ibv_create_cq(context_, static_cast<int>(capacity + probes), nullptr, channel_, 0);
  if (cq == nullptr) return refused(errno, "ibv_create_cq: errno {a}");
  auto hw = std::make_shared<HwCq>(cq, std::move(ring));
  hw->probes_max = probes;
  std::erase_if(cqs_, [](const auto& entry) { return entry.second.expired(); });
  std::erase_if(cq_of_, [](const auto& entry) { return entry.second.expired(); });
  cqs_[cq] = hw;
  unarmed_ = true;
  return hw;
}

Result<std::unique_ptr<CompletionQueue>> NicDevice::create_cq(const CqInit& init) {
  if (init.capacity > attr_.max_cqe)
    return fail(Errc::invalid_argument, "CqInit::capacity is {a}; the device has at most {b}",
                static_cast<std::int64_t>(init.capacity), attr_.max_cqe);
  auto inner = nic::make_cq(tables_, init);
  if (!inner) return inner;
  auto hw = make_hw_cq(tables_->cqs.at(inner->get()));
  if (!hw) return tl::unexpected(hw.error());
  auto cq = std::make_unique<Cq>(std::move(*inner), *hw);
  cq_of_[cq.get()] = *hw;
  return cq;
}

std::shared_ptr<HwCq> NicDevice::find_cq(const CompletionQueue* cq) const {
  const auto at = cq_of_.find(cq);
  return at == cq_of_.end() ? nullptr : at->second.lock();
}

bool NicDevice::owns(const QpInit& init) const {
  return pds_.contains(init.pd) && find_cq(init.send_cq) &&
         (init.type == QpType::xrc_ini || find_cq(init.recv_cq));  // an XRC initiator receives nothing
}

Result<std::unique_ptr<SharedReceiveQueue>> NicDevice::create_srq(const SrqInit& init) {
  if (released()) return removed();
  if (auto capacity = nic::check_capacity(init.capacity, std::max(attr_.max_srq_wr, 1U)); !capacity)
    return tl::unexpected(capacity.error());
  Pd* pd = find_pd(init.pd);
  if (pd == nullptr)
    return fail(Errc::invalid_argument, "SrqInit::pd is {a}, which is not a protection domain", init.pd);
  if (init.xrcd != nullptr) return create_xrc_srq(init);
  ibv_srq_init_attr attr{};
  attr.attr.max_wr = static_cast<std::uint32_t>(init.capacity);
  attr.attr.max_sge = std::max(attr_.max_sge, 1U);
  ibv_srq* srq = ibv_create_srq(pd->pd, &attr);
  if (srq == nullptr) return refused(errno, "ibv_create_srq: errno {a}");
  return std::make_unique<Srq>(*this, init.pd, srq, init.capacity);
}

Result<std::unique_ptr<QueuePair>> NicDevice::create_qp(const QpInit& init) {
  auto qp = make_qp(init);
  if (!qp) return tl::unexpected(qp.error());
  return std::unique_ptr<QueuePair>(std::move(*qp));
}

Result<std::unique_ptr<Qp>> NicDevice::make_qp(const QpInit& init) {
  if (released()) return removed();
  if (init.type == QpType::xrc_ini || init.type == QpType::xrc_tgt) return make_xrc_qp(init);
  if (std::find(attr_.qp_types.begin(), attr_.qp_types.end(), init.type) == attr_.qp_types.end())
    return fail(Errc::unsupported, "QpInit::type is not one of the device's (DeviceAttr::qp_types)");
  Pd* pd = find_pd(init.pd);
  if (pd == nullptr)
    return fail(Errc::invalid_argument, "QpInit::pd is {a}, no protection domain of the device", init.pd);
  auto send_cq = find_cq(init.send_cq);
  auto recv_cq = find_cq(init.recv_cq);
  if (!send_cq || !recv_cq)
    return fail(Errc::invalid_argument, "QpInit::send_cq and recv_cq are completion queues of the device");
  auto* srq = static_cast<Srq*>(init.srq);
  if (srq != nullptr && std::find(srqs_.begin(), srqs_.end(), srq) == srqs_.end())
    return fail(Errc::invalid_argument, "QpInit::srq is not a shared receive queue of the device");
  if (srq != nullptr)
    if (auto room = srq->reserve_at(recv_cq); !room) return tl::unexpected(room.error());
  if (init.max_send_wr > attr_.max_qp_wr || init.max_recv_wr > attr_.max_qp_wr)
    return fail(Errc::invalid_argument, "QpInit::max_send_wr and max_recv_wr are at most {a}", attr_.max_qp_wr);
  ibv_qp_init_attr attr{};
  attr.send_cq = send_cq->cq;
  attr.recv_cq = recv_cq->cq;
  attr.srq = srq != nullptr ? srq->srq() : nullptr;
  attr.qp_type = to_ibv(init.type);
  attr.sq_sig_all = 1;
  const std::uint32_t sends = std::max(init.max_send_wr, 1U);
  const bool probes = init.type == QpType::rc && send_cq->probes_max != 0 && attr_.max_qp_wr >= Qp::probes_max;
  attr.cap.max_send_wr = sends + (probes ? Qp::probes_max : 0);
  attr.cap.max_recv_wr = srq != nullptr ? 0 : std::max(init.max_recv_wr, 1U);
  attr.cap.max_send_sge = std::max(attr_.max_sge, 1U);
  attr.cap.max_recv_sge = srq != nullptr ? 0 : std::max(attr_.max_sge, 1U);
  ibv_qp* qp = ibv_create_qp(pd->pd, &attr);
  if (qp == nullptr) return refused(errno, "ibv_create_qp: errno {a}");
  auto made = std::make_unique<Qp>(*this, init, qp, std::move(send_cq), std::move(recv_cq));
  made->set_probes(probes);
  return made;
}

Result<std::unique_ptr<AddressHandle>> NicDevice::create_ah(PdHandle handle, const AhAttr& attr) {
  if (released()) return removed();
  if (!attr_.address_handles) return fail(Errc::unsupported, "an iWARP device has no address handles");
  Pd* pd = find_pd(handle);
  if (pd == nullptr) return fail(Errc::invalid_argument, "there is no protection domain {a}", handle);
  ibv_ah_attr args = to_ibv(attr);
  ibv_ah* ah = ibv_create_ah(pd->pd, &args);
  if (ah == nullptr) return refused(errno, "ibv_create_ah: errno {a}");
  return std::make_unique<Ah>(ah);
}

std::optional<AsyncEvent> NicDevice::poll_async_event() {
  if (async_.empty()) return std::nullopt;
  const AsyncEvent event = async_.front();
  async_.pop_front();
  return event;
}

void NicDevice::complete(HwCq& hw, const ibv_wc& wc) {
  const auto owner = posted_.find(static_cast<std::uint32_t>(wc.wr_id >> 32));
  if (owner == posted_.end()) return;  // its queue pair was destroyed
  const auto at = static_cast<std::uint32_t>(wc.wr_id);
  if (at == Posted::probe) {
    owner->second->end_probe(wc.status == IBV_WC_SUCCESS);
    --hw.probes;
    if (wc.status != IBV_WC_SUCCESS) broken_.emplace_back(wc.qp_num, static_cast<WcStatus>(wc.status));
    return;
  }
  const Posted::Entry* entry = owner->second->find(at);
  if (entry == nullptr) return;
  const auto status = static_cast<WcStatus>(wc.status);
  const Posted::Entry posted = *entry;
  owner->second->complete(at, status == WcStatus::success);
  // The places for a shared receive queue stay reserved (Srq::reserve_at).
  if (owner->second->shared()) ++hw.ring->reserved;
  // One flushed request gives as much information as a thousand.
  const std::pair failure{wc.qp_num, status};
  if (status != WcStatus::success && (broken_.empty() || broken_.back() != failure)) broken_.push_back(failure);
  if (status == WcStatus::success && !posted.signaled) return hw.ring->release();
  WcOpcode opcode = posted.opcode;
  if (status == WcStatus::success && opcode == WcOpcode::recv) opcode = static_cast<WcOpcode>(wc.opcode);
  const bool receive = opcode == WcOpcode::recv || opcode == WcOpcode::recv_rdma_with_imm;
  // The system does not report whether the peer requested a solicited event, so each receive counts as one.
  WorkCompletion& done = hw.ring->push(posted.wr_id, wc.qp_num, opcode, status, receive);
  done.solicited = false;
  if (status != WcStatus::success) return;
  if (opcode != WcOpcode::send && opcode != WcOpcode::rdma_write) done.byte_len = wc.byte_len;
  if (receive) {
    done.with_imm = (wc.wc_flags & IBV_WC_WITH_IMM) != 0;
    done.with_inv = (wc.wc_flags & IBV_WC_WITH_INV) != 0;
    if (done.with_imm) done.imm_data = be32toh(wc.imm_data);
    if (done.with_inv) done.invalidated_rkey = wc.invalidated_rkey;
    done.src_qp = wc.src_qp;
    done.with_grh = (wc.wc_flags & IBV_WC_GRH) != 0;
  }
}

bool NicDevice::drain(HwCq& hw) {
  std::array<ibv_wc, 16> some;
  bool any = false;
  for (;;) {
    const int n = ibv_poll_cq(hw.cq, static_cast<int>(some.size()), some.data());
    if (n <= 0) return any;
    any = taken_ = true;
    for (int i = 0; i < n; ++i) complete(hw, some[static_cast<std::size_t>(i)]);
  }
}

bool NicDevice::collect() {
  if (released()) return false;
  bool any = false;
  ibv_cq* told = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(channel_, &told, &context) == 0) {
    const auto at = cqs_.find(told);
    const auto hw = at == cqs_.end() ? nullptr : at->second.lock();
    if (!hw) continue;
    ++hw->events;
    hw->armed = false;
    unarmed_ = true;
  }
  for (auto& [cq, weak] : cqs_)
    if (const auto hw = weak.lock()) any = drain(*hw) || any;
  ibv_async_event event{};
  while (ibv_get_async_event(context_, &event) == 0) {
    handle(event);
    ibv_ack_async_event(&event);
    any = taken_ = true;
  }
  return any;
}

void NicDevice::handle(const ibv_async_event& event) {
  if (event.event_type == IBV_EVENT_DEVICE_FATAL) gone_ = true;
  if (event.event_type == IBV_EVENT_QP_FATAL || event.event_type == IBV_EVENT_QP_REQ_ERR ||
      event.event_type == IBV_EVENT_QP_ACCESS_ERR)
    broken_.emplace_back(event.element.qp->qp_num, WcStatus::fatal_err);
  if (event.event_type == IBV_EVENT_COMM_EST) reached_.push_back(event.element.qp->qp_num);
  notify_target(event);
  if (event.event_type != IBV_EVENT_SRQ_LIMIT_REACHED) return;
  const auto at = std::find_if(srqs_.begin(), srqs_.end(), [&](const Srq* s) { return s->srq() == event.element.srq; });
  if (at != srqs_.end()) async_.push_back(SrqLimitReached{*at});
}

bool NicDevice::arm() {
  bool any = false;
  unarmed_ = false;
  if (released()) return false;
  for (auto& [cq, weak] : cqs_) {
    const auto hw = weak.lock();
    if (!hw || hw->armed) continue;
    hw->armed = ibv_req_notify_cq(cq, 0) == 0;
    any = drain(*hw) || any;
  }
  return any;
}

}  // namespace parley::verbs
