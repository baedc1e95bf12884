// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Protection domains, thread domains, and memory regions.
#include <cerrno>

#include "drivers/own_memory.hpp"
#include "nic/roce/device.hpp"
#include "preload/objects.hpp"

namespace parley::preload {

namespace {

/// Access flags that the software HCA accepts and ignores: there are no memory windows, and the system manages pages.
constexpr unsigned int harmless = IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE;

ibv_mr* reg(const char* call, ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova, unsigned int access) {
  if ((access & ~(rights | harmless)) != 0)
    return none<ibv_mr>(call, EOPNOTSUPP, "of access flags, local and remote rights alone are known");
  constexpr unsigned int written = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  if ((access & written) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0)
    return none<ibv_mr>(call, EINVAL, "remote rights to write need the local one");
  if (!is_there(addr, length, (access & written) != 0, Pages::populated))
    return none<ibv_mr>(call, EFAULT, "the memory is not there, or may not be written");
  const MutBytes memory(static_cast<std::uint8_t*>(addr), length);
  const auto made = with(pd->context, [&](nic::roce::RoceDevice& device) {
    return device.reg_mr_iova(of(pd).number, memory, iova, static_cast<Access>(access & rights));
  });
  if (!made) return none<ibv_mr>(call, made.error());
  auto* const mr = new Mr{};
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = addr;
  mr->length = length;
  mr->lkey = made->lkey;
  mr->rkey = made->rkey;
  return mr;
}

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* init) {
  if (init->comp_mask != 0) return none<ibv_td>("ibv_alloc_td", EINVAL, "comp_mask asks for what this device lacks");
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
    return refused("ibv_dealloc_pd", EBUSY, "regions, queues or address handles of it are left");
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

PARLEY_VERB int ibv_rereg_mr(ibv_mr*, int, ibv_pd*, void*, std::size_t, int) {
  (void)refused("ibv_rereg_mr", EOPNOTSUPP, "register the memory again");
  return IBV_REREG_MR_ERR_INPUT;
}

PARLEY_VERB int ibv_dereg_mr(ibv_mr* mr) {
  // Programs free the memory next, whatever this returns. So the device must not access it any more.
  const auto done = of(mr->context).engine->with([&](auto& nic) { return nic.withdraw_mr(mr->lkey); });
  if (!done) return outcome("ibv_dereg_mr", done);
  delete static_cast<Mr*>(mr);
  return 0;
}
