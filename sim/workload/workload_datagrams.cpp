// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/workload/workload_datagrams.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace parley::sim {
namespace {

constexpr std::uint32_t displaced_most = 64;  // by how many messages a datagram may arrive too early or too late
/// Fractions of a user's patience: for an answer, for a message, and for the first message from a peer that does not
/// know the service yet.
constexpr int answer_share = 8, message_share = 4, first_share = 2;

}  // namespace

DatagramEnd::DatagramEnd(const TransferPlan& plan, Duration patience, Duration held_up, check::End& end,
                         const std::string& label, const bool& corrupted, check::Judge& judge)
    : plan_(plan),
      patience_(patience),
      held_up_(held_up),
      end_(end),
      label_(label),
      corrupted_(corrupted),
      judge_(judge),
      window_(std::clamp<std::uint32_t>(plan.messages, 1, window_max)),
      got_(plan.messages) {
  for (std::size_t i = slots(); i > 0; --i) free_.push_back(i - 1);
}

Result<void> DatagramEnd::open(Device& device, PdHandle pd) {
  device_ = &device;
  pd_ = pd;
  memory_.assign(slots() * (receive_octets() + octets_out()), 0xEE);
  auto region = device.reg_mr(pd, memory_, Access::local_write);
  if (!region) return tl::unexpected(region.error());
  region_ = *region;
  return {};
}

QpInit DatagramEnd::qp_init(PdHandle pd, CompletionQueue* cq) const {
  QpInit init;
  init.pd = pd;
  init.send_cq = init.recv_cq = cq;
  init.max_send_wr = init.max_recv_wr = slots();
  init.type = QpType::ud;
  return init;
}

void DatagramEnd::use(QueuePair& qp, Instant now) {
  qp_ = &qp;
  for (std::uint32_t i = 0; i < slots(); ++i) post_receive(now);
}

void DatagramEnd::post_receive(Instant now) {
  const std::uint64_t slot = receives_posted_ % slots();
  const Sge sge{.addr = region_.addr + slot * receive_octets(),
                .length = static_cast<std::uint32_t>(receive_octets()),
                .lkey = region_.lkey};
  const std::uint64_t wr_id = receive_bit | receives_posted_;
  const auto posted = qp_->post_recv({.wr_id = wr_id, .sges = {&sge, 1}});
  if (posted) {
    received_.posted(wr_id, WcOpcode::recv);
    ++receives_posted_;
  } else if (posted.error() != make_error_code(Errc::wrong_state)) {  // it has ended; its event will follow
    wrong(now, "a receive could not be posted: " + posted.error().message());
  }
}

void DatagramEnd::established(const mpa::Parameters&, Instant now) {
  const ib::Parameters& agreed = *end_.ib;
  auto way = agreed.ah ? device_->create_ah(pd_, *agreed.ah) : fail(Errc::invalid_argument, "Established names no way");
  if (!way) return wrong(now, "no address handle could be made: " + way.error().message());
  way_ = std::move(*way);
  peer_qpn_ = agreed.remote_qp_num;
  // The service's answer contains its Q_Key; the requester uses that of the port space (IBA Annex A11).
  peer_qkey_ = plan_.initiator() ? agreed.remote_qkey : qp_->query().qkey.value_or(0);
  up_ = true;
  go_on(now);
  end_.transfers_done = finished();
}

/// Sends pending messages, as far as there is room.
void DatagramEnd::go_on(Instant now) {
  if (!up_) return;
  while (plan_.initiator() && !over_ && next_ < plan_.messages && unanswered_ < window_) {
    due_.push_back(next_++);
    ++unanswered_;
  }
  while (!due_.empty() && !free_.empty()) {
    if (!post(due_.front(), now)) return;
    due_.pop_front();
  }
}

bool DatagramEnd::post(std::uint32_t message, Instant now) {
  const std::size_t slot = free_.back();
  const MutBytes octets = send_slot(slot);
  check::fill_pattern({plan_.number, plan_.outgoing(), message}, octets);
  const Sge sge{.addr = region_.addr + static_cast<std::uint64_t>(octets.data() - memory_.data()),
                .length = static_cast<std::uint32_t>(octets.size()),
                .lkey = region_.lkey};
  SendWr wr;
  wr.wr_id = next_wr_;
  wr.opcode = SendWr::Opcode::send;
  if (!octets.empty()) wr.sges = {&sge, 1};
  wr.ah = way_.get();
  wr.remote_qp_num = peer_qpn_;
  wr.remote_qkey = peer_qkey_;
  if (const auto posted = qp_->post_send(wr); !posted) {
    if (posted.error() != make_error_code(Errc::wrong_state))
      wrong(now, "a datagram could not be posted: " + posted.error().message());
    return false;
  }
  sent_.posted(next_wr_++, WcOpcode::send);
  free_.pop_back();
  in_flight_.push_back(slot);
  if (plan_.initiator() || plan_.both_ways) ++end_.messages_sent;
  return true;
}

void DatagramEnd::completed(const WorkCompletion& completion, Instant now) {
  ++progress_;
  const bool receive = (completion.wr_id & receive_bit) != 0;
  (receive ? received_ : sent_).completed(completion, excused(), label_, now, judge_);
  if (completion.status != WcStatus::success) return;
  if (receive) {
    on_receive(completion, now);
    post_receive(now);
  } else if (!in_flight_.empty()) {
    free_.push_back(in_flight_.front());
    in_flight_.pop_front();
  }
  go_on(now);
  end_.transfers_done = finished();
}

void DatagramEnd::on_receive(const WorkCompletion& completion, Instant now) {
  silences_ = 0;
  const std::uint64_t slot = (completion.wr_id & ~receive_bit) % slots();
  const std::size_t octets = completion.byte_len - std::min<std::size_t>(completion.byte_len, network_header);
  const ConstBytes message = ConstBytes(memory_).subspan(slot * receive_octets() + network_header, octets);
  const auto number = find_message(message);
  // A queue pair accepts datagrams from any sender. After a fault these include datagrams for an earlier owner of its
  // number.
  if (!number || got_[*number]) {
    if (!excused())
      wrong(now, number ? fmt::format("message {} {} came a second time", *number + 1, to_string(plan_.incoming()))
                        : fmt::format("a datagram of {} octets came that is not a message {}", octets,
                                      to_string(plan_.incoming())));
    return;
  }
  if (!plan_.initiator()) peer_qpn_ = completion.src_qp;
  take(*number, octets);
}

/// Identifies the message: by the pattern, or if it is too short for that, as the first missing one.
std::optional<std::uint32_t> DatagramEnd::find_message(ConstBytes octets) const {
  if (octets.size() != octets_in()) return std::nullopt;
  const std::uint32_t begin = expected_ - std::min(expected_, displaced_most);
  const std::uint32_t end = std::min<std::uint32_t>(plan_.messages, expected_ + displaced_most);
  for (std::uint32_t k = begin; k < end; ++k) {
    if (octets.size() < recognised_from ? !got_[k] : !check::find_mismatch({plan_.number, plan_.incoming(), k}, octets))
      return k;
  }
  return std::nullopt;
}

void DatagramEnd::take(std::uint32_t message, std::size_t octets) {
  got_[message] = true;
  ++got_count_;
  expected_ = std::max(expected_, message + 1);
  if (!plan_.initiator() || plan_.both_ways) {
    ++end_.messages_got;
    end_.octets_got += octets;
  }
  if (!plan_.initiator())
    due_.push_back(message);
  else if (unanswered_ > 0)
    --unanswered_;
}

bool DatagramEnd::finished() const {
  if (!up_) return false;
  if (plan_.messages == 0 || over_) return true;
  return got_count_ == plan_.messages && due_.empty();
}

// Unanswered messages are now considered lost; if nothing at all arrives, the peer is gone.
void DatagramEnd::silent(Instant now) {
  if (finished()) return;
  over_ = !plan_.initiator() || ++silences_ >= 2 || next_ == plan_.messages;
  unanswered_ = 0;
  go_on(now);
  end_.transfers_done = finished();
}

std::optional<Duration> DatagramEnd::longest_silence() const {
  return held_up_ + patience_ / (plan_.initiator() ? answer_share : got_count_ > 0 ? message_share : first_share);
}

void DatagramEnd::ended(Instant now) const {
  sent_.ended(label_, now, judge_);
  received_.ended(label_, now, judge_);
}

Result<void> DatagramEnd::close(Device& device) {
  way_.reset();
  Result<void> result;
  if (region_.lkey != 0) result = device.dereg_mr(std::exchange(region_.lkey, 0));
  memory_ = Bytes();
  return result;
}

std::string DatagramEnd::pending() const {
  return fmt::format("{} of {} datagrams sent, {} received", plan_.initiator() ? next_ : end_.messages_sent,
                     plan_.messages, got_count_);
}

}  // namespace parley::sim
