// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The matrix as one page without script. A cell links to its connections, which are below the table and are displayed
// when they are the target. Radio buttons hide the rows and connections of other verdicts, and dim the cells. Dark and
// light follow the system; on a phone the table scrolls sideways under its first column.
#include <fmt/format.h>

#include <algorithm>

#include "base/escape.hpp"
#include "base/text.hpp"
#include "capture/report/matrix.hpp"
#include "capture/report/text.hpp"
#include "draw/ladder_text.hpp"

namespace parley::capture {
namespace {

constexpr std::string_view style = R"css(
:root{--bg:#fff;--fg:#1b1f24;--dim:#5d6670;--faint:#d7dce1;--raise:#f4f6f8;--focus:#0b57d0;
--fail:#b91c1c;--failbg:#fdecec;--partial:#8a5800;--partialbg:#fdf3dc;--pass:#19753a;--passbg:#e6f4ea}
@media(prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e4e8ec;--dim:#99a3ae;--faint:#363c44;--raise:#1d2127;
--focus:#8ab4f8;--fail:#ff8f87;--failbg:#3a1d1f;--partial:#e9b44c;--partialbg:#33290f;--pass:#62d48a;--passbg:#15301f}}
*{box-sizing:border-box}html{color-scheme:light dark}
body{margin:0;padding:20px 24px 48px;background:var(--bg);color:var(--fg);max-width:1500px;margin-inline:auto;
font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
h1{font-size:22px;margin:0;overflow-wrap:anywhere}h2{font-size:16px;margin:32px 0 8px;overflow-wrap:anywhere}
a{color:var(--focus)}a:focus-visible,summary:focus-visible{outline:2px solid var(--focus);outline-offset:2px}
.sub{color:var(--dim);margin:4px 0 0}
.scroll{overflow-x:auto;margin:18px -24px 0;padding:0 24px 8px}
table{border-collapse:separate;border-spacing:4px}
th{font-weight:600;text-align:left;vertical-align:bottom;padding:4px 8px}
thead th{font-size:12px;font-weight:500;color:var(--dim);min-width:104px;max-width:150px}
tbody th{position:sticky;left:0;background:var(--bg);z-index:1;max-width:230px;overflow-wrap:anywhere;vertical-align:middle}
tbody th span{display:block;color:var(--dim);font-weight:400;font-size:12px}
td{padding:0;height:1px}td.none{color:var(--dim);text-align:center}
td a{display:block;height:100%;min-height:44px;padding:6px 10px;border-radius:8px;text-decoration:none;
font-variant-numeric:tabular-nums;border:1px solid transparent;color:var(--c);background:var(--b)}
td a:hover{border-color:var(--c)}td a b{display:block}td a small{display:block}
.failed{--c:var(--fail);--b:var(--failbg)}.partial{--c:var(--partial);--b:var(--partialbg)}.passed{--c:var(--pass);--b:var(--passbg)}
td.whole{padding:10px;border-radius:8px;color:var(--c);background:var(--b)}
section.cell{display:none;margin-top:20px;border-top:2px solid var(--faint)}section.cell:target{display:block}
article{border-left:4px solid var(--c);padding:2px 0 2px 14px;margin:0 0 18px}
article h3{font-size:14px;margin:0;overflow-wrap:anywhere}article h3 b{color:var(--c)}
article p{margin:2px 0;color:var(--dim);overflow-wrap:anywhere}
ul{margin:6px 0;padding-left:18px}li{overflow-wrap:anywhere;margin:3px 0}li b{font-variant-numeric:tabular-nums}
li.error b{color:var(--fail)}li.warning b{color:var(--partial)}li.note{color:var(--dim)}li i{font-style:normal;color:var(--dim)}
summary{cursor:pointer;padding:8px 0}
pre{overflow-x:auto;margin:0;padding:10px 12px;background:var(--raise);border-radius:8px;
font:12px/1.4 ui-monospace,"DejaVu Sans Mono","Liberation Mono",monospace}
.back{display:inline-block;padding:10px 0}
fieldset{border:0;margin:14px 0 0;padding:0;display:flex;flex-wrap:wrap;gap:4px 18px}legend{float:left;padding:10px 0;color:var(--dim)}
fieldset label{padding:10px 0;cursor:pointer}
body:has(#only-failed:checked) :is(tbody tr:not(.has-failed),article:not(.failed)),
body:has(#only-partial:checked) :is(tbody tr:not(.has-partial),article:not(.partial)),
body:has(#only-passed:checked) :is(tbody tr:not(.has-passed),article:not(.passed)){display:none}
body:has(#only-failed:checked) td:not(.has-failed) a,body:has(#only-partial:checked) td:not(.has-partial) a,
body:has(#only-passed:checked) td:not(.has-passed) a{--c:var(--dim);--b:none}
@media(max-width:640px){body{padding:14px 12px 40px}.scroll{margin:14px -12px 0;padding:0 12px 8px}
tbody th{max-width:118px;font-size:13px}thead th{min-width:92px}}
@media print{section.cell{display:block}.back{display:none}}
)css";

/// Escapes the lines of a ladder one by one, because html_text() would join them.
std::string html_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    out += html_text(text.substr(0, end)) + "\n";
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return out;
}

std::string article(const MatrixEntry& c) {
  std::string out = fmt::format("<article class=\"{0}\"><h3><b>{0}</b> {1}, frames {2} to {3}</h3>\n",
                                to_string(c.judgement.standing), html_text(c.file), c.first_frame, c.last_frame);
  if (!c.judgement.why.empty()) out += fmt::format("<p>{}</p>\n", html_text(c.judgement.why));
  out += fmt::format("<p>{} &rarr; {}, {}; {}</p>\n", html_text(c.ends[0]), html_text(c.ends[1]), to_string(c.outcome),
                     html_text(c.end));
  if (!c.findings.empty()) out += "<ul>\n";
  for (const Finding& f : c.findings) {
    const std::string where =
        f.frame == 0 ? std::string(to_string(f.severity)) : fmt::format("{}, frame {}", to_string(f.severity), f.frame);
    out += fmt::format("<li class=\"{}\"><b>{}</b> {}{}</li>\n", to_string(f.severity), where, html_text(f.text),
                       f.rule.empty() ? "" : fmt::format(" <i>{}</i>", html_text(f.cited().substr(1))));
  }
  if (!c.findings.empty()) out += "</ul>\n";
  if (!c.ladder.empty())
    out += fmt::format("<details><summary>ladder</summary><pre>{}</pre></details>\n", html_lines(c.ladder));
  return out + "</article>\n";
}

constexpr std::size_t passed_articles_max = 200;  // passed connections shown for one cell; the CSV lists the others

/// The classes for the filter: " has-failed has-passed".
std::string filter_classes(const StandingCounts& counts) {
  std::string out;
  for (const Standing v : {Standing::failed, Standing::partial, Standing::passed})
    if (counts[v] > 0) out += fmt::format(" has-{}", to_string(v));
  return out;
}

std::string filter(const StandingCounts& counts) {
  std::string out =
      "<fieldset><legend>show</legend><label><input type=\"radio\" name=\"only\" id=\"only-all\" checked> all</label>";
  for (const Standing v : {Standing::failed, Standing::partial, Standing::passed})
    out += fmt::format("<label><input type=\"radio\" name=\"only\" id=\"only-{0}\"{2}> {0} ({1})</label>", to_string(v),
                       counts[v], counts[v] == 0 ? " disabled" : "");
  return out + "</fieldset>\n";
}

/// The connections of a cell: failed, then partial, then passed.
std::string articles(const Matrix& m, const Matrix::Cell& cell) {
  std::string out;
  std::uint64_t shown = 0, passed = 0;
  for (const Standing v : {Standing::failed, Standing::partial, Standing::passed})
    for (const std::size_t i : cell.entries) {
      const MatrixEntry& e = m.entries[i];
      if (e.judgement.standing != v || (v == Standing::passed && ++passed > passed_articles_max)) continue;
      out += article(e);
      ++shown;
    }
  if (const std::uint64_t more = cell.counts.all() - shown; more > 0)
    out += fmt::format("<p class=\"sub\">{} of this cell {} counted and not shown here.</p>\n",
                       counted(more, "more connection"), more == 1 ? "is" : "are");
  return out;
}

std::string cell_html(const Matrix::Cell& cell, std::size_t number) {
  const std::string_view verdict = to_string(cell.counts.worst());
  std::string counts;
  for (const Standing v : {Standing::failed, Standing::partial, Standing::passed})
    if (const std::uint64_t k = cell.counts[v]; k > 0 && k < cell.counts.all())
      counts += fmt::format("<small>{} {}</small>", k, to_string(v));
  return fmt::format("<td class=\"{0}{4}\"><a href=\"#c{1}\"><b>{0}</b><small>{2}</small>{3}</a></td>", verdict, number,
                     counted(cell.counts.all(), "connection"), counts, filter_classes(cell.counts));
}

StandingCounts row_counts(const Matrix::Row& row) {
  StandingCounts out;
  for (const auto& [form, cell] : row) out.add(cell.counts);
  return out;
}

/// The rows by worst verdict: failed, then partial, then passed; otherwise in their order.
std::vector<const std::pair<const Matrix::Pair, Matrix::Row>*> rows_by_verdict(const Matrix& m) {
  std::vector<const std::pair<const Matrix::Pair, Matrix::Row>*> out;
  out.reserve(m.cells.size());
  for (const auto& row : m.cells) out.push_back(&row);
  std::stable_sort(out.begin(), out.end(), [](const auto* a, const auto* b) {
    return row_counts(a->second).worst() > row_counts(b->second).worst();
  });
  return out;
}

}  // namespace

std::string to_html(const Matrix& m, std::string_view title, const draw::Provenance* provenance) {
  const auto forms = m.forms();
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<h1>{}</h1>\n",
      html_text(title), style, html_text(title));
  out += fmt::format(
      "<p class=\"sub\">{}, {}: {} passed, {} partial, {} failed. A row is who began with whom, a column "
      "how they set up; choose a cell to see its connections.</p>\n",
      counted(m.files.size(), "file"), counted(m.counts.all(), "connection"), m.counts[Standing::passed],
      m.counts[Standing::partial], m.counts[Standing::failed]);
  if (m.not_in_a_cell > 0)
    out += fmt::format("<p class=\"sub\">{} of them are not in the table: it has {} cells at most.</p>\n",
                       counted(m.not_in_a_cell, "connection"), Matrix::cells_max);
  out += filter(m.counts);
  out += "<div class=\"scroll\" id=\"matrix\"><table>\n<thead><tr><th>initiator &rarr; responder</th>";
  for (const std::string& f : forms) out += fmt::format("<th scope=\"col\">{}</th>", html_text(f));
  out += "</tr></thead>\n<tbody>\n";
  std::string sections;
  std::size_t number = 0;
  for (const auto* of_row : rows_by_verdict(m)) {
    const auto& [pair, row] = *of_row;
    out += fmt::format("<tr class=\"{}\"><th scope=\"row\">{}<span>&rarr; {}</span></th>",
                       filter_classes(row_counts(row)).substr(1), html_text(pair.first), html_text(pair.second));
    for (const std::string& f : forms) {
      const auto it = row.find(f);
      if (it == row.end()) {
        out += "<td class=\"none\">not seen</td>";
        continue;
      }
      out += cell_html(it->second, ++number);
      sections += fmt::format("<section class=\"cell\" id=\"c{}\"><h2>{} &rarr; {}: {}</h2>\n", number,
                              html_text(pair.first), html_text(pair.second), html_text(f));
      sections += articles(m, it->second) + "<a class=\"back\" href=\"#matrix\">back to the matrix</a></section>\n";
    }
    out += "</tr>\n";
  }
  for (const MatrixFile& f : m.files)
    if (!f.shortfall.empty())
      out += fmt::format(
          "<tr class=\"has-failed\"><th scope=\"row\">{}</th><td class=\"whole failed\" colspan=\"{}\"><b>failed</b> "
          "{}</td></tr>\n",
          html_text(f.file), std::max<std::size_t>(forms.size(), 1), html_text(f.shortfall));
  out += "</tbody></table></div>\n" + sections;
  std::string unread;
  for (const MatrixFile& f : m.files)
    if (!f.error.empty()) unread += fmt::format("<li>{}: {}</li>\n", html_text(f.file), html_text(f.error));
  if (!unread.empty()) out += "<h2>Not read, or not to the end</h2>\n<ul>" + unread + "</ul>\n";
  if (provenance != nullptr) out += draw::footer_html(*provenance);
  return out + "</body>\n</html>\n";
}

}  // namespace parley::capture
