// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Opens, queues, sends and ends requests. transactor_replies.cpp handles answers.
#include "mad/transactor.hpp"

#include <utility>

#include "base/fnv1a.hpp"
#include "mad/transaction.hpp"
#include "wire/mad/smp.hpp"

namespace parley::mad {

using wire::mad::ClassFacts;
using wire::mad::Method;
using wire::mad::MgmtClass;

namespace {

constexpr std::size_t idle_max = 4096;
constexpr Duration first_wait_max = std::chrono::hours(24);  // upper bound of a path's timeout

/// Requests with the same key share a window.
std::uint64_t key_of(const Address& to, const std::optional<Route>& route, std::uint8_t mgmt_class) {
  std::uint64_t key = to.lid | std::uint64_t{mgmt_class} << 16 | std::uint64_t{to.qpn} << 24;
  if (to.grh) key = fnv1a(to.grh->gid, key ^ fnv1a_start);
  if (route) key = fnv1a(route->path(), key ^ fnv1a_start);
  return key;
}

}  // namespace

bool Transactor::Transfer::poll() {
  if (out) return true;
  Datagram mad;
  if (turn)
    out = std::exchange(turn, std::nullopt);
  else if ((receiver && receiver->poll_transmit(mad)) || (sender && sender->poll_transmit(mad)))
    out = mad;
  return out.has_value();
}

Transactor::Transactor(const TransportFacts& facts, const PortOptions& options)
    : facts_(facts), options_(options), rng_(options.seed), window_([&] {
        WindowOptions window = options.window;
        window.most = std::min(std::max(window.most, window.start), std::max<std::size_t>(1, facts.window_max));
        window.start = std::min(window.start, window.most);
        return window;
      }()) {
  next_tid_ = static_cast<std::uint32_t>(rng_.next());
  tid_high_ = facts.whole_tid ? static_cast<std::uint32_t>(rng_.next()) : 0;
}

Transactor::~Transactor() = default;

void Transactor::set_local(const LocalPort& local) {
  // While there is no subnet manager, the path to the previous one is kept.
  if (local.sm_lid != 0 || !is_unicast_lid(sa_path_.address.lid)) sa_path_ = sa_path(local);
  gid_ = local.gid;
}

Transactor::Transaction* Transactor::acquire(const Path& path) {
  if (free_.empty()) {
    if (slots_.size() >= std::min<std::size_t>(options_.transactions_max, none)) return nullptr;
    auto fresh = std::make_unique<Transaction>();
    const auto id = fresh->id = static_cast<Id>(slots_.size());
    slots_.push_back(std::move(fresh));
    free_.reserve(slots_.capacity());  // so that release() needs no memory
    free_.push_back(id);
  }
  Transaction& t = at(free_.back());
  free_.pop_back();
  ++open_;
  t.phase = Phase::open;
  t.path = path;
  t.to = path.address;
  t.query = t.asker = none;
  t.redirects = 0;
  t.table = false;
  t.tries = t.tries_here = t.busy = 0;
  t.fault.reset();
  t.why = {};
  t.user = nullptr;
  t.reply_size = 0;
  return &t;
}

Transactor::Id Transactor::open(const Rpc& rpc, const Path& path, ConstBytes body) {
  Transaction* t = acquire(path);
  if (t == nullptr) return none;
  const bool directed = rpc.mgmt_class == MgmtClass::subn && path.route;
  const ClassFacts* facts =
      wire::mad::facts_of_class(static_cast<std::uint32_t>(directed ? MgmtClass::subn_directed : rpc.mgmt_class));
  if (facts == nullptr) {
    t->request = {};
    t->refuse("the class is not known");
    return t->id;
  }
  const bool smp = wire::mad::is_smp(static_cast<std::uint8_t>(facts->mgmt_class));
  const bool adm = facts->mgmt_class == MgmtClass::subn_adm;
  t->request = wire::mad::detail::build(*facts, rpc.method, rpc.attribute, body,
                                        {.attribute_modifier = rpc.modifier,
                                         .key = smp ? path.m_key : (adm ? path.sm_key : rpc.key),
                                         .component_mask = rpc.component_mask,
                                         .mgmt_class = rpc.class_number,
                                         .class_version = rpc.class_version,
                                         .oui = rpc.oui});
  prepare(*t);
  if (rpc.method == Method::get_multi && adm)
    attach_long(*t, body, facts->data);
  else if (body.size() > t->request.size() - facts->data && !t->fault)
    t->refuse("the attribute is longer than a datagram of its class has room for");
  return t->id;
}

Transactor::Id Transactor::open(ConstBytes mad, const Path& path) {
  Transaction* t = acquire(path);
  if (t == nullptr) return none;
  t->request = {};
  std::copy_n(mad.begin(), std::min(mad.size(), t->request.size()), t->request.begin());
  if (mad.size() != t->request.size()) {
    t->refuse("a datagram has 256 octets");
    return t->id;
  }
  prepare(*t);
  return t->id;
}

/// Sets what depends on class and path.
void Transactor::prepare(Transaction& t) {
  const std::uint8_t mgmt_class = class_of(t.request);
  const auto method = static_cast<Method>(method_of(t.request));
  t.directed = mgmt_class == static_cast<std::uint8_t>(MgmtClass::subn_directed);
  t.segmented = rmpp::has_rmpp(mgmt_class) && !carries_whole(t.request) && wire::mad::gives_table(method);
  t.table = is_subn_adm(t.request) && wire::mad::gives_table(method);
  t.to_manager = is_subn_adm(t.request) && t.to == sa_path_.address;
  const bool smp = wire::mad::is_smp(mgmt_class);
  if (smp) {  // IBA §14.2.1: QP0, no Q_Key, the default P_Key
    t.to.qpn = t.to.qkey = 0;
    t.to.pkey = 0xFFFF;
  } else if (t.to.qpn == 0) {
    t.to.qpn = 1;
  }
  if (t.path.route && !t.directed) return t.refuse("only requests of subnet management go by directed route");
  if (smp ? !facts_.smp : !facts_.gmp) return t.refuse("the transport does not carry datagrams of that class");
  if (t.directed && t.path.route) {
    const Route& route = *t.path.route;
    const wire::mad::DirectedRoute way{route.path(), route.source_lid, route.destination_lid};
    if (!wire::mad::set_route(t.request, way)) return t.refuse("a directed route has at most 63 hops");
  } else if (!t.directed && facts_.lids && (t.to.lid == 0 || t.to.lid == PARLEY_MAD_PERMISSIVE_LID)) {
    return t.refuse("the path has no destination LID");
  } else if (!facts_.lids && !t.to.grh) {
    return t.refuse("the path has no destination GID");
  }
}

bool Transactor::carries_whole(ConstBytes mad) const { return facts_.rmpp && is_subn_adm(mad); }

/// IBA §13.6.3.3: a GetMulti of any length goes by RMPP, and so does its answer.
void Transactor::attach_long(Transaction& t, ConstBytes body, std::size_t data) {
  constexpr std::uint8_t version = 1, type_data = 1;
  t.long_request.assign(t.request.begin(), t.request.begin() + static_cast<std::ptrdiff_t>(data));
  t.long_request.insert(t.long_request.end(), body.begin(), body.end());
  t.long_request[24] = version;
  t.long_request[25] = type_data;
  t.long_request[26] = wire::mad::rmpp_flags::active;
  if (t.long_request.size() <= rmpp::message_max || t.fault) return;
  t.refuse("the request is longer than an RMPP message can be");
}

void*& Transactor::user(Id id) { return at(id).user; }
bool Transactor::ok(Id id) const { return !at(id).fault; }
ConstBytes Transactor::reply(Id id) const { return at(id).reply_octets(); }
const Address& Transactor::replier(Id id) const { return at(id).from; }

void Transactor::submit(Id id) {
  Transaction& t = at(id);
  PARLEY_ASSERT(t.phase == Phase::open);
  if (t.fault) return finish(t, t.fault, t.why);
  name(t);
  try {
    use_destination(t);
    enqueue(t);
  } catch (...) {  // no memory: undo the submission
    forget_destination(t);
    by_tid_.erase(t.tid);
    t.phase = Phase::open;
    throw;
  }
}

void Transactor::name(Transaction& t) {
  do t.tid = next_tid_++;
  while (by_tid_.find(t.tid) != nullptr);
  by_tid_.insert(t.tid, t.id);
  const std::uint64_t whole = std::uint64_t{tid_high_} << 32 | t.tid;
  write_bits(t.request, 64, 64, whole);
  if (!t.long_request.empty()) write_bits(t.long_request, 64, 64, whole);
}

void Transactor::cancel(Id id, Fault why) {
  Transaction& t = at(id);
  if (t.phase != Phase::done) finish(t, why);
}

void Transactor::release(Id id) {
  Transaction& t = at(id);
  PARLEY_ASSERT(t.phase != Phase::free);
  if (t.phase != Phase::done) finish(t, Fault::cancelled);
  static_cast<Link<DoneTag>&>(t).unlink();
  t.phase = Phase::free;
  t.long_request = {};
  t.long_reply = {};
  --open_;
  free_.push_back(id);
}

Transactor::Id Transactor::poll_done() {
  const Transaction* t = done_.pop_front();
  return t == nullptr ? none : t->id;
}

void Transactor::use_destination(Transaction& t) {
  const std::uint64_t key = key_of(t.to, t.path.route, class_of(t.request));
  if (const std::uint32_t* known = by_destination_.find(key)) {
    t.destination = *known;
  } else {
    if (free_destinations_.empty()) {
      destinations_.push_back(std::make_unique<Destination>(options_.destination_window));
      free_destinations_.reserve(destinations_.capacity());
      free_destinations_.push_back(static_cast<std::uint32_t>(destinations_.size() - 1));
    }
    by_destination_.insert(key, free_destinations_.back());
    t.destination = free_destinations_.back();
    free_destinations_.pop_back();
    Destination& fresh = *destinations_[t.destination];
    fresh.key = key;
    fresh.window = Window(options_.destination_window);
    fresh.answered = false;
  }
  Destination& d = *destinations_[t.destination];
  if (d.users++ == 0 && d.linked()) {
    d.unlink();
    --idle_count_;
  }
}

void Transactor::forget_destination(Transaction& t) {
  if (t.destination == none) return;
  Destination& d = *destinations_[t.destination];
  t.destination = none;
  if (--d.users > 0) return;
  idle_.push_back(d);
  if (++idle_count_ <= idle_max) return;
  const Destination& oldest = *idle_.pop_front();
  --idle_count_;
  free_destinations_.push_back(*by_destination_.find(oldest.key));
  by_destination_.erase(oldest.key);
}

void Transactor::begin_transfer(Transaction& t) {
  t.transfer = std::make_unique<Transfer>();
  t.transfer->sender.emplace(*rmpp::Sender::create(t.long_request, options_.rmpp));
}

void Transactor::enqueue(Transaction& t) {
  t.phase = Phase::queued;
  t.tries_here = 0;
  t.reply_size = 0;
  t.long_reply.clear();
  t.transfer.reset();
  if (!t.long_request.empty() && !carries_whole(t.request)) begin_transfer(t);
  Destination& d = *destinations_[t.destination];
  if (!d.window.has_room()) return d.blocked.push_back(t);
  d.window.enter();
  t.in_destination = true;
  first_.push_back(t);
}

/// Leaves both windows, and gives its place to requests that wait for it.
void Transactor::leave(Transaction& t) {
  static_cast<Link<SendTag>&>(t).unlink();
  deadlines_.set(t.id, never);
  if (polled_ == &t) polled_ = nullptr;
  if (t.in_window) window_.leave();
  t.in_window = false;
  if (!t.in_destination) return;
  t.in_destination = false;
  Destination& d = *destinations_[t.destination];
  d.window.leave();
  while (d.window.has_room() && !d.blocked.empty()) {
    Transaction& next = d.blocked.front();
    d.window.enter();
    next.in_destination = true;
    first_.push_back(next);
  }
}

void Transactor::finish(Transaction& t, std::optional<Fault> fault, std::string_view why) {
  if (t.phase != Phase::open) {
    leave(t);
    forget_destination(t);
    by_tid_.erase(t.tid);
  }
  if (t.query != none) {
    at(t.query).asker = none;
    release(std::exchange(t.query, none));
  }
  if (fault == Fault::cancelled || fault == Fault::deadline) abandon(t);
  linger(t);
  t.phase = Phase::done;
  t.fault = fault;
  t.why = why;
  if (t.asker != none) return resolved(at(t.asker), t);
  done_.push_back(t);
}

const Packet* Transactor::poll_packet() {
  polled_ = nullptr;
  polled_lingering_ = nullptr;
  polled_posted_ = false;
  if (const Packet* packet = poll_posted()) return packet;
  if (lingering_speaks_)
    if (const Packet* packet = poll_lingering()) return packet;
  while (!again_.empty()) {
    Transaction& t = again_.front();
    if (t.transfer && !t.transfer->poll()) {
      static_cast<Link<SendTag>&>(t).unlink();
      continue;
    }
    polled_ = &t;
    packet_ = {t.to, t.transfer ? ConstBytes(*t.transfer->out) : t.request_octets()};
    return &packet_;
  }
  while (!first_.empty() && window_.has_room()) {
    Transaction& t = first_.front();
    if (manager_moved(t)) {
      follow_manager(t);
      continue;
    }
    polled_ = &t;
    if (t.transfer && t.transfer->sender) t.transfer->sender->start(now_);
    const bool segment = t.transfer && t.transfer->poll();
    packet_ = {t.to, segment ? ConstBytes(*t.transfer->out) : t.request_octets()};
    return &packet_;
  }
  return nullptr;
}

void Transactor::packet_sent(Instant now) {
  now_ = now;
  ++counters_.sent;
  if (std::exchange(polled_posted_, false)) return posted_.pop_front();
  if (polled_lingering_ != nullptr) {
    std::exchange(polled_lingering_, nullptr)->transfer->out.reset();
    return;
  }
  if (polled_ == nullptr) return;
  Transaction& t = *polled_;
  t.sent_at = now;
  const bool first = !t.in_window;
  // First, because this may throw for lack of memory: the packet is then sent again.
  const Instant at =
      t.transfer ? t.transfer->deadline() : now + wait_of(t.path.time_limit(), first ? t.tries_here : t.tries_here - 1);
  if (at != never) deadlines_.set(t.id, at);
  polled_ = nullptr;
  if (first) {
    window_.enter();
    t.in_window = true;
    t.phase = Phase::waiting;
    ++t.tries;
    ++t.tries_here;
  }
  if (t.transfer) {
    t.transfer->out.reset();
    again_.push_back(t);  // until it has nothing more to send
    return;
  }
  static_cast<Link<SendTag>&>(t).unlink();
  if (!first) {
    ++counters_.resent;
    ++t.tries;
  }
}

/// Doubled `times` times, then extended by a random part of up to a quarter, so that requests that were lost together
/// are not retransmitted together.
Duration Transactor::wait_of(Duration first, unsigned times) {
  Duration wait = std::clamp(first, Duration(1), first_wait_max);
  if (times == 0) return wait;
  const Duration most = std::max(wait, options_.wait_max);
  for (; times > 0 && wait < most; --times) wait *= 2;
  wait = std::min(wait, most);
  return wait + Duration(rng_.below(static_cast<std::uint64_t>(wait.count()) / 4));
}

}  // namespace parley::mad
