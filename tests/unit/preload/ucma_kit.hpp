// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Two machines with /dev/infiniband/rdma_cm and a wire between them, without sockets; and programs that write commands to it.
#pragma once
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "preload/ucma/core.hpp"
#include "preload/ucma/sockaddrs.hpp"

namespace parley::preload_test {

using namespace preload::ucma;  // NOLINT: the tests are about nothing else

/// A program's memory: addresses from `base` on.
struct Memory final : preload::ucma::Host {
  static constexpr std::uint64_t base = 0x10000;
  std::array<std::uint8_t, 4096> octets{};
  std::optional<Address> route{};
  bool has(std::uint64_t at, std::size_t size) const { return at >= base && at - base + size <= octets.size(); }
  bool read(std::uint64_t from, MutBytes to) override {
    if (!has(from, to.size())) return false;
    std::memcpy(to.data(), octets.data() + (from - base), to.size());
    return true;
  }
  bool write(std::uint64_t to, ConstBytes from) override {
    if (!has(to, from.size())) return false;
    std::memcpy(octets.data() + (to - base), from.data(), from.size());
    return true;
  }
  std::optional<Address> source_toward(const Address&) override { return route; }
};

struct Machine {
  explicit Machine(CoreOptions options) : core(options) {}
  Core core;
  Memory memory;
  Instant now{};

  /// The answer of a write(2), and with it what is at the command's response.
  template <class T>
  int write(File file, std::uint32_t command, const T& body, std::size_t room = sizeof memory.octets) {
    std::array<std::uint8_t, sizeof(rdma_ucm_cmd_hdr) + sizeof(T)> octets;
    const rdma_ucm_cmd_hdr header{.cmd = command, .in = sizeof(T), .out = static_cast<std::uint16_t>(room)};
    std::memcpy(octets.data(), &header, sizeof header);
    std::memcpy(octets.data() + sizeof header, &body, sizeof body);
    return core.write(now, memory, file, octets);
  }
  template <class T>
  T response() const {
    T out;
    std::memcpy(&out, memory.octets.data(), sizeof out);
    return out;
  }

  File open(File file) {
    core.open(file);
    return file;
  }
  std::uint32_t create(File file, std::uint64_t uid, std::uint16_t space = RDMA_PS_TCP) {
    rdma_ucm_create_id asked{};
    asked.uid = uid;
    asked.response = Memory::base;
    asked.ps = space;
    EXPECT_EQ(write(file, RDMA_USER_CM_CMD_CREATE_ID, asked), 0);
    return response<rdma_ucm_create_id_resp>().id;
  }
  int bind(File file, std::uint32_t id, const Address& to) {
    rdma_ucm_bind_ip asked{};
    asked.id = id;
    put_sockaddr(to, MutBytes(reinterpret_cast<std::uint8_t*>(&asked.addr), sizeof asked.addr));
    return write(file, RDMA_USER_CM_CMD_BIND_IP, asked);
  }
  int listen(File file, std::uint32_t id, std::uint32_t backlog = 8) {
    return write(file, RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{.id = id, .backlog = backlog});
  }
  int resolve(File file, std::uint32_t id, const Address& to) {
    rdma_ucm_resolve_ip asked{};
    asked.id = id;
    put_sockaddr(to, MutBytes(reinterpret_cast<std::uint8_t*>(&asked.dst_addr), sizeof asked.dst_addr));
    return write(file, RDMA_USER_CM_CMD_RESOLVE_IP, asked);
  }
  int connect(File file, std::uint32_t id, const std::string& data, std::uint32_t qpn = 0x77) {
    rdma_ucm_connect asked{};
    asked.id = id;
    fill(asked.conn_param, data, qpn);
    return write(file, RDMA_USER_CM_CMD_CONNECT, asked);
  }
  int accept(File file, std::uint32_t id, std::uint64_t uid, const std::string& data, std::uint32_t qpn = 0x88) {
    rdma_ucm_accept asked{};
    asked.id = id;
    asked.uid = uid;
    fill(asked.conn_param, data, qpn);
    return write(file, RDMA_USER_CM_CMD_ACCEPT, asked);
  }
  int ready(File file, std::uint32_t id) {
    rdma_ucm_accept asked{};
    asked.id = id;
    return write(file, RDMA_USER_CM_CMD_ACCEPT, asked);
  }
  int disconnect(File file, std::uint32_t id) {
    return write(file, RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{.id = id});
  }
  /// Of its response, the number of events; an errno as a negative number.
  int destroy(File file, std::uint32_t id) {
    rdma_ucm_destroy_id asked{};
    asked.response = Memory::base;
    asked.id = id;
    const int wrong = write(file, RDMA_USER_CM_CMD_DESTROY_ID, asked);
    return wrong != 0 ? -wrong : static_cast<int>(response<rdma_ucm_destroy_id_resp>().events_reported);
  }
  int get(File file, rdma_ucm_event_resp& out) {
    const int wrong = write(file, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{.response = Memory::base});
    if (wrong == 0) out = response<rdma_ucm_event_resp>();
    return wrong;
  }
  /// The next event, which is to be of this kind.
  rdma_ucm_event_resp expect(File file, What what) {
    rdma_ucm_event_resp out{};
    EXPECT_EQ(get(file, out), 0) << "no event " << static_cast<int>(what);
    EXPECT_EQ(out.event, static_cast<std::uint32_t>(what));
    return out;
  }
  ib_uverbs_qp_attr attributes(File file, std::uint32_t id, std::uint32_t state) {
    rdma_ucm_init_qp_attr asked{.response = Memory::base, .id = id, .qp_state = state};
    EXPECT_EQ(write(file, RDMA_USER_CM_CMD_INIT_QP_ATTR, asked), 0);
    return response<ib_uverbs_qp_attr>();
  }
  rdma_ucm_query_route_resp route(File file, std::uint32_t id) {
    rdma_ucm_query asked{};
    asked.response = Memory::base;
    asked.id = id;
    EXPECT_EQ(write(file, RDMA_USER_CM_CMD_QUERY_ROUTE, asked), 0);
    return response<rdma_ucm_query_route_resp>();
  }
  /// In host order.
  std::uint16_t port(File file, std::uint32_t id) { return ntohs(route(file, id).src_addr.sin6_port); }

  /// To where it may connect.
  std::uint32_t routed(File file, std::uint64_t uid, const Address& to, std::uint16_t space = RDMA_PS_TCP) {
    const std::uint32_t id = create(file, uid, space);
    EXPECT_EQ(resolve(file, id, to), 0);
    expect(file, What::addr_resolved);
    EXPECT_EQ(write(file, RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{.id = id, .timeout_ms = 2000}), 0);
    expect(file, What::route_resolved);
    return id;
  }

 private:
  static void fill(rdma_ucm_conn_param& to, const std::string& data, std::uint32_t qpn) {
    to.qp_num = qpn;
    to.responder_resources = 3;
    to.initiator_depth = 5;
    to.retry_count = 6;
    to.rnr_retry_count = 4;
    to.valid = 1;
    to.private_data_len = static_cast<std::uint8_t>(data.size());
    std::memcpy(to.private_data, data.data(), data.size());
  }
};

/// The private data of an event, as far as `size`.
inline std::string text_of(const rdma_ucm_conn_param& of, std::size_t size) {
  return {reinterpret_cast<const char*>(of.private_data), size};
}

class Ucma : public testing::Test {
 protected:
  static CoreOptions options(std::uint8_t last, std::uint64_t seed) {
    CoreOptions out;
    out.node_guid = {2, 0, 0, 0, 0, 0, 0, last};
    out.seed = seed;
    out.addresses = {Address::v4(192, 0, 2, last, 0)};
    out.mtu = 5;
    return out;
  }
  static constexpr File client = 3, server = 4;
  Machine a{options(1, 11)}, b{options(2, 22)};

  void SetUp() override {
    a.open(client);
    b.open(server);
  }

  static bool carry(Machine& from, Machine& to) {
    cm::ibcm::MadTo way;
    std::array<std::uint8_t, 256> mad;
    bool any = false;
    for (; from.core.poll_transmit(way, mad); any = true)
      to.core.handle_mad(to.now, {.source = way.source, .destination = way.destination}, mad);
    return any;
  }
  void run() {
    for (int i = 0; i < 64; ++i) {
      const bool there = carry(a, b), back = carry(b, a);
      if (!there && !back) return;
    }
  }
  void pass(Duration time) {
    for (Machine* m : {&a, &b}) {
      m->now += time;
      m->core.handle_deadline(m->now);
    }
    run();
  }

  std::uint32_t listener(std::uint16_t port, std::uint64_t uid, std::uint32_t backlog = 8,
                         std::uint16_t space = RDMA_PS_TCP) {
    const std::uint32_t id = b.create(server, uid, space);
    EXPECT_EQ(b.bind(server, id, Address::any(Address::Family::v4, port)), 0);
    EXPECT_EQ(b.listen(server, id, backlog), 0);
    return id;
  }
  struct Pair {
    std::uint32_t active = 0, passive = 0;
  };
  /// Established, at port 7471.
  Pair connected() {
    listener(7471, 0xB0);
    Pair out;
    out.active = a.routed(client, 0xA1, Address::v4(192, 0, 2, 2, 7471));
    EXPECT_EQ(a.connect(client, out.active, "ask"), 0);
    run();
    out.passive = b.expect(server, What::connect_request).id;
    EXPECT_EQ(b.accept(server, out.passive, 0xB1, "yes"), 0);
    run();
    a.expect(client, What::connect_response);
    EXPECT_EQ(a.ready(client, out.active), 0);
    run();
    EXPECT_EQ(b.expect(server, What::established).uid, 0xB1U);
    return out;
  }
};

}  // namespace parley::preload_test
