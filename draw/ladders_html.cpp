// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Several ladders in one page, each in a separate iframe.
#include <fmt/format.h>

#include "base/escape.hpp"
#include "draw/connection_index.hpp"
#include "draw/ladder.hpp"

namespace parley::draw {
namespace {

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
// With the script, each iframe is as high as its content, at most 90 % of the window. Without it, each has a fixed
// height.
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

std::string to_html(std::string_view title, const std::vector<Ladder>& ladders, std::size_t left_out,
                    const Provenance* provenance) {
  if (ladders.size() == 1 && left_out == 0) return to_html(ladders.front(), provenance);
  const std::string name = html_text(title);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n<title>{}</title>\n<style>{}{}</style>\n"
      "<script>document.documentElement.className='js'</script>\n</head>\n<body>\n<header>\n<h1>{}</h1>\n",
      name, book_style, index_style, name);
  std::string sections;
  std::vector<IndexEntry> index;
  for (const Ladder& p : ladders) {
    const std::size_t number = index.size() + 1;
    const std::string heading = html_text(p.title);
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
  if (ladders.empty()) out += "<p class=\"dim\">No connection is drawn.</p>\n";
  out += "</header>\n" + sections;
  if (provenance != nullptr) out += footer_html(*provenance);
  return out + fmt::format("<script>{}{}</script>\n</body>\n</html>\n", index_script, book_script);
}

}  // namespace parley::draw
