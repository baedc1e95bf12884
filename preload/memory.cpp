// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Protection domains, thread domains, and memory regions.
#include <cerrno>

#include "drivers/own_memory.hpp"
#include "nic/roce/device.hpp"
#include "preload/objects.hpp"

namespace parley::preload {

namespace {

constexpr unsigned int region_rights = rights | IBV_ACCESS_MW_BIND;

/// Sets errno and returns false if a region of this memory cannot have these rights.
bool may_have(const char* call, void* addr, std::size_t length, unsigned int access) {
  if ((access & ~(region_rights | harmless_rights)) != 0)
    return refused(call, EOPNOTSUPP,
                   "of access flags, local and remote rights and IBV_ACCESS_MW_BIND alone are known") == 0;
  constexpr unsigned int written = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  if ((access & written) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0)
    return refused(call, EINVAL, "remote rights to write need the local one") == 0;
  if (!is_there(addr, length, (access & written) != 0, Pages::populated))
    return refused(call, EFAULT, "the memory is not mapped, or may not be written") == 0;
  return true;
}

ibv_mr* reg(const char* call, ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova, unsigned int access) {
  if (!may_have(call, addr, length, access)) return nullptr;
  const MutBytes memory(static_cast<std::uint8_t*>(addr), length);
  const auto made = with(pd->context, [&](nic::roce::RoceDevice& device) {
    return device.reg_mr_iova(of(pd).number, memory, iova, static_cast<Access>(access & region_rights));
  });
  if (!made) return none<ibv_mr>(call, made.error());
  auto* const mr = new Mr{};
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = addr;
  mr->length = length;
  mr->lkey = made->lkey;
  mr->rkey = made->rkey;
  mr->access = access;
  return mr;
}

/// The old region stays valid after each error.
int rereg(Mr& mr, unsigned int flags, ibv_pd* pd, void* addr, std::size_t length, unsigned int access) {
  constexpr const char* call = "ibv_rereg_mr";
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool changes_access = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
  const bool changes_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
  constexpr unsigned int known = IBV_REREG_MR_FLAGS_SUPPORTED;
  if ((flags & ~known) != 0 || flags == 0 || (moves && (addr == nullptr || length == 0)) ||
      (changes_pd && pd == nullptr) || (access != 0 && !changes_access)) {
    (void)refused(call, EINVAL, "the flags do not fit the other arguments");
    return IBV_REREG_MR_ERR_INPUT;
  }
  void* const at = moves ? addr : mr.addr;
  const std::size_t size = moves ? length : mr.length;
  const unsigned int wanted = changes_access ? access : mr.access;
  if ((moves || changes_access) && !may_have(call, at, size, wanted)) return IBV_REREG_MR_ERR_INPUT;
  nic::MrChange change;
  if (moves) change.memory = MutBytes(static_cast<std::uint8_t*>(at), size);
  if (changes_access) change.access = static_cast<Access>(access & region_rights);
  if (changes_pd) change.pd = of(pd).number;
  const auto done = with(mr.context, [&](nic::roce::RoceDevice& device) { return device.rereg_mr(mr.lkey, change); });
  if (!done) {
    const bool busy = done.error().code() == Errc::wrong_state;
    (void)(busy ? refused(call, EBUSY, words_of(done.error()).c_str()) : refused(call, done.error()));
    return IBV_REREG_MR_ERR_INPUT;
  }
  mr.addr = at;
  mr.length = size;
  mr.access = wanted;
  if (changes_pd) mr.pd = pd;
  return 0;
}

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  const auto made = with(pd->context, [&](nic::roce::RoceDevice& device) {
    return device.alloc_mw(of(pd).number, static_cast<MwType>(type));
  });
  if (!made) return none<ibv_mw>("ibv_alloc_mw", made.error());
  return new ibv_mw{.context = pd->context, .pd = pd, .rkey = made->rkey, .handle = made->handle, .type = type};
}

int dealloc_mw(ibv_mw* mw) {
  const auto done = with(mw->context, [&](nic::roce::RoceDevice& device) { return device.dealloc_mw(mw->handle); });
  if (!done) return refused("ibv_dealloc_mw", done.error());
  delete mw;
  return 0;
}

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* init) {
  if (init->comp_mask != 0)
    return none<ibv_td>("ibv_alloc_td", EINVAL, "comp_mask has a bit that this device does not support");
  auto* const td = new Td{};
  td->context = context;
  return td;
}

int dealloc_td(ibv_td* td) {
  if (of(td).users > 0) return refused("ibv_dealloc_td", EBUSY, "parent domains have it");
  delete &of(td);
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* init) {
  constexpr const char* call = "ibv_alloc_parent_domain";
  if (init->pd == nullptr) return none<ibv_pd>(call, EINVAL, "the protection domain is missing");
  if (init->comp_mask != 0)
    return none<ibv_pd>(call, EOPNOTSUPP, "the program's allocators would have nothing to allocate");
  auto* const made = new Pd{};
  made->context = context;
  made->handle = init->pd->handle;
  made->number = of(init->pd).number;
  made->parent = init->pd;
  made->thread = init->td;
  ++of(init->pd).users;
  if (init->td != nullptr) ++of(init->td).users;
  return made;
}

int end_parent_domain(Pd& pd) {
  --of(pd.parent).users;
  if (pd.thread != nullptr) --of(pd.thread).users;
  delete &pd;
  return 0;
}

}  // namespace

void set_domains(verbs_context& to) {
  to.alloc_td = alloc_td;
  to.dealloc_td = dealloc_td;
  to.alloc_parent_domain = alloc_parent_domain;
  to.context.ops.alloc_mw = alloc_mw;
  to.context.ops.dealloc_mw = dealloc_mw;
}

}  // namespace parley::preload

using namespace parley::preload;  // NOLINT: the functions below are libibverbs' and have no namespace
using parley::Device;

PARLEY_VERB ibv_pd* ibv_alloc_pd(ibv_context* context) {
  const auto made = with(context, [](Device& device) { return device.alloc_pd(); });
  if (!made) return none<ibv_pd>("ibv_alloc_pd", made.error());
  auto* const pd = new Pd{};
  pd->context = context;
  pd->handle = pd->number = *made;
  return pd;
}

PARLEY_VERB int ibv_dealloc_pd(ibv_pd* pd) {
  if (of(pd).users > 0) return refused("ibv_dealloc_pd", EBUSY, "parent domains have it");
  if (of(pd).parent != nullptr) return end_parent_domain(of(pd));
  const auto done = with(pd->context, [&](Device& device) { return device.dealloc_pd(of(pd).number); });
  if (!done && done.error().code() == parley::Errc::wrong_state)
    return refused("ibv_dealloc_pd", EBUSY, "regions, memory windows, queues or address handles of it are left");
  if (!done) return outcome("ibv_dealloc_pd", done);
  delete &of(pd);
  return 0;
}

#undef ibv_reg_mr
PARLEY_VERB ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, std::size_t length, int access) {
  return reg("ibv_reg_mr", pd, addr, length, reinterpret_cast<std::uintptr_t>(addr), static_cast<unsigned int>(access));
}

#undef ibv_reg_mr_iova
PARLEY_VERB ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova, int access) {
  return reg("ibv_reg_mr_iova", pd, addr, length, iova, static_cast<unsigned int>(access));
}

PARLEY_VERB ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova,
                                     unsigned int access) {
  return reg("ibv_reg_mr", pd, addr, length, iova, access);
}

PARLEY_VERB ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int) {
  return none<ibv_mr>("ibv_reg_dmabuf_mr", EOPNOTSUPP, "memory of other devices is out of reach of software");
}

PARLEY_VERB int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, std::size_t length, int access) {
  return rereg(*static_cast<Mr*>(mr), static_cast<unsigned int>(flags), pd, addr, length,
               static_cast<unsigned int>(access));
}

PARLEY_VERB int ibv_dereg_mr(ibv_mr* mr) {
  // Programs free the memory next, whatever this returns. So the device must not access it any more, unless the program
  // keeps a memory window bound to it.
  const auto done = of(mr->context).engine->with([&](auto& nic) { return nic.withdraw_mr(mr->lkey); });
  if (!done && done.error().code() == parley::Errc::wrong_state) {
    // Also without PARLEY_VERBS_LOG: the device may still write to memory that the program frees.
    print_line("ibv_dereg_mr", words_of(done.error()));
    return errno = EBUSY;
  }
  if (!done) return outcome("ibv_dereg_mr", done);
  delete static_cast<Mr*>(mr);
  return 0;
}
