// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a flood of half-open connections costs: at most 8 KiB for each, at every step of its set-up, and all of it is given back. The
// providers are driven without sockets, so that nothing but theirs is counted.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "base/gid.hpp"
#include "cm/providers/iwarp/iwarp.hpp"
#include "cm/providers/roce/roce.hpp"
#include "parley/cm.hpp"
#include "parley/wire/mpa.h"
#include "tests/alloc/failing_new.hpp"
#include "wire/ib/cm.hpp"
#include "wire/ib/cma.hpp"
#include "wire/ib/packet.hpp"
#include "wire/mpa.hpp"

namespace parley {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t each_max = 8192;  // octets
constexpr std::int64_t kept_max =
    2560;  // after the first flood: tables, and objects for the next connections (cm/spares.hpp)
constexpr std::uint32_t peers = 1000;
constexpr std::uint16_t port = 7471;

const Address here = Address::v4(192, 0, 2, 1, port);
Address peer(std::uint32_t n) {
  return Address::v4(198, 51, static_cast<std::uint8_t>(n >> 8), static_cast<std::uint8_t>(n), 40000);
}

Address without_port(Address address) {
  address.port = 0;
  return address;
}

/// A listener under a provider without a driver.
template <class Provider>
struct Side {
  explicit Side(std::unique_ptr<Provider> made) : provider(std::move(made)), cm(*provider) {}
  /// The requests that came since, and the ids of connections that ended.
  void take_events() {
    while (const auto event = cm.poll_event()) {
      if (const auto* asked = std::get_if<cm::ConnectRequest>(&*event)) requests.push_back(asked->id);
      if (const auto* failed = std::get_if<cm::ConnectFailed>(&*event)) ++ended, cm::Id(failed->id).destroy();
    }
  }
  void accept_all() {
    for (cm::Id id : requests) EXPECT_TRUE(id.accept());
  }
  std::unique_ptr<Provider> provider;
  cm::Manager cm;
  std::vector<cm::Id> requests;
  std::size_t ended = 0;
  Instant now{1s};
};

/// What is held now, for each of the peers, beyond `before`.
std::int64_t each(std::int64_t before) { return (failing_new::octets_alive() - before) / peers; }

struct OverTcp : Side<cm::IwarpProvider> {
  OverTcp() : Side(cm::make_iwarp_provider()) {
    requests.reserve(peers);
    EXPECT_TRUE(cm.listen(here, {.pending_max = peers}));
    turn();
    provider->handle_listening(now, listener, here);
    take_events();
  }
  void turn() {
    now += 1ms;
    provider->handle_deadline(now);
    StreamCommand command;
    while (provider->poll_command(command))
      if (command.kind == StreamCommand::Kind::listen) listener = command.id;
    std::array<ConstBytes, 4> out;
    while (const StreamId stream = provider->poll_ready()) {
      std::size_t size = 0;
      for (std::size_t n = provider->gather(stream, out), i = 0; i < n; ++i) size += out[i].size();
      provider->sent(now, stream, size);
    }
  }
  static StreamId stream(std::uint32_t n) { return 2 * (n + 1); }
  void come() {
    for (std::uint32_t n = 0; n < peers; ++n)
      EXPECT_TRUE(provider->handle_accepted(now, listener, stream(n), {.local = here, .peer = peer(n)}));
    turn();
  }
  void say(ConstBytes octets) {
    for (std::uint32_t n = 0; n < peers; ++n) provider->handle_bytes(now, stream(n), octets);
    turn();
    take_events();
  }
  void vanish() {
    for (std::uint32_t n = 0; n < peers; ++n) provider->handle_end(now, stream(n), StreamEnd::rst);
    turn();
    take_events();
    turn();
    requests.clear();
  }
  StreamId listener = 0;
};

TEST(HalfOpen, OverTcpTakesLittleAndGivesItBack) {
  OverTcp t;
  const Bytes private_data(512, 0x5A);
  const Bytes request =
      *wire::MpaFrame{.key = wire::MpaKey::req, .flags = PARLEY_MPA_FLAG_C, .revision = 1, .private_data = private_data}
           .emit();
  std::int64_t kept = 0;
  for (int flood = 0; flood < 3; ++flood) {
    const std::int64_t before = failing_new::octets_alive();
    t.come();
    EXPECT_LE(each(before), each_max) << "TCP is open";
    t.say(ConstBytes(request).first(request.size() - 1));
    EXPECT_LE(each(before), each_max) << "all but an octet of the Request is there";
    t.say(ConstBytes(request).last(1));
    EXPECT_EQ(t.requests.size(), peers);
    EXPECT_LE(each(before), each_max) << "the program decides";
    t.accept_all();
    t.turn();
    EXPECT_LE(each(before), each_max) << "the first FPDU is awaited";
    t.vanish();
    EXPECT_EQ(t.ended, static_cast<std::size_t>(flood + 1) * peers);
    EXPECT_EQ(t.provider->endpoint_count(), 1U);
    if (flood == 0) kept = failing_new::octets_alive();
    EXPECT_LE(each(before), kept_max) << "tables and spare objects";
    EXPECT_LE(failing_new::octets_alive() - kept, 65536) << "which another flood does not make larger";
  }
}

struct OverUdp : Side<cm::RoceProvider> {
  OverUdp() : Side(cm::make_roce_provider({.ca_guid = 1, .seed = 1})) {
    requests.reserve(peers);
    EXPECT_TRUE(cm.listen(here, {.pending_max = peers}));
    turn();
    take_events();
  }
  void turn() {
    provider->handle_deadline(now);
    PacketCommand command;
    while (provider->poll_command(command))
      if (command.kind == PacketCommand::Kind::bind) provider->handle_bound(now, command.id, without_port(here));
    std::array<std::uint8_t, PacketMachine::packet_max + 4> out;
    PacketPath path;
    while (provider->poll_packet(now, path, out) != 0) {
    }
  }
  static wire::ib::CmReq request(std::uint32_t n, std::uint32_t round) {
    wire::ib::CmReq req;
    req.local_comm_id = n + round * peers + 1;
    req.service_id = wire::ib::service_id_of(wire::ib::PortSpace::tcp, port);
    req.local_ca_guid = 0x100 + n;
    req.local_qpn = 0x10 + n + round * peers;
    req.responder_resources = req.initiator_depth = 16;
    req.local_cm_response_timeout = req.remote_cm_response_timeout = 20;
    req.retry_count = req.rnr_retry_count = 7;
    req.path_mtu = 3;
    req.max_cm_retries = 15;
    req.primary.local_lid = req.primary.remote_lid = 0xFFFF;
    req.primary.local_gid = gid_of(peer(n));
    req.primary.remote_gid = gid_of(here);
    req.primary.local_ack_timeout = 16;
    Bytes header(PARLEY_CMA_HEADER_LEN);
    wire::ib::CmaHeader{.source = peer(n), .destination = here}.emit(header);
    std::copy(header.begin(), header.end(), req.private_data.begin());
    return req;
  }
  void ask(std::uint32_t round) {
    for (std::uint32_t n = 0; n < peers; ++n) {
      std::array<std::uint8_t, PARLEY_IB_MAD_LEN> mad{};
      wire::ib::CmMessage{.transaction_id = n + round * peers + 1, .body = request(n, round)}.emit(mad);
      wire::ib::Packet packet;
      packet.bth.opcode = wire::ib::opcode_of(wire::ib::Service::ud, wire::ib::Operation::send_only);
      packet.bth.dest_qpn = PARLEY_IB_GSI_QPN;
      packet.deth = {.q_key = PARLEY_IB_GSI_Q_KEY, .source_qpn = PARLEY_IB_GSI_QPN};
      packet.payload = mad;
      std::array<std::uint8_t, PacketMachine::packet_max> octets;
      const std::size_t size = packet.emit(octets);
      provider->handle_packet(now, {.local = without_port(here), .peer = without_port(peer(n))},
                              ConstBytes(octets).first(size));
    }
    turn();
    take_events();
  }
  /// The peers never answer, and are given up; ended connections are remembered for a while (IBA §12.9).
  void wait() {
    const Instant end = now + 10min;
    while (now < end && provider->next_deadline() <= end) {
      now = std::max(now, provider->next_deadline());
      turn();
      take_events();
    }
    now = end;
    turn();
    take_events();
    requests.clear();
  }
};

TEST(HalfOpen, OverUdpTakesLittleAndGivesItBack) {
  OverUdp t;
  std::int64_t kept = 0;
  for (std::uint32_t flood = 0; flood < 3; ++flood) {
    const std::int64_t before = failing_new::octets_alive();
    t.ask(flood);
    EXPECT_EQ(t.requests.size(), peers);
    EXPECT_LE(each(before), each_max) << "the program decides";
    t.accept_all();
    t.turn();
    EXPECT_LE(each(before), each_max) << "the RTU is awaited";
    t.wait();
    EXPECT_EQ(t.ended, (flood + 1) * std::size_t{peers});
    EXPECT_EQ(t.provider->endpoint_count(), 1U);
    if (flood == 0) kept = failing_new::octets_alive();
    EXPECT_LE(each(before), kept_max) << "tables and spare objects";
    EXPECT_LE(failing_new::octets_alive() - kept, 65536) << "which another flood does not make larger";
  }
}

}  // namespace
}  // namespace parley
