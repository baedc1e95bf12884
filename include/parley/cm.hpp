// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The connection manager: rdma_cm's ideas (ids, events, private data, IRD/ORD) as values and typed events.
// The same calls serve TCP sockets, the simulator and, later, real NICs: only the Provider behind a Manager differs.
// A Manager belongs to one thread. Nothing blocks: commands are queued at once and carried out at the driver's next
// turn.
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
class MigrantBody;
class Provider;

/// What only one transport has. std::monostate: that transport's defaults. A provider refuses another transport's
/// options with Errc::unsupported.
using TransportOptions = std::variant<std::monostate, mpa::Options, ib::Options>;
/// How a connection ended, in the terms of its transport. std::monostate: there is no more to say than `why`.
using TransportEnd = std::variant<std::monostate, parley::iwarp::TerminateInfo>;
/// What was negotiated, or offered, in the terms of the connection's transport.
using TransportParameters = std::variant<std::monostate, mpa::Parameters, ib::Parameters>;

/// When to try again after a set-up that failed for a reason that may pass: nobody listened, no route, no answer in time,
/// a reset or FIN instead of a Reply, no port or descriptor free. A broken rule and a rejection by the peer's ULP are
/// final. A wait is a random time between half of its length and all of it.
struct Retry {
  std::uint32_t rounds = 1;                         ///< how often all addresses are tried; 1 to retry_rounds_max
  Duration first = std::chrono::milliseconds(100);  ///< wait before the second round; doubled for each later one
  Duration cap = std::chrono::seconds(10);          ///< longest wait
};
inline constexpr std::uint32_t retry_rounds_max = 100;
inline constexpr std::size_t backups_max = 16;

/// How a peer is noticed that went without a word: its process was killed, its host or link is gone. docs/cm.md, How connections end.
struct Liveness {
  /// After so long without anything from the peer it is asked whether it is still there. 0: never.
  Duration keepalive = std::chrono::seconds(5);
  /// A peer that leaves everything unanswered for so long, requests and keepalives, is dead. 0: the transport's own retries decide.
  Duration dead_after = std::chrono::seconds(12);
  bool operator==(const Liveness&) const = default;
};
inline constexpr Duration keepalive_min = std::chrono::milliseconds(1);
inline constexpr Duration dead_after_max = std::chrono::hours(24);
/// What is given goes before `otherwise`; a value that is not given gives way where the two contradict. Errors: invalid_argument (out of
/// 0 or keepalive_min to dead_after_max; a keepalive that is not shorter than dead_after).
Result<Liveness> merge_liveness(std::optional<Duration> keepalive, std::optional<Duration> dead_after,
                                const Liveness& otherwise);

struct ConnectOptions {
  TransportOptions transport{};
  /// Inbound RDMA Reads and Atomics that this side can hold, and outbound ones that it wants (rdma_cm's
  /// responder_resources and initiator_depth). MPA: 0 to mpa::depth_max, or mpa::depth_not_negotiated.
  std::uint16_t ird = 32, ord = 32;
  ConstBytes private_data{};   ///< copied; under MPA at most 512 octets, 508 with revision 2; a peer_quirk may lower it
  std::optional<QpInit> qp{};  ///< none: a small queue pair with completion queues of its own
  std::optional<Address> local{};                         ///< source address; none: the system chooses
  Duration transport_timeout = std::chrono::seconds(10);  ///< longest wait for TCP, for each address
  /// Longest time until Established, over all addresses, rounds and waits; an attempt that could only begin later is not
  /// made. 0: none.
  Duration timeout{};
  Retry retry{};
  /// Tried in turn, at once, when the address before has failed for a reason that may pass, or its transport (TCP) could
  /// not be opened for any reason; at most backups_max.
  std::vector<Address> backups{};
  std::optional<Duration> keepalive{}, dead_after{};  ///< Liveness; none: ManagerOptions::liveness
};

struct ResolveOptions {
  std::optional<Address> local{};  ///< source address; none: the system chooses
  /// Longest wait for the address, and again for the route, once it is the search's turn; 0: ResolvePolicy::timeout.
  Duration timeout{};
};

struct ListenOptions {
  TransportOptions transport{};
  std::uint16_t ird = 32, ord = 32;  ///< as in ConnectOptions, for connections whose accept() says nothing else
  int backlog = 4096;  ///< TCP connections that the system may hold until they are accepted; it may cap the number
  /// Pending connections at once, and an eighth more for addresses that have none pending. Beyond that the oldest
  /// half-open connection of the busiest address is reset to make room for a newcomer; the newcomer is reset instead if
  /// all others wait for accept() or reject(). TurnedAway reports it (docs/cm.md). An accepted connection that only
  /// waits for its peer's first message, with no RTR agreed, no longer counts as pending.
  std::uint32_t pending_max = 1024;
  std::optional<Duration> keepalive{}, dead_after{};  ///< of its connections, set-up included; as in ConnectOptions
};

struct AcceptOptions {
  TransportOptions transport{};               ///< std::monostate: the listener's
  std::optional<std::uint16_t> ird{}, ord{};  ///< none: the listener's
  ConstBytes private_data{};
  std::optional<QpInit> qp{};  ///< used if create_qp was not called before
};

/// Names a listener or a connection, as rdma_cm_id does. A cheap copyable handle; a stale one gives wrong_state.
class Id {
 public:
  Id() = default;
  explicit operator bool() const { return manager_ != nullptr; }
  bool operator==(const Id&) const = default;
  std::uint64_t number() const { return number_; }

  /// Makes the queue pair before accept, so that receives can be posted while the peer still waits.
  Result<QueuePair*> create_qp(const QpInit& init);
  /// The queue pair, owned by the id; null for listeners, and before create_qp or accept.
  QueuePair* qp() const;
  Result<Address> local_address() const;
  Result<Address> peer_address() const;
  /// Null: a listener, or which device leads to the peer is not known yet.
  Device* device() const;

  /// Behind Resolved, and once: connects to the address that was resolved, the way that was found. Answered, and bounded,
  /// as Manager::connect(); `options.local` has been decided. Errors: those of Manager::connect(), wrong_state.
  Result<void> connect(const ConnectOptions& options = {});
  Result<void> accept(const AcceptOptions& options = {});
  Result<void> reject(ConstBytes private_data = {});
  /// Graceful: sends what is posted, then FIN. Ends with Disconnected.
  Result<void> disconnect();
  /// Its events, those that wait included, and every further call are `to`'s, a Manager of the same host: rdma_migrate_id.
  /// Whatever state it is in, a listener too, of which newcomers go where it goes; queue pair, memory and peer notice nothing.
  /// This handle names it there; copies of it are stale. Errors: wrong_state, invalid_argument (another host's Manager),
  /// no_space (user_events_max). docs/cm.md: Several Managers.
  Result<void> migrate(Manager& to);
  /// Forgets the id at once and resets a live connection; no more events for it. Destroys its queue pair. Needs no memory;
  /// only what an ended connection still owes its peer does, and where there is none, the peer gets a RST instead.
  void destroy() noexcept;

 private:
  friend class Core;
  friend class Manager;
  Id(Manager* manager, std::uint64_t number) : manager_(manager), number_(number) {}
  bool is_here() const;  // the Manager lives, and has it
  Manager* manager_ = nullptr;
  std::uint64_t number_ = 0;
};

/// When each step was done, from the start of connect() (initiator) or the accepted transport (responder).
struct Steps {
  Duration transport{};    ///< TCP established
  Duration request{};      ///< Request sent or received
  Duration decision{};     ///< responder: accept or reject called
  Duration reply{};        ///< Reply received or sent
  Duration established{};  ///< ready-to-receive sent (initiator); it, or the first message, received (responder)
};

/// What an initiator over a NIC asked of its kernel, in order, in the driver's time (Host::now()): of the attempt that
/// succeeded.
struct NicSteps {
  struct Span {
    Instant begin{}, end{};
  };
  Span create_id{};                 ///< rdma_create_id
  Span resolve_addr{};              ///< rdma_resolve_addr until the address is resolved
  Span resolve_route{};             ///< rdma_resolve_route until the route is resolved
  std::optional<Span> create_qp{};  ///< none: the queue pair was there before
  Span connect{};                   ///< rdma_connect until both sides know: the peer's answer, the queue pair's states
};

struct Listening {
  Id id;
  Address local;
};
/// The way to a peer: make what a queue pair needs on `device`, then call Id::connect().
struct Resolved {
  Id id;
  Device* device = nullptr;
  Address local;                   ///< source address; any(): the system chooses it when the transport is opened
  TransportParameters parameters;  ///< RoCE, InfiniBand: port, GIDs and path MTU; null otherwise
  std::string reason;              ///< why this way, in words
};
struct ConnectRequest {
  Id listener;
  Id id;
  Address peer;
  TransportParameters offered;  ///< the peer's half
  Bytes private_data;
  /// What accept() would have to meet: IRD for the peer's ORD, ORD within its IRD. 0: its Request names none.
  std::uint16_t ird = 0, ord = 0;
  /// The offer in MPA's terms; null on another transport.
  const mpa::Parameters* mpa() const { return std::get_if<mpa::Parameters>(&offered); }
};
struct Established {
  Id id;
  TransportParameters parameters;
  Bytes private_data;  ///< initiator: the Reply's
  /// This side's from now on; mpa::depth_not_negotiated where MPA left it to the ULP.
  std::uint16_t ird = 0, ord = 0;
  Steps steps;
  std::optional<NicSteps> nic{};  ///< of an initiator's connection over a NIC; no other has these steps
  /// What was agreed in MPA's terms; null on another transport.
  const mpa::Parameters* mpa() const { return std::get_if<mpa::Parameters>(&parameters); }
};
struct Rejected {
  Id id;
  Bytes private_data;
  TransportParameters parameters;  ///< MPA: the peer's raw IRD and ORD are in here (RFC 6581 §9.1)
  Failure why;
  const mpa::Parameters* mpa() const { return std::get_if<mpa::Parameters>(&parameters); }
};
/// Connection set-up failed, on either side; also a listener that could not listen.
struct ConnectFailed {
  Id id;
  Failure why;
  bool responder = false;
  std::uint32_t attempts = 1;  ///< initiator: begun or due at all addresses; not those that follow by other means
  Duration elapsed{};          ///< since the start of connect(), or the accepted transport
};
/// Set-up continues by other means, at another address, or after a wait; the reason as text.
struct Retrying {
  Id id;
  Failure why;
  Address failed;   ///< the address of which `why` tells
  Address peer;     ///< tried next
  Duration wait{};  ///< until then
};
struct Disconnected {
  Id id;
  bool graceful = false;  ///< FIN from both, all data delivered
  Failure why;            ///< code is zero when graceful
  TransportEnd end{};
  /// The Terminate that was sent or received first; null if there was none, and on another transport.
  const parley::iwarp::TerminateInfo* terminate() const { return std::get_if<parley::iwarp::TerminateInfo>(&end); }
};
/// Peers were reset for lack of room before their ConnectRequest: one event for all since it was last polled.
struct TurnedAway {
  Id id;                       ///< the listener
  std::uint64_t gave_way = 0;  ///< half-open connections reset in favour of newcomers with a better claim
  std::uint64_t refused = 0;   ///< newcomers reset because nobody could make room for them
  Address peer;                ///< the last of them
  Failure why;                 ///< of the last of them; names the limit
};

/// Real NICs: the local address, or the peer's neighbour address, changed. Advice, not an end.
struct AddressChanged {
  Id id;
  Failure why;
};
/// Real NICs: the device under a connection is being removed; ConnectFailed or Disconnected follows. The system's removal
/// waits until what was made on the device is destroyed.
struct DeviceRemoved {
  Id id;
  Device* device = nullptr;
  Failure why;
};
/// RoCE and InfiniBand, behind Disconnected, of an id that was kept: no packet of the connection can be under way any more,
/// so that another may have its queue pair's number. No bound is promised, and a peer's or device's end may leave it out:
/// who waits for it needs a time limit. Never on iWARP, whose TCP keeps its own TIME_WAIT: neither on sockets nor on a NIC.
struct TimewaitExit {
  Id id;
};
/// What Manager::post_event() was given.
struct UserEvent {
  Id id;  ///< none, or a live one
  std::uint64_t value = 0;
};

using Event = std::variant<Listening, ConnectRequest, Established, Rejected, ConnectFailed, Retrying, Disconnected,
                           TurnedAway, AddressChanged, DeviceRemoved, UserEvent, Resolved, TimewaitExit>;

inline constexpr std::uint32_t endpoints_default = 131072;
inline constexpr std::uint32_t endpoints_limit = 1U << 24;
inline constexpr std::uint32_t user_events_max = 65536;  ///< of a Manager, waiting at once

/// A ConnectRequest on its way to another Manager, which may be on another thread: it belongs to neither, and holds all that
/// there is of the connection. One that ends before adopt() ends the connection as Id::destroy() would have.
class Migrant {
 public:
  Migrant(Migrant&& other) noexcept;
  Migrant& operator=(Migrant&& other) noexcept;
  ~Migrant();
  /// False behind adopt(), and when it was moved from.
  explicit operator bool() const { return body_ != nullptr; }
  /// As it was announced, but for `listener` and `id`, which name nothing.
  const ConnectRequest& request() const { return request_; }

 private:
  friend class Manager;
  Migrant(std::unique_ptr<MigrantBody> body, ConnectRequest&& request);
  std::unique_ptr<MigrantBody> body_;
  ConnectRequest request_;
};

/// Searches for the way to a peer, where there is something to search for: docs/cm.md, The way to a peer.
struct ResolvePolicy {
  std::uint32_t searches_max = 64;  ///< under way at once; the others wait for their turn. At least 1
  /// Longest wait for the neighbour's address, and again for the route, where the call names none. More than 0.
  Duration timeout = std::chrono::seconds(2);
  Duration found_kept = std::chrono::seconds(10);  ///< resolve() takes such an answer without a search; 0: none
  /// A first attempt fails at once by such an answer; a later one searches anew. 0: none.
  Duration failed_kept = std::chrono::seconds(1);
  std::uint32_t known_max = 1024;  ///< answers that are kept
};

struct ManagerOptions {
  /// Ids alive at once, at most endpoints_limit. 0: what the driver has use for (TcpHost: twice streams_max and 1024,
  /// because an id outlives its stream), else endpoints_default.
  std::uint32_t endpoints_max = 0;
  /// Seeds the random part of the waits between attempts (Retry). 0: the driver's choice.
  std::uint64_t seed = 0;
  /// As ListenOptions::pending_max, of all connections that adopt() took; at least 1.
  std::uint32_t pending_max = 1024;
  ResolvePolicy resolve{};
  Liveness liveness{};  ///< of connections whose options say nothing
};
/// Errors: invalid_argument, with the option's name.
Result<void> check_options(const ManagerOptions& options);

inline constexpr std::size_t managers_max = 1024;  ///< of a host

/// A provider serves one Manager, and those that were opened beside it.
class Manager {
 public:
  explicit Manager(Provider& provider, const ManagerOptions& options = {});
  /// One that open_beside() gave destroys its ids.
  ~Manager();
  /// Another Manager of the same host, as a further event channel is to librdmacm: ids and events of its own; devices, bounds
  /// and the thread are those of the host, which still drives everything. Goes before the host; behind that its calls fail
  /// with wrong_state. Errors: no_space (managers_max), wrong_state.
  Result<std::unique_ptr<Manager>> open_beside();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  /// Answered by Listening (with the real port if it was 0) or ConnectFailed.
  Result<Id> listen(const Address& local, const ListenOptions& options = {});
  /// Finds the device and the addresses of a connection before it is made. Answered by Resolved or ConnectFailed.
  Result<Id> resolve(const Address& peer, const ResolveOptions& options = {});
  /// Answered by Established, Rejected or ConnectFailed. Receives may be posted on id.qp() at once.
  Result<Id> connect(const Address& peer, const ConnectOptions& options = {});
  /// Takes a request that waits for accept() or reject(), and has no queue pair, away from this Manager: its id is stale
  /// then, and its listener may take another. `request` is as the event was, and is untouched if this fails. The time
  /// limits of the set-up go on. Errors: wrong_state, invalid_argument (another Manager's), unsupported (this host's
  /// requests cannot move). docs/cm.md: Several threads.
  Result<Migrant> detach(ConnectRequest&& request);
  /// Takes a request that another Manager of the same kind of host has detached: accept(), or reject(), it here. The
  /// ConnectRequest is this Manager's next new event too, with the id that is returned and no listener; accept() uses what
  /// the listener was given. `migrant` is untouched if this fails. Errors: invalid_argument (an empty Migrant), unsupported
  /// (of another kind of host), no_space (endpoints_max, ManagerOptions::pending_max, or the driver's streams).
  Result<Id> adopt(Migrant&& migrant);
  std::optional<Event> poll_event();
  /// Connection events wait for poll_event().
  bool has_events() const;
  /// They wait at this Manager, or at another of its host: the host's loop does not sleep then.
  bool any_events() const;
  /// The first of devices().
  Device& device();
  /// At least one. A NIC that is plugged in later is added at the end when the first connection uses it.
  std::span<Device* const> devices();
  /// An event of the program's own, behind those that wait already: for one loop that handles everything. With an id, it
  /// goes with the id. Errors: no_space (user_events_max wait already), wrong_state (a stale id).
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
