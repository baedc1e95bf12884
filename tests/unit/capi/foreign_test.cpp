// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What belongs to one context is refused by another, and memory that a process does not have is refused by all.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <set>
#include <string>
#include <vector>

#include "capi/handles.hpp"
#include "parley/parley.h"

namespace parley {
namespace {

/// A context in which each kind of object was made as in every other one.
struct Owner {
  Owner() {
    EXPECT_EQ(parley_open(&ctx, nullptr), 0) << parley_last_error();
    EXPECT_EQ(parley_listen(ctx, "127.0.0.1:0", nullptr, &listener), 0) << parley_last_error();
    EXPECT_EQ(parley_connect(ctx, "127.0.0.1:1", nullptr, &connection), 0) << parley_last_error();
    EXPECT_EQ(parley_create_cq(ctx, 4, &cq), 0) << parley_last_error();
    EXPECT_EQ(parley_create_srq(ctx, 4, &srq), 0) << parley_last_error();
    EXPECT_EQ(parley_reg_mr(ctx, memory, sizeof memory, PARLEY_ACCESS_LOCAL_WRITE, &mr), 0) << parley_last_error();
  }
  ~Owner() { EXPECT_EQ(parley_close(ctx), 0); }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  int post_recv(parley_id id, std::uint32_t lkey) const {
    const parley_sge sge{mr.addr, sizeof memory, lkey};
    parley_recv_wr wr = PARLEY_RECV_WR_INIT;
    wr.num_sge = 1;
    wr.sges = &sge;
    return parley_post_recv(ctx, id, &wr);
  }
  int post_srq_recv(parley_srq to, std::uint32_t lkey) const {
    const parley_sge sge{mr.addr, sizeof memory, lkey};
    parley_recv_wr wr = PARLEY_RECV_WR_INIT;
    wr.num_sge = 1;
    wr.sges = &sge;
    return parley_post_srq_recv(ctx, to, &wr);
  }
  static inline char memory[64];  // the same in all contexts
  parley_ctx* ctx = nullptr;
  parley_id listener = 0, connection = 0;
  parley_cq cq = 0;
  parley_srq srq = 0;
  parley_mr mr = PARLEY_MR_INIT;
};

std::string last() { return parley_last_error(); }

TEST(CForeign, AnIdOfAnotherContextIsRefusedAsSuch) {
  const Owner a, b, c;
  for (const parley_id id : {b.listener, b.connection, c.listener, c.connection}) {
    parley_id_attr attr = PARLEY_ID_ATTR_INIT;
    EXPECT_EQ(parley_query_id(a.ctx, id, &attr), -PARLEY_E_BAD_HANDLE);
    EXPECT_EQ(last(), "the listener or connection belongs to another context");
    EXPECT_EQ(parley_disconnect(a.ctx, id), -PARLEY_E_BAD_HANDLE);
    EXPECT_EQ(a.post_recv(id, a.mr.lkey), -PARLEY_E_BAD_HANDLE);
    EXPECT_EQ(parley_destroy(a.ctx, id), -PARLEY_E_BAD_HANDLE);
  }
  EXPECT_EQ(parley_destroy(a.ctx, a.listener), 0);
  EXPECT_EQ(parley_destroy(a.ctx, a.listener), -PARLEY_E_BAD_HANDLE);
  EXPECT_EQ(last(), "the context has no such listener or connection: the handle was never issued, or it was destroyed");
  EXPECT_EQ(parley_destroy(b.ctx, b.listener), 0);
}

TEST(CForeign, QueuesOfAnotherContextAreRefused) {
  const Owner a, b;
  parley_wc wc;
  EXPECT_EQ(parley_poll_cq(a.ctx, b.cq, &wc, 1, sizeof wc), -PARLEY_E_BAD_HANDLE);
  EXPECT_NE(last().find("another context's"), std::string::npos) << last();
  EXPECT_EQ(parley_destroy_cq(a.ctx, b.cq), -PARLEY_E_BAD_HANDLE);
  EXPECT_EQ(parley_destroy_srq(a.ctx, b.srq), -PARLEY_E_BAD_HANDLE);
  EXPECT_NE(last().find("another context's"), std::string::npos) << last();
  EXPECT_EQ(a.post_srq_recv(b.srq, a.mr.lkey), -PARLEY_E_BAD_HANDLE);
  for (const bool sends : {true, false}) {
    parley_qp_init qp = PARLEY_QP_INIT;
    (sends ? qp.send_cq : qp.recv_cq) = b.cq;
    parley_connect_opts opts = PARLEY_CONNECT_OPTS_INIT;
    opts.qp = &qp;
    parley_id id = 0;
    EXPECT_EQ(parley_connect(a.ctx, "127.0.0.1:1", &opts, &id), -PARLEY_E_BAD_HANDLE);
    qp = PARLEY_QP_INIT;
    qp.srq = b.srq;
    EXPECT_EQ(parley_connect(a.ctx, "127.0.0.1:1", &opts, &id), -PARLEY_E_BAD_HANDLE);
  }
  for (const Owner* each : {&a, &b}) {
    EXPECT_EQ(parley_poll_cq(each->ctx, each->cq, &wc, 1, sizeof wc), 0);
    EXPECT_EQ(parley_destroy_cq(each->ctx, each->cq), 0);
    EXPECT_EQ(parley_destroy_srq(each->ctx, each->srq), 0);
  }
}

TEST(CForeign, AnLkeyOfAnotherContextIsRefused) {
  const Owner a, b;
  ASSERT_NE(a.mr.lkey, b.mr.lkey) << "of the same memory";
  const std::string text = "sges[0]: lkey " + std::to_string(b.mr.lkey) + " names no memory region of this context";
  EXPECT_EQ(a.post_recv(a.connection, b.mr.lkey), -PARLEY_E_PROTECTION);
  EXPECT_EQ(last(), text);
  EXPECT_EQ(a.post_srq_recv(a.srq, b.mr.lkey), -PARLEY_E_PROTECTION);
  EXPECT_EQ(last(), text);
  EXPECT_EQ(parley_dereg_mr(a.ctx, b.mr.lkey), -PARLEY_E_INVALID_ARGUMENT);
  for (const Owner* each : {&a, &b}) {
    EXPECT_EQ(each->post_srq_recv(each->srq, each->mr.lkey), 0) << last();
    EXPECT_EQ(parley_destroy_srq(each->ctx, each->srq), 0);
    EXPECT_EQ(parley_dereg_mr(each->ctx, each->mr.lkey), 0) << last();
  }
}

TEST(CForeign, NumbersOfContextsDiffer) {
  // A number of a device: 24 bits of place, 8 of a key. Of a queue: 16 of how often its place was used, 16 of place.
  std::set<std::uint32_t> seen;
  for (std::size_t context = 0; context < 4096; ++context)
    for (const std::uint32_t number : {0x101U, 0x102U, 0x201U, 0xFFFFFU, 0x1'0000U, 0xF'FFFEU})
      EXPECT_TRUE(seen.insert(capi::Tag(context).of(number)).second) << context << ", " << number;
  for (std::size_t context = 0; context < 4096; ++context) {
    const capi::Tag tag(context);
    EXPECT_FALSE(tag.is_foreign(tag.of((std::uint64_t{0xF'FFFF} << 32) | 1)));
    EXPECT_EQ(tag.of(tag.of(77U)), 77U);
    EXPECT_EQ(capi::Tag((context + 1) % 4096).is_foreign(tag.of(std::uint64_t{1} << 32 | 1)), true);
  }
}

TEST(CForeign, NoQueueHasTheNumberThatMeansNone) {
  capi::Table<int> table;
  const std::uint32_t never = 3U << 16;
  for (int i = 0; i < 5; ++i) {
    const std::uint32_t number = table.add(i, never);
    EXPECT_NE(number, never);
    ASSERT_NE(table.find(number), nullptr);
    EXPECT_EQ(*table.find(number), i);
    table.remove(number);
  }
}

/// Pages that may be read and written, but for those that a test changes.
struct Mapping {
  explicit Mapping(std::size_t pages)
      : size(pages * page),
        at(static_cast<char*>(
            ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}
  ~Mapping() { ::munmap(at, size); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)), size;
  char* const at;
};

int registers(parley_ctx* ctx, void* at, std::size_t size, std::uint32_t access) {
  parley_mr mr = PARLEY_MR_INIT;
  const int rc = parley_reg_mr(ctx, at, size, access, &mr);
  return rc == 0 ? parley_dereg_mr(ctx, mr.lkey) : rc;
}

TEST(CMemory, WhatIsNotMappedOrNotAccessibleIsRefused) {
  parley_ctx* ctx = nullptr;
  ASSERT_EQ(parley_open(&ctx, nullptr), 0);
  for (const std::size_t pages : {3U, 1024U}) {  // as much as is populated, and as is looked up
    const Mapping m(pages);
    ASSERT_NE(m.at, MAP_FAILED);
    char* const middle = m.at + pages / 2 * m.page;
    EXPECT_EQ(registers(ctx, m.at + 1, m.size - 1, PARLEY_ACCESS_LOCAL_WRITE), 0) << parley_last_error();
    ASSERT_EQ(::mprotect(middle, m.page, PROT_READ), 0);
    EXPECT_EQ(registers(ctx, m.at, m.size, 0), 0) << "to read it is enough";
    EXPECT_EQ(registers(ctx, m.at, m.size, PARLEY_ACCESS_LOCAL_WRITE), -PARLEY_E_PROTECTION);
    EXPECT_EQ(last(), "memory: not all of it is mapped, readable and writable");
    ASSERT_EQ(::mprotect(middle, m.page, PROT_NONE), 0);
    EXPECT_EQ(registers(ctx, m.at, m.size, 0), -PARLEY_E_PROTECTION);
    EXPECT_EQ(parley_errno(registers(ctx, m.at, m.size, 0)), EFAULT);
    ASSERT_EQ(::munmap(middle, m.page), 0);
    EXPECT_EQ(registers(ctx, m.at, m.size, 0), -PARLEY_E_PROTECTION);
    EXPECT_EQ(registers(ctx, middle - 1, 2, 0), -PARLEY_E_PROTECTION);
    EXPECT_EQ(registers(ctx, middle - 1, 1, PARLEY_ACCESS_LOCAL_WRITE), 0) << parley_last_error();
  }
  EXPECT_EQ(parley_close(ctx), 0);
}

TEST(CMemory, ALargeRegionTakesNoMemory) {
  parley_ctx* ctx = nullptr;
  ASSERT_EQ(parley_open(&ctx, nullptr), 0);
  const Mapping m(std::size_t{1} << 20);  // 4 GiB
  ASSERT_NE(m.at, MAP_FAILED);
  EXPECT_EQ(registers(ctx, m.at, m.size, PARLEY_ACCESS_LOCAL_WRITE), 0) << parley_last_error();
  std::vector<unsigned char> resident(m.size / m.page);
  ASSERT_EQ(::mincore(m.at, m.size, resident.data()), 0);
  std::size_t pages = 0;
  for (const unsigned char each : resident) pages += each & 1U;
  EXPECT_EQ(pages, 0U);
  EXPECT_EQ(parley_close(ctx), 0);
}

}  // namespace
}  // namespace parley
