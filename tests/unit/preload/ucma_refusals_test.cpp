// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a program writes to /dev/infiniband/rdma_cm and must not: each is answered with Linux's errno, and leaves nothing behind.
#include "tests/unit/preload/ucma_kit.hpp"

namespace parley::preload_test {
namespace {

const Address own = Address::v4(192, 0, 2, 1, 0);

Address at_port(Address address, std::uint16_t port) {
  address.port = port;
  return address;
}

TEST_F(Ucma, OctetsThatAreNoCommand) {
  std::array<std::uint8_t, 64> octets{};
  const auto write = [&](std::uint32_t command, std::uint16_t in, std::size_t size) {
    const rdma_ucm_cmd_hdr header{.cmd = command, .in = in, .out = 64};
    std::memcpy(octets.data(), &header, sizeof header);
    return a.core.write(a.now, a.memory, client, ConstBytes(octets).first(size));
  };
  for (std::size_t size = 0; size < sizeof(rdma_ucm_cmd_hdr); ++size)
    EXPECT_EQ(write(RDMA_USER_CM_CMD_CREATE_ID, 0, size), EINVAL) << size;
  EXPECT_EQ(write(RDMA_USER_CM_CMD_JOIN_MCAST + 1, 0, 64), EINVAL);
  EXPECT_EQ(write(0xFFFFFFFF, 0, 64), EINVAL);
  EXPECT_STREQ(Core::name_of(octets), "no command of rdma_user_cm.h");
  EXPECT_EQ(write(RDMA_USER_CM_CMD_GET_OPTION, 0, 64), ENOSYS);
  EXPECT_STREQ(Core::name_of(octets), "RDMA_USER_CM_CMD_GET_OPTION");
  EXPECT_EQ(write(RDMA_USER_CM_CMD_CREATE_ID, 57, 64), EINVAL);  // more than was written
  EXPECT_EQ(a.core.write(a.now, a.memory, 99, octets), EBADF);
  EXPECT_EQ(a.core.ids(), 0U);
}

TEST_F(Ucma, EachCommandThatIsTooShort) {
  for (std::uint32_t command = 0; command <= RDMA_USER_CM_CMD_JOIN_MCAST; ++command) {
    if (command == RDMA_USER_CM_CMD_GET_OPTION) continue;
    EXPECT_EQ(a.write(client, command, std::uint16_t{0}), EINVAL) << command;
  }
  EXPECT_EQ(a.core.ids(), 0U);
}

TEST_F(Ucma, EachResponseForWhichThereIsNoRoom) {
  const std::uint32_t id = a.create(client, 1);
  std::array<std::uint8_t, 512> body{};
  for (const std::uint32_t command :
       {RDMA_USER_CM_CMD_CREATE_ID, RDMA_USER_CM_CMD_DESTROY_ID, RDMA_USER_CM_CMD_QUERY_ROUTE,
        RDMA_USER_CM_CMD_INIT_QP_ATTR, RDMA_USER_CM_CMD_GET_EVENT, RDMA_USER_CM_CMD_MIGRATE_ID,
        RDMA_USER_CM_CMD_JOIN_IP_MCAST, RDMA_USER_CM_CMD_JOIN_MCAST, RDMA_USER_CM_CMD_LEAVE_MCAST})
    EXPECT_EQ(a.write(client, command, body, 3), ENOSPC) << command;
  EXPECT_EQ(a.core.ids(), 1U);
  EXPECT_EQ(a.destroy(client, id), 0);
}

TEST_F(Ucma, AResponseOutsideOfTheProgramsMemory) {
  rdma_ucm_create_id asked{};
  asked.ps = RDMA_PS_TCP;
  asked.response = 8;
  EXPECT_EQ(a.write(client, RDMA_USER_CM_CMD_CREATE_ID, asked), EFAULT);
  EXPECT_EQ(a.core.ids(), 0U);
}

TEST_F(Ucma, IdsThatAreNotThisFilesOrNobodys) {
  constexpr File other = 9;
  a.open(other);
  const std::uint32_t id = a.create(client, 1);
  EXPECT_EQ(a.bind(other, id, own), EINVAL);
  EXPECT_EQ(a.destroy(other, id), -EINVAL);
  EXPECT_EQ(a.bind(client, id + 1, own), ENOENT);
  EXPECT_EQ(a.disconnect(client, id + 1), ENOENT);
  EXPECT_EQ(a.destroy(client, id), 0);
  EXPECT_EQ(a.destroy(client, id), -ENOENT);
}

TEST_F(Ucma, MoreIdsThanThereMayBe) {
  CoreOptions few = options(1, 1);
  few.ids_max = 2;
  Machine m(few);
  m.open(client);
  const std::uint32_t first = m.create(client, 1);
  m.create(client, 2);
  rdma_ucm_create_id asked{};
  asked.response = Memory::base;
  asked.ps = RDMA_PS_TCP;
  EXPECT_EQ(m.write(client, RDMA_USER_CM_CMD_CREATE_ID, asked), ENOMEM);
  EXPECT_EQ(m.destroy(client, first), 0);
  EXPECT_EQ(m.write(client, RDMA_USER_CM_CMD_CREATE_ID, asked), 0);
  asked.ps = 0x1234;
  EXPECT_EQ(m.write(client, RDMA_USER_CM_CMD_CREATE_ID, asked), EINVAL);
}

TEST_F(Ucma, NoEventYet) {
  rdma_ucm_event_resp out{};
  EXPECT_EQ(a.get(client, out), EAGAIN);
}

TEST_F(Ucma, AddressesAndPortsThatAreTaken) {
  const auto bound = [&](const Address& to, std::uint16_t space = RDMA_PS_TCP) {
    return a.bind(client, a.create(client, 1, space), to);
  };
  EXPECT_EQ(bound(Address::v4(192, 0, 2, 77, 5000)), EADDRNOTAVAIL);
  EXPECT_EQ(bound(at_port(own, 5000)), 0);
  EXPECT_EQ(bound(at_port(own, 5000)), EADDRINUSE);
  EXPECT_EQ(bound(Address::any(Address::Family::v4, 5000)), EADDRNOTAVAIL);  // as Linux has it for wildcards
  EXPECT_EQ(bound(at_port(own, 5000), RDMA_PS_UDP), 0);                      // another port space
  const std::uint32_t id = a.create(client, 1);
  ASSERT_EQ(a.bind(client, id, own), 0);
  EXPECT_GE(a.port(client, id), 32768);
  EXPECT_EQ(a.bind(client, id, own), EINVAL);  // bound already
  Address nothing = own;
  rdma_ucm_bind_ip asked{};
  asked.id = id;
  EXPECT_EQ(a.write(client, RDMA_USER_CM_CMD_BIND_IP, asked), EINVAL);  // no family
  rdma_ucm_bind sized{};
  sized.id = id;
  sized.addr_size = 3;
  put_sockaddr(nothing, MutBytes(reinterpret_cast<std::uint8_t*>(&sized.addr), sizeof sized.addr));
  EXPECT_EQ(a.write(client, RDMA_USER_CM_CMD_BIND, sized), EINVAL);
}

TEST_F(Ucma, AnAddressThatIsReusedHasOneListener) {
  const auto reusing = [&](const Address& to) {
    const std::uint32_t id = a.create(client, 1);
    a.memory.octets = {1};
    EXPECT_EQ(a.write(client, RDMA_USER_CM_CMD_SET_OPTION,
                      rdma_ucm_set_option{.optval = Memory::base,
                                          .id = id,
                                          .level = RDMA_OPTION_ID,
                                          .optname = RDMA_OPTION_ID_REUSEADDR,
                                          .optlen = 4}),
              0);
    EXPECT_EQ(a.bind(client, id, to), 0);
    return id;
  };
  const std::uint32_t first = reusing(at_port(own, 5000)), second = reusing(at_port(own, 5000));
  const std::uint32_t all = reusing(Address::any(Address::Family::v4, 5000));
  EXPECT_EQ(a.listen(client, first), EADDRINUSE);
  EXPECT_EQ(a.listen(client, all), EADDRNOTAVAIL);
  EXPECT_EQ(a.destroy(client, all), 0);
  EXPECT_EQ(a.destroy(client, second), 0);
  EXPECT_EQ(a.listen(client, first), 0);
}

TEST_F(Ucma, CommandsBeforeTheirTime) {
  const std::uint32_t id = a.create(client, 1);
  EXPECT_EQ(a.write(client, RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{.id = id, .timeout_ms = 1}), EINVAL);
  EXPECT_EQ(a.connect(client, id, ""), EINVAL);
  EXPECT_EQ(a.accept(client, id, 1, ""), EINVAL);
  EXPECT_EQ(a.disconnect(client, id), EINVAL);
  EXPECT_EQ(a.write(client, RDMA_USER_CM_CMD_NOTIFY, rdma_ucm_notify{.id = id, .event = IBV_EVENT_COMM_EST}), EINVAL);
  rdma_ucm_init_qp_attr attr{.response = Memory::base, .id = id, .qp_state = IBV_QPS_INIT};
  EXPECT_EQ(a.write(client, RDMA_USER_CM_CMD_INIT_QP_ATTR, attr), EINVAL);  // no device
  ASSERT_EQ(a.resolve(client, id, Address::v4(192, 0, 2, 2, 1)), 0);
  EXPECT_EQ(a.write(client, RDMA_USER_CM_CMD_INIT_QP_ATTR, attr), 0);
  attr.qp_state = IBV_QPS_ERR + 1;
  EXPECT_EQ(a.write(client, RDMA_USER_CM_CMD_INIT_QP_ATTR, attr), EINVAL);
  EXPECT_EQ(a.listen(client, id), EINVAL);
  EXPECT_EQ(a.resolve(client, id, Address::v4(192, 0, 2, 2, 1)), EINVAL);
}

TEST_F(Ucma, PrivateDataThatDoesNotFit) {
  const std::uint32_t id = a.routed(client, 1, Address::v4(192, 0, 2, 2, 1));
  EXPECT_EQ(a.connect(client, id, std::string(57, 'x')), EINVAL);
  EXPECT_EQ(a.connect(client, id, std::string(56, 'x')), 0);
}

TEST_F(Ucma, Options) {
  const std::uint32_t id = a.create(client, 1);
  const auto set = [&](std::uint32_t level, std::uint32_t name, std::uint32_t length, std::uint64_t at = Memory::base) {
    return a.write(client, RDMA_USER_CM_CMD_SET_OPTION,
                   rdma_ucm_set_option{.optval = at, .id = id, .level = level, .optname = name, .optlen = length});
  };
  a.memory.octets = {14};
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 4), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1, 8), EFAULT);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 1), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 4), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 1), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_ID, 99, 4), ENOSYS);
  EXPECT_EQ(set(7, 0, 4), ENOSYS);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1 << 20), EINVAL);
  ASSERT_EQ(a.resolve(client, id, Address::v4(192, 0, 2, 2, 1)), 0);
  EXPECT_EQ(a.route(client, id).num_paths, 0U);
  a.expect(client, What::addr_resolved);
  ASSERT_EQ(a.write(client, RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{.id = id, .timeout_ms = 1}), 0);
  EXPECT_EQ(a.route(client, id).ib_route[0].traffic_class, 14);
}

}  // namespace
/// A shared port whose keeper has not answered yet.
struct SlowServices final : Services {
  int answer = undecided, claims = 0, releases = 0;
  int claim(std::uint64_t, const std::vector<std::uint8_t>&) override { return ++claims, answer; }
  void release(std::uint64_t, const std::vector<std::uint8_t>&) noexcept override { ++releases; }
};

// The program's other commands and packets go on while the keeper of a shared port decides.
TEST_F(Ucma, ListensWhenTheServiceOfASharedPortIsDecided) {
  SlowServices services;
  CoreOptions shared = options(3, 33);
  shared.services = &services;
  Machine m(shared);
  m.open(server);
  const std::uint32_t id = m.create(server, 1), refused = m.create(server, 2);
  EXPECT_EQ(m.bind(server, id, Address::any(Address::Family::v4, 7471)), 0);
  EXPECT_EQ(m.listen(server, id), EINPROGRESS);
  EXPECT_EQ(m.listen(server, refused), EINPROGRESS);
  EXPECT_EQ(m.port(server, id), 7471);
  services.answer = 0;
  EXPECT_EQ(m.listen(server, id), 0);
  EXPECT_EQ(m.listen(server, id), EINVAL) << "listens";
  services.answer = EADDRINUSE;
  EXPECT_EQ(m.listen(server, refused), EADDRINUSE);
  EXPECT_EQ(services.claims, 4);
  EXPECT_EQ(m.destroy(server, id), 0);
  EXPECT_EQ(services.releases, 1);
}

}  // namespace parley::preload_test
