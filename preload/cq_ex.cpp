// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Extended completion queues: ibv_create_cq_ex(), and polling by ibv_start_poll(), ibv_next_poll() and ibv_end_poll().
#include <cerrno>

#include "drivers/clock.hpp"
#include "preload/objects.hpp"

namespace parley::preload {

namespace {

constexpr std::uint64_t known_fields = std::uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

/// Takes the next completion. ENOENT: there is none. EPERM: a forked child.
int poll_one(ibv_cq_ex* base) {
  Cq& cq = of(base);
  WorkCompletion next;
  const int taken = of(cq.context).engine->polling([&] { return static_cast<int>(cq.inner->poll({&next, 1})); });
  if (taken < 0) return EPERM;
  if (taken == 0) return ENOENT;
  cq.polled = to_ibv_wc(next);
  cq.polled_at = next.completed_at;
  cq.status = cq.polled.status;
  cq.wr_id = cq.polled.wr_id;
  return 0;
}

int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attr) {
  if (attr->comp_mask != 0) return EINVAL;
  of(cq).polls.lock();
  const int number = poll_one(cq);
  if (number != 0) of(cq).polls.unlock();  // after an error the program does not call ibv_end_poll()
  return number;
}
int next_poll(ibv_cq_ex* cq) { return poll_one(cq); }
void end_poll(ibv_cq_ex* cq) { of(cq).polls.unlock(); }

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) { return of(cq).polled.opcode; }
std::uint32_t read_vendor_err(ibv_cq_ex* cq) { return of(cq).polled.vendor_err; }
std::uint32_t read_byte_len(ibv_cq_ex* cq) { return of(cq).polled.byte_len; }
__be32 read_imm_data(ibv_cq_ex* cq) { return of(cq).polled.imm_data; }
std::uint32_t read_qp_num(ibv_cq_ex* cq) { return of(cq).polled.qp_num; }
std::uint32_t read_src_qp(ibv_cq_ex* cq) { return of(cq).polled.src_qp; }
unsigned int read_wc_flags(ibv_cq_ex* cq) { return of(cq).polled.wc_flags; }
std::uint32_t read_slid(ibv_cq_ex* cq) { return of(cq).polled.slid; }
std::uint8_t read_sl(ibv_cq_ex* cq) { return of(cq).polled.sl; }
std::uint8_t read_dlid_path_bits(ibv_cq_ex* cq) { return of(cq).polled.dlid_path_bits; }
std::uint64_t read_completion_ts(ibv_cq_ex* cq) {
  return static_cast<std::uint64_t>(of(cq).polled_at.time_since_epoch().count());
}
std::uint64_t read_completion_wallclock_ns(ibv_cq_ex* cq) {
  const Instant at = wall_clock_now() - (clock_now() - of(cq).polled_at);
  return static_cast<std::uint64_t>(at.time_since_epoch().count());
}

/// The reason to refuse `init`; null: none.
const char* wrong_with(const ibv_cq_init_attr_ex& init) {
  constexpr std::uint32_t flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  if ((init.wc_flags & ~known_fields) != 0) return "wc_flags has a bit that this device does not support";
  if ((init.comp_mask & ~std::uint32_t{IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD}) != 0)
    return "comp_mask has a bit that this device does not support";
  if ((init.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 && (init.flags & ~flags) != 0)
    return "flags has a bit that this device does not support";
  return nullptr;
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* init) {
  constexpr const char* call = "ibv_create_cq_ex";
  if (const char* const why = wrong_with(*init)) return none<ibv_cq_ex>(call, EOPNOTSUPP, why);
  Cq* const cq = make_cq(call, context, init->cqe, init->cq_context, init->channel, init->comp_vector);
  if (cq == nullptr) return nullptr;
  cq->start_poll = start_poll;
  cq->next_poll = next_poll;
  cq->end_poll = end_poll;
  cq->read_opcode = read_opcode;
  cq->read_vendor_err = read_vendor_err;
  cq->read_byte_len = read_byte_len;
  cq->read_imm_data = read_imm_data;
  cq->read_qp_num = read_qp_num;
  cq->read_src_qp = read_src_qp;
  cq->read_wc_flags = read_wc_flags;
  cq->read_slid = read_slid;
  cq->read_sl = read_sl;
  cq->read_dlid_path_bits = read_dlid_path_bits;
  cq->read_completion_ts = read_completion_ts;
  cq->read_completion_wallclock_ns = read_completion_wallclock_ns;
  return cq;
}

int query_rt_values(ibv_context*, ibv_values_ex* values) {
  if ((values->comp_mask & ~std::uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) != 0)
    return refused("ibv_query_rt_values_ex", EINVAL, "comp_mask has a bit that this device does not support");
  if (values->comp_mask != 0) values->raw_clock = timespec_of(clock_now().time_since_epoch());
  return 0;
}

}  // namespace

void set_extended_cq(verbs_context& to) {
  to.create_cq_ex = create_cq_ex;
  to.query_rt_values = query_rt_values;
}

}  // namespace parley::preload
