// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a public call refuses, it refuses with a sentence that names the argument, what it was and what it may be.
#include "parley/wire/mpa.h"
#include "tests/unit/cm/test_pair.hpp"

namespace parley::arguments_test {
namespace {

using namespace testing_net;
using testing_net::Host;

constexpr std::size_t private_max = PARLEY_MPA_PD_MAX, enhanced_max = PARLEY_MPA_ENH_PD_MAX;

template <class T>
void expect_refusal(const Result<T>& result, Errc code, std::string_view words) {
  ASSERT_FALSE(result) << "not refused: " << words;
  EXPECT_EQ(result.error(), code) << result.error().message();
  EXPECT_NE(result.error().sentence().find(words), std::string::npos) << result.error().message();
  EXPECT_EQ(result.error().message(), make_error_code(code).message() + ": " + result.error().sentence());
}

TEST(Error, IsItsCodeWithASentence) {
  const Error plain(Errc::timed_out);
  EXPECT_EQ(plain.message(), "the deadline passed");
  EXPECT_EQ(plain.sentence(), "");
  const Error full(Errc::invalid_argument, "x is {a}; {b} to {a}{", -3, 7);
  EXPECT_EQ(full.sentence(), "x is -3; 7 to -3{");
  EXPECT_EQ(full, Errc::invalid_argument);
  EXPECT_EQ(full, make_error_code(Errc::invalid_argument));
  EXPECT_NE(full, plain);
  const std::error_code code = full;
  EXPECT_EQ(code, make_error_code(Errc::invalid_argument));
  EXPECT_TRUE(static_cast<bool>(full));
  EXPECT_FALSE(static_cast<bool>(Error(std::error_code())));
}

struct BadOption {
  const char* words;
  mpa::Options mpa;
  bool initiator = true, responder = true;
  std::uint16_t ird = 32, ord = 32;
};

TEST(CmArguments, MpaOptionsAreNamed) {
  const std::vector<BadOption> all{
      {"revision is 3; must be 1 or 2", {.revision = 3}},
      {"revision is 0; must be 1 or 2", {.revision = 0}},
      {"ird is 20000; must be 0 to 16382", {}, true, true, 20000},
      {"ord is 65535; must be 0 to 16382", {}, true, true, 32, 65535},
      {"ird_max is 16383; at most 16382", {.ird_max = 16383}},
      {"private_data_max is 513; at most 512", {.private_data_max = 513}},
      {"peer_quirk is the name of no quirk", {.peer_quirk = "sivv"}},
      {"play_quirk is the name of no quirk", {.play_quirk = "sivv"}},
      {"timeouts.request is -1 ns; must be at least 0", {.timeouts = {.request = -1ns}}},
      {"timeouts.reply is -1 ns", {.timeouts = {.reply = -1ns}}},
      {"timeouts.rtr is -1 ns", {.timeouts = {.rtr = -1ns}}},
      {"timeouts.first_fpdu is -1 ns", {.timeouts = {.first_fpdu = -1ns}}},
      {"rtr is frame and revision is 2", {.revision = 2, .rtr = mpa::Rtr::frame}, true, false},
      {"rtr_fallback must not be frame", {.rtr_fallback = mpa::Rtr::frame}, true, false},
      {"rtr_accept is empty", {.rtr_accept = {}}, false, true},
      {"rtr_accept is read alone, and ird and ird_max are 0",
       {.rtr_accept = {.read = true}, .ird_max = 0},
       false,
       true,
       0},
      {"rtr_expected is frame", {.rtr_expected = mpa::Rtr::frame}, false, true},
  };
  Net net;
  Host& a = net.add_host(1);
  for (const BadOption& bad : all) {
    if (bad.initiator)
      expect_refusal(
          a.cm.connect(Address::v4(192, 0, 2, 2, 7471), {.transport = bad.mpa, .ird = bad.ird, .ord = bad.ord}),
          Errc::invalid_argument, bad.words);
    if (bad.responder)
      expect_refusal(
          a.cm.listen(Address::any(Address::Family::v4, 7471), {.transport = bad.mpa, .ird = bad.ird, .ord = bad.ord}),
          Errc::invalid_argument, bad.words);
  }
  EXPECT_EQ(a.provider->endpoint_count(), 0U);
}

TEST(CmArguments, OfListenAreNamed) {
  Net net;
  Host& a = net.add_host(1, {}, {.endpoints_max = 1});
  const Address any = Address::any(Address::Family::v4, 7471);
  expect_refusal(a.cm.listen(any, {.backlog = 0}), Errc::invalid_argument,
                 "ListenOptions::backlog is 0; must be at least 1");
  expect_refusal(a.cm.listen(any, {.backlog = -5}), Errc::invalid_argument, "ListenOptions::backlog is -5");
  expect_refusal(a.cm.listen(any, {.pending_max = 0}), Errc::invalid_argument, "ListenOptions::pending_max is 0");
  ASSERT_TRUE(a.cm.listen(any));
  expect_refusal(a.cm.listen(any), Errc::no_space, "1 ids are alive, which is endpoints_max");
}

TEST(CmArguments, OfTheManagerAreNamed) {
  EXPECT_TRUE(check_options(cm::ManagerOptions{.pending_max = 1}));
  const auto refused = check_options(cm::ManagerOptions{.pending_max = 0});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().sentence(), "ManagerOptions::pending_max is 0; must be at least 1");
}

TEST(CmArguments, OfTheManagerHaveTheirRanges) {
  const auto words = [](const cm::ManagerOptions& options) {
    const auto checked = check_options(options);
    if (checked) return std::string("accepted");
    EXPECT_EQ(checked.error(), Errc::invalid_argument);
    return checked.error().sentence();
  };
  const std::uint32_t limit = cm::endpoints_limit;
  EXPECT_EQ(words({.endpoints_max = limit}), "accepted");
  EXPECT_EQ(words({.endpoints_max = limit + 1}),
            "ManagerOptions::endpoints_max is " + std::to_string(limit + 1) + "; at most " + std::to_string(limit));
  EXPECT_EQ(words({.resolve = {.searches_max = 1}}), "accepted");
  EXPECT_EQ(words({.resolve = {.searches_max = 0}}), "ResolvePolicy::searches_max is 0; must be at least 1");
  EXPECT_EQ(words({.resolve = {.timeout = 1ns}}), "accepted");
  EXPECT_EQ(words({.resolve = {.timeout = 0ns}}), "ResolvePolicy::timeout is 0 ns; it is more than 0");
  EXPECT_EQ(words({.resolve = {.found_kept = 0ns, .failed_kept = 0ns}}), "accepted");
  EXPECT_EQ(words({.resolve = {.found_kept = -1ns, .failed_kept = 5ns}}),
            "ResolvePolicy::found_kept is -1 ns, and failed_kept 5; must be at least 0");
  EXPECT_EQ(words({.resolve = {.found_kept = 5ns, .failed_kept = -2ns}}),
            "ResolvePolicy::found_kept is 5 ns, and failed_kept -2; must be at least 0");
  EXPECT_EQ(words({.liveness = {.keepalive = 2s, .dead_after = 2s}}),
            "keepalive is 2000000000 ns and dead_after 2000000000 ns; keepalive must be less");
}

TEST(CmArguments, LivenessIsMergedFromWhatIsGiven) {
  const cm::Liveness otherwise{.keepalive = 5s, .dead_after = 12s};
  const auto merged = [&](std::optional<Duration> keepalive, std::optional<Duration> dead_after) {
    return cm::merge_liveness(keepalive, dead_after, otherwise).value_or(cm::Liveness{-1ns, -1ns});
  };
  const cm::Liveness refused{-1ns, -1ns};
  EXPECT_EQ(merged({}, {}), otherwise);
  EXPECT_EQ(merged(1s, 2s), (cm::Liveness{1s, 2s}));
  EXPECT_EQ(merged(11s, {}), (cm::Liveness{11s, 12s}));
  EXPECT_EQ(merged(12s, {}), (cm::Liveness{12s, 24s})) << "the one that is not given gives way";
  EXPECT_EQ(merged(20h, {}), (cm::Liveness{20h, 24h}));
  EXPECT_EQ(merged({}, 6s), (cm::Liveness{5s, 6s}));
  EXPECT_EQ(merged({}, 5s), (cm::Liveness{2500ms, 5s}));
  EXPECT_EQ(merged(0s, {}), (cm::Liveness{0s, 12s})) << "never";
  EXPECT_EQ(merged(20s, 0s), (cm::Liveness{20s, 0s}));
  EXPECT_EQ(merged(1ms, 24h), (cm::Liveness{1ms, 24h}));
  EXPECT_EQ(merged(1ms - 1ns, {}), refused);
  EXPECT_EQ(merged({}, 1ms - 1ns), refused);
  EXPECT_EQ(merged({}, 24h + 1ns), refused);
  EXPECT_EQ(merged(3s, 3s), refused);
}

TEST(CmArguments, OfConnectAreNamed) {
  Net net;
  Host& a = net.add_host(1, {}, {.endpoints_max = 1});
  const Address to = Address::v4(192, 0, 2, 2, 7471);
  const Bytes long_data(private_max + 1);
  expect_refusal(a.cm.connect(Address::v4(192, 0, 2, 2, 0)), Errc::bad_address, "port is 0");
  expect_refusal(a.cm.connect(to, {.local = Address::any(Address::Family::v6, 0)}), Errc::bad_address,
                 "ConnectOptions::local is of IP version 6, and the peer of version 4");
  expect_refusal(a.cm.connect(to, {.private_data = long_data}), Errc::bad_private_data,
                 "private_data has 513 octets; at most 508");
  expect_refusal(a.cm.connect(to, {.transport = mpa::Options{.revision = 1}, .private_data = long_data}),
                 Errc::bad_private_data, "private_data has 513 octets; at most 512");
  expect_refusal(a.cm.connect(to, {.qp = QpInit{.pd = 99}}), Errc::invalid_argument, "QpInit::pd 99");
  expect_refusal(a.cm.connect(to, {.transport_timeout = -1ns}), Errc::invalid_argument,
                 "ConnectOptions::transport_timeout is -1 ns; must be at least 0");
  ASSERT_TRUE(a.cm.connect(to, {.private_data = ConstBytes(long_data).first(enhanced_max)}));
  expect_refusal(a.cm.connect(to), Errc::no_space, "1 ids are alive");
}

TEST(CmArguments, OfAnIdThatNamesNothing) {
  const cm::Id none;
  cm::Id id;
  expect_refusal(none.local_address(), Errc::wrong_state, "names nothing");
  expect_refusal(none.peer_address(), Errc::wrong_state, "names nothing");
  expect_refusal(id.create_qp({}), Errc::wrong_state, "names nothing");
  expect_refusal(id.accept(), Errc::wrong_state, "names nothing");
  expect_refusal(id.reject(), Errc::wrong_state, "names nothing");
  expect_refusal(id.disconnect(), Errc::wrong_state, "names nothing");
}

TEST(CmArguments, OfAnIdInTheWrongState) {
  Net net;
  Host& a = net.add_host(1);
  cm::Id id = *a.cm.connect(Address::v4(192, 0, 2, 2, 7471));
  expect_refusal(id.local_address(), Errc::wrong_state, "TCP is not open yet");
  expect_refusal(id.create_qp({}), Errc::wrong_state, "has a queue pair already");
  expect_refusal(id.accept(), Errc::wrong_state, "waits for accept() or reject()");
  expect_refusal(id.reject(), Errc::wrong_state, "waits for accept() or reject()");
  expect_refusal(id.disconnect(), Errc::wrong_state, "only an established connection");
  cm::Id copy = id;
  id.destroy();
  expect_refusal(copy.peer_address(), Errc::wrong_state, "it was destroyed");
  expect_refusal(copy.accept(), Errc::wrong_state, "it was destroyed");
}

TEST(CmArguments, OfAcceptAndRejectAreNamed) {
  Pair p;
  const Address to = p.listen();
  p.b.on_request = [&p](cm::ConnectRequest& request) {
    p.cb = request.id;
    const Bytes long_data(private_max + 1);
    expect_refusal(p.cb.accept({.private_data = long_data}), Errc::bad_private_data,
                   "AcceptOptions::private_data has 513 octets; at most 508");
    expect_refusal(p.cb.reject(long_data), Errc::bad_private_data, "private_data has 513 octets; at most 508");
    expect_refusal(p.cb.accept({.transport = mpa::Options{.revision = 7}}), Errc::invalid_argument, "revision is 7");
    expect_refusal(p.cb.accept({.qp = QpInit{.pd = 77}}), Errc::invalid_argument, "QpInit::pd 77");
    expect_refusal(p.cb.create_qp({.pd = 78}), Errc::invalid_argument, "QpInit::pd 78");
    EXPECT_TRUE(p.cb.accept());
  };
  p.connect(to, {.rtr = mpa::Rtr::read});
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
}

TEST(VerbsArguments, OfTheDeviceAreNamed) {
  Net net;
  Device& device = net.add_host(1).cm.device();
  Verbs v(device);
  Bytes memory(64);
  expect_refusal(device.dealloc_pd(99), Errc::invalid_argument, "pd 99 is not a protection domain");
  expect_refusal(device.dealloc_pd(v.pd), Errc::wrong_state, "1 objects still use the protection domain");
  expect_refusal(device.reg_mr(99, memory, Access::none), Errc::invalid_argument, "pd 99");
  expect_refusal(device.reg_mr(v.pd, {}, Access::none), Errc::invalid_argument, "memory has 0 octets");
  expect_refusal(device.dereg_mr(12345), Errc::invalid_argument, "lkey 12345 names no memory region");
  expect_refusal(device.create_cq(0), Errc::invalid_argument, "capacity is 0; must be 1 to 1048576");
  expect_refusal(device.create_cq(1 << 21), Errc::invalid_argument, "capacity is 2097152; must be 1 to 1048576");
  expect_refusal(device.create_srq(v.pd, 0), Errc::invalid_argument, "capacity is 0");
  expect_refusal(device.create_srq(99, 4), Errc::invalid_argument, "pd 99");
  QpInit init = v.qp();
  init.max_send_wr = 70000;
  expect_refusal(device.create_qp(init), Errc::invalid_argument, "QpInit::max_send_wr is 70000; at most 65536");
  init = v.qp();
  init.max_recv_wr = 70000;
  expect_refusal(device.create_qp(init), Errc::invalid_argument, "QpInit::max_recv_wr is 70000; at most 65536");
  init = v.qp();
  init.send_cq = nullptr;
  expect_refusal(device.create_qp(init), Errc::invalid_argument, "QpInit::send_cq");
  init = v.qp();
  init.recv_cq = nullptr;
  expect_refusal(device.create_qp(init), Errc::invalid_argument, "QpInit::recv_cq");
}

TEST(VerbsArguments, OfPostsAreNamed) {
  Net net;
  Device& device = net.add_host(1).cm.device();
  Verbs v(device);
  QpInit init = v.qp();
  init.max_send_wr = init.max_recv_wr = 1;
  const auto qp = std::move(*device.create_qp(init));
  using Op = SendWr::Opcode;
  const std::vector<Sge> five(5, v.at(0, 8)), two(2, v.at(0, 8)), nine{v.at(0, 9)}, one{v.at(0, 8)};
  const auto send = [&](SendWr wr, Errc code, std::string_view words) {
    expect_refusal(qp->post_send(wr), code, words);
  };
  send({.opcode = static_cast<Op>(99)}, Errc::invalid_argument, "SendWr::opcode: 99 is not an opcode");
  send({.opcode = Op::rdma_write, .invalidate_rkey = 1}, Errc::invalid_argument, "SendWr::invalidate_rkey goes with");
  send({.opcode = Op::rdma_read, .sges = two}, Errc::invalid_argument, "SendWr::sges has 2 pieces; an RDMA Read");
  send({.opcode = Op::atomic_fetch_and_add, .sges = two}, Errc::invalid_argument,
       "SendWr::sges has 2 pieces; an atomic");
  send({.opcode = Op::atomic_fetch_and_add, .sges = nine}, Errc::invalid_argument, "SendWr::sges[0] has 9 octets");
  send({.opcode = Op::atomic_cmp_and_swp, .sges = one, .remote_addr = 12}, Errc::invalid_argument,
       "4 octets behind a multiple of 8");
  send({.opcode = Op::send_with_inv}, Errc::invalid_argument, "SendWr::invalidate_rkey is 0");
  send({.opcode = Op::send_with_imm}, Errc::unsupported, "SendWr::opcode is send_with_imm");
  send({.opcode = Op::rdma_write_with_imm}, Errc::unsupported, "SendWr::opcode is rdma_write_with_imm");
  send({.sges = five}, Errc::invalid_argument, "sges has 5 pieces; at most 4");
  Sge stray = v.at(0, 8);
  stray.lkey = 777;
  send({.sges = {&stray, 1}}, Errc::protection, "sges[0]: lkey 777 names no memory region");
  const Sge beyond[] = {v.at(0, 8), v.at(65535, 8)};
  send({.sges = beyond}, Errc::protection, "sges[1]: addr and length 8 lead out of the memory region");
  Bytes memory(64);
  const MemoryRegion other = *device.reg_mr(*device.alloc_pd(), memory, Access::local_write);
  const Sge foreign{.addr = other.addr, .length = 8, .lkey = other.lkey};
  send({.sges = {&foreign, 1}}, Errc::protection, "is of another protection domain");
  const MemoryRegion closed = *device.reg_mr(v.pd, memory, Access::none);
  const Sge read_only{.addr = closed.addr, .length = 8, .lkey = closed.lkey};
  expect_refusal(qp->post_recv({.sges = {&read_only, 1}}), Errc::protection, "lacks local_write");
  ASSERT_TRUE(qp->post_send({.sges = one}));
  send({.sges = one}, Errc::no_space, "QpInit::max_send_wr is 1");
  ASSERT_TRUE(qp->post_recv({.sges = one}));
  expect_refusal(qp->post_recv({.sges = one}), Errc::no_space, "QpInit::max_recv_wr is 1");
  expect_refusal(device.dereg_mr(v.mr.lkey), Errc::wrong_state, "2 posted requests still use the memory region");
}

TEST(VerbsArguments, OfQueuesThatAreFull) {
  Net net;
  Device& device = net.add_host(1).cm.device();
  Verbs v(device);
  const auto cq = std::move(*device.create_cq(1));
  const auto srq = std::move(*device.create_srq(v.pd, 1));
  const Sge sge = v.at(0, 8);
  QpInit init = v.qp();
  init.send_cq = init.recv_cq = cq.get();
  const auto small = std::move(*device.create_qp(init));
  ASSERT_TRUE(small->post_recv({.sges = {&sge, 1}}));
  expect_refusal(small->post_recv({.sges = {&sge, 1}}), Errc::no_space, "the completion queue holds 1");
  expect_refusal(small->post_send({.sges = {&sge, 1}}), Errc::no_space, "the completion queue holds 1");
  init = v.qp();
  init.srq = srq.get();
  const auto shared = std::move(*device.create_qp(init));
  expect_refusal(shared->post_recv({.sges = {&sge, 1}}), Errc::invalid_argument, "QpInit::srq");
  ASSERT_TRUE(srq->post_recv({.sges = {&sge, 1}}));
  expect_refusal(srq->post_recv({.sges = {&sge, 1}}), Errc::no_space, "the shared receive queue holds 1");
}

TEST(VerbsArguments, OfAConnectionThatIsOver) {
  Pair p;
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {.rtr = mpa::Rtr::send}, {}, 32, 0);
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  const Sge sge = p.va.at(0, 8);
  expect_refusal(p.ca.qp()->post_send({.opcode = SendWr::Opcode::rdma_read, .sges = {&sge, 1}}), Errc::insufficient_ird,
                 "ORD of this connection is 0");
  ASSERT_TRUE(p.cb.disconnect());
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Disconnected>() != nullptr; }));
  expect_refusal(p.va.send(*p.ca.qp(), 0, 8), Errc::wrong_state, "the connection of this queue pair is over");
  expect_refusal(p.va.recv(*p.ca.qp(), 0, 8), Errc::wrong_state, "the connection of this queue pair is over");
}

TEST(AddressArguments, SayWhatIsWrong) {
  const std::pair<const char*, const char*> all[] = {
      {"[::1", "without ']'"},         {"[::1]7471", "comes ':' and the port"}, {"192.0.2.1:x", "port is not a number"},
      {"192.0.2.256", "four numbers"}, {"fe80::1%eth0", "interface's number"},  {"2001:db8::g", "eight groups"},
  };
  for (const auto& [text, words] : all) expect_refusal(Address::parse(text), Errc::bad_address, words);
  expect_refusal(mpa::parse_rtr("reed"), Errc::invalid_argument, "none, frame, send, write or read");
}

}  // namespace
}  // namespace parley::arguments_test
