// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Each allocation of a connection's life fails once: in the connection manager and the queue pairs over a network in
// memory, and in the sockets' driver. What is thrown is bad_alloc and nothing else, everything that was made can still be
// destroyed, and nothing is left behind.
#include <gtest/gtest.h>

#include "nic/iwarp/device.hpp"
#include "parley/parley.h"
#include "parley/tcp_host.hpp"
#include "tests/alloc/failing_new.hpp"
#include "tests/unit/cm/test_net.hpp"

namespace parley {
namespace {

using namespace testing_net;
using testing_net::Host;

void nothing_is_left(std::uint64_t nth, bool, std::int64_t left) {
  EXPECT_EQ(left, 0) << "allocation " << nth << " failed, and as many others were never freed";
}

/// One message each way, and a Read, between two hosts.
struct Life {
  Life() : a(net.add_host(1)), b(net.add_host(2)), va(a.cm.device()), vb(b.cm.device()) {}
  ~Life() {
    for (cm::Id id : {ca, cb, listener}) id.destroy();
    (void)failing_new::disarm();
    for (Host* host : {&a, &b})
      for (auto* e : host->all<cm::ConnectRequest>()) e->id.destroy();
  }
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  /// Asserts nothing: after a failed allocation any outcome is allowed, but the run ends.
  void run(const mpa::Options& mpa) {
    const Address to = Address::v4(192, 0, 2, 2, 7471);
    if (auto id = b.cm.listen(Address::any(Address::Family::v4, 7471))) listener = *id;
    net.settle();
    b.on_request = [this](cm::ConnectRequest& request) {
      cb = request.id;
      if (auto qp = cb.create_qp(vb.qp())) (void)vb.recv(**qp, 0, 4096);
      (void)cb.accept();
    };
    const Bytes data(40, 7);
    if (auto id = a.cm.connect(to, {.transport = mpa, .private_data = data, .qp = va.qp(), .backups = {to}})) ca = *id;
    (void)net.run_until([&] { return a.last<cm::Established>() != nullptr && b.last<cm::Established>() != nullptr; });
    if (ca.qp() != nullptr && cb.qp() != nullptr) {
      (void)va.recv(*ca.qp(), 0, 4096);
      (void)va.send(*ca.qp(), 32768, 3000);
      (void)net.run_until([&] { return vb.saw(WcOpcode::recv); });
      (void)vb.send(*cb.qp(), 32768, 3000);
      const Sge sink = {.addr = va.mr.addr, .length = 64, .lkey = va.mr.lkey};
      (void)ca.qp()->post_send({.wr_id = 9,
                                .opcode = SendWr::Opcode::rdma_read,
                                .sges = {&sink, 1},
                                .remote_addr = vb.mr.addr,
                                .rkey = vb.mr.rkey});
      (void)net.run_until([&] { return va.saw(WcOpcode::recv) && va.saw(WcOpcode::rdma_read); });
    }
    (void)ca.disconnect();
    (void)net.run_until([&] { return a.last<cm::Disconnected>() != nullptr && b.last<cm::Disconnected>() != nullptr; });
  }

  Net net;
  Host& a;
  Host& b;
  Verbs va, vb;
  cm::Id listener, ca, cb;
};

TEST(FailingAllocator, ThroughAConnectionsLife) {
  for (const mpa::Options& mpa :
       {mpa::Options{.rtr = mpa::Rtr::read}, mpa::Options{.revision = 1, .rtr = mpa::Rtr::frame}}) {
    Life().run(mpa);  // what is made once and kept
    std::uint64_t thrown_up = 0;
    const std::uint64_t lived = failing_new::each([&] { Life().run(mpa); },
                                                  [&](std::uint64_t nth, bool thrown, std::int64_t left) {
                                                    thrown_up += thrown;
                                                    nothing_is_left(nth, thrown, left);
                                                  });
    EXPECT_GT(lived, 100U) << "there were allocations to fail";
    EXPECT_GT(thrown_up, lived / 2) << "a failure is told, not swallowed";
  }
}

TEST(FailingAllocator, AfterAFailureTheHostSetsUpTheNextConnection) {
  std::uint64_t tried = 0;
  for (std::uint64_t nth = 1; nth < 400; ++nth) {
    Life life;
    bool failed = false;
    failing_new::arm(nth);
    try {
      life.run({.rtr = mpa::Rtr::read});
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    (void)failing_new::disarm();
    if (!failed) continue;
    ++tried;
    failing_new::arm_for_good();  // destroy() is noexcept
    life.ca.destroy(), life.cb.destroy(), life.listener.destroy();
    (void)failing_new::disarm();
    life.a.events.clear(), life.b.events.clear();
    life.ca = life.cb = life.listener = {};
    life.run({.rtr = mpa::Rtr::read});
    const auto* end = life.a.last<cm::Disconnected>();
    EXPECT_TRUE(end != nullptr && end->graceful) << "after allocation " << nth << " had failed";
  }
  EXPECT_GT(tried, 10U);
}

/// Both ends Established, and whose stream is whose.
struct Established : Life {
  Established() {
    net.spy = [this](End& from, ConstBytes) { (from.host == &a ? end_of_a : end_of_b) = &from; };
    if (auto id = b.cm.listen(Address::any(Address::Family::v4, 7471))) listener = *id;
    net.settle();
    b.on_request = [this](cm::ConnectRequest& request) { (void)(cb = request.id).accept(); };
    if (auto id = a.cm.connect(Address::v4(192, 0, 2, 2, 7471), {.transport = mpa::Options{.rtr = mpa::Rtr::read}}))
      ca = *id;
    (void)net.run_until([&] { return a.last<cm::Established>() != nullptr && b.last<cm::Established>() != nullptr; });
  }
  End* end_of_a = nullptr;
  End* end_of_b = nullptr;
};

TEST(FailingAllocator, DestroyOfALiveConnectionNeedsNoMemoryAndResetsIt) {
  Established life;
  failing_new::arm_for_good();
  life.ca.destroy();
  EXPECT_FALSE(failing_new::disarm()) << "destroy() asked for memory";
  ASSERT_TRUE(life.net.run_until([&] { return life.b.last<cm::Disconnected>() != nullptr; }));
  EXPECT_FALSE(life.b.last<cm::Disconnected>()->graceful);
}

TEST(FailingAllocator, DestroyOfAListenerNeedsNoMemoryAndClosesItsPort) {
  Established life;
  failing_new::arm_for_good();
  life.listener.destroy();
  EXPECT_FALSE(failing_new::disarm()) << "destroy() asked for memory";
  life.net.settle();
  const End& late = life.net.raw_connect(Address::v4(192, 0, 2, 2, 7471));
  life.net.settle();
  EXPECT_TRUE(late.rst_in);
}

// The Terminate that is still owed has to be copied, for the queue pair goes with its id. Half an FPDU would be worse than
// none of it.
TEST(FailingAllocator, WithoutMemoryForItsTerminateADestroyedConnectionIsReset) {
  for (const bool memory : {true, false}) {
    Established life;
    ASSERT_NE(life.end_of_a, nullptr);
    life.net.options.window = 0;  // TCP takes nothing
    life.a.provider->handle_bytes(life.net.now, life.end_of_a->id, Bytes(64, 0xFF));
    ASSERT_TRUE(life.net.run_until([&] { return life.a.last<cm::Disconnected>() != nullptr; }));
    if (!memory) failing_new::arm_for_good();
    life.ca.destroy();
    EXPECT_EQ(failing_new::disarm(), !memory);
    life.net.options.window = 1 << 20;
    life.end_of_a->blocked = false;
    life.a.write(life.end_of_a->id);
    ASSERT_TRUE(life.net.run_until([&] { return life.b.last<cm::Disconnected>() != nullptr; }));
    const auto* end = life.b.last<cm::Disconnected>();
    EXPECT_EQ(end->terminate() != nullptr, memory) << end->why.to_string();
  }
}

TEST(FailingAllocator, ThroughADeviceAndItsObjects) {
  const auto life = [] {
    const auto device = nic::iwarp::make_device();
    const PdHandle pd = *device->alloc_pd();
    const auto channel = *device->create_comp_channel();
    const auto cq = *device->create_cq({.capacity = 4, .channel = channel.get()});
    const auto srq = *device->create_srq(pd, 4);
    const auto qp = device->create_qp({.pd = pd, .send_cq = cq.get(), .recv_cq = cq.get(), .srq = srq.get()});
    Bytes memory(8);
    (void)device->reg_mr(pd, memory, Access::local_write);
  };
  EXPECT_GT(failing_new::each(life, nothing_is_left), 8U);
}

TEST(FailingAllocator, ThroughSocketsAndBack) {
  const auto life = [] {
    auto host = TcpHost::open({.receive_buffer = 4096});
    if (!host) return;
    cm::Manager& cm = (*host)->cm();
    auto listener = cm.listen(Address::loopback(Address::Family::v4, 0));
    cm::Id near, far;
    bool over = false;
    for (int turn = 0; turn < 200 && !over; ++turn) {
      (*host)->run_once(std::chrono::milliseconds(1));
      while (auto event = cm.poll_event()) {
        if (auto* up = std::get_if<cm::Listening>(&*event)) {
          if (auto id = cm.connect(up->local, {.transport = mpa::Options{.rtr = mpa::Rtr::read}})) near = *id;
        } else if (auto* request = std::get_if<cm::ConnectRequest>(&*event)) {
          far = request->id;
          (void)far.accept();
        } else if (auto* established = std::get_if<cm::Established>(&*event)) {
          if (established->id == near) (void)near.disconnect();
        } else {
          over = true;
        }
      }
    }
    for (cm::Id id : {near, far}) id.destroy();
    if (listener) listener->destroy();
  };
  life();  // what the library and Asio make once and keep
  const std::uint64_t lived = failing_new::each(life, nothing_is_left);
  EXPECT_GT(lived, 50U);
}

/// A C program's life: both ends in one context, a message, a graceful end. It asks for no more once a call has failed.
int life_of_a_c_program() {
  parley_ctx* ctx = nullptr;
  int rc = parley_open(&ctx, nullptr);
  if (rc < 0) return rc;
  char memory[64] = {};
  parley_mr mr = PARLEY_MR_INIT;
  parley_cq cq = 0;
  parley_srq srq = 0;
  parley_id listener = 0, near = 0;
  if (rc = parley_reg_mr(ctx, memory, sizeof memory, PARLEY_ACCESS_LOCAL_WRITE, &mr); rc == 0)
    rc = parley_create_cq(ctx, 8, &cq);
  if (rc == 0) rc = parley_create_srq(ctx, 8, &srq);
  if (rc == 0) rc = parley_fd(ctx) < 0 ? -1 : parley_listen(ctx, "127.0.0.1:0", nullptr, &listener);
  const parley_sge sge{mr.addr, 8, mr.lkey};
  const parley_recv_wr recv{sizeof recv, 1, 1, &sge};
  parley_send_wr send = PARLEY_SEND_WR_INIT;
  send.opcode = PARLEY_SEND;
  send.sges = &sge;
  send.num_sge = 1;
  bool over = false;
  for (int turn = 0; turn < 200 && rc >= 0 && !over; ++turn) {
    rc = parley_wait(ctx, 1);
    parley_event event = PARLEY_EVENT_INIT;
    while (rc >= 0 && !over && (rc = parley_next_event(ctx, &event)) == 1) {
      parley_qp_init qp = PARLEY_QP_INIT;
      qp.srq = srq;
      qp.recv_cq = cq;
      parley_connect_opts opts = PARLEY_CONNECT_OPTS_INIT;
      opts.qp = &qp;
      if (event.type == PARLEY_EVENT_LISTENING) {
        rc = parley_connect(ctx, event.local, &opts, &near);
        if (rc == 0) rc = parley_post_srq_recv(ctx, srq, &recv);
      } else if (event.type == PARLEY_EVENT_CONNECT_REQUEST) {
        rc = parley_accept(ctx, event.id, nullptr);
      } else if (event.type == PARLEY_EVENT_ESTABLISHED && event.id != near) {
        rc = parley_post_send(ctx, event.id, &send);
        if (rc == 0) rc = parley_disconnect(ctx, event.id);
      } else if (event.type != PARLEY_EVENT_ESTABLISHED) {
        over = true;
      }
    }
  }
  const int closed = parley_close(ctx);
  return rc < 0 ? rc : closed;
}

TEST(FailingAllocator, ThroughACProgram) {
  EXPECT_EQ(life_of_a_c_program(), 0) << parley_last_error();
  // What a thread keeps to say about its last error.
  EXPECT_EQ(parley_connect(nullptr, nullptr, nullptr, nullptr), -PARLEY_E_BAD_HANDLE);
  (void)parley_last_error();
  int told = 0;
  const std::uint64_t lived = failing_new::each(
      [&] {
        const int rc = life_of_a_c_program();
        told += rc == -PARLEY_E_NO_MEMORY;
      },
      [](std::uint64_t nth, bool thrown, std::int64_t left) {
        EXPECT_FALSE(thrown) << "allocation " << nth << ": no exception leaves a C function";
        nothing_is_left(nth, thrown, left);
      });
  EXPECT_GT(lived, 50U);
  EXPECT_GT(told, 10) << "a failure is told, not swallowed";
}

}  // namespace
}  // namespace parley
