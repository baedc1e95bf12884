// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Shared by all software NICs, whatever their transport: tables of protection domains and memory regions, completion
// rings, receive queues. RFC 5040 §8.1 requires the checks that find() and check() make before memory is accessed.
//
// Handles contain a key octet that changes each time their slot is reused, so a stale handle is detected; none is 0,
// and none is below 0x100, so the STags 0 and 1 of ready-to-receive indications never name memory (RFC 6581 §9.2).
#pragma once
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "nic/common/completion.hpp"
#include "nic/common/mr_change.hpp"
#include "nic/common/ref.hpp"
#include "nic/common/ring.hpp"
#include "parley/verbs.hpp"

namespace parley::nic {

inline constexpr std::uint32_t pd_max = 1U << 20;  // more than the connections of one process
inline constexpr std::uint32_t mr_max = 1U << 22;  // of the 2^24 that an STag can name
inline constexpr std::size_t cq_capacity_max = 1U << 20;
inline constexpr std::size_t srq_capacity_max = 1U << 20;
inline constexpr std::uint32_t wr_max = 1U << 16;  // max_send_wr and max_recv_wr
// Gap between consecutive regions: an overrun of one does not hit the next.
inline constexpr std::uint64_t offset_gap = 1U << 16;

class PdTable {
 public:
  Result<PdHandle> add();
  /// Errors: invalid_argument (unknown), wrong_state (in use).
  Result<void> remove(PdHandle pd);
  bool known(PdHandle pd) const { return find(pd) != nullptr; }
  void use(PdHandle pd);
  void release(PdHandle pd);

 private:
  struct Slot {
    std::uint32_t users = 0;
    std::uint8_t key = 0;
    bool live = false;
  };
  const Slot* find(PdHandle pd) const;
  Slot* find(PdHandle pd) { return const_cast<Slot*>(std::as_const(*this).find(pd)); }

  std::vector<Slot> slots_{1};  // slot 0 is never used
  std::vector<std::uint32_t> free_;
};

/// Why an STag may not be used as requested, in the order of the checks. other_pd: also a window of another queue pair.
enum class MrFault : std::uint8_t { none, invalid_stag, other_pd, wrap, bounds, access };

/// A checked range of registered memory; `slot` is the region to pin.
struct MrRange {
  MutBytes memory;
  std::uint32_t slot = 0;
};

class MrTable {
 public:
  /// Not 0: regions get consecutive tagged offsets starting there, whatever their addresses.
  void set_offset_base(std::uint64_t base) { next_offset_ = base; }
  /// Most pieces of a request, at most sge_max: DeviceAttr::max_sge.
  void set_sge_limit(std::size_t limit) { sge_limit_ = limit; }
  std::size_t sge_limit() const { return sge_limit_; }
  /// `at`: the address of the first octet; none: the memory's own, or the next one from set_offset_base().
  Result<MemoryRegion> add(PdHandle pd, MutBytes memory, Access access, std::optional<std::uint64_t> at = {});
  /// Returns the PD of the removed region. Errors: invalid_argument (unknown), wrong_state (pinned, or windows are bound).
  Result<PdHandle> remove(std::uint32_t stag);
  /// The STag stays. Returns the former PD. Errors: those of remove(), and invalid_argument (no memory).
  Result<PdHandle> change(std::uint32_t stag, const MrChange& change);

  /// [to, to + length) of the region stag, for an owner of `pd` that needs these rights. length is not 0.
  MrFault check(std::uint32_t stag, std::uint64_t to, std::uint64_t length, PdHandle pd, Access needed,
                MrRange& out) const {
    const Slot* slot = find(stag);
    if (!slot || !slot->valid || slot->kind != Kind::region) return MrFault::invalid_stag;
    if (slot->pd != pd) return MrFault::other_pd;
    return check_range(*slot, stag, to, length, needed, out);
  }
  /// The same for the peer of queue pair `qpn`: of a region or of a memory window.
  MrFault check_remote(std::uint32_t rkey, std::uint64_t to, std::uint64_t length, PdHandle pd, std::uint32_t qpn,
                       Access needed, MrRange& out) const {
    const Slot* slot = find(rkey);
    if (!slot || !slot->valid) return MrFault::invalid_stag;
    if (slot->pd != pd || (slot->qpn != 0 && slot->qpn != qpn)) return MrFault::other_pd;
    return check_range(*slot, rkey, to, length, needed, out);
  }
  /// The peer of queue pair `qpn` invalidates what it was given: a region of this PD with some remote right and without bound
  /// windows (RFC 5040 §5.3), or a window of type 2 that the queue pair bound (IBA §9.4.1.1).
  bool invalidate_by_peer(std::uint32_t stag, PdHandle pd, std::uint32_t qpn = 0);

  // windows.cpp: memory windows (IBA §10.6.7). They share slots and keys with the regions.

  /// A window that is bound to nothing. Errors: invalid_argument, no_space.
  Result<MemoryWindow> add_window(PdHandle pd, MwType type);
  /// Unbinds and removes it. Returns its PD. Errors: invalid_argument (unknown).
  Result<PdHandle> remove_window(std::uint32_t handle);
  /// None: unknown.
  std::optional<MwType> window_type(std::uint32_t handle) const;
  /// Executes bind_mw for queue pair `qpn` of `pd`. An error changes nothing: invalid_argument, protection, wrong_state.
  Result<void> bind(const MwBind& bind, PdHandle pd, std::uint32_t qpn);
  /// Executes local_inv for queue pair `qpn` of `pd`. Errors: invalid_argument, protection.
  Result<void> invalidate_window(std::uint32_t rkey, PdHandle pd, std::uint32_t qpn);
  /// The queue pair is destroyed: unbinds its windows of type 2.
  void unbind_all(std::uint32_t qpn);
  bool has_windows(std::uint32_t stag) const {
    const Slot* slot = find(stag);
    return slot && slot->windows > 0;
  }

  /// Posted work or a peer's Read accesses a pinned region; its memory must stay.
  void pin(std::uint32_t slot) { ++slots_[slot].pins; }
  void unpin(std::uint32_t slot) { --slots_[slot].pins; }

 private:
  enum class Kind : std::uint8_t { region, window_1, window_2 };
  struct Slot {
    MutBytes memory;  // window: the part of the region that it is bound to
    std::uint64_t to = 0;
    PdHandle pd = 0;
    Access access = Access::none;
    std::uint32_t pins = 0;
    std::uint32_t windows = 0;  // region: windows that are bound to it
    std::uint32_t region = 0;   // window: the slot of its region; 0: not bound
    std::uint32_t qpn = 0;      // bound window of type 2: the queue pair that bound it
    Kind kind = Kind::region;
    std::uint8_t key = 0;
    std::uint8_t tenant = 0;  // window: the low octet of its handle, another for the slot's next window
    bool live = false;        // registered
    bool valid = false;       // not invalidated; window: bound
  };
  static MrFault check_range(const Slot& slot, std::uint32_t stag, std::uint64_t to, std::uint64_t length,
                             Access needed, MrRange& out) {
    // RFC 5041 §7.1: a TO that wraps is distinguished from one that is merely out of bounds.
    if (to > ~std::uint64_t{0} - (length - 1)) return MrFault::wrap;
    if (to < slot.to || length > slot.memory.size() || to - slot.to > slot.memory.size() - length)
      return MrFault::bounds;
    const auto bits = static_cast<std::uint32_t>(needed);
    if ((static_cast<std::uint32_t>(slot.access) & bits) != bits) return MrFault::access;
    out.memory = slot.memory.subspan(static_cast<std::size_t>(to - slot.to), static_cast<std::size_t>(length));
    out.slot = stag >> 8;
    return MrFault::none;
  }
  const Slot* find(std::uint32_t stag) const {
    const std::uint32_t index = stag >> 8;
    if (index >= slots_.size()) return nullptr;
    const Slot& slot = slots_[index];
    return slot.live && slot.key == (stag & 0xFF) ? &slot : nullptr;
  }
  /// Errors: as remove().
  Result<void> check_unused(std::uint32_t stag) const;
  Result<void> check_room() const;
  /// A free one of that kind, or a new one. Only when there are no new ones, a slot of windows gets a region.
  std::uint32_t take_slot(Kind kind);
  const Slot* find_window(std::uint32_t handle) const;
  Result<void> check_window(const Slot& window, const MwBind& bind, PdHandle pd) const;
  Result<void> check_region(const MwBind& bind, PdHandle pd) const;
  void unbind(Slot& window);

  std::size_t sge_limit_ = sge_max;
  std::uint64_t next_offset_ = 0;  // 0: tagged offsets are addresses
  std::vector<Slot> slots_{1};     // slot 0 is never used
  std::vector<std::uint32_t> free_;
  // The program chooses the keys of windows. A region in a window's slot could get the key of a window that was there.
  std::vector<std::uint32_t> free_windows_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> bound_to_qps_;  // QP numbers and slots of bound windows of type 2
};

/// Local memory of one work request, resolved and pinned at post time.
struct WrMemory {
  WrMemory() = default;
  /// Copies the pieces that there are: most requests have one.
  WrMemory(const WrMemory& other) { *this = other; }
  WrMemory& operator=(const WrMemory& other) {
    count = other.count;
    length = other.length;
    std::copy_n(other.slots.begin(), count, slots.begin());
    std::copy_n(other.pieces.begin(), count, pieces.begin());
    return *this;
  }

  std::uint32_t count = 0;
  std::uint32_t length = 0;  // sum of all pieces
  std::array<std::uint32_t, sge_max> slots;
  std::array<MutBytes, sge_max> pieces;

  std::span<const MutBytes> view() const { return {pieces.data(), count}; }
};
/// Resolves and pins; on an error nothing is pinned. Returns ok, invalid_argument (more than sge_limit(), 2^32 octets
/// or more), protection.
Errc resolve(MrTable& regions, PdHandle pd, std::span<const Sge> sges, Access needed, WrMemory& out);
/// The error of resolve, with a sentence about the piece at fault.
Error refusal(const MrTable& regions, PdHandle pd, std::span<const Sge> sges, Access needed, Errc fault);
inline void unpin(MrTable& regions, const WrMemory& memory) {
  for (std::size_t i = 0; i < memory.count; ++i) regions.unpin(memory.slots[i]);
}

inline bool uses(const WrMemory& memory, std::uint32_t slot) {
  const auto end = memory.slots.begin() + memory.count;
  return std::find(memory.slots.begin(), end, slot) != end;
}

struct RecvWqe {
  std::uint64_t wr_id = 0;
  WrMemory memory;
};
/// Removes the buffers of receives that use the region, from `from` on: no message fits into them any more.
inline void withdraw(MrTable& regions, GrowRing<RecvWqe>& posted, std::uint64_t from, std::uint32_t slot) {
  for (std::uint64_t at = from; at != posted.tail(); ++at) {
    if (!uses(posted[at].memory, slot)) continue;
    unpin(regions, posted[at].memory);
    posted[at].memory.count = posted[at].memory.length = 0;
  }
}

/// An XRC domain: shared receive queues and queue pairs must be in the same one.
struct XrcDomainRing : Counted {};

/// Additional parts of an XRC shared receive queue (IBA §A14): packets identify it by its number, and its receives
/// complete in its own queue.
struct XrcParts {
  Ref<XrcDomainRing> domain;
  Ref<CqRing> cq;
  std::uint32_t number = 0;  // 0: not XRC
};

struct SrqRing : Counted {
  SrqRing(std::size_t capacity, PdHandle of, XrcParts parts = {}) : posted(capacity), pd(of), xrc(std::move(parts)) {}
  GrowRing<RecvWqe> posted;
  std::uint32_t limit = 0;  // armed if not 0: report when there are fewer receives than this
  bool told = false;        // an event is pending
  SharedReceiveQueue* owner = nullptr;
  PdHandle pd = 0;
  XrcParts xrc;
};

/// All tables of one device; alive until the last object made from it is gone.
struct Tables : Counted {
  /// Removes the oldest receive, which the caller has copied.
  void pop_shared(SrqRing& srq) {
    srq.posted.pop();
    check_limit(srq);
  }
  /// Reports one event for each arming.
  void check_limit(SrqRing& srq) {
    if (srq.posted.size() >= srq.limit) return;
    srq.limit = 0;
    if (srq.owner != nullptr) srq_events.add(srq);
  }
  /// Events of completion channels or of the device are pending.
  bool has_events() const {
    return srq_events.size() > 0 ||
           std::any_of(channels.begin(), channels.end(), [](const auto& c) { return c.second->events.size() > 0; });
  }

  PdTable pds;
  MrTable regions;
  PendingEventList<SrqRing> srq_events;
  // Used to check whether a pointer is a live object of this device; their order is never observable.
  std::map<const CompletionChannel*, Ref<ChannelRing>> channels;
  std::map<const CompletionQueue*, Ref<CqRing>> cqs;
  std::map<const SharedReceiveQueue*, Ref<SrqRing>> srqs;
  std::map<std::uint32_t, Ref<SrqRing>> xrc_srqs;  // by number; those that the user still has
};

/// Errors: invalid_argument, unless `capacity` is 1 to `max`.
Result<void> check_capacity(std::size_t capacity, std::size_t max);
Result<std::unique_ptr<SharedReceiveQueue>> make_srq(const Ref<Tables>& tables, const SrqInit& init, XrcParts xrc = {});

}  // namespace parley::nic
