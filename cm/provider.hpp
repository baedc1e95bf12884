// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The upper seam: what a NIC, or software acting as one, offers to the connection manager. Endpoints are numbers that
// the provider issues and never reuses. Commands check their arguments and state at once, and act at the driver's next
// turn.
#pragma once
#include <cstdint>
#include <optional>

#include "parley/cm.hpp"

namespace parley::cm {

using EndpointId = std::uint64_t;

/// As cm::Event, with endpoint numbers instead of Ids.
struct ProviderEvent {
  enum class Kind : std::uint8_t {
    listening,
    connect_request,
    established,
    rejected,
    connect_failed,
    retrying,
    disconnected,
    turned_away
  };
  Kind kind = Kind::listening;
  EndpointId endpoint = 0;
  EndpointId listener = 0;  ///< connect_request
  Address address{};        ///< listening: local; connect_request, turned_away: peer
  mpa::Parameters parameters{};
  Bytes private_data{};
  StepTimes times{};
  mpa::Failure why{};
  std::optional<parley::iwarp::TerminateInfo> terminate{};
  bool graceful = false;
  bool responder = false;
  std::uint64_t gave_way = 0, refused = 0;  ///< turned_away; `endpoint` is the listener
};

class Provider {
 public:
  virtual ~Provider() = default;
  virtual Device& device() = 0;
  virtual Result<EndpointId> listen(const Address& local, const ListenOptions& options) = 0;
  virtual Result<EndpointId> connect(const Address& peer, const ConnectOptions& options) = 0;
  virtual Result<QueuePair*> create_qp(EndpointId endpoint, const QpInit& init) = 0;
  virtual QueuePair* qp(EndpointId endpoint) = 0;
  virtual Result<Address> local_address(EndpointId endpoint) const = 0;
  virtual Result<Address> peer_address(EndpointId endpoint) const = 0;
  virtual Result<void> accept(EndpointId endpoint, const AcceptOptions& options) = 0;
  virtual Result<void> reject(EndpointId endpoint, ConstBytes private_data) = 0;
  virtual Result<void> disconnect(EndpointId endpoint) = 0;
  virtual void destroy(EndpointId endpoint) = 0;
  virtual std::optional<ProviderEvent> poll_event() = 0;
};

}  // namespace parley::cm
