// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The ladder as one HTML page. Everything that happens (a frame is sent, arrives, a host crashes) is an event with a
// number; rows are laid out in the order of sending, and an arrow ends at the event of its arrival. The script of
// ladder_page uses the same numbers to lay out what a filter leaves.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/escape.hpp"
#include "base/text.hpp"
#include "draw/connection_index.hpp"
#include "draw/ladder.hpp"
#include "draw/ladder_page.hpp"
#include "draw/ladder_text.hpp"

namespace parley::draw {
namespace {

using Kind = LadderRow::Kind;
using Fate = LadderRow::Fate;

constexpr int row_height = 36, row_height_why = 50, note_height = 28, gap_height = 30, top = 6, bottom = 10;
constexpr int note_middle = 14, words_off = 14;
constexpr std::size_t narrow = 40;      // columns of text that fit on a phone
constexpr std::size_t label_max = 160;  // characters; the rest is one click away

std::string clip(std::string_view text, std::size_t n) {
  const std::string words = printable(text, false);
  if (columns(words) <= n) return words;
  std::string out;
  std::size_t at = 0;
  for (char c : words) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80 && ++at + 1 > n) break;
    out += c;
  }
  return out + "…";
}

/// A percentage with hundredths, without floating point.
std::string percent(std::uint64_t hundredths) { return fmt::format("{}.{:02}%", hundredths / 100, hundredths % 100); }

class Page {
 public:
  Page(const Ladder& p, const Provenance* provenance) : p_(p), provenance_(provenance) {}
  std::string write() {
    number_events();
    lay_out();
    head();
    ladder();
    list();
    if (provenance_ != nullptr) out_ += footer_html(*provenance_);
    out_ +=
        "<aside id=\"panel\" hidden aria-live=\"polite\"><button id=\"close\" type=\"button\" aria-label=\"close\">"
        "&times;</button><div id=\"about\"></div></aside>\n";
    out_ += fmt::format("<script>{}{}</script>\n</body>\n</html>\n", index_script, ladder_script);
    return std::move(out_);
  }

 private:
  struct RowPosition {
    std::size_t sent = 0, arrived = 0;  // numbers of events; arrived 0: never
    int y = 0, tip = 0, height = 0;
    std::size_t gap = 0;  // the event of the gap before; 0: none
    int gap_y = 0;
    Duration silence{};  // the length of the gap
  };
  struct Event {
    std::size_t row = 0;
    enum class What : std::uint8_t { gap, row, arrival } what = What::row;
  };

  void number_events();
  void lay_out();
  void head();
  std::vector<IndexEntry> index() const;
  void facts();
  void findings(Kind kind, std::string_view style, std::string_view heading);
  void tools();
  void ladder();
  void hosts();
  void markers();
  void life_lines();
  void down_times(std::uint32_t column);
  void row(std::size_t i);
  void frame_row(const LadderRow& r, const RowPosition& at);
  void label(const LadderRow& r, std::uint64_t x, int y, std::string_view anchor);
  int screen_for(std::size_t n) const;
  std::string in_parts(const std::string& text) const;
  void list();
  std::string tooltip(const LadderRow& r) const;
  std::string way(const LadderRow& r) const;

  /// Position of a life line, in hundredths of a percent of the width.
  std::uint64_t x(std::uint32_t column) const {
    const std::size_t n = p_.columns.size();
    if (n < 2) return 5000;
    return 150 + std::min<std::uint64_t>(column, n - 1) * 9700 / (n - 1);
  }
  std::string name(std::uint32_t column) const { return column < p_.columns.size() ? p_.columns[column] : "?"; }
  static bool lost(const LadderRow& r) { return r.fate == Fate::dropped || r.fate == Fate::under_way; }
  static std::string_view layer(const LadderRow& r);

  const Ladder& p_;
  const Provenance* provenance_;
  std::vector<Event> events_;  // numbered from 1
  std::vector<RowPosition> places_;
  int height_ = 0;
  std::string out_;
};

/// Only layers that the style knows; any other becomes "other".
std::string_view Page::layer(const LadderRow& r) {
  if (r.kind == Kind::violation) return "violation";
  if (r.kind == Kind::warning) return "warning";
  if (r.kind == Kind::note) return r.layer == "crash" ? "note crash" : "note";
  for (const std::string_view known : {"arp", "nd", "tcp", "ack", "mpa", "rdmap", "terminate"})
    if (r.layer == known) return known;
  return "other";
}

void Page::number_events() {
  const auto& rows = p_.rows;
  places_.resize(rows.size());
  std::vector<std::size_t> arrivals;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].kind == Kind::frame && !lost(rows[i])) arrivals.push_back(i);
  std::stable_sort(arrivals.begin(), arrivals.end(),
                   [&](std::size_t a, std::size_t b) { return rows[a].arrived < rows[b].arrived; });
  auto arrival = arrivals.begin();
  Instant last = rows.empty() ? Instant{} : rows.front().at;
  const auto arrive = [&](auto condition) {
    for (; arrival != arrivals.end() && condition(*arrival); ++arrival) {
      events_.push_back({*arrival, Event::What::arrival});
      places_[*arrival].arrived = events_.size();
      last = std::max(last, rows[*arrival].arrived);
    }
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    arrive([&](std::size_t a) { return a < i && rows[a].arrived <= rows[i].at; });
    if (rows[i].at - last >= ladder_gap) {
      events_.push_back({i, Event::What::gap});
      places_[i].silence = rows[i].at - last;
      places_[i].gap = events_.size();
    }
    last = std::max(last, rows[i].at);
    events_.push_back({i, Event::What::row});
    places_[i].sent = events_.size();
  }
  arrive([](std::size_t) { return true; });
}

void Page::lay_out() {
  int y = top;
  std::size_t last = ~std::size_t{0};  // the row of the previous event, if that began a row
  for (const Event& e : events_) {
    RowPosition& at = places_[e.row];
    const LadderRow& r = p_.rows[e.row];
    switch (e.what) {
      case Event::What::gap:
        at.gap_y = y;
        y += gap_height;
        last = ~std::size_t{0};
        break;
      case Event::What::row:
        at.y = y;
        at.height = r.kind == Kind::note                      ? note_height
                    : r.kind == Kind::frame && !r.why.empty() ? row_height_why
                                                              : row_height;
        at.tip = y + ladder_line_y + ladder_slant;
        y += at.height;
        last = e.row;
        break;
      case Event::What::arrival:
        if (last == e.row) break;
        y += ladder_step;
        at.tip = y - 4;
        last = ~std::size_t{0};
        break;
    }
  }
  height_ = y + bottom;
}

void Page::head() {
  const std::string title = p_.title.empty() ? "ladder" : html_text(p_.title);
  out_ +=
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';style-src 'unsafe-inline';"
      "script-src 'unsafe-inline';img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n";
  out_ += fmt::format("<title>{}</title>\n<style>{}{}</style>\n", title, ladder_style, index_style);
  out_ += "<script>document.documentElement.className='js'</script>\n</head>\n<body>\n<header>\n<div class=\"top\">";
  out_ += fmt::format("<h1>{}</h1>", title);
  for (const auto& [key, value] : p_.facts)
    if (key == "result")
      out_ += fmt::format("<span class=\"badge {}\">{}</span>", result_class(value), html_text(value));
  out_ += "</div>\n";
  if (!p_.subtitle.empty()) out_ += fmt::format("<p class=\"sub\">{}</p>\n", html_text(p_.subtitle));
  facts();
  findings(Kind::violation, "broken", "What went wrong");
  findings(Kind::warning, "doubts", "Warnings");
  out_ += index_html(index());
  out_ += "</header>\n";
  tools();
}

/// Each connection links to its first row.
std::vector<IndexEntry> Page::index() const {
  std::vector<IndexEntry> out;
  for (const LadderConnection& c : p_.connections)
    out.push_back(
        {.name = c.name, .where = c.numbers, .result = c.result, .outcome = c.outcome, .number = out.size() + 1});
  for (std::size_t i = 0; i < p_.rows.size(); ++i) {
    const std::size_t c = p_.rows[i].connection;
    if (c > 0 && c <= out.size() && out[c - 1].href.empty()) out[c - 1].href = fmt::format("#r{}", i);
  }
  return out;
}

void Page::facts() {
  std::string items;
  for (const auto& [key, value] : p_.facts)
    if (key != "result") items += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", html_text(key), html_text(value));
  if (!items.empty()) out_ += fmt::format("<dl class=\"facts\">{}</dl>\n", items);
}

void Page::findings(Kind kind, std::string_view style, std::string_view heading) {
  std::string items;
  for (std::size_t i = 0; i < p_.rows.size(); ++i) {
    const LadderRow& r = p_.rows[i];
    if (r.kind != kind) continue;
    const std::string rule = r.why.empty() ? "" : fmt::format(" [{}]", html_text(r.why));
    items += fmt::format("<li><a href=\"#r{}\"><b>{}</b></a> at {} s: {}{}</li>\n", i, html_text(r.text),
                         ladder_time(r.at), html_text(r.detail), rule);
  }
  if (!items.empty())
    out_ += fmt::format("<section class=\"{}\"><b>{}</b><ul>\n{}</ul></section>\n", style, heading, items);
}

void Page::tools() {
  struct Layer {
    std::string_view key, label;
  };
  out_ += "<form class=\"tools\">";
  for (const Layer l :
       {Layer{"arp", "ARP"}, Layer{"nd", "ND"}, Layer{"tcp", "TCP"}, Layer{"ack", "ACK"}, Layer{"mpa", "MPA"},
        Layer{"rdmap", "RDMAP"}, Layer{"terminate", "Terminate"}, Layer{"other", "other"}}) {
    if (std::none_of(p_.rows.begin(), p_.rows.end(), [&](const LadderRow& r) { return layer(r) == l.key; })) continue;
    out_ += fmt::format(
        "<label class=\"{0}\" style=\"color:var(--{0})\"><input type=\"checkbox\" data-layer=\"{0}\" "
        "checked>{1}</label>",
        l.key, l.label);
  }
  out_ +=
      "<label><input type=\"checkbox\" id=\"only\">only what went astray</label>"
      "<input type=\"search\" id=\"find\" placeholder=\"find: Reply, STag, 10.0.0.2 ...\" aria-label=\"find\">"
      "<output id=\"count\"></output></form>\n";
  out_ +=
      "<p class=\"legend\"><i>- - - sent before</i><i><span style=\"color:var(--bad)\">&times;</span> did not arrive, "
      "or "
      "was thrown away</i><i>Click or tap a row for every field; arrow keys move, Esc closes.</i></p>\n";
}

void Page::hosts() {
  out_ += "<div class=\"hosts\" aria-hidden=\"true\">";
  out_ += fmt::format("<div style=\"position:relative;margin-left:var(--gutter);--most:{}%\">",
                      92 / std::max<std::size_t>(p_.columns.size(), 2));
  for (std::uint32_t c = 0; c < p_.columns.size(); ++c) {
    const std::string address = c < p_.addresses.size() ? html_text(p_.addresses[c]) : "";
    const std::uint64_t at = p_.columns.size() < 2 ? 0 : c == 0 ? 0 : c + 1 == p_.columns.size() ? 10000 : x(c);
    out_ += fmt::format("<span style=\"left:{}\"><b>{}</b><small>{}</small></span>", percent(at),
                        html_text(p_.columns[c]), address);
  }
  out_ += "</div></div>\n";
}

void Page::markers() {
  out_ += "<defs>";
  for (const std::string_view l : {"arp", "nd", "tcp", "ack", "mpa", "rdmap", "terminate", "other"})
    out_ += fmt::format(
        "<marker id=\"h-{0}\" class=\"{0}\" markerUnits=\"userSpaceOnUse\" markerWidth=\"14\" markerHeight=\"12\" "
        "refX=\"12\" refY=\"6\" orient=\"auto\"><path class=\"head\" d=\"M1 1L13 6L1 11L4 6z\"/></marker>",
        l);
  out_ +=
      "<marker id=\"h-cross\" markerUnits=\"userSpaceOnUse\" markerWidth=\"16\" markerHeight=\"16\" refX=\"8\" "
      "refY=\"8\">"
      "<path class=\"cross\" d=\"M3 3L13 13M13 3L3 13\"/></marker></defs>\n";
}

void Page::down_times(std::uint32_t column) {
  for (std::size_t i = 0; i < p_.rows.size(); ++i) {
    const LadderRow& r = p_.rows[i];
    if (r.kind != Kind::note || r.layer != "crash" || r.from != column) continue;
    std::size_t up = i + 1;
    while (up < p_.rows.size() &&
           (p_.rows[up].kind != Kind::note || p_.rows[up].layer != "restart" || p_.rows[up].from != column))
      ++up;
    const bool ends = up < p_.rows.size();
    for (const std::string_view part : {"down", "downdots"})
      out_ += fmt::format("<line class=\"{}\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" data-s=\"{}\" data-u=\"{}\"/>",
                          part, percent(x(column)), percent(x(column)), places_[i].y + note_middle,
                          ends ? places_[up].y + note_middle : height_, places_[i].sent,
                          ends ? fmt::format("{}", places_[up].sent) : "end");
  }
}

void Page::life_lines() {
  for (std::uint32_t c = 0; c < p_.columns.size(); ++c) {
    out_ += fmt::format("<line class=\"life\" x1=\"{0}\" x2=\"{0}\" y1=\"0\" y2=\"100%\"/>", percent(x(c)));
    down_times(c);
  }
  out_ += '\n';
}

void Page::ladder() {
  const bool many = p_.columns.size() > 4;
  out_ += fmt::format("<main class=\"ladder{}\"><div class=\"inner\"{}>\n", many ? " many" : "",
                      many ? fmt::format(" style=\"min-width:{}px\"", p_.columns.size() * 130) : "");
  hosts();
  out_ += fmt::format(
      "<svg class=\"wires\" height=\"{}\" role=\"list\" aria-label=\"frames in order of sending\" "
      "data-line=\"{}\" data-slant=\"{}\" data-step=\"{}\">\n",
      height_, ladder_line_y, ladder_slant, ladder_step);
  markers();
  life_lines();
  for (std::size_t i = 0; i < p_.rows.size(); ++i) row(i);
  out_ += "</svg>\n";
  if (p_.rows_dropped > 0) out_ += fmt::format("<p class=\"sub\">{} more rows are left out.</p>\n", p_.rows_dropped);
  out_ += "</div></main>\n";
}

std::string Page::way(const LadderRow& r) const {
  if (r.finding()) return "at " + ladder_exact_seconds(r.at);
  if (r.kind == Kind::note) return fmt::format("{}, at {}", name(r.from), ladder_exact_seconds(r.at));
  std::string to = name(r.to);
  for (std::uint32_t c : r.also) to += ", " + name(c);
  std::string out = fmt::format("{} → {}, sent at {}", name(r.from), to, ladder_exact_seconds(r.at));
  if (r.fate == Fate::arrived && r.arrived == r.at) return out;  // a capture at one point has no arrival time
  if (r.fate == Fate::arrived || r.fate == Fate::discarded)
    out += fmt::format(", {} after {}", r.fate == Fate::discarded ? "thrown away" : "arrived",
                       brief_duration_text(r.arrived - r.at));
  return out;
}

std::string Page::tooltip(const LadderRow& r) const {
  std::string out = html_text(r.text) + (r.repeated ? " again" : "");
  if (!r.detail.empty()) out += " " + html_text(r.detail);
  out += "\n" + html_text(way(r));
  if (!r.why.empty()) out += "\n" + html_text(r.why);
  return out;
}

/// The smallest screen with room for a text of `n` columns, which include what precedes it: 1 a phone ... 4 a desktop.
/// More hosts leave less room.
int Page::screen_for(std::size_t n) const {
  if (p_.columns.size() > 2) n = n * 3 / 2;
  return n <= narrow ? 1 : n <= 76 ? 2 : n <= 112 ? 3 : 4;
}

/// A text in two parts: one for a phone, and the rest for wider screens.
std::string Page::in_parts(const std::string& text) const {
  const std::size_t n = columns(text);
  if (n <= narrow) return html_text(text);
  const std::string_view head = std::string_view(text).substr(0, narrow);
  std::size_t cut = head.rfind(' ');
  if (cut == std::string_view::npos || cut < narrow / 2) cut = narrow;
  while ((static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;  // not inside a character
  return fmt::format("{}<tspan class=\"w{}\">{}</tspan>", html_text(text.substr(0, cut)), screen_for(n),
                     html_text(text.substr(cut)));
}

/// The name of a frame and as many of its details as fit: the style shows more of them on wider screens.
void Page::label(const LadderRow& r, std::uint64_t at, int y, std::string_view anchor) {
  const std::string text = clip(r.text, label_max) + (r.repeated ? " again" : "");
  out_ += fmt::format("<text class=\"l{}\" x=\"{}\" y=\"{}\" dx=\"{}\">{}", anchor, percent(at), y,
                      anchor == " e" ? -words_off : words_off, in_parts(text));
  const std::size_t left = label_max - std::min(label_max, columns(text));
  if (!r.detail.empty() && left > 8) {
    const std::string detail = clip(r.detail, left);
    out_ += fmt::format("<tspan class=\"d w{}\" dx=\"7\">{}</tspan>", screen_for(columns(text) + 1 + columns(detail)),
                        html_text(detail));
  }
  out_ += "</text>";
}

void Page::frame_row(const LadderRow& r, const RowPosition& at) {
  const auto wire = [&](std::uint32_t to) {
    const std::uint64_t a = x(r.from), b = x(to);
    const std::uint64_t end = lost(r) ? (b > a ? a + (b - a) * 62 / 100 : a - (a - b) * 62 / 100) : b;
    const bool bad = lost(r) || r.fate == Fate::discarded;
    const std::string head =
        r.fate == Fate::under_way ? "" : fmt::format(" marker-end=\"url(#h-{})\"", bad ? "cross" : layer(r));
    out_ += fmt::format("<line class=\"w\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"{}/>", percent(a), percent(end),
                        ladder_line_y, at.tip - at.y, head);
  };
  wire(r.to);
  for (std::uint32_t c : r.also) wire(c);
  // The text starts where the arrow begins and runs along it, unless the edge of the ladder is too near.
  const std::uint64_t low = std::min(x(r.from), x(r.to)), high = std::max(x(r.from), x(r.to));
  const bool rightward = x(r.from) <= x(r.to);
  const bool room = rightward ? x(r.from) <= 6000 : x(r.from) >= 4000;
  const bool from_left = rightward == room;
  const std::uint64_t words_at = from_left ? low : high;
  const std::string_view anchor = from_left ? " s" : " e";
  label(r, words_at, 16, anchor);
  if (!r.why.empty())
    out_ += fmt::format("<text class=\"y{}\" x=\"{}\" y=\"43\" dx=\"{}\">{}</text>", anchor, percent(words_at),
                        from_left ? words_off : -words_off, in_parts(clip(r.why, 110)));
}

void Page::row(std::size_t i) {
  const LadderRow& r = p_.rows[i];
  const RowPosition& at = places_[i];
  if (at.gap != 0) {
    out_ += fmt::format(
        "<g class=\"gap\" data-s=\"{}\" data-h=\"{}\" transform=\"translate(0,{})\"><line x1=\"0\" x2=\"100%\" "
        "y1=\"12\" "
        "y2=\"12\"/><text x=\"50%\" y=\"16\">{} later</text></g>\n",
        at.gap, gap_height, at.gap_y, brief_duration_text(at.silence));
  }
  std::string classes = fmt::format("r {}", layer(r));
  if (r.repeated) classes += " again";
  if (r.kind == Kind::frame && lost(r)) classes += " lost";
  if (r.fate == Fate::discarded) classes += " thrown";
  const bool astray = r.kind != Kind::frame || r.repeated || r.altered || r.fate != Fate::arrived || !r.why.empty();
  out_ += fmt::format(
      "<a id=\"r{0}\" class=\"{1}\" href=\"#f{0}\" role=\"listitem\" transform=\"translate(0,{2})\" data-s=\"{3}\" "
      "data-h=\"{4}\" "
      "data-layer=\"{5}\"",
      i, classes, at.y, at.sent, at.height, layer(r));
  if (at.arrived != 0) out_ += fmt::format(" data-e=\"{}\"", at.arrived);
  if (astray) out_ += " data-f=\"1\"";
  if (p_.connections.size() > 1 && (r.connection > 0 || r.kind == Kind::frame))
    out_ += fmt::format(" data-c=\"{}\"", r.connection);
  out_ += fmt::format(" data-name=\"{}{}\" data-more=\"{}\" data-way=\"{}\" data-why=\"{}\">", html_text(r.text),
                      r.repeated ? " again" : "", html_text(r.detail), html_text(way(r)), html_text(r.why));
  out_ += fmt::format("<title>{}</title><rect class=\"hit\" x=\"-76\" y=\"1\" width=\"100%\" height=\"{}\" rx=\"6\"/>",
                      tooltip(r), at.height - 2);
  out_ += fmt::format("<text class=\"t\" x=\"-8\" y=\"{}\">{}</text>", r.kind == Kind::note ? 18 : ladder_line_y + 4,
                      ladder_time(r.at));
  if (r.kind == Kind::frame) frame_row(r, at);
  if (r.kind == Kind::note) {
    const std::uint64_t column = x(r.from);
    out_ +=
        fmt::format("<svg x=\"{}\" y=\"{}\" overflow=\"visible\"><path class=\"m\" d=\"M0 -7L7 0L0 7L-7 0z\"/></svg>",
                    percent(column), note_middle);
    const bool left = column <= 5000;
    label(r, column, 18, left ? " s" : " e");
  }
  if (r.finding()) {
    out_ += "<rect class=\"box\" x=\"0\" y=\"4\" width=\"100%\" height=\"28\" rx=\"6\"/>";
    label(r, 150, 23, " s");
  }
  out_ += "</a>\n";
}

void Page::list() {
  out_ += "<section id=\"frames\"><h2>Every frame with its fields</h2>\n";
  for (std::size_t i = 0; i < p_.rows.size(); ++i) {
    const LadderRow& r = p_.rows[i];
    const std::string who = r.kind == Kind::frame  ? fmt::format("{} → {}", name(r.from), name(r.to))
                            : r.kind == Kind::note ? name(r.from)
                                                   : "";
    out_ += fmt::format("<details class=\"{}\"><summary><time>{}</time> {} <b>{}{}</b> {}</summary><pre id=\"f{}\">",
                        layer(r), ladder_time(r.at), html_text(who), html_text(r.text), r.repeated ? " again" : "",
                        html_text(clip(r.detail, 120)), i);
    for (const auto& [field, value] : r.fields)
      out_ += value.empty() ? fmt::format("{}\n", html_text(field))
                            : fmt::format("  {}: {}\n", html_text(field), html_text(value));
    out_ += "</pre></details>\n";
  }
  out_ += "</section>\n";
}

}  // namespace

std::string to_html(const Ladder& ladder, const Provenance* provenance) { return Page(ladder, provenance).write(); }

}  // namespace parley::draw
