// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Connections and datagrams by commands of rdma_user_cm.h, between two machines without sockets.
#include "tests/unit/preload/ucma_kit.hpp"

namespace parley::preload_test {
namespace {

constexpr std::uint16_t port = 7471;
const Address there = Address::v4(192, 0, 2, 2, port);

TEST_F(Ucma, ARequestBringsThePrivateDataAndWhatTheQueuePairsNeed) {
  const std::uint32_t listening = listener(port, 0xB0);
  const std::uint32_t active = a.routed(client, 0xA1, there);
  ASSERT_EQ(a.connect(client, active, "ask", 0x123), 0);
  run();
  EXPECT_TRUE(b.core.readable(server));
  const auto request = b.expect(server, What::connect_request);
  EXPECT_FALSE(b.core.readable(server));
  EXPECT_EQ(request.uid, 0xB0U);
  EXPECT_NE(request.id, listening);
  EXPECT_EQ(request.param.conn.private_data_len, 56);  // what the CMA header leaves of 92
  EXPECT_EQ(text_of(request.param.conn, 3), "ask");
  EXPECT_EQ(request.param.conn.qp_num, 0x123U);
  EXPECT_EQ(request.param.conn.responder_resources, 5);  // the peer's initiator depth
  EXPECT_EQ(request.param.conn.initiator_depth, 3);
  EXPECT_EQ(request.param.conn.rnr_retry_count, 4);
  const auto passive_rtr = b.attributes(server, request.id, IBV_QPS_RTR);
  const auto passive_rts = b.attributes(server, request.id, IBV_QPS_RTS);
  ASSERT_EQ(b.accept(server, request.id, 0xB1, "yes", 0x456), 0);
  run();
  const auto reply = a.expect(client, What::connect_response);
  EXPECT_EQ(reply.uid, 0xA1U);
  EXPECT_EQ(reply.param.conn.qp_num, 0x456U);
  EXPECT_EQ(text_of(reply.param.conn, 3), "yes");
  const auto active_rtr = a.attributes(client, active, IBV_QPS_RTR);
  const auto active_rts = a.attributes(client, active, IBV_QPS_RTS);
  EXPECT_EQ(passive_rtr.dest_qp_num, 0x123U);
  EXPECT_EQ(active_rtr.dest_qp_num, 0x456U);
  EXPECT_EQ(passive_rtr.rq_psn, active_rts.sq_psn);
  EXPECT_EQ(active_rtr.rq_psn, passive_rts.sq_psn);
  EXPECT_NE(active_rtr.rq_psn, passive_rtr.rq_psn);
  EXPECT_EQ(passive_rtr.path_mtu, IBV_MTU_4096);
  EXPECT_EQ(passive_rtr.max_dest_rd_atomic, 5);
  EXPECT_EQ(passive_rts.max_rd_atomic, 3);
  EXPECT_EQ(active_rts.max_rd_atomic, 3);  // what the accept offers: its responder_resources
  EXPECT_EQ(active_rts.rnr_retry, 4);
  EXPECT_EQ(passive_rtr.ah_attr.grh.dgid[15], 1);  // 192.0.2.1
  EXPECT_EQ(active_rtr.ah_attr.grh.dgid[15], 2);
  ASSERT_EQ(a.ready(client, active), 0);
  run();
  EXPECT_EQ(b.expect(server, What::established).uid, 0xB1U);
  const auto route = b.route(server, request.id);
  EXPECT_EQ(route.num_paths, 1U);
  EXPECT_EQ(ntohs(route.src_addr.sin6_port), port);
  EXPECT_EQ(ntohs(route.dst_addr.sin6_port), a.port(client, active));
  EXPECT_EQ(reinterpret_cast<const std::uint8_t*>(&route.node_guid)[7], 2);
}

TEST_F(Ucma, ADisconnectEndsBothSidesOnce) {
  const Pair ids = connected();
  ASSERT_EQ(a.disconnect(client, ids.active), 0);
  run();
  EXPECT_EQ(b.expect(server, What::disconnected).status, 0U);
  EXPECT_EQ(b.disconnect(server, ids.passive), 0);
  run();
  EXPECT_EQ(a.expect(client, What::disconnected).status, 0U);
  EXPECT_EQ(a.disconnect(client, ids.active), 0);  // again: no error, and no event
  run();
  EXPECT_FALSE(a.core.readable(client));
  EXPECT_FALSE(b.core.readable(server));
  pass(std::chrono::minutes(2));
  a.expect(client, What::timewait_exit);
  b.expect(server, What::timewait_exit);
  EXPECT_EQ(a.destroy(client, ids.active), 5);
}

TEST_F(Ucma, WhoClosesItsFileDisconnects) {
  connected();
  a.core.close(a.now, client);
  EXPECT_EQ(a.core.ids(), 0U);
  run();
  b.expect(server, What::disconnected);
}

TEST_F(Ucma, ARequestWithoutListenerIsRejected) {
  listener(port, 0xB0);
  const std::uint32_t id = a.routed(client, 0xA1, Address::v4(192, 0, 2, 2, port + 1));
  ASSERT_EQ(a.connect(client, id, ""), 0);
  run();
  EXPECT_FALSE(a.core.readable(client));  // it may be about to listen
  // Until then the id is as while the REQ waits for an answer.
  EXPECT_EQ(a.attributes(client, id, IBV_QPS_INIT).qp_access_flags,
            static_cast<std::uint32_t>(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC));
  EXPECT_EQ(a.write(client, RDMA_USER_CM_CMD_INIT_QP_ATTR,
                    rdma_ucm_init_qp_attr{.response = Memory::base, .id = id, .qp_state = IBV_QPS_RTR}),
            EINVAL);
  EXPECT_EQ(a.disconnect(client, id), 0);
  for (int i = 0; i < 5; ++i) pass(std::chrono::milliseconds(160));
  EXPECT_EQ(a.expect(client, What::rejected).status, 8U);  // invalid service ID
  EXPECT_EQ(a.connect(client, id, ""), EINVAL);
}

TEST_F(Ucma, AListenerThatComesALittleLateIsFound) {
  for (const std::uint16_t space : {RDMA_PS_TCP, RDMA_PS_UDP}) {
    ASSERT_EQ(a.connect(client, a.routed(client, 0xA1, there, space), "ask", 0x10U + space), 0);
    run();
    listener(port, 0xB0, 8, space);
    EXPECT_FALSE(b.core.readable(server));
    EXPECT_LT(a.core.next_deadline(), a.now + std::chrono::milliseconds(11));
    pass(std::chrono::milliseconds(10));
    b.expect(server, What::connect_request);
    EXPECT_FALSE(a.core.readable(client));
  }
}

TEST_F(Ucma, OnlyFilesWithOtherEventsAreReportedAsChanged) {
  constexpr File idle = 9;
  a.open(idle);
  const auto changed = [&] {
    std::vector<File> out;
    while (const auto file = a.core.poll_changed()) out.push_back(*file);
    return out;
  };
  const std::uint32_t id = a.create(client, 1);
  EXPECT_EQ(changed(), std::vector<File>{});
  ASSERT_EQ(a.resolve(client, id, there), 0);
  EXPECT_EQ(changed(), std::vector<File>{client});
  EXPECT_EQ(changed(), std::vector<File>{});
  a.expect(client, What::addr_resolved);
  EXPECT_EQ(changed(), std::vector<File>{client});
  ASSERT_EQ(a.resolve(idle, a.create(idle, 2), there), 0);
  a.core.close(a.now, idle);
  EXPECT_EQ(changed(), std::vector<File>{}) << "it is closed";
  a.open(idle);
  EXPECT_EQ(
      a.write(idle, RDMA_USER_CM_CMD_MIGRATE_ID, rdma_ucm_migrate_id{.response = Memory::base, .id = id, .fd = client}),
      0);
  EXPECT_EQ(changed().size(), 2U);
}

TEST_F(Ucma, AProgramRejectsWithPrivateData) {
  listener(port, 0xB0);
  ASSERT_EQ(a.connect(client, a.routed(client, 0xA1, there), ""), 0);
  run();
  rdma_ucm_reject asked{};
  asked.id = b.expect(server, What::connect_request).id;
  asked.private_data_len = 2;
  std::memcpy(asked.private_data, "no", 2);
  asked.reason = 7;
  EXPECT_EQ(b.write(server, RDMA_USER_CM_CMD_REJECT, asked), EINVAL);  // only 28 and 35 are the program's
  asked.reason = 0;
  ASSERT_EQ(b.write(server, RDMA_USER_CM_CMD_REJECT, asked), 0);
  run();
  const auto event = a.expect(client, What::rejected);
  EXPECT_EQ(event.status, 28U);
  EXPECT_EQ(event.param.conn.private_data_len, 148);
  EXPECT_EQ(text_of(event.param.conn, 2), "no");
}

TEST_F(Ucma, ARequestThatCannotBeAcceptedIsRejected) {
  listener(port, 0xB0);
  ASSERT_EQ(a.connect(client, a.routed(client, 0xA1, there), ""), 0);
  run();
  const std::uint32_t id = b.expect(server, What::connect_request).id;
  EXPECT_EQ(b.accept(server, id, 1, std::string(197, 'x')), EINVAL) << "more than a REP carries";
  run();
  EXPECT_EQ(a.expect(client, What::rejected).status, 28U);
}

TEST_F(Ucma, ARequestBeyondTheBacklogComesAgain) {
  listener(port, 0xB0, 1);
  ASSERT_EQ(a.connect(client, a.routed(client, 0xA1, there), "1"), 0);
  ASSERT_EQ(a.connect(client, a.routed(client, 0xA2, there), "2", 0x78), 0);
  run();
  EXPECT_EQ(b.core.events(server), 1U);
  pass(std::chrono::seconds(1));
  EXPECT_EQ(b.core.events(server), 1U);
  EXPECT_EQ(text_of(b.expect(server, What::connect_request).param.conn, 1), "1");
  for (int i = 0; i < 100 && !b.core.readable(server); ++i) pass(std::chrono::seconds(1));
  EXPECT_EQ(text_of(b.expect(server, What::connect_request).param.conn, 1), "2");
}

TEST_F(Ucma, ASilentPeerIsUnreachable) {
  const std::uint32_t id = a.routed(client, 0xA1, Address::v4(192, 0, 2, 9, port));
  ASSERT_EQ(a.connect(client, id, ""), 0);
  cm::ibcm::MadTo to;
  std::array<std::uint8_t, 256> mad;
  for (int i = 0; i < 300 && !a.core.readable(client); ++i) {
    while (a.core.poll_transmit(to, mad)) {
    }
    a.now += std::chrono::seconds(1);
    a.core.handle_deadline(a.now);
  }
  EXPECT_EQ(static_cast<std::int32_t>(a.expect(client, What::unreachable).status), -ETIMEDOUT);
}

TEST_F(Ucma, ADestroyedListenerTakesUnseenRequestsAlong) {
  const std::uint32_t listening = listener(port, 0xB0);
  ASSERT_EQ(a.connect(client, a.routed(client, 0xA1, there), ""), 0);
  run();
  EXPECT_EQ(b.core.ids(), 2U);
  EXPECT_EQ(b.destroy(server, listening), 0);
  EXPECT_EQ(b.core.ids(), 0U);
  EXPECT_FALSE(b.core.readable(server));
  run();
  a.expect(client, What::rejected);
}

TEST_F(Ucma, AMigratedIdTakesItsEventsToTheOtherFile) {
  constexpr File other = 7;
  b.open(other);
  const std::uint32_t listening = listener(port, 0xB0);
  ASSERT_EQ(a.connect(client, a.routed(client, 0xA1, there), ""), 0);
  run();
  const rdma_ucm_migrate_id asked{.response = Memory::base, .id = listening, .fd = server};
  ASSERT_EQ(b.write(other, RDMA_USER_CM_CMD_MIGRATE_ID, asked), 0);
  EXPECT_EQ(b.response<rdma_ucm_migrate_resp>().events_reported, 0U);
  EXPECT_FALSE(b.core.readable(server));
  const std::uint32_t id = b.expect(other, What::connect_request).id;
  EXPECT_EQ(b.accept(server, id, 0xB1, ""), EINVAL);  // it is the other file's
  EXPECT_EQ(b.accept(other, id, 0xB1, ""), 0);
  EXPECT_EQ(b.destroy(other, listening), 1);
  EXPECT_EQ(
      b.write(other, RDMA_USER_CM_CMD_MIGRATE_ID, rdma_ucm_migrate_id{.response = Memory::base, .id = id, .fd = 99}),
      EINVAL);
}

TEST_F(Ucma, ADatagramServiceAnswersWithItsQueuePair) {
  listener(port, 0xB0, 8, RDMA_PS_UDP);
  const std::uint32_t active = a.routed(client, 0xA1, there, RDMA_PS_UDP);
  const auto init = a.attributes(client, active, IBV_QPS_INIT);
  EXPECT_EQ(init.qkey, 0x01234567U);
  EXPECT_EQ(init.qp_attr_mask, std::uint32_t{IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY});
  ASSERT_EQ(a.connect(client, active, "ask"), 0);
  run();
  const auto request = b.expect(server, What::connect_request);
  EXPECT_EQ(request.param.ud.private_data_len, 180);  // what the CMA header leaves of 216
  EXPECT_EQ(std::memcmp(request.param.ud.private_data, "ask", 3), 0);
  ASSERT_EQ(b.accept(server, request.id, 0xB1, "yes", 0x456), 0);
  run();
  const auto event = a.expect(client, What::established);
  EXPECT_EQ(event.param.ud.qp_num, 0x456U);
  EXPECT_EQ(event.param.ud.qkey, 0x01234567U);
  EXPECT_EQ(event.param.ud.ah_attr.grh.dgid[15], 2);
  EXPECT_EQ(event.param.ud.ah_attr.is_global, 1);
  EXPECT_EQ(std::memcmp(event.param.ud.private_data, "yes", 3), 0);
  EXPECT_FALSE(b.core.readable(server));
}

TEST_F(Ucma, ADatagramServiceRejects) {
  listener(port, 0xB0, 8, RDMA_PS_UDP);
  ASSERT_EQ(a.connect(client, a.routed(client, 0xA1, there, RDMA_PS_UDP), ""), 0);
  run();
  rdma_ucm_reject asked{};
  asked.id = b.expect(server, What::connect_request).id;
  ASSERT_EQ(b.write(server, RDMA_USER_CM_CMD_REJECT, asked), 0);
  run();
  EXPECT_EQ(a.expect(client, What::unreachable).status, 2U);  // SIDR: rejected by the service
}

TEST_F(Ucma, AGroupIsJoinedAndLeft) {
  const Address group = Address::v4(224, 1, 2, 3, 0);
  const std::uint32_t id = a.create(client, 0xA1, RDMA_PS_UDP);
  rdma_ucm_join_ip_mcast asked{};
  asked.response = Memory::base;
  asked.uid = 0xAC;
  asked.id = id;
  put_sockaddr(group, MutBytes(reinterpret_cast<std::uint8_t*>(&asked.addr), sizeof asked.addr));
  EXPECT_EQ(a.write(client, RDMA_USER_CM_CMD_JOIN_IP_MCAST, asked), EINVAL);  // there is no device yet
  ASSERT_EQ(a.resolve(client, id, group), 0);
  a.expect(client, What::addr_resolved);
  ASSERT_EQ(a.write(client, RDMA_USER_CM_CMD_JOIN_IP_MCAST, asked), 0);
  const std::uint32_t number = a.response<rdma_ucm_create_id_resp>().id;
  const auto event = a.expect(client, What::multicast_join);
  EXPECT_EQ(event.uid, 0xACU);
  EXPECT_EQ(event.param.ud.qp_num, 0xFFFFFFU);
  EXPECT_EQ(event.param.ud.ah_attr.grh.dgid[12], 224);
  rdma_ucm_destroy_id leave{};
  leave.response = Memory::base;
  leave.id = number;
  ASSERT_EQ(a.write(client, RDMA_USER_CM_CMD_LEAVE_MCAST, leave), 0);
  EXPECT_EQ(a.response<rdma_ucm_destroy_id_resp>().events_reported, 1U);
  EXPECT_EQ(a.write(client, RDMA_USER_CM_CMD_LEAVE_MCAST, leave), ENOENT);
}

TEST_F(Ucma, AnIpv4MappedAddressIsTheIpv4Address) {
  const auto mapped = [](const Address& v4) {
    Address out = Address::any(Address::Family::v6, v4.port);
    out.octets[10] = out.octets[11] = 0xFF;
    std::copy_n(v4.octets.begin(), 4, out.octets.begin() + 12);
    return out;
  };
  const Address peer = Address::v4(203, 0, 113, 7, port);
  const std::uint32_t id = a.create(client, 1);
  ASSERT_EQ(a.bind(client, id, mapped(Address::v4(192, 0, 2, 1, 9))), 0);
  ASSERT_EQ(a.resolve(client, id, mapped(peer)), 0);
  a.expect(client, What::addr_resolved);
  const auto route = a.route(client, id);
  const auto& source = reinterpret_cast<const sockaddr_in&>(route.src_addr);
  EXPECT_EQ(source.sin_family, AF_INET);
  EXPECT_EQ(ntohl(source.sin_addr.s_addr), 0xC0000201U);
  EXPECT_EQ(ntohs(source.sin_port), 9);
  EXPECT_EQ(ntohl(reinterpret_cast<const sockaddr_in&>(route.dst_addr).sin_addr.s_addr), 0xCB007107U);
}

TEST_F(Ucma, TheSourceIsTheRoutesIfItIsTheDevices) {
  CoreOptions two = options(1, 5);
  two.addresses.push_back(Address::v4(198, 51, 100, 1, 0));
  Machine m(two);
  m.open(client);
  const auto last = [&](const Address& to) {
    const std::uint32_t id = m.create(client, 1);
    EXPECT_EQ(m.resolve(client, id, to), 0);
    m.expect(client, What::addr_resolved);
    const auto route = m.route(client, id);
    return ntohl(reinterpret_cast<const sockaddr_in&>(route.src_addr).sin_addr.s_addr);
  };
  const Address far = Address::v4(203, 0, 113, 7, port);
  EXPECT_EQ(last(far), 0xC0000201U);
  m.memory.route = Address::v4(198, 51, 100, 1, 0);
  EXPECT_EQ(last(far), 0xC6336401U);
  m.memory.route = Address::v4(10, 0, 0, 1, 0);  // another interface's
  EXPECT_EQ(last(far), 0xC0000201U);
  const std::uint32_t id = m.create(client, 1);
  ASSERT_EQ(m.resolve(client, id, Address::loopback(Address::Family::v6, port)), 0);
  EXPECT_EQ(static_cast<std::int32_t>(m.expect(client, What::addr_error).status), -ENETUNREACH);
}

}  // namespace
}  // namespace parley::preload_test
