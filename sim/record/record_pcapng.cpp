// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// PcapngTap: frames wait in a bounded window, so that information that is only known after the run can still be
// attached to them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>

#include "base/fnv1a.hpp"
#include "base/text.hpp"
#include "draw/ladder_text.hpp"
#include "sim/record/record.hpp"
#include "wire/packet.hpp"
#include "wire/pcapng.hpp"

namespace parley::sim {
namespace {

constexpr std::size_t comment_max = 2000;  // octets; the limit keeps comments readable
/// Programs that do not know epb_packetid treat a second observation of a frame as a retransmission.
constexpr std::string_view sights =
    ". Every link end that a frame passes shows it; its sights have one packet id. What one end alone saw: "
    "tshark -r FILE -Y 'frame.interface_name == \"a/p1\"' -w END";

/// pcapng requires comments in UTF-8. Other octets become '?', and so do control characters except line feeds.
std::string clean(std::string_view text) {
  std::string out;
  std::size_t i = 0;
  while (i < text.size() && out.size() < comment_max) {
    const auto c = static_cast<unsigned char>(text[i]);
    const std::size_t length = c < 0x80                ? 1
                               : c >= 0xC2 && c < 0xE0 ? 2
                               : c >= 0xE0 && c < 0xF0 ? 3
                               : c >= 0xF0 && c < 0xF5 ? 4
                                                       : 0;
    const bool whole = length != 0 && i + length <= text.size() &&
                       std::all_of(text.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                   text.begin() + static_cast<std::ptrdiff_t>(i + length),
                                   [](char x) { return (static_cast<unsigned char>(x) & 0xC0) == 0x80; });
    if (!whole || (c < 0x20 && c != '\n') || c == 0x7F) {
      out += '?';
      ++i;
    } else {
      out += text.substr(i, length);
      i += length;
    }
  }
  return out;
}

}  // namespace

struct PcapngTap::Impl {
  struct PendingPacket {
    std::uint32_t interface = 0;
    std::uint32_t host = 0;
    Instant at{};
    wire::PacketDirection direction{};
    std::uint64_t id = 0;
    Bytes octets;
    std::vector<std::string> comments;
  };
  static constexpr std::size_t piece = 64 << 10;  // approximate octets per call of the sink
  static constexpr std::size_t pending_max = 64;  // comments waiting for a frame; a frame also has at most this many

  RecordInfo info;
  Sink sink;
  Bytes out;
  std::optional<wire::PcapngWriter> writer;
  std::vector<std::uint32_t> first_interface;  // by link
  std::deque<PendingPacket> held;              // at most held_octets_max octets, but always one frame
  std::size_t held_octets = 0;
  std::vector<std::string> pending;                          // for the next frame
  std::vector<std::array<NodeId, 2>> ends;                   // by link
  std::vector<std::string> nodes;                            // names, by NodeId
  std::map<NodeId, std::vector<std::string>> pending_trace;  // for the next frame that the host sends; bounded by
                                                             // pending_max
  std::uint64_t hash = fnv1a_start;
  bool stopped = false;

  void drain(bool all) {
    if (out.size() < piece && !all) return;
    hash = fnv1a(out, hash);
    if (!out.empty() && !sink(out)) stopped = true;
    out.clear();
  }
  void write(const PendingPacket& h) {
    writer->packet(h.interface, h.at, h.octets, {.comments = h.comments, .direction = h.direction, .packet_id = h.id});
    drain(false);
  }
  void write_oldest() {
    held_octets -= held.front().octets.size();
    write(held.front());
    held.pop_front();
  }
  /// To the first held frame at or after `at`, else to the last one.
  void attach(Instant at, std::string text) {
    if (held.empty()) return;
    auto it =
        std::lower_bound(held.begin(), held.end(), at, [](const PendingPacket& h, Instant t) { return h.at < t; });
    if (it == held.end()) --it;
    it->comments.push_back(std::move(text));
  }
};

PcapngTap::PcapngTap(const RecordInfo& info, Sink sink) : impl_(std::make_unique<Impl>()) {
  impl_->info = info;
  impl_->sink = std::move(sink);
}
PcapngTap::~PcapngTap() = default;

void PcapngTap::begin(const RecordTopology& topology) {
  Impl& m = *impl_;
  const std::string about = fmt::format("scenario {}, seed {}", m.info.scenario, m.info.seed);
  m.writer.emplace(m.out, wire::PcapngSection{
                              .application = clean(fmt::format("{}, {}", m.info.application, about)),
                              .hardware = "simulated hosts",
                              .system = "virtual time, 0 is the start of the run",
                              .comment = clean(fmt::format("{}{}", about, sights)),
                          });
  for (const RecordTopology::Link& link : topology.links) {
    const auto name = [&](std::size_t end) {
      const NodeId node = link.ends[end].node;
      return node < topology.nodes.size() ? topology.nodes[node].name : std::string("?");
    };
    const std::string what =
        fmt::format("link {}-{}, {}, {}, MTU {}", name(0), name(1), bit_rate_text(link.options.rate_bps),
                    exact_duration_text(link.options.delay), link.options.mtu);
    for (std::size_t end = 0; end < 2; ++end) {
      const std::uint32_t n =
          m.writer->add_interface(clean(link.ends[end].name), static_cast<std::uint16_t>(wire::LinkType::ethernet),
                                  clean(what), link.options.rate_bps);
      if (end == 0) m.first_interface.push_back(n);
    }
  }
  for (const RecordTopology::Link& link : topology.links) m.ends.push_back({link.ends[0].node, link.ends[1].node});
  for (const RecordTopology::Node& node : topology.nodes) m.nodes.push_back(node.name);
  std::vector<std::pair<Address, std::string>> names;
  for (const RecordTopology::Node& node : topology.nodes)
    for (const Address& address : node.addresses) names.emplace_back(address, clean(node.name));
  if (!names.empty()) m.writer->add_names(names);
  m.drain(true);
}

void PcapngTap::on_frame(const TapFrame& frame) {
  Impl& m = *impl_;
  if (m.stopped || !m.writer || frame.link >= m.first_interface.size()) return;
  Impl::PendingPacket h;
  h.interface = m.first_interface[frame.link] + (frame.end == 0 ? 0u : 1u);
  h.at = frame.at;
  h.direction = frame.outbound ? wire::PacketDirection::outbound : wire::PacketDirection::inbound;
  h.id = frame.frame_id;
  h.octets.assign(frame.octets.begin(), frame.octets.end());
  h.comments = std::move(m.pending);
  m.pending.clear();
  h.host = m.ends[frame.link][frame.end];
  if (const auto told = m.pending_trace.find(h.host); frame.outbound && told != m.pending_trace.end()) {
    h.comments.insert(h.comments.end(), told->second.begin(), told->second.end());
    m.pending_trace.erase(told);
  }
  if (!frame.note.empty())
    h.comments.push_back(clean(frame.note));
  else if (frame.drop != DropReason::none)
    h.comments.push_back(fmt::format("dropped: {}", to_string(frame.drop)));
  m.held_octets += h.octets.size();
  m.held.push_back(std::move(h));
  while (m.held_octets > held_octets_max && m.held.size() > 1) m.write_oldest();
}

void PcapngTap::on_note(Instant at, NodeId, NoteKind, std::string_view text) {
  Impl& m = *impl_;
  if (m.stopped || m.pending.size() >= Impl::pending_max) return;
  m.pending.push_back(clean(fmt::format("{} at {}", text, draw::ladder_exact_seconds(at))));
}

void PcapngTap::on_trace(std::string_view host, const trace::Record& record) {
  Impl& m = *impl_;
  if (m.stopped) return;
  const auto node = static_cast<NodeId>(std::find(m.nodes.begin(), m.nodes.end(), host) - m.nodes.begin());
  std::string text = clean(fmt::format("#{} {}", record.connection, trace::to_text(record.event)));
  for (auto held = m.held.rbegin(); held != m.held.rend() && held->at == record.at; ++held) {
    if (held->host != node || held->direction != wire::PacketDirection::inbound) continue;
    if (trace::is_of_sending(record.event)) break;
    held->comments.push_back(std::move(text));
    return;
  }
  std::vector<std::string>& pending = m.pending_trace[node];
  if (pending.size() < Impl::pending_max) pending.push_back(std::move(text));
}

void PcapngTap::finish(const RunReport* report) {
  Impl& m = *impl_;
  if (!m.writer) return;
  if (!m.held.empty())
    for (std::string& text : m.pending) m.held.back().comments.push_back(std::move(text));
  m.pending.clear();
  for (auto& waiting : m.pending_trace) {  // no frame of the host follows: for instance, it gave up
    if (m.held.empty()) break;
    auto own = std::find_if(m.held.rbegin(), m.held.rend(),
                            [&waiting](const Impl::PendingPacket& held) { return held.host == waiting.first; });
    Impl::PendingPacket& frame = own != m.held.rend() ? *own : m.held.back();
    for (std::string& text : waiting.second) frame.comments.push_back(std::move(text));
  }
  m.pending_trace.clear();
  if (report != nullptr) {
    for (const Violation& v : report->violations) {
      const std::string rule = v.rule.empty() ? "" : fmt::format(" [{}]", v.rule);
      const std::string whose = v.connection.empty() ? "" : v.connection + ": ";
      m.attach(v.at, clean(fmt::format("violation at {}: {}: {}{}{}", draw::ladder_exact_seconds(v.at), v.checker,
                                       whose, v.text, rule)));
    }
  }
  while (!m.held.empty() && !m.stopped) m.write_oldest();
  if (!m.stopped) m.drain(true);
  m.held.clear();
}

std::uint64_t PcapngTap::hash() const { return impl_->hash; }

}  // namespace parley::sim
