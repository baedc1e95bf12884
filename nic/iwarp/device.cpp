// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "nic/iwarp/device.hpp"

#include "nic/iwarp/qp.hpp"

namespace parley::nic::iwarp {
namespace {

auto no_pd(std::string_view sentence, PdHandle pd) { return fail(Errc::invalid_argument, sentence, pd); }

auto no_xrc(std::string_view sentence) { return fail(Errc::unsupported, sentence); }

Result<void> check_type(const QpInit& init) {
  switch (init.type) {
    case QpType::rc:
      if (init.xrcd == nullptr) return {};
      return no_xrc("QpInit::xrcd is set, but iWARP has no XRC");
    case QpType::uc:
      return fail(Errc::unsupported, "QpInit::type is UC, but iWARP is reliable: RDMAP runs over TCP (RFC 5040 §1)");
    case QpType::ud: return fail(Errc::unsupported, "QpInit::type is UD, but iWARP has no datagrams (RFC 5040 §1)");
    case QpType::xrc_ini: return no_xrc("QpInit::type is XRC_INI, but iWARP has no XRC");
    case QpType::xrc_tgt: return no_xrc("QpInit::type is XRC_TGT, but iWARP has no XRC");
  }
  return fail(Errc::invalid_argument, "QpInit::type: {a} is not a type of queue pair", static_cast<int>(init.type));
}

class SoftDevice final : public IwarpDevice {
 public:
  // g++ 12 leaks memory if a `new` in a member's default initialiser throws inside, hence this constructor.
  explicit SoftDevice(std::uint64_t tagged_offset_base) : tables_(new Tables) {
    tables_->regions.set_offset_base(tagged_offset_base);
    tables_->regions.set_sge_limit(sge_limit);
  }

  Result<PdHandle> alloc_pd() override { return tables_->pds.add(); }
  Result<void> dealloc_pd(PdHandle pd) override { return tables_->pds.remove(pd); }

  Result<MemoryRegion> reg_mr(PdHandle pd, MutBytes memory, Access access) override {
    if (!tables_->pds.known(pd)) return no_pd("pd {a} is not a protection domain of this device", pd);
    auto region = tables_->regions.add(pd, memory, access);
    if (region) tables_->pds.use(pd);
    return region;
  }
  Result<void> dereg_mr(std::uint32_t lkey) override {
    auto pd = tables_->regions.remove(lkey);
    if (!pd) return tl::unexpected(pd.error());
    tables_->pds.release(*pd);
    return {};
  }

  Result<std::unique_ptr<CompletionChannel>> create_comp_channel() override { return make_channel(tables_); }
  Result<std::unique_ptr<CompletionQueue>> create_cq(const CqInit& init) override { return make_cq(tables_, init); }
  Result<std::unique_ptr<SharedReceiveQueue>> create_srq(const SrqInit& init) override {
    if (init.xrcd != nullptr) return no_xrc("SrqInit::xrcd is set, but iWARP has no XRC");
    if (init.cq != nullptr)
      return fail(Errc::invalid_argument, "SrqInit::cq goes with SrqInit::xrcd; receives complete where QpInit says");
    return make_srq(tables_, init);
  }
  Result<std::unique_ptr<XrcDomain>> open_xrcd(const XrcdInit&) override {
    return no_xrc("iWARP has no XRC: RDMAP names no shared receive queue (RFC 5040 §4)");
  }
  Result<std::unique_ptr<QueuePair>> open_qp(XrcDomain&, std::uint32_t) override {
    return no_xrc("iWARP has no XRC: each queue pair has one owner");
  }
  Result<std::unique_ptr<AddressHandle>> create_ah(PdHandle, const AhAttr&) override {
    return fail(Errc::unsupported, "iWARP has no address handles: every queue pair is connected (RFC 5040 §1)");
  }
  std::optional<AsyncEvent> poll_async_event() override {
    const SrqRing* srq = tables_->srq_events.take();
    if (srq == nullptr) return std::nullopt;
    return SrqLimitReached{srq->owner};
  }
  DeviceAttr query() const override;
  Result<std::unique_ptr<QueuePair>> create_qp(const QpInit& init) override { return create_stream_qp(init); }
  Result<std::unique_ptr<StreamQp>> create_stream_qp(const QpInit& init) override;
  Result<std::unique_ptr<StreamQp>> create_lone_qp(PdHandle pd, std::uint32_t depth) override;

  StreamQp* poll_dirty() override { return pop_dirty(*dirty_); }
  bool has_dirty() const override { return dirty_->first != nullptr; }
  bool has_events() const override { return tables_->has_events(); }

 private:
  std::unique_ptr<StreamQp> make(QpParts parts, PdHandle pd, std::uint32_t max_send_wr, std::uint32_t max_recv_wr);

  Ref<Tables> tables_;
  Ref<DirtyList> dirty_{new DirtyList};
};

DeviceAttr SoftDevice::query() const {
  return {.name = "parley",
          .transport = Transport::iwarp,
          .qp_types = {QpType::rc},
          .max_pd = pd_max,
          .max_mr = mr_max,
          .max_cqe = static_cast<std::uint32_t>(cq_capacity_max),
          .max_qp_wr = wr_max,
          .max_srq_wr = static_cast<std::uint32_t>(srq_capacity_max),
          .max_sge = static_cast<std::uint32_t>(sge_limit),
          .max_sge_rd = 1,  // RFC 5040 §4.4: a Read Request names one sink buffer
          .max_qp_rd_atom = mpa::depth_max,
          .max_qp_init_rd_atom = mpa::depth_max};
}

Result<std::unique_ptr<StreamQp>> SoftDevice::create_stream_qp(const QpInit& init) {
  if (auto type = check_type(init); !type) return tl::unexpected(type.error());
  if (!tables_->pds.known(init.pd)) return no_pd("QpInit::pd {a} is not a protection domain of this device", init.pd);
  if (init.max_send_wr > wr_max)
    return fail(Errc::invalid_argument, "QpInit::max_send_wr is {a}; at most {b}", init.max_send_wr, wr_max);
  if (init.max_recv_wr > wr_max)
    return fail(Errc::invalid_argument, "QpInit::max_recv_wr is {a}; at most {b}", init.max_recv_wr, wr_max);
  const auto send_cq = tables_->cqs.find(init.send_cq), recv_cq = tables_->cqs.find(init.recv_cq);
  if (send_cq == tables_->cqs.end())
    return fail(Errc::invalid_argument, "QpInit::send_cq is not a completion queue of this device");
  if (recv_cq == tables_->cqs.end())
    return fail(Errc::invalid_argument, "QpInit::recv_cq is not a completion queue of this device");
  QpParts parts;
  if (init.srq) {
    const auto srq = tables_->srqs.find(init.srq);
    if (srq == tables_->srqs.end())
      return fail(Errc::invalid_argument, "QpInit::srq is not a shared receive queue of this device");
    parts.srq = srq->second;
  }
  parts.send_cq = send_cq->second;
  parts.recv_cq = recv_cq->second;
  return make(std::move(parts), init.pd, init.max_send_wr, init.max_recv_wr);
}

Result<std::unique_ptr<StreamQp>> SoftDevice::create_lone_qp(PdHandle pd, std::uint32_t depth) {
  if (!tables_->pds.known(pd)) return no_pd("pd {a} is not a protection domain of this device", pd);
  if (depth > wr_max) return fail(Errc::invalid_argument, "the depth is {a}; at most {b}", depth, wr_max);
  QpParts parts;
  parts.send_cq = parts.recv_cq = Ref<CqRing>(new CqRing(std::size_t{2} * depth));
  return make(std::move(parts), pd, depth, depth);
}

std::unique_ptr<StreamQp> SoftDevice::make(QpParts parts, PdHandle pd, std::uint32_t max_send_wr,
                                           std::uint32_t max_recv_wr) {
  parts.tables = tables_;
  parts.dirty = dirty_;
  parts.pd = pd;
  parts.qp_num = dirty_->next_qp_num++;
  parts.max_send_wr = max_send_wr;
  parts.max_recv_wr = max_recv_wr;
  return std::make_unique<Qp>(std::move(parts));
}

}  // namespace

std::unique_ptr<IwarpDevice> make_device(std::uint64_t tagged_offset_base) {
  return std::make_unique<SoftDevice>(tagged_offset_base);
}

}  // namespace parley::nic::iwarp
