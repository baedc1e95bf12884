// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "conform/core/report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/escape.hpp"
#include "base/text.hpp"
#include "draw/ladder_text.hpp"

namespace parley::conform {
namespace {

/// A cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

/// Replaces control characters, which a peer's octets may contain, and escapes HTML.
std::string escape(std::string_view text) {
  std::string plain(text);
  std::replace_if(
      plain.begin(), plain.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t'; },
      '?');
  return html_escape(plain);
}

std::string_view css_class(const Result& r, bool strict) {
  switch (r.finding.verdict) {
    case Verdict::pass: return "good";
    case Verdict::fail: return counts_as_failed(r, strict) ? "bad" : "warn";
    default: return "dim";
  }
}

std::string title_of(const ReportHead& head, Iut iut) {
  const std::string name = head.title.empty() ? fmt::format("{} conformance", head.transport) : head.title;
  return fmt::format("{} as {}", name, to_string(iut));
}

constexpr std::string_view partial = "The run was interrupted: these results are partial.";

constexpr std::string_view style = R"css(
:root{--bg:#fff;--fg:#1b1f24;--dim:#5d6670;--faint:#d7dce1;--raise:#f4f6f8;--bad:#c81e1e;--warn:#9a6200;--good:#19753a;--link:#0b57d0}
@media(prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e4e8ec;--dim:#99a3ae;--faint:#363c44;--raise:#1d2127;--bad:#ff7b72;
--warn:#e9b44c;--good:#62d48a;--link:#8ab4f8}}
*{box-sizing:border-box}html{color-scheme:light dark}
body{margin:0 auto;padding:20px 24px 48px;max-width:1300px;background:var(--bg);color:var(--fg);
font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
h1{font-size:22px;margin:0 0 4px}h2{font-size:16px;margin:28px 0 8px}a{color:var(--link)}p{margin:4px 0}
.dim{color:var(--dim)}.good{color:var(--good)}.bad{color:var(--bad)}.warn{color:var(--warn)}b.good,b.bad,b.warn,b.dim{white-space:nowrap}
table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:4px 10px 4px 0;
border-bottom:1px solid var(--faint);overflow-wrap:anywhere}
th{color:var(--dim);font-weight:600;white-space:nowrap;overflow-wrap:normal}
.scroll{overflow-x:auto}td.n{white-space:nowrap;overflow-wrap:normal}
details{border-bottom:1px solid var(--faint)}summary{padding:6px 2px;cursor:pointer;overflow-wrap:anywhere}
details>div{padding:2px 0 12px 18px}code,td.o{font:12px/1.5 ui-monospace,"Liberation Mono",monospace}
dl{display:grid;grid-template-columns:90px 1fr;gap:2px 12px;margin:4px 0 10px}dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}
pre{margin:8px 0 0;padding:8px 12px;background:var(--raise);border-radius:8px;white-space:pre-wrap;overflow-wrap:anywhere}
)css";

void exchange_rows(const Result& r, std::string& out) {
  for (const Exchange& e : r.exchanges) {
    const Duration since = e.at > r.began ? e.at - r.began : Duration{};
    out += fmt::format(
        "<tr><td class=n>{}</td><td class=n>{}</td><td class=n>{}</td><td>{}</td><td class=o>{}</td></tr>\n",
        milliseconds_text(since), e.connection, e.by_tester ? "tester" : "peer", escape(e.words),
        hex_text(e.octets, 96));
  }
}

}  // namespace

std::string verdict_text(const Result& r, bool strict) {
  if (r.finding.verdict != Verdict::fail) return std::string(to_string(r.finding.verdict));
  return counts_as_failed(r, strict) ? "FAIL" : fmt::format("FAIL ({})", to_string(r.what->level));
}

std::string tally_text(const Tally& t) {
  std::string out = fmt::format("{} passed, {} failed", t.passed, t.failed);
  if (t.should_failed > 0) out += fmt::format(", {} SHOULD not met", t.should_failed);
  if (t.may_failed > 0) out += fmt::format(", {} MAY not met", t.may_failed);
  return out + fmt::format(", {} inconclusive, {} not run", t.inconclusive, t.not_run);
}

std::string failures_text(const std::vector<Result>& results, bool strict) {
  std::string out;
  for (const Result& r : results) {
    if (r.finding.verdict != Verdict::fail) continue;
    out += fmt::format("{}{} {} ({}, {})\n  sent      {}\n  expected  {}\n  observed  {}\n", out.empty() ? "" : "\n",
                       verdict_text(r, strict), r.what->name, r.what->clause, to_string(r.what->level),
                       r.what->stimulus, r.what->expected, r.finding.observed);
  }
  return out;
}

std::string markdown(const ReportHead& head, Iut iut, const std::vector<Result>& results) {
  std::string out = fmt::format("# {}\n\n", title_of(head, iut));
  if (!head.command.empty()) out += fmt::format("Made by `{}`.\n\n", head.command);
  if (head.interrupted) out += fmt::format("{}\n\n", partial);
  out += fmt::format("{}.\n\n| row | case | clause | level | verdict | observed |\n|---|---|---|---|---|---|\n",
                     tally_text(tally(results, head.strict)));
  for (const Result& r : results)
    out += fmt::format("| {} | {} | {} | {} | {} | {} |\n", r.what->row, r.what->name, r.what->clause,
                       to_string(r.what->level), verdict_text(r, head.strict), cell(r.finding.observed));
  return out;
}

std::string case_table(std::string_view title, const std::vector<const Case*>& list) {
  std::string out = fmt::format(
      "### {}\n\n| row | case | clause | level | stimulus | expected |\n|---|---|---|---|---|---|\n", title);
  for (const Case* c : list)
    out += fmt::format("| {} | `{}`{} | {} | {} | {} | {} |\n", c->row, c->name, c->destructive ? " (destructive)" : "",
                       c->clause, to_string(c->level), cell(c->stimulus), cell(c->expected));
  return out;
}

std::string case_table() {
  return case_table("Responder under test", cases(Iut::responder)) + "\n" +
         case_table("Initiator under test", cases(Iut::initiator));
}

std::string html(const ReportHead& head, Iut iut, const std::vector<Result>& results) {
  const Tally t = tally(results, head.strict);
  const std::string title = title_of(head, iut);
  std::string out = fmt::format(
      "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">"
      "<title>{0}</title><style>{1}</style><h1>{0}</h1><p><b class={2}>{3}</b></p>\n",
      escape(title), style, t.failed > 0 ? "bad" : "good", tally_text(t));
  if (head.interrupted) out += fmt::format("<p><b class=bad>{}</b></p>\n", partial);
  if (!head.command.empty()) out += fmt::format("<p class=dim><code>{}</code></p>\n", escape(head.command));
  out +=
      "<h2>By clause</h2><div class=scroll><table><tr><th>row<th>case<th>clause<th>level<th>verdict<th>observed</tr>\n";
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Result& r = results[i];
    out += fmt::format(
        "<tr><td class=n>{}<td class=n><a href=#c{}>{}</a><td class=n>{}<td class=n>{}<td><b "
        "class={}>{}</b><td>{}</tr>\n",
        r.what->row, i, r.what->name, r.what->clause, to_string(r.what->level), css_class(r, head.strict),
        verdict_text(r, head.strict), escape(r.finding.observed));
  }
  out += "</table></div><h2>Exchanges</h2>\n";
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Result& r = results[i];
    if (r.finding.verdict == Verdict::not_run) {
      out += fmt::format("<p id=c{} class=dim>{}: not run, {}</p>\n", i, r.what->name, escape(r.finding.observed));
      continue;
    }
    out += fmt::format(
        "<details id=c{}{}><summary><b class={}>{}</b> {} <span class=dim>{}</span></summary><div>"
        "<dl><dt>stimulus<dd>{}<dt>expected<dd>{}<dt>observed<dd>{}</dl><div class=scroll><table>"
        "<tr><th>time<th>connection<th>by<th>what<th>octets</tr>\n",
        i, r.finding.verdict == Verdict::fail ? " open" : "", css_class(r, head.strict), verdict_text(r, head.strict),
        r.what->name, r.what->clause, escape(r.what->stimulus), escape(r.what->expected), escape(r.finding.observed));
    exchange_rows(r, out);
    out += "</table></div>";
    if (!r.output.empty()) out += fmt::format("<pre>{}</pre>", escape(r.output));
    out += "</div></details>\n";
  }
  if (head.provenance != nullptr) out += draw::footer_html(*head.provenance);
  return out + "</html>\n";
}

}  // namespace parley::conform
