// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The connection manager: the concepts of rdma_cm (ids, events, private data, IRD/ORD) as values and typed events. The same
// calls serve TCP sockets, UDP sockets (RoCEv2), the simulator and real NICs; only the Provider behind a Manager differs.
// One thread uses a Manager. Nothing blocks: commands are queued at once and executed at the driver's next turn.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "parley/address.hpp"
#include "parley/bytes.hpp"
#include "parley/failure.hpp"
#include "parley/ib.hpp"
#include "parley/iwarp.hpp"
#include "parley/mpa.hpp"
#include "parley/result.hpp"
#include "parley/verbs.hpp"

namespace parley::cm {

struct Channel;
class Core;
class Manager;
class DetachedRequestBody;
class Provider;

/// Options specific to one transport. std::monostate: that transport's defaults. A provider refuses another transport's
/// options with Errc::unsupported.
using TransportOptions = std::variant<std::monostate, mpa::Options, ib::Options>;
/// How a connection ended, in the terms of its transport. std::monostate: `why` says everything.
using TransportEnd = std::variant<std::monostate, parley::iwarp::TerminateInfo>;
/// The negotiated or offered parameters, in the terms of the connection's transport.
using TransportParameters = std::variant<std::monostate, mpa::Parameters, ib::Parameters>;

/// When to retry a set-up that failed for a temporary reason: no listener, no route, no answer in time, a reset or FIN
/// instead of a Reply, no port or descriptor left. A protocol violation and a rejection by the peer's ULP are final. Each
/// wait is random, between half of its length and all of it.
struct Retry {
  std::uint32_t rounds = 1;                         ///< how often to try all addresses; 1 to retry_rounds_max
  Duration first = std::chrono::milliseconds(100);  ///< wait before the second round; doubled for each later round
  Duration cap = std::chrono::seconds(10);          ///< longest wait
};
inline constexpr std::uint32_t retry_rounds_max = 100;
inline constexpr std::size_t backups_max = 16;

/// Detection of a peer that disappeared silently: its process was killed, or its host or link is down. docs/cm.md, How
/// connections end.
struct Liveness {
  /// After this much silence from the peer, this side sends a keepalive. 0: never.
  Duration keepalive = std::chrono::seconds(5);
  /// A peer that answers neither requests nor keepalives for this long is dead. 0: only the transport's own retries decide.
  Duration dead_after = std::chrono::seconds(12);
  bool operator==(const Liveness&) const = default;
};
inline constexpr Duration keepalive_min = std::chrono::milliseconds(1);
inline constexpr Duration dead_after_max = std::chrono::hours(24);
/// Given values override `otherwise`. If a given value contradicts one that is not given, the latter is adapted. Errors:
/// invalid_argument (not 0 and outside keepalive_min to dead_after_max; a keepalive that is not less than dead_after).
Result<Liveness> merge_liveness(std::optional<Duration> keepalive, std::optional<Duration> dead_after,
                                const Liveness& otherwise);

struct ConnectOptions {
  TransportOptions transport{};
  /// Inbound RDMA Reads and Atomics that this side can hold, and outbound ones that it requests (rdma_cm's
  /// responder_resources and initiator_depth). MPA: 0 to mpa::depth_max, or mpa::depth_not_negotiated.
  std::uint16_t ird = 32, ord = 32;
  ConstBytes private_data{};       ///< copied; MPA: at most 512 octets, 508 with revision 2; a peer_quirk may lower it
  std::optional<QpInit> qp{};      ///< none: a small queue pair with completion queues of its own
  std::optional<Address> local{};  ///< source address; none: the system chooses
  Duration transport_timeout = std::chrono::seconds(10);  ///< longest wait for TCP, per address
  /// Longest time until Established, over all addresses, rounds and waits; no attempt starts after it. 0: no limit.
  Duration timeout{};
  Retry retry{};
  /// Addresses to try in turn, without a wait, when the previous address failed for a temporary reason, or its transport
  /// (TCP) could not be opened for any reason; at most backups_max.
  std::vector<Address> backups{};
  std::optional<Duration> keepalive{}, dead_after{};  ///< Liveness; none: ManagerOptions::liveness
};

struct ResolveOptions {
  std::optional<Address> local{};  ///< source address; none: the system chooses
  /// Longest wait for the address, and again for the route, from the start of the search; 0: ResolvePolicy::timeout.
  Duration timeout{};
};

struct ListenOptions {
  TransportOptions transport{};
  std::uint16_t ird = 32, ord = 32;  ///< as in ConnectOptions; defaults that accept() may override
  int backlog = 4096;  ///< TCP connections that the system may queue before they are accepted; it may cap the number
  /// Pending connections at once, plus one eighth for addresses that have none pending. Beyond this limit, the oldest
  /// half-open connection of the busiest address is reset to make room for a newcomer. The newcomer is reset instead if all
  /// others wait for accept() or reject(). TurnedAway reports both (docs/cm.md). An accepted connection that only waits for
  /// its peer's first message, with no RTR agreed, no longer counts as pending.
  std::uint32_t pending_max = 1024;
  std::optional<Duration> keepalive{}, dead_after{};  ///< for its connections, set-up included; as in ConnectOptions
};

struct AcceptOptions {
  TransportOptions transport{};               ///< std::monostate: the listener's
  std::optional<std::uint16_t> ird{}, ord{};  ///< none: the listener's
  ConstBytes private_data{};
  std::optional<QpInit> qp{};  ///< used if create_qp was not called before
};

/// A handle to a listener or a connection, like rdma_cm_id. Cheap to copy; calls on a stale one fail with wrong_state.
class Id {
 public:
  Id() = default;
  explicit operator bool() const { return manager_ != nullptr; }
  bool operator==(const Id&) const = default;
  std::uint64_t number() const { return number_; }

  /// Creates the queue pair before accept, so that receives can be posted while the peer still waits. Errors: wrong_state (not
  /// a request that waits for accept(), or it has one already), those of Device::create_qp().
  Result<QueuePair*> create_qp(const QpInit& init);
  /// The queue pair, owned by the id; null for listeners, and before create_qp or accept.
  QueuePair* qp() const;
  Result<Address> local_address() const;
  Result<Address> peer_address() const;
  /// Null for a listener, and while the device that reaches the peer is unknown.
  Device* device() const;

  /// Connects to the resolved address over the route that was found; allowed once, after Resolved. Events and bounds as for
  /// Manager::connect(), but `options.local` is already determined. Errors: those of Manager::connect(), wrong_state.
  Result<void> connect(const ConnectOptions& options = {});
  /// Accepts a ConnectRequest. Completes with Established or ConnectFailed. Errors: wrong_state (not a request that waits for
  /// it), invalid_argument (private data that does not fit, contradictory options), unsupported (another transport's options).
  Result<void> accept(const AcceptOptions& options = {});
  /// Rejects a ConnectRequest. Errors: wrong_state, invalid_argument (private data that does not fit).
  Result<void> reject(ConstBytes private_data = {});
  /// Graceful: sends all posted requests, then FIN. Ends with Disconnected. Errors: wrong_state (not established).
  Result<void> disconnect();
  /// Moves the id to `to`, a Manager of the same host: its events (pending ones included) and all further calls. Like
  /// rdma_migrate_id. Allowed in every state, and for a listener too, whose new connections then arrive at `to`. Queue pair,
  /// memory and peer are not affected. This handle refers to the id at `to`; copies of it are stale. Errors: wrong_state,
  /// invalid_argument (another host's Manager), no_space (user_events_max). docs/cm.md: Several Managers.
  Result<void> migrate(Manager& to);
  /// Releases the id at once, resets a live connection, and destroys the queue pair; no more events for it. Needs no memory.
  /// Only an ended connection that still owes its peer an answer needs some; if there is none, the peer gets a RST instead.
  void destroy() noexcept;

 private:
  friend class Core;
  friend class Manager;
  Id(Manager* manager, std::uint64_t number) : manager_(manager), number_(number) {}
  bool is_here() const;  // the Manager exists and has this id
  Manager* manager_ = nullptr;
  std::uint64_t number_ = 0;
};

/// When each step completed, from the start of connect() (initiator) or the accepted transport (responder).
struct Steps {
  Duration transport{};  ///< TCP established
  Duration request{};    ///< Request sent or received
  Duration decision{};   ///< responder: accept or reject called
  Duration reply{};      ///< Reply received or sent
  Duration
      established{};  ///< ready-to-receive sent (initiator); ready-to-receive or first message received (responder)
};

/// The kernel calls of an initiator on a NIC, in order, in the driver's time (Host::now()), for the attempt that succeeded.
struct NicSteps {
  struct Span {
    Instant begin{}, end{};
  };
  Span create_id{};                 ///< rdma_create_id
  Span resolve_addr{};              ///< rdma_resolve_addr until the address is resolved
  Span resolve_route{};             ///< rdma_resolve_route until the route is resolved
  std::optional<Span> create_qp{};  ///< none: the queue pair already existed
  Span connect{};  ///< rdma_connect until both sides are connected: the peer's answer, the queue pair's transitions
};

struct Listening {
  Id id;
  Address local;
};
/// The path to a peer. Create what a queue pair needs on `device`, then call Id::connect().
struct Resolved {
  Id id;
  Device* device = nullptr;
  Address local;                   ///< source address; any(): the system chooses it when it opens the transport
  TransportParameters parameters;  ///< RoCE, InfiniBand: port, GIDs and path MTU; null otherwise
  std::string reason;              ///< why this path was chosen
};
struct ConnectRequest {
  Id listener;
  Id id;
  Address peer;
  TransportParameters offered;  ///< the peer's half
  Bytes private_data;
  /// What accept() must satisfy: IRD for the peer's ORD, ORD within its IRD. 0: the Request has none.
  std::uint16_t ird = 0, ord = 0;
  /// The offer in MPA's terms; null on another transport.
  const mpa::Parameters* mpa() const { return std::get_if<mpa::Parameters>(&offered); }
};
struct Established {
  Id id;
  TransportParameters parameters;
  Bytes private_data;  ///< initiator: the Reply's
  /// This side's, from now on; mpa::depth_not_negotiated if MPA left it to the ULP.
  std::uint16_t ird = 0, ord = 0;
  Steps steps;
  std::optional<NicSteps> nic{};  ///< for an initiator's connection on a NIC only
  /// What was agreed in MPA's terms; null on another transport.
  const mpa::Parameters* mpa() const { return std::get_if<mpa::Parameters>(&parameters); }
};
struct Rejected {
  Id id;
  Bytes private_data;
  TransportParameters parameters;  ///< MPA: contains the peer's raw IRD and ORD (RFC 6581 §9.1)
  Failure why;
  const mpa::Parameters* mpa() const { return std::get_if<mpa::Parameters>(&parameters); }
};
/// Connection set-up failed, on either side; also a listener that could not listen.
struct ConnectFailed {
  Id id;
  Failure why;
  bool responder = false;
  std::uint32_t attempts =
      1;               ///< initiator: started or scheduled, over all addresses; without continuations by other means
  Duration elapsed{};  ///< since the start of connect(), or since the accepted transport
};
/// Set-up continues by other means, at another address, or after a wait.
struct Retrying {
  Id id;
  Failure why;
  Address failed;   ///< the address that `why` is about
  Address peer;     ///< the next address
  Duration wait{};  ///< until the next attempt
};
struct Disconnected {
  Id id;
  bool graceful = false;  ///< FIN from both, all data delivered
  Failure why;            ///< code is zero when graceful
  TransportEnd end{};
  /// The first Terminate that was sent or received; null if there was none, and on another transport.
  const parley::iwarp::TerminateInfo* terminate() const { return std::get_if<parley::iwarp::TerminateInfo>(&end); }
};
/// Peers were reset before their ConnectRequest because there was no room: one event for all since the last one was polled.
struct TurnedAway {
  Id id;                       ///< the listener
  std::uint64_t gave_way = 0;  ///< half-open connections reset to make room for newcomers with priority
  std::uint64_t refused = 0;   ///< newcomers reset because no other connection could be reset
  Address peer;                ///< of the last one
  Failure why;                 ///< of the last one; names the limit
};

/// Real NICs: the local address, or the peer's neighbour address, changed. Informational; the connection stays open.
struct AddressChanged {
  Id id;
  Failure why;
};
/// Real NICs: the device under a connection is being removed; ConnectFailed or Disconnected follows. The system completes
/// the removal only after everything created on the device is destroyed.
struct DeviceRemoved {
  Id id;
  Device* device = nullptr;
  Failure why;
};
/// RoCE and InfiniBand, after Disconnected, for an id that was not destroyed: no packet of the connection can be in flight
/// any more, and its queue pair number may be reused. The event has no guaranteed bound, and may be missing if the peer or
/// the device disappeared: a program that waits for it needs a time limit. Never on iWARP (sockets or NIC), where TCP has its
/// own TIME_WAIT.
struct TimewaitExit {
  Id id;
};
/// A value passed to Manager::post_event().
struct UserEvent {
  Id id;  ///< none, or a live one
  std::uint64_t value = 0;
};

using Event = std::variant<Listening, ConnectRequest, Established, Rejected, ConnectFailed, Retrying, Disconnected,
                           TurnedAway, AddressChanged, DeviceRemoved, UserEvent, Resolved, TimewaitExit>;

inline constexpr std::uint32_t endpoints_default = 131072;
inline constexpr std::uint32_t endpoints_limit = 1U << 24;
inline constexpr std::uint32_t user_events_max = 65536;  ///< pending in one Manager

/// A ConnectRequest on its way to another Manager, possibly on another thread. It belongs to neither Manager and holds the
/// whole state of the connection. Destroying it before adopt() ends the connection as Id::destroy() would.
class DetachedRequest {
 public:
  DetachedRequest(DetachedRequest&& other) noexcept;
  DetachedRequest& operator=(DetachedRequest&& other) noexcept;
  ~DetachedRequest();
  /// False after adopt(), and after it was moved from.
  explicit operator bool() const { return body_ != nullptr; }
  /// As in the event, except that `listener` and `id` are empty.
  const ConnectRequest& request() const { return request_; }

 private:
  friend class Manager;
  DetachedRequest(std::unique_ptr<DetachedRequestBody> body, ConnectRequest&& request);
  std::unique_ptr<DetachedRequestBody> body_;
  ConnectRequest request_;
};

/// Policy for path searches, on hosts that search: docs/cm.md, The way to a peer.
struct ResolvePolicy {
  std::uint32_t searches_max = 64;  ///< searches in progress at once; others are queued. At least 1
  /// Longest wait for the neighbour's address, and again for the route, unless the call sets one. More than 0.
  Duration timeout = std::chrono::seconds(2);
  Duration found_kept =
      std::chrono::seconds(10);  ///< how long resolve() reuses a found path without a search; 0: never
  /// How long a first attempt fails at once because of a known failure; a later attempt searches again. 0: never.
  Duration failed_kept = std::chrono::seconds(1);
  std::uint32_t known_max = 1024;  ///< answers that are cached
};

struct ManagerOptions {
  /// Ids alive at once, at most endpoints_limit. 0: the driver's own bound (TcpHost: twice streams_max plus 1024, because an
  /// id outlives its stream), otherwise endpoints_default.
  std::uint32_t endpoints_max = 0;
  /// Seed for the random part of the waits between attempts (Retry). 0: the driver chooses.
  std::uint64_t seed = 0;
  /// Like ListenOptions::pending_max, for all connections that adopt() accepted; at least 1.
  std::uint32_t pending_max = 1024;
  ResolvePolicy resolve{};
  Liveness liveness{};  ///< for connections whose options do not set it
};
/// Errors: invalid_argument, with the option's name.
Result<void> check_options(const ManagerOptions& options);

inline constexpr std::size_t managers_max = 1024;  ///< per host

/// A provider serves one Manager, and the Managers that open_beside() created next to it.
class Manager {
 public:
  explicit Manager(Provider& provider, const ManagerOptions& options = {});
  /// If open_beside() created it, destroys its ids.
  ~Manager();
  /// Opens another Manager of the same host, like a second event channel of librdmacm. It has its own ids and events, and
  /// shares the host's devices, bounds and thread; the host still drives everything. Destroy it before the host; calls on it
  /// after the host is gone fail with wrong_state. Errors: no_space (managers_max), wrong_state.
  Result<std::unique_ptr<Manager>> open_beside();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  /// Completes with Listening (with the real port if it was 0) or ConnectFailed. Errors: invalid_argument, unsupported
  /// (another transport's options), no_space (endpoints_max), wrong_state.
  Result<Id> listen(const Address& local, const ListenOptions& options = {});
  /// Finds the device and the addresses of a connection in advance. Completes with Resolved or ConnectFailed. Errors:
  /// invalid_argument, bad_address, unreachable, no_space (endpoints_max), wrong_state.
  Result<Id> resolve(const Address& peer, const ResolveOptions& options = {});
  /// Completes with Established, Rejected or ConnectFailed. Receives may be posted on id.qp() at once. Errors:
  /// invalid_argument, bad_address, unreachable, unsupported (another transport's options), no_space (endpoints_max),
  /// wrong_state.
  Result<Id> connect(const Address& peer, const ConnectOptions& options = {});
  /// Detaches a request that waits for accept() or reject(), and has no queue pair, from this Manager. Its id becomes stale,
  /// and its listener has room for another. `request` must be as in the event, and is unchanged if the call fails. The time
  /// limits of the set-up keep running. Errors: wrong_state, invalid_argument (another Manager's), unsupported (this host's
  /// requests cannot move). docs/cm.md: Several threads.
  Result<DetachedRequest> detach(ConnectRequest&& request);
  /// Adopts a request that another Manager of the same kind of host has detached, for accept() or reject() here. This
  /// Manager's event queue also gets the ConnectRequest, with the returned id and no listener; accept() uses the listener's
  /// options. `migrant` is unchanged if the call fails. Errors: invalid_argument (an empty Migrant), unsupported (of another
  /// kind of host), no_space (endpoints_max, ManagerOptions::pending_max, or the driver's streams), wrong_state.
  Result<Id> adopt(DetachedRequest&& migrant);
  std::optional<Event> poll_event();
  /// Connection events are pending.
  bool has_events() const;
  /// Events are pending at this Manager or at another one of its host: the host's loop does not sleep then.
  bool any_events() const;
  /// The first of devices().
  Device& device();
  /// At least one. A NIC that is plugged in later is added at the end when the first connection uses it.
  std::span<Device* const> devices();
  /// Queues an event of the program's own after those already pending, for one loop that handles everything. With an id, the
  /// event is dropped when the id is destroyed. Errors: no_space (user_events_max are pending), wrong_state (a stale id).
  Result<void> post_event(std::uint64_t value, Id id = {});
  Provider& provider() { return provider_; }

 private:
  friend class Id;
  Manager(Manager& host, std::unique_ptr<Channel> channel);
  Id make_id(std::uint64_t number) { return Id(this, number); }
  bool has(std::uint64_t number) const;
  Result<void> check_host() const;
  Result<void> migrate(std::uint64_t number, Manager& to);
  /// It waits for accept() or reject(), and the private data fits.
  Result<void> check_decision(std::uint64_t number, bool accept, ConstBytes private_data) const;
  Result<void> check(const Address& peer, const ConnectOptions& options);
  Result<void> connect(std::uint64_t number, ConnectOptions options);
  Result<void> accept(std::uint64_t number, const AcceptOptions& options);
  Result<void> reject(std::uint64_t number, ConstBytes private_data);
  Result<void> disconnect(std::uint64_t number);
  void destroy(std::uint64_t number) noexcept;

  Provider& provider_;
  std::unique_ptr<Channel> channel_;
  std::shared_ptr<Core> core_;
  std::uint64_t reported_dead_ = 0;  // an id the user never knew: destroyed after its ConnectFailed was polled
};

}  // namespace parley::cm
