// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <utility>

#include "cm/provider.hpp"
#include "parley/cm.hpp"

namespace parley::cm {

namespace {

auto no_id() {
  return fail(Errc::wrong_state, "this Id names nothing: it was never made, or destroy() was called on it");
}

}  // namespace

Manager::Manager(Provider& provider) : provider_(provider) {}
Manager::~Manager() = default;

Device& Manager::device() { return provider_.device(); }

Result<Id> Manager::listen(const Address& local, const ListenOptions& options) {
  const auto endpoint = provider_.listen(local, options);
  if (!endpoint) return tl::unexpected(endpoint.error());
  return make_id(*endpoint);
}

Result<Id> Manager::connect(const Address& peer, const ConnectOptions& options) {
  const auto endpoint = provider_.connect(peer, options);
  if (!endpoint) return tl::unexpected(endpoint.error());
  return make_id(*endpoint);
}

std::optional<Event> Manager::poll_event() {
  auto from = provider_.poll_event();
  if (!from) return std::nullopt;
  ProviderEvent& e = *from;
  const Id id = make_id(e.endpoint);
  using Kind = ProviderEvent::Kind;
  switch (e.kind) {
    case Kind::listening: return Listening{id, e.address};
    case Kind::connect_request:
      return ConnectRequest{make_id(e.listener), id, e.address, std::move(e.parameters), std::move(e.private_data)};
    case Kind::established: return Established{id, std::move(e.parameters), std::move(e.private_data), e.times};
    case Kind::rejected: return Rejected{id, std::move(e.private_data), std::move(e.parameters), std::move(e.why)};
    case Kind::connect_failed: return ConnectFailed{id, std::move(e.why), e.responder};
    case Kind::retrying: return Retrying{id, std::move(e.why)};
    case Kind::turned_away: return TurnedAway{id, e.gave_way, e.refused, e.address, std::move(e.why)};
    case Kind::disconnected: return Disconnected{id, e.graceful, std::move(e.why), std::move(e.terminate)};
  }
  return std::nullopt;
}

Result<QueuePair*> Id::create_qp(const QpInit& init) {
  if (manager_ == nullptr) return no_id();
  return manager_->provider().create_qp(number_, init);
}

QueuePair* Id::qp() const { return manager_ == nullptr ? nullptr : manager_->provider().qp(number_); }

Result<Address> Id::local_address() const {
  if (manager_ == nullptr) return no_id();
  return manager_->provider().local_address(number_);
}

Result<Address> Id::peer_address() const {
  if (manager_ == nullptr) return no_id();
  return manager_->provider().peer_address(number_);
}

Result<void> Id::accept(const AcceptOptions& options) {
  if (manager_ == nullptr) return no_id();
  return manager_->provider().accept(number_, options);
}

Result<void> Id::reject(ConstBytes private_data) {
  if (manager_ == nullptr) return no_id();
  return manager_->provider().reject(number_, private_data);
}

Result<void> Id::disconnect() {
  if (manager_ == nullptr) return no_id();
  return manager_->provider().disconnect(number_);
}

void Id::destroy() {
  if (manager_ != nullptr) manager_->provider().destroy(number_);
  *this = Id();
}

}  // namespace parley::cm
