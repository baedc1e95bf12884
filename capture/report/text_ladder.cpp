// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/report/text_ladder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "capture/report/text.hpp"

namespace parley::capture {
namespace {

constexpr std::size_t margin = 21;  // columns for frame number and time

struct Glyphs {
  std::string_view line, left_head, right_head, dash, dotted, cross;
};
constexpr Glyphs unicode{"│", "◀", "▶", "─", "╌", "✗"};
constexpr Glyphs plain{"|", "<", ">", "-", ".", "!"};

class Ladder {
 public:
  Ladder(const ConnectionReport& c, const LadderOptions& o)
      : c_(c), o_(o), g_(o.ascii ? plain : unicode), inner_(std::max<std::size_t>(o.width, 60) - margin - 2) {}

  std::string draw() {
    head();
    auto finding = c_.findings.begin();
    std::size_t i = 0;
    for (const LadderEvent& e : c_.events) {
      arrow(e);
      const bool frame_ends = ++i == c_.events.size() || c_.events[i].frame != e.frame;
      if (!frame_ends || !o_.findings) continue;
      for (; finding != c_.findings.end() && finding->frame <= e.frame; ++finding) tell(*finding);
    }
    if (o_.findings)
      for (; finding != c_.findings.end(); ++finding) tell(*finding);
    if (c_.events_dropped > 0) note(fmt::format("{} more lines are left out", c_.events_dropped));
    return std::move(out_);
  }

 private:
  void head() {
    const std::string left = o_.left_name.empty() ? c_.end_text(Side::initiator) : o_.left_name;
    const std::string right = o_.right_name.empty() ? c_.end_text(Side::responder) : o_.right_name;
    const std::size_t used = columns(left) + columns(right);
    const std::size_t gap = inner_ + 2 > used ? inner_ + 2 - used : 1;
    out_ += result_text(c_) + "\n";
    out_ += fmt::format("{:>7}  {:>10}  {}{}{}\n", "frame", "time", left, std::string(gap, ' '), right);
    const std::string_view l = "initiator", r = "responder";
    out_ += std::string(margin, ' ') + std::string(l) + std::string(inner_ + 2 - l.size() - r.size(), ' ') +
            std::string(r) + "\n";
  }

  void arrow(const LadderEvent& e) {
    const bool right = e.from == Side::initiator;
    const bool faint = e.kind == LadderEvent::Kind::repeated || e.kind == LadderEvent::Kind::gap;
    const std::string text =
        clip((e.kind == LadderEvent::Kind::gap ? std::string(g_.cross) + " " : std::string()) + e.text, inner_ - 8);
    const std::string_view dash = faint ? g_.dotted : g_.dash;
    const std::size_t rest = inner_ - columns(text) - 5;
    std::string body;
    if (right)
      body = repeat(dash, 2) + " " + text + " " + repeat(dash, rest) + std::string(g_.right_head);
    else
      body = std::string(g_.left_head) + repeat(dash, rest) + " " + text + " " + repeat(dash, 2);
    const bool same = e.frame == last_frame_;
    out_ += fmt::format("{:>7}  {:>10}  {}{}{}\n", same ? "" : fmt::format("{}", e.frame),
                        same ? "" : decimal_seconds(e.at - c_.first_at, 6), g_.line, body, g_.line);
    last_frame_ = e.frame;
  }

  void tell(const Finding& f) {
    const std::string rule = f.rule.empty() ? "" : fmt::format(" [{}]", f.rule);
    const bool away = f.frame != 0 && f.frame != last_frame_;
    const std::string where = away ? fmt::format("frame {}: ", f.frame) : "";
    const std::string_view mark = f.severity == Severity::note ? "i" : f.severity == Severity::warning ? "!" : g_.cross;
    note(fmt::format("{} {}: {}{}{}", mark, to_string(f.severity), where, f.text, rule));
  }

  void note(const std::string& text) {
    std::string lines = wrap(text, inner_ - 4, 2);
    while (!lines.empty()) {
      const std::size_t end = lines.find('\n');
      const std::string line = lines.substr(0, end);
      lines = end == std::string::npos ? "" : lines.substr(end + 1);
      const std::size_t pad = inner_ - 2 - std::min(inner_ - 2, columns(line));
      out_ += std::string(margin, ' ') + std::string(g_.line) + "  " + line + std::string(pad, ' ') +
              std::string(g_.line) + "\n";
    }
  }

  const ConnectionReport& c_;
  const LadderOptions& o_;
  const Glyphs& g_;
  std::size_t inner_;  // columns between the two life lines
  std::uint64_t last_frame_ = ~0ULL;
  std::string out_;
};

}  // namespace

std::string to_ladder(const ConnectionReport& connection, const LadderOptions& options) {
  return Ladder(connection, options).draw();
}

}  // namespace parley::capture
