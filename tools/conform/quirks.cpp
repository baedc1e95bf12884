// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley quirks`: the known deviations of real peers, for --peer-quirk and --play-quirk.
#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "mpa/quirks.hpp"
#include "tools/command.hpp"
#include "wire/ib/quirks.hpp"

namespace parley::tools {

namespace {

Json departures_json(const mpa::Quirk& q) {
  const std::pair<const char*, bool> flags[] = {{"echoes_reserved", q.echoes_reserved},
                                                {"echoes_r", q.echoes_r},
                                                {"crc_off", q.crc_off},
                                                {"answers_every_common", q.answers_every_common},
                                                {"refuses_markers", q.refuses_markers},
                                                {"whole_frame_only", q.whole_frame_only},
                                                {"enhanced_by_revision", q.enhanced_by_revision},
                                                {"rejects_short_enhanced", q.rejects_short_enhanced},
                                                {"needs_peer_to_peer", q.needs_peer_to_peer},
                                                {"omits_a", q.omits_a},
                                                {"ignores_reply_a", q.ignores_reply_a},
                                                {"own_rtr_only", q.own_rtr_only},
                                                {"prefers_write", q.prefers_write},
                                                {"rtr_on_v1", q.rtr_on_v1},
                                                {"no_ird_raise", q.no_ird_raise},
                                                {"no_fence", q.no_fence},
                                                {"terminate_nibbles_swapped", q.terminate_nibbles_swapped},
                                                {"rtr_stag_zero", q.rtr_stag_zero},
                                                {"refuses_stag_zero", q.refuses_stag_zero}};
  Json names = Json::array();
  for (const auto& [name, set] : flags)
    if (set) names.push_back(name);
  return names;
}

/// Breaks a sentence into lines of at most `width` columns.
std::string wrapped(std::string_view text, std::size_t width, std::string_view indent) {
  std::string out;
  while (!text.empty()) {
    std::size_t take = text.size();
    if (take > width) {
      take = text.rfind(' ', width);
      if (take == std::string_view::npos || take == 0) take = width;
    }
    out += fmt::format("{}{}{}", out.empty() ? "" : "\n", indent, text.substr(0, take));
    text.remove_prefix(take);
    while (text.starts_with(' ')) text.remove_prefix(1);
  }
  return out;
}

/// Prints a RoCE peer with its deviations and the evidence for each.
void print_roce(const wire::ib::Quirk& q, std::size_t width, Output& out) {
  std::string text = fmt::format("{}\n{}\n{}\n", q.name, wrapped(q.summary, width, "    "),
                                 wrapped(fmt::format("Evidence: {}.", q.evidence), width, "    "));
  Json departures = Json::array(), details = Json::array();
  for (const wire::ib::DepartureFacts& d : wire::ib::all_departures()) {
    if (!q.departures.has(d.what)) continue;
    const std::string clause = d.clause.empty() ? "" : fmt::format(" [{}]", d.clause);
    text +=
        fmt::format("    - {}\n{}\n{}\n", d.name, wrapped(fmt::format("{}{}", d.summary, clause), width - 2, "      "),
                    wrapped(fmt::format("Evidence: {}.", d.evidence), width - 2, "      "));
    departures.push_back(d.name);
    details.push_back({{"name", d.name}, {"rule", d.clause}, {"text", d.summary}, {"evidence", d.evidence}});
  }
  out.text(text);
  out.object({{"name", q.name},
              {"transport", "roce"},
              {"protocol", "ibcm"},
              {"summary", q.summary},
              {"evidence", q.evidence},
              {"departures", departures},
              {"details", details}});
}

int run_quirks(const std::string& only, Context& context) {
  if (!only.empty() && (only == "none" || (!mpa::find_quirk(only) && !wire::ib::find_quirk(only))))
    return context.out.error(Exit::usage, fmt::format("no quirk is named '{}'; 'parley quirks' lists them", only));
  const std::size_t width = std::clamp<std::size_t>(context.out.columns == 0 ? 100 : context.out.columns, 60, 100) - 4;
  for (const mpa::Quirk& q : mpa::all_quirks()) {
    if (!only.empty() && q.name != only) continue;
    context.out.text(fmt::format("{}\n{}\n{}\n", q.name, wrapped(q.summary, width, "    "),
                                 wrapped(fmt::format("Evidence: {}.", q.evidence), width, "    ")));
    context.out.object({{"name", q.name},
                        {"transport", "iwarp"},
                        {"protocol", "mpa"},
                        {"summary", q.summary},
                        {"evidence", q.evidence},
                        {"departures", departures_json(q)},
                        {"private_data_max", q.private_data_max}});
  }
  for (const wire::ib::Quirk& q : wire::ib::all_quirks())
    if (only.empty() || q.name == only) print_roce(q, width, context.out);
  return code(Exit::ok);
}

}  // namespace

void register_quirks(Command app, Context& context) {
  auto only = std::make_shared<std::string>();
  Command sub = app.subcommand("quirks", "List how real peers are known to deviate from the specifications");
  sub.option("name", *only, "Only this one").type("QUIRK");
  add_json_flag(sub, context);
  sub.footer(
      "Examples:\n"
      "  parley quirks\n"
      "  parley quirks siw --json\n"
      "  parley connect --peer-quirk siw 192.0.2.1     tolerate such a peer\n"
      "  parley listen --play-quirk siw                behave like one\n"
      "  parley listen --roce --play-quirk rxe         behave like Linux's software RoCE");
  sub.run([only, &context] { return run_quirks(*only, context); });
}

}  // namespace parley::tools
