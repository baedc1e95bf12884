// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Requests of others, and answers to them.
#include <algorithm>

#include "mad/transaction.hpp"

namespace parley::mad {

namespace {

constexpr std::size_t requests_max = 256, posted_max = 1024, replies_max = 64;

bool speaks_of(ConstBytes mad) {
  return is_rmpp(mad) && mad[25] != static_cast<std::uint8_t>(wire::mad::RmppType::data);
}

}  // namespace

void Transactor::handle_request(Instant now, const Address& from, ConstBytes mad) {
  if (speaks_of(mad)) {  // of a long answer of ours
    for (const auto& each : replies_) {
      if (!each->has(from, mad)) continue;
      each->transfer->sender->handle(now, mad);
      lingering_speaks_ = true;
      return;
    }
    ++counters_.unexpected;  // it is over
    return;
  }
  if (!serves_ || requests_.size() >= requests_max) {
    ++counters_.unasked;
    return;
  }
  requests_.push_back({from, Bytes(mad.begin(), mad.end())});
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
  // Who asks again under the same ID has not heard the first answer; if he has, his request came twice.
  const auto is_first = [&](const auto& each) { return each->has(to, mad); };
  const auto first = std::find_if(replies_.begin(), replies_.end(), is_first);
  if (first != replies_.end() && (*first)->transfer->sender->is_heard()) return {};
  polled_lingering_ = nullptr;
  std::erase_if(replies_, is_first);
  if (replies_.size() >= replies_max) return fail(Errc::no_space);
  auto transfer = std::make_unique<Transfer>();
  transfer->sender.emplace(std::move(*sender));
  transfer->sender->start(now_);
  replies_.push_back(std::make_unique<Lingering>(Lingering{std::move(transfer), to, tid_of(mad), class_of(mad)}));
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
  for (const auto& each : replies_) first = std::min(first, each->transfer->deadline());
  return first;
}

void Transactor::handle_replies_due(Instant now) {
  for (const auto& each : replies_) {
    if (each->transfer->deadline() > now) continue;
    each->transfer->sender->handle_deadline(now);
    lingering_speaks_ = true;
  }
}

/// What transfers that no request waits for have to say; those that have said all are forgotten.
const Packet* Transactor::poll_lingering() {
  for (const auto* list : {&lingering_, &replies_}) {
    for (const auto& each : *list) {
      if (!each->transfer->poll()) continue;
      polled_lingering_ = each.get();
      packet_ = {each->to, *each->transfer->out};
      return &packet_;
    }
  }
  const auto over = [](const auto& each) { return each->transfer->deadline() == never; };
  std::erase_if(lingering_, over);
  std::erase_if(replies_, over);
  lingering_speaks_ = false;
  return nullptr;
}

}  // namespace parley::mad
