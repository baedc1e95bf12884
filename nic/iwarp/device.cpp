// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "nic/iwarp/device.hpp"

#include "nic/iwarp/qp.hpp"

namespace parley::nic::iwarp {
namespace {

auto no_pd(std::string_view sentence, PdHandle pd) { return fail(Errc::invalid_argument, sentence, pd); }

class SoftDevice final : public IwarpDevice {
 public:
  explicit SoftDevice(std::uint64_t tagged_offset_base) { tables_->regions.set_offset_base(tagged_offset_base); }

  Result<PdHandle> alloc_pd() override { return tables_->pds.add(); }
  Result<void> dealloc_pd(PdHandle pd) override { return tables_->pds.remove(pd); }

  Result<MemoryRegion> reg_mr(PdHandle pd, MutBytes memory, Access access) override {
    if (!tables_->pds.known(pd)) return no_pd("pd {a} is no protection domain of this device", pd);
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

  Result<std::unique_ptr<CompletionQueue>> create_cq(std::size_t capacity) override {
    return make_cq(tables_, capacity);
  }
  Result<std::unique_ptr<SharedReceiveQueue>> create_srq(PdHandle pd, std::size_t capacity) override {
    return make_srq(tables_, pd, capacity);
  }
  Result<std::unique_ptr<QueuePair>> create_qp(const QpInit& init) override { return create_stream_qp(init); }
  Result<std::unique_ptr<StreamQp>> create_stream_qp(const QpInit& init) override;
  Result<std::unique_ptr<StreamQp>> create_lone_qp(PdHandle pd, std::uint32_t depth) override;

  StreamQp* poll_dirty() override { return pop_dirty(*dirty_); }
  bool has_dirty() const override { return dirty_->first != nullptr; }

 private:
  std::unique_ptr<StreamQp> make(QpParts parts, PdHandle pd, std::uint32_t max_send_wr, std::uint32_t max_recv_wr);

  Ref<Tables> tables_{new Tables};
  Ref<DirtyList> dirty_{new DirtyList};
};

Result<std::unique_ptr<StreamQp>> SoftDevice::create_stream_qp(const QpInit& init) {
  if (!tables_->pds.known(init.pd)) return no_pd("QpInit::pd {a} is no protection domain of this device", init.pd);
  if (init.max_send_wr > wr_max)
    return fail(Errc::invalid_argument, "QpInit::max_send_wr is {a}; at most {b}", init.max_send_wr, wr_max);
  if (init.max_recv_wr > wr_max)
    return fail(Errc::invalid_argument, "QpInit::max_recv_wr is {a}; at most {b}", init.max_recv_wr, wr_max);
  const auto send_cq = tables_->cqs.find(init.send_cq), recv_cq = tables_->cqs.find(init.recv_cq);
  if (send_cq == tables_->cqs.end())
    return fail(Errc::invalid_argument, "QpInit::send_cq is no completion queue of this device");
  if (recv_cq == tables_->cqs.end())
    return fail(Errc::invalid_argument, "QpInit::recv_cq is no completion queue of this device");
  QpParts parts;
  if (init.srq) {
    const auto srq = tables_->srqs.find(init.srq);
    if (srq == tables_->srqs.end())
      return fail(Errc::invalid_argument, "QpInit::srq is no shared receive queue of this device");
    parts.srq = srq->second;
  }
  parts.send_cq = send_cq->second;
  parts.recv_cq = recv_cq->second;
  return make(std::move(parts), init.pd, init.max_send_wr, init.max_recv_wr);
}

Result<std::unique_ptr<StreamQp>> SoftDevice::create_lone_qp(PdHandle pd, std::uint32_t depth) {
  if (!tables_->pds.known(pd)) return no_pd("pd {a} is no protection domain of this device", pd);
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
