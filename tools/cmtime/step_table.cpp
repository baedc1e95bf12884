// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/cmtime/step_table.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/json_text.hpp"

namespace parley::tools {

namespace {

constexpr std::array<std::string_view, cm_step_count> cm_step_names = {"full connect", "create id",     "bind addr",
                                                                       "resolve addr", "resolve route", "create qp",
                                                                       "connect",      "disconnect",    "destroy"};

double microseconds_of(Duration time) { return static_cast<double>(time.count()) / 1000; }

}  // namespace

void StepTable::add(CmStep step, Instant begin, Instant end) {
  Row& row = rows_[static_cast<std::size_t>(step)];
  const Duration took = end - begin;
  row.first = row.count == 0 ? begin : std::min(row.first, begin);
  row.last = row.count == 0 ? end : std::max(row.last, end);
  row.max = row.count == 0 ? took : std::max(row.max, took);
  row.min = row.count == 0 ? took : std::min(row.min, took);
  row.sum += took;
  ++row.count;
}

std::string StepTable::text(std::string_view provider) const {
  std::string out = "step             total us     max us     min us    us/conn";
  std::string missing;
  for (std::size_t i = 0; i < cm_step_count; ++i) {
    const Row& row = rows_[i];
    if (row.count == 0) {
      out += fmt::format("\n{:<14} {:>10} {:>10} {:>10} {:>10}", cm_step_names[i], "-", "-", "-", "-");
      missing += (missing.empty() ? "" : ", ") + std::string(cm_step_names[i]);
      continue;
    }
    out += fmt::format("\n{:<14} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f}", cm_step_names[i],
                       microseconds_of(row.last - row.first), microseconds_of(row.max), microseconds_of(row.min),
                       microseconds_of(row.sum) / static_cast<double>(row.count));
  }
  if (!missing.empty()) out += fmt::format("\n-: {} has no step of its own for {}", provider, missing);
  return out;
}

Json StepTable::json() const {
  Json out = Json::object();
  for (std::size_t i = 0; i < cm_step_count; ++i) {
    const Row& row = rows_[i];
    std::string key(cm_step_names[i]);
    std::replace(key.begin(), key.end(), ' ', '_');
    if (row.count == 0) {
      out[key] = nullptr;
      continue;
    }
    out[key] = {{"total_us", in_microseconds(row.last - row.first)},
                {"max_us", in_microseconds(row.max)},
                {"min_us", in_microseconds(row.min)},
                {"mean_us", in_microseconds(row.sum / static_cast<std::int64_t>(row.count))}};
  }
  return out;
}

}  // namespace parley::tools
