// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Memory windows (IBA §10.6.7): parts of regions, with keys and rights of their own.
#include "nic/common/objects.hpp"

namespace parley::nic {

Result<MemoryWindow> MrTable::add_window(PdHandle pd, MwType type) {
  if (type != MwType::type_1 && type != MwType::type_2)
    return fail(Errc::invalid_argument, "a memory window is of type 1 or 2, not {a}", static_cast<int>(type));
  if (auto room = check_room(); !room) return tl::unexpected(room.error());
  const Kind kind = type == MwType::type_1 ? Kind::window_1 : Kind::window_2;
  const std::uint32_t index = take_slot(kind);
  Slot& slot = slots_[index];
  const auto key = static_cast<std::uint8_t>(slot.key + 1), tenant = static_cast<std::uint8_t>(slot.tenant + 1);
  slot = Slot{.pd = pd, .kind = kind, .key = key, .tenant = tenant, .live = true};
  return MemoryWindow{.handle = index << 8 | tenant, .rkey = index << 8 | key, .pd = pd, .type = type};
}

const MrTable::Slot* MrTable::find_window(std::uint32_t handle) const {
  const std::uint32_t index = handle >> 8;
  if (index >= slots_.size()) return nullptr;
  const Slot& slot = slots_[index];
  return slot.live && slot.kind != Kind::region && slot.tenant == (handle & 0xFF) ? &slot : nullptr;
}

std::optional<MwType> MrTable::window_type(std::uint32_t handle) const {
  const Slot* window = find_window(handle);
  if (window == nullptr) return std::nullopt;
  return window->kind == Kind::window_1 ? MwType::type_1 : MwType::type_2;
}

Result<PdHandle> MrTable::remove_window(std::uint32_t handle) {
  if (find_window(handle) == nullptr)
    return fail(Errc::invalid_argument, "handle {a} names no memory window of this device", handle);
  Slot& window = slots_[handle >> 8];
  unbind(window);
  window.live = false;
  free_windows_.push_back(handle >> 8);
  return window.pd;
}

Result<void> MrTable::check_window(const Slot& window, const MwBind& bind, PdHandle pd) const {
  if (window.pd != pd)
    return fail(Errc::protection, "the memory window is of another protection domain than the queue pair");
  if (bind.rkey >> 8 != bind.window >> 8)
    return fail(Errc::invalid_argument, "MwBind::rkey {a} differs from the window's key in more than the low octet",
                bind.rkey);
  if (window.kind == Kind::window_1) {
    if (!bind.zero_based) return {};
    return fail(Errc::invalid_argument, "MwBind::zero_based goes with memory windows of type 2 only");
  }
  if (window.valid)
    return fail(Errc::wrong_state,
                "the memory window is bound; one of type 2 must be invalidated before the next bind");
  if (bind.length == 0)
    return fail(Errc::invalid_argument, "MwBind::length is 0, which unbinds windows of type 1 only");
  return {};
}

Result<void> MrTable::check_region(const MwBind& bind, PdHandle pd) const {
  const Slot* region = find(bind.lkey);
  if (region == nullptr || !region->valid || region->kind != Kind::region)
    return fail(Errc::invalid_argument, "MwBind::lkey {a} names no memory region", bind.lkey);
  if (region->pd != pd)
    return fail(Errc::protection, "the memory region is of another protection domain than the queue pair");
  if (!has(region->access, Access::mw_bind)) return fail(Errc::protection, "the memory region lacks Access::mw_bind");
  // A peer's octets never reach memory that this side may not write itself.
  if (has(bind.access, Access::remote_write | Access::remote_atomic) && !has(region->access, Access::local_write))
    return fail(Errc::protection, "remote_write and remote_atomic need a memory region with local_write");
  if (bind.addr < region->to || bind.length > region->memory.size() ||
      bind.addr - region->to > region->memory.size() - bind.length)
    return fail(Errc::invalid_argument, "MwBind::addr and length {a} lead out of the memory region",
                static_cast<std::int64_t>(bind.length));
  return {};
}

Result<void> MrTable::bind(const MwBind& bind, PdHandle pd, std::uint32_t qpn) {
  const Slot* found = find_window(bind.window);
  if (found == nullptr) return fail(Errc::invalid_argument, "MwBind::window {a} names no memory window", bind.window);
  if (auto fits = check_window(*found, bind, pd); !fits) return fits;
  if (bind.length > 0)
    if (auto fits = check_region(bind, pd); !fits) return fits;
  Slot& window = slots_[bind.window >> 8];
  if (window.kind == Kind::window_2) bound_to_qps_.emplace(qpn, bind.window >> 8);
  unbind(window);
  window.key = static_cast<std::uint8_t>(bind.rkey);
  if (bind.length == 0) return {};
  Slot& region = slots_[bind.lkey >> 8];
  ++region.windows;
  window.memory =
      region.memory.subspan(static_cast<std::size_t>(bind.addr - region.to), static_cast<std::size_t>(bind.length));
  window.to = bind.zero_based ? 0 : bind.addr;
  window.access = bind.access;  // check() refuses windows, so local rights have no effect
  window.region = bind.lkey >> 8;
  window.valid = true;
  if (window.kind == Kind::window_2) window.qpn = qpn;
  return {};
}

void MrTable::unbind(Slot& window) {
  if (window.region != 0) --slots_[window.region].windows;
  if (window.qpn != 0) bound_to_qps_.erase({window.qpn, static_cast<std::uint32_t>(&window - slots_.data())});
  window.memory = {};
  window.access = Access::none;
  window.region = window.qpn = 0;
  window.valid = false;
}

Result<void> MrTable::invalidate_window(std::uint32_t rkey, PdHandle pd, std::uint32_t qpn) {
  const Slot* found = find(rkey);
  if (found == nullptr || !found->valid || found->kind != Kind::window_2)
    return fail(Errc::invalid_argument, "invalidate_rkey {a} names no bound memory window of type 2", rkey);
  if (found->pd != pd || found->qpn != qpn)
    return fail(Errc::protection, "the memory window is bound to another queue pair");
  unbind(slots_[rkey >> 8]);
  return {};
}

void MrTable::unbind_all(std::uint32_t qpn) {
  for (auto at = bound_to_qps_.lower_bound({qpn, 0}); at != bound_to_qps_.end() && at->first == qpn;)
    unbind(slots_[(at++)->second]);
}

}  // namespace parley::nic
