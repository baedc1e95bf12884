// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The Agent is a handle; Body is the implementation.
#include "cm/ibcm/agent.hpp"

#include "cm/ibcm/body.hpp"

namespace parley::cm::ibcm {

Path Path::roce(const Gid& local, const Gid& remote) {
  constexpr std::uint16_t permissive_lid = 0xFFFF;
  return {.primary = {.local_lid = permissive_lid,
                      .remote_lid = permissive_lid,
                      .local_gid = local,
                      .remote_gid = remote,
                      .hop_limit = 64,
                      .local_ack_timeout = 19}};
}

Result<Agent> Agent::create(const AgentOptions& o) {
  if (const auto good = check(o.timers); !good) return tl::unexpected(good.error());
  if (o.mra_timeout && *o.mra_timeout > 31)
    return fail(Errc::invalid_argument, "AgentOptions::mra_timeout is {a}; must be 0 to 31", *o.mra_timeout);
  if (o.timewait_min < Duration{} || o.timewait_max < o.timewait_min)
    return fail(Errc::invalid_argument, "AgentOptions::timewait_min is {a} ns; must be 0 to timewait_max, {b} ns",
                o.timewait_min.count(), o.timewait_max.count());
  if (o.peer_timeout_max < std::chrono::milliseconds(10))
    return fail(Errc::invalid_argument, "AgentOptions::peer_timeout_max is {a} ns; must be at least 10 ms",
                o.peer_timeout_max.count());
  if (o.connections_max == 0 || o.connections_max > EndpointTable::limit)
    return fail(Errc::invalid_argument, "AgentOptions::connections_max is {a}; must be 1 to {b}", o.connections_max,
                EndpointTable::limit);
  if (o.outstanding_max == 0 || o.outstanding_per_peer == 0 || o.transmit_max == 0)
    return fail(Errc::invalid_argument,
                "AgentOptions::outstanding_max, outstanding_per_peer and transmit_max are at least 1");
  return Agent(std::make_unique<Body>(o));
}

Agent::Agent(std::unique_ptr<Body> body) : body_(std::move(body)) {}
Agent::Agent(Agent&&) noexcept = default;
Agent& Agent::operator=(Agent&&) noexcept = default;
Agent::~Agent() = default;

void Agent::handle_mad(Instant now, const MadFrom& from, ConstBytes mad) { body_->handle_mad(now, from, mad); }
void Agent::handle_deadline(Instant now) { body_->handle_deadline(now); }
Instant Agent::next_deadline() const { return body_->next_deadline(); }
bool Agent::poll_transmit(MadTo& to, MutBytes out) { return body_->poll_transmit(to, out); }
bool Agent::has_transmit() const { return body_->has_transmit(); }
std::optional<Event> Agent::poll_event() { return body_->poll_event(); }
bool Agent::has_event() const { return body_->has_event(); }
bool Agent::has_work() const { return body_->has_work(); }
bool Agent::is_quiet(Instant now) const { return !body_->has_work() && body_->next_deadline() > now; }

Result<void> Agent::listen(std::uint64_t service_id, const ListenOptions& options) {
  return body_->listen(service_id, options);
}
void Agent::unlisten(std::uint64_t service_id) { body_->unlisten(service_id); }
Result<ConnectionId> Agent::connect(Instant now, const ConnectParameters& p) { return body_->connect(now, p); }
Result<void> Agent::accept(Instant now, ConnectionId id, const AcceptParameters& p) {
  return body_->accept(now, id, p);
}
Result<void> Agent::ready(Instant now, ConnectionId id, ConstBytes data) { return body_->ready(now, id, data); }
Result<void> Agent::reject(Instant now, ConnectionId id, const RejectParameters& p) {
  return body_->reject(now, id, p);
}
Result<void> Agent::send_mra(Instant now, ConnectionId id, std::uint8_t service_timeout, ConstBytes data) {
  return body_->send_mra(now, id, service_timeout, data);
}
Result<void> Agent::communication_established(Instant, ConnectionId id) { return body_->communication_established(id); }
Result<void> Agent::disconnect(Instant now, ConnectionId id, ConstBytes data, const std::optional<EndNote>& end) {
  return body_->disconnect(now, id, data, end);
}
void Agent::limit_mra(ConnectionId id, std::uint8_t service_timeout) { body_->limit_mra(id, service_timeout); }
void Agent::remind(ConnectionId id, std::uint8_t service_timeout) { body_->remind(id, service_timeout); }
Instant Agent::requested_at(ConnectionId id) const { return body_->requested_at(id); }
void Agent::destroy(Instant now, ConnectionId id, const std::optional<EndNote>& end) { body_->destroy(now, id, end); }
void Agent::turn_away(Instant now, ConnectionId id) { body_->turn_away(now, id); }
Result<void> Agent::load_alternate(Instant now, ConnectionId id, const wire::ib::CmPath& path, ConstBytes data) {
  return body_->load_alternate(now, id, path, data);
}
Result<void> Agent::answer_alternate(Instant, ConnectionId id, const AlternateAnswer& answer) {
  return body_->answer_alternate(id, answer);
}
Result<ConnectionId> Agent::sidr_request(Instant now, const SidrParameters& p) { return body_->sidr_request(now, p); }
Result<void> Agent::sidr_reply(Instant now, ConnectionId id, const SidrAnswer& answer) {
  return body_->sidr_reply(now, id, answer);
}

std::optional<State> Agent::state(ConnectionId id) const {
  const Connection* c = body_->find(id);
  return c == nullptr || c->orphan ? std::nullopt : std::optional(c->state);
}
std::optional<AlternateState> Agent::alternate_state(ConnectionId id) const {
  const Connection* c = body_->find(id);
  return c == nullptr || c->orphan ? std::nullopt : std::optional(c->alternate);
}
std::optional<Agent::Ids> Agent::ids(ConnectionId id) const {
  const Connection* c = body_->find(id);
  if (c == nullptr || c->orphan) return std::nullopt;
  return Ids{c->local_id, c->remote_id, c->local_qpn, c->remote_qpn, c->remote_guid};
}
Step Agent::step(ConnectionId id) const { return step_of(state(id).value_or(State::closed)); }

const Counters& Agent::counters() const { return body_->counters; }
std::size_t Agent::connection_count() const { return body_->connection_count(); }
std::size_t Agent::remembered_count() const { return body_->remembered_count(); }

}  // namespace parley::cm::ibcm
