// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/report/matrix.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/escape.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "capture/report/csv.hpp"
#include "capture/report/text.hpp"
#include "draw/ladder_text.hpp"

namespace parley::capture {
namespace {

constexpr std::size_t listed_max = 40;  // failures below the text table; the page and the CSV have the others

std::string_view trim(std::string_view s) {
  const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!s.empty() && space(s.front())) s.remove_prefix(1);
  while (!s.empty() && space(s.back())) s.remove_suffix(1);
  return s;
}

std::string_view unquote(std::string_view s) {
  return s.size() >= 2 && s.front() == '"' && s.back() == '"' ? s.substr(1, s.size() - 2) : s;
}

std::string counts_of(const Matrix::Cell& cell) {
  std::string out;
  for (const Standing v : {Standing::failed, Standing::partial, Standing::passed})
    if (const std::uint64_t k = cell.counts[v]; k > 0)
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", k, to_string(v));
  return out;
}

std::string pad(std::string text, std::size_t width) {
  const std::size_t n = columns(text);
  if (n < width) text.append(width - n, ' ');
  return text;
}

/// The first finding of the highest severity above note; null if there is none.
const Finding* gravest(const MatrixEntry& c) {
  const Finding* found = nullptr;
  for (const Finding& f : c.findings)
    if (f.severity != Severity::note && (found == nullptr || f.severity > found->severity)) found = &f;
  return found;
}

/// A line for each failed connection, with the reason; at most listed_max.
std::string failures_text(const Matrix& m, std::size_t width) {
  std::string out;
  std::size_t listed = 0;
  for (const MatrixEntry& e : m.entries) {
    if (e.judgement.standing != Standing::failed) continue;
    if (++listed > listed_max) break;
    std::string line = fmt::format("{}: {} -> {}: {}", e.file, e.initiator, e.responder, e.judgement.why);
    if (const Finding* f = gravest(e))
      line += fmt::format("; frame {}: {}{}", f->frame, f->text, f->rule.empty() ? "" : fmt::format(" [{}]", f->rule));
    else
      line += fmt::format("; {}", e.end);
    out += (listed == 1 ? "\nfailed " : "failed ") + wrap(printable(line, false), width, 7) + "\n";
  }
  if (const std::uint64_t all = m.counts[Standing::failed]; all > listed_max)
    out += fmt::format("failed and {} more\n", all - listed_max);
  return out;
}

/// For each standing, one line for the connections of a cell that are counted but not listed.
std::string not_listed_csv(const Matrix& m, const Matrix::Pair& pair, const std::string& form, const Matrix::Cell& cell,
                           const std::string& end) {
  StandingCounts listed;
  for (const std::size_t i : cell.entries) listed.add(m.entries[i].judgement.standing);
  std::string out;
  for (const Standing v : {Standing::passed, Standing::partial, Standing::failed})
    if (const std::uint64_t more = cell.counts[v] - listed[v]; more > 0)
      out += fmt::format(",{},{},{},{},,,,,,,,,{}{}", csv_quote(pair.first), csv_quote(pair.second), csv_quote(form),
                         to_string(v), csv_quote(counted(more, "more connection") + " counted and not listed"), end);
  return out;
}

}  // namespace

std::string form_of(const ConnectionReport& c) {
  if (c.ib && c.outcome != Outcome::not_captured) return ib_kind_text(*c.ib);
  if (c.ib) return fmt::format("{}, {}", ib_kind_text(*c.ib), to_string(c.outcome));
  if (c.outcome == Outcome::not_captured) return std::string(to_string(c.outcome));
  std::string out = fmt::format("rev {}", c.revision);
  if (!c.reply) return out + ", no Reply seen";
  if (c.rtr != mpa::Rtr::none)
    out += fmt::format(", RTR {}", mpa::to_string(c.rtr));
  else if (c.rtr_agreed != mpa::Rtr::none)
    out += fmt::format(", RTR {}", mpa::to_string(c.rtr_agreed));
  else
    out += !c.peer_to_peer ? ", no RTR" : c.rtr_common.empty() ? ", no RTR in common" : ", RTR open";
  out += c.crc ? ", CRC" : ", no CRC";
  if (c.markers_to_responder && c.markers_to_initiator)
    out += ", markers both ways";
  else if (c.markers_to_responder)
    out += ", markers to responder";
  else if (c.markers_to_initiator)
    out += ", markers to initiator";
  return out;
}

std::size_t MatrixEntry::count(Severity severity) const {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(), [severity](const Finding& f) { return f.severity == severity; }));
}

MatrixEntry matrix_entry(ConnectionReport&& c) {
  MatrixEntry e;
  e.form = form_of(c);
  e.roce = c.ib != nullptr;
  e.ends = {c.end_text(Side::initiator), c.end_text(Side::responder)};
  e.first_frame = c.first_frame;
  e.last_frame = c.last_frame;
  e.outcome = c.outcome;
  e.end = std::move(c.end);
  e.judgement = std::move(c.judgement);
  e.findings = std::move(c.findings);
  return e;
}

Standing StandingCounts::worst() const {
  for (const Standing v : {Standing::failed, Standing::partial})
    if ((*this)[v] > 0) return v;
  return Standing::passed;
}

Matrix::Cell* Matrix::cell(const Pair& pair, const std::string& form, bool roce) {
  if (const auto row = cells.find(pair); row != cells.end())
    if (const auto found = row->second.find(form); found != row->second.end()) return &found->second;
  if (cell_count >= cells_max) return nullptr;
  ++cell_count;
  Cell& made = cells[pair][form];
  made.roce = roce;
  return &made;
}

void Matrix::add(MatrixEntry entry) {
  const Standing standing = entry.judgement.standing;
  counts.add(standing);
  Cell* const in = cell({entry.initiator, entry.responder}, entry.form, entry.roce);
  if (in != nullptr) {
    in->counts.add(standing);
    in->entries.push_back(entries.size());
  } else {
    ++not_in_a_cell;
  }
  entries.push_back(std::move(entry));
}

void Matrix::add(const Pair& pair, const std::string& form, bool roce, const StandingCounts& more) {
  Cell* const in = cell(pair, form, roce);
  if (in == nullptr) return add_outside(more);
  counts.add(more);
  in->counts.add(more);
}

void Matrix::add_outside(const StandingCounts& more) {
  counts.add(more);
  not_in_a_cell += more.all();
}

std::vector<std::string> Matrix::forms() const {
  std::map<std::string, std::uint64_t> of_form;
  for (const auto& [pair, row] : cells)
    for (const auto& [form, cell] : row) of_form[form] += cell.counts.all();
  std::vector<std::string> out;
  for (const auto& [form, n] : of_form) out.push_back(form);
  // The most frequent forms first, so that a narrow screen shows them.
  std::stable_sort(out.begin(), out.end(),
                   [&of_form](const std::string& a, const std::string& b) { return of_form.at(a) > of_form.at(b); });
  return out;
}

Standing Matrix::standing() const {
  if (files.empty()) return Standing::failed;
  Standing out = Standing::passed;
  for (const MatrixFile& f : files) out = std::max(out, f.judgement.standing);
  return out;
}

std::string host_of(Address a) {
  a.port = 0;
  const std::string text = a.to_string();
  if (a.family == Address::Family::v4) return text.substr(0, text.rfind(':'));
  const std::size_t end = text.rfind(']');
  return end == std::string::npos ? text : text.substr(1, end - 1);
}

std::string PeerNames::read(std::string_view text) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = trim(text.substr(0, text.find('\n')));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    const std::size_t space = line.find_first_of(" \t");
    std::string_view name = trim(space == std::string_view::npos ? "" : line.substr(space));
    if (!name.empty() && name.front() == '=') name = trim(name.substr(1));
    const auto address = Address::parse(unquote(line.substr(0, space)));
    if (!address && line.front() == '[' && line.back() == ']') continue;  // the heading of a TOML table
    if (!address) return fmt::format("line {}: \"{}\" is not an address", number, line.substr(0, space));
    if (name.empty()) return fmt::format("line {}: the address has no name behind it", number);
    names_[host_of(*address)] = std::string(unquote(name));
  }
  return {};
}

std::string PeerNames::name_of_host(const std::string& host) const {
  const auto it = names_.find(host);
  return it == names_.end() ? host : it->second;
}

bool names_in_path(std::string_view path, std::string& initiator, std::string& responder) {
  // Try the name of the file, then the name of its directory.
  for (int level = 0; level < 2 && !path.empty(); ++level) {
    const std::size_t slash = path.find_last_of('/');
    std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
    path = slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
    if (level == 0) name = name.substr(0, name.find_last_of('.'));
    const std::size_t dashes = name.find("--");
    if (dashes == std::string_view::npos || dashes == 0) continue;
    std::string_view second = name.substr(dashes + 2);
    second = second.substr(0, second.find("--"));  // the rest distinguishes runs: "a--b--3.pcap"
    if (second.empty()) continue;
    initiator = std::string(name.substr(0, dashes));
    responder = std::string(second);
    return true;
  }
  return false;
}

std::string to_text(const Matrix& m, std::size_t width) {
  const auto forms = m.forms();
  std::string out;
  for (std::size_t f = 0; f < forms.size(); ++f) out += fmt::format("{:>3}  {}\n", f + 1, forms[f]);
  if (!forms.empty()) out += "\n";
  std::vector<std::size_t> widths(forms.size());  // each column has a cell that is wider than the column's number
  constexpr std::string_view none = "not seen";
  std::size_t first = 0;
  for (const auto& [pair, row] : m.cells) {
    first = std::max(first, columns(printable(pair.first + " -> " + pair.second, false)));
    for (std::size_t f = 0; f < forms.size(); ++f)
      if (const auto it = row.find(forms[f]); it != row.end())
        widths[f] = std::max(widths[f], counts_of(it->second).size());
      else
        widths[f] = std::max(widths[f], none.size());
  }
  if (!forms.empty()) out += std::string(first, ' ');
  for (std::size_t f = 0; f < forms.size(); ++f) out += "  " + pad(fmt::format("{}", f + 1), widths[f]);
  if (!forms.empty()) out += "\n";
  for (const auto& [pair, row] : m.cells) {
    out += pad(printable(pair.first + " -> " + pair.second, false), first);
    for (std::size_t f = 0; f < forms.size(); ++f) {
      const auto it = row.find(forms[f]);
      out += "  " + pad(it == row.end() ? std::string(none) : counts_of(it->second), widths[f]);
    }
    out += "\n";
  }
  for (const MatrixFile& f : m.files)
    if (!f.shortfall.empty())
      out += wrap(printable(fmt::format("{}  failed: {}", f.file, f.shortfall), false), width, 2) + "\n";
  out += failures_text(m, width);
  std::size_t unread = 0;
  for (const MatrixFile& f : m.files)
    if (!f.error.empty()) out += fmt::format("{}cannot be read: {}: {}\n", unread++ == 0 ? "\n" : "", f.file, f.error);
  out += fmt::format("\n{}, {}: {} passed, {} partial, {} failed\n", counted(m.files.size(), "file"),
                     counted(m.counts.all(), "connection"), m.counts[Standing::passed], m.counts[Standing::partial],
                     m.counts[Standing::failed]);
  if (m.not_in_a_cell > 0)
    out += fmt::format("{} of them are not in the table: it has {} cells at most\n",
                       counted(m.not_in_a_cell, "connection"), Matrix::cells_max);
  return out;
}

std::string to_csv(const Matrix& m, const draw::Provenance* provenance) {
  const auto end = [provenance](const std::string& file) {
    return (provenance != nullptr ? draw::csv_report(*provenance, file) : "") + "\n";
  };
  std::string out =
      "file,initiator,responder,form,verdict,outcome,first_frame,last_frame,errors,warnings,first_finding_frame,"
      "first_finding_rule,first_finding,reason";
  if (provenance != nullptr) out += draw::csv_report_names();
  out += "\n";
  for (const MatrixEntry& e : m.entries) {
    const Finding* found = gravest(e);
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{}", csv_quote(e.file), csv_quote(e.initiator),
                       csv_quote(e.responder), csv_quote(e.form), to_string(e.judgement.standing),
                       json_word(to_string(e.outcome)), e.first_frame, e.last_frame, e.count(Severity::error),
                       e.count(Severity::warning), found == nullptr ? "" : fmt::format("{}", found->frame),
                       found == nullptr ? "" : csv_quote(found->rule), found == nullptr ? "" : csv_quote(found->text),
                       csv_quote(e.judgement.why));
    out += end(e.file);
  }
  for (const auto& [pair, row] : m.cells)
    for (const auto& [form, cell] : row) out += not_listed_csv(m, pair, form, cell, end(""));
  for (const MatrixFile& f : m.files)
    if (!f.shortfall.empty())
      out +=
          fmt::format("{},,,,{},,,,,,,,,{}", csv_quote(f.file), to_string(Standing::failed), csv_quote(f.shortfall)) +
          end(f.file);
  return out;
}

}  // namespace parley::capture
