// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "draw/ladder_page.hpp"

namespace parley::draw {

const std::string_view ladder_style = R"css(
:root{--bg:#fff;--fg:#1b1f24;--dim:#5d6670;--faint:#d7dce1;--raise:#f4f6f8;--hit:#e8effa;--focus:#0b57d0;
--arp:#6b7280;--nd:#0f766e;--tcp:#1d5fa8;--ack:#656e78;--mpa:#8a2fb0;--rdmap:#19753a;--terminate:#c2410c;--other:#5d6670;
--bad:#c81e1e;--badbg:#fdecec;--warn:#9a6200;--warnbg:#fdf3dc;--good:#19753a;--gutter:78px}
@media(prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e4e8ec;--dim:#99a3ae;--faint:#363c44;--raise:#1d2127;
--hit:#22303f;--focus:#8ab4f8;--arp:#a0a8b3;--nd:#4fd1c0;--tcp:#7ab8ff;--ack:#87919c;--mpa:#dc8cff;--rdmap:#62d48a;
--terminate:#ff9d66;--other:#99a3ae;--bad:#ff7b72;--badbg:#3a1d1f;--warn:#e9b44c;--warnbg:#33290f;--good:#62d48a}}
*{box-sizing:border-box}
html{color-scheme:light dark;scroll-padding-top:64px}
body{margin:0;padding:20px 24px 48px;background:var(--bg);color:var(--fg);
font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif;max-width:1500px;margin-inline:auto}
h1{font-size:22px;margin:0;overflow-wrap:anywhere}h2{font-size:16px;margin:32px 0 8px}
a{color:var(--focus)}
.top{display:flex;flex-wrap:wrap;gap:4px 12px;align-items:center}
.badge{font-weight:700;font-size:12px;padding:2px 10px;border-radius:99px;border:1.5px solid;letter-spacing:.02em}
.badge.good{color:var(--good)}.badge.bad{color:var(--bad);background:var(--badbg)}.badge.warn{color:var(--warn);background:var(--warnbg)}
.sub{color:var(--dim);margin:2px 0 0}
.facts{display:flex;flex-wrap:wrap;gap:6px 28px;margin:14px 0 0}
.facts div{min-width:0}.facts dt{font-size:12px;color:var(--dim)}
.facts dd{margin:0;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.broken{margin:16px 0 0;padding:10px 14px;background:var(--badbg);border-radius:8px;border-left:4px solid var(--bad)}
.doubts{margin:16px 0 0;padding:10px 14px;background:var(--warnbg);border-radius:8px;border-left:4px solid var(--warn)}
.broken ul,.doubts ul{margin:4px 0 0;padding-left:18px}.broken li,.doubts li{overflow-wrap:anywhere}.broken a,.doubts a{color:inherit}
.tools{display:none;flex-wrap:wrap;gap:6px 8px;align-items:center;margin:18px 0 0}
.js .tools{display:flex}
.tools label{display:inline-flex;gap:5px;align-items:center;padding:3px 10px 3px 8px;border:1px solid var(--faint);
border-radius:99px;cursor:pointer;font-size:13px;user-select:none}
.tools label:has(:focus-visible),.tools input[type=search]:focus-visible{outline:2px solid var(--focus);outline-offset:1px}
.tools input[type=checkbox]{margin:0;accent-color:currentcolor}
.tools input[type=search]{font:inherit;font-size:14px;padding:4px 10px;border:1px solid var(--faint);border-radius:8px;
background:var(--raise);color:inherit;width:200px;max-width:100%}
.tools output{color:var(--dim);font-size:13px}
.legend{color:var(--dim);font-size:13px;margin:10px 0 0}.legend i{font-style:normal;margin-right:14px}
.ladder{margin:14px 0 0;container-type:inline-size}
.inner{padding-left:var(--gutter)}
.hosts{position:sticky;top:0;z-index:2;height:48px;background:var(--bg);border-bottom:1px solid var(--faint);
margin-left:calc(-1*var(--gutter))}
.hosts span{position:absolute;top:4px;transform:translateX(-50%);text-align:center;white-space:nowrap;max-width:var(--most);
overflow:hidden;text-overflow:ellipsis;line-height:1.3}
.hosts span:first-child{transform:none;text-align:left}.hosts span:last-child:not(:first-child){transform:translateX(-100%);text-align:right}
.hosts b{font-size:15px}.hosts small{display:block;color:var(--dim);font-size:12px}
svg.wires{display:block;width:100%;overflow:visible}
.life{stroke:var(--faint);stroke-width:2}.down{stroke:var(--bg);stroke-width:4}
.downdots{stroke:var(--bad);stroke-width:2;stroke-dasharray:2 6;opacity:.7}
.r{cursor:pointer;text-decoration:none;outline:none}.r text{font-size:13px;fill:var(--fg)}
.r .hit{fill:transparent;x:calc(-1*var(--gutter));width:calc(100% + var(--gutter))}.r:hover .hit,.r.on .hit{fill:var(--hit)}
.r:focus-visible .hit{fill:var(--hit);stroke:var(--focus);stroke-width:2}
.r .w{stroke-width:1.8;stroke:var(--c);fill:none}.r.again .w{stroke-dasharray:6 5}.r.ack .w{stroke-width:1.3}
.r .l{text-anchor:middle;font-weight:650;fill:var(--c);paint-order:stroke;stroke:var(--bg);stroke-width:5px;stroke-linejoin:round}
.r:hover .l,.r.on .l,.r:focus-visible .l,.r:hover .y,.r.on .y,.r:focus-visible .y{stroke:var(--hit)}
.r .l.s,.r .y.s{text-anchor:start}.r .l.e,.r .y.e{text-anchor:end}
.r .d{font-weight:400;fill:var(--fg)}.w2,.w3,.w4{display:none}
.r .t{text-anchor:end;fill:var(--dim);font-size:12px;font-variant-numeric:tabular-nums}
.r .y{text-anchor:middle;font-size:12px;fill:var(--warn);paint-order:stroke;stroke:var(--bg);stroke-width:4px}
.r.lost .y,.r.thrown .y{fill:var(--bad);font-weight:600}
.r.lost .l,.r.thrown .l{fill:var(--c)}
.arp{--c:var(--arp)}.nd{--c:var(--nd)}.tcp{--c:var(--tcp)}.ack{--c:var(--ack)}.mpa{--c:var(--mpa)}.rdmap{--c:var(--rdmap)}
.terminate{--c:var(--terminate)}.other{--c:var(--other)}.note,.warning{--c:var(--warn)}.crash,.violation{--c:var(--bad)}
.r.ack .l{font-weight:400}.r.note .m{fill:var(--c);stroke:var(--bg);stroke-width:2}
.r.violation .box{fill:var(--badbg);stroke:var(--bad)}.r.warning .box{fill:var(--warnbg);stroke:var(--warn)}
.r.violation .l,.r.warning .l{stroke:none}.r.violation .d,.r.warning .d{fill:var(--fg)}
.head{fill:var(--c)}.cross{stroke:var(--bad);stroke-width:2.4;fill:none}
.gap text{text-anchor:middle;font-size:12px;fill:var(--dim);paint-order:stroke;stroke:var(--bg);stroke-width:8px}
.gap line{stroke:var(--faint);stroke-dasharray:1 5;stroke-width:2;stroke-linecap:round}
.gone{display:none}
#panel{position:fixed;z-index:5;right:0;top:0;bottom:0;width:380px;overflow:auto;background:var(--raise);
border-left:1px solid var(--faint);padding:18px 20px}
#panel[hidden]{display:none}
#panel h2{margin:0 36px 2px 0;color:var(--c,inherit);overflow-wrap:anywhere}#panel .sub{overflow-wrap:anywhere}
#panel h3{font-size:13px;margin:16px 0 4px;padding-bottom:2px;border-bottom:1px solid var(--faint)}
#panel dl{margin:0;display:grid;grid-template-columns:minmax(90px,40%) 1fr;gap:2px 12px;font-size:13px}
#panel dt{color:var(--dim)}#panel dd{margin:0;overflow-wrap:anywhere;font-family:ui-monospace,"Liberation Mono",monospace;font-size:12px;line-height:1.6}
#panel button{position:absolute;right:10px;top:12px;font:inherit;font-size:20px;line-height:1;width:34px;height:34px;border:0;
border-radius:8px;background:none;color:inherit;cursor:pointer}#panel button:hover{background:var(--hit)}
#panel p.why{margin:8px 0 0;color:var(--bad);font-weight:600;overflow-wrap:anywhere}
details{border-bottom:1px solid var(--faint)}summary{padding:5px 2px;cursor:pointer;overflow-wrap:anywhere}
summary time{color:var(--dim);font-variant-numeric:tabular-nums}summary b{color:var(--c,inherit)}
pre{margin:0 0 10px;padding:10px 12px;background:var(--raise);border-radius:8px;white-space:pre-wrap;overflow-wrap:anywhere;
font:12px/1.5 ui-monospace,"Liberation Mono",monospace}
#frames{content-visibility:auto;contain-intrinsic-size:auto 600px}
@container(min-width:560px){.w2{display:inline}}
@container(min-width:800px){.w3{display:inline}}
@container(min-width:1040px){.w4{display:inline}}
@media(min-width:1000px){body.open{padding-right:404px}}
@media(max-width:640px){body{padding:14px 12px 40px}.tools input[type=search]{flex:1;min-width:180px}:root{--gutter:62px}.r text{font-size:12px}.r .t{font-size:11px}
.r .y{font-size:11px}.facts{gap:6px 20px}
#panel{left:0;top:auto;width:auto;max-height:56vh;border-left:0;border-top:1px solid var(--faint);border-radius:14px 14px 0 0;
box-shadow:0 -6px 24px #0005}body.open{padding-bottom:58vh}}
.many{overflow:auto;max-height:92vh}
@media(prefers-reduced-motion:no-preference){html{scroll-behavior:smooth}}
@media print{.tools,#panel{display:none!important}.hosts{position:static}}
)css";

const std::string_view ladder_script = R"js(
(()=>{'use strict';
const $=s=>document.querySelector(s),all=s=>[...document.querySelectorAll(s)];
const wires=$('svg.wires'),panel=$('#panel');
if(!wires||!panel)return;
const rows=all('svg.wires .r'),gaps=all('svg.wires .gap'),downs=all('svg.wires [data-u]');
const LINE=+wires.dataset.line,SLANT=+wires.dataset.slant,STEP=+wires.dataset.step;
const shown=()=>rows.filter(r=>!r.classList.contains('gone'));
// The same layout as the page was written with, for those rows that the filter leaves.
function layout(){
  const events=[];
  for(const r of [...rows,...gaps]){
    if(r.classList.contains('gone'))continue;
    events.push([+r.dataset.s,r,0]);
    if(r.dataset.e)events.push([+r.dataset.e,r,1]);
  }
  events.sort((a,b)=>a[0]-b[0]);
  const at=new Map();let y=6,last=null;
  for(const [k,r,arrival] of events){
    if(!arrival){at.set(k,y);r.setAttribute('transform',`translate(0,${y})`);y+=+r.dataset.h;last=r;continue}
    const top=at.get(+r.dataset.s);let tip=top+LINE+SLANT;
    if(last!==r){y+=STEP;tip=y-4;last=null}
    at.set(k,tip);
    for(const w of r.querySelectorAll('.w'))w.setAttribute('y2',tip-top);
  }
  wires.setAttribute('height',y+10);
  const place=k=>{let best=0;for(const [s,v] of at)if(s<=k&&v>best)best=v;return best};
  for(const d of downs){d.setAttribute('y1',place(+d.dataset.s)+14);d.setAttribute('y2',d.dataset.u==='end'?y+10:place(+d.dataset.u)+14)}
}
function filter(){
  const off=new Set(all('.tools [data-layer]').filter(c=>!c.checked).map(c=>c.dataset.layer));
  const words=$('#find').value.toLowerCase().split(/\s+/).filter(Boolean),only=$('#only').checked;
  const open=new Set(items.filter(li=>!li.hidden).map(li=>li.value));
  let n=0;
  for(const r of rows){
    const c=r.dataset.c===undefined?-1:+r.dataset.c;
    const other=c>=0&&(chosen?c!==chosen:c>0&&!open.has(c));
    const text=words.length?(r.textContent+' '+fields(r)).toLowerCase():'';
    const hide=other||off.has(r.dataset.layer)||(only&&!r.dataset.f)||words.some(w=>!text.includes(w));
    r.classList.toggle('gone',hide);if(!hide)n++;
  }
  const some=n<rows.length;
  for(const g of gaps)g.classList.toggle('gone',some);
  $('#count').textContent=some?`${n} of ${rows.length} rows`:'';
  layout();
}
// The index of connections: a link there leaves the rows of its connection, and pressed again all of them.
let chosen=0;
const items=connectionIndex(filter);
function choose(number){
  chosen=number;
  for(const li of items){const a=li.querySelector('a');if(a){if(li.value===chosen)a.setAttribute('aria-current','true');else a.removeAttribute('aria-current')}}
  $('#index button').hidden=!chosen;
  filter();
}
for(const li of items){
  const a=li.querySelector('a');
  if(a)a.addEventListener('click',e=>{e.preventDefault();choose(chosen===li.value?0:li.value)});
}
if(items.length)$('#index button').addEventListener('click',()=>{choose(0);$('#index [type=search]').focus()});
const fields=r=>{const p=document.getElementById(r.getAttribute('href').slice(1));return p?p.textContent:''};
function make(name,text,parent){const e=document.createElement(name);e.textContent=text;parent.append(e);return e}
function show(r){
  for(const o of all('.r.on'))o.classList.remove('on');
  r.classList.add('on');
  const body=$('#about');body.textContent='';
  const source=document.getElementById(r.getAttribute('href').slice(1));
  const h=make('h2',r.dataset.name,body);h.style.setProperty('--c',getComputedStyle(r).getPropertyValue('--c'));
  if(r.dataset.more)make('p',r.dataset.more,body).className='sub';
  make('p',r.dataset.way,body).className='sub';
  if(r.dataset.why)make('p',r.dataset.why,body).className='why';
  let list=null;
  for(const line of (source?source.textContent:'').split('\n')){
    if(!line)continue;
    if(!line.startsWith('  ')){make('h3',line,body);list=null;continue}
    if(!list)list=make('dl','',body);
    const i=line.indexOf(': ');
    make('dt',line.slice(2,i),list);make('dd',line.slice(i+2),list);
  }
  panel.hidden=false;panel.scrollTop=0;document.body.classList.add('open');
  // On a phone the panel covers the lower half: the row stays above it.
  const edge=panel.getBoundingClientRect(),box=r.getBoundingClientRect();
  if(edge.top>0&&box.bottom>edge.top)scrollBy({top:box.bottom-edge.top+12,behavior:'instant'});
}
function hide(){
  panel.hidden=true;document.body.classList.remove('open');
  const r=$('.r.on');if(r){r.classList.remove('on');r.focus({preventScroll:true})}
}
for(const r of rows)r.addEventListener('click',e=>{e.preventDefault();show(r)});
for(const a of all('.broken a,.doubts a'))a.addEventListener('click',e=>{
  const r=document.querySelector(a.getAttribute('href'));
  if(r){e.preventDefault();r.scrollIntoView({block:'center'});r.focus({preventScroll:true});show(r)}});
$('#close').addEventListener('click',hide);
document.addEventListener('keydown',e=>{
  if(e.key==='Escape'&&!panel.hidden){hide();return}
  const r=document.activeElement&&document.activeElement.closest&&document.activeElement.closest('.r');
  if(e.key==='/'&&!/INPUT/.test(document.activeElement.tagName)){e.preventDefault();$('#find').focus();return}
  if(!r||(e.key!=='ArrowDown'&&e.key!=='ArrowUp'))return;
  const seen=shown(),next=seen[seen.indexOf(r)+(e.key==='ArrowDown'?1:-1)];
  if(!next)return;
  e.preventDefault();next.focus();if(!panel.hidden)show(next);
});
$('.tools').addEventListener('submit',e=>e.preventDefault());
$('.tools').addEventListener('input',filter);
})();
)js";

}  // namespace parley::draw
