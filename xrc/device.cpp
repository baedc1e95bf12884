// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "xrc/device.hpp"

#include <array>
#include <utility>

#include "base/bytes_io.hpp"
#include "base/fnv1a.hpp"

namespace parley::xrc {
namespace {

/// FNV-1a over the added values.
class Digest {
 public:
  Digest& add(std::uint64_t value) {
    std::array<std::uint8_t, sizeof value> octets{};
    Writer(octets).be64(value);
    hash_ = fnv1a(octets, hash_);
    return *this;
  }
  template <class T>
  Digest& add(const std::optional<T>& value) {
    add(std::uint64_t{value.has_value()});
    return value ? add(static_cast<std::uint64_t>(*value)) : *this;
  }
  Digest& add(const AhAttr& way) {
    if (way.grh) {
      hash_ = fnv1a(way.grh->dgid, hash_);
      add(way.grh->flow_label).add(way.grh->sgid_index).add(way.grh->hop_limit).add(way.grh->traffic_class);
    }
    return add(way.dlid).add(way.sl).add(way.src_path_bits).add(way.static_rate).add(way.port_num);
  }
  std::uint64_t value() const { return hash_ == 0 ? 1 : hash_; }

 private:
  std::uint64_t hash_ = fnv1a_start;
};

}  // namespace

std::uint64_t digest_of(const QpAttr& attr) {
  Digest out;
  out.add(attr.state).add(attr.access).add(attr.pkey_index).add(attr.port_num).add(attr.path_mtu).add(attr.timeout);
  out.add(attr.rq_psn).add(attr.min_rnr_timer).add(attr.sq_psn).add(attr.max_dest_rd_atomic).add(attr.dest_qp_num);
  if (attr.ah) out.add(*attr.ah);
  return out.value();
}

Result<std::uint32_t> Device::create_tgt() {
  auto made = nic_.create_qp({.type = QpType::xrc_tgt, .xrcd = &domain_});
  if (!made) return tl::unexpected(made.error());
  const std::uint32_t qpn = (*made)->qp_num();
  handles_[qpn] = std::move(*made);
  return qpn;
}

Result<void> Device::open_tgt(std::uint32_t qpn) {
  if (handles_.contains(qpn)) return {};
  auto opened = nic_.open_qp(domain_, qpn);
  if (!opened) return tl::unexpected(opened.error());
  handles_[qpn] = std::move(*opened);
  return {};
}

QueuePair* Device::tgt(std::uint32_t qpn) const {
  const auto at = handles_.find(qpn);
  return at == handles_.end() ? nullptr : at->second.get();
}

Result<SharedReceiveQueue*> Device::create_srq(PdHandle pd, std::size_t capacity, CompletionQueue& cq) {
  auto made = nic_.create_srq({.pd = pd, .capacity = capacity, .xrcd = &domain_, .cq = &cq});
  if (!made) return tl::unexpected(made.error());
  SharedReceiveQueue* srq = made->get();
  srqs_[srq->srq_num().value_or(0)] = std::move(*made);
  return srq;
}

std::optional<TgtReport> Device::read(const AsyncEvent& event) const {
  const auto* told = std::get_if<QueuePairEvent>(&event);
  if (told == nullptr) return std::nullopt;
  const auto mine = handles_.find(told->qp->qp_num());
  if (mine == handles_.end() || mine->second.get() != told->qp) return std::nullopt;  // another process's handle
  switch (told->kind) {
    case QueuePairEvent::Kind::comm_est: return TgtReport{mine->first, EventKind::established};
    case QueuePairEvent::Kind::qp_fatal: return TgtReport{mine->first, EventKind::fatal};
    default: return TgtReport{mine->first, EventKind::none};
  }
}

void Device::close_all() {
  handles_.clear();
  srqs_.clear();
}

}  // namespace parley::xrc
