// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "nic/common/objects.hpp"

#include <bit>
#include <limits>

namespace parley::nic {
namespace {

/// `others`: lists to which the slot may be returned, too.
template <class Slot, class... Lists>
std::uint32_t take_slot(std::vector<Slot>& slots, std::vector<std::uint32_t>& free, Lists&... others) {
  if (!free.empty()) {
    const std::uint32_t index = free.back();
    free.pop_back();
    return index;
  }
  slots.emplace_back();
  try {
    free.reserve(slots.capacity());  // so that removal needs no memory
    (others.reserve(slots.capacity()), ...);
  } catch (...) {
    slots.pop_back();
    throw;
  }
  return static_cast<std::uint32_t>(slots.size() - 1);
}

std::uint64_t address_of(MutBytes memory) { return std::bit_cast<std::uintptr_t>(memory.data()); }

}  // namespace

Result<PdHandle> PdTable::add() {
  if (free_.empty() && slots_.size() > pd_max)
    return fail(Errc::no_space, "a device has at most {a} protection domains", pd_max);
  const std::uint32_t index = take_slot(slots_, free_);
  Slot& slot = slots_[index];
  const auto key = static_cast<std::uint8_t>(slot.key + 1);
  slot = Slot{.users = 0, .key = key, .live = true};
  return index << 8 | key;
}

Result<void> PdTable::remove(PdHandle pd) {
  Slot* slot = find(pd);
  if (!slot) return fail(Errc::invalid_argument, "pd {a} is not a protection domain of this device", pd);
  if (slot->users > 0)
    return fail(Errc::wrong_state, "{a} objects still use the protection domain",
                static_cast<std::int64_t>(slot->users));
  slot->live = false;
  free_.push_back(pd >> 8);
  return {};
}

void PdTable::use(PdHandle pd) {
  if (Slot* slot = find(pd)) ++slot->users;
}

void PdTable::release(PdHandle pd) {
  if (Slot* slot = find(pd)) --slot->users;
}

const PdTable::Slot* PdTable::find(PdHandle pd) const {
  const std::uint32_t index = pd >> 8;
  if (index >= slots_.size()) return nullptr;
  const Slot& slot = slots_[index];
  return slot.live && slot.key == (pd & 0xFF) ? &slot : nullptr;
}

Result<void> MrTable::check_room() const {
  if (!free_.empty() || !free_windows_.empty() || slots_.size() <= mr_max) return {};
  return fail(Errc::no_space, "a device has at most {a} memory regions and windows", mr_max);
}

std::uint32_t MrTable::take_slot(Kind kind) {
  auto& own = kind == Kind::region ? free_ : free_windows_;
  auto& other = kind == Kind::region ? free_windows_ : free_;
  const bool full = slots_.size() > mr_max;
  return own.empty() && full ? nic::take_slot(slots_, other) : nic::take_slot(slots_, own, other);
}

Result<MemoryRegion> MrTable::add(PdHandle pd, MutBytes memory, Access access, std::optional<std::uint64_t> at) {
  if (memory.empty()) return fail(Errc::invalid_argument, "memory has 0 octets; must be at least 1");
  if (auto room = check_room(); !room) return tl::unexpected(room.error());
  std::uint64_t to = at.value_or(address_of(memory));
  if (at && memory.size() - 1 > ~std::uint64_t{0} - to)
    return fail(Errc::invalid_argument, "the addresses of the region run over the end of the 64-bit space");
  if (next_offset_ != 0 && !at) {
    to = next_offset_;
    // RFC 5041 §7.1: no tagged offset of a region wraps. After 2^64 octets of registrations the device accepts no more.
    if (memory.size() + 2 * offset_gap > ~std::uint64_t{0} - to)
      return fail(Errc::no_space, "the tagged offsets of this device are used up");
    next_offset_ = (to + memory.size() + 2 * offset_gap - 1) / offset_gap * offset_gap;
  }
  const std::uint32_t index = take_slot(Kind::region);
  Slot& slot = slots_[index];
  const auto key = static_cast<std::uint8_t>(slot.key + 1);
  slot = Slot{.memory = memory,
              .to = to,
              .pd = pd,
              .access = access,
              .key = key,
              .tenant = slot.tenant,
              .live = true,
              .valid = true};
  const std::uint32_t stag = index << 8 | key;
  return MemoryRegion{.lkey = stag, .rkey = stag, .addr = slot.to, .length = memory.size(), .pd = pd, .access = access};
}

Result<void> MrTable::check_unused(std::uint32_t stag) const {
  const Slot* found = find(stag);
  if (!found || found->kind != Kind::region)
    return fail(Errc::invalid_argument, "lkey {a} names no memory region of this device", stag);
  // IBA §10.6.7: bound windows keep the region.
  if (found->windows > 0)
    return fail(Errc::wrong_state, "{a} memory windows are bound to the memory region; unbind or deallocate them first",
                static_cast<std::int64_t>(found->windows));
  if (found->pins > 0)
    return fail(Errc::wrong_state, "{a} posted requests still use the memory region",
                static_cast<std::int64_t>(found->pins));
  return {};
}

Result<PdHandle> MrTable::remove(std::uint32_t stag) {
  if (auto unused = check_unused(stag); !unused) return tl::unexpected(unused.error());
  Slot& slot = slots_[stag >> 8];
  slot.live = false;
  free_.push_back(stag >> 8);
  return slot.pd;
}

Result<PdHandle> MrTable::change(std::uint32_t stag, const MrChange& change) {
  if (auto unused = check_unused(stag); !unused) return tl::unexpected(unused.error());
  if (change.memory && change.memory->empty())
    return fail(Errc::invalid_argument, "memory has 0 octets; must be at least 1");
  Slot& slot = slots_[stag >> 8];
  const PdHandle former = slot.pd;
  slot.pd = change.pd.value_or(former);
  slot.access = change.access.value_or(slot.access);
  if (change.memory) {
    slot.memory = *change.memory;
    slot.to = address_of(slot.memory);
  }
  return former;
}

bool MrTable::invalidate_by_peer(std::uint32_t stag, PdHandle pd, std::uint32_t qpn) {
  const Slot* found = find(stag);
  if (found && found->kind != Kind::region) return invalidate_window(stag, pd, qpn).has_value();
  constexpr Access remote = Access::remote_read | Access::remote_write | Access::remote_atomic;
  if (!found || !found->valid || found->pd != pd || !has(remote, found->access) || found->windows > 0) return false;
  slots_[stag >> 8].valid = false;
  return true;
}

Errc resolve(MrTable& regions, PdHandle pd, std::span<const Sge> sges, Access needed, WrMemory& out) {
  out.count = out.length = 0;
  if (sges.size() > regions.sge_limit()) return Errc::invalid_argument;
  std::uint64_t total = 0;
  for (const Sge& sge : sges) {
    if (sge.length == 0) continue;
    MrRange range;
    if (regions.check(sge.lkey, sge.addr, sge.length, pd, needed, range) != MrFault::none) return Errc::protection;
    out.pieces[out.count] = range.memory;
    out.slots[out.count++] = range.slot;
    total += sge.length;
  }
  // RFC 5041 §5.1: a message is shorter than 2^32 octets.
  if (total > std::numeric_limits<std::uint32_t>::max()) return Errc::invalid_argument;
  out.length = static_cast<std::uint32_t>(total);
  for (std::size_t i = 0; i < out.count; ++i) regions.pin(out.slots[i]);
  return Errc::ok;
}

// Repeats the checks, only for the error message: posting does not pay for it.
Error refusal(const MrTable& regions, PdHandle pd, std::span<const Sge> sges, Access needed, Errc fault) {
  if (sges.size() > regions.sge_limit())
    return {fault, "sges has {a} pieces; at most {b}", static_cast<std::int64_t>(sges.size()),
            static_cast<std::int64_t>(regions.sge_limit())};
  for (std::size_t i = 0; i < sges.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const Sge& sge = sges[i];
    MrRange range;
    if (sge.length == 0) continue;
    switch (regions.check(sge.lkey, sge.addr, sge.length, pd, needed, range)) {
      case MrFault::none: break;
      case MrFault::invalid_stag: return {fault, "sges[{a}]: lkey {b} names no memory region", at, sge.lkey};
      case MrFault::other_pd:
        return {fault, "sges[{a}]: lkey {b} is of another protection domain than the queue", at, sge.lkey};
      case MrFault::wrap:
      case MrFault::bounds:
        return {fault, "sges[{a}]: addr and length {b} lead out of the memory region", at, sge.length};
      case MrFault::access: return {fault, "sges[{a}]: its region lacks local_write", at};
    }
  }
  return {fault, "sges together have 2^32 octets or more (RFC 5041 §5.1)"};
}

namespace {

class Srq final : public SharedReceiveQueue {
 public:
  Srq(Ref<Tables> tables, const SrqInit& init, XrcParts xrc)
      : tables_(std::move(tables)), ring_(new SrqRing(init.capacity, init.pd, std::move(xrc))), pd_(init.pd) {
    ring_->owner = this;
    tables_->srqs.emplace(this, ring_);
    if (ring_->xrc.number != 0) tables_->xrc_srqs.emplace(ring_->xrc.number, ring_);
    tables_->pds.use(pd_);
  }
  ~Srq() override {
    for (; !ring_->posted.empty(); ring_->posted.pop()) unpin(tables_->regions, ring_->posted.front().memory);
    tables_->srq_events.forget(*ring_);
    ring_->owner = nullptr;
    if (ring_->xrc.number != 0) tables_->xrc_srqs.erase(ring_->xrc.number);
    tables_->srqs.erase(this);
    tables_->pds.release(pd_);
  }

  Result<void> post_recv(const RecvWr& wr) override {
    if (ring_->posted.full())
      return fail(Errc::no_space, "the shared receive queue holds {a}, and as many are posted",
                  static_cast<std::int64_t>(ring_->posted.max()));
    RecvWqe& wqe = ring_->posted.push();
    wqe.wr_id = wr.wr_id;
    const Errc fault = resolve(tables_->regions, pd_, wr.sges, Access::local_write, wqe.memory);
    if (fault == Errc::ok) return {};
    ring_->posted.unpush();
    return tl::unexpected(refusal(tables_->regions, pd_, wr.sges, Access::local_write, fault));
  }
  std::size_t available() const override { return ring_->posted.size(); }

  Result<void> modify(const SrqAttr& attr) override {
    if (attr.max_wr) return fail(Errc::unsupported, "SrqAttr::max_wr cannot be set: the queue keeps its capacity");
    if (!attr.srq_limit) return {};
    if (*attr.srq_limit > ring_->posted.max())
      return fail(Errc::invalid_argument, "SrqAttr::srq_limit is {a}; it is at most the capacity, {b}", *attr.srq_limit,
                  static_cast<std::int64_t>(ring_->posted.max()));
    ring_->limit = *attr.srq_limit;
    tables_->check_limit(*ring_);
    return {};
  }
  SrqAttr query() const override {
    return {.max_wr = static_cast<std::uint32_t>(ring_->posted.max()), .srq_limit = ring_->limit};
  }
  std::optional<std::uint32_t> srq_num() const override {
    return ring_->xrc.number != 0 ? std::optional(ring_->xrc.number) : std::nullopt;
  }

 private:
  Ref<Tables> tables_;
  Ref<SrqRing> ring_;
  PdHandle pd_;
};

}  // namespace

Result<void> check_capacity(std::size_t capacity, std::size_t max) {
  if (capacity > 0 && capacity <= max) return {};
  return fail(Errc::invalid_argument, "capacity is {a}; must be 1 to {b}", static_cast<std::int64_t>(capacity),
              static_cast<std::int64_t>(max));
}

Result<std::unique_ptr<SharedReceiveQueue>> make_srq(const Ref<Tables>& tables, const SrqInit& init, XrcParts xrc) {
  if (auto capacity = check_capacity(init.capacity, srq_capacity_max); !capacity)
    return tl::unexpected(capacity.error());
  if (!tables->pds.known(init.pd))
    return fail(Errc::invalid_argument, "pd {a} is not a protection domain of this device", init.pd);
  return std::make_unique<Srq>(tables, init, std::move(xrc));
}

}  // namespace parley::nic
