// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Linux's conversations, played by an Agent in the place of each side: it gets what that side got, its user does what that side's user
// did, and it says the same, octet by octet, but for communication IDs and transaction IDs. What differs stands in
// tests/states/ibcm_captures.txt, which a reviewer reads. PARLEY_REWRITE=1 writes it anew.
#include <fstream>
#include <iterator>
#include <set>

#include "base/bytes_io.hpp"
#include "tests/unit/cm/ibcm_kit.hpp"
#include "tests/unit/reviewed.hpp"
#include "wire/ib/packet.hpp"
#include "wire/ib/roce.hpp"
#include "wire/pcap.hpp"

namespace parley::cm::ibcm::captures_test {
namespace {
using namespace kit;

struct Recorded {
  Instant at{};
  Gid source{}, destination{};
  CmMessage message;
};

std::vector<Recorded> messages_of(const std::string& name) {
  std::ifstream in(PARLEY_SOURCE_DIR "/tests/captures/roce/" + name + ".pcap", std::ios::binary);
  const Bytes file((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_FALSE(file.empty()) << name;
  wire::PcapReader reader;
  ConstBytes window = file;
  wire::CapturedPacket packet;
  std::size_t consumed = 0;
  std::vector<Recorded> out;
  while (reader.next(window, packet, consumed) == wire::CaptureStatus::packet) {
    Reader r(packet.octets);
    r.skip(12);
    const std::uint16_t type = r.be16();
    if (const auto roce = RoceHeader::parse(type, r.rest()))
      if (const auto p = Packet::parse(roce->packet); p && p->bth.dest_qpn == PARLEY_IB_GSI_QPN)
        if (const auto message = CmMessage::parse(p->payload))
          out.push_back({packet.at, roce->header.source, roce->header.destination, *message});
    window = window.subspan(consumed);
  }
  return out;
}

/// One side of a recording.
class Player {
 public:
  explicit Player(std::uint8_t host) : host_(host), agent_(*Agent::create({.ca_guid = guid(host), .seed = 5})) {}

  void play(const std::vector<Recorded>& all) {
    std::set<std::uint64_t> services;
    for (const Recorded& r : all) {
      if (const auto* req = std::get_if<CmReq>(&r.message.body)) services.insert(req->service_id);
      if (const auto* req = std::get_if<CmSidrReq>(&r.message.body)) services.insert(req->service_id);
    }
    for (const Recorded& r : all)  // nobody listened there
      if (const auto* rej = std::get_if<CmRej>(&r.message.body);
          rej != nullptr && rej->reason == CmReject::invalid_service_id)
        for (const Recorded& q : all)
          if (const auto* req = std::get_if<CmReq>(&q.message.body);
              req != nullptr && req->local_comm_id == rej->remote_comm_id)
            services.erase(req->service_id);
    for (const std::uint64_t s : services) EXPECT_TRUE(agent_.listen(s, {}));
    for (const Recorded& r : all) {
      now_ = std::max(now_, r.at);
      drain();
      if (r.source[15] == host_) {
        std::visit([&](const auto& m) { said(m); }, r.message.body);
        theirs.emplace_back(r.message);
      } else {
        hears(r);
      }
      drain();
    }
  }
  /// "REQ", with the number of equal ones on both sides, and those of one side alone.
  std::string report() {
    std::map<std::string, int> rest;
    std::set<Bytes> here, there;
    for (const CmMessage& m : ours) here.insert(plain(m, true));
    for (const CmMessage& m : theirs) there.insert(plain(m, false));
    std::map<std::string, int> same, missing, extra;
    for (const Bytes& b : there) ++(here.contains(b) ? same : missing)[text(b)];
    for (const Bytes& b : here)
      if (!there.contains(b)) ++extra[text(b)];
    const auto list = [](std::string_view head, const std::map<std::string, int>& counts) {
      std::string out;
      for (const auto& [name, n] : counts) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", n, name);
      return out.empty() ? out : fmt::format("  {}: {}\n", head, out);
    };
    return list("the same", same) + list("Linux alone", missing) + list("Parley alone", extra);
  }

 private:
  static std::string text(ConstBytes mad) {
    const CmMessage m = *CmMessage::parse(mad);
    std::string out(to_string(m.type()));
    if (const auto* rej = std::get_if<CmRej>(&m.body)) out += fmt::format(" {}", static_cast<unsigned>(rej->reason));
    if (const auto* mra = std::get_if<CmMra>(&m.body)) out += fmt::format(" {}", mra->service_timeout);
    return out;
  }
  /// Without transaction ID, and with the recorded communication IDs.
  Bytes plain(CmMessage m, bool is_ours) const {
    m.transaction_id = 0;
    std::visit(
        [&](auto& body) {
          if constexpr (requires { body.local_comm_id; }) {
            if (is_ours && recorded_.contains(body.local_comm_id))
              body.local_comm_id = recorded_.at(body.local_comm_id);
          }
          if constexpr (std::is_same_v<std::decay_t<decltype(body)>, CmSidrReq>) {
            if (is_ours && recorded_.contains(body.request_id)) body.request_id = recorded_.at(body.request_id);
          }
        },
        m.body);
    Bytes out(PARLEY_IB_MAD_LEN);
    m.emit(out);
    return out;
  }
  void hears(const Recorded& r) {
    CmMessage m = r.message;
    std::visit(
        [&](auto& body) {
          if constexpr (requires { body.remote_comm_id; }) {
            if (mine_.contains(body.remote_comm_id)) body.remote_comm_id = agent_id(mine_.at(body.remote_comm_id));
          }
          if constexpr (std::is_same_v<std::decay_t<decltype(body)>, CmSidrRep>) {
            if (mine_.contains(body.request_id)) body.request_id = agent_id(mine_.at(body.request_id));
          }
        },
        m.body);
    Bytes octets(PARLEY_IB_MAD_LEN);
    m.emit(octets);
    agent_.handle_mad(now_, {.source = r.source, .destination = r.destination}, octets);
    while (const auto event = agent_.poll_event()) {
      if (const auto* asked = std::get_if<RequestReceived>(&*event)) of_peer_[asked->request.local_comm_id] = asked->id;
      if (const auto* asked = std::get_if<SidrRequested>(&*event)) of_peer_[asked->request.request_id] = asked->id;
    }
  }
  void drain() {
    agent_.handle_deadline(now_);
    MadTo to;
    Bytes out(PARLEY_IB_MAD_LEN);
    while (agent_.poll_transmit(to, out)) ours.push_back(*CmMessage::parse(out));
    while (agent_.poll_event()) {
    }
  }
  std::uint32_t agent_id(ConnectionId id) { return own_.contains(id) ? own_.at(id) : 0; }
  void know(std::uint32_t recorded, ConnectionId id) {
    const auto ids = agent_.ids(id);
    if (!ids) return;
    mine_[recorded] = id;
    own_[id] = ids->local_comm_id;
    recorded_[ids->local_comm_id] = recorded;
  }
  ConnectionId of_peer(std::uint32_t remote) { return of_peer_.contains(remote) ? of_peer_.at(remote) : 0; }
  ConnectionId mine(std::uint32_t local) { return mine_.contains(local) ? mine_.at(local) : 0; }

  void said(const CmReq& m) {
    if (mine_.contains(m.local_comm_id)) return;
    ConnectParameters p{.service_id = m.service_id,
                        .path = {.primary = m.primary, .p_key = m.p_key},
                        .qp_type = m.is_xrc()                   ? QpType::xrc
                                   : m.service == CmService::uc ? QpType::uc
                                                                : QpType::rc,
                        .qpn = m.local_qpn,
                        .starting_psn = m.starting_psn,
                        .responder_resources = m.responder_resources,
                        .initiator_depth = m.initiator_depth,
                        .retry_count = m.retry_count,
                        .rnr_retry_count = m.rnr_retry_count,
                        .path_mtu = m.path_mtu,
                        .local_response_timeout = m.local_cm_response_timeout,
                        .remote_response_timeout = m.remote_cm_response_timeout,
                        .flow_control = m.flow_control,
                        .srq = m.srq,
                        .private_data = m.private_data};
    const auto id = agent_.connect(now_, p);
    ASSERT_TRUE(id) << id.error().message();
    know(m.local_comm_id, *id);
  }
  void said(const CmRep& m) {
    const ConnectionId id = of_peer(m.remote_comm_id);
    know(m.local_comm_id, id);
    (void)agent_.accept(now_, id,
                        {.qpn = m.qpn(),
                         .starting_psn = m.starting_psn,
                         .responder_resources = m.responder_resources,
                         .initiator_depth = m.initiator_depth,
                         .rnr_retry_count = m.rnr_retry_count,
                         .target_ack_delay = m.target_ack_delay,
                         .flow_control = m.flow_control,
                         .srq = m.srq,
                         .private_data = m.private_data});
  }
  void said(const CmRtu& m) { (void)agent_.ready(now_, mine(m.local_comm_id), m.private_data); }
  void said(const CmMra& m) {
    know(m.local_comm_id, of_peer(m.remote_comm_id));
    (void)agent_.send_mra(now_, mine(m.local_comm_id), m.service_timeout, m.private_data);
  }
  void said(const CmRej& m) {
    if (m.reason == CmReject::timeout) return agent_.destroy(now_, mine(m.local_comm_id));
    const bool known = mine_.contains(m.local_comm_id);
    const ConnectionId id = known ? mine(m.local_comm_id) : of_peer(m.remote_comm_id);
    if (!known && m.local_comm_id != 0) know(m.local_comm_id, id);
    (void)agent_.reject(
        now_, id,
        {.reason = m.reason, .info = ConstBytes(m.info).first(m.info_length), .private_data = m.private_data});
  }
  void said(const CmDreq& m) { (void)agent_.disconnect(now_, mine(m.local_comm_id), m.private_data); }
  void said(const CmDrep& m) { (void)agent_.disconnect(now_, mine(m.local_comm_id), m.private_data); }
  void said(const CmSidrReq& m) {
    if (mine_.contains(m.request_id)) return;
    const auto& r = agent_.sidr_request(
        now_, {.service_id = m.service_id,
               .path = {.primary = Path::roce(gid(host_), gid(static_cast<std::uint8_t>(3 - host_))).primary,
                        .p_key = m.p_key},
               .private_data = m.private_data});
    ASSERT_TRUE(r);
    know(m.request_id, *r);
  }
  void said(const CmSidrRep& m) {
    (void)agent_.sidr_reply(now_, of_peer(m.request_id),
                            {.status = m.status, .qpn = m.qpn, .q_key = m.q_key, .private_data = m.private_data});
  }
  template <class M>
  void said(const M&) {}

  std::uint8_t host_;
  Agent agent_;
  Instant now_ = t0;
  std::vector<CmMessage> ours, theirs;
  std::map<std::uint32_t, ConnectionId> mine_, of_peer_;  // by recorded ID of this side, and of the peer
  std::map<ConnectionId, std::uint32_t> own_;             // the Agent's local ID
  std::map<std::uint32_t, std::uint32_t> recorded_;       // of the Agent's local ID
};

TEST(IbcmCaptures, BothSidesOfLinuxArePlayed) {
  std::string out =
      "# What an Agent says in the place of each Linux host of tests/captures/roce, against what that host said. Each "
      "distinct message\n"
      "# counts once; communication and transaction IDs do not. Written by the test IbcmCaptures with "
      "PARLEY_REWRITE=1.\n";
  for (const char* name : {"rxe61_cm", "rxe61_data", "rxe61_errors_loss", "rxe61_mra_mcast_ll",
                           "rxe61_sidr_stale_abort", "rxe61_unreachable"}) {
    const auto all = messages_of(name);
    for (const std::uint8_t host : {std::uint8_t{1}, std::uint8_t{2}}) {
      Player player(host);
      player.play(all);
      out += fmt::format("\n{}, host {}\n{}", name, host, player.report());
    }
  }
  expect_as_reviewed("ibcm_captures.txt", out);
}

}  // namespace
}  // namespace parley::cm::ibcm::captures_test
