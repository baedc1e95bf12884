// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "replay/roce/roce_recording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/text.hpp"
#include "capture/analyzer.hpp"
#include "capture/read/roce/roce_packet.hpp"
#include "capture/rules/ibcm/cm_exchange.hpp"
#include "wire/pcapng.hpp"

namespace parley::replay {

using capture::Side;
using wire::ib::CmMessageType;
using wire::ib::Operation;

namespace {

constexpr std::size_t steps_max = 1 << 20;  // of one connection; further ones are dropped, with a note

/// Collects the packets of the frames that the checker assigned to the connection.
class RoceGatherer {
 public:
  RoceGatherer(const std::map<std::uint64_t, Side>& frames, RoceRecording& out) : frames_(frames), out_(out) {}

  void packet(const wire::CapturedPacket& captured) {
    const auto whose = frames_.find(captured.frame);
    if (whose == frames_.end()) return;
    const wire::PacketView view = wire::parse_packet(captured.link_type, captured.octets, captured.original_length);
    capture::RocePacket p;
    if (reader_.read(view, captured, p) != capture::RoceReader::Status::packet || p.icrc_wrong()) {
      ++unplayed_;
      return;
    }
    RoceStep step;
    step.frame = captured.frame;
    step.at = captured.at;
    step.from = whose->second;
    step.octets.resize(p.packet.size());
    p.packet.emit(step.octets);
    step.known = std::min(p.known, step.octets.size());
    if (p.packet.bth.dest_qpn == PARLEY_IB_GSI_QPN && p.service() == wire::ib::Service::ud) {
      auto message = wire::ib::CmMessage::parse(p.packet.payload);
      if (!message || !p.whole()) return void(++unplayed_);
      step.cm = *std::move(message);
    }
    out_.steps.push_back(std::move(step));
  }
  void finish() {
    if (unplayed_ > 0)
      out_.lacks.push_back(fmt::format("{} that cannot be read, or whose ICRC is wrong", counted(unplayed_, "packet")));
  }

 private:
  const std::map<std::uint64_t, Side>& frames_;
  RoceRecording& out_;
  capture::RoceReader reader_;
  std::uint64_t unplayed_ = 0;
};

/// The packets that one side has sent so far.
class SentPackets {
 public:
  explicit SentPackets(std::uint32_t path_mtu) : path_mtu_(path_mtu) {}

  /// Adds a packet. True: it was sent before.
  bool add(const RoceStep& step) {
    if (step.cm) {
      Bytes mad(PARLEY_IB_MAD_LEN);
      step.cm->emit(mad);
      return !messages_.insert(std::move(mad)).second;
    }
    const wire::ib::Packet p = step.packet();
    if (wire::ib::service_of(p.bth.opcode) == wire::ib::Service::ud) return false;
    const std::uint32_t psn = p.bth.psn;
    if (step.is_response()) return !answers_.insert({step.is_ack(), step.is_nak() ? p.aeth.syndrome : 0, psn}).second;
    // IBA §9.7.3: a Read occupies the PSNs of its responses, and may be retransmitted from any of them.
    std::uint32_t span = 1;
    if (step.operation() == Operation::read_request && path_mtu_ != 0)
      span = std::max<std::uint32_t>(1, p.reth.dma_length / path_mtu_ + (p.reth.dma_length % path_mtu_ != 0 ? 1 : 0));
    const auto after = requests_.upper_bound(psn);
    if (after != requests_.begin() && psn - std::prev(after)->first < std::prev(after)->second) return true;
    requests_[psn] = span;
    return false;
  }
  /// The receiver was not ready for this PSN: the sender retransmits from it (IBA §9.7.5.2.8).
  void forget_requests(std::uint32_t psn) {
    std::erase_if(requests_, [psn](const auto& one) { return ((one.first - psn) & PARLEY_IB_QPN_MAX) < 0x800000; });
  }
  void forget_answers() { answers_.clear(); }

 private:
  std::uint32_t path_mtu_;
  std::set<Bytes> messages_;
  std::map<std::uint32_t, std::uint32_t> requests_;  // PSN to the number of PSNs that the request occupies
  std::set<std::tuple<bool, std::uint8_t, std::uint32_t>> answers_;
};

// Marks the effects of packet loss, which are not part of the conversation: NAKs for missing PSNs, and retransmissions
// because of them. A retransmission after an RNR NAK, and the answer to it, are steps of their own.
void mark_repeated(std::vector<RoceStep>& steps, std::uint32_t path_mtu) {
  std::array<SentPackets, 2> sent{SentPackets(path_mtu), SentPackets(path_mtu)};
  for (RoceStep& step : steps) {
    SentPackets &mine = sent[index_of(step.from)], &theirs = sent[index_of(capture::other(step.from))];
    step.again = step.octets.front() == PARLEY_IB_OPCODE_CNP || mine.add(step);
    if (!step.is_nak()) continue;
    const wire::ib::Packet p = step.packet();
    if ((p.aeth.syndrome & PARLEY_IB_SYNDROME_KIND) == PARLEY_IB_SYNDROME_RNR_NAK) {
      theirs.forget_requests(p.bth.psn);
      mine.forget_answers();
    } else if (p.aeth.syndrome ==
               (PARLEY_IB_SYNDROME_NAK | static_cast<std::uint8_t>(wire::ib::Nak::psn_sequence_error))) {
      step.again = true;
    }
  }
}

}  // namespace

bool RoceStep::is_nak() const {
  if (!is_response() || operation() != Operation::acknowledge) return false;
  return (packet().aeth.syndrome & PARLEY_IB_SYNDROME_KIND) != PARLEY_IB_SYNDROME_ACK;
}

std::size_t RoceRecording::count(Side side) const {
  return static_cast<std::size_t>(
      std::count_if(steps.begin(), steps.end(), [side](const RoceStep& s) { return s.from == side && !s.again; }));
}

RoceRecording read_roce_recording(ConstBytes file, const Contents& contents, std::size_t number) {
  RoceRecording out;
  out.connection = number;
  out.connections = contents.report.connections.size();
  out.report = contents.report.connections[number - 1];
  out.notes = contents.report.notes;
  if (!contents.error.empty()) {
    out.notes.push_back("the file is not whole: " + contents.error);
    out.lacks.emplace_back("the rest of the file");
  }
  capture::AnalyzerOptions options;
  options.events = true;
  options.only = {out.report.first_frame};
  options.events_max = steps_max;
  capture::Analyzer analyzer(options);
  (void)wire::read_capture(file, [&](const wire::CapturedPacket& p) { analyzer.push(p); });
  const capture::FileReport report = analyzer.finish();
  std::map<std::uint64_t, Side> frames;
  for (const capture::ConnectionReport& c : report.connections) {
    if (c.ib == nullptr || c.first_frame != out.report.first_frame) continue;
    for (const capture::LadderEvent& e : c.events) frames.emplace(e.frame, e.from);
    if (c.events_dropped > 0)
      out.lacks.push_back(fmt::format("{} beyond the first", counted(c.events_dropped, "packet")));
  }
  RoceGatherer gatherer(frames, out);
  (void)wire::read_capture(file, [&](const wire::CapturedPacket& p) { gatherer.packet(p); });
  gatherer.finish();
  mark_repeated(out.steps, out.report.ib->path_mtu);
  const capture::IbSeen& ib = *out.report.ib;
  if (ib.dreq_frame == 0 && out.report.outcome == capture::Outcome::established && !ib.sidr)
    out.lacks.emplace_back("the end of the connection");
  return out;
}

std::string why_not_playable(const RoceRecording& recording, Side side) {
  const bool initiator = side == Side::initiator;
  const auto begins = [initiator](const RoceStep& step) {
    if (!step.cm) return false;
    const CmMessageType type = step.cm->type();
    if (initiator) return type == CmMessageType::req || type == CmMessageType::sidr_req;
    return type == CmMessageType::rep || type == CmMessageType::rej || type == CmMessageType::mra ||
           type == CmMessageType::sidr_rep;
  };
  const auto first = std::find_if(recording.steps.begin(), recording.steps.end(),
                                  [side](const RoceStep& step) { return step.from == side; });
  if (first == recording.steps.end())
    return fmt::format("nothing of the {} is in the recording: only the {} can be played", capture::to_string(side),
                       capture::to_string(capture::other(side)));
  if (!begins(*first))
    return fmt::format("the {} is not in the recording: a connection cannot begin without it",
                       initiator ? "REQ" : "answer to the REQ");
  // A responder has its peer's address and IDs from the REQ.
  const auto asks = [](const RoceStep& step) {
    return step.cm && (step.cm->type() == CmMessageType::req || step.cm->type() == CmMessageType::sidr_req);
  };
  if (!initiator && std::none_of(recording.steps.begin(), first, asks))
    return "the REQ is not in the recording before its answer: the responder's messages cannot be given live IDs";
  return "";
}

std::string describe(const RoceStep& step) {
  if (step.cm) return capture::cm_event_text(*step.cm);
  const wire::ib::Packet p = step.packet();
  const unsigned headers = wire::ib::rule_of(p.bth.opcode).headers;
  std::string out = wire::ib::opcode_text(p.bth.opcode);
  if ((headers & PARLEY_IB_RETH) != 0)
    out += fmt::format(", R_Key 0x{:08x}, VA 0x{:x}, {}", p.reth.r_key, p.reth.va, counted(p.reth.dma_length, "octet"));
  if ((headers & PARLEY_IB_ATOMIC_ETH) != 0)
    out += fmt::format(", R_Key 0x{:08x}, VA 0x{:x}", p.atomic.r_key, p.atomic.va);
  if ((headers & PARLEY_IB_AETH) != 0) out += ", " + wire::ib::syndrome_text(p.aeth.syndrome);
  if (!p.payload.empty()) out += fmt::format(", payload of {}", counted(p.payload.size(), "octet"));
  return out;
}

}  // namespace parley::replay
