// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a case of InfiniBand's CM and transport works with: connections to the peer under test, ways to send right and wrong
// packets, and a record of the exchange. It shares the codecs of wire/ib with Parley's own CM and NIC, and nothing else.
#pragma once
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "conform/core/case.hpp"
#include "conform/core/tester.hpp"
#include "tester/packet_peer.hpp"
#include "wire/ib/cm.hpp"
#include "wire/ib/cma.hpp"
#include "wire/ib/packet.hpp"

namespace parley::conform::ibcm {

using wire::ib::CmAbout;
using wire::ib::CmBody;
using wire::ib::CmMessage;
using wire::ib::CmReject;
using wire::ib::Nak;
using wire::ib::Operation;

struct Settings {
  Iut iut = Iut::responder;  ///< what the peer is
  /// Its host, or the tester's own address if the peer connects; the port is that of the service (rdma_cm's, not UDP's).
  Address target{};
  Duration connect = 5s;     ///< for a service that is only being started
  Duration reply = 5s;       ///< for an answer
  Duration timer = 10s;      ///< for the peer's own timers: Linux sends a REQ again after 6.1 s
  Duration patience = 30s;   ///< initiator: for its next REQ
  Duration quiet = 700ms;    ///< how long a peer must be silent where nothing is due
  Duration pause = 100ms;    ///< between two cases
  Ulp ulp = Ulp::unknown;    ///< the program above the peer
  std::uint64_t seed = 1;    ///< of IDs and numbers, which a peer remembers for a while
  unsigned refused_max = 3;  ///< cases without any answer after which the rest is not run
};

/// What came from the peer on a connection.
struct Heard {
  bool silence = true;
  Instant at{};
  Address from{}, to{};
  wire::ib::Bth bth;
  wire::ib::Deth deth;
  wire::ib::Aeth aeth;
  wire::ib::Reth reth;
  Bytes payload;
  std::optional<CmMessage> message;  ///< of the CM
  std::string unreadable;            ///< it is of the CM's class, and no message of the CM: why
  std::string unreachable;           ///< silence: what the system said of the way

  template <class M>
  const M* as() const {
    return message ? std::get_if<M>(&message->body) : nullptr;
  }
  bool is(Operation operation) const {
    return !silence && bth.dest_qpn != PARLEY_IB_GSI_QPN &&
           bth.opcode == wire::ib::opcode_of(wire::ib::Service::rc, operation);
  }
  bool is_ack() const;
  bool is_nak(Nak nak) const;
  bool is_rnr() const;
  bool is_request() const;  ///< of the transport, on a queue pair
  /// Without IDs, numbers of queue pairs and PSNs, which differ from run to run.
  std::string words() const;
};

/// How a packet differs from a right one.
struct Faults {
  std::optional<std::uint32_t> q_key, dest_qpn;
  std::optional<std::uint16_t> p_key;
  std::optional<std::uint8_t> opcode, pad_count;
  std::uint8_t tver = 0;
  bool reserved = false;  ///< bits of the BTH that are reserved, or say nothing to a receiver, are set
  bool bad_icrc = false;
};

/// A request of the transport.
struct Request {
  Operation operation = Operation::write_only;
  wire::ib::Reth reth{};
  wire::ib::AtomicEth atomic{};
  Bytes payload{};
  bool ack_req = true;
  std::uint32_t psn = 0;
};
/// From an MRA on its sender has so long for the answer: IBA §12.9, the service timeout and the time of the way. `ack_timeout` is
/// that of the REQ.
Duration time_asked_for(const wire::ib::CmMra& mra, std::uint8_t ack_timeout);
/// A Write of nothing: the one request that needs neither a receive nor memory of the peer (IBA §9.7.4.1).
Request nothing(std::uint32_t psn);

/// A connection, as far as the tester has come with it.
struct Link {
  unsigned number = 1;  ///< of the case
  wire::ib::CmReq req;
  std::optional<wire::ib::CmRep> rep;  ///< the first that came
  std::uint64_t transaction_id = 0;
  std::uint32_t psn = 0;    ///< of the tester's next request
  bool ended = false;       ///< a REJ or DREP came
  std::deque<Heard> heard;  // not taken; at most Tester::exchanges_max

  std::uint32_t next_psn() {
    const std::uint32_t now = psn;
    psn = (psn + 1) & 0xFFFFFF;
    return now;
  }
  // Of one that the peer began: its REQ, and the REP that the tester has for it.
  bool passive = false;
  Heard first;  ///< the REQ or SIDR_REQ as it came
  wire::ib::CmReq asked;
  wire::ib::CmRep reply;
  std::optional<wire::ib::CmSidrReq> resolving;  ///< it asks for a service of UD instead
  bool replied = false;                          ///< the REP went out
  bool acks = true;                              ///< the peer's requests are acknowledged as they come
  bool spoke = false;                            ///< a request of the peer's came
  std::uint32_t msn = 0;

  std::uint32_t id() const { return passive ? reply.local_comm_id : req.local_comm_id; }
  std::uint32_t peer_id() const { return passive ? asked.local_comm_id : rep ? rep->local_comm_id : 0; }
  std::uint32_t qpn() const { return passive ? reply.local_qpn : req.local_qpn; }
  std::uint32_t peer_qpn() const { return passive ? asked.local_qpn : rep ? rep->local_qpn : 0; }
  /// The peer may have it by now.
  bool begun() const { return passive ? replied : rep.has_value(); }
};
constexpr std::uint32_t psn_after(std::uint32_t psn, std::uint32_t n) { return (psn + n) & 0xFFFFFF; }

class Tester {
 public:
  static constexpr std::size_t exchanges_max = 512;  ///< kept per case
  static constexpr std::size_t links_max = 64;       ///< of a case, and of REQs that wait for theirs
  static constexpr std::size_t over_max = 256;       ///< IDs of REQs that are over

  Tester(tester::PacketPeer& peer, const Settings& settings)
      : peer_(peer), settings_(settings), rng_(settings.seed), ca_guid_(draw_guid()) {}

  const Settings& settings() const { return settings_; }
  tester::PacketPeer& peer() { return peer_; }
  /// The tester's own address is needed before anything is sent. False: why().
  Task<bool> bind();

  /// A connection with IDs of its own and a REQ that asks for nothing unusual. At most links_max.
  Link& link();
  std::uint32_t draw(std::uint32_t most) { return static_cast<std::uint32_t>(rng_.next() % most); }
  Bytes mad(const Link& link, const CmBody& body) const;
  void send(Link& link, const CmBody& body, const Faults& faults = {});
  void send_mad(Link& link, std::string words, ConstBytes mad, const Faults& faults = {});
  void send_req(Link& link) { send(link, link.req); }
  void send_rtu(Link& link);
  void send_rep(Link& link);
  void send_rej(Link& link, CmReject reason, CmAbout about = CmAbout::req);
  void send_dreq(Link& link);
  void send_request(Link& link, const Request& request, const Faults& faults = {});
  /// An ACK or NAK of the tester.
  void send_ack(Link& link, std::uint32_t psn, std::uint8_t syndrome);

  /// What comes next on that connection.
  Task<Heard> hear(Link& link, Duration patience);
  /// The answer that is due: hear() for Settings::reply.
  Task<Heard> answer(Link& link) { return hear(link, settings_.reply); }
  /// The answer to the REQ that was sent. After an MRA the peer has the time that it asks for, then the REQ goes again; an MRA is
  /// returned only where that time is longer than Settings::connect leaves.
  Task<Heard> decision(Link& link) {
    return decision(link, [this, &link] { send_req(link); });
  }
  /// Of a REQ that was no usual one: `again` sends it once more.
  Task<Heard> decision(Link& link, std::function<void()> again) {
    return decision(link, std::move(again), settings_.reply, peer_.now() + settings_.connect);
  }
  /// What comes though nothing is due: hear() for Settings::quiet.
  Task<Heard> rest(Link& link) { return hear(link, settings_.quiet); }
  /// Initiator: its next REQ, and a REP that asks for nothing unusual. Null: trouble() says why.
  Task<Link*> asked();
  /// The same of a SIDR_REQ. Where none came once, none is waited for again.
  Task<Link*> resolving();
  /// Until the peer's first request, or the end: a program that hears of the end of its connection before it has seen its begin may
  /// hang, as stock rping does.
  Task<> until_it_speaks(Link& link, Duration patience);
  /// REQ and REP; the REQ goes again if it may be lost, or if the service is not there yet. False: trouble() says why.
  Task<bool> ask(Link& link);
  /// The same, and the RTU.
  Task<bool> set_up(Link& link);
  Observation trouble() const { return trouble_; }
  void set_trouble(std::string observed) { trouble_ = {Verdict::inconclusive, std::move(observed)}; }
  bool accepted() const { return accepted_; }
  /// What came in this case that is of the CM's class and no message of it; empty: nothing.
  const std::string& unreadable() const { return unreadable_; }
  bool nobody_resolves() const { return nobody_resolves_; }
  void note_accepted() { accepted_ = true; }
  /// Packets that came from the peer, of any kind.
  std::uint64_t heard() const { return heard_; }
  const std::string& why() const { return why_; }

  std::vector<Exchange>& exchanges() { return exchanges_; }
  /// Ends the connections of the case, as far as the peer takes part.
  Task<> close();
  void clear();
  /// Requests of the peer's that no case has taken.
  void drop_arrived();

 private:
  Task<Heard> decision(Link& link, std::function<void()> again, Duration patience, Instant limit);
  void note(const Link& link, bool by_tester, std::string words, ConstBytes octets);
  void put(ConstBytes packet, const Faults& faults);
  void drain();
  void read_message(Heard& heard);
  Link* owner_of(const Heard& heard);
  void take_unowned(Heard heard);
  void refuse_again(Link& forgotten, const Heard& heard);
  Task<Link*> arrival(bool sidr);
  void take(Link& link, Heard heard, ConstBytes octets);
  std::uint64_t draw_guid() { return (rng_.next() & ~(std::uint64_t{3} << 56)) | std::uint64_t{2} << 56; }

  tester::PacketPeer& peer_;
  const Settings& settings_;
  Rng rng_;
  std::uint64_t ca_guid_;
  std::uint32_t gsi_psn_ = 0;
  std::optional<Address> local_, remote_;  // the peer: as told, or where the last REQ came from
  std::deque<Heard> arrived_;              // REQs; at most links_max
  std::deque<std::uint32_t> over_;         // at most over_max
  std::deque<Link> links_;                 // at most links_max
  std::vector<Exchange> exchanges_;
  Observation trouble_;
  bool accepted_ = false, nobody_resolves_ = false;
  std::uint64_t heard_ = 0;
  std::string why_, unreadable_;
};

}  // namespace parley::conform::ibcm
