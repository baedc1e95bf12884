// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Memory, queues and work requests.
#include <array>

#include "capi/context.hpp"
#include "capi/options.hpp"
#include "drivers/own_memory.hpp"

using namespace parley;
using namespace parley::capi;

namespace {

using Pieces = std::array<Sge, sge_max>;

int read_pieces(const Context& c, const parley_sge* given, std::uint32_t n, Pieces& pieces, std::span<const Sge>& out) {
  if (n > sge_max) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "num_sge is {a}; it is at most {b}", n, sge_max);
  if (given == nullptr && n != 0) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "sges is null and num_sge {a}", n);
  for (std::uint32_t i = 0; i < n; ++i) pieces[i] = {given[i].addr, given[i].length, c.tag().of(given[i].lkey)};
  out = {pieces.data(), n};
  return 0;
}

bool known(std::uint32_t opcode) { return opcode <= PARLEY_ATOMIC_FETCH_AND_ADD || opcode == PARLEY_SEND_WITH_INV; }

int read_send(const Context& c, const parley_send_wr* from, SendWr& wr, Pieces& pieces) {
  parley_send_wr given = PARLEY_SEND_WR_INIT;
  if (const int rc = read_options(from, given); rc != 0) return rc;
  constexpr std::uint32_t flags = PARLEY_SEND_FENCE | PARLEY_SEND_UNSIGNALED | PARLEY_SEND_SOLICITED;
  if (!known(given.opcode))
    return capi::fail(PARLEY_E_INVALID_ARGUMENT, "opcode is {a}, which is none of enum parley_opcode", given.opcode);
  if ((given.flags & ~flags) != 0)
    return capi::fail(PARLEY_E_INVALID_ARGUMENT, "flags are {a}; they are made of PARLEY_SEND_...", given.flags);
  if (given.reserved != 0) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "reserved is {a}; must be 0", given.reserved);
  if (const int rc = read_pieces(c, given.sges, given.num_sge, pieces, wr.sges); rc != 0) return rc;
  wr.wr_id = given.wr_id;
  wr.opcode = static_cast<SendWr::Opcode>(given.opcode);
  wr.signaled = (given.flags & PARLEY_SEND_UNSIGNALED) == 0;
  wr.solicited = (given.flags & PARLEY_SEND_SOLICITED) != 0;
  wr.fence = (given.flags & PARLEY_SEND_FENCE) != 0;
  wr.remote_addr = given.remote_addr;
  wr.rkey = given.rkey;
  wr.imm_data = given.imm_data;
  wr.invalidate_rkey = given.invalidate_rkey;
  wr.compare_add = given.compare_add;
  wr.swap = given.swap;
  return 0;
}

int read_recv(const Context& c, const parley_recv_wr* from, RecvWr& wr, Pieces& pieces) {
  parley_recv_wr given = PARLEY_RECV_WR_INIT;
  if (const int rc = read_options(from, given); rc != 0) return rc;
  wr.wr_id = given.wr_id;
  return read_pieces(c, given.sges, given.num_sge, pieces, wr.sges);
}

/// The sentence names an lkey in the program's form.
template <class Wr>
int refused(const Context& c, const Error& why, const Wr& wr) {
  if (why == Errc::protection)
    for (std::uint32_t i = 0; i < wr.num_sge; ++i)
      if (wr.sges[i].length != 0 && !c.has_region(wr.sges[i].lkey))
        return capi::fail(PARLEY_E_PROTECTION, "sges[{a}]: lkey {b} names no memory region of this context", i,
                          wr.sges[i].lkey);
  return capi::fail(why);
}

/// Posts the elements of an array in order until one is refused. `one` posts one of them. `posted`, which is 0 before, may be null.
template <class Wr, class Post>
int post_each(Context& c, const Wr* wrs, int n, std::size_t wr_size, int* posted, Post&& one) {
  int count = 0, rc = 0;
  if (n < 0 || (wrs == nullptr && n != 0))
    return capi::fail(PARLEY_E_INVALID_ARGUMENT, "wrs is null, or n is {a} and below 0", n);
  if (rc = check_size<Wr>(wr_size); rc != 0) return rc;
  for (const auto* at = reinterpret_cast<const unsigned char*>(wrs); count < n; ++count, at += wr_size)
    if (rc = one(*reinterpret_cast<const Wr*>(at)); rc != 0) break;
  if (posted != nullptr) *posted = count;
  if (count != 0) c.backend().called();
  return rc;
}

/// The queue pair of a connection. Null: it has none; fail() was called.
QueuePair* qp_of(IdEntry& named) {
  QueuePair* qp = named.id.qp();
  if (qp == nullptr) capi::fail(PARLEY_E_WRONG_STATE, "there is no queue pair yet, or it is a listener");
  return qp;
}

int send_one(const Context& c, QueuePair& qp, const parley_send_wr& wr) {
  SendWr send;
  Pieces pieces;
  if (const int rc = read_send(c, &wr, send, pieces); rc != 0) return rc;
  const auto posted = qp.post_send(send);
  return posted ? 0 : refused(c, posted.error(), wr);
}

/// `Queue`: of a connection, or a shared one.
template <class Queue>
int recv_one(const Context& c, Queue& queue, const parley_recv_wr& wr) {
  RecvWr recv;
  Pieces pieces;
  if (const int rc = read_recv(c, &wr, recv, pieces); rc != 0) return rc;
  const auto posted = queue.post_recv(recv);
  return posted ? 0 : refused(c, posted.error(), wr);
}

/// The array of post_each(), to the queue pair of a connection.
template <class Wr, class Post>
int post_list(parley_ctx* ctx, parley_id id, const Wr* wrs, int n, std::size_t wr_size, int* posted, Post&& post_it) {
  if (posted != nullptr) *posted = 0;
  return with_id(ctx, id, [&](Context& c, IdEntry& named) {
    QueuePair* qp = qp_of(named);
    if (qp == nullptr) return last_code();
    return post_each(c, wrs, n, wr_size, posted, [&](const Wr& wr) { return post_it(c, *qp, wr); });
  });
}

/// Posts to the queue pair of a connection, if it has one.
template <class Wr, class Post>
int post(parley_ctx* ctx, parley_id id, const Wr* wr, Post&& post_it) {
  return with_id(ctx, id, [&](Context& c, IdEntry& named) {
    if (wr == nullptr) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "wr is null");
    QueuePair* qp = qp_of(named);
    if (qp == nullptr) return last_code();
    const int rc = post_it(c, *qp, *wr);
    if (rc == 0) c.backend().called();
    return rc;
  });
}

parley_wc to_c(const WorkCompletion& wc) {
  parley_wc out{};
  out.wr_id = wc.wr_id;
  out.status = static_cast<std::uint32_t>(wc.status);
  out.opcode = static_cast<std::uint32_t>(wc.opcode);
  out.flags = (wc.with_imm ? PARLEY_WC_WITH_IMM : 0U) | (wc.with_inv ? PARLEY_WC_WITH_INV : 0U) |
              (wc.solicited ? PARLEY_WC_SOLICITED : 0U);
  out.qp_num = wc.qp_num;
  out.byte_len = wc.byte_len;
  out.imm_data = wc.imm_data;
  out.invalidated_rkey = wc.invalidated_rkey;
  return out;
}

static_assert(static_cast<int>(SendWr::Opcode::send_with_inv) == PARLEY_SEND_WITH_INV);
static_assert(static_cast<int>(SendWr::Opcode::atomic_fetch_and_add) == PARLEY_ATOMIC_FETCH_AND_ADD);
static_assert(static_cast<int>(WcOpcode::fetch_add) == PARLEY_WC_FETCH_ADD);
static_assert(static_cast<int>(WcOpcode::recv) == PARLEY_WC_RECV);
static_assert(static_cast<int>(Access::remote_atomic) == PARLEY_ACCESS_REMOTE_ATOMIC);

}  // namespace

extern "C" int parley_reg_mr(parley_ctx* ctx, void* memory, size_t length, uint32_t access, struct parley_mr* out) {
  return with_context(ctx, [&](Context& c) {
    if (out == nullptr) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "out is null");
    if (memory == nullptr || length == 0)
      return capi::fail(PARLEY_E_INVALID_ARGUMENT, "memory is null, or its length is 0");
    if (length > UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(memory))
      return capi::fail(PARLEY_E_INVALID_ARGUMENT, "memory and length lead beyond the end of memory");
    if ((access & ~15U) != 0)
      return capi::fail(PARLEY_E_INVALID_ARGUMENT, "access is {a}; it is made of PARLEY_ACCESS_...", access);
    constexpr std::uint32_t written =
        PARLEY_ACCESS_LOCAL_WRITE | PARLEY_ACCESS_REMOTE_WRITE | PARLEY_ACCESS_REMOTE_ATOMIC;
    if (!is_there(memory, length, (access & written) != 0, Pages::checked))
      return capi::fail(PARLEY_E_PROTECTION, (access & written) != 0
                                                 ? "memory: not all of it is mapped, readable and writable"
                                                 : "memory: not all of it is mapped and readable");
    return c.reg_mr({static_cast<std::uint8_t*>(memory), length}, static_cast<Access>(access), *out);
  });
}

extern "C" int parley_dereg_mr(parley_ctx* ctx, uint32_t lkey) {
  return with_context(ctx, [&](Context& c) { return c.dereg_mr(lkey); });
}

extern "C" int parley_create_cq(parley_ctx* ctx, uint32_t capacity, parley_cq* out) {
  return with_context(ctx, [&](Context& c) {
    if (out == nullptr) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "out is null");
    return c.create_cq(capacity, *out);
  });
}

extern "C" int parley_destroy_cq(parley_ctx* ctx, parley_cq cq) {
  return with_context(ctx, [&](Context& c) { return c.destroy_cq(cq); });
}

extern "C" int parley_create_srq(parley_ctx* ctx, uint32_t capacity, parley_srq* out) {
  return with_context(ctx, [&](Context& c) {
    if (out == nullptr) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "out is null");
    return c.create_srq(capacity, *out);
  });
}

extern "C" int parley_destroy_srq(parley_ctx* ctx, parley_srq srq) {
  return with_context(ctx, [&](Context& c) { return c.destroy_srq(srq); });
}

extern "C" int parley_post_send(parley_ctx* ctx, parley_id id, const struct parley_send_wr* wr) {
  return post(ctx, id, wr, send_one);
}

extern "C" int parley_post_recv(parley_ctx* ctx, parley_id id, const struct parley_recv_wr* wr) {
  return post(ctx, id, wr, recv_one<QueuePair>);
}

extern "C" int parley_post_srq_recv(parley_ctx* ctx, parley_srq srq, const struct parley_recv_wr* wr) {
  return with_context(ctx, [&](Context& c) {
    SharedReceiveQueue* queue = c.srq(srq);
    if (queue == nullptr) return no_srq(srq);
    if (wr == nullptr) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "wr is null");
    const int rc = recv_one(c, *queue, *wr);
    if (rc == 0) c.backend().called();
    return rc;
  });
}

extern "C" int parley_post_send_list(parley_ctx* ctx, parley_id id, const struct parley_send_wr* wrs, int n,
                                     size_t wr_size, int* posted) {
  return post_list(ctx, id, wrs, n, wr_size, posted, send_one);
}

extern "C" int parley_post_recv_list(parley_ctx* ctx, parley_id id, const struct parley_recv_wr* wrs, int n,
                                     size_t wr_size, int* posted) {
  return post_list(ctx, id, wrs, n, wr_size, posted, recv_one<QueuePair>);
}

extern "C" int parley_post_srq_recv_list(parley_ctx* ctx, parley_srq srq, const struct parley_recv_wr* wrs, int n,
                                         size_t wr_size, int* posted) {
  if (posted != nullptr) *posted = 0;
  return with_context(ctx, [&](Context& c) {
    SharedReceiveQueue* queue = c.srq(srq);
    if (queue == nullptr) return no_srq(srq);
    return post_each(c, wrs, n, wr_size, posted, [&](const parley_recv_wr& wr) { return recv_one(c, *queue, wr); });
  });
}

extern "C" int parley_poll_cq(parley_ctx* ctx, parley_cq cq, struct parley_wc* out, int n, size_t wc_size) {
  return with_context(ctx, [&](Context& c) {
    CompletionQueue* queue = c.cq(cq);
    if (queue == nullptr) return no_cq(cq);
    if (n < 0 || (out == nullptr && n != 0))
      return capi::fail(PARLEY_E_INVALID_ARGUMENT, "out is null, or n is {a} and below 0", n);
    if (const int rc = check_size<parley_wc>(wc_size); rc != 0) return rc;
    std::span<WorkCompletion> taken = c.completions();
    auto* at = reinterpret_cast<unsigned char*>(out);
    int total = 0;
    while (total < n) {
      const std::size_t wanted = std::min(taken.size(), static_cast<std::size_t>(n - total));
      const std::size_t got = queue->poll(taken.first(wanted));
      for (const WorkCompletion& wc : taken.first(got)) {
        write_bounded(at, to_c(wc), wc_size);
        at += wc_size;
      }
      total += static_cast<int>(got);
      if (got < wanted) break;
    }
    return total;
  });
}

extern "C" const char* parley_wc_status_str(uint32_t status) {
  if (status > static_cast<std::uint32_t>(WcStatus::tm_rndv_incomplete)) return "unknown status";
  return to_string(static_cast<WcStatus>(status)).data();
}
