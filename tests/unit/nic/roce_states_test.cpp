// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every state of a RoCE queue pair of each type against every event, as a table that is reviewed in tests/states/roce_qp.txt. With
// PARLEY_REWRITE=1 in the environment the file is written anew.
#include "roce_link.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::nic::roce::test::roce_states_test {
namespace {

using wire::ib::Packet;
using wire::ib::Service;

constexpr QpType types[] = {QpType::rc, QpType::uc, QpType::ud, QpType::xrc_ini, QpType::xrc_tgt};
constexpr QpState states[] = {QpState::reset, QpState::init, QpState::rtr, QpState::rts,
                              QpState::sqd,   QpState::sqe,  QpState::err};

/// A queue pair in a state, with a receive and, from RTS on, a Send that is sent and not acknowledged.
struct Case {
  Side side{Side::options(2)};
  std::unique_ptr<XrcDomain> domain = side.device->open_xrcd().value();
  std::unique_ptr<SharedReceiveQueue> shared =
      side.device->create_srq({.pd = side.pd, .capacity = 4, .xrcd = domain.get(), .cq = side.recv_cq.get()}).value();
  std::unique_ptr<AddressHandle> ah = side.device->create_ah(side.pd, {.grh = GlobalRoute{.dgid = gid_v4(1)}}).value();
  Buffer buffer{*side.device, side.pd, 256};
  QpType type;
  Terms terms;
  std::string result = "-";
  Instant now{};

  explicit Case(QpType of) : type(of), terms{.type = of, .timeout = 4, .retry = 0, .rnr_retry = 1} {
    if (type == QpType::xrc_tgt)
      side.qp = side.device->create_roce_qp({.type = type, .xrcd = domain.get()}).value();
    else
      side.make(type, 4);
    const Sge sge = buffer.all();
    EXPECT_TRUE(shared->post_recv({.wr_id = 1, .sges = {&sge, 1}}));
  }
  bool enter(QpState to) {
    if (to == QpState::reset) return true;
    EXPECT_TRUE(side.qp->modify(init_attr(terms)));
    (void)side.recv(1, {buffer.all()});
    if (to == QpState::init) return true;
    if (to == QpState::err) return side.qp->modify({.state = QpState::err}).has_value();
    EXPECT_TRUE(side.qp->modify(rtr_attr(terms, 17, gid_v4(1), 100)));
    if (to == QpState::rtr) return true;
    EXPECT_TRUE(side.qp->modify(rts_attr(terms, 0x200)));
    if (to == QpState::sqe) {
      if (type != QpType::uc && type != QpType::ud) return false;
      EXPECT_TRUE(side.device->set_gid(0, Gid{}));
      (void)post();
      (void)transmit();
      EXPECT_TRUE(side.device->set_gid(0, gid_v4(2)));
      return true;
    }
    (void)post();
    (void)transmit();
    if (to == QpState::sqd) return side.qp->modify({.state = QpState::sqd, .en_sqd_async_notify = true}).has_value();
    return true;
  }
  Result<void> post() {
    const Sge sge = buffer.sge(0, 8);
    SendWr wr{.wr_id = 2, .sges = {&sge, 1}};
    if (type == QpType::ud) {
      wr.ah = ah.get();
      wr.remote_qp_num = 17;
      wr.remote_qkey = 0x11111111;
    }
    if (type == QpType::xrc_ini) wr.remote_srq_num = 9;
    return side.qp->post_send(wr);
  }
  std::string transmit() {
    std::array<std::uint8_t, packet_max> out;
    PacketTo to;
    std::string sent;
    while (side.device->poll_transmit(now, to, out)) {
      const auto packet = Packet::parse(ConstBytes(out).first(to.size + 4)).value();
      std::string text = wire::ib::opcode_text(packet.bth.opcode);
      text = text.substr(text.find(' ') + 1);
      if (wire::ib::operation_of(packet.bth.opcode) == Operation::acknowledge)
        text = wire::ib::syndrome_text(packet.aeth.syndrome);
      sent += (sent.empty() ? "" : "; ") + text;
    }
    return sent.empty() ? "-" : sent;
  }
  void note(const Result<void>& outcome) {
    result = "ok";
    for (const auto& [errc, name] :
         {std::pair{Errc::wrong_state, "wrong_state"}, std::pair{Errc::invalid_argument, "invalid_argument"},
          std::pair{Errc::unsupported, "unsupported"}, std::pair{Errc::no_space, "no_space"}})
      if (!outcome && outcome.error() == errc) result = name;
  }
  void modify(QpState to) {
    QpAttr attr{.state = to};
    const QpState from = side.qp->state();
    if (to == QpState::init && from == QpState::reset) attr = init_attr(terms);
    if (to == QpState::rtr) attr = rtr_attr(terms, 17, gid_v4(1), 100);
    if (to == QpState::rts && from == QpState::rtr) attr = rts_attr(terms, 0x200);
    note(side.qp->modify(attr));
  }
  void feed(Operation operation, std::uint32_t psn, std::uint8_t syndrome = 0x1F, std::uint8_t tos = 0) {
    Packet packet;
    const Service service = type == QpType::rc   ? Service::rc
                            : type == QpType::uc ? Service::uc
                            : type == QpType::ud ? Service::ud
                                                 : Service::xrc;
    packet.bth.opcode = wire::ib::opcode_of(service, operation);
    packet.bth.dest_qpn = side.qp->qp_num();
    packet.bth.psn = psn;
    packet.bth.ack_req = true;
    packet.deth = {.q_key = 0x11111111, .source_qpn = 17};
    packet.xrceth.srqn = *shared->srq_num();
    packet.aeth.syndrome = syndrome;
    Bytes octets(packet.size());
    packet.emit(octets);
    side.device->handle_packet(now, {.source = gid_v4(1), .destination = gid_v4(2), .traffic_class = tos}, octets);
  }
  void cnp() {
    Packet packet;
    packet.bth.opcode = PARLEY_IB_OPCODE_CNP;
    packet.bth.dest_qpn = side.qp->qp_num();
    Bytes octets(packet.size());
    packet.emit(octets);
    side.device->handle_packet(now, {.source = gid_v4(1), .destination = gid_v4(2)}, octets);
  }
};

struct Event {
  const char* name;
  void (*apply)(Case&);
};
const Event events[] = {
    {"modify RESET", [](Case& c) { c.modify(QpState::reset); }},
    {"modify INIT", [](Case& c) { c.modify(QpState::init); }},
    {"modify RTR", [](Case& c) { c.modify(QpState::rtr); }},
    {"modify RTS", [](Case& c) { c.modify(QpState::rts); }},
    {"modify SQD", [](Case& c) { c.modify(QpState::sqd); }},
    {"modify SQE", [](Case& c) { c.modify(QpState::sqe); }},
    {"modify ERR", [](Case& c) { c.modify(QpState::err); }},
    {"post_send", [](Case& c) { c.note(c.post()); }},
    {"post_recv", [](Case& c) { c.note(c.side.recv(3, {})); }},
    {"Send", [](Case& c) { c.feed(Operation::send_only, 100); }},
    {"Send with CE", [](Case& c) { c.feed(Operation::send_only, 100, 0, 3); }},
    {"Sends, one receive",
     [](Case& c) {
       c.feed(Operation::send_only, 100);
       c.feed(Operation::send_only, 101);
     }},
    {"duplicate Send", [](Case& c) { c.feed(Operation::send_only, 99); }},
    {"Send ahead", [](Case& c) { c.feed(Operation::send_only, 101); }},
    {"Last without First", [](Case& c) { c.feed(Operation::send_last, 100); }},
    {"ACK", [](Case& c) { c.feed(Operation::acknowledge, 0x200); }},
    {"ACK of nothing", [](Case& c) { c.feed(Operation::acknowledge, 0x201); }},
    {"NAK sequence", [](Case& c) { c.feed(Operation::acknowledge, 0x200, 0x60); }},
    {"NAK access", [](Case& c) { c.feed(Operation::acknowledge, 0x200, 0x62); }},
    {"RNR NAK", [](Case& c) { c.feed(Operation::acknowledge, 0x200, 0x21); }},
    {"CNP", [](Case& c) { c.cnp(); }},
    {"deadline",
     [](Case& c) {
       c.now += 1s;
       c.side.device->handle_deadline(c.now);
     }},
};

std::string kinds(const std::vector<QueuePairEvent::Kind>& notices) {
  std::string out;
  for (const auto kind : notices) {
    const char* name = kind == QueuePairEvent::Kind::qp_fatal              ? "qp_fatal"
                       : kind == QueuePairEvent::Kind::comm_est            ? "comm_est"
                       : kind == QueuePairEvent::Kind::sq_drained          ? "sq_drained"
                       : kind == QueuePairEvent::Kind::qp_last_wqe_reached ? "last_wqe"
                                                                           : "?";
    out += (out.empty() ? "" : " ") + std::string(name);
  }
  return out.empty() ? "-" : out;
}

std::string completions(const std::vector<WorkCompletion>& done) {
  std::string out;
  for (const WorkCompletion& wc : done)
    out += (out.empty() ? "" : "; ") + std::string(wc.status == WcStatus::success        ? "done"
                                                   : wc.status == WcStatus::wr_flush_err ? "flushed"
                                                                                         : to_string(wc.status));
  return out.empty() ? "-" : out;
}

TEST(NicRoceStates, TableIsAsReviewed) {
  std::string table = pad("type", 8) + pad("state", 6) + pad("event", 20) + pad("result", 17) + pad("next", 6) +
                      pad("told", 18) + pad("sends", 36) + pad("receives", 31) + "then sent\n";
  for (const QpType type : types)
    for (const QpState state : states)
      for (const Event& event : events) {
        Case c(type);
        if (!c.enter(state)) continue;
        (void)c.side.notices();
        (void)c.side.sends();
        (void)c.side.recvs();
        event.apply(c);
        const std::string sent = c.transmit();
        table += pad(to_string(type), 8) + pad(to_string(state), 6) + pad(event.name, 20) + pad(c.result, 17) +
                 pad(to_string(c.side.qp->state()), 6) + pad(kinds(c.side.notices()), 18) +
                 pad(completions(c.side.sends()), 36) + pad(completions(c.side.recvs()), 31) + sent + "\n";
      }
  expect_as_reviewed("roce_qp.txt", table);
}

TEST(NicRoceModify, ValuesAreChecked) {
  Case c(QpType::rc);
  const auto sentence = [&](const QpAttr& attr) {
    const auto result = c.side.qp->modify(attr);
    return result ? "ok" : result.error().sentence();
  };
  QpAttr init = init_attr(c.terms);
  init.port_num = 2;
  EXPECT_EQ(sentence(init), "QpAttr::port_num is 2; the device has port 1");
  init.port_num = 1;
  init.pkey_index = 1;
  EXPECT_EQ(sentence(init), "QpAttr::pkey_index is 1; the port's table has one key, at 0");
  EXPECT_EQ(sentence(init_attr(c.terms)), "ok");
  const QpAttr rtr = rtr_attr(c.terms, 17, gid_v4(1), 100);
  const auto with = [&](const std::function<void(QpAttr&)>& change) {
    QpAttr attr = rtr;
    change(attr);
    return sentence(attr);
  };
  EXPECT_EQ(with([](QpAttr& a) { a.rq_psn = 0x1000000; }), "QpAttr::rq_psn is 16777216; at most 16777215");
  EXPECT_EQ(with([](QpAttr& a) { a.dest_qp_num = 0x1000000; }), "QpAttr::dest_qp_num is 16777216; at most 16777215");
  EXPECT_EQ(with([](QpAttr& a) { a.min_rnr_timer = 32; }), "QpAttr::min_rnr_timer is 32; at most 31");
  EXPECT_EQ(with([](QpAttr& a) { a.max_dest_rd_atomic = 129; }), "QpAttr::max_dest_rd_atomic is 129; at most 128");
  EXPECT_EQ(with([](QpAttr& a) { a.path_mtu = static_cast<Mtu>(6); }),
            "QpAttr::path_mtu is 6; must be 1 to 5, that of the port");
  EXPECT_EQ(with([](QpAttr& a) { a.ah = AhAttr{}; }), "AhAttr::grh is not set; RoCE addresses are GIDs (IBA §A16)");
  EXPECT_EQ(with([](QpAttr& a) { a.ah->grh->sgid_index = 3; }), "GlobalRoute::sgid_index: the port has no GID 3");
  EXPECT_EQ(with([](QpAttr& a) {
              a.ah->grh->dgid = Gid{0xFE, 0x80};
            }),
            "GlobalRoute: one GID is an IPv4 address, and the other is none");
  EXPECT_EQ(with([](QpAttr& a) {
              a.ah->grh->dgid = gid_v4(1);
              a.ah->grh->dgid[12] = 224;
            }),
            "GlobalRoute::dgid is a multicast group; a connection has one peer");
  EXPECT_EQ(with([](QpAttr& a) { a.ah->grh->flow_label = 1 << 20; }),
            "GlobalRoute::flow_label is 1048576; it has 20 bits");
  EXPECT_EQ(with([](QpAttr& a) { a.alt_path = AltPath{}; }),
            "QpAttr::alt_path: the device has no automatic path migration");
  EXPECT_EQ(c.side.qp->state(), QpState::init);
  EXPECT_EQ(sentence(rtr), "ok");
  QpAttr rts = rts_attr(c.terms, 0x200);
  rts.retry_cnt = 8;
  EXPECT_EQ(sentence(rts), "QpAttr::retry_cnt is 8; at most 7");
  EXPECT_EQ(sentence(rts_attr(c.terms, 0x200)), "ok");
  const QpAttr now = c.side.qp->query();
  EXPECT_EQ(now.rq_psn, 100U);
  EXPECT_EQ(now.sq_psn, 0x200U);
  EXPECT_EQ(now.dest_qp_num, 17U);
  EXPECT_EQ(now.path_mtu, Mtu::octets_256);
  EXPECT_EQ(now.ah->grh->dgid, gid_v4(1));
}

TEST(NicRoceModify, ResetForgets) {
  Case c(QpType::rc);
  ASSERT_TRUE(c.enter(QpState::rts));
  ASSERT_TRUE(c.side.qp->modify({.state = QpState::reset}));
  EXPECT_EQ(statuses(c.side.sends()) + statuses(c.side.recvs()), "--");
  EXPECT_FALSE(c.side.qp->query().dest_qp_num);
  EXPECT_TRUE(c.side.device->dereg_mr(c.buffer.region.lkey).error() ==
              Errc::wrong_state);  // the shared queue's receive
  c.shared.reset();
  EXPECT_TRUE(c.side.device->dereg_mr(c.buffer.region.lkey));
  EXPECT_EQ(c.transmit(), "-");
}

TEST(NicRoceDevice, OptionsAreChecked) {
  const auto sentence = [](const std::function<void(DeviceOptions&)>& change) {
    DeviceOptions options;
    change(options);
    const auto device = make_device(options);
    return device ? "ok" : device.error().sentence();
  };
  EXPECT_EQ(sentence([](DeviceOptions&) {}), "ok");
  EXPECT_EQ(sentence([](DeviceOptions& o) { o.gids.resize(257); }), "DeviceOptions::gids has 257; at most 256");
  EXPECT_EQ(sentence([](DeviceOptions& o) { o.port_mtu = static_cast<Mtu>(0); }),
            "DeviceOptions::port_mtu is 0; must be 1 to 5");
  EXPECT_EQ(sentence([](DeviceOptions& o) { o.first_qpn = 1; }),
            "DeviceOptions::first_qpn is 1; must be 0, or 2 to 16777214");
  EXPECT_EQ(sentence([](DeviceOptions& o) { o.qpn_prefix = 255; }),
            "DeviceOptions::qpn_prefix is 255; it is at most 254");
  EXPECT_EQ(sentence([](DeviceOptions& o) {
              o.qpn_prefix = 3;
              o.first_qpn = 0x040000;
            }),
            "DeviceOptions::first_qpn is 262144; its top octet is not qpn_prefix, 3");
  EXPECT_EQ(sentence([](DeviceOptions& o) { o.window = 0; }), "DeviceOptions::window is 0; must be 1 to 8388608");
  EXPECT_EQ(sentence([](DeviceOptions& o) { o.ack_every = 0; }), "DeviceOptions::ack_every is 0; must be at least 1");
}

// A number comes back only when all have been used.
TEST(NicRoceDevice, NumbersOfQueuePairsGoRound) {
  DeviceOptions options = Side::options(1);
  options.first_qpn = 0xFFFFFD;
  Side side(options);
  const auto make = [&] { return side.device->create_roce_qp(side.init(QpType::rc, 1)).value(); };
  const auto x = make(), y = make(), z = make();
  EXPECT_EQ(x->qp_num(), 0xFFFFFDU);
  EXPECT_EQ(y->qp_num(), 0xFFFFFEU);
  EXPECT_EQ(z->qp_num(), 2U);
  EXPECT_EQ(make()->qp_num(), 3U);
  EXPECT_EQ(make()->qp_num(), 4U);
}

TEST(NicRoceDevice, NumbersOfQueuePairsKeepTheirPrefix) {
  DeviceOptions options = Side::options(1);
  options.qpn_prefix = 0xA7;
  options.first_qpn = 0xA7FFFF;
  Side side(options);
  const auto make = [&] { return side.device->create_roce_qp(side.init(QpType::rc, 1)).value(); };
  const auto x = make(), y = make();
  EXPECT_EQ(x->qp_num(), 0xA7FFFFU);
  EXPECT_EQ(y->qp_num(), 0xA70000U);
  for (int others = 0; others < 0xFFFE; ++others) make();
  EXPECT_EQ(make()->qp_num(), 0xA70001U) << "those of x and y are in use";
  options.first_qpn = 0;  // drawn
  Side other(options);
  EXPECT_EQ(other.device->create_roce_qp(other.init(QpType::rc, 1)).value()->qp_num() >> 16, 0xA7U);
}

// ibv_rereg_mr: the domain that a region gets is in use, and the former one no more.
TEST(NicRoceDevice, ARegionChangesItsProtectionDomain) {
  Side side(Side::options(1));
  const PdHandle second = side.device->alloc_pd().value();
  const Buffer to(*side.device, side.pd, 64);
  EXPECT_FALSE(side.device->rereg_mr(to.region.lkey + 0x100, {.pd = second})) << "no region has the key";
  EXPECT_TRUE(side.device->dealloc_pd(second));
  EXPECT_FALSE(side.device->rereg_mr(to.region.lkey, {.pd = second})) << "no such domain";
  const PdHandle third = side.device->alloc_pd().value();
  EXPECT_TRUE(side.device->rereg_mr(to.region.lkey, {.pd = third}));
  EXPECT_FALSE(side.device->dealloc_pd(third));
  EXPECT_TRUE(side.device->rereg_mr(to.region.lkey, {.pd = side.pd}));
  EXPECT_TRUE(side.device->dealloc_pd(third));
}

}  // namespace
}  // namespace parley::nic::roce::test::roce_states_test
