// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The software HCA: InfiniBand's transport (IBA vol. 1 §9) between verbs objects on one side and packets from the BTH to
// the pad on the other. Its driver adds and removes Ethernet, IP and UDP headers, computes and checks the ICRC, and
// supplies the time:
//
//   on a packet with a good ICRC    handle_packet(now, from, packet)
//   when next_deadline() has passed handle_deadline(now)
//   after either, and after calls of the user (a request was posted, a queue pair modified):
//     while (poll_transmit(now, to, buffer)) append the ICRC, send
//     while (poll_mad(in)) pass it to the CM's agent, which answers with send_mad; poll_notice() likewise
//
// It is a machine in the sense of base/machine.hpp: pure, and used by one thread. Users see parley/verbs.hpp and
// parley/roce.hpp.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/gid.hpp"
#include "base/packet_groups.hpp"
#include "base/packet_pace.hpp"
#include "base/packet_port.hpp"
#include "nic/common/mr_change.hpp"
#include "parley/roce.hpp"
#include "parley/time.hpp"
#include "parley/verbs.hpp"
#include "parley/wire/ib.h"
#include "wire/ib/quirks.hpp"

namespace parley::nic::roce {

struct DeviceOptions {
  std::string name = "parley";
  /// The port's table of GIDs; the index is GlobalRoute::sgid_index. At most 256. A GID of zeros is an empty place. A
  /// link-local GID may be there once for each link (RFC 4007 §4); the index distinguishes them.
  std::vector<Gid> gids{};
  /// The longest payload of a datagram, and the most that a queue pair may have as its path MTU.
  Mtu port_mtu = Mtu::octets_1024;
  /// The numbers of the first queue pair and of the first XRC shared receive queue. Numbers are assigned in order, and
  /// reused only after all 2^24 have been used. 0: drawn from the seed.
  std::uint32_t first_qpn = 17, first_srqn = 0x20001;
  /// If not 0: the top octet of the numbers of all queue pairs, so that a port that several devices share is divided by
  /// it. At most 254; `first_qpn` is 0 then, or has this octet.
  std::uint8_t qpn_prefix = 0;
  std::uint64_t seed = 1;
  /// If not 0: the address of the first registered region; the others follow, so that the octets on the wire do not
  /// depend on memory addresses. 0: memory addresses, as in verbs.
  std::uint64_t address_base = 0;
  /// Limit of a requester's unacknowledged packets; 1 to 2^23 (IBA §9.7.1: less than half of all PSNs). Linux's rxe:
  /// 128.
  std::uint32_t window = 128;
  /// A requester asks for an ACK with the last packet of each message, and with every n-th one in between. At least 1.
  std::uint32_t ack_every = 64;
  std::uint16_t max_qp_rd_atom = 128, max_qp_init_rd_atom = 128;  ///< limits of max_dest_rd_atomic and max_rd_atomic
  /// An ACK of single-packet messages waits this long for more of them, at most 16; one packet then acknowledges them
  /// all (IBA §9.7.5.1.2). Other answers are sent at once, and include it. 0: no ACK waits.
  Duration ack_delay{};
  /// At most one CNP per queue pair in this time (IBA §A17.9.3); 0: no CNPs at all.
  Duration cnp_interval = std::chrono::microseconds(50);
  /// Departures of another HCA that this one emulates; for tests.
  wire::ib::DepartureSet play{};
};

/// Where a packet came from: fields of its network headers.
struct PacketFrom {
  Gid source{}, destination{};
  /// The index of `destination` in the port's table of GIDs. None: the first place that has it, or a group's address.
  std::optional<std::uint8_t> sgid_index{};
  std::uint8_t traffic_class = 0;  ///< IPv4: type of service; the low two bits are ECN
  std::uint8_t hop_limit = 0;
  std::uint32_t flow_label = 0;
  /// The IPv4 header (20 octets) or the IPv6 header or GRH (40), for the area before a received datagram (IBA §11.4,
  /// IBA §A17). Empty: it is built from the fields above.
  ConstBytes network{};
};

/// Where and how to send a packet.
struct PacketTo {
  Gid source{}, destination{};
  std::uint8_t sgid_index = 0;  ///< the index that `source` has, or had, in the port's table of GIDs
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;
  std::uint16_t source_port = 0;  ///< UDP's; the destination port is PARLEY_ROCE_UDP_PORT
  std::size_t size = 0;           ///< octets written, from the BTH to the pad; the 4 octets of the ICRC follow
};

/// The longest packet from the BTH to the ICRC: the minimum size of poll_transmit's buffer.
inline constexpr std::size_t packet_max = PARLEY_IB_BTH_LEN + 4 + 28 + 4 + PARLEY_IB_MTU_MAX + PARLEY_IB_ICRC_LEN;

using Mad = std::array<std::uint8_t, PARLEY_IB_MAD_LEN>;

/// A management datagram to QP1 (IBA §13.5).
struct MadIn {
  Gid source{}, destination{};
  std::uint8_t sgid_index = 0;  ///< the index of `destination` in the port's table of GIDs
  std::uint32_t source_qpn = 0;
  std::uint16_t p_key = PARLEY_IB_P_KEY_DEFAULT;
  std::uint8_t traffic_class = 0, hop_limit = 0;
  std::uint32_t flow_label = 0;
  Mad octets{};
};

/// A management datagram from QP1.
struct MadOut {
  Gid source{}, destination{};
  std::optional<std::uint8_t> sgid_index{};  ///< the index of `source`. None: the first place that has it
  std::uint32_t dest_qpn = PARLEY_IB_GSI_QPN;
  std::uint32_t q_key = PARLEY_IB_GSI_Q_KEY;  ///< the destination's
  std::uint16_t p_key = PARLEY_IB_P_KEY_DEFAULT;
  std::uint8_t traffic_class = 0, hop_limit = 64;
  std::uint32_t flow_label = 0;
  Mad octets{};
};

/// Why a queue pair of a connection went to ERR by itself.
struct QpFailure {
  enum class Cause : std::uint8_t {
    none,
    no_ack,       ///< IBA §9.7.6.1: a request was retransmitted `retries` times, and not acknowledged within `elapsed`
    not_ready,    ///< IBA §9.7.5.2.8: the peer had no receive for it, `retries` times in a row
    nak,          ///< the peer refused a request with the NAK `code`
    sent_nak,     ///< this side refused a request of the peer with the NAK `code`
    silence,      ///< no sign of life within QpWatch::dead_after: `elapsed`
    unreachable,  ///< ICMP reported twice that there is no receiver any more, and the peer was silent for `elapsed`
    local,        ///< memory of a request is gone, or the peer's response did not fit
  };
  Cause cause = Cause::none;
  std::uint8_t code = 0;  ///< wire::ib::Nak
  std::uint32_t retries = 0;
  Duration elapsed{};  ///< since the last packet of the peer, or since the oldest request was sent
};

/// The keepalive for a silent peer of an RC queue pair: a Write of no octets, which costs its program neither a receive
/// nor a completion (IBA §9.4.3; C9-88: its R_Key is not checked). cm::Liveness; 0: never.
struct QpWatch {
  Duration keepalive{}, dead_after{};
  /// PeerSilent is reported this long before `dead_after` is over; 0: never. Only to the manager of a connection (RoceQp::owner).
  Duration warning{};
  bool on() const { return keepalive > Duration{} || dead_after > Duration{}; }
};

/// A queue pair, as its connection manager sees it.
class RoceQp : public parley::roce::QueuePair {
 public:
  /// For the manager, to find the queue pair's connection. If it is not 0, comm_est and qp_fatal are reported only to
  /// the manager.
  std::uint64_t owner = 0;
  /// post_send() for each of them, in order; if one is refused, none is posted. Errors: those of post_send().
  virtual Result<void> post_sends(std::span<const SendWr> all) = 0;
  /// Posted send requests that are not complete.
  virtual std::size_t sends_open() const = 0;
  /// Applies from now on, in RTS. Only RC sends keepalives; without acknowledgments (UC, UD) there is nothing to wait
  /// for.
  virtual void watch(Instant now, const QpWatch& watch) = 0;
  /// The network reports that there is no receiver at the peer's address. A watched queue pair accepts that the second
  /// time.
  virtual void handle_unreachable(Instant now) = 0;
  virtual const QpFailure& failure() const = 0;
};

/// The peer is silent, and counts as dead when QpWatch::warning has passed too.
struct PeerSilent {};

/// Events of a queue pair for the connection manager. The user gets the same as an AsyncEvent, except PeerSilent.
struct QpNotice {
  std::variant<QueuePairEvent::Kind, PeerSilent> what;
  RoceQp* qp = nullptr;
};

// X(name, text)
#define PARLEY_ROCE_COUNTERS(X)                                                                    \
  X(packets_sent, "packets sent")                                                                  \
  X(packets_received, "packets received, dropped ones too")                                        \
  X(dropped_malformed, "too short, or more pad than payload")                                      \
  X(dropped_opcode, "no opcode of a queue pair's service")                                         \
  X(dropped_version, "transport header version not 0")                                             \
  X(dropped_destination, "to a GID that is none of the port's")                                    \
  X(dropped_qpn, "to a queue pair that there is not, or of another service")                       \
  X(dropped_state, "to a queue pair that does not take packets in its state")                      \
  X(dropped_address, "not from the path that a connected queue pair has")                          \
  X(dropped_p_key, "with another P_Key")                                                           \
  X(dropped_q_key, "datagrams with another Q_Key")                                                 \
  X(dropped_srqn, "to an XRC shared receive queue that there is not, or of another domain")        \
  X(dropped_sequence, "requests ahead of the expected PSN, or out of a lost message")              \
  X(dropped_response, "responses that answer nothing")                                             \
  X(dropped_duplicate, "duplicate Reads and Atomics not remembered, or whose region is gone")      \
  X(dropped_receive, "UC, UD: no receive posted, or one that is too short")                        \
  X(dropped_request, "UC, UD: requests that a reliable queue pair would have answered with a NAK") \
  X(dropped_mad, "datagrams to QP1 that are not MADs, or that arrived while its queue was full")   \
  X(dropped_busy, "requests that have to wait for the responses to others")                        \
  X(duplicates, "requests that had been executed already")                                         \
  X(naks_sent, "NAKs sent, without RNR")                                                           \
  X(naks_received, "NAKs received, without RNR")                                                   \
  X(rnr_sent, "RNR NAKs sent")                                                                     \
  X(rnr_received, "RNR NAKs received")                                                             \
  X(timeouts, "ACK timers that ran out")                                                           \
  X(retries, "times that a requester went back to an earlier PSN")                                 \
  X(cnp_sent, "congestion notifications sent")                                                     \
  X(cnp_held, "CE marks within cnp_interval of the last notification")                             \
  X(cnp_received, "congestion notifications received")

struct Counters {
#define PARLEY_X(name, text) std::uint64_t name = 0;
  PARLEY_ROCE_COUNTERS(PARLEY_X)
#undef PARLEY_X
};

class RoceDevice : public Device {
 public:
  /// Like create_qp, with the manager's interface.
  virtual Result<std::unique_ptr<RoceQp>> create_roce_qp(const QpInit& init) = 0;
  /// The queue pair of this device with that number; null if there is none.
  virtual RoceQp* find_qp(std::uint32_t qp_num) const = 0;

  /// A GID of zeros empties the place. Queue pairs and address handles keep the GID that they were set up with. Errors:
  /// invalid_argument (index above 255).
  virtual Result<void> set_gid(std::uint8_t index, const Gid& gid) = 0;
  /// reg_mr() with `iova` as the address of the first octet, for both keys: ibv_reg_mr_iova. Errors: those of reg_mr(), and
  /// invalid_argument (the addresses run over the end of the 64-bit space).
  virtual Result<MemoryRegion> reg_mr_iova(PdHandle pd, MutBytes memory, std::uint64_t iova, Access access) = 0;
  /// dereg_mr() for programs that do not wait for their requests. Posted receives that use the region lose their
  /// buffers, so that the next message fails. A queue pair that sends from the region, or is receiving a message into
  /// it, fails at once. Errors: invalid_argument, wrong_state (memory windows are bound to the region; nothing is changed).
  virtual Result<void> withdraw_mr(std::uint32_t lkey) = 0;
  /// ibv_rereg_mr: the keys stay. A change of the memory gives the region its addresses. Errors: invalid_argument,
  /// wrong_state (posted requests use the region, or memory windows are bound to it); then the region stays as it was.
  virtual Result<void> rereg_mr(std::uint32_t lkey, const MrChange& change) = 0;
  /// All zeros if there is none.
  virtual Gid gid(std::uint8_t index) const = 0;
  virtual std::optional<std::uint8_t> find_gid(const Gid& gid) const = 0;

  /// Sets the object that joins the groups of queue pairs from now on; not owned. Null: none, and attach_multicast() is
  /// refused. Before the first call no object is needed: the driver is assumed to deliver the packets of all groups.
  virtual void set_groups(PacketGroups* groups) noexcept = 0;
  /// Who is asked before packets of UC and UD are sent; not owned. Null, as at first: they are sent at once.
  virtual void set_pace(PacketPace* pace) noexcept = 0;

  /// `packet` is from the BTH to the ICRC, which the caller has checked (wire::ib::icrc) or ignores.
  virtual void handle_packet(Instant now, const PacketFrom& from, ConstBytes packet) = 0;
  /// The next packet, from the BTH to the pad: `to.size` octets at the beginning of `out`, which has at least
  /// packet_max. False: nothing to send until an input, a call of the user, or next_deadline().
  virtual bool poll_transmit(Instant now, PacketTo& to, MutBytes out) = 0;
  /// Packets that poll_transmit would return one by one, as long as they belong to one queue pair and are in the middle
  /// of one message; otherwise a single one. PacketMachine::poll_packets(), with packet_max for the longest; `to.size`
  /// applies to each.
  virtual PacketRun poll_run(Instant now, std::size_t most, PacketTo& to, MutBytes out) = 0;
  /// PacketMachine::place_of() and handle_placed().
  virtual PacketPlacement place_of(const PacketFrom& from, std::size_t size, ConstBytes packets) = 0;
  virtual void handle_placed(Instant now, const PacketFrom& from, std::size_t size, ConstBytes packets) = 0;
  /// poll_transmit would return a packet.
  virtual bool has_transmit() const = 0;
  /// May be early: handle_deadline then does nothing.
  virtual Instant next_deadline() const = 0;
  virtual void handle_deadline(Instant now) = 0;

  /// QP1. At most 1024 received and 1024 outgoing datagrams are queued; more are dropped and counted.
  virtual bool poll_mad(MadIn& mad) = 0;
  /// Errors: invalid_argument (the source is not a GID of the port), no_space.
  virtual Result<void> send_mad(const MadOut& mad) = 0;

  /// Events of queue pairs, in order; at most one of each kind per queue pair is pending. Those of a destroyed one are
  /// dropped.
  virtual std::optional<QpNotice> poll_notice() = 0;
  /// poll_mad or poll_notice would return something.
  virtual bool has_news() const = 0;
  /// Neither has_news() nor has_transmit(), and next_deadline() is later.
  virtual bool is_quiet(Instant now) const = 0;
  /// An event is pending in a completion channel or in poll_async_event().
  virtual bool has_events() const = 0;
  virtual const Counters& counters() const = 0;
};

/// Errors: invalid_argument, with a sentence that names the option.
Result<std::unique_ptr<RoceDevice>> make_device(const DeviceOptions& options);

}  // namespace parley::nic::roce
