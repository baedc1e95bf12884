// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whatever a C program passes in is refused in words, and never read through.
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "capi/error.hpp"
#include "parley/parley.h"

namespace parley {
namespace {

/// Every function that takes a context, with arguments that are good apart from it.
std::vector<std::pair<const char*, std::function<int(parley_ctx*)>>> calls() {
  static char memory[64];
  static parley_mr mr = PARLEY_MR_INIT;
  static parley_id id;
  static std::uint32_t number;
  static char address[PARLEY_ADDRSTRLEN];
  static parley_event event = PARLEY_EVENT_INIT;
  static parley_attr attr = PARLEY_ATTR_INIT;
  static parley_id_attr id_attr = PARLEY_ID_ATTR_INIT;
  static const parley_send_wr send = PARLEY_SEND_WR_INIT;
  static const parley_recv_wr recv = PARLEY_RECV_WR_INIT;
  static parley_wc wc;
  return {{"close", [](parley_ctx* c) { return parley_close(c); }},
          {"query", [](parley_ctx* c) { return parley_query(c, &attr); }},
          {"fd", [](parley_ctx* c) { return parley_fd(c); }},
          {"progress", [](parley_ctx* c) { return parley_progress(c); }},
          {"wait", [](parley_ctx* c) { return parley_wait(c, 0); }},
          {"wake", [](parley_ctx* c) { return parley_wake(c); }},
          {"host_address", [](parley_ctx* c) { return parley_host_address(c, 4, address); }},
          {"listen", [](parley_ctx* c) { return parley_listen(c, "127.0.0.1:0", nullptr, &id); }},
          {"connect", [](parley_ctx* c) { return parley_connect(c, "127.0.0.1:1", nullptr, &id); }},
          {"accept", [](parley_ctx* c) { return parley_accept(c, 1, nullptr); }},
          {"reject", [](parley_ctx* c) { return parley_reject(c, 1, nullptr, 0); }},
          {"disconnect", [](parley_ctx* c) { return parley_disconnect(c, 1); }},
          {"destroy", [](parley_ctx* c) { return parley_destroy(c, 1); }},
          {"create_qp", [](parley_ctx* c) { return parley_create_qp(c, 1, nullptr); }},
          {"query_id", [](parley_ctx* c) { return parley_query_id(c, 1, &id_attr); }},
          {"next_event", [](parley_ctx* c) { return parley_next_event(c, &event); }},
          {"reg_mr", [](parley_ctx* c) { return parley_reg_mr(c, memory, sizeof memory, 1, &mr); }},
          {"dereg_mr", [](parley_ctx* c) { return parley_dereg_mr(c, 1); }},
          {"create_cq", [](parley_ctx* c) { return parley_create_cq(c, 1, &number); }},
          {"destroy_cq", [](parley_ctx* c) { return parley_destroy_cq(c, 1); }},
          {"create_srq", [](parley_ctx* c) { return parley_create_srq(c, 1, &number); }},
          {"destroy_srq", [](parley_ctx* c) { return parley_destroy_srq(c, 1); }},
          {"post_send", [](parley_ctx* c) { return parley_post_send(c, 1, &send); }},
          {"post_recv", [](parley_ctx* c) { return parley_post_recv(c, 1, &recv); }},
          {"post_srq_recv", [](parley_ctx* c) { return parley_post_srq_recv(c, 1, &recv); }},
          {"poll_cq", [](parley_ctx* c) { return parley_poll_cq(c, 0, &wc, 1, sizeof wc); }}};
}

TEST(CHandles, ABadContextIsRefusedByEveryFunction) {
  parley_ctx *closed = nullptr, *other = nullptr;
  ASSERT_EQ(parley_open(&closed, nullptr), 0) << parley_last_error();
  ASSERT_EQ(parley_open(&other, nullptr), 0);
  ASSERT_EQ(parley_close(closed), 0);
  int local = 0;
  for (parley_ctx* bad : {static_cast<parley_ctx*>(nullptr), closed, reinterpret_cast<parley_ctx*>(&local),
                          reinterpret_cast<parley_ctx*>(~std::uintptr_t{0})}) {
    for (const auto& [name, call] : calls()) EXPECT_EQ(call(bad), -PARLEY_E_BAD_HANDLE) << name;
    EXPECT_EQ(parley_now_ns(bad), 0U);
  }
  EXPECT_STREQ(parley_last_error(),
               "there is no such context: it was never opened, or it is closed, or another process opened it");
  EXPECT_EQ(parley_close(other), 0);
}

TEST(CHandles, NullPointersAreRefusedByName) {
  parley_ctx* ctx = nullptr;
  ASSERT_EQ(parley_open(&ctx, nullptr), 0);
  const auto refused = [](int rc, const char* why) {
    EXPECT_EQ(rc, -PARLEY_E_INVALID_ARGUMENT) << why;
    EXPECT_NE(std::string(parley_last_error()).find(why), std::string::npos) << parley_last_error();
  };
  parley_id id = 0;
  refused(parley_open(nullptr, nullptr), "out is null");
  refused(parley_world_open(nullptr, nullptr), "out is null");
  refused(parley_query(ctx, nullptr), "out is null");
  refused(parley_listen(ctx, nullptr, nullptr, &id), "local is null");
  refused(parley_listen(ctx, "127.0.0.1:0", nullptr, nullptr), "out is null");
  refused(parley_connect(ctx, nullptr, nullptr, &id), "peer is null");
  refused(parley_connect(ctx, "127.0.0.1:1", nullptr, nullptr), "out is null");
  refused(parley_next_event(ctx, nullptr), "out is null");
  refused(parley_reg_mr(ctx, nullptr, 1, 0, nullptr), "out is null");
  refused(parley_create_cq(ctx, 1, nullptr), "out is null");
  refused(parley_create_srq(ctx, 1, nullptr), "out is null");
  refused(parley_poll_cq(ctx, 0, nullptr, 1, sizeof(parley_wc)), "out is null");
  refused(parley_poll_cq(ctx, 0, nullptr, -1, sizeof(parley_wc)), "n is -1");
  refused(parley_resolve(nullptr, 1, nullptr, 1), "host is null");
  refused(parley_resolve("localhost", 1, nullptr, 1), "out is null");
  refused(parley_wait(ctx, -2), "timeout_ms is -2");
  ASSERT_EQ(parley_connect(ctx, "127.0.0.1:1", nullptr, &id), 0);
  refused(parley_post_send(ctx, id, nullptr), "wr is null");
  refused(parley_post_recv(ctx, id, nullptr), "wr is null");
  parley_recv_wr wr = PARLEY_RECV_WR_INIT;
  wr.num_sge = 1;
  refused(parley_post_recv(ctx, id, &wr), "sges is null");
  char memory[8];
  parley_mr mr = PARLEY_MR_INIT;
  refused(parley_reg_mr(ctx, memory, sizeof memory, 16, &mr), "access is 16");
  refused(parley_reg_mr(ctx, memory, 0, 1, &mr), "memory is null, or its length is 0");
  EXPECT_EQ(parley_close(ctx), 0);
}

TEST(CHandles, AWorldStaysWhileContextsUseIt) {
  parley_world* world = nullptr;
  ASSERT_EQ(parley_world_open(&world, nullptr), 0);
  parley_opts opts = PARLEY_OPTS_INIT;
  opts.provider = "sim";
  opts.world = world;
  parley_ctx* ctx = nullptr;
  ASSERT_EQ(parley_open(&ctx, &opts), 0) << parley_last_error();
  EXPECT_EQ(parley_world_close(world), -PARLEY_E_WRONG_STATE);
  EXPECT_EQ(parley_wake(ctx), -PARLEY_E_UNSUPPORTED);
  EXPECT_EQ(parley_close(ctx), 0);
  EXPECT_EQ(parley_close(ctx), -PARLEY_E_BAD_HANDLE);
  EXPECT_EQ(parley_world_close(world), 0);
  EXPECT_EQ(parley_world_close(world), -PARLEY_E_BAD_HANDLE);
}

TEST(CHandles, WorldsHaveABound) {
  std::vector<parley_world*> worlds;
  parley_world* world = nullptr;
  while (parley_world_open(&world, nullptr) == 0) worlds.push_back(world);
  EXPECT_EQ(worlds.size(), 1024U);
  EXPECT_STREQ(parley_last_error(), "1024 worlds are open; close some");
  for (parley_world* each : worlds) EXPECT_EQ(parley_world_close(each), 0);
  ASSERT_EQ(parley_world_open(&world, nullptr), 0) << "after others were closed there is room again";
  EXPECT_EQ(parley_world_close(world), 0);
}

TEST(CHandles, OptionsOfAWorldAreChecked) {
  const auto refused = [](auto change, const char* why) {
    parley_world_opts opts = PARLEY_WORLD_OPTS_INIT;
    change(opts);
    parley_world* world = nullptr;
    EXPECT_EQ(parley_world_open(&world, &opts), -PARLEY_E_INVALID_ARGUMENT);
    EXPECT_STREQ(parley_last_error(), why);
    EXPECT_EQ(world, nullptr);
  };
  refused([](parley_world_opts& o) { o.loss_ppm = 1'000'001; }, "loss_ppm is 1000001; it is at most 1000000");
  refused([](parley_world_opts& o) { o.mtu = 575; }, "mtu is 575; must be 576 to 9000, or 0 for 1500");
  refused([](parley_world_opts& o) { o.mtu = 9001; }, "mtu is 9001; must be 576 to 9000, or 0 for 1500");
  refused([](parley_world_opts& o) { o.delay_ns = 1'000'000'000'001; },
          "delay_ns is 1000000000001; it is at most 1000000000000");
  refused([](parley_world_opts& o) { o.reserved = 1; }, "reserved is 1; must be 0");
}

TEST(COptions, WhatANewerProgramSetsIsRefusedAndItsZerosAreNot) {
  struct Newer {
    parley_connect_opts known = PARLEY_CONNECT_OPTS_INIT;
    std::uint64_t unknown = 0;
  } opts;
  opts.known.size = sizeof opts;
  parley_ctx* ctx = nullptr;
  ASSERT_EQ(parley_open(&ctx, nullptr), 0);
  parley_id id = 0;
  EXPECT_EQ(parley_connect(ctx, "127.0.0.1:1", &opts.known, &id), 0) << parley_last_error();
  opts.unknown = 1;
  EXPECT_EQ(parley_connect(ctx, "127.0.0.1:1", &opts.known, &id), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_NE(std::string(parley_last_error()).find("does not know"), std::string::npos);

  struct NewerAttr {
    parley_attr known = PARLEY_ATTR_INIT;
    std::uint64_t unknown = 7;
  } attr;
  attr.known.size = sizeof attr;
  EXPECT_EQ(parley_query(ctx, &attr.known), 0);
  EXPECT_EQ(attr.known.size, sizeof attr);
  EXPECT_EQ(attr.unknown, 0U) << "what the library does not know of is 0";
  EXPECT_STREQ(attr.known.provider, "iwarp");
  EXPECT_STREQ(attr.known.transport, "iWARP");
  EXPECT_EQ(attr.known.private_data_request, 508U);
  EXPECT_EQ(attr.known.private_data_reply, 508U);
  EXPECT_GT(attr.known.max_cqe, 0U);
  EXPECT_GT(attr.known.max_qp_wr, 0U);
  EXPECT_GT(attr.known.max_srq_wr, 0U);
  EXPECT_EQ(attr.known.max_sge, 4U);
  EXPECT_GT(attr.known.max_rd_atomic, 0U);
  EXPECT_EQ(parley_close(ctx), 0);
}

TEST(CErrors, ASentenceStaysUntilAnotherCallFails) {
  parley_world* world = nullptr;
  ASSERT_EQ(parley_world_open(nullptr, nullptr), -PARLEY_E_INVALID_ARGUMENT);
  const char* const first = parley_last_error();
  EXPECT_EQ(parley_last_error(), first) << "whoever asks again must not take it from whoever asked before";
  EXPECT_STREQ(first, "out is null");
  ASSERT_EQ(parley_world_open(&world, nullptr), 0);
  EXPECT_EQ(parley_last_error(), first) << "a call that does not fail leaves it";
  EXPECT_EQ(parley_world_close(world), 0);
  // Long enough to have memory of its own.
  ASSERT_EQ(parley_world_close(world), -PARLEY_E_BAD_HANDLE);
  const char* const longer = parley_last_error();
  EXPECT_STREQ(longer, "there is no such world: it was never opened, or it is closed, or another process opened it");
  EXPECT_EQ(parley_last_error(), longer);
  EXPECT_STREQ(parley_last_error(),
               "there is no such world: it was never opened, or it is closed, or another process opened it");
}

TEST(CErrors, EveryCodeHasWordsOfItsOwn) {
  std::set<std::string> seen;
  for (int code = 1; code <= PARLEY_E_CANCELLED; ++code) {
    EXPECT_STRNE(parley_strerror(code), "unknown error code") << code;
    EXPECT_STREQ(parley_strerror(-code), parley_strerror(code));
    EXPECT_TRUE(seen.insert(parley_strerror(code)).second) << parley_strerror(code);
  }
  EXPECT_STREQ(parley_strerror(-PARLEY_E_INTERNAL), "a fault inside Parley");
  EXPECT_STREQ(parley_strerror(0), "no error");
  EXPECT_STREQ(parley_strerror(-99), "unknown error code");
  EXPECT_STREQ(parley_strerror(INT32_MIN), "unknown error code");
}

TEST(CErrors, EveryErrorOfTheLibraryHasACode) {
#define PARLEY_X(name, text) EXPECT_NE(capi::code_of(Errc::name), PARLEY_E_INTERNAL) << #name;
  PARLEY_ERRC(PARLEY_X)
#undef PARLEY_X
  EXPECT_EQ(capi::code_of(Errc::bad_key), PARLEY_E_PROTOCOL);
  EXPECT_EQ(capi::code_of(Errc::refused), PARLEY_E_REFUSED);
  EXPECT_EQ(capi::code_of(std::make_error_code(std::errc::io_error)), PARLEY_E_IO);
}

TEST(CErrors, AnExceptionBecomesACode) {
  EXPECT_EQ(capi::guarded([]() -> int { throw std::bad_alloc(); }), -PARLEY_E_NO_MEMORY);
  EXPECT_EQ(capi::guarded([]() -> int { throw std::runtime_error("x"); }), -PARLEY_E_INTERNAL);
  EXPECT_STREQ(parley_last_error(), "an unexpected exception inside Parley; please report it");
}

TEST(CNames, AreGivenForEveryNumber) {
  EXPECT_STREQ(parley_event_name(PARLEY_EVENT_LISTENING), "listening");
  EXPECT_STREQ(parley_event_name(PARLEY_EVENT_TURNED_AWAY), "turned_away");
  EXPECT_STREQ(parley_event_name(0), "unknown");
  EXPECT_STREQ(parley_event_name(PARLEY_EVENT_ADDRESS_CHANGED), "address_changed");
  EXPECT_STREQ(parley_event_name(PARLEY_EVENT_DEVICE_REMOVED), "device_removed");
  EXPECT_STREQ(parley_event_name(PARLEY_EVENT_SRQ_LIMIT_REACHED), "srq_limit_reached");
  EXPECT_STREQ(parley_event_name(12), "unknown");
  EXPECT_STREQ(parley_wc_status_str(0), "success");
  EXPECT_STREQ(parley_wc_status_str(5), "work request flushed");
  EXPECT_STREQ(parley_wc_status_str(24), "unknown status");
  EXPECT_STREQ(parley_version(), "0.1.0");
}

}  // namespace
}  // namespace parley
