// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// LadderTap: joins the observations of a frame at link ends into one row from the sending host to the receiving hosts.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/fnv1a.hpp"
#include "base/text.hpp"
#include "draw/ladder_text.hpp"
#include "sim/record/describe.hpp"
#include "sim/record/record.hpp"

namespace parley::sim {
namespace {

using draw::LadderRow;

constexpr std::uint32_t nowhere = ~0u;

std::string_view layer_of_note(NoteKind kind) {
  switch (kind) {
    case NoteKind::crashed: return "crash";
    case NoteKind::restarted: return "restart";
    case NoteKind::paused: return "pause";
    case NoteKind::resumed: return "resume";
    case NoteKind::process_ended:
    case NoteKind::process_stopped:
    case NoteKind::process_continued: return "process";
    case NoteKind::restless:
    case NoteKind::rate: break;
  }
  return "note";
}

Address bare(Address a) {
  a.port = 0;
  a.scope_id = 0;
  return a;
}

/// The connections of a run, those that broke a rule first, and the position of each outcome.
struct Connections {
  std::vector<draw::LadderConnection> listed;
  std::vector<std::size_t> places;            // for each outcome, from 1
  std::map<std::string, std::size_t> labels;  // to places
};

Connections connections_of(const RunReport& report) {
  Connections out;
  out.places.resize(report.outcomes.size());
  std::map<std::string, std::size_t> broken;
  for (const Violation& v : report.violations) ++broken[v.connection];
  for (const bool failed : {true, false})
    for (std::size_t i = 0; i < report.outcomes.size(); ++i) {
      const ConnectionOutcome& o = report.outcomes[i];
      const auto violations = broken.find(o.label);
      if ((violations != broken.end()) != failed) continue;
      const std::string result =
          failed ? fmt::format("failed: {}", counted(violations->second, "violation")) : "passed";
      const std::string outcome = o.initiator.substr(0, o.initiator.find(':'));
      out.listed.push_back({o.label, result, outcome == "failed" ? "set-up failed" : outcome});
      out.places[i] = out.labels[o.label] = out.listed.size();
    }
  return out;
}

std::vector<LadderRow> violation_rows(const RunReport& report, const Connections& connections) {
  std::vector<LadderRow> rows;
  for (const Violation& v : report.violations) {
    LadderRow row;
    row.kind = LadderRow::Kind::violation;
    row.at = v.at;
    row.layer = "violation";
    row.text = v.checker;
    row.detail = v.connection.empty() ? v.text : fmt::format("{}: {}", v.connection, v.text);
    row.why = v.rule;
    if (const auto at = connections.labels.find(v.connection); at != connections.labels.end())
      row.connection = at->second;
    row.fields = {{"Violation", ""}, {"Checker", v.checker}, {"At", draw::ladder_exact_seconds(v.at)}};
    if (!v.connection.empty()) row.fields.emplace_back("Connection", v.connection);
    row.fields.emplace_back("What is wrong", v.text);
    if (!v.rule.empty()) row.fields.emplace_back("Rule", v.rule);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

struct LadderTap::Impl {
  /// A frame in flight, and its row.
  struct FrameInFlight {
    LadderRow row;
    Describer::Seen seen;
    std::uint64_t id = 0;
    std::uint64_t order = 0;     // sequence number, orders rows of the same time
    std::uint64_t digest = 0;    // digest of the octets as sent
    std::uint32_t to = nowhere;  // the column of its destination; nowhere: everyone
    bool arrived = false;
    bool copy = false;  // a copy made by a fault, of a frame that already has a row
    std::string note;
  };
  static constexpr std::size_t notes_max = 1000;

  std::size_t rows_max;
  RecordInfo info;
  std::vector<std::uint32_t> column_of_node;
  std::vector<std::string> columns, addresses;
  std::vector<std::array<NodeId, 2>> links;
  std::map<Address, std::uint32_t> column_of_address;
  Describer describer;
  std::vector<FrameInFlight> ways;  // at most rows_max
  std::map<std::uint64_t, std::size_t> way_of_id;
  std::vector<std::pair<std::uint64_t, LadderRow>> notes;  // with their order; at most notes_max
  std::uint64_t order = 0;
  std::uint64_t taps = 0, rows_dropped = 0, frames = 0, lost = 0;
  std::map<StreamName, std::size_t> connection_of_stream;  // its position in the ladder, from 1
  std::uint32_t roce_connections = 0;                      // number of the last one with frames

  std::uint32_t column(NodeId node) const { return node < column_of_node.size() ? column_of_node[node] : nowhere; }
  std::uint32_t column(const std::optional<Address>& a) const {
    if (!a) return nowhere;
    const auto it = column_of_address.find(bare(*a));
    return it == column_of_address.end() ? nowhere : it->second;
  }
  FrameInFlight* add(const TapFrame& frame, std::uint32_t from) {
    if (ways.size() >= rows_max) {
      ++rows_dropped;
      return nullptr;
    }
    FrameInFlight w;
    w.seen = describer.look(frame.octets, frame.at);
    w.id = frame.frame_id;
    w.order = ++order;
    w.digest = fnv1a(frame.octets);
    w.to = column(w.seen.to);
    roce_connections = std::max(roce_connections, w.seen.roce_connection);
    w.row.at = frame.at;
    w.row.from = from;
    w.row.frame = taps;
    w.row.fate = LadderRow::Fate::under_way;
    way_of_id[w.id] = ways.size();
    ways.push_back(std::move(w));
    return &ways.back();
  }
  FrameInFlight* find(std::uint64_t id) {
    const auto it = way_of_id.find(id);
    return it == way_of_id.end() ? nullptr : &ways[it->second];
  }
  static void remark(FrameInFlight& w, const TapFrame& frame) {
    std::string text(frame.note);
    if (text.empty() && frame.drop != DropReason::none) text = fmt::format("dropped: {}", to_string(frame.drop));
    if (text.empty() || w.note.find(text) != std::string::npos) return;
    w.note += (w.note.empty() ? "" : "; ") + text;
  }
  void dropped(FrameInFlight& w, const TapFrame& frame) {
    remark(w, frame);
    if (!w.arrived) w.row.fate = LadderRow::Fate::dropped;
  }
  void sent(const TapFrame& frame, std::uint32_t from);
  void came(const TapFrame& frame, std::uint32_t to);
  void deliver(FrameInFlight& w, const TapFrame& frame, std::uint32_t to);
  std::size_t place_of(const Address& a, const Address& b) const;
  std::size_t place_of(const Describer::Seen& seen) const;
  void add_numbers(std::vector<draw::LadderConnection>& connections) const;
  void finish_row(FrameInFlight& w) const;
  void add_facts(const RunReport* report, draw::Ladder& ladder) const;
};

void LadderTap::Impl::sent(const TapFrame& frame, std::uint32_t from) {
  FrameInFlight* w = find(frame.frame_id);
  if (w == nullptr || w->row.from != from) {
    ++frames;
    w = add(frame, from);
  }
  if (frame.drop != DropReason::none) ++lost;
  if (w == nullptr) return;
  if (frame.drop != DropReason::none)
    dropped(*w, frame);
  else
    remark(*w, frame);
}

void LadderTap::Impl::deliver(FrameInFlight& w, const TapFrame& frame, std::uint32_t to) {
  w.arrived = true;
  w.row.arrived = frame.at;
  w.row.to = to;
  w.row.fate = frame.drop == DropReason::none ? LadderRow::Fate::arrived : LadderRow::Fate::discarded;
  if (fnv1a(frame.octets) != w.digest) w.row.altered = true;
  remark(w, frame);
}

void LadderTap::Impl::came(const TapFrame& frame, std::uint32_t to) {
  FrameInFlight* w = find(frame.frame_id);
  if (w == nullptr) {
    // No host sent it: a fault injected it, with the source address of an end.
    if (rows_dropped > 0) return;
    w = add(frame, to);
    if (w == nullptr) return;
    ++frames;
    const std::uint32_t from = column(w->seen.from);
    if (from != nowhere) w->row.from = from;
    if (frame.note.empty()) w->note = "made by a fault";
    return deliver(*w, frame, to);
  }
  if (w->to != nowhere && w->to != to) return;  // flooded by a switch; meant for another host
  if (!w->arrived) {
    if (frame.drop != DropReason::none) ++lost;
    return deliver(*w, frame, to);
  }
  const bool known = w->row.to == to || std::find(w->row.also.begin(), w->row.also.end(), to) != w->row.also.end();
  if (!known) {
    w->row.also.push_back(to);
    return;
  }
  if (ways.size() >= rows_max) {
    ++rows_dropped;
    return;
  }
  FrameInFlight copy = *w;
  copy.copy = true;
  copy.note.clear();
  copy.row.also.clear();
  deliver(copy, frame, to);
  ways.push_back(std::move(copy));
}

LadderTap::LadderTap(std::size_t rows_max) : impl_(std::make_unique<Impl>()) { impl_->rows_max = rows_max; }
LadderTap::~LadderTap() = default;

void LadderTap::set_info(const RecordInfo& info) { impl_->info = info; }

void LadderTap::begin(const RecordTopology& topology) {
  Impl& m = *impl_;
  for (const RecordTopology::Node& node : topology.nodes) {
    m.column_of_node.push_back(node.is_switch ? nowhere : static_cast<std::uint32_t>(m.columns.size()));
    if (node.is_switch) continue;
    const auto column = static_cast<std::uint32_t>(m.columns.size());
    for (const Address& a : node.addresses) {
      const auto [known, fresh] = m.column_of_address.emplace(bare(a), column);
      if (!fresh && known->second != column) known->second = nowhere;  // two links: either host may get the frame
    }
    m.columns.push_back(node.name);
    std::string first = node.addresses.empty() ? "" : bare(node.addresses.front()).to_string();
    m.addresses.push_back(first.substr(0, first.rfind(':')));
  }
  for (const RecordTopology::Link& link : topology.links) m.links.push_back({link.ends[0].node, link.ends[1].node});
}

void LadderTap::on_frame(const TapFrame& frame) {
  Impl& m = *impl_;
  ++m.taps;  // numbered as PcapngTap does
  if (frame.link >= m.links.size() || frame.end > 1) return;
  const std::uint32_t column = m.column(m.links[frame.link][frame.end]);
  if (column != nowhere) return frame.outbound ? m.sent(frame, column) : m.came(frame, column);
  if (frame.drop == DropReason::none && frame.note.empty()) return;
  if (frame.drop != DropReason::none) ++m.lost;
  Impl::FrameInFlight* w = m.find(frame.frame_id);
  if (w == nullptr) return;
  if (frame.drop != DropReason::none)
    m.dropped(*w, frame);
  else
    Impl::remark(*w, frame);
}

void LadderTap::on_note(Instant at, NodeId host, NoteKind kind, std::string_view text) {
  Impl& m = *impl_;
  if (m.notes.size() >= Impl::notes_max) {
    ++m.rows_dropped;
    return;
  }
  LadderRow row;
  row.kind = LadderRow::Kind::note;
  row.at = at;
  const std::uint32_t column = m.column(host);
  row.from = row.to = column == nowhere ? 0 : column;
  row.text = text;
  row.layer = layer_of_note(kind);
  m.notes.emplace_back(++m.order, std::move(row));
}

/// 0: no connection.
std::size_t LadderTap::Impl::place_of(const Address& a, const Address& b) const {
  const auto known = connection_of_stream.find(stream_name(a, b));
  return known == connection_of_stream.end() ? 0 : known->second;
}

std::size_t LadderTap::Impl::place_of(const Describer::Seen& seen) const {
  if (const auto* ends = describer.roce_ends(seen.roce_connection)) return place_of(ends->initiator, ends->responder);
  if (!seen.from || !seen.to || seen.from_port == 0) return 0;
  Address from = *seen.from, to = *seen.to;
  from.port = seen.from_port;
  to.port = seen.to_port;
  return place_of(from, to);
}

/// Adds the IDs and QPNs of RoCE connections, which have no ports.
void LadderTap::Impl::add_numbers(std::vector<draw::LadderConnection>& connections) const {
  for (std::uint32_t n = 1; n <= roce_connections; ++n) {
    const auto* ends = describer.roce_ends(n);
    const std::size_t place = ends != nullptr ? place_of(ends->initiator, ends->responder) : 0;
    if (place == 0 || place > connections.size()) continue;
    std::string& text = connections[place - 1].numbers;
    text += (text.empty() ? "" : "; ") + ends->text();
  }
}

void LadderTap::Impl::finish_row(FrameInFlight& w) const {
  Describer::RowText said = describer.row_text(w.seen);
  LadderRow& row = w.row;
  row.layer = std::move(said.layer);
  row.text = std::move(said.text);
  row.detail = std::move(said.detail);
  row.repeated = w.seen.repeated || w.copy;
  row.why = w.note;
  if (!w.arrived) {
    // Its intended destination; if there is none, the adjacent column.
    row.to = w.to != nowhere ? w.to : row.from + 1 < columns.size() ? row.from + 1 : row.from == 0 ? 0 : row.from - 1;
    if (row.fate == LadderRow::Fate::under_way)
      row.why += row.why.empty() ? "still on its way at the end" : "; still on its way at the end";
  }
  row.connection = place_of(w.seen);
  Fields fields{{"Frame", ""},
                {"Number in the capture", fmt::format("{}", row.frame)},
                {"Sent", draw::ladder_exact_seconds(row.at)}};
  if (w.arrived)
    fields.emplace_back(row.fate == LadderRow::Fate::discarded ? "Arrived, discarded" : "Arrived",
                        draw::ladder_exact_seconds(row.arrived));
  if (!row.why.empty()) fields.emplace_back("What happened", row.why);
  if (row.altered) fields.emplace_back("Octets", "changed on the way; shown as sent");
  fields.insert(fields.end(), std::make_move_iterator(said.fields.begin()), std::make_move_iterator(said.fields.end()));
  row.fields = std::move(fields);
}

void LadderTap::Impl::add_facts(const RunReport* report, draw::Ladder& ladder) const {
  auto& facts = ladder.facts;
  if (report != nullptr) {
    const std::string_view bound = report->end == RunEnd::time_bound       ? "stopped at its bound of time"
                                   : report->end == RunEnd::event_bound    ? "stopped at its bound of events"
                                   : report->end == RunEnd::converge_bound ? "stopped at its bound of convergence"
                                   : report->end == RunEnd::exhausted      ? "stopped when its event queue was full"
                                   : report->end == RunEnd::stopped        ? "stopped from outside"
                                                                           : "";
    std::string result = report->passed() ? "passed" : "failed";
    if (!report->violations.empty()) result += fmt::format(": {}", counted(report->violations.size(), "violation"));
    if (!bound.empty()) result += fmt::format("{} {}", report->violations.empty() ? ":" : ",", bound);
    facts.emplace_back("result", result);
  }
  const std::uint64_t seed = report != nullptr ? report->seed : info.seed;
  facts.emplace_back("seed", fmt::format("{}", seed));
  if (report != nullptr) {
    if (std::string ends = connections_text(*report); !ends.empty()) facts.emplace_back("connections", std::move(ends));
    facts.emplace_back("virtual time", draw::ladder_exact_seconds(report->finished_at));
  }
  facts.emplace_back("frames", lost == 0 ? fmt::format("{}", frames) : fmt::format("{}, {} lost", frames, lost));
  if (!info.application.empty()) facts.emplace_back("made by", info.application);
}

draw::Ladder LadderTap::finish(const RunReport* report) {
  Impl& m = *impl_;
  draw::Ladder ladder;
  ladder.title = !m.info.scenario.empty() ? m.info.scenario : report != nullptr ? report->scenario : "";
  ladder.columns = m.columns;
  ladder.addresses = m.addresses;
  std::vector<std::pair<std::uint64_t, LadderRow>> rows = std::move(m.notes);
  const Connections connections = report != nullptr ? connections_of(*report) : Connections{};
  if (report != nullptr)
    for (const auto& [name, outcome] : report->streams) m.connection_of_stream[name] = connections.places[outcome];
  for (Impl::FrameInFlight& w : m.ways) {
    m.finish_row(w);
    rows.emplace_back(w.order, std::move(w.row));
  }
  m.notes.clear();
  m.ways.clear();
  m.way_of_id.clear();
  // A violation is found after the frame that shows it.
  if (report != nullptr)
    for (LadderRow& row : violation_rows(*report, connections)) rows.emplace_back(~std::uint64_t{0}, std::move(row));
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.at != b.second.at ? a.second.at < b.second.at : a.first < b.first;
  });
  for (auto& [order, row] : rows) ladder.rows.push_back(std::move(row));
  ladder.rows_dropped = m.rows_dropped;
  ladder.connections = connections.listed;
  m.add_numbers(ladder.connections);
  m.add_facts(report, ladder);
  return ladder;
}

}  // namespace parley::sim
