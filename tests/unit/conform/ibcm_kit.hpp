// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The cases of InfiniBand's CM and transport against Parley's own stack over RoCEv2 in virtual time. What stands between the
// two may change, add or lose packets: so a peer is made that breaks one rule.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>

#include "base/bytes_io.hpp"
#include "base/gid.hpp"
#include "cm/providers/roce/roce.hpp"
#include "conform/core/report.hpp"
#include "conform/ibcm/judge.hpp"
#include "conform/ibcm/run.hpp"
#include "parley/cm.hpp"
#include "tests/unit/verbs_kit.hpp"
#include "wire/ib/mad.hpp"

namespace parley::conform::ibcm::kit {

inline constexpr std::uint16_t port = 7174;

/// The program above the stack under test.
struct Under {
  unsigned receives = 4;
  std::size_t receive_size = 4096;
  bool rping = false;  ///< reads the memory that a message names
  bool rejects = false;
  /// So many programs that connect to the tester, again and again, and send at once; and one that asks for a service of UD.
  unsigned connects = 0;
  std::string quirk{};  ///< what the stack plays
  std::uint32_t pending_max = cm::ListenOptions{}.pending_max;
};

class Stage {
 public:
  /// From the BTH to the pad; false: it is lost.
  using Mangle = std::function<bool(Stage&, const PacketPath&, Bytes&)>;

  explicit Stage(const Under& under = {}) : under_(under) {
    cm::RoceProviderOptions options;
    options.ca_guid = 0x0200'0000'0000'0002;
    options.seed = 7;
    options.play_quirk = under.quirk;
    provider_ = cm::make_roce_provider(options);
    manager_ = std::make_unique<cm::Manager>(*provider_, cm::ManagerOptions{});
    settings.target = Address::v4(192, 0, 2, under.connects != 0 ? 1 : 2, port);
    if (under.connects != 0) {
      settings.iut = Iut::initiator;
      settings.patience = 2s;
    } else {
      listener_ = *manager_->listen(settings.target, {.pending_max = under.pending_max});
    }
    settings.seed = 11;
    if (under.rping) settings.ulp = Ulp::rping;
  }
  ~Stage() { peer.stop(); }

  /// What a broken peer says comes after this time. Two packets of different queue pairs prove their order in a capture only
  /// if 20 ms are between them.
  Duration say_after = 5us;
  /// What a broken peer says to the tester.
  void say(ConstBytes packet) {
    ++said;
    to_tester_.emplace_back(packet.begin(), packet.end());
  }
  void say(const CmBody& body, std::uint64_t transaction_id) {
    Bytes mad(PARLEY_IB_MAD_LEN);
    const CmMessage message{.transaction_id = transaction_id, .body = body};
    message.emit(mad);
    wire::ib::Packet packet;
    packet.bth.opcode = wire::ib::opcode_of(wire::ib::Service::ud, Operation::send_only);
    packet.bth.dest_qpn = PARLEY_IB_GSI_QPN;
    packet.deth.q_key = PARLEY_IB_GSI_Q_KEY;
    packet.deth.source_qpn = PARLEY_IB_GSI_QPN;
    packet.payload = mad;
    Bytes octets(packet.size());
    packet.emit(octets);
    octets.resize(octets.size() - PARLEY_IB_ICRC_LEN);
    say(octets);
  }
  /// An answer on the queue pair that last sent a request.
  void say_ack(std::uint32_t qpn, std::uint32_t psn, std::uint8_t syndrome, std::uint32_t msn) {
    wire::ib::Packet packet;
    packet.bth.opcode = wire::ib::opcode_of(wire::ib::Service::rc, Operation::acknowledge);
    packet.bth.dest_qpn = qpn;
    packet.bth.psn = psn;
    packet.aeth = {.syndrome = syndrome, .msn = msn};
    Bytes octets(packet.size());
    packet.emit(octets);
    octets.resize(octets.size() - PARLEY_IB_ICRC_LEN);
    say(octets);
  }

  /// Takes all the room that the listener has: REQs of another host, made from the sound one that `req` is, about which its program
  /// comes to no decision until make_room().
  void fill(wire::ib::CmReq req) {
    wire::ib::CmaHeader{Address::v4(192, 0, 2, 3, 40000), settings.target}.emit(req.private_data);
    req.primary.local_gid = gid_of(other_host_);
    req.local_ca_guid = 0x0200'0000'0000'0003;
    for (std::uint32_t i = 0; i < under_.pending_max; ++i) {
      req.local_comm_id = req.local_qpn = ++others_;
      say(req, others_);
      Bytes octets = std::move(to_tester_.back());
      to_tester_.pop_back();
      octets.resize(octets.size() + PARLEY_IB_ICRC_LEN);
      provider_->handle_packet(now, {.local = Address::v4(192, 0, 2, 2, 0), .peer = other_host_}, octets);
    }
  }
  void make_room() {
    for (cm::Id& id : undecided_) (void)id.reject();
    undecided_.clear();
  }

  std::vector<Result> run(const std::function<bool(const Case&)>& wanted = {}) {
    std::vector<const Case*> list;
    for (const Case* c : ibcm::cases(settings.iut))
      if (!wanted || wanted(*c)) list.push_back(c);
    runner = std::make_unique<Run>(peer, settings, list, Selection{}, hooks);
    peer.start(now, runner->script());
    EXPECT_TRUE(until([this] { return peer.done(); })) << "it hangs";
    return runner->results();
  }
  bool until(const std::function<bool()>& over, Duration limit = std::chrono::hours(3)) {
    const Instant end = now + limit;
    for (;;) {
      while (turn()) {
      }
      if (over()) return true;
      Instant next = std::min(peer.next_deadline(), provider_->next_deadline());
      if (redial_ > now) next = std::min(next, redial_);
      if (!items_.empty()) next = std::min(next, items_.begin()->first.first);
      if (next == never || next > end) return false;
      now = std::max(now, next);
      deliver();
    }
  }

  Settings settings;
  Hooks hooks;
  tester::PacketPeer peer;
  std::unique_ptr<Run> runner;
  Mangle in, out;  ///< towards the peer, and from it
  /// Sees each packet that arrives, as a capture at the peer would; from the BTH to the ICRC, which is not made.
  std::function<void(Instant, const PacketPath&, ConstBytes)> tap;
  Instant now{1s};
  std::uint64_t said = 0;  ///< packets that a broken peer added
  bool there = true;       ///< else the system says that nothing receives the packets

 private:
  struct Link {
    cm::Id id;
    std::unique_ptr<Verbs> verbs;
    QueuePair* qp = nullptr;
    bool up = false, datagrams = false;
  };
  struct Item {
    bool to_peer = false;
    PacketPath path;
    Bytes octets;
  };

  bool turn() {
    bool any = false;
    PacketCommand command;
    provider_->handle_deadline(now);
    for (; peer.poll_command(command); any = true) peer.handle_bound(now, command.id, Address::v4(192, 0, 2, 1, 0));
    for (; provider_->poll_command(command); any = true)
      if (command.kind == PacketCommand::Kind::bind)
        provider_->handle_bound(now, command.id, Address::v4(192, 0, 2, 2, 0));
    std::array<std::uint8_t, PacketMachine::packet_max + PARLEY_IB_ICRC_LEN> octets;
    PacketPath path;
    while (const std::size_t size = peer.poll_packet(now, path, octets)) {
      post(true, path, ConstBytes(octets).first(size));
      any = true;
    }
    while (const std::size_t size = provider_->poll_packet(now, path, octets)) {
      post(false, path, ConstBytes(octets).first(size));
      any = true;
    }
    for (; !to_tester_.empty(); any = true) {
      number(to_tester_.front());
      items_.emplace(std::pair{now + say_after, ++order_}, Item{false, {}, std::move(to_tester_.front())});
      to_tester_.pop_front();
    }
    while (auto event = manager_->poll_event()) {
      handle(*event);
      any = true;
    }
    any |= dial();
    for (auto& [number, link] : links_) serve(link);
    return any;
  }
  /// The programs that connect: one more where one is missing, a little later than its end.
  bool dial() {
    if (under_.connects == 0 || links_.size() > under_.connects || now < redial_) return false;
    const auto resolves = [](const auto& entry) { return entry.second.datagrams; };
    Link link;
    link.datagrams = std::none_of(links_.begin(), links_.end(), resolves);
    link.verbs = std::make_unique<Verbs>(manager_->device());
    cm::ConnectOptions options;
    ib::Options ib;
    ib.qp_type = link.datagrams ? QpType::ud : QpType::rc;
    options.transport = ib;
    options.qp = link.verbs->qp();
    options.qp->type = ib.qp_type;
    link.id = *manager_->connect(Address::v4(192, 0, 2, 1, port), options);
    links_[link.id.number()] = std::move(link);
    redial_ = now + 5ms;
    return true;
  }
  /// Numbers the packets from the peer's QP 1, those of its stack and those that say() adds, as one queue pair does.
  void number(Bytes& octets) {
    const auto bth = wire::ib::Bth::parse(octets);
    if (!bth || bth->dest_qpn != PARLEY_IB_GSI_QPN) return;
    gsi_psn_ = (gsi_psn_ + 1) & 0xFFFFFF;
    Writer w(MutBytes(octets).subspan(8));
    w.be32(octets[8] << 24 | gsi_psn_);  // behind AckReq
  }
  void post(bool to_peer, const PacketPath& path, ConstBytes octets) {
    Bytes own(octets.begin(), octets.end());
    if (!to_peer) number(own);
    items_.emplace(std::pair{now + 10us, ++order_}, Item{to_peer, path, std::move(own)});
  }
  void deliver() {
    peer.handle_deadline(now);
    provider_->handle_deadline(now);
    while (!items_.empty() && items_.begin()->first.first <= now) {
      Item item = std::move(items_.begin()->second);
      items_.erase(items_.begin());
      if (item.to_peer && !there) {
        peer.handle_unreachable(now, item.path, std::make_error_code(std::errc::connection_refused));
        continue;
      }
      if (!item.to_peer && item.path.peer.octets == other_host_.octets) continue;  // nobody listens to what it is told
      const Mangle& mangle = item.to_peer ? in : out;
      if (mangle && !mangle(*this, item.path, item.octets)) continue;
      item.octets.resize(item.octets.size() + PARLEY_IB_ICRC_LEN);
      const Address tester = Address::v4(192, 0, 2, 1, 0), under = Address::v4(192, 0, 2, 2, 0);
      PacketPath path{.local = item.to_peer ? under : tester, .peer = item.to_peer ? tester : under};
      path.bad_icrc = item.path.bad_icrc;
      if (tap) tap(now, path, item.octets);
      if (item.to_peer && path.bad_icrc) continue;  // the driver's part
      if (item.to_peer) {
        provider_->handle_packet(now, path, item.octets);
      } else {
        peer.handle_packet(now, path, item.octets);
      }
    }
  }
  void handle(const cm::Event& event) {
    if (const auto* asked = std::get_if<cm::ConnectRequest>(&event)) {
      if (asked->peer.octets == other_host_.octets) {
        undecided_.push_back(asked->id);
        return;
      }
      Link link;
      link.id = asked->id;
      if (under_.rejects) {
        (void)link.id.reject();
        return;
      }
      link.verbs = std::make_unique<Verbs>(manager_->device());
      const auto qp = link.id.create_qp(link.verbs->qp());
      if (!qp) return;  // failed meanwhile
      link.qp = *qp;
      for (unsigned i = 0; i < under_.receives; ++i) (void)link.verbs->recv(*link.qp, 0, under_.receive_size);
      (void)link.id.accept();
      links_[link.id.number()] = std::move(link);
    }
    std::uint64_t over = 0;
    if (const auto* up = std::get_if<cm::Established>(&event); up != nullptr && under_.connects != 0)
      if (const auto found = links_.find(up->id.number()); found != links_.end()) {
        Link& link = found->second;
        link.qp = link.id.qp();
        link.up = !link.datagrams;
        if (link.up) (void)link.verbs->send(*link.qp, 0, 16);
        if (link.datagrams) over = found->first;
      }
    if (const auto* e = std::get_if<cm::Rejected>(&event)) over = e->id.number();
    if (const auto* e = std::get_if<cm::Disconnected>(&event)) over = e->id.number();
    if (const auto* e = std::get_if<cm::ConnectFailed>(&event)) over = e->id.number();
    if (const auto found = links_.find(over); found != links_.end()) {
      found->second.id.destroy();
      links_.erase(found);
      redial_ = now + 5ms;
    }
  }
  void serve(Link& link) {
    for (const WorkCompletion& wc : link.verbs->poll()) {
      if (link.up && wc.status != WcStatus::success) {
        link.up = false;
        (void)link.id.disconnect();
      }
      if (!under_.rping || wc.opcode != WcOpcode::recv || wc.status != WcStatus::success || wc.byte_len != 16) continue;
      const Sge sink = link.verbs->at(4096, 64);
      const Region region = rping_region(rping_advertisement());
      (void)link.qp->post_send(
          {.opcode = SendWr::Opcode::rdma_read, .sges = {&sink, 1}, .remote_addr = region.to, .rkey = region.stag});
    }
  }

  Under under_;
  std::unique_ptr<cm::RoceProvider> provider_;
  std::unique_ptr<cm::Manager> manager_;
  cm::Id listener_;
  std::map<std::uint64_t, Link> links_;
  std::multimap<std::pair<Instant, std::uint64_t>, Item> items_;
  std::deque<Bytes> to_tester_;
  const Address other_host_ = Address::v4(192, 0, 2, 3, 0);
  std::vector<cm::Id> undecided_;  // of the other host
  std::uint32_t others_ = 0x100;   // REQs of it
  std::uint64_t order_ = 0;
  std::uint32_t gsi_psn_ = 0;  // of the last packet from the peer's QP 1
  Instant redial_{};           // the next connect(), not before
};

inline std::string words(const std::vector<Result>& results) {
  std::string out;
  for (const Result& r : results)
    out += fmt::format("{} {}: {}\n", to_string(r.finding.verdict), r.what->name, r.finding.observed);
  return out;
}

}  // namespace parley::conform::ibcm::kit
