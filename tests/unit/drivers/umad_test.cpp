// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The transport over InfiniBand devices, on a libibumad that this file stands in for: which port it opens, what it sends and with which
// times, what it receives, and what it says of a device that refuses or is gone.
#include "drivers/mad/umad.hpp"

#if __has_include(<infiniband/umad.h>)
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/bits.hpp"
#include "tests/unit/drivers/umad_fake.hpp"
#include "tests/unit/hang_limit.hpp"
#include "tests/unit/printing.hpp"

namespace parley::mad_driver::umad_test {
namespace {

using namespace std::chrono_literals;
using testing::EndsWith;
using wire::mad::Method;

Bytes mad_of(std::uint8_t mgmt_class, Method method, std::uint32_t tid, std::size_t octets = 256) {
  Bytes out(octets);
  out[0] = 1;
  out[1] = mgmt_class;
  out[2] = mgmt_class == 3 ? 2 : 1;
  out[3] = static_cast<std::uint8_t>(method);
  write_bits(out, 64, 32, 0x77777777);  // the kernel's half of the transaction ID
  write_bits(out, 96, 32, tid);
  if (octets >= 40) write_bits(out, 37 * 8, 24, 0x0A02C9);
  out.back() = 0x5A;
  return out;
}
constexpr std::uint8_t subn = 0x01, adm = 0x03, performance = 0x04, vendor = 0x32;  // classes

class UmadDriver : public testing::Test {
 protected:
  UmadDriver() { fake = &system; }
  ~UmadDriver() override {
    umad.reset();
    EXPECT_EQ(system.held, 0);
    fake = nullptr;
  }
  UmadDriver(const UmadDriver&) = delete;
  UmadDriver& operator=(const UmadDriver&) = delete;
  void open(const UmadOptions& options = {}) {
    if (system.ports.empty()) system.ports = {{"mlx5_0", 1}};
    auto opened = open_umad(options);
    ASSERT_TRUE(opened) << opened.error();
    umad = std::move(*opened);
  }
  /// What is said where no port can be opened.
  std::string refusal(const UmadOptions& options = {}) {
    const auto opened = open_umad(options);
    return opened ? "opened " + system.opened : opened.error();
  }
  bool sends(ConstBytes mad, const mad::Address& to = {.lid = 5}) {
    const auto sent = umad->send(to, mad);
    EXPECT_TRUE(sent) << sent.error().message();
    return sent && *sent;
  }
  void arrives(ConstBytes mad, const ib_mad_addr_t& from = {}, std::uint32_t status = 0) {
    Bytes one(header + mad.size());
    ib_user_mad_t head{};
    head.status = status;
    head.addr = from;
    std::memcpy(one.data(), &head, header);
    std::copy(mad.begin(), mad.end(), one.begin() + header);
    const std::lock_guard lock(system.mutex);
    system.arrived.push_back(one);
  }
  std::optional<mad::Transport::Received> receives() {
    const auto got = umad->receive();
    EXPECT_TRUE(got) << got.error().message();
    return got ? *got : std::nullopt;
  }
  Fake system;
  std::unique_ptr<mad::Transport> umad;
};

TEST_F(UmadDriver, OpensTheNamedPortOrTheFirstActiveOneOrTheFirst) {
  system.ports = {{"eth0", 1, 4, "Ethernet"},
                  {"mlx4_0", 1, 1},
                  {"mlx4_0", 2, 1},
                  {"mlx5_0", 1, 2},
                  {"mlx5_0", 2},
                  {"mlx5_1", 9},
                  {"switch", 0}};
  EXPECT_EQ(umad_ports(),
            (std::vector<std::string>{"mlx4_0/1", "mlx4_0/2", "mlx5_0/1", "mlx5_0/2", "mlx5_1/9", "switch/0"}));
  const std::pair<UmadOptions, std::string> cases[] = {
      {{}, "opened mlx5_0/2"},
      {{.device = "mlx4_0"}, "opened mlx4_0/1"},  // none of its ports is active
      {{.device = "mlx5_0"}, "opened mlx5_0/2"},
      {{.device = "mlx5_0", .port = 1}, "opened mlx5_0/1"},
      {{.port = 2}, "opened mlx5_0/2"},
      {{.port = 9}, "opened mlx5_1/9"},
      {{.device = "switch"}, "opened switch/0"},
      {{.device = "eth0"}, "no port 'eth0': there are: mlx4_0/1, mlx4_0/2, mlx5_0/1, mlx5_0/2, mlx5_1/9, switch/0"},
      {{.device = "mlx5_0", .port = 3},
       "no port 'mlx5_0/3': there are: mlx4_0/1, mlx4_0/2, mlx5_0/1, mlx5_0/2, mlx5_1/9, switch/0"}};
  for (const auto& [options, said] : cases) EXPECT_EQ(refusal(options), said);
  EXPECT_EQ(system.closed, 7);
}

TEST_F(UmadDriver, SaysWhyNoPortIsOpen) {
  EXPECT_EQ(refusal(), "no InfiniBand device (none in /sys/class/infiniband_mad)");
  system.ports = {{"mlx5_0", 1}};
  const std::string advice = "; only root may open /dev/infiniband/umad*, unless a udev rule allows it";
  for (const auto& [why, text] :
       {std::pair(EACCES, "Permission denied" + advice), std::pair(EPERM, "Operation not permitted" + advice),
        std::pair(ENODEV, std::string("No such device")), std::pair(-ENODEV, std::string("No such device"))}) {
    system.open_errno = why;
    errno = EACCES;
    EXPECT_EQ(refusal(), "mlx5_0/1 cannot be opened: " + text);
  }
  system.open_errno = 0;
  system.port_readable = false;
  EXPECT_EQ(refusal(), "mlx5_0/1: cannot read its attributes");
  system.works = false;
  EXPECT_EQ(refusal(), "libibumad does not work with this kernel's umad");
  EXPECT_EQ(umad_ports(), std::vector<std::string>());
  system.works = true;
  system.readable = false;
  EXPECT_EQ(refusal(), "no InfiniBand device (none in /sys/class/infiniband_mad)");
}

TEST_F(UmadDriver, ReadsItsPort) {
  system.lmc = 2;
  system.ports = {{"mlx5_0", 2}};
  open();
  const mad::LocalPort& port = umad->local();
  EXPECT_EQ(port.node_guid, 0x0002C90300000FFFU);
  EXPECT_EQ(port.port_guid, 0x0002C90300001002U);
  EXPECT_EQ(read_bits(port.gid, 0, 64), 0xFE80000000000000U);
  EXPECT_EQ(read_bits(port.gid, 64, 64), port.port_guid);
  EXPECT_EQ((std::array<unsigned, 5>{port.lid, port.sm_lid, port.sm_sl, port.lmc, port.port}),
            (std::array{0x40U, 7U, 3U, 2U, 2U}));
  EXPECT_EQ(port.pkeys, std::vector<std::uint16_t>(pkeys.begin(), pkeys.end()));
  const mad::TransportFacts& facts = umad->facts();
  EXPECT_TRUE(facts.rmpp);  // by the kernel, which also uses half of the transaction ID
  EXPECT_FALSE(facts.whole_tid);
  EXPECT_EQ(facts.window_max, 512U);
  EXPECT_FALSE(umad->poll_changed()) << "once a second";
  for (const unsigned count : {1U, 0U}) {
    system.pkey_count = count;
    open();
    EXPECT_EQ(umad->local().pkeys, std::vector<std::uint16_t>{count == 0 ? std::uint16_t{0xFFFF} : pkeys[0]});
  }
}

/// A directory with the attributes of mlx5_0's port 1, as the kernel shows them.
class UmadChanges : public UmadDriver {
 protected:
  UmadChanges() {
    std::filesystem::create_directories(ports_);
    write("lid", "0x40\n");
    write("sm_lid", "0x7\n");
    write("sm_sl", "3\n");
    write("lid_mask_count", "0\n");
    open({.sysfs = above_, .recheck_every = {}});
  }
  ~UmadChanges() override { std::filesystem::remove_all(above_); }
  UmadChanges(const UmadChanges&) = delete;
  UmadChanges& operator=(const UmadChanges&) = delete;
  void write(const std::string& name, std::string_view text) const { std::ofstream(ports_ + "/" + name) << text; }
  std::string above_ = testing::TempDir() + "umad-changes-" + std::to_string(::getpid());
  std::string ports_ = above_ + "/mlx5_0/ports/1";
};

TEST_F(UmadChanges, OfEachAttributeAreSeen) {
  EXPECT_FALSE(umad->poll_changed());
  const std::tuple<std::string, std::string, std::string> cases[] = {{"lid", "0x41\n", "0x40\n"},
                                                                     {"sm_lid", "0x8\n", "0x7\n"},
                                                                     {"sm_sl", "4\n", "3\n"},
                                                                     {"lid_mask_count", "1\n", "0\n"}};
  for (const auto& [name, other, same] : cases) {
    write(name, other);
    EXPECT_FALSE(umad->poll_changed()) << "as libibumad has it, nothing has changed";
    ++system.lid;
    EXPECT_TRUE(umad->poll_changed()) << name;
    EXPECT_EQ(umad->local().lid, system.lid);
    write("lid", std::to_string(system.lid));
    if (name != "lid") write(name, same);
    EXPECT_FALSE(umad->poll_changed()) << name;
  }
}

TEST_F(UmadChanges, AreNotGuessedFromAnAttributeThatCannotBeRead) {
  ++system.lid;
  for (const std::string_view text : {"", "\n", "x"}) {
    write("lid", text);
    EXPECT_FALSE(umad->poll_changed()) << text;
  }
  std::filesystem::remove(ports_ + "/lid");
  EXPECT_FALSE(umad->poll_changed());
  write("lid", std::string(30, '0') + "1\n");  // 31 digits
  EXPECT_TRUE(umad->poll_changed());
}

TEST_F(UmadChanges, OfPKeysAreSeenNowAndThen) {
  system.pkey_count = 2;
  for (int i = 1; i < 64; ++i) EXPECT_FALSE(umad->poll_changed()) << i;
  EXPECT_TRUE(umad->poll_changed());
  EXPECT_EQ(umad->local().pkeys.size(), 2U);
  system.port_readable = false;
  for (int i = 0; i < 64; ++i) EXPECT_FALSE(umad->poll_changed());
}

TEST_F(UmadDriver, SendsToTheAddress) {
  open();
  mad::Address to{.lid = 5, .source_lid = 0xC3, .sl = 2, .pkey = 0x8002, .qpn = 1, .qkey = 0x80010001};
  to.grh = mad::Grh{.gid_index = 1, .traffic_class = 6, .hop_limit = 64, .flow_label = 0x54321};
  to.grh->gid[15] = 0xAB;
  const Bytes mad = mad_of(performance, Method::get, 1);
  EXPECT_TRUE(sends(mad, to));
  ASSERT_EQ(system.sent.size(), 1U);
  const Sent& sent = system.sent[0];
  EXPECT_EQ(sent.mad, mad);
  EXPECT_EQ(ntohs(sent.to.lid), 5);
  EXPECT_EQ(ntohl(sent.to.qpn), 1U);
  EXPECT_EQ(ntohl(sent.to.qkey), 0x80010001U);
  EXPECT_EQ((std::array<int, 7>{sent.to.sl, sent.to.path_bits, sent.to.pkey_index, sent.to.grh_present,
                                sent.to.gid_index, sent.to.traffic_class, sent.to.hop_limit}),
            (std::array{2, 0x43, 2, 1, 1, 6, 64}))
      << "the P_Key is that of the same partition";
  EXPECT_EQ(ntohl(sent.to.flow_label), 0x54321U);
  EXPECT_EQ(sent.to.gid[15], 0xAB);
  // An SMP has no P_Key and no Q_Key; from the port's own LID, and without a GRH.
  EXPECT_TRUE(sends(mad_of(subn, Method::get, 2), {.source_lid = PARLEY_MAD_PERMISSIVE_LID, .pkey = 0x1234, .qpn = 0}));
  const ib_mad_addr_t& smp = system.sent.at(1).to;
  EXPECT_EQ(
      (std::array<std::uint32_t, 5>{ntohl(smp.qkey), smp.pkey_index, smp.path_bits, smp.grh_present, ntohs(smp.lid)}),
      (std::array<std::uint32_t, 5>{0, 0, 0, 0, 0xFFFF}));
  // Of the P_Key itself before that of its partition.
  EXPECT_TRUE(sends(mad_of(performance, Method::get, 3), {.lid = 5, .pkey = 0x8001}));
  EXPECT_EQ(system.sent.at(2).to.pkey_index, 1);
}

TEST_F(UmadDriver, GivesTheKernelTheTimesOfARequest) {
  open({.kernel_time = 250ms, .kernel_retries = 5});
  const std::tuple<Bytes, int, int> cases[] = {{mad_of(subn, Method::get, 1), 250, 5},
                                               {mad_of(subn, Method::get_resp, 1), 0, 0},
                                               {mad_of(subn, Method::trap_repress, 2), 0, 0},
                                               {mad_of(adm, Method::get_table, 3), 250, 5},
                                               {mad_of(adm, Method::get_table, 4, 1000), 250, 5}};
  for (const auto& [mad, time, retries] : cases) {
    EXPECT_TRUE(sends(mad));
    const Sent& sent = system.sent.back();
    EXPECT_EQ((std::array{sent.timeout_ms, sent.retries, sent.length}),
              (std::array{time, retries, static_cast<int>(mad.size())}));
  }
  EXPECT_TRUE(sends(mad_of(subn, Method::get, 9, 24)));
  EXPECT_EQ(system.sent.back().length, 256) << "a short one is filled with zeros";
  // RMPP of a vendor's class is this program's, with its own timers; that of subnet administration is the kernel's.
  for (const auto& [mgmt_class, time] : {std::pair(vendor, 0), std::pair(adm, 250)}) {
    Bytes segment = mad_of(mgmt_class, Method::get, 20);
    segment[26] = 1;
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(sends(segment));
    EXPECT_EQ(system.sent.back().timeout_ms, time);
  }
  EXPECT_EQ(system.sent.size(), 9U) << "the vendor's twice";
}

TEST_F(UmadDriver, HasAnAgentForEachClass) {
  open();
  for (const std::uint8_t mgmt_class : {subn, adm, subn, vendor, vendor, adm})
    EXPECT_TRUE(sends(mad_of(mgmt_class, Method::get, static_cast<std::uint32_t>(system.sent.size()))));
  EXPECT_EQ(system.registered,
            (std::vector<Registered>{{subn, 1, 0, 0, {}}, {adm, 2, 1, 0, {}}, {vendor, 1, 0, 0x0A02C9, {}}}));
  std::vector<int> agents;
  for (const Sent& sent : system.sent) agents.push_back(sent.agent);
  EXPECT_EQ(agents, (std::vector{0, 1, 0, 2, 2, 1}));
  // The OUI ends with octet 39; one that is shorter has none.
  EXPECT_TRUE(sends(mad_of(vendor, Method::get, 7, 40)));
  EXPECT_EQ(system.registered.back(),
            (Registered{vendor, 1, 0, 0x0A025A, {}}));  // its last octet is the mark at its end
  EXPECT_TRUE(sends(mad_of(vendor, Method::get, 8, 39)));
  EXPECT_EQ(system.registered.back(), (Registered{vendor, 1, 0, 0, {}}));
  system.register_errno = EINVAL;
  EXPECT_THAT(umad->send({.lid = 5}, mad_of(performance, Method::get, 9)).error().message(),
              EndsWith("umad refused an agent for class 4: errno " + std::to_string(EINVAL)));
  system.register_errno = EMFILE;
  EXPECT_THAT(umad->send({.lid = 5}, mad_of(performance, Method::get, 9)).error().message(),
              EndsWith("umad refused an agent for class 4: errno " + std::to_string(EMFILE)));
}

TEST_F(UmadDriver, ServesTheMethodsThatItIsAskedFor) {
  open();
  const std::array methods{Method::get, Method::set, Method{0x7F}, Method{0x81}};  // the last one is answered to itself
  errno = EINVAL;                                                                  // of before
  EXPECT_TRUE(umad->serve({.mgmt_class = performance, .methods = methods}));
  EXPECT_TRUE(umad->serve({.mgmt_class = vendor, .oui = 0x0A02C9, .methods = methods}));
  EXPECT_EQ(system.registered,
            (std::vector<Registered>{{performance, 1, 0, 0, {1, 2, 127}}, {vendor, 1, 0, 0x0A02C9, {1, 2, 127}}}));
  EXPECT_TRUE(sends(mad_of(performance, Method::get, 1)));
  EXPECT_EQ(system.sent.at(0).agent, 0) << "the agent that serves also asks";
  // The port's own agent has two of these methods: the kernel would refuse them.
  const std::array more{Method::get, Method::set, Method::send};
  EXPECT_TRUE(umad->serve({.mgmt_class = performance, .methods = more}));
  EXPECT_EQ(system.registered.size(), 3U);
  EXPECT_EQ(system.registered.back(), (Registered{performance, 1, 0, 0, {3}}));
  EXPECT_TRUE(umad->serve({.mgmt_class = performance, .methods = more}));
  EXPECT_EQ(system.registered.size(), 3U) << "nothing is left to register";
  EXPECT_THAT(
      umad->serve({.mgmt_class = vendor, .class_version = 2, .oui = 0x0A02C9, .methods = more}).error().message(),
      EndsWith("umad registers class version 1 for a class with an OUI, not 2"));
  const std::array trap{Method::trap};
  system.register_errno = ENOMEM;
  EXPECT_THAT(umad->serve({.mgmt_class = performance, .methods = trap}).error().message(),
              EndsWith("umad has no room for an agent for class 4: a port that is open has at most 32"));
  system.register_errno = EINVAL;
  EXPECT_THAT(umad->serve({.mgmt_class = performance, .methods = trap}).error().message(),
              EndsWith("another program already answers requests of class 4 here"));
  system.register_errno = EMFILE;
  EXPECT_THAT(umad->serve({.mgmt_class = performance, .methods = trap}).error().message(),
              EndsWith("umad refused an agent for class 4: errno " + std::to_string(EMFILE)));
}

TEST_F(UmadDriver, ARequestThatTheKernelRepeatsIsGivenToItOnce) {
  open();
  const auto kept = [&](int times) {
    const std::size_t before = system.sent.size();
    for (int i = 0; i < times; ++i) EXPECT_TRUE(sends(mad_of(subn, Method::get, 1)));
    return system.sent.size() - before;
  };
  EXPECT_EQ(kept(3), 1U);
  arrives(mad_of(subn, Method::get_resp, 2));  // of another
  EXPECT_TRUE(receives());
  arrives(mad_of(subn, Method::set, 1));  // a request of the peer
  EXPECT_TRUE(receives());
  EXPECT_EQ(kept(1), 0U);
  arrives(mad_of(subn, Method::get_resp, 1));
  EXPECT_TRUE(receives());
  EXPECT_EQ(kept(2), 1U);
  for (const std::size_t octets : {24U, 256U}) {
    arrives(mad_of(subn, Method::get, 1, octets), {}, ETIMEDOUT);  // the kernel has given up
    EXPECT_FALSE(receives());
    EXPECT_EQ(kept(2), 1U);
  }
  // Others are others, by class and by each bit of the ID.
  for (const std::uint32_t tid : {0x80000001U, 3U, 2U}) EXPECT_TRUE(sends(mad_of(subn, Method::get, tid)));
  EXPECT_TRUE(sends(mad_of(performance, Method::get, 1)));
  EXPECT_EQ(system.sent.size(), 8U);
}

TEST_F(UmadDriver, WhatItCannotSendComesBack) {
  open();
  const Bytes mad = mad_of(performance, Method::get, 1);
  EXPECT_TRUE(sends(mad, {.lid = 5, .pkey = 0x8003}));  // no such partition here
  system.send_errno = EINVAL;                           // as a driver says of what it does not carry
  EXPECT_TRUE(sends(mad, {.lid = 6, .pkey = 0x8001}));
  for (const int lid : {5, 6}) {
    const auto back = receives();
    ASSERT_TRUE(back);
    EXPECT_TRUE(back->refused);
    EXPECT_EQ(back->from.lid, lid);
    EXPECT_EQ(Bytes(back->mad.begin(), back->mad.end()), mad);
  }
  EXPECT_FALSE(receives());
  system.send_errno = 0;
  EXPECT_TRUE(sends(mad, {.lid = 6, .pkey = 0x8001}));
  EXPECT_EQ(system.sent.size(), 1U) << "what came back is not outstanding";
  // As many as it keeps.
  for (int i = 0; i < 1024; ++i) EXPECT_TRUE(sends(mad, {.lid = 5, .pkey = 0x8003}));
  EXPECT_FALSE(sends(mad, {.lid = 5, .pkey = 0x8003}));
  EXPECT_TRUE(umad->wants_to_send());
  EXPECT_TRUE(receives());
  EXPECT_TRUE(sends(mad, {.lid = 5, .pkey = 0x8003}));
  EXPECT_FALSE(umad->wants_to_send());
}

TEST_F(UmadDriver, SaysWhyItCannotSend) {
  open();
  const Bytes mad = mad_of(subn, Method::get, 1);
  for (const int full : {EAGAIN, ENOBUFS}) {
    system.send_errno = full;
    EXPECT_FALSE(sends(mad));
    EXPECT_TRUE(umad->wants_to_send());
  }
  for (const auto& [why, code] : {std::pair(EIO, Errc::io), std::pair(ENODEV, Errc::peer_closed)}) {
    system.send_errno = why;
    const auto sent = umad->send({.lid = 5}, mad);
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error(), code);
    EXPECT_THAT(sent.error().message(), EndsWith("sending through umad failed: errno " + std::to_string(why)));
    EXPECT_FALSE(umad->wants_to_send());
  }
  system.send_errno = 0;
  for (const std::size_t octets : {std::size_t{23}, (std::size_t{16} << 20) + 1}) {
    const auto sent = umad->send({.lid = 5}, Bytes(octets));
    ASSERT_FALSE(sent);
    EXPECT_THAT(sent.error().message(),
                EndsWith("umad cannot carry a management datagram of " + std::to_string(octets) + " octets here"));
  }
  EXPECT_TRUE(sends(mad_of(adm, Method::get_table, 2, std::size_t{16} << 20)));
}

TEST_F(UmadDriver, ReceivesFromTheAddress) {
  system.lmc = 1;
  open();
  ib_mad_addr_t from{};
  from.lid = htons(9);
  from.qpn = htonl(0x123456);
  from.sl = 4;
  from.path_bits = 1;
  from.pkey_index = 2;
  const Bytes mad = mad_of(performance, Method::get_resp, 1);
  arrives(mad, from);
  auto got = receives();
  ASSERT_TRUE(got);
  EXPECT_EQ(Bytes(got->mad.begin(), got->mad.end()), mad);
  EXPECT_EQ(got->from, (mad::Address{.lid = 9, .source_lid = 0x41, .sl = 4, .pkey = 0x0002, .qpn = 0x123456}));
  EXPECT_FALSE(got->refused || got->lost);
  from.grh_present = 1;
  from.gid_index = 1;
  from.traffic_class = 6;
  from.hop_limit = 63;
  from.flow_label = htonl(0x54321);
  from.gid[15] = 0xAB;
  from.pkey_index = 3;  // of a port that has had more of them
  arrives(mad, from);
  got = receives();
  ASSERT_TRUE(got);
  mad::Grh grh{.gid_index = 1, .traffic_class = 6, .hop_limit = 63, .flow_label = 0x54321};
  grh.gid[15] = 0xAB;
  EXPECT_EQ(got->from.grh, grh);
  EXPECT_EQ(got->from.pkey, 0xFFFF);
}

TEST_F(UmadDriver, ReceivesDatagramsOfAnyLength) {
  open();
  arrives(mad_of(adm, Method::get_table_resp, 1, 3 << 20));
  auto got = receives();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->mad.size(), std::size_t{3} << 20);
  EXPECT_EQ(got->mad.back(), 0x5A);
  Bytes full = mad_of(subn, Method::get_resp, 5);
  full[40] = 0x77;
  arrives(full);
  EXPECT_TRUE(receives());
  arrives(mad_of(subn, Method::get_resp, 2, 40));  // ibsim sends only the octets that the sender filled
  got = receives();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->mad.size(), 256U);
  EXPECT_EQ(got->mad[39], 0x5A);
  EXPECT_EQ(got->mad[40], 0);
}

TEST_F(UmadDriver, PassesOverWhatTheKernelGivesBack) {
  open();
  for (int i = 0; i < 63; ++i) arrives(mad_of(subn, Method::get, 3), {}, ETIMEDOUT);
  arrives(Bytes(10), {}, ETIMEDOUT);
  arrives(mad_of(subn, Method::get_resp, 4));
  EXPECT_FALSE(receives()) << "after 64 of them others have their turn";
  EXPECT_EQ(system.receives, 64);
  const auto got = receives();
  ASSERT_TRUE(got);
  EXPECT_EQ(read_bits(got->mad, 96, 32), 4U);
}

TEST_F(UmadDriver, SaysWhyItCannotReceive) {
  open();
  for (const int nothing : {EAGAIN, EINTR, ETIMEDOUT}) {
    system.receive_errno = nothing;
    EXPECT_FALSE(receives());
  }
  for (const auto& [why, code] : {std::pair(EIO, Errc::io), std::pair(ENODEV, Errc::peer_closed)}) {
    system.receive_errno = why;
    const auto got = umad->receive();
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error(), code);
    EXPECT_THAT(got.error().message(), EndsWith("receiving through umad failed: errno " + std::to_string(why)));
  }
  system.receive_errno = ENOSPC;
  EXPECT_THAT(umad->receive().error().message(), EndsWith("umad has a message of 0 octets"));
  system.too_long = 8;  // each time longer than what there is room for
  system.receives = 0;
  EXPECT_FALSE(receives());
  EXPECT_EQ(system.receives, 2);
}

/// ibsim's preloaded library: its descriptors are none of the system, so that a thread reads them.
TEST_F(UmadDriver, UnderIbsimAThreadReceives) {
  system.fd = 1024;
  open();
  EXPECT_FALSE(umad->facts().rmpp);
  EXPECT_EQ(umad->facts().window_max, 64U);
  EXPECT_NE(umad->fd(), 1024);
  arrives(mad_of(subn, Method::get_resp, 1));
  pollfd ready{umad->fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&ready, 1, hang_milliseconds), 1);
  const auto got = receives();
  ASSERT_TRUE(got);
  EXPECT_EQ(read_bits(got->mad, 96, 32), 1U);
  EXPECT_FALSE(receives());
  EXPECT_THAT(umad->serve({.mgmt_class = performance}).error().message(),
              EndsWith("ibsim brings no requests to a program; `parley fabric` does"));
  EXPECT_THAT(umad->send({.lid = 5}, mad_of(adm, Method::get_table, 2, 257)).error().message(),
              EndsWith("umad cannot carry a management datagram of 257 octets here"));
  EXPECT_TRUE(sends(mad_of(adm, Method::get_table, 2)));
  EXPECT_EQ(system.registered, (std::vector<Registered>{{adm, 2, 0, 0, {}}}));
}

TEST_F(UmadDriver, ADescriptorOfTheSystemIsWaitedForItself) {
  system.fd = 1023;
  open();
  EXPECT_EQ(umad->fd(), 1023);
  umad.reset();
  EXPECT_EQ(system.closed, 1);
}

}  // namespace
}  // namespace parley::mad_driver::umad_test
#endif
