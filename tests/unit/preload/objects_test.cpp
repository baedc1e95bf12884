// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a program for libibverbs finds, makes and waits for, and what it is refused.
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

#include "tests/unit/hang_limit.hpp"
#include "tests/unit/preload/ends.hpp"

namespace parley::preload_test {
namespace {

bool readable(int fd) {
  pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&ready, 1, 0) == 1;
}

TEST_F(Verbs, InlineDataFitsWithoutAskingForIt) {
  ibv_qp_init_attr init = init_of(IBV_QPT_RC);
  init.cap.max_inline_data = 0;
  ibv_qp* const qp = ibv_create_qp(pd_, &init);
  ASSERT_NE(qp, nullptr);
  qps_.push_back(qp);
  EXPECT_EQ(init.cap.max_inline_data, 32U);  // 2 SGEs
}

TEST_F(Verbs, TheDeviceHasOnePortAndTheAddressAsItsGid) {
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(context_, &device), 0);
  EXPECT_EQ(device.phys_port_cnt, 1);
  EXPECT_EQ(device.max_sge, 32);
  EXPECT_EQ(device.vendor_id >> 16 & 3, 2U);  // locally administered
  EXPECT_EQ(device.node_guid, ibv_get_device_guid(context_->device));
  ibv_device_attr_ex more{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &more), 0);
  EXPECT_EQ(more.orig_attr.max_qp_wr, device.max_qp_wr);
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context_, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.gid_tbl_len, 1);
  EXPECT_EQ(port.active_mtu, IBV_MTU_4096);  // loopback
  EXPECT_EQ(ibv_query_port(context_, 2, &port), EINVAL);
  ibv_gid_entry entry{};
  ASSERT_EQ(ibv_query_gid_ex(context_, 1, 0, &entry, 0), 0);
  EXPECT_EQ(entry.gid_type, static_cast<std::uint32_t>(IBV_GID_TYPE_ROCE_V2));
  char shown[64];
  EXPECT_EQ("::ffff:" + own_address(), ::inet_ntop(AF_INET6, entry.gid.raw, shown, sizeof shown));
  ibv_gid_entry all[4];
  EXPECT_EQ(ibv_query_gid_table(context_, all, 4, 0), 1);
  EXPECT_EQ(ibv_query_gid_ex(context_, 1, 1, &entry, 0), EINVAL);
  ibv_gid none{};
  EXPECT_EQ(ibv_query_gid(context_, 1, 1, &none), -1);
  __be16 pkey = 0;
  EXPECT_EQ(ibv_query_pkey(context_, 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xFFFF);
  EXPECT_EQ(ibv_get_pkey_index(context_, 1, 0xFFFF), 0);
}

TEST_F(Verbs, TwoContextsShareTheDevice) {
  ibv_context* const second = ibv_open_device(context_->device);
  ASSERT_NE(second, nullptr);
  ibv_gid a{}, b{};
  ASSERT_EQ(ibv_query_gid(context_, 1, 0, &a), 0);
  ASSERT_EQ(ibv_query_gid(second, 1, 0, &b), 0);
  EXPECT_EQ(std::memcmp(&a, &b, sizeof a), 0);
  EXPECT_EQ(ibv_close_device(second), 0);
}

TEST_F(Verbs, AnEventComesForEachRequestToBeNotified) {
  const auto [a, b] = pair(IBV_QPT_RC);
  ibv_sge sge = piece(0, 4);
  EXPECT_FALSE(readable(channel_->fd));
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
    ASSERT_EQ(receive(b, 7, 1000, 100), 0);
    ASSERT_EQ(post(a, request(IBV_WR_SEND, sge)), 0);
    ibv_cq* which = nullptr;
    void* user = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel_, &which, &user), 0);  // waits
    EXPECT_EQ(which, cq_);
    EXPECT_EQ(user, this);
    ibv_ack_cq_events(which, 1);
    for (const ibv_wc& wc : completions(2)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_FALSE(readable(channel_->fd));
  }
  ::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  ibv_cq* which = nullptr;
  void* user = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel_, &which, &user), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(Verbs, AnEventComesOfAReceiveThatIsFlushedAtOnce) {
  ibv_qp* const qp = make(IBV_QPT_RC);
  to_rts(qp, 0x123456);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  ASSERT_EQ(receive(qp, 7, 1000, 100), 0);
  EXPECT_TRUE(readable(channel_->fd));  // and nothing else will happen
  EXPECT_EQ(completions(1)[0].status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(Verbs, SolicitedEventsAreThoseThatTheSenderAskedFor) {
  const auto [a, b] = pair(IBV_QPT_RC);
  ibv_sge sge = piece(0, 4);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 1), 0);
  ASSERT_EQ(receive(b, 7, 1000, 100), 0);
  ASSERT_EQ(receive(b, 8, 1000, 100), 0);
  ASSERT_EQ(post(a, request(IBV_WR_SEND, sge)), 0);
  (void)completions(2);
  EXPECT_FALSE(readable(channel_->fd));
  ibv_send_wr wr = request(IBV_WR_SEND, sge);
  wr.send_flags |= IBV_SEND_SOLICITED;
  ASSERT_EQ(post(a, wr), 0);
  (void)completions(2);
  EXPECT_TRUE(readable(channel_->fd));
}

TEST_F(Verbs, AQueueThatIsDestroyedTakesItsEventAlong) {
  ibv_cq* const other = ibv_create_cq(context_, 8, nullptr, channel_, 0);
  ASSERT_NE(other, nullptr);
  ibv_qp_init_attr init = init_of(IBV_QPT_RC);
  init.send_cq = other;
  ibv_qp *const a = make(init), *const b = make(IBV_QPT_RC);
  to_rts(a, b->qp_num);
  to_rts(b, a->qp_num);
  ibv_sge sge = piece(0, 4);
  ASSERT_EQ(ibv_req_notify_cq(other, 0), 0);
  ASSERT_EQ(receive(b, 7, 1000, 100), 0);
  ASSERT_EQ(post(a, request(IBV_WR_SEND, sge)), 0);
  pollfd ready{.fd = channel_->fd, .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&ready, 1, hang_milliseconds), 1);
  for (ibv_qp* qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  qps_.clear();
  EXPECT_EQ(ibv_destroy_cq(other), 0);
  EXPECT_FALSE(readable(channel_->fd));  // or a program that asks before it waits would wait for ever
}

// A thread that got an event may look at its queue until it says that it has done so.
TEST_F(Verbs, DestroyingWaitsForTheEventsToBeAcknowledged) {
  ibv_cq* const other = ibv_create_cq(context_, 8, nullptr, channel_, 0);
  ASSERT_NE(other, nullptr);
  ibv_qp_init_attr init = init_of(IBV_QPT_RC);
  init.send_cq = other;
  ibv_qp* const qp = make(init);
  to_rts(qp, 0x123456);
  ibv_sge sge = piece(0, 4);
  ASSERT_EQ(ibv_req_notify_cq(other, 0), 0);
  ASSERT_EQ(post(qp, request(IBV_WR_SEND, sge)), 0);
  ibv_cq* which = nullptr;
  void* user = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel_, &which, &user), 0);
  ASSERT_EQ(which, other);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  ASSERT_EQ(event.element.qp, qp);
  qps_.clear();
  std::atomic<int> destroyed{0};
  std::thread destroyer([&] {
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    ++destroyed;
    EXPECT_EQ(ibv_destroy_cq(other), 0);
    ++destroyed;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(destroyed, 0);
  ibv_ack_async_event(&event);
  const auto end = std::chrono::steady_clock::now() + hang_limit;
  while (destroyed < 1 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(destroyed, 1);
  ibv_ack_cq_events(which, 1);
  destroyer.join();
  EXPECT_EQ(destroyed, 2);
}

TEST_F(Verbs, ASignalThatHasCallsRestartedDoesNotEndTheWait) {
  struct sigaction act {};
  struct sigaction before {};
  act.sa_handler = [](int) {};
  act.sa_flags = SA_RESTART;
  ASSERT_EQ(::sigaction(SIGUSR1, &act, &before), 0);
  const auto [a, b] = pair(IBV_QPT_RC);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  ASSERT_EQ(receive(b, 7, 1000, 100), 0);
  const pthread_t waits = ::pthread_self();
  std::thread other([&, sender = a] {
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      ::pthread_kill(waits, SIGUSR1);
    }
    ibv_sge sge = piece(0, 4);
    EXPECT_EQ(post(sender, request(IBV_WR_SEND, sge)), 0);
  });
  ibv_cq* which = nullptr;
  void* user = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel_, &which, &user), 0);
  other.join();
  if (which != nullptr) ibv_ack_cq_events(which, 1);
  act.sa_flags = 0;  // and one that does not
  ASSERT_EQ(::sigaction(SIGUSR1, &act, nullptr), 0);
  std::atomic<bool> done{false};
  std::thread again([&] {
    while (!done) {
      ::pthread_kill(waits, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  EXPECT_EQ(ibv_get_cq_event(channel_, &which, &user), -1);
  EXPECT_EQ(errno, EINTR);
  done = true;
  again.join();
  ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
}

TEST_F(Verbs, ASharedReceiveQueueTellsItsLimit) {
  ibv_srq_init_attr of_srq{};
  of_srq.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
  ibv_srq* const srq = ibv_create_srq(pd_, &of_srq);
  ASSERT_NE(srq, nullptr);
  ibv_qp_init_attr init = init_of(IBV_QPT_RC);
  init.srq = srq;
  ibv_qp *const b = make(init), *const a = make(IBV_QPT_RC);
  to_rts(a, b->qp_num);
  to_rts(b, a->qp_num);
  ibv_sge sge = piece(1000, 100);
  for (std::uint64_t i = 0; i < 2; ++i) {
    ibv_recv_wr wr{.wr_id = i, .next = nullptr, .sg_list = &sge, .num_sge = 1}, *bad = nullptr;
    ASSERT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
  }
  ibv_srq_attr limit{.max_wr = 0, .max_sge = 0, .srq_limit = 2};
  ASSERT_EQ(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
  ASSERT_EQ(ibv_query_srq(srq, &limit), 0);
  EXPECT_EQ(limit.max_wr, 8U);
  EXPECT_EQ(limit.srq_limit, 2U);
  ibv_sge from = piece(0, 4);
  ASSERT_EQ(post(a, request(IBV_WR_SEND, from)), 0);
  for (const ibv_wc& wc : completions(2)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  ibv_async_event event{};
  do {
    ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
    ibv_ack_async_event(&event);
  } while (event.event_type == IBV_EVENT_COMM_EST);
  EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.element.srq, srq);
  EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
  for (ibv_qp* qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  qps_.clear();
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Verbs, AnEventOfWhatWasDestroyedDoesNotCome) {
  ibv_qp* const qp = make(IBV_QPT_RC);
  to_rts(qp, 0x123456);
  ibv_sge sge = piece(0, 4);
  ASSERT_EQ(post(qp, request(IBV_WR_SEND, sge)), 0);
  (void)completions(1);
  EXPECT_TRUE(readable(context_->async_fd));
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  qps_.clear();
  EXPECT_FALSE(readable(context_->async_fd));
}

TEST_F(Verbs, XrcReachesTheSharedReceiveQueueOfItsNumber) {
  ibv_xrcd_init_attr of_domain{};
  of_domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  of_domain.fd = -1;
  of_domain.oflags = O_CREAT;
  ibv_xrcd* const domain = ibv_open_xrcd(context_, &of_domain);
  ASSERT_NE(domain, nullptr);
  ibv_srq_init_attr_ex of_srq{};
  of_srq.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
  of_srq.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD;
  of_srq.srq_type = IBV_SRQT_XRC;
  of_srq.xrcd = domain;
  of_srq.cq = cq_;
  of_srq.pd = pd_;
  ibv_srq* const srq = ibv_create_srq_ex(context_, &of_srq);
  ASSERT_NE(srq, nullptr);
  std::uint32_t number = 0;
  ASSERT_EQ(ibv_get_srq_num(srq, &number), 0);
  ibv_qp_init_attr_ex of_target{};
  of_target.qp_type = IBV_QPT_XRC_RECV;
  of_target.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  of_target.xrcd = domain;
  of_target.pd = reinterpret_cast<ibv_pd*>(1);  // not in comp_mask: nobody looks at it
  ibv_qp* const target = ibv_create_qp_ex(context_, &of_target);
  ASSERT_NE(target, nullptr);
  ibv_qp* const source = make(IBV_QPT_XRC_SEND);
  to_rts(source, target->qp_num);
  to_rts(target, source->qp_num);
  ibv_sge sge = piece(1000, 100);
  ibv_recv_wr receive_it{.wr_id = 7, .next = nullptr, .sg_list = &sge, .num_sge = 1}, *bad = nullptr;
  ASSERT_EQ(ibv_post_srq_recv(srq, &receive_it, &bad), 0);
  set(0, "xrc");
  ibv_sge from = piece(0, 3);
  ibv_send_wr wr = request(IBV_WR_SEND, from);
  wr.qp_type.xrc.remote_srqn = number;
  ASSERT_EQ(post(source, wr), 0);
  for (const ibv_wc& wc : completions(2)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(text(1000, 3), "xrc");
  EXPECT_EQ(ibv_close_xrcd(domain), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(target), 0);
  EXPECT_EQ(ibv_close_xrcd(domain), EBUSY);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_close_xrcd(domain), 0);
}

// UCX asks for "any" flow label with all its bits.
TEST_F(Verbs, OfAFlowLabelThoseBitsCountThatTheHeaderHas) {
  ibv_ah_attr to = path();
  to.grh.flow_label = 0xFFFFFFFF;
  ibv_ah* const ah = ibv_create_ah(pd_, &to);
  EXPECT_NE(ah, nullptr);
  if (ah != nullptr) {
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
  }
  ibv_qp* const qp = make(IBV_QPT_RC);
  to_init(qp);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.ah_attr = to;
  EXPECT_EQ(ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
            0);
}

TEST_F(Verbs, AskingForTheStateMakesItTheStructures) {
  ibv_qp* const qp = make(IBV_QPT_RC);
  to_rts(qp, 0x123456);
  ibv_sge sge = piece(0, 4);
  ASSERT_EQ(post(qp, request(IBV_WR_SEND, sge)), 0);
  (void)completions(1);  // nobody answers
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(qp->state, IBV_QPS_ERR);
}

TEST_F(Verbs, NothingIsImportedFromOtherProcesses) {
  EXPECT_EQ(ibv_import_pd(context_, 1), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(ibv_import_mr(pd_, 1), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(ibv_import_dm(context_, 1), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

// Programs that close and open the device from several threads find its addresses free.
TEST(VerbsDevice, IsOpenedWhileAnotherThreadClosesIt) {
  ::setenv("PARLEY_VERBS_ADDRESS", own_address().c_str(), 1);
  ibv_device** const list = ibv_get_device_list(nullptr);
  std::atomic<int> refused{0};
  const auto often = [&] {
    for (int i = 0; i < 100; ++i) {
      ibv_context* const context = ibv_open_device(list[0]);
      if (context == nullptr)
        ++refused;
      else
        ibv_close_device(context);
    }
  };
  std::thread other(often);
  often();
  other.join();
  EXPECT_EQ(refused, 0);
  ibv_free_device_list(list);
}

TEST_F(Verbs, RefusesWhatIsInUse) {
  (void)make(IBV_QPT_RC);
  EXPECT_EQ(ibv_destroy_cq(cq_), EBUSY);
  EXPECT_EQ(ibv_destroy_comp_channel(channel_), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
}

TEST_F(Verbs, RefusesWhatItLacks) {
  ibv_qp* const qp = make(IBV_QPT_RC);
  to_init(qp);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.ah_attr.port_num = 1;  // no GRH: RoCE has no other address
  const int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, mask), EINVAL);
  EXPECT_EQ(ibv_modify_qp(qp, &attr, mask | IBV_QP_ALT_PATH), EOPNOTSUPP);
  EXPECT_EQ(qp->state, IBV_QPS_INIT);
  EXPECT_EQ(reg(memory_.data(), 100, IBV_ACCESS_ON_DEMAND), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(ibv_create_cq(context_, 0, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(ibv_create_cq(context_, 10, nullptr, nullptr, context_->num_comp_vectors), nullptr);
  ibv_sge sges[5] = {};
  ibv_recv_wr wr{.wr_id = 1, .next = nullptr, .sg_list = sges, .num_sge = 5}, *bad = nullptr;
  EXPECT_EQ(ibv_post_recv(qp, &wr, &bad), EINVAL);
  EXPECT_EQ(bad, &wr);
  sges[0] = {.addr = 0, .length = 10, .lkey = 0x777};
  wr.num_sge = 1;
  EXPECT_EQ(ibv_post_recv(qp, &wr, &bad), EINVAL);  // no such lkey
}

TEST_F(Verbs, RefusesMemoryThatIsNotThereOrMayNotBeWritten) {
  void* const page = ::mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  EXPECT_EQ(reg(page, 8192, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(reg(memory_.data(), 100, IBV_ACCESS_REMOTE_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_mr* const readable = reg(page, 8192, IBV_ACCESS_REMOTE_READ);
  ASSERT_NE(readable, nullptr);
  EXPECT_EQ(ibv_dereg_mr(readable), 0);
  ::munmap(static_cast<char*>(page) + 4096, 4096);
  EXPECT_EQ(reg(page, 8192, IBV_ACCESS_REMOTE_READ), nullptr);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(reg(page, ~std::size_t{0}, IBV_ACCESS_REMOTE_READ), nullptr);
  EXPECT_EQ(errno, EFAULT);
  ::munmap(page, 4096);
}

/// What a forked child returns, 0 to 255; -1: it was killed.
int in_child(const std::function<int()>& run) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(run());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(Verbs, AThreadIsCancelledAfterItsCall) {
  std::atomic<bool> returned{false};
  pthread_t thread{};
  using Given = std::pair<ibv_cq*, std::atomic<bool>*>;
  const auto run = +[](void* at) -> void* {
    const auto [cq, done] = *static_cast<Given*>(at);
    (void)::pthread_cancel(::pthread_self());
    ibv_wc wc{};
    if (ibv_poll_cq(cq, 1, &wc) == 0) *done = true;
    ::pthread_testcancel();
    return nullptr;
  };
  Given given{cq_, &returned};
  ASSERT_EQ(::pthread_create(&thread, nullptr, run, &given), 0);
  void* result = nullptr;
  ASSERT_EQ(::pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  EXPECT_TRUE(returned);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
}

TEST_F(Verbs, ACallThatSucceedsLeavesErrno) {
  const auto [a, b] = pair(IBV_QPT_RC);
  ASSERT_EQ(receive(b, 7, 1000, 100), 0);
  ibv_sge sge = piece(0, 5);
  errno = ENOTTY;
  ASSERT_EQ(post(a, request(IBV_WR_SEND, sge)), 0);
  EXPECT_EQ(errno, ENOTTY);
  const auto end = std::chrono::steady_clock::now() + hang_limit;
  for (int found = 0, more = 8; (found < 2 || more-- > 0) && std::chrono::steady_clock::now() < end;) {
    ibv_wc wc{};
    found += ibv_poll_cq(cq_, 1, &wc);
    ASSERT_EQ(errno, ENOTTY) << "after " << found << " completions";
  }
}

TEST_F(Verbs, AForkedChildIsRefusedEverythingAndTakesNothing) {
  ibv_qp* const qp = make(IBV_QPT_RC);
  to_init(qp);
  ibv_srq_init_attr srq_init{.srq_context = nullptr, .attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0}};
  ibv_srq* const srq = ibv_create_srq(pd_, &srq_init);
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(in_child([&] {
              ibv_device** const list = ibv_get_device_list(nullptr);
              if (ibv_open_device(list[0]) != nullptr || errno != EADDRINUSE) return 1;
              ibv_wc wc{};
              if (ibv_poll_cq(cq_, 1, &wc) != -1 || errno != EPERM) return 2;
              ibv_recv_wr receive{}, *bad = nullptr;
              if (ibv_post_recv(qp, &receive, &bad) != EPERM || bad != &receive) return 3;
              ibv_send_wr send{}, *bad_send = nullptr;
              if (ibv_post_send(qp, &send, &bad_send) != EPERM || bad_send != &send) return 4;
              if (ibv_alloc_pd(context_) != nullptr || errno != EPERM) return 5;
              if (ibv_create_cq(context_, 4, nullptr, nullptr, 0) != nullptr) return 6;
              if (ibv_reg_mr(pd_, memory_.data(), 64, 0) != nullptr) return 7;
              ibv_cq* cq = nullptr;
              void* user = nullptr;
              if (ibv_get_cq_event(channel_, &cq, &user) != -1 || errno != EPERM) return 8;
              ibv_qp_attr attr{};
              ibv_qp_init_attr init{};
              if (ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) != EPERM) return 9;
              ibv_srq_attr srq_attr{};
              if (ibv_query_srq(srq, &srq_attr) != EPERM) return 10;
              return ibv_close_device(context_);
            }),
            0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0) << "the parent goes on";
}

TEST(VerbsDevice, OpensInAForkedChildWhenItsParentHasClosedIt) {
  ::setenv("PARLEY_VERBS_ADDRESS", own_address().c_str(), 1);
  ibv_device** const list = ibv_get_device_list(nullptr);
  ibv_context* context = ibv_open_device(list[0]);
  ASSERT_NE(context, nullptr);
  int ends[2], begun[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::pipe(begun), 0);
  char one = 0;
  const pid_t lives = ::fork();  // holds copies of the sockets, if nothing closes them there
  if (lives == 0) {
    ::close(ends[1]);
    (void)!::write(begun[1], &one, 1);  // fork() has returned here: its handlers have run
    (void)!::read(ends[0], &one, 1);
    ::_exit(0);
  }
  ASSERT_EQ(::read(begun[0], &one, 1), 1);
  ASSERT_EQ(ibv_close_device(context), 0);
  EXPECT_EQ(in_child([&] { return ibv_open_device(list[0]) == nullptr ? 1 : 0; }), 0);
  context = ibv_open_device(list[0]);
  EXPECT_NE(context, nullptr) << std::strerror(errno);
  ::close(ends[1]);
  ::waitpid(lives, nullptr, 0);
  if (context != nullptr) {
    EXPECT_EQ(ibv_close_device(context), 0);
  }
  ::close(ends[0]);
  ibv_free_device_list(list);
}

TEST(VerbsDevice, IsShownWithAnInfiniBandPort) {
  const std::string own = "127." + std::to_string(160 + ::getpid() % 64) + ".1.7";
  ::setenv("PARLEY_VERBS_ADDRESS", own.c_str(), 1);
  ::setenv("PARLEY_VERBS_LINK_LAYER", "infiniband", 1);
  ibv_device** const list = ibv_get_device_list(nullptr);
  ibv_context* const context = ibv_open_device(list[0]);
  ASSERT_NE(context, nullptr);
  ibv_port_attr port{};
  EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
  EXPECT_EQ(port.lid, 0x0107);
  ibv_gid_entry entry{};
  EXPECT_EQ(ibv_query_gid_ex(context, 1, 0, &entry, 0), 0);
  EXPECT_EQ(entry.gid_type, static_cast<std::uint32_t>(IBV_GID_TYPE_IB));
  EXPECT_EQ(entry.ndev_ifindex, 0U);
  ibv_pd* const pd = ibv_alloc_pd(context);
  ibv_ah_attr by_lid{};
  by_lid.dlid = 0x0203;
  by_lid.port_num = 1;
  ibv_ah* const ah = ibv_create_ah(pd, &by_lid);
  ASSERT_NE(ah, nullptr);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
  by_lid.dlid = 0;
  EXPECT_EQ(ibv_create_ah(pd, &by_lid), nullptr);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(context), 0);
  for (const char* value : {"infiniband", "tokenring"}) {
    ::setenv("PARLEY_VERBS_ADDRESS", "::1", 1);
    ::setenv("PARLEY_VERBS_LINK_LAYER", value, 1);
    EXPECT_EQ(ibv_open_device(list[0]), nullptr) << value;
    EXPECT_EQ(errno, EADDRNOTAVAIL);
  }
  ::unsetenv("PARLEY_VERBS_LINK_LAYER");
  ibv_free_device_list(list);
}

TEST(VerbsDevice, SaysThatItsAddressIsNoneOfThisMachine) {
  ::setenv("PARLEY_VERBS_ADDRESS", "192.0.2.77", 1);
  ibv_device** const list = ibv_get_device_list(nullptr);
  EXPECT_EQ(ibv_open_device(list[0]), nullptr);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
  ::setenv("PARLEY_VERBS_ADDRESS", "no address", 1);
  EXPECT_EQ(ibv_open_device(list[0]), nullptr);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
  ibv_free_device_list(list);
}

}  // namespace
}  // namespace parley::preload_test
