// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The interface of a case of InfiniBand's CM and transport to the peer under test: connections, functions to send
// correct and faulty packets, and a record of the exchange. It shares only the codecs of wire/ib with Parley's own CM
// and NIC.
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

using wire::ib::CmBody;
using wire::ib::CmMessage;
using wire::ib::CmReject;
using wire::ib::CmSubject;
using wire::ib::Nak;
using wire::ib::Operation;

struct Settings {
  Iut iut = Iut::responder;  ///< the peer's role
  /// The peer's host, or the tester's own address if the peer connects. The port is rdma_cm's, not UDP's.
  Address target{};
  Duration connect = 5s;     ///< for a service that is still starting
  Duration reply = 5s;       ///< for an answer
  Duration timer = 10s;      ///< for the peer's own timers: Linux retransmits a REQ after 6.1 s
  Duration patience = 30s;   ///< initiator: for its next REQ
  Duration quiet = 700ms;    ///< how long a peer must be silent where no answer is expected
  Duration pause = 100ms;    ///< between two cases
  Ulp ulp = Ulp::unknown;    ///< the program above the peer
  std::uint64_t seed = 1;    ///< of IDs, QPNs and PSNs; vary it, since a peer remembers them for a while
  unsigned refused_max = 3;  ///< after so many cases in a row without an answer the rest is not run
};

/// A packet from the peer on a connection, or silence.
struct PeerPacket {
  bool silence = true;
  Instant at{};
  Address from{}, to{};
  wire::ib::Bth bth;
  wire::ib::Deth deth;
  wire::ib::Aeth aeth;
  wire::ib::Reth reth;
  Bytes payload;
  std::optional<CmMessage> message;  ///< of the CM
  std::string unreadable;            ///< why a MAD of the CM's class is not a message of the CM
  std::string unreachable;           ///< silence: the system's error for the path, if any

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
  /// A description without IDs, QPNs and PSNs, which differ from run to run.
  std::string text() const;
};

/// How a packet differs from a correct one.
struct Faults {
  std::optional<std::uint32_t> q_key, dest_qpn;
  std::optional<std::uint16_t> p_key;
  std::optional<std::uint8_t> opcode, pad_count;
  std::uint8_t tver = 0;
  bool reserved = false;  ///< sets bits of the BTH that are reserved or that a receiver ignores
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
/// The time from an MRA within which its sender must answer (IBA §12.9): the service timeout plus the REQ's local ACK
/// timeout, `ack_timeout`.
Duration time_asked_for(const wire::ib::CmMra& mra, std::uint8_t ack_timeout);
/// A zero-length Write: it needs neither a receive nor memory of the peer (IBA §9.7.4.1).
Request nothing(std::uint32_t psn);

/// A connection in any state.
struct Link {
  unsigned number = 1;  ///< within the case
  wire::ib::CmReq req;
  std::optional<wire::ib::CmRep> rep;  ///< the first one received
  std::uint64_t transaction_id = 0;
  std::uint32_t psn = 0;         ///< of the tester's next request
  bool ended = false;            ///< a REJ or DREP came
  std::deque<PeerPacket> heard;  // received, not yet returned by receive(); at most Tester::exchanges_max

  std::uint32_t next_psn() {
    const std::uint32_t now = psn;
    psn = (psn + 1) & 0xFFFFFF;
    return now;
  }
  // For a connection that the peer initiated: its REQ, and the tester's REP.
  bool passive = false;
  PeerPacket first;  ///< the REQ or SIDR_REQ as it came
  wire::ib::CmReq asked;
  wire::ib::CmRep reply;
  std::optional<wire::ib::CmSidrReq> resolving;  ///< the peer resolves a UD service instead
  bool replied = false;                          ///< the REP was sent
  bool acks = true;                              ///< the peer's requests are acknowledged on arrival
  bool spoke = false;                            ///< a request of the peer arrived
  std::uint32_t msn = 0;

  std::uint32_t id() const { return passive ? reply.local_comm_id : req.local_comm_id; }
  std::uint32_t peer_id() const { return passive ? asked.local_comm_id : rep ? rep->local_comm_id : 0; }
  std::uint32_t qpn() const { return passive ? reply.local_qpn : req.local_qpn; }
  std::uint32_t peer_qpn() const { return passive ? asked.local_qpn : rep ? rep->local_qpn : 0; }
  /// The connection may exist on the peer's side.
  bool begun() const { return passive ? replied : rep.has_value(); }
};
constexpr std::uint32_t psn_after(std::uint32_t psn, std::uint32_t n) { return (psn + n) & 0xFFFFFF; }

class Tester {
 public:
  static constexpr std::size_t exchanges_max = 512;  ///< kept per case
  static constexpr std::size_t links_max = 64;       ///< connections of a case; also waiting REQs and SIDR_REQs
  static constexpr std::size_t over_max = 256;       ///< remembered IDs of REQs and SIDR_REQs that a case has used

  Tester(tester::PacketPeer& peer, const Settings& settings)
      : peer_(peer), settings_(settings), rng_(settings.seed), ca_guid_(draw_guid()) {}

  const Settings& settings() const { return settings_; }
  tester::PacketPeer& peer() { return peer_; }
  /// Binds the tester's own address; call it before anything is sent. False: why() has the reason.
  Task<bool> bind();

  /// A new connection with its own IDs and an ordinary REQ. Beyond links_max the oldest one is dropped.
  Link& link();
  std::uint32_t draw(std::uint32_t most) { return static_cast<std::uint32_t>(rng_.next() % most); }
  Bytes mad(const Link& link, const CmBody& body) const;
  void send(Link& link, const CmBody& body, const Faults& faults = {});
  void send_mad(Link& link, std::string words, ConstBytes mad, const Faults& faults = {});
  void send_req(Link& link) { send(link, link.req); }
  void send_rtu(Link& link);
  void send_rep(Link& link);
  void send_rej(Link& link, CmReject reason, CmSubject about = CmSubject::req);
  void send_dreq(Link& link);
  void send_request(Link& link, const Request& request, const Faults& faults = {});
  /// Sends an ACK or NAK.
  void send_ack(Link& link, std::uint32_t psn, std::uint8_t syndrome);

  /// The next packet on that connection.
  Task<PeerPacket> receive(Link& link, Duration patience);
  /// An expected answer: receive() for Settings::reply.
  Task<PeerPacket> answer(Link& link) { return receive(link, settings_.reply); }
  /// The answer to the REQ that was sent. After an MRA it waits for the time that the MRA asks for, then retransmits
  /// the REQ. An MRA is returned only if it asks for more time than Settings::connect leaves.
  Task<PeerPacket> decision(Link& link) {
    return decision(link, [this, &link] { send_req(link); });
  }
  /// The same for another REQ than Link::req: `again` retransmits it.
  Task<PeerPacket> decision(Link& link, std::function<void()> again) {
    return decision(link, std::move(again), settings_.reply, peer_.now() + settings_.connect);
  }
  /// An unexpected packet or, as expected, silence: receive() for Settings::quiet.
  Task<PeerPacket> rest(Link& link) { return receive(link, settings_.quiet); }
  /// Initiator: waits for the peer's next REQ and prepares an ordinary REP. Null: trouble() says why.
  Task<Link*> await_request();
  /// The same for a SIDR_REQ. If none came the first time, later calls do not wait.
  Task<Link*> resolving();
  /// Waits for the peer's first request or the end of the connection. A program that sees the end of its connection
  /// before it has seen its start may hang, as stock rping does.
  Task<> until_it_speaks(Link& link, Duration patience);
  /// Sends the REQ and waits for the REP. Retransmits the REQ if it may be lost, or if the service is not there yet.
  /// False: trouble() says why.
  Task<bool> ask(Link& link);
  /// The same, then sends the RTU.
  Task<bool> set_up(Link& link);
  Observation trouble() const { return trouble_; }
  void set_trouble(std::string observed) { trouble_ = {Verdict::inconclusive, std::move(observed)}; }
  bool accepted() const { return accepted_; }
  /// The first MAD of the CM's class in this case that is not a message of the CM; empty: none.
  const std::string& unreadable() const { return unreadable_; }
  bool nobody_resolves() const { return nobody_resolves_; }
  void note_accepted() { accepted_ = true; }
  /// Packets that came from the peer, of any kind.
  std::uint64_t heard() const { return heard_; }
  const std::string& why() const { return why_; }

  std::vector<Exchange>& exchanges() { return exchanges_; }
  /// Sends a DREQ on the open connections of the case and waits briefly for the DREPs.
  Task<> close();
  void clear();
  /// Drops the peer's REQs and SIDR_REQs that no case has used.
  void drop_arrived();

 private:
  Task<PeerPacket> decision(Link& link, std::function<void()> again, Duration patience, Instant limit);
  void note(const Link& link, bool by_tester, std::string words, ConstBytes octets);
  void put(ConstBytes packet, const Faults& faults);
  void drain();
  void read_message(PeerPacket& heard);
  Link* owner_of(const PeerPacket& heard);
  void keep_unowned(PeerPacket heard);
  void refuse_again(Link& forgotten, const PeerPacket& heard);
  Task<Link*> arrival(bool sidr);
  void on_packet(Link& link, PeerPacket heard, ConstBytes octets);
  std::uint64_t draw_guid() { return (rng_.next() & ~(std::uint64_t{3} << 56)) | std::uint64_t{2} << 56; }

  tester::PacketPeer& peer_;
  const Settings& settings_;
  Rng rng_;
  std::uint64_t ca_guid_;
  std::uint32_t gsi_psn_ = 0;
  std::optional<Address> local_, remote_;  // remote_: as configured, or the source of the last REQ or SIDR_REQ
  std::deque<PeerPacket> arrived_;         // REQs and SIDR_REQs; at most links_max
  std::deque<std::uint32_t> over_;         // at most over_max
  std::deque<Link> links_;                 // at most links_max
  std::vector<Exchange> exchanges_;
  Observation trouble_;
  bool accepted_ = false, nobody_resolves_ = false;
  std::uint64_t heard_ = 0;
  std::string why_, unreadable_;
};

}  // namespace parley::conform::ibcm
