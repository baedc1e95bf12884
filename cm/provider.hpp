// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The upper interface: what a NIC, in software or hardware, offers to the connection manager. The Manager checks the rules that
// hold for every transport, issues the ids and keeps the events; a provider implements its protocol only. Commands check their
// arguments and the state at once, and act at the driver's next turn.
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

/// The local end of the path to a peer.
struct Route {
  Device* device = nullptr;  ///< null: begin_resolve() must find it
  Address local{};           ///< any(): the system chooses
};

/// A provider's data of a request between two Managers, without references to either. Destroying it ends the request like an
/// undecided one.
class DetachedRequestBody {
 public:
  virtual ~DetachedRequestBody() = default;
};

class Provider {
 public:
  virtual ~Provider() = default;
  /// Called once, before all other calls: a provider serves the Managers of one host. The core outlives every call except the
  /// destructor.
  virtual void start(Core& core) = 0;
  /// At least one; resolve() returns the first one by default.
  virtual std::span<Device* const> devices() = 0;

  /// For a connection that connect() would set up. Errors: unsupported (another transport's options), invalid_argument
  /// (contradictory options), with the option's name.
  virtual Result<Limits> limits(const TransportOptions& options, Depths depths) const = 0;
  /// For a connection that waits for accept() or reject(). Errors: wrong_state.
  virtual Result<Limits> limits(EndpointId endpoint) const = 0;
  /// Device and source address towards `peer`. Errors: bad_address, unreachable.
  virtual Result<Route> resolve(const Address& peer, const std::optional<Address>& local) = 0;
  /// Called if resolve() returned no device: a new id starts with a search. Completes with Resolved or ConnectFailed; connect()
  /// with the same id continues from there.
  virtual Result<void> begin_resolve(EndpointId endpoint, const Address& peer, const ResolveOptions& options) {
    (void)endpoint, (void)peer, (void)options;
    return fail(Errc::unsupported, "this provider resolves at once");
  }
  /// Resolved was the id's last event.
  virtual bool is_resolved(EndpointId endpoint) const {
    (void)endpoint;
    return false;
  }

  /// listen() and connect() start the life of an id that the Manager has just issued; if they fail, the id is released. They
  /// check the options, so that a contradiction is an error of this call, not of each peer. Errors: those of limits().
  virtual Result<void> listen(EndpointId endpoint, const Address& local, const ListenOptions& options) = 0;
  virtual Result<void> connect(EndpointId endpoint, const Address& peer, const ConnectOptions& options) = 0;
  virtual Result<QueuePair*> create_qp(EndpointId endpoint, const QpInit& init) = 0;
  virtual QueuePair* qp(EndpointId endpoint) = 0;
  /// Null: a listener, or unknown.
  virtual Device* device(EndpointId endpoint) const = 0;
  virtual Result<Address> local_address(EndpointId endpoint) const = 0;
  virtual Result<Address> peer_address(EndpointId endpoint) const = 0;
  /// The private data fits into limits(endpoint). Errors: those of limits(), no_space.
  virtual Result<void> accept(EndpointId endpoint, const AcceptOptions& options) = 0;
  virtual Result<void> reject(EndpointId endpoint, ConstBytes private_data) = 0;
  virtual Result<void> disconnect(EndpointId endpoint) = 0;
  /// The user has released the id. Octets still owed to the peer are sent; then the provider releases the id. Must not fail for
  /// lack of memory.
  virtual void destroy(EndpointId endpoint) noexcept = 0;

  /// Only a request that waits for accept() or reject() and has no queue pair can be detached. Its id is released, and the peer
  /// is not notified. Errors: wrong_state, unsupported.
  virtual Result<std::unique_ptr<DetachedRequestBody>> detach(EndpointId endpoint) {
    (void)endpoint;
    return fail(
        Errc::unsupported,
        "requests of this provider stay with their host, to whose address the peer's packets come; Id::migrate() moves "
        "them between its Managers");
  }
  /// A new id starts with a request that waits for accept() or reject(); the Manager queues the event. `body` is unchanged if the
  /// call fails. Errors: unsupported (of another provider), no_space.
  virtual Result<void> adopt(EndpointId endpoint, std::unique_ptr<DetachedRequestBody>& body,
                             const ConnectRequest& request) {
    (void)endpoint, (void)body, (void)request;
    return fail(Errc::unsupported,
                "this provider adopts no requests; adopt() it at a Manager like the one it comes from");
  }

  /// A completion channel of one of its devices has an event: the driver must not sleep then.
  virtual bool has_events() const = 0;
  /// Readable when the provider has work to do; -1: its driver handles that.
  virtual int fd() const { return -1; }
};

}  // namespace parley::cm
