// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Requests of others, and answers to them.
#include <algorithm>
#include <utility>

#include "mad/transaction.hpp"

namespace parley::mad {

namespace {

using rmpp::Outcome;
using wire::mad::RmppHeader;
using wire::mad::RmppStatus;
using wire::mad::RmppType;

constexpr std::size_t requests_max = 256, posted_max = 1024, replies_max = 64, ended_max = 256;

template <class List>
auto find_asker(const List& list, const Address& other, ConstBytes mad) {
  return std::find_if(list.begin(), list.end(), [&](const auto& each) { return each->has_asker(other, mad); });
}
constexpr auto is_over = [](const auto& each) { return each->transfer->deadline() == never; };

}  // namespace

void Transactor::handle_request(Instant now, const Address& from, ConstBytes mad) {
  if (!is_rmpp(mad) || is_cut(mad) || carries_whole(mad)) return accept_request(from, Bytes(mad.begin(), mad.end()));
  if (mad.size() == PARLEY_IB_MAD_LEN) return handle_segment(now, from, mad);
  ++counters_.malformed;
}

void Transactor::accept_request(const Address& from, Bytes mad) {
  if (!serves_ || requests_.size() >= requests_max) {
    ++counters_.unasked;
    return;
  }
  requests_.push_back({from, std::move(mad)});
}

/// Handles a segment of a request, or an ACK, STOP or ABORT of an answer. STOP and ABORT of both have the request's
/// method: while the request is incomplete, they belong to it.
void Transactor::handle_segment(Instant now, const Address& from, ConstBytes mad) {
  const auto header = *RmppHeader::parse(mad);
  const RmppType type = header.get(RmppHeader::rmpp_type);
  const auto request = find_asker(long_requests_, from, mad);
  const bool known = request != long_requests_.end();
  if (known && (type == RmppType::data || (*request)->transfer->under_way())) {
    (*request)->transfer->receiver->handle(now, mad);
    after_segment(**request);
    if ((*request)->transfer->deadline() == never) long_requests_.erase(request);
    return;
  }
  const auto reply = find_asker(replies_, from, mad);
  if (type != RmppType::data && reply != replies_.end()) {
    (*reply)->transfer->sender->handle(now, mad);
    lingering_speaks_ = true;
    return;
  }
  const bool is_turn = type == RmppType::ack && header.get(RmppHeader::data1) == 0;
  if (known && is_turn) {  // there is no answer yet
    std::copy(mad.begin(), mad.end(), (*request)->transfer->turned.emplace().begin());
    return;
  }
  const bool is_word = type == RmppType::ack || type == RmppType::stop || type == RmppType::abort;
  if (!is_word) return begin_long_request(now, from, mad);
  ++counters_.unexpected;  // its transfer is over
}

/// If the queue of requests is full, the segment is not acknowledged, and its sender retransmits it.
void Transactor::begin_long_request(Instant now, const Address& from, ConstBytes mad) {
  if (!serves_ || requests_.size() >= requests_max) {
    ++counters_.unasked;
    return;
  }
  rmpp::Options options = options_.rmpp;
  options.octets_max = std::min(options.octets_max, options_.request_octets_max);
  options.checks_length = true;
  auto transfer = std::make_unique<Transfer>();
  rmpp::Receiver& receiver = transfer->receiver.emplace(options);
  receiver.handle(now, mad);
  if (receiver.failure()) {
    ++counters_.unfinished;
    if (transfer->poll()) send_unrequested(from, *transfer->out);
  } else if (receiver.message().empty()) {
    ++counters_.unexpected;  // a later segment of a transfer that is over
  } else {
    keep_long_request(std::move(transfer), from, mad);
  }
}

void Transactor::keep_long_request(std::unique_ptr<Transfer> transfer, const Address& from, ConstBytes mad) {
  const auto comes = [](const auto& each) { return each->transfer->under_way(); };
  const auto coming = static_cast<std::size_t>(std::count_if(long_requests_.begin(), long_requests_.end(), comes));
  if (transfer->under_way() && coming >= options_.long_requests_max) {
    ++counters_.unfinished;
    return send_unrequested(from, rmpp::refusal(mad, RmppStatus::resources_exhausted));
  }
  if (long_requests_.size() - coming >= ended_max) {
    const auto oldest = std::find_if_not(long_requests_.begin(), long_requests_.end(), comes);
    long_requests_.erase(oldest);
  }
  auto kept = std::make_unique<Lingering>(Lingering{std::move(transfer), from, whole_tid_of(mad), class_of(mad)});
  after_segment(*long_requests_.emplace_back(std::move(kept)));
}

void Transactor::after_segment(Lingering& request) {
  rmpp::Receiver& receiver = *request.transfer->receiver;
  if (request.transfer->poll()) send_unrequested(request.to, *std::exchange(request.transfer->out, std::nullopt));
  if (receiver.failure()) ++counters_.unfinished;
  const bool is_whole = receiver.outcome() == Outcome::done && !receiver.message().empty();  // not yet taken
  if (is_whole) accept_request(request.to, receiver.take_message());
}

/// Queues a packet of RMPP about a segment. Without room it is lost, as on a wire.
void Transactor::send_unrequested(const Address& to, ConstBytes mad) {
  if (posted_.size() < posted_max) posted_.emplace_back(to, Bytes(mad.begin(), mad.end()));
}

std::optional<Incoming> Transactor::poll_request() {
  if (requests_.empty()) return std::nullopt;
  Incoming first = std::move(requests_.front());
  requests_.pop_front();
  return first;
}

Result<void> Transactor::post(const Address& to, ConstBytes mad) {
  const bool rmpp = is_rmpp(mad);
  if (rmpp && !carries_whole(mad)) return post_long(to, mad);
  if (mad.size() != PARLEY_IB_MAD_LEN && !rmpp)
    return fail(Errc::invalid_argument, "a datagram has 256 octets, not {a}", static_cast<std::int64_t>(mad.size()));
  if (posted_.size() >= posted_max) return fail(Errc::no_space);
  posted_.emplace_back(to, Bytes(mad.begin(), mad.end()));
  return {};
}

Result<void> Transactor::post_long(const Address& to, ConstBytes mad) {
  auto sender = rmpp::Sender::create(Bytes(mad.begin(), mad.end()), options_.rmpp);
  if (!sender) return tl::unexpected(sender.error());
  // The same request has an answer already. If a part of that is acknowledged, the request is a duplicate. Otherwise
  // this answer replaces it.
  const auto first = find_asker(replies_, to, mad);
  if (first != replies_.end() && (*first)->transfer->sender->is_heard()) return {};
  polled_lingering_ = nullptr;
  if (first != replies_.end()) replies_.erase(first);
  if (replies_.size() >= replies_max) return fail(Errc::no_space);
  auto transfer = std::make_unique<Transfer>();
  transfer->sender.emplace(std::move(*sender));
  transfer->sender->start(now_);
  const auto asked = find_asker(long_requests_, to, mad);
  if (asked != long_requests_.end() && (*asked)->transfer->turned)
    transfer->sender->handle(now_, *(*asked)->transfer->turned);  // IBA §13.6.3.3: it has the answer's first window
  replies_.push_back(std::make_unique<Lingering>(Lingering{std::move(transfer), to, whole_tid_of(mad), class_of(mad)}));
  lingering_speaks_ = true;
  return {};
}

const Packet* Transactor::poll_posted() {
  if (posted_.empty()) return nullptr;
  polled_posted_ = true;
  packet_ = {posted_.front().first, posted_.front().second};
  return &packet_;
}

Instant Transactor::replies_deadline() const {
  Instant first = never;
  for (const auto* list : {&replies_, &long_requests_})
    for (const auto& each : *list) first = std::min(first, each->transfer->deadline());
  return first;
}

void Transactor::handle_replies_due(Instant now) {
  for (const auto& each : replies_) {
    if (each->transfer->deadline() > now) continue;
    each->transfer->sender->handle_deadline(now);
    lingering_speaks_ = true;
  }
  for (const auto& each : long_requests_) {
    if (each->transfer->deadline() > now) continue;
    each->transfer->receiver->handle_deadline(now);
    after_segment(*each);
  }
  std::erase_if(long_requests_, is_over);
}

/// The next packet of transfers without a waiting request. Removes transfers that are over.
const Packet* Transactor::poll_lingering() {
  for (const auto* list : {&lingering_, &replies_}) {
    for (const auto& each : *list) {
      if (!each->transfer->poll()) continue;
      polled_lingering_ = each.get();
      packet_ = {each->to, *each->transfer->out};
      return &packet_;
    }
  }
  std::erase_if(lingering_, is_over);
  std::erase_if(replies_, is_over);
  lingering_speaks_ = false;
  return nullptr;
}

}  // namespace parley::mad
