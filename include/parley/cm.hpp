// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The connection manager: rdma_cm's ideas (ids, events, private data, IRD/ORD) as values and typed events.
// The same calls serve TCP sockets, the simulator and, later, real NICs: only the Provider behind a Manager differs.
// A Manager belongs to one thread. Nothing blocks: commands are queued at once and carried out at the driver's next
// turn.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

#include "parley/address.hpp"
#include "parley/bytes.hpp"
#include "parley/iwarp.hpp"
#include "parley/mpa.hpp"
#include "parley/result.hpp"
#include "parley/verbs.hpp"

namespace parley::cm {

class Manager;
class Provider;

struct ConnectOptions {
  mpa::Options mpa{};
  ConstBytes private_data{};       ///< copied by the call; at most 512 octets (508 under revision 2)
  std::optional<QpInit> qp{};      ///< none: a small queue pair with completion queues of its own
  std::optional<Address> local{};  ///< source address; none: the system chooses
  Duration tcp_timeout = std::chrono::seconds(10);
};

struct ListenOptions {
  mpa::Options mpa{};
  int backlog = 4096;  ///< TCP connections that the system may hold until they are accepted; it may cap the number
  /// Pending connections at once, and an eighth more for addresses that have none pending. Beyond that the oldest
  /// half-open connection of the busiest address is reset to make room for a newcomer; the newcomer is reset instead if
  /// all others wait for accept() or reject(). TurnedAway reports it (docs/cm.md). An accepted connection that only
  /// waits for its peer's first message, with no RTR agreed, no longer counts as pending.
  std::uint32_t pending_max = 1024;
};

struct AcceptOptions {
  std::optional<mpa::Options> mpa{};  ///< instead of the listener's
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

  Result<void> accept(const AcceptOptions& options = {});
  Result<void> reject(ConstBytes private_data = {});
  /// Graceful: sends what is posted, then FIN. Ends with Disconnected.
  Result<void> disconnect();
  /// Forgets the id at once and resets a live connection; no more events for it. Destroys its queue pair.
  void destroy();

 private:
  friend class Manager;
  Id(Manager* manager, std::uint64_t number) : manager_(manager), number_(number) {}
  Manager* manager_ = nullptr;
  std::uint64_t number_ = 0;
};

/// When each step was done, from the start of connect() (initiator) or the accepted TCP connection (responder).
struct StepTimes {
  Duration tcp{};          ///< TCP established
  Duration request{};      ///< Request sent or received
  Duration decision{};     ///< responder: accept or reject called
  Duration reply{};        ///< Reply received or sent
  Duration established{};  ///< RTR sent (initiator) or first FPDU received (responder)
};

struct Listening {
  Id id;
  Address local;
};
struct ConnectRequest {
  Id listener;
  Id id;
  Address peer;
  mpa::Parameters offered;  ///< the peer's half
  Bytes private_data;
};
struct Established {
  Id id;
  mpa::Parameters parameters;
  Bytes private_data;  ///< initiator: the Reply's
  StepTimes times;
};
struct Rejected {
  Id id;
  Bytes private_data;
  mpa::Parameters parameters;  ///< the peer's raw IRD and ORD are in here (RFC 6581 §9.1)
  mpa::Failure why;
};
/// Connection set-up failed, on either side; also a listener that could not listen.
struct ConnectFailed {
  Id id;
  mpa::Failure why;
  bool responder = false;
};
/// Set-up continues by other means (revision 1, no S); the reason as text.
struct Retrying {
  Id id;
  mpa::Failure why;
};
struct Disconnected {
  Id id;
  bool graceful = false;  ///< FIN from both, all data delivered
  mpa::Failure why;       ///< code is zero when graceful
  std::optional<parley::iwarp::TerminateInfo> terminate;
};
/// Peers were reset for lack of room before their ConnectRequest: one event for all since it was last polled.
struct TurnedAway {
  Id id;                       ///< the listener
  std::uint64_t gave_way = 0;  ///< half-open connections reset in favour of newcomers with a better claim
  std::uint64_t refused = 0;   ///< newcomers reset because nobody could make room for them
  Address peer;                ///< the last of them
  mpa::Failure why;            ///< of the last of them; names the limit
};

using Event =
    std::variant<Listening, ConnectRequest, Established, Rejected, ConnectFailed, Retrying, Disconnected, TurnedAway>;

class Manager {
 public:
  explicit Manager(Provider& provider);
  ~Manager();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  /// Answered by Listening (with the real port if it was 0) or ConnectFailed.
  Result<Id> listen(const Address& local, const ListenOptions& options = {});
  /// Answered by Established, Rejected or ConnectFailed. Receives may be posted on id.qp() at once.
  Result<Id> connect(const Address& peer, const ConnectOptions& options = {});
  std::optional<Event> poll_event();
  Device& device();
  Provider& provider() { return provider_; }

 private:
  friend class Id;
  Id make_id(std::uint64_t number) { return Id(this, number); }
  Provider& provider_;
};

}  // namespace parley::cm
