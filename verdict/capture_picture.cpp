// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "verdict/capture_picture.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "verdict/picture_index.hpp"
#include "verdict/picture_words.hpp"
#include "verdict/text.hpp"

namespace parley::verdict {
namespace {

using Kind = LadderEvent::Kind;

std::string_view layer_of(Kind kind) {
  switch (kind) {
    case Kind::tcp:
    case Kind::repeated:
    case Kind::gap: return "tcp";
    case Kind::startup: return "mpa";
    case Kind::fpdu: return "rdmap";
    case Kind::terminate: return "terminate";
  }
  return "other";
}

class Filler {
 public:
  Filler(std::string_view file, const ConnectionReport& c, const CapturePictureOptions& o) : c_(c), o_(o) {
    const std::string ends = fmt::format("{} -> {}", c.initiator.to_string(), c.responder.to_string());
    p_.title = fmt::format("{}: {}", ends, to_string(c.outcome));
    p_.connections = {{ends, standing_text(c.judgement), std::string(to_string(c.outcome))}};
    p_.subtitle = o.number == 0 ? std::string(file) : fmt::format("{}, connection {}", file, o.number);
    p_.columns = {"initiator", "responder"};
    p_.addresses = {c.initiator.to_string(), c.responder.to_string()};
    p_.rows_dropped = c.events_dropped;
  }

  Picture fill() {
    auto finding = c_.findings.begin();
    for (std::size_t i = 0; i < c_.events.size(); ++i) {
      const LadderEvent& e = c_.events[i];
      // What happens without an event of its own stands before what comes after it.
      for (; finding != c_.findings.end() && finding->frame < e.frame; ++finding) tell(*finding);
      now_ = Instant{} + (e.at - c_.first_at);
      show(e);
      const bool frame_ends = i + 1 == c_.events.size() || c_.events[i + 1].frame != e.frame;
      if (!frame_ends) continue;
      for (; finding != c_.findings.end() && finding->frame <= e.frame; ++finding) tell(*finding);
    }
    for (; finding != c_.findings.end(); ++finding) tell(*finding);
    facts();
    return std::move(p_);
  }

 private:
  void add(PictureRow row) {
    // Rows go by time; a capture may have a clock that was set back.
    latest_ = std::max(latest_, now_);
    row.at = row.arrived = latest_;
    if (p_.rows.size() >= o_.rows_max && !row.finding())
      ++p_.rows_dropped;
    else
      p_.rows.push_back(std::move(row));
  }

  void show(const LadderEvent& e) {
    PictureRow row;
    row.frame = e.frame;
    row.from = e.from == Side::initiator ? 0 : 1;
    row.to = 1 - row.from;
    row.layer = layer_of(e.kind);
    row.repeated = e.kind == Kind::repeated;
    const std::size_t name = e.name == 0 ? e.text.size() : std::min(e.name, e.text.size());
    row.text = e.text.substr(0, name);
    // The page says "again" of what is repeated by itself.
    if (row.repeated && row.text.ends_with(" again")) row.text.resize(row.text.size() - 6);
    if (name < e.text.size()) row.detail = e.text.substr(name + (e.text[name] == ' ' ? 1 : 0));
    if (e.kind == Kind::gap) {
      row.kind = PictureRow::Kind::note;
      row.layer = "note";
    }
    row.fields = {{"Capture", ""},
                  {"Frame", fmt::format("{}", e.frame)},
                  {"Seconds since the first packet", picture_exact_time(Instant{} + (e.at - c_.first_at))},
                  {"Sent by", std::string(to_string(e.from))}};
    row.fields.insert(row.fields.end(), e.fields.begin(), e.fields.end());
    add(std::move(row));
  }

  void tell(const Finding& f) {
    if (f.severity == Severity::note && !o_.notes) return;
    PictureRow row;
    row.frame = f.frame;
    const std::string where = f.frame == 0 ? "" : fmt::format("frame {}", f.frame);
    row.fields = {{"Finding", ""}, {"Severity", std::string(to_string(f.severity))}};
    if (!where.empty()) row.fields.emplace_back("Frame", fmt::format("{}", f.frame));
    row.fields.emplace_back("What was found", f.text);
    if (!f.rule.empty()) row.fields.emplace_back("Rule", f.rule);
    if (f.severity == Severity::note) {
      const std::size_t left = f.text.find("initiator"), right = f.text.find("responder");
      row.kind = PictureRow::Kind::note;
      row.from = row.to = right < left ? 1 : 0;
      row.layer = "note";
      row.text = f.text;
      if (!f.rule.empty()) row.detail = fmt::format("[{}]", f.rule);
    } else {
      const bool error = f.severity == Severity::error;
      row.kind = error ? PictureRow::Kind::violation : PictureRow::Kind::warning;
      row.layer = error ? "violation" : "warning";
      row.text = f.text;
      row.detail = fmt::format("{}{}{}", to_string(f.severity), where.empty() ? "" : ", ", where);
      row.why = f.rule;
    }
    add(std::move(row));
  }

  void facts() {
    p_.facts = {{"result", standing_text(c_.judgement)},
                {"findings", fmt::format("{}, {}", counted(c_.count(Severity::error), "error"),
                                         counted(c_.count(Severity::warning), "warning"))},
                {"outcome", std::string(to_string(c_.outcome))},
                {"frames", fmt::format("{} to {}", c_.first_frame, c_.last_frame)}};
    if (const std::string_view why = c_.not_agreed(); !why.empty()) {
      p_.facts.emplace_back("agreed", std::string(why));
    } else {
      p_.facts.emplace_back("revision", fmt::format("{}", c_.revision));
      p_.facts.emplace_back("CRC", c_.crc ? "on" : "off");
      p_.facts.emplace_back("markers", markers());
      p_.facts.emplace_back("RTR", rtr_text(c_));
      if (c_.depths_negotiated) p_.facts.emplace_back("IRD, ORD", fmt::format("{}, {}", c_.ird, c_.ord));
    }
    p_.facts.emplace_back("end", c_.end);
  }
  std::string markers() const {
    if (c_.markers_to_initiator && c_.markers_to_responder) return "both ways";
    return c_.markers_to_initiator ? "to the initiator" : c_.markers_to_responder ? "to the responder" : "none";
  }

  const ConnectionReport& c_;
  const CapturePictureOptions& o_;
  Picture p_;
  Instant now_{}, latest_{};
};

constexpr std::string_view book_style = R"(
:root{color-scheme:light dark;--fg:#1b1f24;--bg:#fff;--dim:#5d6670;--faint:#d7dce1;--raise:#f4f6f8;--focus:#0b57d0;
--good:#19753a;--bad:#c81e1e;--warn:#8a5800}
@media(prefers-color-scheme:dark){:root{--fg:#e4e8ec;--bg:#14171b;--dim:#99a3ae;--faint:#363c44;--raise:#1d2127;--focus:#8ab4f8;
--good:#62d48a;--bad:#ff7b72;--warn:#e9b44c}}
*{box-sizing:border-box}
body{margin:0;padding:16px;background:var(--bg);color:var(--fg);font:15px/1.45 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:20px;margin:0 0 8px}h2{font-size:16px;margin:24px 0 8px}
.dim{color:var(--dim)}
iframe{display:block;width:100%;height:85vh;border:1px solid var(--faint);border-radius:8px}
)";
// Each frame becomes as high as what is in it, so that only the page scrolls; without script each scrolls by itself.
constexpr std::string_view book_script = R"(
const frames=[...document.querySelectorAll('iframe')];
const fit=f=>{
  const d=f.closest('section').hidden?null:f.contentDocument;
  if(d&&d.documentElement)f.style.height=Math.min(d.documentElement.scrollHeight+4,innerHeight*.9)+'px';
};
const fitAll=()=>frames.forEach(fit);
for(const f of frames)f.addEventListener('load',()=>fit(f));
addEventListener('resize',fitAll);
const items=connectionIndex(()=>{
  for(const li of items)document.querySelector(li.querySelector('a').getAttribute('href')).hidden=li.hidden;
  fitAll();
});
fitAll();
addEventListener('keydown',e=>{
  const find=document.querySelector('#index [type=search]');
  if(find&&e.key==='/'&&!/INPUT|SELECT/.test(document.activeElement.tagName)){e.preventDefault();find.focus()}
});
)";

}  // namespace

Picture to_picture(std::string_view file, const ConnectionReport& connection, const CapturePictureOptions& options) {
  return Filler(file, connection, options).fill();
}

std::string to_html(std::string_view title, const std::vector<Picture>& pictures, std::size_t left_out,
                    const Provenance* provenance) {
  if (pictures.size() == 1 && left_out == 0) return to_html(pictures.front(), provenance);
  const std::string name = html_escape(picture_words(title, false));
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n<title>{}</title>\n<style>{}{}</style>\n"
      "<script>document.documentElement.className='js'</script>\n</head>\n<body>\n<header>\n<h1>{}</h1>\n",
      name, book_style, index_style, name);
  std::string sections;
  std::vector<IndexEntry> index;
  for (const Picture& p : pictures) {
    const std::size_t number = index.size() + 1;
    const std::string heading = html_escape(picture_words(p.title, false));
    index.push_back({.href = fmt::format("#c{}", number), .where = p.subtitle, .number = number});
    if (!p.connections.empty()) {
      index.back().name = p.connections.front().name;
      index.back().result = p.connections.front().result;
      index.back().outcome = p.connections.front().outcome;
    }
    sections += fmt::format(
        "<section id=\"c{0}\">\n<h2>{0}. {1}</h2>\n<iframe title=\"{1}\" srcdoc=\"{2}\"></iframe>\n</section>\n",
        number, heading, html_escape(to_html(p)));
  }
  out += index_html(index);
  if (left_out > 0) out += fmt::format("<p class=\"dim\">{} more connections are left out.</p>\n", left_out);
  if (pictures.empty()) out += "<p class=\"dim\">No MPA connection is drawn.</p>\n";
  out += "</header>\n" + sections;
  if (provenance != nullptr) out += footer_html(*provenance);
  return out + fmt::format("<script>{}{}</script>\n</body>\n</html>\n", index_script, book_script);
}

}  // namespace parley::verdict
