// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/sweep/sweep.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "sim/sweep/packing.hpp"

namespace parley::sim {
namespace {

constexpr std::size_t name_max = 4096;
constexpr std::uint64_t exhaust_last_max = (1 << 20) - 1;

std::string_view name_of(Sweep::Kind kind) { return kind == Sweep::Kind::explore ? "explore" : "exhaust"; }

std::string seeds_text(const Sweep& s) {
  return s.kind == Sweep::Kind::explore ? fmt::format("0x{:x}..0x{:x}", s.seed, s.seed + s.last)
                                        : fmt::format("0x{:x}", s.seed);
}

std::string options_text(const Sweep& s) {
  std::string text = fmt::format("--failures {}", s.failures_max);
  if (s.swarm) text += " --swarm";
  if (s.settled != (s.kind == Sweep::Kind::exhaust)) text += s.settled ? " --settled" : " --strict";
  if (s.time_budget != Duration{}) text += fmt::format(" --time-budget {}", precise_duration_text(s.time_budget));
  if (s.kind == Sweep::Kind::exhaust)
    text += fmt::format(" --layer {} with {} patterns", to_string(s.layer), s.last + 1);
  return text;
}

std::string both(std::string_view what, std::string_view a, std::string_view b) {
  return fmt::format("{} ({} and {})", what, a, b);
}

}  // namespace

Bytes encode_sweep(const Sweep& s) {
  Packer out;
  out.number(static_cast<std::uint64_t>(s.kind));
  for (const std::string* text : {&s.build, &s.shown, &s.path, &s.text}) out.text(*text);
  out.number(s.last);
  out.number(s.seed);
  out.flag(s.swarm);
  out.flag(s.settled);
  out.number(static_cast<std::uint64_t>(s.layer));
  out.number(s.failures_max);
  out.time(s.time_budget);
  return out.take();
}

std::optional<Sweep> decode_sweep(ConstBytes octets) {
  if (octets.size() > sweep_octets_max) return std::nullopt;
  Sweep s;
  Unpacker in(octets);
  s.kind = static_cast<Sweep::Kind>(in.number(static_cast<std::uint64_t>(Sweep::Kind::exhaust)));
  s.build = in.line(name_max);
  s.shown = in.line(name_max);
  s.path = in.line(name_max);
  s.text = in.text(sweep_octets_max);
  s.last = in.number();
  s.seed = in.number();
  s.swarm = in.flag();
  s.settled = in.flag();
  s.layer = static_cast<Layer>(in.number(static_cast<std::uint64_t>(Layer::cm)));
  s.failures_max = in.number();
  s.time_budget = in.time();
  if (!in.at_end()) return std::nullopt;
  const bool possible = s.kind == Sweep::Kind::explore ? s.last <= ~s.seed : s.last <= exhaust_last_max;
  return possible ? std::optional(std::move(s)) : std::nullopt;
}

std::string difference(const Sweep& a, const Sweep& b) {
  if (a.build != b.build) return both("the version", a.build, b.build);
  if (a.kind != b.kind) return both("the command", name_of(a.kind), name_of(b.kind));
  if (a.shown != b.shown) return both("the scenario", a.shown, b.shown);
  if (a.text != b.text) return fmt::format("the file of the scenario {}", a.shown);
  if (seeds_text(a) != seeds_text(b)) return both("the seeds", seeds_text(a), seeds_text(b));
  Sweep b_there = b;
  b_there.path = a.path;
  return a == b_there ? std::string() : both("the options", options_text(a), options_text(b));
}

}  // namespace parley::sim
