// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What pages about nodes share: a drawing (svg.map), tables, and a search over all elements with data-node. The check box `only`
// leaves those with data-bad. draw::ladder_style has the colours.
#pragma once
#include <string_view>

namespace parley::tools {

inline constexpr std::string_view searchable_style = R"css(
table{border-collapse:collapse;font-size:13px;margin:2px 0 12px}
th,td{text-align:left;padding:2px 14px 2px 0;overflow-wrap:anywhere}th{color:var(--dim);font-weight:400}
tr.bad td,summary.bad{color:var(--bad)}td.why{font-weight:600}
svg.map{display:block;width:100%;height:auto;max-height:70vh;margin:14px 0}
svg.map line{stroke:var(--dim);stroke-width:1;opacity:.5}svg.map line.bad{stroke:var(--bad);stroke-width:2.5;opacity:1}
svg.map line.backup{stroke-dasharray:4 4}
svg.map rect{fill:var(--raise);stroke:var(--dim)}svg.map .bad rect{stroke:var(--bad);stroke-width:2.5}
svg.map text{font-size:11px;text-anchor:middle;fill:var(--fg)}svg.map a:focus-visible rect{stroke:var(--focus);stroke-width:3}
)css";

inline constexpr std::string_view searchable_script = R"js(
(()=>{'use strict';
document.documentElement.classList.add('js');
const find=document.querySelector('#find'),only=document.querySelector('#only'),told=document.querySelector('.tools output');
const parts=[...document.querySelectorAll('[data-node]')];
const pick=()=>{
  const words=find.value.toLowerCase().split(/\s+/).filter(Boolean);
  let n=0;
  for(const part of parts){
    const text=words.length?part.textContent.toLowerCase():'';
    part.hidden=(only.checked&&!('bad' in part.dataset))||words.some(w=>!text.includes(w));
    if(!part.hidden)n++;
  }
  told.textContent=n<parts.length?`${n} of ${parts.length} nodes`:'';
};
find.addEventListener('input',pick);only.addEventListener('input',pick);addEventListener('pageshow',pick);
const open=()=>{const at=document.querySelector(location.hash||'#none');if(at&&at.tagName==='DETAILS')at.open=true};
addEventListener('hashchange',open);open();
})();
)js";

}  // namespace parley::tools
