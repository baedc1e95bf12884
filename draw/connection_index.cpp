// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "draw/connection_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/escape.hpp"
#include "draw/ladder_text.hpp"

namespace parley::draw {
namespace {

std::string_view first_word(std::string_view text) { return text.substr(0, text.find(':')); }

using Counts = std::vector<std::pair<std::string_view, std::size_t>>;

void count(Counts& counts, std::string_view word) {
  const auto at = std::find_if(counts.begin(), counts.end(), [&](const auto& known) { return known.first == word; });
  if (at == counts.end())
    counts.emplace_back(word, 1);
  else
    ++at->second;
}

}  // namespace

const std::string_view index_style = R"css(
#index{margin:18px 0 0}#index h2{margin:0 0 6px;font-size:16px}
#index form{display:none;flex-wrap:wrap;gap:6px 8px;align-items:center;margin:0 0 8px}.js #index form{display:flex}
#index label{display:inline-flex;gap:5px;align-items:center;padding:3px 10px 3px 8px;border:1px solid var(--faint);
border-radius:99px;cursor:pointer;font-size:13px;user-select:none}
#index input[type=checkbox]{margin:0}
#index input[type=search],#index select,#index button{font:inherit;font-size:14px;padding:4px 10px;border:1px solid var(--faint);
border-radius:8px;background:var(--raise);color:inherit;max-width:100%}
#index input[type=search]{width:260px}
#index label:has(:focus-visible),#index :is(input[type=search],select,button,a):focus-visible{outline:2px solid var(--focus);outline-offset:1px}
#index output{color:var(--dim);font-size:13px}
#index ol{margin:0;padding:0 0 0 44px;max-height:40vh;overflow:auto}#index li{margin:2px 0;overflow-wrap:anywhere}
#index a{color:inherit}#index a[aria-current]{font-weight:700;text-decoration-thickness:3px}
#index small{color:var(--dim);font-size:12px}
#index .good{color:var(--good)}#index .bad{color:var(--bad)}#index .warn{color:var(--warn)}
@media print{#index form{display:none!important}#index ol{max-height:none}}
)css";

const std::string_view index_script = R"js(
function connectionIndex(changed){
  const box=document.querySelector('#index');
  if(!box)return [];
  const items=[...box.querySelectorAll('li')],form=box.querySelector('form'),words=form.querySelector('[type=search]');
  const outcome=form.querySelector('select');
  const pick=()=>{
    const off=new Set([...form.querySelectorAll('[data-result]')].filter(c=>!c.checked).map(c=>c.dataset.result));
    const find=words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let n=0;
    for(const li of items){
      const text=find.length?li.textContent.toLowerCase():'';
      li.hidden=off.has(li.dataset.result)||(outcome&&outcome.value&&outcome.value!==li.dataset.outcome)||
        find.some(w=>!text.includes(w));
      if(!li.hidden)n++;
    }
    form.querySelector('output').textContent=n<items.length?`${n} of ${items.length} connections`:'';
    changed();
  };
  form.addEventListener('submit',e=>e.preventDefault());
  form.addEventListener('input',pick);
  box.addEventListener('keydown',e=>{
    const step=e.key==='ArrowDown'?1:e.key==='ArrowUp'?-1:0;
    if(!step||!e.target.closest('ol'))return;
    const links=items.filter(li=>!li.hidden).map(li=>li.querySelector('a')).filter(Boolean);
    const next=links[links.indexOf(e.target)+step];
    if(next){e.preventDefault();next.focus()}
  });
  // A browser that comes back to the page keeps what was chosen before.
  addEventListener('pageshow',pick);
  return items;
}
)js";

std::string index_html(const std::vector<IndexEntry>& entries) {
  if (entries.size() < 2) return {};
  Counts results, outcomes;
  for (const IndexEntry& e : entries) {
    count(results, first_word(e.result));
    count(outcomes, e.outcome);
  }
  std::string out = "<nav id=\"index\" aria-label=\"connections\">\n<h2>Connections</h2>\n<form>";
  for (const auto& [word, n] : results)
    out += fmt::format(
        "<label><input type=\"checkbox\" data-result=\"{0}\" checked><span class=\"{1}\">{0}</span> "
        "<small>{2}</small></label>",
        html_text(word), result_class(word), n);
  if (outcomes.size() > 1) {
    out += "<select aria-label=\"outcome\"><option value=\"\">any outcome</option>";
    for (const auto& [word, n] : outcomes)
      out += fmt::format("<option value=\"{0}\">{0} ({1})</option>", html_text(word), n);
    out += "</select>";
  }
  out +=
      "<input type=\"search\" placeholder=\"find: an address, a word ...\" aria-label=\"find a connection\">"
      "<button type=\"button\" hidden>all connections</button><output></output></form>\n<ol>\n";
  for (const IndexEntry& e : entries) {
    out += fmt::format("<li value=\"{}\" data-result=\"{}\" data-outcome=\"{}\">", e.number,
                       html_text(first_word(e.result)), html_text(e.outcome));
    out += e.href.empty() ? html_text(e.name) : fmt::format("<a href=\"{}\">{}</a>", e.href, html_text(e.name));
    if (!e.where.empty()) out += fmt::format(" <small>{}</small>", html_text(e.where));
    out += fmt::format(" {}, <span class=\"{}\">{}</span></li>\n", html_text(e.outcome), result_class(e.result),
                       html_text(e.result));
  }
  return out + "</ol>\n</nav>\n";
}

}  // namespace parley::draw
