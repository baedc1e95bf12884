// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The software HCA: InfiniBand's transport (IBA vol. 1 §9) between verbs objects on one side and packets from the BTH to the
// pad on the other. Who drives it puts Ethernet, IP and UDP around packets, makes and checks the ICRC, and gives the time:
//
//   on a packet with a good ICRC    handle_packet(now, from, packet)
//   when next_deadline() is past    handle_deadline(now)
//   after either, and after the user had a turn (a request was posted, a queue pair modified):
//     while (poll_transmit(now, to, buffer)) append the ICRC, send
//     while (poll_mad(in)) give it to the CM's agent, which answers with send_mad; poll_notice() likewise
//
// It is a machine as base/machine.hpp has it: pure, and one thread's. Users see parley/verbs.hpp and parley/roce.hpp.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/gid.hpp"
#include "base/packet_groups.hpp"
#include "base/packet_port.hpp"
#include "parley/roce.hpp"
#include "parley/time.hpp"
#include "parley/verbs.hpp"
#include "parley/wire/ib.h"
#include "wire/ib/quirks.hpp"

namespace parley::nic::roce {

struct DeviceOptions {
  std::string name = "parley";
  /// The port's table of GIDs; the place in it is GlobalRoute::sgid_index. At most 256. A GID of zeros is an empty place. A link-local
  /// GID may be there once for each link (RFC 4007 §4); what tells them apart is the place.
  std::vector<Gid> gids{};
  /// The longest payload of a datagram, and the most that a queue pair may have as its path MTU.
  Mtu port_mtu = Mtu::octets_1024;
  /// Of the first queue pair and of the first XRC shared receive queue; the next get the next numbers, and a number comes back only
  /// when all 2^24 have been used. 0: drawn from the seed.
  std::uint32_t first_qpn = 17, first_srqn = 0x20001;
  std::uint64_t seed = 1;
  /// If not 0: the address of the first registered region; the others follow, so that what goes over the wire does not depend on
  /// where memory lies. 0: addresses are those of the memory, as in verbs.
  std::uint64_t address_base = 0;
  /// Packets that a requester may have unacknowledged; 1 to 2^23 (IBA §9.7.1: less than half of all PSNs). Linux's rxe: 128.
  std::uint32_t window = 128;
  /// A requester asks for an ACK with each message's last packet, and with every so many in between. At least 1.
  std::uint32_t ack_every = 64;
  std::uint16_t max_qp_rd_atom = 128, max_qp_init_rd_atom = 128;  ///< limits of max_dest_rd_atomic and max_rd_atomic
  /// An ACK of messages of one packet each waits so long for more of them, and for 16 at most; one packet acknowledges them all
  /// (IBA §9.7.5.1.2). What else answers a packet goes at once, and takes it along. 0: none waits.
  Duration ack_delay{};
  /// At most one CNP for each queue pair in this time (IBA §A17.9.3); 0: no CNPs at all.
  Duration cnp_interval = std::chrono::microseconds(50);
  /// Departures of another HCA that this one plays; for tests.
  wire::ib::DepartureSet play{};
};

/// How a packet came: what its network headers said.
struct PacketFrom {
  Gid source{}, destination{};
  /// Where `destination` is in the port's table of GIDs. None: at the first place that has it; or it is a group's.
  std::optional<std::uint8_t> sgid_index{};
  std::uint8_t traffic_class = 0;  ///< IPv4: type of service; the low two bits are ECN
  std::uint8_t hop_limit = 0;
  std::uint32_t flow_label = 0;
  /// The IPv4 header (20 octets) or the IPv6 header or GRH (40), for the area in front of a received datagram (IBA §11.4,
  /// IBA §A17). Empty: it is made from the fields above.
  ConstBytes network{};
};

/// How a packet shall go.
struct PacketTo {
  Gid source{}, destination{};
  std::uint8_t sgid_index = 0;  ///< where `source` is, or was, in the port's table of GIDs
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;
  std::uint16_t source_port = 0;  ///< UDP's; the destination port is PARLEY_ROCE_UDP_PORT
  std::size_t size = 0;           ///< octets written, from the BTH to the pad; the ICRC's 4 come behind them
};

/// The longest packet from the BTH to the ICRC: what poll_transmit's buffer must hold.
inline constexpr std::size_t packet_max = PARLEY_IB_BTH_LEN + 4 + 28 + 4 + PARLEY_IB_MTU_MAX + PARLEY_IB_ICRC_LEN;

using Mad = std::array<std::uint8_t, PARLEY_IB_MAD_LEN>;

/// A management datagram to QP1 (IBA §13.5).
struct MadIn {
  Gid source{}, destination{};
  std::uint8_t sgid_index = 0;  ///< where `destination` is in the port's table of GIDs
  std::uint32_t source_qpn = 0;
  std::uint16_t p_key = PARLEY_IB_P_KEY_DEFAULT;
  std::uint8_t traffic_class = 0, hop_limit = 0;
  std::uint32_t flow_label = 0;
  Mad octets{};
};

/// One from QP1.
struct MadOut {
  Gid source{}, destination{};
  std::optional<std::uint8_t> sgid_index{};  ///< where `source` is. None: at the first place that has it
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
    no_ack,       ///< IBA §9.7.6.1: a request was sent again `retries` times, and not acknowledged in `elapsed`
    not_ready,    ///< IBA §9.7.5.2.8: the peer had no receive for it, `retries` times in a row
    nak,          ///< the peer refused a request with the NAK `code`
    sent_nak,     ///< this side refused a request of the peer with the NAK `code`
    silence,      ///< QpWatch::dead_after is over: `elapsed`
    unreachable,  ///< ICMP says that nothing receives there any more, twice, and the peer was silent for `elapsed`
    local,        ///< memory of a request is gone, or a response of the peer did not fit it
  };
  Cause cause = Cause::none;
  std::uint8_t code = 0;  ///< wire::ib::Nak
  std::uint32_t retries = 0;
  Duration elapsed{};  ///< since the peer was last heard, or the oldest request went
};

/// What is asked of a silent peer of an RC queue pair: a Write of no octets, which costs its program neither a receive nor a completion
/// (IBA §9.4.3; C9-88: its R_Key is not looked at). cm::Liveness; 0: never.
struct QpWatch {
  Duration keepalive{}, dead_after{};
  /// QpNotice::silent is reported this long before `dead_after` is over; 0: never. Only to the manager of a connection (RoceQp::owner).
  Duration warning{};
  bool on() const { return keepalive > Duration{} || dead_after > Duration{}; }
};

/// A queue pair, as who manages its connection sees it.
class RoceQp : public parley::roce::QueuePair {
 public:
  /// The manager's own, to find what belongs to the queue pair. If it is not 0, comm_est and qp_fatal are told to the manager alone.
  std::uint64_t owner = 0;
  /// Send requests that are posted and not complete.
  virtual std::size_t sends_open() const = 0;
  /// From now on, in RTS. Only RC asks silent peers; where nothing is acknowledged (UC, UD) there is nothing to wait for.
  virtual void watch(Instant now, const QpWatch& watch) = 0;
  /// The network says that nothing receives at the peer's address. A queue pair that is watched believes it the second time.
  virtual void handle_unreachable(Instant now) = 0;
  virtual const QpFailure& failure() const = 0;
};

/// What the manager of connections must know of a queue pair. The user gets the same as an AsyncEvent.
struct QpNotice {
  QueuePairEvent::Kind kind = QueuePairEvent::Kind::qp_fatal;
  RoceQp* qp = nullptr;
  bool silent =
      false;  ///< no event (`kind` says nothing): the peer is silent, and dead when QpWatch::warning is over as well
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
  X(dropped_mad, "datagrams to QP1 that are no MAD, or while its queue was full")                  \
  X(dropped_busy, "requests while as many responses wait as can")                                  \
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
  /// As create_qp, with the manager's view.
  virtual Result<std::unique_ptr<RoceQp>> create_roce_qp(const QpInit& init) = 0;
  /// The queue pair of this device with that number; null if there is none.
  virtual RoceQp* find_qp(std::uint32_t qp_num) const = 0;

  /// A GID of zeros empties the place. Queue pairs and address handles keep the GID that they were set up with. Errors:
  /// invalid_argument (index above 255).
  virtual Result<void> set_gid(std::uint8_t index, const Gid& gid) = 0;
  /// dereg_mr() for programs that do not wait for their requests: posted receives that use the region have no room any more, so that the
  /// next message fails, and a queue pair that sends from it, or receives a message into it, fails at once. Errors: invalid_argument.
  virtual Result<void> withdraw_mr(std::uint32_t lkey) = 0;
  /// Of zeros where there is none.
  virtual Gid gid(std::uint8_t index) const = 0;
  virtual std::optional<std::uint8_t> find_gid(const Gid& gid) const = 0;

  /// Who joins the groups that queue pairs attach to, from now on; it stays the caller's. Null: nobody does, and attach_multicast() is
  /// refused. Before the first call nobody is asked: whoever brings packets brings those of all groups.
  virtual void set_groups(PacketGroups* groups) noexcept = 0;

  /// `packet` is from the BTH to the ICRC, which the caller has found right (wire::ib::icrc) or does not check.
  virtual void handle_packet(Instant now, const PacketFrom& from, ConstBytes packet) = 0;
  /// The next packet, from the BTH to the pad: `to.size` octets at the beginning of `out`, which has at least packet_max. False:
  /// nothing is to be sent now, until an input, a call of the user's, or next_deadline().
  virtual bool poll_transmit(Instant now, PacketTo& to, MutBytes out) = 0;
  /// Those that poll_transmit would give one by one, as long as they are of one queue pair and in the middle of one message; else one.
  /// PacketMachine::poll_packets(), with packet_max for the longest; `to.size` is that of each.
  virtual PacketRun poll_run(Instant now, std::size_t most, PacketTo& to, MutBytes out) = 0;
  /// PacketMachine::place_of() and handle_placed().
  virtual PacketPlace place_of(const PacketFrom& from, std::size_t size, ConstBytes packets) = 0;
  virtual void handle_placed(Instant now, const PacketFrom& from, std::size_t size, ConstBytes packets) = 0;
  /// poll_transmit would give something.
  virtual bool has_transmit() const = 0;
  /// May be early: handle_deadline then does nothing.
  virtual Instant next_deadline() const = 0;
  virtual void handle_deadline(Instant now) = 0;

  /// QP1. At most 1024 wait to be taken and as many to be sent; what comes when the queue is full is dropped and counted.
  virtual bool poll_mad(MadIn& mad) = 0;
  /// Errors: invalid_argument (the source is no GID of the port), no_space.
  virtual Result<void> send_mad(const MadOut& mad) = 0;

  /// What happened to queue pairs, in order; at most one of each kind of each queue pair waits. Those of a destroyed one are gone.
  virtual std::optional<QpNotice> poll_notice() = 0;
  /// poll_mad or poll_notice would give something.
  virtual bool has_news() const = 0;
  /// Neither has_news() nor has_transmit(), and next_deadline() is later.
  virtual bool is_quiet(Instant now) const = 0;
  /// Something waits in a completion channel or in poll_async_event().
  virtual bool has_events() const = 0;
  virtual const Counters& counters() const = 0;
};

/// Errors: invalid_argument, with a sentence that names the option.
Result<std::unique_ptr<RoceDevice>> make_device(const DeviceOptions& options);

}  // namespace parley::nic::roce
