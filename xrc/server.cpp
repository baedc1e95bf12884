// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "xrc/server.hpp"

#include <algorithm>

#include "xrc/request_handler.hpp"

namespace parley::xrc {
using answers::no;
using answers::yes;

// ---- connections -------------------------------------------------------------------------------------------------

Result<void> Server::connected(ConnectionNumber number, const Credentials& credentials) {
  if (connections_.size() >= options_.connections_max) return tl::unexpected(Error(Refusal::no_memory));
  if (const RegistryOptions& rules = registry_.options(); has_share(rules, credentials.uid)) {
    std::size_t own = 0, all = 0;
    for (const auto& [other, c] : connections_) {
      own += c.credentials.uid == credentials.uid ? 1 : 0;
      all += has_share(rules, c.credentials.uid) ? 1 : 0;
    }
    if (!is_within_share(rules, options_.connections_max, own, all)) return refused(Refusal::share_of_connections);
  }
  connections_[number].credentials = credentials;
  return {};
}

void Server::disconnected(Instant now, ConnectionNumber number) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  if (found->second.member) {
    by_member_.erase(found->second.member->number);
    registry_.dead(now, *found->second.member);
  }
  if (found->second.waiting) std::erase(waiting_, number);
  connections_.erase(found);
}

std::size_t Server::input_room(ConnectionNumber number) const {
  const auto found = connections_.find(number);
  if (found == connections_.end() || found->second.over) return 0;
  const std::size_t waiting = found->second.answers.size();
  return waiting < options_.answers_max ? options_.answers_max - waiting : 0;
}

bool Server::is_over(ConnectionNumber number) const {
  const auto found = connections_.find(number);
  return found == connections_.end() || found->second.over;
}

void Server::wake(ConnectionNumber number, Connection& connection) {
  if (!std::exchange(connection.waiting, true)) waiting_.push_back(number);
}

/// Other members get the events of a request before the requester gets its answer. If the broker dies in between, they
/// declare the change to the next broker, and the requester repeats its request.
void Server::answer(ConnectionNumber number, Answer answer) {
  wake_members();
  Connection& connection = connections_.at(number);
  const bool tells = answer.about == RequestType::report || answer.about == RequestType::report_device ||
                     answer.about == RequestType::modify;
  if (tells && connection.waiting) {  // move the connection behind those that get events
    std::erase(waiting_, number);
    connection.waiting = false;
  }
  answer.epoch = registry_.options().epoch;
  connection.answers.push_back(std::move(answer));
  wake(number, connection);
}

void Server::wake_members() {
  while (const auto member = registry_.poll_waiting())
    if (const auto owner = by_member_.find(member->number); owner != by_member_.end())
      wake(owner->second, connections_.at(owner->second));
}

std::optional<ConnectionNumber> Server::poll_waiting() {
  wake_members();
  if (waiting_.empty()) return std::nullopt;
  const ConnectionNumber number = waiting_.front();
  waiting_.pop_front();
  connections_.at(number).waiting = false;
  return number;
}

std::optional<Bytes> Server::next_event(Connection& c) {
  const auto event = registry_.poll_event(*c.member);
  if (!event) return std::nullopt;
  // R11: a member that gets this event counts no carriers any more, until it is informed of those that remain.
  if (event->kind == EventKind::device_removed && event->tgt.generation == 0) c.carriers = 0;
  return emit(*event);
}

std::optional<Bytes> Server::poll_transmit(Instant now, ConnectionNumber number) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return std::nullopt;
  Connection& c = found->second;
  if (!c.answers.empty()) {
    // Its own events are first, too: this member may be the only one that can declare them to the next broker.
    const RequestType about = c.answers.front().about;
    if (c.member &&
        (about == RequestType::report || about == RequestType::report_device || about == RequestType::modify))
      if (const auto event = next_event(c)) return event;
    const Bytes out = emit(c.answers.front());
    c.answers.pop_front();
    return out;
  }
  while (c.member && !c.changed.empty()) {
    const TgtId id = *c.changed.begin();
    c.changed.erase(c.changed.begin());
    if (!registry_.is_registered(*c.member, id)) continue;
    Answer note = RequestHandler(registry_, now, *c.member).known(id, false);
    note.about = RequestType::query;
    note.epoch = registry_.options().epoch;
    return emit(note);
  }
  if (c.member) {
    if (const auto event = next_event(c)) return event;
    // R11: after the event that a carrier died, so that the member declares one of the two to the next broker.
    if (const std::uint32_t carriers = registry_.carriers(*c.member); carriers != c.carriers) {
      c.carriers = carriers;
      return emit(Answer{.about = RequestType::open, .reason = carriers, .epoch = registry_.options().epoch});
    }
  }
  if (!c.list) return std::nullopt;
  if (const auto item = next_item(*c.list)) return emit(*item);
  const Answer done{.number = c.list->number, .about = RequestType::list, .epoch = registry_.options().epoch};
  c.list.reset();
  return emit(done);
}

// ---- messages ----------------------------------------------------------------------------------------------------

void Server::handle_message(Instant now, ConnectionNumber number, ConstBytes octets,
                            const std::optional<FileFacts>& file) {
  const auto found = connections_.find(number);
  if (found == connections_.end() || found->second.over) return;
  Connection& c = found->second;
  const auto message = parse(octets);
  const Request* request = message ? std::get_if<Request>(&*message) : nullptr;
  // A connection that violates the protocol gets one refusal and is closed; its process then counts as dead.
  if (request == nullptr || c.greeted == (request->ask == RequestType::hello)) {
    Answer reply = message ? no(Refusal::bad_message) : no(message);
    reply.number = number_of(octets);
    if (request != nullptr) reply.about = request->ask;
    answer(number, reply);
    c.over = true;
    return;
  }
  Answer reply = serve(now, c, number, *request, file);
  if (request->ask == RequestType::list && reply.refusal == Refusal::none) return;  // the answer follows the list
  reply.number = request->number;
  reply.about = request->ask;
  answer(number, reply);
}

Answer Server::serve(Instant now, Connection& c, ConnectionNumber number, const Request& r,
                     const std::optional<FileFacts>& file) {
  if (r.ask == RequestType::hello) return hello(c, r);
  if (r.ask == RequestType::open) return open(now, c, number, r, file);
  if (r.ask == RequestType::kill) return kill(now, c, r);
  if (r.ask == RequestType::list) {
    if (c.list) return no(Refusal::busy);
    c.list = Listing{.number = r.number, .domains = registry_.domains(now), .counters = registry_.counters()};
    wake(number, c);
    return yes();
  }
  if (!c.member) return no(Refusal::not_member);
  return serve_member(now, c, r);
}

Answer Server::hello(Connection& c, const Request& r) {
  // The process's own pid may be from another PID namespace, so that only its start time is compared.
  if (r.value != 0 && c.credentials.start != 0 && r.value != c.credentials.start) {
    c.over = true;
    return no(Refusal::wrong_process);
  }
  const std::uint32_t oldest = r.other, newest = r.reason;
  if (oldest > protocol_version || newest < protocol_version) {
    c.over = true;
    return no(Refusal::bad_version);
  }
  c.greeted = true;
  c.process = {.pid = c.credentials.pid, .uid = c.credentials.uid, .start = c.credentials.start, .command = r.command};
  return {.value = protocol_version};
}

Answer Server::open(Instant now, Connection& c, ConnectionNumber number, const Request& r,
                    const std::optional<FileFacts>& file) {
  if (c.member) return no(Refusal::busy);
  OpenParameters p{.device = r.value,
                   .create = (r.flags & Request::create) != 0,
                   .exclusive = (r.flags & Request::exclusive) != 0,
                   .carrier = (r.flags & Request::carrier) != 0,
                   .carriers = r.reason,
                   .carriers_epoch = r.other,
                   .process = c.process};
  if ((r.flags & Request::shared) != 0) {
    if (!file) return no(Refusal::bad_descriptor);
    if (!file->lets_in(c.credentials.uid)) return no(Refusal::not_permitted);
    p.key = DomainKey{r.value, file->st_dev, file->st_ino};
  }
  const auto member = registry_.open(now, p);
  if (!member) return no(member);
  c.member = *member;
  c.domain = p.key;
  by_member_[member->number] = number;
  c.carriers = registry_.carriers(*member);
  return {.reason = c.carriers, .value = member->number};
}

Answer Server::kill(Instant now, const Connection& c, const Request& r) {
  if (c.credentials.uid != 0 && c.credentials.uid != options_.admin_uid) return no(Refusal::not_permitted);
  const auto done = registry_.report(now, r.tgt, EventKind::killed, r.reason);
  return done ? yes() : no(done);
}

Answer Server::serve_member(Instant now, Connection& c, const Request& r) {
  const MemberId member = *c.member;
  // Only a member that was registered with the queue pair may declare it.
  if (r.ask == RequestType::restore && r.value != proof(c, r.tgt)) return no(Refusal::not_permitted);
  RequestHandler handler(registry_, now, member);
  Answer out = handler.serve(r);
  const bool joined = r.ask == RequestType::create || r.ask == RequestType::enlist || r.ask == RequestType::publish ||
                      r.ask == RequestType::restore;
  if (joined && out.refusal == Refusal::none) out.value = proof(c, out.tgt);
  if (r.ask == RequestType::close && out.refusal == Refusal::none) {
    by_member_.erase(member.number);
    c.member.reset();
    c.changed.clear();
  }
  if (handler.changed()) changed(now, member, *handler.changed());
  return out;
}

std::uint64_t Server::proof(const Connection& c, TgtId id) const {
  return proof_of(options_.key, c.domain, c.credentials.uid, id);
}

/// Queues the update for the other registrants before the answer is sent, so that they can declare it to the next
/// broker.
void Server::changed(Instant now, MemberId by, TgtId id) {
  const auto view = registry_.query(now, by, id);
  if (!view) return;
  for (const std::uint64_t member : view->registrants) {
    if (member == by.number) continue;
    const ConnectionNumber number = by_member_.at(member);
    connections_.at(number).changed.insert(view->id);
    wake(number, connections_.at(number));
  }
}

// ---- lists -------------------------------------------------------------------------------------------------------

namespace {

Item item_of(const DomainView& d) {
  const DomainKey key = d.key.value_or(DomainKey{});
  return {.what = Item::What::domain,
          .flags = static_cast<std::uint8_t>(d.key ? Item::shared : 0),
          .large = {d.number, key.device, key.st_dev, key.st_ino}};
}
Item item_of(const DomainView& d, const MemberView& m) {
  return {.what = Item::What::member,
          .flags = static_cast<std::uint8_t>(m.events_lost ? Item::events_lost : 0),
          .small = {m.process.pid, m.process.uid, m.registrations},
          .large = {d.number, m.number, m.process.start, std::uint64_t{m.srqs} << 32 | m.events_waiting},
          .command = m.process.command};
}
Item item_of(const DomainView& d, const TgtView& t) {
  const Peer peer = t.peer.value_or(Peer{});
  return {.what = Item::What::tgt,
          .state = t.state,
          .why = t.why,
          .flags = static_cast<std::uint8_t>(t.peer ? Item::has_peer : 0),
          .small = {t.id.qpn, t.reason, peer.qpn},
          .large = {d.number, t.id.generation, peer.ca_guid, static_cast<std::uint64_t>(t.age.count()), t.events}};
}
std::vector<std::uint64_t> values(const Counters& c) {
  return {
#define PARLEY_X(name, text) c.name,
      PARLEY_XRC_COUNTERS(PARLEY_X)
#undef PARLEY_X
  };
}

}  // namespace

std::optional<Item> Server::next_item(Listing& l) const {
  const auto numbered = [&l](Item item) {
    item.number = l.number;
    return item;
  };
  while (l.domain < l.domains.size()) {
    const DomainView& d = l.domains[l.domain];
    if (!std::exchange(l.begun, true)) return numbered(item_of(d));
    if (l.member < d.members.size()) return numbered(item_of(d, d.members[l.member++]));
    while (l.tgt < d.tgts.size()) {
      const TgtView& t = d.tgts[l.tgt];
      if (!std::exchange(l.tgt_begun, true)) return numbered(item_of(d, t));
      if (l.registrant < t.registrants.size())
        return numbered({.what = Item::What::registrant, .large = {t.id.generation, t.registrants[l.registrant++]}});
      ++l.tgt;
      l.registrant = 0;
      l.tgt_begun = false;
    }
    ++l.domain;
    l.member = l.tgt = 0;
    l.begun = false;
  }
  const auto counters = values(l.counters);
  if (l.counter >= counters.size()) return std::nullopt;
  const auto which = static_cast<std::uint32_t>(l.counter++);
  return numbered({.what = Item::What::counter, .small = {which}, .large = {counters[which]}});
}

}  // namespace parley::xrc
