// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The ladder as text. A line is made of pieces with a style each, so that colours cost no columns.
#include "draw/ladder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/escape.hpp"
#include "base/text.hpp"
#include "draw/ladder_text.hpp"

namespace parley::draw {
namespace {

using Kind = LadderRow::Kind;
using Fate = LadderRow::Fate;

constexpr std::size_t margin = 21;  // frame number and time
constexpr std::size_t width_min = 60;

struct Glyphs {
  std::string_view life, down, pause, left_head, right_head, dash, dotted, crossing, cross, event;
};
constexpr Glyphs unicode{"│", "·", "┆", "◀", "▶", "─", "╌", "┼", "✗", "◆"};
constexpr Glyphs plain{"|", ".", ":", "<", ">", "-", ".", "+", "X", "*"};

enum class Style : std::uint8_t { normal, dim, bold, bad, warn, arp, tcp, mpa, rdmap };

std::string_view escape_of(Style s) {
  switch (s) {
    case Style::normal: return "";
    case Style::dim: return "\033[2m";
    case Style::bold: return "\033[1m";
    case Style::bad: return "\033[1;31m";
    case Style::warn: return "\033[33m";
    case Style::arp: return "\033[2;36m";
    case Style::tcp: return "\033[36m";
    case Style::mpa: return "\033[1;35m";
    case Style::rdmap: return "\033[1;32m";
  }
  return "";
}

Style style_of(const LadderRow& row) {
  if (row.layer == "arp" || row.layer == "nd") return Style::arp;
  if (row.layer == "tcp") return Style::tcp;
  if (row.layer == "ack") return Style::dim;
  if (row.layer == "mpa") return Style::mpa;
  if (row.layer == "rdmap") return Style::rdmap;
  if (row.layer == "terminate") return Style::bad;
  return Style::normal;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

class Canvas {
 public:
  Canvas(const Ladder& p, const LadderTextOptions& o) : p_(p), o_(o), g_(o.ascii ? plain : unicode) {
    choose_columns();
    const std::size_t room = std::max(o.width, width_min) - margin;
    if (shown_.size() == 2) {
      inner_ = room - 2;
      return;
    }
    const std::size_t gaps = shown_.empty() ? 0 : shown_.size() - 1;
    gap_ = gaps == 0 ? 0 : std::clamp<std::size_t>(room / 2 / gaps, 5, 14);
    const std::size_t used = gaps * gap_ + 4;
    label_ = room > used + 24 ? room - used : 24;
  }

  std::string draw() {
    if (!p_.title.empty()) line({{words(p_.title), Style::bold}});
    if (!p_.subtitle.empty()) line({{words(p_.subtitle), Style::dim}});
    if (!p_.title.empty() || !p_.subtitle.empty()) out_ += '\n';
    if (!shown_.empty()) head();
    down_.assign(p_.columns.size(), false);
    Instant last = p_.rows.empty() ? Instant{} : p_.rows.front().at;
    for (const LadderRow& row : p_.rows) {
      if (row.at - last >= ladder_gap) pause(row.at - last);
      last = std::max(last, row.at);
      if (row.kind == Kind::frame)
        shown_.size() == 2 ? frame_between_two(row) : frame_beside(row);
      else if (row.kind == Kind::note)
        note(row);
      else
        violation(row);
    }
    if (p_.rows_dropped > 0) remark(fmt::format("{} more rows are left out", p_.rows_dropped), Style::dim);
    facts();
    return std::move(out_);
  }

 private:
  struct Piece {
    std::string text;
    Style style = Style::normal;
  };

  std::string words(std::string_view text) const { return printable(text, o_.ascii); }

  /// Selects the hosts to draw: all of them, or those with events if there are more than two.
  void choose_columns() {
    const std::size_t n = p_.columns.size();
    std::vector<bool> used(n, n <= 2);
    const auto use = [&](std::uint32_t c) {
      if (c < n) used[c] = true;
    };
    for (const LadderRow& row : p_.rows) {
      if (row.finding()) continue;
      use(row.from);
      use(row.kind == Kind::frame ? row.to : row.from);
      for (std::uint32_t c : row.also) use(c);
    }
    place_.assign(n, 0);
    for (std::size_t c = 0; c < n; ++c) {
      if (!used[c]) continue;
      place_[c] = shown_.size();
      shown_.push_back(c);
    }
  }
  std::size_t place(std::uint32_t column) const { return column < place_.size() ? place_[column] : 0; }

  void line(const std::vector<Piece>& pieces) {
    std::string text;
    for (const Piece& piece : pieces) {
      const std::string_view escape = o_.colour && !piece.text.empty() ? escape_of(piece.style) : "";
      text += escape;
      text += piece.text;
      if (!escape.empty()) text += "\033[0m";
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    out_ += text + '\n';
  }
  Piece left_margin(const LadderRow& row) const {
    const std::string number = row.frame == 0 ? "" : fmt::format("{}", row.frame);
    return {fmt::format("{:>6}  {:>11}  ", number, ladder_time(row.at)), Style::dim};
  }
  static Piece blank_margin() { return {std::string(margin, ' ')}; }
  Piece life(std::size_t place) const {
    const bool down = down_[shown_[place]];
    return {std::string(down ? g_.down : g_.life), down ? Style::bad : Style::dim};
  }
  /// Text between two life lines, or at their side if there are more.
  void between(Piece margin_piece, std::vector<Piece> inside, std::size_t used) {
    std::vector<Piece> all{std::move(margin_piece)};
    if (shown_.size() == 2) {
      all.push_back(life(0));
      for (Piece& piece : inside) all.push_back(std::move(piece));
      all.push_back({std::string(inner_ - std::min(inner_, used), ' ')});
      all.push_back(life(1));
    } else {
      for (const Piece& cell : lifelines()) all.push_back(cell);
      all.push_back({"   "});
      for (Piece& piece : inside) all.push_back(std::move(piece));
    }
    line(all);
  }
  void remark(const std::string& text, Style style, bool at_right = false) {
    const std::size_t room = shown_.size() == 2 ? inner_ - 4 : label_;
    for (const std::string& each : lines_of(wrap(text, room, 0))) {
      const std::size_t n = columns(each);
      const std::size_t indent = shown_.size() != 2 ? 0 : at_right && n + 2 < inner_ ? inner_ - n - 2 : 2;
      between(blank_margin(), {{std::string(indent, ' ')}, {each, style}}, indent + n);
    }
  }

  void head();
  void facts();
  void pause(Duration d);
  void note(const LadderRow& row);
  void violation(const LadderRow& row);
  void frame_between_two(const LadderRow& row);
  void frame_beside(const LadderRow& row);
  void draw_arrow(std::vector<Piece>& cells, const LadderRow& row, std::uint32_t to) const;
  std::vector<Piece> lifelines() const;
  std::string label(const LadderRow& row) const {
    return words(row.text) + (row.repeated ? " again" : "") + (row.detail.empty() ? "" : " " + words(row.detail));
  }

  const Ladder& p_;
  const LadderTextOptions& o_;
  const Glyphs& g_;
  std::vector<std::size_t> shown_;  // columns of the ladder that are drawn
  std::vector<std::size_t> place_;  // index of each column of the ladder in shown_
  std::vector<bool> down_;
  std::size_t inner_ = 0;            // two hosts: columns between the life lines
  std::size_t gap_ = 0, label_ = 0;  // more hosts: columns between life lines, and of the text at the side
  std::string out_;
};

void Canvas::head() {
  for (const auto* texts : {&p_.columns, &p_.addresses}) {
    if (texts->size() != p_.columns.size()) continue;
    const bool names = texts == &p_.columns;
    std::vector<Piece> pieces{names ? Piece{fmt::format("{:>6}  {:>11}  ", "frame", "seconds"), Style::dim}
                                    : blank_margin()};
    const Style style = names ? Style::bold : Style::dim;
    if (shown_.size() == 2) {
      const std::string right = clip(words((*texts)[shown_[1]]), inner_ / 2);
      const std::string left = clip(words((*texts)[shown_[0]]), inner_ / 2);
      pieces.push_back({left, style});
      pieces.push_back({std::string(inner_ + 2 - columns(left) - columns(right), ' ')});
      pieces.push_back({right, style});
    } else if (names) {
      for (std::size_t c : shown_) {
        const std::string name = clip(words((*texts)[c]), gap_ == 0 ? 20 : gap_ - 1);
        pieces.push_back({name + std::string(gap_ - std::min(gap_, columns(name)), ' '), style});
      }
    } else {
      continue;
    }
    line(pieces);
  }
}

void Canvas::facts() {
  if (p_.facts.empty()) return;
  out_ += '\n';
  for (const auto& [name, value] : p_.facts) {
    const std::string_view colour = name == "result" ? result_class(value) : "";
    line({{fmt::format("{:>{}}  ", words(name), margin - 2), Style::dim},
          {words(value), colour == "good"   ? Style::rdmap
                         : colour == "warn" ? Style::warn
                         : colour == "bad"  ? Style::bad
                                            : Style::normal}});
  }
}

void Canvas::pause(Duration d) {
  const std::string text = words(fmt::format("{} later", brief_duration_text(d)));
  std::vector<Piece> pieces{blank_margin()};
  if (shown_.size() == 2) {
    const std::size_t n = columns(text), before = (inner_ - n) / 2;
    pieces.push_back({std::string(g_.pause), Style::dim});
    pieces.push_back({std::string(before, ' ') + text + std::string(inner_ - n - before, ' '), Style::dim});
    pieces.push_back({std::string(g_.pause), Style::dim});
  } else {
    for (std::size_t i = 0; i < shown_.size(); ++i)
      pieces.push_back({std::string(g_.pause) + std::string(i + 1 < shown_.size() ? gap_ - 1 : 0, ' '), Style::dim});
    pieces.push_back({"   " + text, Style::dim});
  }
  line(pieces);
}

void Canvas::note(const LadderRow& row) {
  if (row.from < down_.size() && row.layer == "crash") down_[row.from] = true;
  if (row.from < down_.size() && row.layer == "restart") down_[row.from] = false;
  const Style style = row.layer == "crash" ? Style::bad : Style::warn;
  const std::size_t at = place(row.from);
  const Piece mark{std::string(g_.event), style};
  std::vector<Piece> pieces{left_margin(row)};
  if (shown_.size() == 2) {
    const std::string text = clip(words(row.text), inner_ - 2);
    const std::string gap(inner_ - columns(text) - 1, ' ');
    pieces.push_back(at == 0 ? mark : life(0));
    pieces.push_back(at == 0 ? Piece{" " + text, style} : Piece{gap});
    pieces.push_back(at == 0 ? Piece{gap} : Piece{text + " ", style});
    pieces.push_back(at == 0 ? life(1) : mark);
  } else {
    std::vector<Piece> cells = lifelines();
    if (at * gap_ < cells.size()) cells[at * gap_] = mark;
    for (Piece& cell : cells) pieces.push_back(std::move(cell));
    pieces.push_back({"   " + clip(words(row.text), label_), style});
  }
  line(pieces);
}

void Canvas::violation(const LadderRow& row) {
  const std::string rule = row.why.empty() ? "" : fmt::format(" [{}]", row.why);
  const bool bad = row.kind == Kind::violation;
  remark(words(fmt::format("{} {}: {}{}", bad ? g_.cross : "!", row.text, row.detail, rule)),
         bad ? Style::bad : Style::warn);
}

/// `│── text ─────────▶│`, `│── text ──────✗ why │`, and the same from the right.
void Canvas::frame_between_two(const LadderRow& row) {
  const bool right = place(row.to) >= place(row.from);
  const bool lost = row.fate == Fate::dropped || row.fate == Fate::under_way;
  const std::string_view dash = row.repeated ? g_.dotted : g_.dash;
  const std::string text = clip(label(row), inner_ - 9);
  const std::string why = words(row.why);
  const std::size_t room = inner_ - columns(text) - 5;  // for the line after the text, without its end
  const bool inline_why = lost && columns(why) + 5 <= room;
  const std::size_t beyond = !lost ? 0 : inline_why ? columns(why) + 2 : std::min<std::size_t>(room / 2, 8);
  const std::string end = std::string(lost || row.fate == Fate::discarded ? g_.cross
                                      : right                             ? g_.right_head
                                                                          : g_.left_head);
  const Style style = style_of(row);
  const Style line_style = row.repeated ? Style::dim : style;
  const Style end_style = lost || row.fate == Fate::discarded ? Style::bad : line_style;
  const std::string tail = inline_why ? " " + why + " " : std::string(beyond, ' ');
  std::vector<Piece> inside;
  const std::string rest = repeat(dash, room - beyond);
  inside.push_back({repeat(dash, 2) + " ", line_style});
  inside.push_back({text, style});
  inside.push_back({" " + rest, line_style});
  inside.push_back({end, end_style});
  inside.push_back({tail, Style::bad});
  if (!right) {
    inside = {{tail, Style::bad},
              {end, end_style},
              {rest + " ", line_style},
              {text, style},
              {" " + repeat(dash, 2), line_style}};
  }
  between(left_margin(row), std::move(inside), inner_);
  if (!why.empty() && !inline_why) remark(why, row.fate == Fate::arrived ? Style::warn : Style::bad, right);
}

std::vector<Canvas::Piece> Canvas::lifelines() const {
  std::vector<Piece> cells;
  for (std::size_t i = 0; i < shown_.size(); ++i) {
    cells.push_back(life(i));
    for (std::size_t k = 1; k < gap_ && i + 1 < shown_.size(); ++k) cells.push_back({" "});
  }
  return cells;
}

void Canvas::draw_arrow(std::vector<Piece>& cells, const LadderRow& row, std::uint32_t to) const {
  const std::size_t a = place(row.from) * gap_, b = place(to) * gap_;
  if (a == b || a >= cells.size() || b >= cells.size()) return;
  const bool right = b > a;
  const bool lost = row.fate == Fate::dropped || row.fate == Fate::under_way;
  const std::size_t way = (right ? b - a : a - b) - 1;
  const std::size_t reach = lost ? std::max<std::size_t>(way * 3 / 5, 2) : way;
  const Style style = row.repeated ? Style::dim : style_of(row);
  for (std::size_t k = 1; k <= reach; ++k) {
    Piece& cell = cells[right ? a + k : a - k];
    const bool crossing = (right ? a + k : a - k) % gap_ == 0;
    cell = {std::string(crossing ? g_.crossing : row.repeated ? g_.dotted : g_.dash), style};
  }
  Piece& end = cells[right ? a + reach : a - reach];
  const bool bad = lost || row.fate == Fate::discarded;
  end = {std::string(bad ? g_.cross : right ? g_.right_head : g_.left_head), bad ? Style::bad : style};
}

/// Arrows on the left, text on the right.
void Canvas::frame_beside(const LadderRow& row) {
  std::vector<Piece> cells = lifelines();
  // The farthest first, so that the heads of the nearer ones stay visible.
  std::vector<std::uint32_t> targets = row.also;
  targets.push_back(row.to);
  const auto distance = [&](std::uint32_t c) {
    return place(c) > place(row.from) ? place(c) - place(row.from) : place(row.from) - place(c);
  };
  std::stable_sort(targets.begin(), targets.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return distance(a) > distance(b); });
  for (std::uint32_t c : targets) draw_arrow(cells, row, c);
  std::vector<Piece> pieces{left_margin(row)};
  for (Piece& cell : cells) pieces.push_back(std::move(cell));
  const std::string text = clip(label(row), label_);
  pieces.push_back({"   "});
  pieces.push_back({text, style_of(row)});
  const std::string why = words(row.why);
  const Style why_style = row.fate == Fate::arrived ? Style::warn : Style::bad;
  const bool fits = columns(text) + 2 + columns(why) <= label_;
  if (!why.empty() && fits) pieces.push_back({"  " + why, why_style});
  line(pieces);
  if (!why.empty() && !fits) remark(why, why_style);
}

}  // namespace

std::string to_text(const Ladder& ladder, const LadderTextOptions& options) { return Canvas(ladder, options).draw(); }

}  // namespace parley::draw
