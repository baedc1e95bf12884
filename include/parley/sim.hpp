// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A network in virtual time: hosts with a software RNIC or RoCE HCA, switches, full-duplex links, faults, and a tap at every
// link end. A run is a pure function of (commit, topology, calls, seed): it uses no clock, socket, thread or global, and two
// worlds in one process are independent. docs/simulator.md lists what is modelled and what is not.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parley/cm.hpp"
#include "parley/iwarp.hpp"
#include "parley/ratio.hpp"
#include "parley/roce_options.hpp"

namespace parley {
class Rng;
class PacketMachine;
class StreamMachine;
}  // namespace parley
namespace parley::cm {
class IwarpProvider;
}

namespace parley::sim {

/// A value, or a sentence that describes the error and its position.
template <class T>
using Checked = tl::expected<T, std::string>;

using NodeId = std::uint32_t;  ///< host or switch, in order of creation from 0
using LinkId = std::uint32_t;  ///< in order of creation from 0

struct LinkOptions {
  std::uint64_t rate_bps = 100'000'000'000;  ///< per direction; not 0
  Duration delay = std::chrono::microseconds(1);
  std::uint32_t queue_octets =
      1 << 20;               ///< limit of the transmit queue, per direction; frames beyond it are dropped (tail drop)
  std::uint16_t mtu = 1500;  ///< octets of an IP packet; 576..9000
};

struct SwitchOptions {
  /// While more octets than this are queued for a link, ECN-capable packets to it are marked (CE, RFC 3168 §5). 0: never.
  std::uint32_t ecn_threshold = 0;
};

/// How hosts learn the MAC addresses of their neighbours.
enum class Neighbours : std::uint8_t {
  discovered,  ///< by ARP and IPv6 neighbour discovery; a host announces its addresses when it starts
  known,       ///< from the start; likewise, switches know the port of each host. No host announces itself, and ARP and
               ///< neighbour discovery occur only for addresses that no host has
};
std::string_view to_string(Neighbours neighbours);

/// Direction of a link; forward is away from the end named first in add_link.
enum class LinkDirection : std::uint8_t { forward, backward, both };

struct TcpOptions {
  std::uint32_t send_buffer = 256 << 10;
  std::uint32_t receive_buffer = 256 << 10;
  bool window_scale = true;    ///< RFC 7323 §2
  bool sack_permitted = true;  ///< RFC 2018 §2: announced, and blocks are sent; the sender uses cumulative ACKs only
  bool timestamps = true;      ///< RFC 7323 §3
  Duration rto_initial = std::chrono::seconds(1);     ///< RFC 6298 §2.1
  Duration rto_min = std::chrono::milliseconds(200);  ///< as Linux, below RFC 6298 §2.4
  Duration rto_max = std::chrono::seconds(60);
  Duration delayed_ack =
      std::chrono::milliseconds(40);  ///< upper bound; every second full segment is acknowledged at once
  std::uint8_t syn_retries = 6;
  std::uint8_t retries = 15;  ///< retransmissions of data before the connection ends with timeout
  Duration time_wait = std::chrono::seconds(60);
};

/// The program on a host. Calls come from within World::step; an App may call all of Host except crash and restart.
class Host;
class App {
 public:
  virtual ~App() = default;
  /// At the first step and after each restart: listen, connect, register memory. The Manager is new.
  virtual void on_start(Host& host) = 0;
  /// The host has crashed, or its process has ended: drop all its cm::Id, QueuePair, CompletionQueue and MemoryRegion objects now,
  /// while the device still exists. Nothing may be sent to peers.
  virtual void on_crash(Host& host) = 0;
  /// Something happened in the NIC: poll cm().poll_event() and the completion queues until they are empty.
  virtual void on_turn(Host& host) = 0;
  /// A timer of Host::set_timer expired.
  virtual void on_timer(Host& host, std::uint64_t cookie) = 0;
};

/// The RDMA engine of a NIC.
enum class NicEngine : std::uint8_t {
  iwarp,  ///< the host's software RNIC uses it
  roce,   ///< the host's software HCA uses it: RoCEv2
  none,   ///< plain Ethernet: no connection uses it; an incoming SYN is reset
};
std::string_view to_string(NicEngine engine);

/// A network interface of a host: a port to one link, with its own addresses.
struct NicOptions {
  std::string name{};     ///< letters, digits, '.', '_' and '-'; links, captures and reports call it "host/name"
  std::uint16_t mtu = 0;  ///< octets of an IP packet, 576..9000; 0: the link's. The lower of the two applies
  NicEngine engine = NicEngine::iwarp;
  /// The lower half of its link-local address (RFC 4291 §2.5.6). It must be unique on the link, but may repeat on other
  /// links. 0: derived from the MAC address.
  std::uint64_t interface_id = 0;
  bool operator==(const NicOptions&) const = default;
};

/// A host is an IP stack with a list of NICs. All NICs with RDMA use the same engine.
struct HostOptions {
  TcpOptions tcp{};
  cm::IwarpProviderOptions rnic{};
  /// For a host with a RoCE engine; the host draws ca_guid and seed.
  cm::RoceProviderOptions hca{};
  /// For the NICs that links create; those of `nics` have their own setting.
  NicEngine engine = NicEngine::iwarp;
  /// By default no keepalives are sent: a run ends when no event is left.
  cm::ManagerOptions manager{.endpoints_max = cm::endpoints_default, .liveness = {Duration{}, Duration{}}};
  bool ipv6 = true;
  /// Neighbours are also learnt from announcements (Linux's arp_accept, RFC 9131), so that a host on a large segment need
  /// not solicit each of them.
  bool learn_announcements = false;
  std::uint32_t ring = 1024;  ///< frames kept while paused; further frames are dropped
  /// At most 200. Empty: each link creates a NIC, p1, p2, ... in the order of links.
  std::vector<NicOptions> nics{};
};

struct HostCounters {
  std::uint64_t frames_in = 0, frames_out = 0;
  std::uint64_t discarded = 0;  ///< wrong checksum or length, or not addressed to this host
  std::uint64_t tcp_retransmits = 0, tcp_timeouts = 0, tcp_out_of_order = 0, resets_sent = 0;
  std::uint64_t neighbour_failures = 0;
  std::uint64_t cnp_sent = 0,
                cnp_held = 0;  ///< RoCE: CE marks answered with a CNP, and CE marks too soon after one
  std::uint64_t cnp_received = 0;
  std::uint64_t cm_resent = 0;  ///< RoCE: CM messages retransmitted after a timeout
  std::size_t streams = 0, streams_peak = 0;
  std::size_t send_queue_peak = 0, reassembly_peak = 0;  ///< octets, in one connection
};

class Host {
 public:
  virtual ~Host() = default;
  virtual NodeId id() const = 0;
  virtual const std::string& name() const = 0;
  virtual Instant now() const = 0;
  virtual std::size_t nic_count() const = 0;
  virtual std::string nic_name(std::uint16_t nic) const = 0;
  /// The address of a NIC, counted from 0: 10.<network>.x.y, 2001:db8:<network>::n.
  virtual Address address(Address::Family family = Address::Family::v4, std::uint16_t nic = 0) const = 0;
  virtual Address link_local(std::uint16_t nic = 0) const = 0;

  /// The software RNIC or HCA of the current incarnation. Not to be used while the host is down.
  virtual cm::Manager& cm() = 0;
  virtual Device& device() = 0;
  virtual cm::IwarpProvider& provider() = 0;  ///< not for a host with RoCE
  /// Endpoints that hold memory at present.
  virtual std::size_t endpoint_count() const = 0;
  /// Replaces the RNIC by another machine (a raw peer, a plain TCP program). Call before the first step; not owned. cm()
  /// and device() may not be used then.
  virtual void set_machine(StreamMachine* machine) = 0;
  /// Replaces the HCA by a peer that speaks RoCEv2; otherwise the same.
  virtual void set_machine(PacketMachine* machine) = 0;
  virtual void set_app(App* app) = 0;  ///< not owned
  virtual void set_timer(Instant at, std::uint64_t cookie) = 0;

  virtual bool up() const = 0;
  virtual bool paused() const = 0;
  virtual std::uint32_t incarnation() const = 0;  ///< 1 for the first
  virtual void crash() = 0;                       ///< nothing is sent; the state of TCP and NIC is lost
  virtual void restart() = 0;                     ///< a new incarnation; crashes first if up
  virtual void pause() = 0;                       ///< frames wait in the ring, timers fire late
  virtual void resume() = 0;
  /// Its process ends, by exit or SIGKILL, while its kernel runs on: the kernel resets TCP connections, closes ports, and answers
  /// datagrams to a closed port by ICMP. App::on_crash is called, and no other function of the App until restart(). No-op with a machine
  /// that was passed to set_machine().
  virtual void end_process() = 0;
  /// Its process stops (SIGSTOP), while its kernel runs on: TCP acknowledges what fits into the receive buffer, and
  /// HostOptions::ring RoCE packets wait in the socket.
  virtual void stop_process() = 0;
  virtual void continue_process() = 0;
  virtual bool process_stopped() const = 0;
  virtual bool process_ended() const = 0;
  virtual HostCounters counters() const = 0;
};

// ---- faults ------------------------------------------------------------------------------------------------------

/// The protocols whose messages faults and masks can name, from the lowest layer up. Each has a table of its message kinds
/// and how to find them (sim/fault/layer.hpp).
enum class Layer : std::uint8_t {
  any,
  arp,
  nd,  ///< IPv6 neighbour discovery
  tcp,
  mpa,
  rdmap,
  roce,  ///< packets of RoCEv2
  cm,    ///< the InfiniBand CM, in RoCEv2 packets to QP 1
};
std::string_view to_string(Layer layer);  ///< "mpa"
std::optional<Layer> parse_layer(std::string_view text);

/// What a frame carries in terms of a protocol: a layer and one of its message kinds. A frame may carry several.
struct MessageKind {
  Layer layer = Layer::any;
  std::uint8_t kind = 0;  ///< index in the layer's table
  constexpr auto operator<=>(const MessageKind&) const = default;

  static const MessageKind any;
  static const MessageKind arp_request, arp_reply;
  static const MessageKind nd_solicit, nd_advert;
  static const MessageKind tcp_syn, tcp_syn_ack;
  static const MessageKind tcp_ack;  ///< no payload, no SYN, FIN or RST
  static const MessageKind tcp_fin, tcp_rst;
  static const MessageKind tcp_data;                ///< any payload
  static const MessageKind mpa_request, mpa_reply;  ///< the frame contains its first octet
  static const MessageKind mpa_rtr;  ///< the Rtr startup frame, or the initiator's first FPDU if it is empty
  static const MessageKind fpdu;     ///< the first octet of FPDU number `fpdu` (1: the first of its direction); 0: any
  static const MessageKind terminate;                              ///< an FPDU that is an RDMAP Terminate
  static const MessageKind roce_packet;                            ///< any
  static const MessageKind roce_send;                              ///< each packet of a Send on RC, UC or XRC
  static const MessageKind roce_datagram;                          ///< a Send on UD, except to QP 1
  static const MessageKind roce_write, roce_read_request;          ///< each packet of an RDMA Write; RDMA Read Request
  static const MessageKind roce_read_response;                     ///< each packet of a response
  static const MessageKind roce_atomic, roce_atomic_ack;           ///< compare and swap, fetch and add; the response
  static const MessageKind roce_ack;                               ///< an Acknowledge that is not a NAK
  static const MessageKind roce_nak;                               ///< any NAK, including RNR NAKs
  static const MessageKind roce_nak_sequence, roce_nak_request;    ///< PSN sequence error; invalid request
  static const MessageKind roce_nak_access, roce_nak_operational;  ///< remote access error, remote operational error
  static const MessageKind roce_nak_rnr, roce_cnp;                 ///< receiver not ready; Congestion Notification
  static const MessageKind cm_message;                             ///< any message of the CM
  static const MessageKind cm_req, cm_mra, cm_rej, cm_rep, cm_rtu, cm_dreq, cm_drep, cm_sidr_req, cm_sidr_rep, cm_lap,
      cm_apr;
};
inline constexpr MessageKind MessageKind::any{};
inline constexpr MessageKind MessageKind::arp_request{Layer::arp, 0}, MessageKind::arp_reply{Layer::arp, 1};
inline constexpr MessageKind MessageKind::nd_solicit{Layer::nd, 0}, MessageKind::nd_advert{Layer::nd, 1};
inline constexpr MessageKind MessageKind::tcp_syn{Layer::tcp, 0}, MessageKind::tcp_syn_ack{Layer::tcp, 1},
    MessageKind::tcp_ack{Layer::tcp, 2}, MessageKind::tcp_fin{Layer::tcp, 3}, MessageKind::tcp_rst{Layer::tcp, 4},
    MessageKind::tcp_data{Layer::tcp, 5};
inline constexpr MessageKind MessageKind::mpa_request{Layer::mpa, 0}, MessageKind::mpa_reply{Layer::mpa, 1},
    MessageKind::mpa_rtr{Layer::mpa, 2}, MessageKind::fpdu{Layer::mpa, 3};
inline constexpr MessageKind MessageKind::terminate{Layer::rdmap, 0};
inline constexpr MessageKind MessageKind::roce_packet{Layer::roce, 0}, MessageKind::roce_send{Layer::roce, 1},
    MessageKind::roce_datagram{Layer::roce, 2}, MessageKind::roce_write{Layer::roce, 3},
    MessageKind::roce_read_request{Layer::roce, 4}, MessageKind::roce_read_response{Layer::roce, 5},
    MessageKind::roce_atomic{Layer::roce, 6}, MessageKind::roce_atomic_ack{Layer::roce, 7},
    MessageKind::roce_ack{Layer::roce, 8}, MessageKind::roce_nak{Layer::roce, 9},
    MessageKind::roce_nak_sequence{Layer::roce, 10}, MessageKind::roce_nak_request{Layer::roce, 11},
    MessageKind::roce_nak_access{Layer::roce, 12}, MessageKind::roce_nak_operational{Layer::roce, 13},
    MessageKind::roce_nak_rnr{Layer::roce, 14}, MessageKind::roce_cnp{Layer::roce, 15};
inline constexpr MessageKind MessageKind::cm_message{Layer::cm, 0}, MessageKind::cm_req{Layer::cm, 1},
    MessageKind::cm_mra{Layer::cm, 2}, MessageKind::cm_rej{Layer::cm, 3}, MessageKind::cm_rep{Layer::cm, 4},
    MessageKind::cm_rtu{Layer::cm, 5}, MessageKind::cm_dreq{Layer::cm, 6}, MessageKind::cm_drep{Layer::cm, 7},
    MessageKind::cm_sidr_req{Layer::cm, 8}, MessageKind::cm_sidr_rep{Layer::cm, 9}, MessageKind::cm_lap{Layer::cm, 10},
    MessageKind::cm_apr{Layer::cm, 11};

/// As in scenarios: "mpa_request", "fpdu", "terminate".
std::string_view to_string(MessageKind message);
/// Parses that form, and "mpa.request", "mpa.fpdu": the layer and its kind.
std::optional<MessageKind> parse_message_kind(std::string_view text);

struct Match {
  MessageKind message = MessageKind::any;
  std::uint32_t fpdu = 0;  ///< MessageKind::fpdu
  /// Only the n-th TCP connection over this link, in the order of the SYNs. With a `message` of RoCE: the n-th RoCE
  /// connection, in the order of the REQs in either direction. 0: all.
  std::uint32_t connection = 0;
  /// The first matching frame that is affected (retransmissions count), and how many from there on; times 0: all of them.
  std::uint32_t nth = 1;
  std::uint32_t times = 0;
  std::optional<std::uint32_t> psn{};  ///< only RoCE packets with this PSN (24 bits), as on the wire
  bool operator==(const Match&) const = default;
};

enum class FaultAction : std::uint8_t {
  drop,
  duplicate,    ///< `count` additional copies
  delay,        ///< by `delay` plus up to `jitter`; later frames may overtake only with `reorder`
  corrupt,      ///< flips bits of the finished frame: the receiver's checksums detect it
  corrupt_mpa,  ///< flips a bit of the matched message (`field`) and corrects the checksums: the damage reaches MPA
  truncate,     ///< cuts the frame to `octets`
  cut_stream,   ///< cuts the TCP payload to `octets` of the matched message with correct checksums; FIN follows
  reset,        ///< the frame passes, then both ends get a RST with a correct sequence number
  set_rate,     ///< changes the link's rate to `rate_bps` at `from`, and back to its initial rate at `until`
  crash,        ///< crashes `host` when the frame passes (or at `from` with match any and no way), after `delay`
  restart,
  pause,
  resume,
  corrupt_roce,  ///< damages or sets a `field` of a RoCE packet; the ICRC is corrected, unless it is the field
  end_process,   ///< Host::end_process() of `host`, when crash would crash it; likewise the next two
  stop_process,
  continue_process,
};
std::string_view to_string(FaultAction action);
std::optional<FaultAction> parse_fault_action(std::string_view text);

/// The field that corrupt_mpa and corrupt_roce damage. From `opcode` on: RoCE only; from `attribute` on: CM messages only.
enum class MessageField : std::uint8_t {
  key,
  flags,
  revision,
  pd_length,
  private_data,  ///< of MPA and of the CM
  length,        ///< ULPDU_Length; RoCE: the RETH's DMA length
  payload,
  marker,
  crc,  ///< RoCE: the ICRC
  opcode,
  p_key,
  qpn,  ///< the BTH's destination
  psn,
  q_key,
  address,
  r_key,
  syndrome,
  msn,
  attribute,
  transaction,
  local_id,  ///< communication ID of the sender; SIDR: the request ID
  remote_id,
  service_id,
  queue_pair,  ///< the QPN that the message names
  starting_psn,
  reason,  ///< of a REJ
  status,  ///< of an APR or a SIDR_REP
};
std::string_view to_string(MessageField field);
std::optional<MessageField> parse_message_field(std::string_view text);

/// One rule: when, which frames, how likely, what. The rules of a link are tried in order. Once a rule has dropped a frame,
/// later rules do not act on it, but each rule still counts every frame that was put on the link.
struct FaultRule {
  std::string name{};        ///< shown in captures and reports; empty: derived from the rest
  std::uint32_t number = 0;  ///< shown too; 0: assigned per direction of a link
  Instant from{};
  Instant until = never;
  Match match{};
  Ratio chance{1, 1};
  /// Instead of chance: bit i set means that the i-th matching frame (from 0) is hit; bits above 63 are 0.
  std::optional<std::uint64_t> mask{};
  FaultAction action = FaultAction::drop;
  Duration delay{}, jitter{};
  bool reorder = false;
  std::uint32_t count = 1;   ///< duplicate: copies; corrupt: bits
  std::uint32_t octets = 0;  ///< truncate, cut_stream
  std::uint64_t rate_bps = 0;
  MessageField field = MessageField::crc;
  std::optional<std::uint64_t> value{};  ///< corrupt_roce: the field's new value; none: one of its bits is flipped
  NodeId host = 0;
  std::string host_name{};  ///< for messages; the world sets it
  std::string to_string() const;
};

/// Why a frame did not arrive.
enum class DropReason : std::uint8_t { none, rule, queue_full, too_big, host_down, ring_full, discarded };
std::string_view to_string(DropReason reason);

// ---- observing ---------------------------------------------------------------------------------------------------

/// A frame at one end of a link. A sent frame is reported before the faults, a received one after them.
struct TapFrame {
  Instant at{};
  LinkId link = 0;
  std::uint8_t end = 0;        ///< 0: the end named first
  bool outbound = true;        ///< sent by this end
  std::uint64_t frame_id = 0;  ///< the same at both ends and for copies
  ConstBytes octets;           ///< the whole Ethernet frame without FCS; borrowed for the call
  DropReason drop = DropReason::none;
  /// A fault on this frame may make TCP deliver octets other than those sent.
  bool changes_stream = false;
  std::string_view note{};  ///< what was done to it and why: "dropped by rule 2 (loss)", "bad TCP checksum"; or empty
};
/// The subject of a Tap::on_note.
enum class NoteKind : std::uint8_t {
  crashed,
  restarted,
  paused,
  resumed,
  process_ended,
  process_stopped,
  process_continued,
  restless,  ///< a host's machine and App keep requesting turns while no time passes
  rate,      ///< of a link
};
class Tap {
 public:
  virtual ~Tap() = default;
  virtual void on_frame(const TapFrame& frame) = 0;
  /// An event other than a frame: "host b crashed", "rate of a-b is 1 Gb/s".
  virtual void on_note(Instant at, NodeId host, NoteKind kind, std::string_view text) = 0;
};

/// Names for a tap.
struct LinkEndInfo {
  NodeId node = 0;
  std::string name;  ///< "a/p1": a switch and its port, counted from 1, or a host and its NIC
};

/// An end of a link: a node, and for a host one of its NICs.
struct LinkEnd {
  LinkEnd(NodeId of) : node(of) {}
  LinkEnd(NodeId of, std::string_view at) : node(of), nic(at) {}
  NodeId node;
  std::string_view nic{};  ///< empty: the first NIC without a link
};

/// Statistics of the rules with one number, over all links and both directions.
struct FaultTally {
  std::uint64_t matched = 0;  ///< frames that `match` fits, between `from` and `until`
  std::uint64_t aimed = 0;    ///< those of them that nth, times, chance or mask selected
  std::uint64_t spared = 0;   ///< those that only chance let pass
  std::uint64_t hit = 0;      ///< frames and hosts that it changed
};

struct WorldCounters {
  std::uint64_t events = 0;
  std::uint64_t packet_hops = 0;  ///< frames that started across a link
  std::uint64_t dropped = 0;
  std::uint64_t ecn_marked = 0;  ///< packets that a switch marked CE
  std::size_t events_pending = 0, frames_in_flight = 0, frames_peak = 0;
  bool exhausted = false;  ///< 2^24 events are pending, or 2^40 have been executed: the world takes no further step
};

class World {
 public:
  explicit World(std::uint64_t seed);
  ~World();
  World(World&&) noexcept;

  // Topology, before the first step. Errors: a name that is taken, an unknown node, a loop, a zero rate, a bound exceeded.
  Checked<Host*> add_host(std::string_view name, const HostOptions& options = {});
  Checked<NodeId> add_switch(std::string_view name, const SwitchOptions& options = {});
  Checked<LinkId> add_link(LinkEnd a, LinkEnd b, const LinkOptions& options = {});
  /// Adds a fault for one direction of a link, or for both (matches are then counted separately for each direction).
  Checked<void> add_fault(LinkId link, LinkDirection way, const FaultRule& rule);
  /// An action of a host at rule.from + rule.delay: crash, restart, pause, resume, end_process, stop_process,
  /// continue_process. All others need a link.
  Checked<void> add_fault(const FaultRule& host_rule);
  /// For all hosts. Before the first step, else an error.
  Checked<void> set_neighbours(Neighbours neighbours);
  void set_tap(Tap* tap);  ///< not owned
  /// Bit i drops the i-th frame (from 0) with a message of this layer that a host, not a switch, sends from now on. All
  /// other frames pass. Frames without such a message are not counted, which by default are ARP and neighbour discovery.
  void set_drop_mask(std::uint64_t mask, Layer layer = Layer::tcp);

  Host* find_host(std::string_view name);
  std::size_t host_count() const;
  Host& host(std::size_t index);  ///< in order of creation, switches not counted
  const Host& host(std::size_t index) const;
  std::size_t link_count() const;
  LinkEndInfo link_end(LinkId link, std::uint8_t end) const;
  const LinkOptions& link_options(LinkId link) const;  ///< as given to add_link
  std::size_t node_count() const;
  const std::string& node_name(NodeId node) const;
  bool is_switch(NodeId node) const;

  Instant now() const;
  /// Executes the next event if it is due by `limit`. Returns false if there is none; now() is then unchanged.
  bool step(Instant limit = never);
  /// Runs until the condition holds (true), or until no event is left or `limit` of virtual time has passed (false).
  template <class Condition>
  bool run_until(Condition condition, Duration limit) {
    const Instant end = limit < never - now() ? now() + limit : never;
    while (!condition())
      if (!step(end)) return condition();
    return true;
  }
  /// Advances the virtual time by `time`.
  void run_for(Duration time);
  WorldCounters counters() const;
  /// Indexed by FaultRule::number, from 0; rules without a number are not included.
  std::vector<FaultTally> fault_tallies() const;
  Rng& rng();  ///< for workloads; the network has its own

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace parley::sim
