// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "replay/recording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "capture/analyzer.hpp"
#include "capture/link_type.hpp"
#include "capture/read/tcp/tcp_half.hpp"
#include "wire/pcapng.hpp"

namespace parley::replay {
namespace {

using capture::SegmentRef;
using capture::Side;

/// Both directions of the chosen connection, packet by packet; index 0 is the initiator's.
class Gatherer {
 public:
  explicit Gatherer(const capture::ConnectionReport& report) : report_(report) {
    halves_[0].address = report.initiator;
    halves_[1].address = report.responder;
  }

  void packet(const wire::CapturedPacket& p) {
    if (p.packet_id && !ids_.insert(*p.packet_id).second) return;  // the same packet, captured at another interface
    if (p.frame < report_.first_frame || p.frame > report_.last_frame) return;
    const wire::PacketView v = wire::parse_packet(p.link_type, p.octets, p.original_length);
    if (v.kind != wire::PacketKind::tcp) return;
    const wire::TcpSegmentView& t = v.tcp;
    const bool forward = t.source == report_.initiator && t.destination == report_.responder;
    if (!forward && (t.source != report_.responder || t.destination != report_.initiator)) return;
    segment(forward ? 0 : 1, t, p);
  }
  void finish(Recording& out);

 private:
  void what_lacks(Recording& out) const;

  struct Half final : capture::HalfSink {
    Address address;
    capture::TcpHalf tcp;
    StepReader reader;
    SegmentRef last;
    std::optional<Step> fin, rst;
    bool seen = false, syn = false;
    std::uint64_t missing_octets = 0;

    void octets(ConstBytes in, const SegmentRef& ref, bool start) override {
      seen = true;
      if (!tcp.from_syn()) reader.not_from_beginning();
      reader.octets(in, ref, start);
    }
    void missing(std::uint64_t n, const SegmentRef& ref, bool cut) override {
      missing_octets += n;
      reader.missing(n, ref, cut);
    }
  };

  void segment(unsigned from, const wire::TcpSegmentView& t, const wire::CapturedPacket& p) {
    Half& h = halves_[from];
    Half& peer = halves_[1 - from];
    if (t.syn() && (!h.syn || (h.tcp.position() == 0 && !h.tcp.holding() && t.seq != h.tcp.syn_seq()))) {
      h.tcp.syn(t.seq);
      h.syn = true;
    }
    SegmentRef ref{p.frame, p.at, 0};
    if (t.has_ack()) {
      peer.tcp.acked(t.ack);
      ref.peer_received = peer.tcp.position_of(t.ack).value_or(0);
    }
    h.last = ref;
    (void)h.tcp.segment(t, ref, budget_, h);
    peer.tcp.tick(ref, budget_, peer);
    const auto end = [&](Step::Kind kind, std::optional<Step>& into) {
      if (into) return;
      into.emplace();
      into->kind = kind;
      into->first = into->last = ref;
      if (kind == Step::Kind::rst && !t.has_ack()) into->first.peer_received = peer.tcp.position();
    };
    if (t.fin()) end(Step::Kind::fin, h.fin);
    if (t.rst()) end(Step::Kind::rst, h.rst);
    h.seen = h.seen || t.fin() || t.rst();
  }

  const capture::ConnectionReport& report_;
  capture::ReassemblyBudget budget_;
  std::array<Half, 2> halves_;
  std::set<std::uint64_t> ids_;  // at most one per packet of the file
};

void Gatherer::finish(Recording& out) {
  for (Half& h : halves_) h.tcp.flush(h.last, budget_, h);
  out.agreement = capture::agree(report_.request, report_.reply);
  const capture::Agreement& a = out.agreement;
  using capture::Known;
  const bool both = report_.request && report_.reply;
  // Without both frames, the reader must infer CRC and markers from the octets.
  halves_[0].reader.agreed(both ? a.crc : Known::unknown, report_.reply ? a.markers_to_responder : Known::unknown,
                           a.revision <= 1);
  halves_[1].reader.agreed(both ? a.crc : Known::unknown, report_.request ? a.markers_to_initiator : Known::unknown,
                           false);
  for (unsigned i = 0; i < 2; ++i) {
    Half& h = halves_[i];
    const bool closed = h.fin || h.rst || halves_[1 - i].rst;
    out.closed = out.closed || closed;
    h.reader.finish(h.last, closed);
    SideRecord& s = out.sides[i];
    s.address = h.address;
    s.seen = h.seen;
    s.from_syn = h.tcp.from_syn();
    s.whole = h.missing_octets == 0;
    s.startup_length = h.reader.startup_length();
    s.steps = std::move(h.reader.steps());
    s.whole = s.whole && std::none_of(s.steps.begin(), s.steps.end(), [](const Step& step) {
                return step.kind == Step::Kind::gap || step.known < step.octets.size();
              });
    for (auto* end : {&h.fin, &h.rst})
      if (*end) {
        (*end)->end = h.reader.position() + 1;
        s.steps.push_back(std::move(**end));
      }
    Assembler assembler;
    for (std::size_t n = 0; n < s.steps.size(); ++n) assembler.add(s.steps[n], n);
    assembler.finish(!closed);
    s.items = std::move(assembler.items());
    // Items are ordered by their last octet: a message may become complete after one that began later.
    std::stable_sort(s.items.begin(), s.items.end(), [](const Item& x, const Item& y) { return x.end < y.end; });
  }
  what_lacks(out);
}

void Gatherer::what_lacks(Recording& out) const {
  for (unsigned i = 0; i < 2; ++i) {
    const Half& h = halves_[i];
    const SideRecord& s = out.sides[i];
    const char* name = i == 0 ? "initiator" : "responder";
    if (!s.seen)
      out.lacks.push_back(fmt::format("everything of the {}", name));
    else if (!s.from_syn)
      out.lacks.push_back(fmt::format("the SYN of the {}", name));
    if (s.seen && h.missing_octets > 0)
      out.lacks.push_back(fmt::format("{} octets of the {}", h.missing_octets, name));
    else if (s.seen && !s.whole)
      out.lacks.push_back(fmt::format("what some octets of the {} mean", name));
  }
  const bool reset = halves_[0].rst || halves_[1].rst;
  if (!reset && !(halves_[0].fin && halves_[1].fin) && out.sides[0].seen && out.sides[1].seen)
    out.lacks.push_back(halves_[0].fin || halves_[1].fin
                            ? fmt::format("the FIN of the {}", halves_[0].fin ? "responder" : "initiator")
                            : std::string("the end of the connection"));
  else if (!out.closed)
    out.lacks.emplace_back("the end of the connection");
}

/// "12 MPA connections", "3 connections of MPA and RoCE".
std::string kinds_text(const capture::FileReport& report) {
  const auto& all = report.connections;
  const auto roce = static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [](const capture::ConnectionReport& c) { return c.ib != nullptr; }));
  if (roce != 0 && roce != all.size()) return fmt::format("{} connections of MPA and RoCE", all.size());
  return counted(all.size(), roce == 0 ? "MPA connection" : "RoCE connection");
}

/// The number of the only playable connection; if there are several, the user must choose.
tl::expected<std::size_t, std::string> only_playable(const capture::FileReport& report) {
  const auto& connections = report.connections;
  std::size_t playable = 0, first = 0;
  for (std::size_t i = 0; i < connections.size(); ++i)
    if (set_up_captured(connections[i]) && ++playable == 1) first = i + 1;
  const std::size_t all = connections.size();
  if (playable == 1 || all == 1) return std::max<std::size_t>(first, 1);
  if (playable == 0)
    return tl::unexpected(
        fmt::format("{} in it, none with a captured handshake: none can be played", kinds_text(report)));
  return tl::unexpected(fmt::format(
      "{} in it{}: choose one with --connection 1 to {}", kinds_text(report),
      playable < all ? fmt::format(", {} of which can be played (see --list)", playable) : std::string(), all));
}

}  // namespace

bool set_up_captured(const capture::ConnectionReport& connection) {
  return connection.outcome != capture::Outcome::not_captured;
}

const Item* SideRecord::startup() const {
  for (const Item& item : items)
    if (item.kind == Item::Kind::startup) return &item;
  return nullptr;
}

std::string Contents::why_empty() const {
  if (!report.connections.empty()) return "";
  if (!error.empty()) return error;
  if (report.unsupported_packets > 0 && report.unsupported_packets == report.packets)
    return capture::link_type_refusal(report.unsupported_link_type);
  if (const std::uint64_t roce = report.other.rocev1 + report.other.rocev2; roce > 0)
    return fmt::format("no connection of MPA or RoCE in it ({} packets, {} of TCP, {} of RoCE)", report.packets,
                       report.tcp_packets, roce);
  return fmt::format(
      "no MPA connection in it ({} packets, {} of TCP{}): its Request or Reply has to be in the recording",
      report.packets, report.tcp_packets,
      report.cut_packets > 0 ? fmt::format(", {} cut by the snap length", report.cut_packets) : "");
}

Contents list_connections(ConstBytes file) {
  Contents out;
  capture::Analyzer analyzer;
  const auto error = wire::read_capture(file, [&](const wire::CapturedPacket& p) { analyzer.push(p); });
  if (error) out.error = error->to_string();
  out.report = analyzer.finish();
  return out;
}

tl::expected<std::size_t, std::string> choose_connection(const Contents& contents, std::size_t number) {
  const capture::FileReport& report = contents.report;
  if (report.connections.empty()) return tl::unexpected(contents.why_empty());
  if (number == 0) return only_playable(report);
  if (number > report.connections.size())
    return tl::unexpected(fmt::format("there is no connection {}: {} in it", number, kinds_text(report)));
  return number;
}

tl::expected<Recording, std::string> read_recording(ConstBytes file, std::size_t number) {
  const Contents contents = list_connections(file);
  const auto chosen = choose_connection(contents, number);
  if (!chosen) return tl::unexpected(chosen.error());
  if (contents.report.connections[*chosen - 1].ib != nullptr)
    return tl::unexpected(fmt::format("connection {} is one of RoCE", *chosen));
  return read_recording(file, contents, *chosen);
}

Recording read_recording(ConstBytes file, const Contents& contents, std::size_t number) {
  const capture::FileReport& report = contents.report;
  Recording out;
  out.connection = number;
  out.connections = report.connections.size();
  out.report = report.connections[out.connection - 1];
  out.notes = report.notes;
  if (!contents.error.empty()) out.notes.push_back("the file is not whole: " + contents.error);
  Gatherer gatherer(out.report);
  (void)wire::read_capture(file, [&](const wire::CapturedPacket& p) { gatherer.packet(p); });
  gatherer.finish(out);
  if (!contents.error.empty()) out.lacks.emplace_back("the rest of the file");
  return out;
}

std::string why_not_playable(const Recording& recording, Side side) {
  const SideRecord& s = recording.side(side);
  const char* frame = side == Side::initiator ? "Request" : "Reply";
  if (!s.seen)
    return fmt::format("nothing of the {} is in the recording: only the {} can be played", capture::to_string(side),
                       capture::to_string(capture::other(side)));
  if (s.steps.empty() || s.steps.front().kind == Step::Kind::gap ||
      (!s.from_syn && s.steps.front().kind != Step::Kind::startup))
    return fmt::format("the {} is not in the recording: a connection cannot begin without it", frame);
  const Item* startup = s.startup();
  if (startup != nullptr && startup->startup->enhanced &&
      startup->octets_known < PARLEY_MPA_HEADER_LEN + PARLEY_MPA_ENH_LEN)
    return fmt::format("the {} is cut by the snap length before the end of its IRD and ORD (RFC 6581 §9.1)", frame);
  return "";
}

}  // namespace parley::replay
