// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The upper seam: what a NIC, or software acting as one, offers to the connection manager. The Manager checks what holds
// for every transport, issues the ids and keeps the events; a provider is left with its protocol. Commands check their
// arguments and state at once, and act at the driver's next turn.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "cm/core.hpp"
#include "parley/cm.hpp"

namespace parley::cm {

/// Octets of private data that fit into each message.
struct Limits {
  std::size_t request = 0;
  std::size_t reply = 0;   ///< accept()
  std::size_t reject = 0;  ///< reject()
};

struct Depths {
  std::uint16_t ird = 0, ord = 0;
};

/// Where a connection to a peer leaves this machine.
struct Route {
  Device* device = nullptr;  ///< null: only begin_resolve() can tell
  Address local{};           ///< any(): the system chooses
};

/// What a provider holds of a request that is between two Managers: nothing of either. Its end is that of a request which
/// is destroyed undecided.
class MigrantBody {
 public:
  virtual ~MigrantBody() = default;
};

class Provider {
 public:
  virtual ~Provider() = default;
  /// Before all other calls, and once: a provider serves one host's Managers. The core outlives every call but the destructor.
  virtual void start(Core& core) = 0;
  /// At least one; the first is what resolve() gives when nothing else decides.
  virtual std::span<Device* const> devices() = 0;

  /// Of a connection that connect() would set up. Errors: unsupported (another transport's options), invalid_argument
  /// (options that contradict each other), with the option's name.
  virtual Result<Limits> limits(const TransportOptions& options, Depths depths) const = 0;
  /// Of a connection that waits for accept() or reject(). Errors: wrong_state.
  virtual Result<Limits> limits(EndpointId endpoint) const = 0;
  /// Device and source address towards `peer`. Errors: bad_address, unreachable.
  virtual Result<Route> resolve(const Address& peer, const std::optional<Address>& local) = 0;
  /// Where resolve() names no device: begins the life of an id with a search. Answered by Resolved or ConnectFailed;
  /// connect() with the same id goes on from there.
  virtual Result<void> begin_resolve(EndpointId endpoint, const Address& peer, const ResolveOptions& options) {
    (void)endpoint, (void)peer, (void)options;
    return fail(Errc::unsupported, "this provider resolves at once");
  }
  /// Resolved was its last event.
  virtual bool is_resolved(EndpointId endpoint) const {
    (void)endpoint;
    return false;
  }

  /// These two begin the life of an id that the Manager has just issued; if they fail it is released. The options are
  /// checked now, so that a contradiction is the caller's error, not one for each peer. Errors: those of limits().
  virtual Result<void> listen(EndpointId endpoint, const Address& local, const ListenOptions& options) = 0;
  virtual Result<void> connect(EndpointId endpoint, const Address& peer, const ConnectOptions& options) = 0;
  virtual Result<QueuePair*> create_qp(EndpointId endpoint, const QpInit& init) = 0;
  virtual QueuePair* qp(EndpointId endpoint) = 0;
  /// Null: a listener, or not known yet.
  virtual Device* device(EndpointId endpoint) const = 0;
  virtual Result<Address> local_address(EndpointId endpoint) const = 0;
  virtual Result<Address> peer_address(EndpointId endpoint) const = 0;
  /// The private data fits limits(endpoint). Errors: those of limits(), no_space.
  virtual Result<void> accept(EndpointId endpoint, const AcceptOptions& options) = 0;
  virtual Result<void> reject(EndpointId endpoint, ConstBytes private_data) = 0;
  virtual Result<void> disconnect(EndpointId endpoint) = 0;
  /// The user has done with it. What is still owed to the peer goes on; then the provider releases the id.
  /// It must not fail for want of memory.
  virtual void destroy(EndpointId endpoint) noexcept = 0;

  /// Only a request that waits for accept() or reject() and has no queue pair can leave; its id is released then, and
  /// nothing is said to the peer. Errors: wrong_state, unsupported.
  virtual Result<std::unique_ptr<MigrantBody>> detach(EndpointId endpoint) {
    (void)endpoint;
    return fail(
        Errc::unsupported,
        "requests of this provider stay with their host, to whose address the peer's packets come; Id::migrate() moves "
        "them between its Managers");
  }
  /// Begins the life of an id with a request that waits for accept() or reject(); the Manager tells of it. `body` is
  /// untouched if it fails. Errors: unsupported (of another provider), no_space.
  virtual Result<void> adopt(EndpointId endpoint, std::unique_ptr<MigrantBody>& body, const ConnectRequest& request) {
    (void)endpoint, (void)body, (void)request;
    return fail(Errc::unsupported,
                "this provider adopts no requests; adopt() it at a Manager like the one it comes from");
  }

  /// A completion channel of one of its devices has something to give: a driver must not sleep then.
  virtual bool has_events() const = 0;
  /// Readable when the provider has something to do; -1: its driver watches for that.
  virtual int fd() const { return -1; }
};

}  // namespace parley::cm
