// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley xrc demo --churn`: the number of TGT queue pairs over connect and disconnect cycles, as figures and as a
// plot.
#include <algorithm>

#include <fmt/format.h>

#include "sim/xrc/churn.hpp"
#include "tools/sim/sim_files.hpp"
#include "tools/xrc/xrc_demo.hpp"

namespace parley::tools {
namespace {

struct Curve {
  std::string name, colour;
  sim::ChurnReport report;
};

constexpr double left = 70, top = 40, width = 640, height = 300;

/// The distance of grid lines: 1, 2 or 5 times a power of ten, with at most six lines.
std::size_t step_of(std::size_t most) {
  std::size_t step = 1;
  for (std::size_t i = 0; most / step >= 6; ++i) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
  return step;
}

/// One panel with all curves, scaled to `most`.
std::string panel(const std::vector<Curve>& curves, std::uint32_t cycles, std::size_t most, double at,
                  std::string_view title) {
  const auto x = [&](double n) { return left + width * n / std::max(1U, cycles); };
  const auto y = [&](double n) {
    return at + height - height * n / static_cast<double>(std::max<std::size_t>(1, most));
  };
  std::string out = fmt::format("<text x=\"{}\" y=\"{}\" class=\"t\">{}</text>\n", left, at - 12, title);
  for (std::size_t n = 0; n <= most; n += step_of(most))
    out += fmt::format("<path class=\"g\" d=\"M{} {:.1f}h{}\"/><text x=\"{}\" y=\"{:.1f}\" class=\"y\">{}</text>\n",
                       left, y(static_cast<double>(n)), width, left - 8, y(static_cast<double>(n)) + 4, n);
  for (std::size_t n = 0; n <= cycles; n += step_of(cycles))
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" class=\"x\">{}</text>\n", x(static_cast<double>(n)),
                       at + height + 18, n);
  for (const Curve& c : curves) {
    std::string points;
    for (const auto& s : c.report.samples)
      if (s.tgts <= most) points += fmt::format("{:.1f},{:.1f} ", x(s.cycles), y(static_cast<double>(s.tgts)));
    out +=
        fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" points=\"{}\"/>\n", c.colour, points);
  }
  return out;
}

std::string draw(const std::vector<Curve>& curves, std::uint32_t cycles) {
  std::size_t all = 1, bounded = 1;
  for (const Curve& c : curves) all = std::max(all, c.report.peak);
  for (std::size_t i = 1; i < curves.size(); ++i) bounded = std::max(bounded, curves[i].report.peak);
  std::string out =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 740 860\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<style>.g{stroke:#ccc}.y{text-anchor:end}.x{text-anchor:middle}.t{font-size:14px}</style>\n"
      "<rect width=\"740\" height=\"860\" fill=\"#fff\"/>\n";
  out += panel(curves, cycles, all, top, "TGT queue pairs of a domain that stays open, while peers come and go");
  out += panel({curves.begin() + 1, curves.end()}, cycles, bounded, top + height + 90, "The two bounded ones alone");
  double line = top + 2 * height + 140;
  for (const Curve& c : curves) {
    out += fmt::format("<path stroke=\"{}\" stroke-width=\"3\" d=\"M{} {}h24\"/><text x=\"{}\" y=\"{}\">{}</text>\n",
                       c.colour, left, line - 4, left + 32, line, c.name);
    line += 20;
  }
  out += fmt::format("<text x=\"{}\" y=\"{}\">cycles of connect, send, disconnect; {} in all</text>\n</svg>\n", left,
                     line + 4, cycles);
  return out;
}

}  // namespace

int run_xrc_churn(const XrcDemoArgs& args, Output& out) {
  const sim::ChurnOptions common{.cycles = args.churn, .seed = args.seed_or_one()};
  sim::ChurnOptions kept = common, deaf = common, heard = common;
  kept.keep = true;
  heard.deaf = 0;
  std::vector<Curve> curves{
      {"kept until the domain closes, as before processes were counted", "#c0392b", {}},
      {fmt::format("counted; one of {} processes never unregisters, and the grace time ({} ms) ends it",
                   common.processes, std::chrono::duration_cast<std::chrono::milliseconds>(common.grace).count()),
       "#d68910",
       {}},
      {"counted; every process releases its registration when the peer is gone", "#1f618d", {}}};
  const std::array names{"kept", "deaf", "counted"};
  const std::array options{kept, deaf, heard};
  out.text(fmt::format("{} cycles of connect, send, disconnect; {} at once", args.churn, common.at_once));
  for (std::size_t i = 0; i < curves.size(); ++i) {
    auto report = sim::run_churn(options[i]);
    if (!report) return out.error(Exit::failed, report.error());
    if (!report->trouble.empty()) return out.error(Exit::failed, report->trouble);
    out.text(fmt::format("  {:<8} {:>6} at most, {:>6} at the end: {}", names[i], report->peak, report->left,
                         curves[i].name));
    Json samples = Json::array();
    for (const auto& s : report->samples) samples.push_back({{"cycles", s.cycles}, {"tgts", s.tgts}});
    out.object({{"event", "churn"},
                {"registration", names[i]},
                {"cycles", report->cycles},
                {"peak", report->peak},
                {"left", report->left},
                {"created", report->counters.created},
                {"destroyed", report->counters.destroyed},
                {"reaped", report->counters.reaped},
                {"samples", samples}});
    curves[i].report = std::move(*report);
  }
  auto file = open_output(args.svg);
  if (!file) return out.error(file.error().exit, file.error().text);
  const std::string picture = draw(curves, args.churn);
  (void)(*file)->write(std::string_view(picture));  // finish() reports errors
  if (auto finished = (*file)->finish(); !finished) return out.error(finished.error().exit, finished.error().text);
  return code(Exit::ok);
}

}  // namespace parley::tools
