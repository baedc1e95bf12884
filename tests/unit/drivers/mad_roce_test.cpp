// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Management datagrams on Parley's RoCE engine: QP1 and UD queue pairs of two devices, over a network in memory and virtual time, and
// over UDP sockets of this machine.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

#include "base/rng.hpp"
#include "drivers/mad/gsi.hpp"
#include "drivers/mad/roce.hpp"
#include "drivers/mad/run.hpp"
#include "drivers/mad/ud.hpp"
#include "mad/serve.hpp"
#include "tests/unit/drivers/own_address.hpp"
#include "tests/unit/mad/seed_count.hpp"
#include "wire/mad/gs.hpp"

namespace parley::mad_driver {
namespace {

using namespace std::chrono_literals;
using mad::Fault;
using mad::Path;
using mad::Reply;
using wire::mad::ClassPortInfo;
using wire::mad::Method;
using wire::mad::MgmtClass;

constexpr std::uint8_t vendor_class = 0x35;
constexpr std::uint32_t oui = 0x001405;
constexpr std::size_t vendor_header = 40;

Gid gid_of_host(std::uint8_t host, bool v6) {
  return v6 ? Gid{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host}
            : Gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, host};
}

/// What a table of so many octets has.
Bytes table_of(std::uint32_t octets) {
  Bytes out(octets);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  return out;
}

/// Get: the request's data again. GetTable: as many octets as the modifier says. Attribute 0xFF: redirected to `elsewhere`.
mad::Task<> answer_vendors(mad::Port& port, std::optional<ClassPortInfo> elsewhere = {}) {
  while (const std::optional<mad::Incoming> request = co_await port.next_request()) {
    const auto parsed = mad::parse_request(request->mad);
    if (!parsed || parsed->facts->mgmt_class != MgmtClass::vendor_oui) continue;
    if (elsewhere) {
      (void)port.post(request->from, *mad::reply_to(request->mad, elsewhere->octets(), PARLEY_MAD_STATUS_REDIRECT));
    } else if (parsed->method == Method::get_table) {
      (void)port.post(request->from, mad::long_reply(request->mad, table_of(parsed->modifier)));
    } else {
      (void)port.post(request->from, *mad::reply_to(request->mad, parsed->body_view));
    }
  }
}

/// GetMulti: a path to each of its GIDs, in their order.
mad::Task<> answer_multi(mad::Port& port) {
  using wire::mad::PathRecord;
  constexpr std::size_t fixed = 24;
  while (const std::optional<mad::Incoming> request = co_await port.next_request()) {
    const auto parsed = mad::parse_request(request->mad);
    if (!parsed || parsed->method != Method::get_multi) continue;
    Bytes records;
    for (ConstBytes gids = parsed->body_view.subspan(fixed); gids.size() >= sizeof(Gid);
         gids = gids.subspan(sizeof(Gid))) {
      Gid gid;
      std::copy_n(gids.begin(), gid.size(), gid.begin());
      const PathRecord record = PathRecord().set(PathRecord::dgid, gid);
      records.insert(records.end(), record.octets().begin(), record.octets().end());
    }
    (void)port.post(request->from, mad::table_reply(request->mad, records, PathRecord::size));
  }
}

mad::Rpc vendor_rpc(Method method, std::uint32_t modifier = 0) {
  return {.mgmt_class = MgmtClass::vendor_oui,
          .method = method,
          .attribute = 0x10,
          .modifier = modifier,
          .class_number = vendor_class,
          .oui = oui};
}

struct Host {
  std::unique_ptr<nic::roce::RoceDevice> device;
  std::unique_ptr<mad::Transport> transport;
  std::uint32_t qpn = 1;
  std::optional<mad::Port> port;
  std::optional<mad::Running<mad::Task<>>> serving;

  Host(const Gid& gid, bool queue_pair, std::uint64_t seed)
      : device(*nic::roce::make_device({.gids = {gid}, .seed = seed, .address_base = 0x10000})) {
    if (queue_pair) {
      auto ud = *UdTransport::open(*device, {.local = roce_port(gid), .depth = 64});
      qpn = ud->qp_num();
      transport = std::move(ud);
    } else {
      transport = std::make_unique<GsiTransport>(*device);
    }
    port.emplace(transport->facts(), transport->local(), mad::PortOptions{.seed = seed});
  }
};

struct Shape {
  bool client_qp = false, server_qp = false, v6 = false;
  std::uint64_t seed = 1, loss = 0;  // loss: of 100, and as many doubles and delays
};

/// Host 1 asks, host 2 answers.
struct Network {
  explicit Network(const Shape& shape)
      : rng(shape.seed),
        loss(shape.loss),
        v6(shape.v6),
        client(gid_of_host(1, v6), shape.client_qp, shape.seed),
        server(gid_of_host(2, v6), shape.server_qp, shape.seed + 1000) {
    server.port->serve();
  }
  void serve(std::optional<ClassPortInfo> elsewhere = {}) {
    server.serving.emplace(server.port->executor(), answer_vendors(*server.port, elsewhere));
  }
  Path path() const {
    Path out = Path::by_gid(gid_of_host(2, v6), 0);
    out.address.qpn = server.qpn;
    out.timeout = 50ms;
    out.retries = 20;
    return out;
  }
  template <class A>
  mad::detail::Awaited<A> go(A awaitable) {
    const auto wait = [this](mad::Transport&, Instant deadline) {
      bool moved = take(client) || take(server);
      moved = *mad::pump(*server.port, *server.transport, now) || moved;
      moved = take(server) || moved;
      if (moved) return;
      deadline = std::min({deadline, server.port->next_deadline(), way.empty() ? never : way.begin()->first});
      ASSERT_NE(deadline, never) << "nothing is to come, and the task has not ended";
      now = std::max(now, deadline);
      while (!way.empty() && way.begin()->first <= now) {
        const auto packet = way.extract(way.begin()).mapped();
        Host& to = packet.from.destination == gid_of_host(1, v6) ? client : server;
        to.device->handle_packet(now, packet.from, packet.octets);
      }
    };
    return *mad::run(
        *client.port, *client.transport, std::move(awaitable), [this] { return now; }, wait,
        [] { return testing::Test::HasFatalFailure(); });
  }
  /// What a device has to send goes on its way.
  bool take(Host& host) {
    bool any = false;
    nic::roce::PacketTo to;
    Bytes buffer(nic::roce::packet_max);
    while (host.device->poll_transmit(now, to, buffer)) {
      any = true;
      ++sent;
      if (rng.below(100) < loss) continue;
      const nic::roce::PacketFrom from{.source = to.source,
                                       .destination = to.destination,
                                       .traffic_class = to.traffic_class,
                                       .hop_limit = to.hop_limit,
                                       .flow_label = to.flow_label};
      Bytes octets(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(to.size + PARLEY_IB_ICRC_LEN));
      const Duration delay = rng.below(100) < loss ? Duration(3ms) : Duration(10us);
      if (rng.below(100) < loss) way.emplace(now + delay * 2, Packet{from, octets});
      way.emplace(now + delay, Packet{from, std::move(octets)});
    }
    return any;
  }

  struct Packet {
    nic::roce::PacketFrom from;
    Bytes octets;
  };
  Rng rng;
  std::uint64_t loss;
  bool v6;
  Instant now{};
  std::uint64_t sent = 0;
  std::multimap<Instant, Packet> way;
  Host client, server;
};

/// Asks for the paths to so many GIDs; empty if all came.
std::string ask_multi(Network& net, std::size_t count) {
  using wire::mad::PathRecord;
  net.server.serving.emplace(net.server.port->executor(), answer_multi(*net.server.port));
  std::vector<Gid> gids(count);
  for (std::size_t i = 0; i < count; ++i)
    gids[i] = {1, static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(i >> 8)};
  const auto got = net.go(net.client.port->sa_get_multi(net.path(), {}, gids));
  if (!got) return got.error().message();
  if (got->size() != count) return std::to_string(got->size()) + " paths";
  for (std::size_t i = 0; i < count; ++i)
    if ((*got)[i].get(PathRecord::dgid) != gids[i]) return "path " + std::to_string(i);
  return {};
}

std::vector<Shape> shapes() {
  std::vector<Shape> out;
  for (const bool client_qp : {false, true})
    for (const bool server_qp : {false, true})
      for (const bool v6 : {false, true}) out.push_back({client_qp, server_qp, v6});
  return out;
}

TEST(MadRoce, AskAndAnswerInSegmentsBothWays) {
  for (const Shape& shape : shapes()) {
    Network net(shape);
    EXPECT_EQ(ask_multi(net, 0), "");
    EXPECT_EQ(ask_multi(net, 500), "");
    EXPECT_EQ(net.client.port->counters().resent, 0U);
  }
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Network net({.client_qp = seed % 2 == 0, .server_qp = seed % 3 == 0, .seed = seed, .loss = 5});
    EXPECT_EQ(ask_multi(net, 400), "") << seed;
  }
}

TEST(MadOverRoce, AsksVendorsByQp1AndByQueuePairs) {
  for (const Shape& shape : shapes()) {
    Network net(shape);
    net.serve();
    const Bytes body{1, 2, 3, 0xFE};
    Path path = net.path();
    path.address.grh->flow_label = 0x12345;  // in IPv6 alone; the answer has the request's
    path.address.grh->traffic_class = 0x68;
    const auto reply = net.go(net.client.port->raw(path, vendor_rpc(Method::get), body));
    ASSERT_TRUE(reply.has_value()) << reply.error().dump();
    EXPECT_EQ(reply->mad[1], vendor_class);
    EXPECT_EQ(reply->mad[3], 0x81);
    EXPECT_EQ(Bytes(reply->mad.begin() + vendor_header, reply->mad.begin() + vendor_header + 4), body);
    EXPECT_EQ(reply->from.qpn, net.server.qpn);
    EXPECT_EQ(reply->from.grh->gid, gid_of_host(2, shape.v6));
    if (shape.v6) {
      EXPECT_EQ(reply->from.grh->flow_label, 0x12345U);
    }
    EXPECT_EQ(reply->from.grh->traffic_class, 0x68);
    EXPECT_EQ(net.sent, 2U);
    const auto table = net.go(net.client.port->raw(net.path(), vendor_rpc(Method::get_table, 5000), {}));
    ASSERT_TRUE(table.has_value()) << table.error().dump();
    EXPECT_EQ(Bytes(table->mad.begin() + vendor_header, table->mad.end()), table_of(5000));
  }
}

TEST(MadOverRoce, CarriesTablesByRmppThroughLossDoublesAndDisorder) {
  std::uint64_t resent = 0;
  for (std::uint64_t seed = 1; seed <= mad::seed_count(); ++seed) {
    Shape shape = shapes()[seed % 8];
    shape.seed = seed;
    shape.loss = 5;
    Network net(shape);
    net.serve();
    for (const std::uint32_t octets : {0U, 216U, 217U, 20000U}) {
      const auto table = net.go(net.client.port->raw(net.path(), vendor_rpc(Method::get_table, octets), {}));
      ASSERT_TRUE(table.has_value()) << "seed " << seed << ": " << table.error().dump();
      ASSERT_EQ(Bytes(table->mad.begin() + vendor_header, table->mad.end()), table_of(octets)) << "seed " << seed;
    }
    resent += net.client.port->counters().resent;
    EXPECT_EQ(net.client.port->transactor().open_count(), 0U);
    EXPECT_EQ(net.client.port->executor().frames().in_use(), 0U);
  }
  EXPECT_GT(resent, 10U);
}

TEST(MadOverRoce, FollowsARedirectionToAQueuePairByItsGid) {
  Network net({});
  auto ud = *UdTransport::open(*net.server.device, {.local = roce_port(gid_of_host(2, false)), .qkey = 0x11223344});
  net.serve(ClassPortInfo()
                .set(ClassPortInfo::redirect_gid, gid_of_host(2, false))
                .set(ClassPortInfo::redirect_qp, ud->qp_num())
                .set(ClassPortInfo::redirect_q_key, 0x11223344U)
                .set(ClassPortInfo::redirect_p_key, std::uint16_t{0xFFFF}));
  mad::Port second(ud->facts(), ud->local());
  Path path = net.path();
  path.retries = 0;
  // It is asked there, and nobody answers.
  const auto reply = net.go(net.client.port->raw(path, vendor_rpc(Method::get), {}));
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().fault(), Fault::timeout);
  EXPECT_EQ(reply.error().path().address.qpn, ud->qp_num());
  const auto came = *ud->receive();
  ASSERT_TRUE(came.has_value());
  EXPECT_EQ(came->mad[1], vendor_class);
  EXPECT_EQ(came->from.grh->gid, gid_of_host(1, false));
}

TEST(MadOverRoce, RefusesWhatHasNoWayAndDropsAnotherQKey) {
  for (const bool queue_pair : {false, true}) {
    Network net({.client_qp = queue_pair, .server_qp = true});
    net.serve();
    mad::Port& port = *net.client.port;
    EXPECT_EQ(net.go(port.raw(Path::by_lid(5), vendor_rpc(Method::get), {})).error().fault(), Fault::invalid);
    EXPECT_EQ(
        net.go(port.raw(Path::to_self(), {.mgmt_class = MgmtClass::subn, .method = Method::get}, {})).error().fault(),
        Fault::invalid);
    Path path = net.path();
    path.retries = 1;
    path.address.qkey = 0x1234;
    EXPECT_EQ(net.go(port.raw(path, vendor_rpc(Method::get), {})).error().fault(), Fault::timeout);
    EXPECT_EQ(net.server.device->counters().dropped_q_key, 2U);
    EXPECT_EQ(net.client.transport->send({.lid = 5}, Bytes(256)).error().code(), Errc::invalid_argument);
    EXPECT_EQ(net.client.transport->send(path.address, Bytes(255)).error().code(), Errc::invalid_argument);
  }
  const auto device = *nic::roce::make_device({.gids = {gid_of_host(1, false)}});
  EXPECT_FALSE(UdTransport::open(*device, {.depth = 1}).has_value());
}

TEST(MadOverRoce, SendsTheGlobalRouteOfTheAddress) {
  for (const bool queue_pair : {false, true}) {
    Host host(gid_of_host(1, true), queue_pair, 1);
    mad::Address address = Path::by_gid(gid_of_host(2, true), 0).address;
    address.grh->flow_label = 0x12345;
    address.grh->traffic_class = 0x20;
    address.grh->hop_limit = 7;
    ASSERT_TRUE(*host.transport->send(address, Bytes(PARLEY_IB_MAD_LEN)));
    nic::roce::PacketTo to;
    Bytes buffer(nic::roce::packet_max);
    ASSERT_TRUE(host.device->poll_transmit(Instant{}, to, buffer));
    EXPECT_EQ(to.destination, gid_of_host(2, true));
    EXPECT_EQ(to.flow_label, 0x12345U);
    EXPECT_EQ(to.traffic_class, 0x20);
    EXPECT_EQ(to.hop_limit, 7);
  }
}

TEST(MadOverRoce, TellsApartWhatHasNoWayFromALoss) {
  const auto device = *nic::roce::make_device({.gids = {gid_of_host(1, false)}});
  UdOptions options{.local = roce_port(gid_of_host(1, false))};
  std::size_t asked = 0;
  options.reach = [&asked](const AhAttr& to) -> Result<void> {
    ++asked;
    if (to.grh->dgid == gid_of_host(2, false)) return {};
    return fail(to.grh->dgid == gid_of_host(3, false) ? Errc::timed_out : Errc::io);
  };
  const auto transport = *UdTransport::open(*device, options);
  mad::Port port(transport->facts(), transport->local());
  Path path = Path::by_gid(gid_of_host(3, false), 0);
  const auto reply = mad::run(
      port, *transport, port.raw(path, vendor_rpc(Method::get), {}), [] { return Instant{}; },
      [](mad::Transport&, Instant) { FAIL() << "nothing is to be waited for"; });
  EXPECT_EQ((*reply).error().fault(), Fault::refused);
  path.address.grh->gid = gid_of_host(2, false);
  EXPECT_TRUE(*transport->send(path.address, Bytes(256)));
  EXPECT_TRUE(*transport->send(path.address, Bytes(256)));
  EXPECT_EQ(asked, 2U);  // once for each port
  path.address.grh->gid = gid_of_host(4, false);
  EXPECT_EQ(transport->send(path.address, Bytes(256)).error().code(), Errc::io);
}

TEST(MadOverRoce, BoundsWhatWaitsToBeSent) {
  for (const bool queue_pair : {false, true}) {
    Network net({.client_qp = queue_pair});
    const mad::Address to = net.path().address;
    std::size_t taken = 0;
    while (taken < 5000 && *net.client.transport->send(to, Bytes(256))) ++taken;
    EXPECT_EQ(taken, queue_pair ? 64U : 1024U);
    net.take(net.client);
    EXPECT_TRUE(*net.client.transport->send(to, Bytes(256)));
  }
}

/// Another process that answers, and ends with the test. It tells its queue pair's number.
class Server {
 public:
  explicit Server(const Address& at) {
    if (::pipe(told_) != 0) return;
    process_ = ::fork();
    if (process_ == 0) answer(at);
  }
  ~Server() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
    }
    for (const int fd : told_) ::close(fd);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// 0: it has no address.
  std::uint32_t number() const {
    std::uint32_t out = 0;
    return process_ > 0 && ::read(told_[0], &out, sizeof(out)) == static_cast<ssize_t>(sizeof(out)) ? out : 0;
  }

 private:
  [[noreturn]] void answer(const Address& at) const {
    const auto server = RoceTransport::open({.local = at, .queue_pair = true});
    const std::uint32_t number = server ? (*server)->qp_num() : 0;
    if (::write(told_[1], &number, sizeof(number)) < 0 || !server) ::_exit(1);
    mad::Port port((*server)->facts(), (*server)->local());
    port.serve();
    static_cast<void>(run_blocking(port, **server, answer_vendors(port)));  // until it is killed
    ::_exit(1);
  }

  int told_[2] = {-1, -1};
  pid_t process_ = -1;
};

TEST(MadOverRoce, SpeaksBetweenTwoProcessesOverUdp) {
  const Address far = own_address(7, 0);
  auto client = RoceTransport::open({.local = own_address(6, 0)});
  ASSERT_TRUE(client.has_value()) << client.error();
  const Server server(far);
  const std::uint32_t number = server.number();
  ASSERT_NE(number, 0U);
  mad::Port port((*client)->facts(), (*client)->local());
  Path path = Path::by_gid(gid_of(far), 0);
  path.address.qpn = number;
  const auto table = run_blocking(port, **client, port.raw(path, vendor_rpc(Method::get_table, 100000), {}));
  ASSERT_TRUE(table.has_value()) << table.error().message();
  ASSERT_TRUE(table->has_value()) << table->error().dump();
  EXPECT_EQ(Bytes((*table)->mad.begin() + vendor_header, (*table)->mad.end()), table_of(100000));
}

}  // namespace
}  // namespace parley::mad_driver
