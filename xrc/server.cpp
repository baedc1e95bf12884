// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "xrc/server.hpp"

#include <algorithm>

namespace parley::xrc {
namespace {

Answer no(Refusal refusal) { return {.refusal = refusal}; }
template <class T>
Answer no(const Result<T>& result) {
  return no(static_cast<Refusal>(result.error().code().value()));
}
Answer yes() { return {}; }

Answer of_view(const TgtView& v) {
  return {.flags = static_cast<std::uint16_t>(v.peer ? Answer::has_peer : 0),
          .state = v.state,
          .why = v.why,
          .reason = v.reason,
          .tgt = v.id,
          .value = static_cast<std::uint64_t>(v.age.count()),
          .peer = v.peer.value_or(Peer{}),
          .attributes = v.attributes,
          .events = v.events};
}

}  // namespace

// ---- connections -------------------------------------------------------------------------------------------------

Result<void> Server::connected(ConnectionNumber number, const Credentials& credentials) {
  if (connections_.size() >= options_.connections_max) return tl::unexpected(Error(Refusal::no_memory));
  const auto of_user = std::count_if(connections_.begin(), connections_.end(), [&credentials](const auto& c) {
    return c.second.credentials.uid == credentials.uid;
  });
  if (credentials.uid != 0 && of_user >= static_cast<std::ptrdiff_t>(options_.connections_per_user))
    return tl::unexpected(Error(Refusal::no_memory));
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

bool Server::takes_input(ConnectionNumber number) const {
  const auto found = connections_.find(number);
  return found != connections_.end() && !found->second.over && found->second.answers.size() < options_.answers_max;
}

bool Server::is_over(ConnectionNumber number) const {
  const auto found = connections_.find(number);
  return found == connections_.end() || found->second.over;
}

void Server::wake(ConnectionNumber number, Connection& connection) {
  if (!std::exchange(connection.waiting, true)) waiting_.push_back(number);
}

/// Who is told of something is told before the one that asked for it has its answer: if the broker dies between the two, those
/// that were told know of it, and the other asks again.
void Server::answer(ConnectionNumber number, Answer answer) {
  wake_members();
  Connection& connection = connections_.at(number);
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

std::optional<Bytes> Server::poll_transmit(Instant now, ConnectionNumber number) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return std::nullopt;
  Connection& c = found->second;
  if (!c.answers.empty()) {
    // Its own event too: it may be the only one that can tell the next broker.
    const Ask about = c.answers.front().about;
    if (c.member && (about == Ask::report || about == Ask::report_device || about == Ask::modify))
      if (const auto event = registry_.poll_event(*c.member)) return emit(*event);
    const Bytes out = emit(c.answers.front());
    c.answers.pop_front();
    return out;
  }
  while (c.member && !c.changed.empty()) {
    const TgtId id = *c.changed.begin();
    c.changed.erase(c.changed.begin());
    if (!registry_.is_registered(*c.member, id)) continue;
    Answer note = known(now, *c.member, id, false);
    note.about = Ask::query;
    note.epoch = registry_.options().epoch;
    return emit(note);
  }
  if (c.member)
    if (const auto event = registry_.poll_event(*c.member)) return emit(*event);
  if (!c.list) return std::nullopt;
  if (const auto item = next_item(*c.list)) return emit(*item);
  const Answer done{.number = c.list->number, .about = Ask::list, .epoch = registry_.options().epoch};
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
  // Who does not speak the protocol is told so once; what it may have said before counts as said by a process that died.
  if (request == nullptr || c.greeted == (request->ask == Ask::hello)) {
    Answer reply = message ? no(Refusal::bad_message) : no(message);
    reply.number = number_of(octets);
    if (request != nullptr) reply.about = request->ask;
    answer(number, reply);
    c.over = true;
    return;
  }
  Answer reply = serve(now, c, number, *request, file);
  if (request->ask == Ask::list && reply.refusal == Refusal::none) return;  // it comes behind the list
  reply.number = request->number;
  reply.about = request->ask;
  answer(number, reply);
}

Answer Server::serve(Instant now, Connection& c, ConnectionNumber number, const Request& r,
                     const std::optional<FileFacts>& file) {
  if (r.ask == Ask::hello) return hello(c, r);
  if (r.ask == Ask::open) return open(now, c, number, r, file);
  if (r.ask == Ask::kill) return kill(now, c, r);
  if (r.ask == Ask::list) {
    if (c.list) return no(Refusal::busy);
    c.list = Listing{.number = r.number, .domains = registry_.domains(now), .counters = registry_.counters()};
    wake(number, c);
    return yes();
  }
  if (!c.member) return no(Refusal::not_member);
  return serve_member(now, c, r);
}

Answer Server::hello(Connection& c, const Request& r) {
  // The pid that it says may be that of another namespace: what it is known by is when it began.
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
                   .process = c.process};
  if ((r.flags & Request::shared) != 0) {
    if (!file) return no(Refusal::bad_descriptor);
    if (c.credentials.uid != 0 && file->uid != c.credentials.uid && !file->shared) return no(Refusal::not_permitted);
    p.key = DomainKey{r.value, file->st_dev, file->st_ino};
  }
  const auto member = registry_.open(now, p);
  if (!member) return no(member);
  c.member = *member;
  by_member_[member->number] = number;
  return {.value = member->number};
}

Answer Server::kill(Instant now, const Connection& c, const Request& r) {
  if (c.credentials.uid != 0 && c.credentials.uid != options_.admin_uid) return no(Refusal::not_permitted);
  const auto done = registry_.report(now, r.tgt, EventKind::killed, r.reason);
  return done ? yes() : no(done);
}

Answer Server::serve_member(Instant now, Connection& c, const Request& r) {
  const MemberId member = *c.member;
  switch (r.ask) {
    case Ask::close: {
      const auto closed = registry_.close(now, member, (r.flags & Request::force) != 0);
      if (!closed) return no(closed);
      by_member_.erase(member.number);
      c.member.reset();
      c.changed.clear();
      return yes();
    }
    case Ask::add_srq: {
      const auto done = registry_.add_srq(member, r.other);
      return done ? yes() : no(done);
    }
    case Ask::remove_srq: {
      const auto done = registry_.remove_srq(member, r.other);
      return done ? yes() : no(done);
    }
    case Ask::note_other: {
      const auto done = registry_.note_other(member, r.other);
      return done ? yes() : no(done);
    }
    case Ask::report:
    case Ask::report_device:
    case Ask::route: return serve_said(now, member, r);
    default: return serve_tgt(now, member, r);
  }
}

/// What a member's own device says. Of what it is not registered with it can know nothing.
Answer Server::serve_said(Instant now, MemberId member, const Request& r) {
  if (r.ask == Ask::report_device) {
    if (r.kind != EventKind::device_failed && r.kind != EventKind::device_removed) return no(Refusal::invalid);
    registry_.report_device(now, registry_.device_of(member), r.kind, r.reason);
    return yes();
  }
  if (const auto known = registry_.query(now, member, r.tgt); !known) return no(known);
  if (!registry_.is_registered(member, r.tgt)) return no(Refusal::not_registered);
  if (r.ask == Ask::route) {
    const auto route = registry_.route(r.tgt, r.other);
    return route ? Answer{.value = static_cast<std::uint64_t>(*route)} : no(route);
  }
  if (r.kind == EventKind::killed) return no(Refusal::not_permitted);
  const auto done = registry_.report(now, r.tgt, r.kind, r.reason);
  return done ? yes() : no(done);
}

/// All of it, so that the member can declare it to a broker that comes after this one.
Answer Server::known(Instant now, MemberId member, TgtId id, bool already) const {
  const auto view = registry_.query(now, member, id);
  if (!view) return no(view);
  Answer out = of_view(*view);
  if (already) out.flags |= Answer::already;
  return out;
}

/// The others are told before the answer goes, for the same reason.
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

Answer Server::serve_tgt(Instant now, MemberId member, const Request& r) {
  const std::optional<Peer> peer = (r.flags & Request::has_peer) != 0 ? std::optional(r.peer) : std::nullopt;
  switch (r.ask) {
    case Ask::create: {
      const auto made =
          registry_.create(now, member, {.peer = peer, .qpn = r.tgt.qpn, .reserve = (r.flags & Request::reserve) != 0});
      return made ? known(now, member, made->id, made->existing) : no(made);
    }
    case Ask::publish: {
      const auto id = registry_.publish(now, member, r.tgt, r.other);
      return id ? Answer{.state = State::reset, .tgt = *id} : no(id);
    }
    case Ask::enlist: {
      const auto joined = registry_.enlist(now, member, r.tgt);
      return joined ? known(now, member, joined->id, joined->already) : no(joined);
    }
    case Ask::unregister: {
      const auto purged = registry_.unregister(now, member, r.tgt);
      return purged ? Answer{.tgt = r.tgt, .value = *purged} : no(purged);
    }
    case Ask::modify: {
      const auto done = registry_.modify(now, member, r.tgt, r.state, r.value);
      if (!done) return no(done);
      if (!*done) changed(now, member, r.tgt);
      return known(now, member, r.tgt, *done);
    }
    case Ask::query: {
      const auto view = registry_.query(now, member, r.tgt);
      return view ? of_view(*view) : no(view);
    }
    case Ask::find: {
      const auto id = registry_.find(member, r.peer);
      return id ? Answer{.tgt = *id} : no(id);
    }
    case Ask::restore: {
      const auto joined = registry_.restore(now, member,
                                            {.id = r.tgt,
                                             .state = r.state,
                                             .peer = peer,
                                             .attributes = r.attributes,
                                             .why = r.kind,
                                             .reason = r.reason,
                                             .events = r.events});
      return joined ? known(now, member, joined->id, joined->already) : no(joined);
    }
    default: return no(Refusal::unsupported);
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
