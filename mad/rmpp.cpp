// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/rmpp.hpp"

#include <algorithm>
#include <utility>

#include "wire/mad/sa.hpp"

namespace parley::mad::rmpp {

namespace {

using wire::mad::RmppHeader;
using wire::mad::RmppType;
namespace flags = wire::mad::rmpp_flags;

constexpr std::uint8_t version = 1;
constexpr std::size_t rmpp_header = PARLEY_IB_MAD_LEN - segment_octets;

std::size_t header_of(ConstBytes mad) { return header_octets_of(mad[1]); }

/// Octets of data in a segment. In the last one its PayloadLength determines them, which includes the class's header.
std::size_t data_octets(ConstBytes mad) {
  const std::size_t class_header = header_of(mad) - rmpp_header;
  const std::size_t payload = RmppHeader::parse(mad)->get(RmppHeader::data2);
  const bool last = (mad[26] & flags::last) != 0;
  return (last ? std::clamp(payload, class_header, segment_octets) : segment_octets) - class_header;
}

/// The members of RMPP's header that differ between packets.
struct Segment {
  RmppType type;
  std::uint32_t flags, data1, data2;
  RmppStatus status = RmppStatus::normal;
};

void write_header(MutBytes mad, const Segment& segment) {
  auto header = *RmppHeader::parse(mad);
  header.set(RmppHeader::rmpp_version, version)
      .set(RmppHeader::rmpp_type, segment.type)
      .set(RmppHeader::r_resp_time, 0x1F)  // not specified
      .set(RmppHeader::rmpp_flags, static_cast<std::uint8_t>(segment.flags))
      .set(RmppHeader::rmpp_status, segment.status)
      .set(RmppHeader::data1, segment.data1)
      .set(RmppHeader::data2, segment.data2)
      .emit(mad);
}

/// IBA §13.6.2: ACK, STOP and ABORT go in the opposite direction, with the response's method and the headers of the
/// segment that they answer.
Datagram answer_to(ConstBytes headers, const Segment& segment) {
  Datagram out{};
  std::copy_n(headers.begin(), header_of(headers), out.begin());
  out[3] ^= PARLEY_IB_MAD_RESPONSE;
  write_header(out, segment);
  return out;
}

bool is_whole(ConstBytes mad) { return mad.size() == PARLEY_IB_MAD_LEN; }

/// The status of a STOP or ABORT. "normal" is not allowed there, and counts as "illegal status".
RmppStatus status_of(const RmppHeader& header) {
  const RmppStatus status = header.get(RmppHeader::rmpp_status);
  return status == RmppStatus::normal ? RmppStatus::illegal_status : status;
}

}  // namespace

Datagram refusal(ConstBytes segment, RmppStatus status) {
  const bool stop = status == RmppStatus::resources_exhausted;  // the only status that STOP may have
  return answer_to(segment, {stop ? RmppType::stop : RmppType::abort, flags::active, 0, 0, status});
}

Datagram abort_of(ConstBytes message, RmppStatus status) {
  Datagram out = refusal(message, status);
  out[3] ^= PARLEY_IB_MAD_RESPONSE;  // it goes in the direction of the data
  return out;
}

Result<Sender> Sender::create(Bytes message, const Options& options) {
  const std::size_t head = message.size() < 2 ? header_octets : header_of(message);
  if (message.size() < head || message.size() > message_max)
    return fail(Errc::invalid_argument, "an RMPP message has {a} to {b} octets with its headers",
                static_cast<std::int64_t>(head), static_cast<std::int64_t>(message_max));
  return Sender(std::move(message), options);
}

Sender::Sender(Bytes message, const Options& options)
    : message_(std::move(message)), options_(options), head_(header_of(message_)) {
  const std::size_t data = message_.size() - head_, room = PARLEY_IB_MAD_LEN - head_;
  count_ = static_cast<std::uint32_t>(std::max<std::size_t>(1, (data + room - 1) / room));
}

void Sender::start(Instant now) {
  if (started_) return;
  started_ = true;
  deadline_ = now + options_.ack_wait;
}

bool Sender::poll_transmit(Datagram& out) {
  if (abort_) {
    out = abort_of(message_, *abort_);
    abort_.reset();
    return true;
  }
  if (!started_ || outcome_ != Outcome::under_way || next_ > std::min(window_last_, count_)) return false;
  out = segment(next_++);
  return true;
}

// IBA §13.6.2.1: the first PayloadLength is that of the whole message, the last that of its segment.
Datagram Sender::segment(std::uint32_t number) const {
  PARLEY_ASSERT(number >= 1 && number <= count_);
  const std::size_t room = PARLEY_IB_MAD_LEN - head_, class_header = head_ - rmpp_header;
  const std::size_t data = message_.size() - head_, at = std::size_t{number - 1} * room;
  const std::size_t here = std::min(room, data - at);
  const auto head = static_cast<std::ptrdiff_t>(head_);
  Datagram out{};
  std::copy_n(message_.begin(), head_, out.begin());
  std::copy_n(message_.begin() + head + static_cast<std::ptrdiff_t>(at), here, out.begin() + head);
  Segment segment{RmppType::data, flags::active, number, 0};
  if (number == 1) {
    segment.flags |= flags::first;
    segment.data2 = static_cast<std::uint32_t>(data + count_ * class_header);
  }
  if (number == count_) {
    segment.flags |= flags::last;
    segment.data2 = static_cast<std::uint32_t>(here + class_header);
  }
  if (count_ == 1) segment.data2 = static_cast<std::uint32_t>(data + class_header);
  write_header(out, segment);
  return out;
}

void Sender::handle(Instant now, ConstBytes mad) {
  if (!is_whole(mad) || !started_ || outcome_ != Outcome::under_way) return;
  const auto header = *RmppHeader::parse(mad);
  if ((header.get(RmppHeader::rmpp_flags) & flags::active) == 0) return;
  if (header.get(RmppHeader::rmpp_version) != version) return give_up(RmppStatus::unsupported_version, true);
  switch (header.get(RmppHeader::rmpp_type)) {
    case RmppType::ack:
      if (header.get(RmppHeader::rmpp_status) != RmppStatus::normal) return give_up(RmppStatus::illegal_status, true);
      return handle_ack(now, header.get(RmppHeader::data1), header.get(RmppHeader::data2));
    case RmppType::stop:
    case RmppType::abort: return fail_by_peer(status_of(header));
    case RmppType::data: return;  // of a message in the other direction
    default: return give_up(RmppStatus::bad_type, true);
  }
}

// IBA §13.6.3.2: a window never shrinks, and what was not sent is not acknowledged.
void Sender::handle_ack(Instant now, std::uint32_t segment, std::uint32_t window_last) {
  if (window_last < segment) return give_up(RmppStatus::window_too_small, true);
  if (segment > count_ || segment > window_last_) return give_up(RmppStatus::segment_too_big, true);
  if (segment < acknowledged_ || window_last < window_last_) return;    // an old ACK
  if (segment == acknowledged_ && window_last == window_last_) return;  // a duplicate is not progress
  tries_ = 0;
  acknowledged_ = segment;
  window_last_ = window_last;
  next_ = std::max(next_, segment + 1);
  deadline_ = now + options_.ack_wait;
  if (acknowledged_ < count_) return;
  outcome_ = Outcome::done;
  deadline_ = never;
}

void Sender::handle_deadline(Instant now) {
  if (now < deadline_) return;
  if (tries_++ == options_.retries) return give_up(RmppStatus::too_many_retries, true);
  next_ = acknowledged_ + 1;
  deadline_ = now + options_.ack_wait;
}

void Sender::give_up(RmppStatus status, bool tell) {
  outcome_ = Outcome::failed;
  failure_ = Failure{false, status};
  if (tell) abort_ = status;
  deadline_ = never;
}

void Sender::fail_by_peer(RmppStatus status) {
  give_up(status, false);
  failure_->by_peer = true;
}

Receiver::Receiver(const Options& options) : options_(options) {
  options_.window = std::clamp<std::uint32_t>(options_.window, 1, 4096);
}

void Receiver::handle(Instant now, ConstBytes mad) {
  if (!is_whole(mad) || finished_) return;
  const auto header = *RmppHeader::parse(mad);
  if ((header.get(RmppHeader::rmpp_flags) & flags::active) == 0) return;
  if (outcome_ == Outcome::done) {  // complete: acknowledge duplicates, and ignore everything else
    if (header.get(RmppHeader::rmpp_type) == RmppType::data && header.get(RmppHeader::data1) <= received_)
      acknowledge();
    return;
  }
  if (header.get(RmppHeader::rmpp_version) != version) return give_up(mad, RmppStatus::unsupported_version);
  switch (header.get(RmppHeader::rmpp_type)) {
    case RmppType::data:
      if (header.get(RmppHeader::rmpp_status) != RmppStatus::normal) return give_up(mad, RmppStatus::illegal_status);
      return handle_data(now, mad);
    case RmppType::stop:
    case RmppType::abort:
      give_up(mad, status_of(header));
      answer_.reset();
      failure_->by_peer = true;
      return;
    case RmppType::ack: return;  // of a message in the other direction
    default: return give_up(mad, RmppStatus::bad_type);
  }
}

void Receiver::handle_data(Instant now, ConstBytes mad) {
  const auto header = *RmppHeader::parse(mad);
  const std::uint32_t segment = header.get(RmppHeader::data1);
  const bool first = (header.get(RmppHeader::rmpp_flags) & flags::first) != 0;
  if (segment == 0 || first != (segment == 1)) return give_up(mad, RmppStatus::inconsistent_first);
  if (segment <= received_) return acknowledge();  // the ACK was lost
  if (segment > window_last_) return;
  if (received_ == 0 && segment == 1) {
    std::copy(mad.begin(), mad.end(), header_.begin());
    message_.assign(mad.begin(), mad.begin() + static_cast<std::ptrdiff_t>(header_of(mad)));
    deadline_ = now + options_.receive_max;
    if (options_.checks_length) said_length_ = header.get(RmppHeader::data2);
  }
  if (ahead_.empty()) ahead_.resize(options_.window);
  Datagram copy;
  std::copy(mad.begin(), mad.end(), copy.begin());
  ahead_[segment % options_.window] = copy;
  const std::uint32_t before = received_;
  while (outcome_ == Outcome::under_way) {
    auto& next = ahead_[(received_ + 1) % options_.window];
    if (!next) break;
    const Datagram whole = *next;
    next.reset();
    ++received_;
    accept_in_order(whole);
    if ((whole[26] & flags::last) != 0 && outcome_ == Outcome::under_way) finish(now, whole);
  }
  if (outcome_ == Outcome::failed || received_ == before) return;
  if (outcome_ == Outcome::done || received_ >= window_last_) acknowledge();  // at once after the first: a window of 1
}

void Receiver::accept_in_order(ConstBytes mad) {
  const ConstBytes data = mad.subspan(header_of(mad));
  if (const auto objection = objection_to_length(mad)) return give_up(mad, *objection);
  if (message_.size() + data_octets(mad) > options_.octets_max + header_of(mad))
    return give_up(mad, RmppStatus::resources_exhausted);
  message_.insert(message_.end(), data.begin(), data.end());
}

/// IBA §13.6.2.1: the first PayloadLength determines the number and the length of the last segment.
std::optional<RmppStatus> Receiver::objection_to_length(ConstBytes mad) const {
  if (said_length_ == 0) return std::nullopt;
  const std::size_t whole = std::size_t{received_} * segment_octets, class_header = header_of(mad) - rmpp_header;
  const std::size_t count = (said_length_ + segment_octets - 1) / segment_octets;
  if (said_length_ > options_.octets_max + count * class_header) return RmppStatus::resources_exhausted;
  const bool last = (mad[26] & flags::last) != 0;
  const std::size_t end = whole - segment_octets + RmppHeader::parse(mad)->get(RmppHeader::data2);
  if (last ? end == said_length_ : whole < said_length_) return std::nullopt;
  return RmppStatus::inconsistent_length;
}

// IBA §13.6.2.1: the last PayloadLength counts the class's header and is at most that of a whole segment.
void Receiver::finish(Instant now, ConstBytes last) {
  const std::uint32_t payload = RmppHeader::parse(last)->get(RmppHeader::data2);
  if (payload < header_of(last) - rmpp_header || payload > segment_octets)
    return give_up(last, RmppStatus::inconsistent_length);
  message_.resize(message_.size() - (segment_octets - payload));
  ahead_ = {};
  outcome_ = Outcome::done;
  deadline_ = now + options_.linger;
}

void Receiver::acknowledge() {
  if (outcome_ != Outcome::done) window_last_ = received_ + options_.window;
  answer_ = answer_to(header_, {RmppType::ack, flags::active, received_, std::max(window_last_, received_)});
}

bool Receiver::poll_transmit(Datagram& out) {
  if (!answer_) return false;
  out = *answer_;
  answer_.reset();
  return true;
}

void Receiver::handle_deadline(Instant now) {
  if (now < deadline_) return;
  deadline_ = never;
  if (outcome_ == Outcome::under_way) return give_up(header_, RmppStatus::total_time_too_long);
  finished_ = true;
}

void Receiver::give_up(ConstBytes mad, RmppStatus status) {
  outcome_ = Outcome::failed;
  failure_ = Failure{false, status};
  answer_ = refusal(mad, status);
  message_.clear();
  ahead_ = {};
  deadline_ = never;
  finished_ = true;
}

}  // namespace parley::mad::rmpp
