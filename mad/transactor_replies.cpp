// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Answers: matching, status and redirection; and what happens if there is no answer.
#include <utility>

#include "mad/transaction.hpp"
#include "wire/mad/component_mask.hpp"
#include "wire/mad/sa.hpp"

namespace parley::mad {

using wire::mad::ClassPortInfo;
using wire::mad::Method;
using wire::mad::MgmtClass;
using wire::mad::PathRecord;
using wire::mad::RmppHeader;
using wire::mad::RmppStatus;
using wire::mad::RmppType;

namespace {

constexpr std::size_t lingering_max = 64;
constexpr std::string_view longer_than_limit = "the answer is longer than this port takes";

RmppType type_of(ConstBytes mad) { return static_cast<RmppType>(mad[25]); }

std::uint16_t status_of(ConstBytes mad, bool directed) {
  const auto status = static_cast<std::uint16_t>(read_bits(mad, 32, 16));
  return directed ? status & 0x7FFF : status;
}

std::string_view words_of(const std::optional<rmpp::Failure>& failure) {
  if (!failure) return {};
  return wire::mad::name_of(wire::mad::Kind::rmpp_status, static_cast<std::uint64_t>(failure->status));
}

/// IBA §13.6.2: the ACK of segment 0, which gives the other side of a double-sided transfer its turn.
Datagram turn_of(ConstBytes request) {
  Datagram out{};
  std::copy_n(request.begin(), rmpp::header_octets, out.begin());
  auto header = *RmppHeader::parse(out);
  header.set(RmppHeader::rmpp_type, RmppType::ack)
      .set(RmppHeader::r_resp_time, 0x1F)
      .set(RmppHeader::rmpp_flags, static_cast<std::uint8_t>(wire::mad::rmpp_flags::active))
      .set(RmppHeader::data1, 0)
      .set(RmppHeader::data2, 1)
      .emit(out);
  return out;
}

}  // namespace

Transactor::Transaction* Transactor::find(ConstBytes mad) {
  const Id* id = by_tid_.find(tid_of(mad));
  if (id == nullptr) return nullptr;
  Transaction& t = at(*id);
  const bool is_asked = t.tries > 0 && t.phase != Phase::resolving;  // resolving: the old destination is abandoned
  return is_asked ? &t : nullptr;
}

/// IBA C13-19.1.1, and the address of the answer. With a directed route that is the address of the last hop, so it is
/// not compared.
bool Transactor::matches(const Transaction& t, const Address& from, ConstBytes mad) const {
  const auto response = response_to(static_cast<Method>(method_of(t.request)));
  if (class_of(mad) != class_of(t.request) || static_cast<Method>(method_of(mad)) != response) return false;
  if (facts_.whole_tid && read_bits(mad, 64, 32) != tid_high_) return false;
  if (from.qpn != t.to.qpn) return false;
  if (t.directed) return true;
  return t.to.grh ? from.grh && same_port(from, t.to) : from.lid == t.to.lid;
}

void Transactor::handle_packet(Instant now, const Address& from, ConstBytes mad) {
  now_ = now;
  ++counters_.received;
  if (mad.size() < wire::mad::MadHeader::size || mad[0] != PARLEY_IB_MAD_BASE_VERSION) {
    ++counters_.malformed;
    return;
  }
  if (!wire::mad::is_answer(method_of(mad))) return handle_request(now, from, mad);
  Transaction* t = find(mad);
  if (t == nullptr) {
    if (!answer_lingering(now, from, mad)) ++counters_.unexpected;
    return;
  }
  if (!matches(*t, from, mad)) {
    ++counters_.mismatched;
    return;
  }
  handle_reply(now, *t, from, mad);
}

/// The request that was sent as `mad`, if it waits for an answer. Otherwise null, and `mad` is counted.
Transactor::Transaction* Transactor::find_returned(ConstBytes mad) {
  // An answer has its requester's ID, which may also be the ID of a request of this side.
  const bool ours = mad.size() >= wire::mad::MadHeader::size && !wire::mad::is_answer(method_of(mad));
  Transaction* t = ours ? find(mad) : nullptr;
  if (t != nullptr && t->phase == Phase::waiting) return t;
  ++counters_.unexpected;
  return nullptr;
}

void Transactor::handle_refused(Instant now, ConstBytes mad) {
  now_ = now;
  Transaction* t = find_returned(mad);
  if (t == nullptr) return;
  ++counters_.refused;
  finish(*t, Fault::refused);
}

void Transactor::handle_lost(Instant now, ConstBytes mad) {
  now_ = now;
  Transaction* t = find_returned(mad);
  if (t == nullptr) return;
  ++counters_.lost;
  const bool is_repeated = static_cast<Link<SendTag>&>(*t).linked();  // the next try is due already
  if (!t->transfer && !is_repeated) deadlines_.set(t->id, now);       // RMPP has its own timers
}

void Transactor::handle_reply(Instant now, Transaction& t, const Address& from, ConstBytes mad) {
  if (is_rmpp(mad) && !carries_whole(mad) && !is_cut(mad) && mad.size() == t.request.size())
    return handle_transfer(now, t, from, mad);
  const bool in_transfer = t.transfer && t.transfer->receiver && t.transfer->deadline() != never;
  if (in_transfer || (t.phase == Phase::backing_off && (status_of(mad, t.directed) & PARLEY_MAD_STATUS_BUSY) != 0)) {
    ++counters_.unexpected;  // in addition to segments, or a duplicate BUSY
    return;
  }
  const std::size_t most = rmpp::header_octets_of(class_of(mad)) + options_.table_octets_max;
  if (mad.size() > std::max(most, t.request.size())) {
    ++counters_.answered;
    return finish(t, Fault::no_space, longer_than_limit);
  }
  accept_reply(t, from, mad);
  const bool whole = mad.size() == t.request.size() || (carries_whole(mad) && is_rmpp(mad));
  if (!whole) {
    ++counters_.answered;
    return finish(t, Fault::malformed, "a datagram has 256 octets, and a message by RMPP at least 56");
  }
  judge(now, t);
}

/// The options for answers in segments.
rmpp::Options Transactor::reply_options() const {
  rmpp::Options out = options_.rmpp;
  out.octets_max = options_.table_octets_max;
  return out;
}

void Transactor::accept_reply(Transaction& t, const Address& from, ConstBytes mad) {
  t.from = from;
  t.long_reply.clear();
  t.reply_size = std::min(mad.size(), t.reply.size());
  std::copy_n(mad.begin(), t.reply_size, t.reply.begin());
  if (mad.size() > t.reply.size()) t.long_reply.assign(mad.begin(), mad.end());
}

/// Handles a segment of the answer, or an ACK, STOP or ABORT of the request.
void Transactor::handle_transfer(Instant now, Transaction& t, const Address& from, ConstBytes mad) {
  const bool ack = type_of(mad) == RmppType::ack;
  if (ack && !t.transfer) {  // the request was not a segment
    ++counters_.unexpected;
    return;
  }
  if (!t.transfer) t.transfer = std::make_unique<Transfer>();
  Transfer& transfer = *t.transfer;
  if (type_of(mad) == RmppType::data) transfer.sender.reset();  // the request has arrived
  if (transfer.sender && !transfer.receiver) {
    transfer.sender->handle(now, mad);
    if (ack && transfer.sender->outcome() == rmpp::Outcome::done) transfer.turn = turn_of(t.long_request);
  } else if (!ack) {
    if (!transfer.receiver) transfer.receiver.emplace(reply_options());
    t.from = from;
    transfer.receiver->handle(now, mad);
  }
  after_transfer(now, t);
}

void Transactor::after_transfer(Instant now, Transaction& t) {
  Transfer& transfer = *t.transfer;
  if (transfer.receiver && transfer.receiver->outcome() == rmpp::Outcome::done) {
    t.long_reply = transfer.receiver->take_message();
    return judge(now, t);
  }
  const auto& failure = transfer.receiver ? transfer.receiver->failure() : transfer.sender->failure();
  const bool too_long =
      failure && transfer.receiver && !failure->by_peer && failure->status == RmppStatus::resources_exhausted;
  if (too_long) return finish(t, Fault::no_space, longer_than_limit);
  if (failure) return finish(t, Fault::rmpp, words_of(failure));
  if (transfer.sender && transfer.sender->outcome() == rmpp::Outcome::done)
    deadlines_.set(t.id, now + wait_of(t.path.time_limit(), 0));
  else if (transfer.deadline() != never)
    deadlines_.set(t.id, transfer.deadline());
  if (t.in_window && transfer.poll()) again_.push_back(t);
}

// IBA §13.4.7.
void Transactor::judge(Instant now, Transaction& t) {
  const ConstBytes mad = t.reply_octets();
  const std::uint16_t status = status_of(mad, t.directed);
  if (t.destination != none) destinations_[t.destination]->answered = true;
  if ((status & PARLEY_MAD_STATUS_BUSY) != 0) return back_off(now, t);
  if (t.in_window) {
    window_.answered();
    destinations_[t.destination]->window.answered();
  }
  if ((status & PARLEY_MAD_STATUS_REDIRECT) != 0) return redirect(t);
  ++counters_.answered;
  if (t.tries_here > 1) ++counters_.recovered;
  if ((status & PARLEY_MAD_STATUS_CODE) != 0) return finish(t, Fault::status);
  if ((status >> 8 & 0x7F) != 0) return finish(t, Fault::class_status);
  if (attribute_of(mad) != attribute_of(t.request)) return finish(t, Fault::malformed, "it has another attribute");
  const bool empty = t.table && wire::mad::SaHeader::parse(mad)->get(wire::mad::SaHeader::attribute_offset) == 0;
  if (t.table && !empty && (!is_rmpp(mad) || is_cut(mad)))
    return finish(t, Fault::cut, "the other side, or what is between, does not do RMPP");
  finish(t, std::nullopt);
}

void Transactor::back_off(Instant now, Transaction& t) {
  ++counters_.busy;
  if (t.destination != none) destinations_[t.destination]->window.lost(t.sent_at, now);
  if (t.busy++ >= options_.busy_retries) {
    ++counters_.answered;
    return finish(t, Fault::busy);
  }
  leave(t);
  t.phase = Phase::backing_off;
  t.transfer.reset();
  deadlines_.set(t.id, now + wait_of(options_.busy_wait, t.busy));
}

// IBA §13.5.2: the answer has ClassPortInfo, whatever its attribute.
void Transactor::redirect(Transaction& t) {
  ++counters_.redirected;
  const ConstBytes mad = t.reply_octets();
  const auto* facts = wire::mad::facts_of_class(class_of(mad));
  const auto info = facts == nullptr || facts->data > mad.size() ? Result<ClassPortInfo>(fail(Errc::truncated))
                                                                 : ClassPortInfo::parse(mad.subspan(facts->data));
  if (!info || t.directed) return finish(t, Fault::redirect, "requests of that class are not redirected");
  if (t.redirects++ >= options_.redirects_max) return finish(t, Fault::redirect_loop);
  const std::uint16_t lid = info->get(ClassPortInfo::redirect_lid);
  const Gid gid = info->get(ClassPortInfo::redirect_gid);
  if ((lid == 0 || !facts_.lids ? gid == Gid{} : !is_unicast_lid(lid)) || info->get(ClassPortInfo::redirect_qp) == 0)
    return finish(t, Fault::redirect, "it names no port: no LID and no GID, or no queue pair");
  t.to_manager = false;
  leave(t);
  forget_destination(t);
  t.transfer.reset();
  t.to.lid = lid;
  t.to.sl = info->get(ClassPortInfo::redirect_sl);
  t.to.pkey = info->get(ClassPortInfo::redirect_p_key);
  t.to.qpn = info->get(ClassPortInfo::redirect_qp);
  t.to.qkey = info->get(ClassPortInfo::redirect_q_key);
  t.to.grh.reset();
  if (gid != Gid{})
    t.to.grh = Grh{.gid = gid,
                   .traffic_class = info->get(ClassPortInfo::redirect_traffic_class),
                   .flow_label = info->get(ClassPortInfo::redirect_flow_label)};
  if (lid == 0 && facts_.lids) return resolve(t, gid);
  use_destination(t);
  enqueue(t);
}

/// The redirection has no LID: queries subnet administration for the path to its GID.
void Transactor::resolve(Transaction& t, const Gid& gid) {
  t.phase = Phase::resolving;
  if (t.asker != none) return finish(t, Fault::redirect, "subnet administration itself is behind a GID without a LID");
  wire::mad::Query<PathRecord> wanted;
  wanted.set(PathRecord::sgid, gid_).set(PathRecord::dgid, gid).set(PathRecord::reversible, true);
  const Id query = open({.mgmt_class = MgmtClass::subn_adm,
                         .method = Method::get,
                         .attribute = PathRecord::attribute,
                         .component_mask = wanted.component_mask()},
                        sa_path_, wanted.record().octets());
  if (query == none) return finish(t, Fault::no_space, too_many_open);
  at(query).asker = t.id;
  t.query = query;
  submit(query);
}

void Transactor::resolved(Transaction& t, Transaction& query) {
  t.query = none;
  const auto record = query.fault ? Result<PathRecord>(fail(Errc::unreachable))
                                  : PathRecord::parse(query.reply_octets().subspan(rmpp::header_octets));
  release(query.id);
  const std::uint16_t lid = record ? record->get(PathRecord::dlid) : std::uint16_t{0};
  if (!is_unicast_lid(lid))
    return finish(t, Fault::redirect, "subnet administration has no path to the GID that it names");
  t.to.lid = lid;
  t.to.sl = record->get(PathRecord::sl);
  t.to.grh->hop_limit = std::max<std::uint8_t>(1, record->get(PathRecord::hop_limit));
  use_destination(t);
  enqueue(t);
}

Instant Transactor::next_deadline() const {
  const Instant linger = lingering_.empty() ? never : lingering_.front()->transfer->deadline();
  return std::min({deadlines_.next(), linger, replies_deadline()});
}

void Transactor::handle_deadline(Instant now) {
  now_ = now;
  while (const auto id = deadlines_.pop_due(now)) handle_due(now, at(*id));
  handle_replies_due(now);
  while (!lingering_.empty() && lingering_.front()->transfer->deadline() <= now) {
    if (polled_lingering_ == lingering_.front().get()) polled_lingering_ = nullptr;
    lingering_.pop_front();
  }
}

bool Transactor::manager_moved(const Transaction& t) const { return t.to_manager && t.to != sa_path_.address; }

/// Another subnet manager has taken over during the request: sends the request to the new one, from the beginning and
/// with another ID.
void Transactor::follow_manager(Transaction& t) {
  leave(t);
  forget_destination(t);
  by_tid_.erase(t.tid);
  name(t);
  t.to = t.path.address = sa_path_.address;
  use_destination(t);
  enqueue(t);
}

void Transactor::handle_due(Instant now, Transaction& t) {
  if (t.phase == Phase::backing_off) return enqueue(t);
  if (manager_moved(t)) return follow_manager(t);
  if (t.transfer && t.transfer->deadline() <= now) {
    if (t.transfer->receiver) t.transfer->receiver->handle_deadline(now);
    if (t.transfer->sender) t.transfer->sender->handle_deadline(now);
    return after_transfer(now, t);
  }
  Destination& d = *destinations_[t.destination];
  d.window.lost(t.sent_at, now);
  if (d.answered) window_.lost(t.sent_at, now);  // a destination that never answers does not slow the others
  if (t.tries_here > t.path.retries) {
    ++counters_.timeouts;
    return finish(t, Fault::timeout);
  }
  if (t.segmented) {  // another ID, so that segments of two answers are not mixed
    by_tid_.erase(t.tid);
    name(t);
    t.transfer.reset();
    if (!t.long_request.empty()) {
      begin_transfer(t);
      t.transfer->sender->start(now);
    }
  }
  ++t.tries_here;
  again_.push_back(t);
  deadlines_.set(t.id, now + wait_of(t.path.time_limit(), t.tries_here - 1));  // even if it cannot be sent now
}

/// Sends an ABORT (IBA §13.6.2), because no request waits any more. Without it the other side would retransmit until
/// its own time limit.
void Transactor::abandon(const Transaction& t) {
  if (!t.transfer || !t.transfer->under_way()) return;
  const auto& receiver = t.transfer->receiver;
  const auto& sender = t.transfer->sender;
  constexpr auto why = wire::mad::RmppStatus::unspecified;
  try {
    if (receiver && !receiver->message().empty())
      send_unrequested(t.to, rmpp::refusal(receiver->message(), why));
    else if (sender && sender->is_heard())
      send_unrequested(t.to, rmpp::abort_of(t.long_request, why));
  } catch (...) {  // no memory: the other side waits for its time limit
  }
}

/// Keeps a transfer that has ended, to answer duplicates and to send its last packet. If memory is short, the other
/// side gives up after its own time limit.
void Transactor::linger(Transaction& t) {
  std::unique_ptr<Transfer> transfer = std::move(t.transfer);
  if (!transfer || transfer->under_way()) return;
  try {
    lingering_.push_back(std::make_unique<Lingering>(Lingering{std::move(transfer), t.to, t.tid, class_of(t.request)}));
  } catch (...) {
    return;
  }
  lingering_speaks_ = true;
  if (lingering_.size() > lingering_max) lingering_.pop_front();
}

bool Transactor::answer_lingering(Instant now, const Address& from, ConstBytes mad) {
  if (lingering_.empty() || !is_rmpp(mad)) return false;
  for (const auto& each : lingering_) {
    if (!each->has(from, mad)) continue;
    if (!each->transfer->receiver) return false;
    each->transfer->receiver->handle(now, mad);
    lingering_speaks_ = true;
    return true;
  }
  return false;
}

MadError Transactor::error(Id id) const {
  const Transaction& t = at(id);
  return error(id, t.fault.value_or(Fault::malformed), std::string(t.why));
}

MadError Transactor::error(Id id, Fault fault, std::string why) const {
  const Transaction& t = at(id);
  MadError out(fault, std::move(why));
  MadError::Data& data = *out.data_;
  const ConstBytes request = t.request_octets(), reply = t.reply_octets();
  data.request.assign(request.begin(), request.end());
  data.reply.assign(reply.begin(), reply.end());
  data.status = reply.size() >= wire::mad::MadHeader::size ? status_of(reply, t.directed) : std::uint16_t{0};
  data.path = t.path;
  data.path.address = t.to;
  data.tries = t.tries;
  return out;
}

}  // namespace parley::mad
