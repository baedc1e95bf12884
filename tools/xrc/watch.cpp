// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley xrc watch`: queries the registry periodically and prints the changes.
#include <map>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "drivers/clock.hpp"
#include "tools/rping/session.hpp"
#include "tools/xrc/xrc.hpp"

namespace parley::tools {
namespace {

struct Seen {
  std::uint64_t domain = 0;
  xrc::State state = xrc::State::reset;
  std::map<std::uint64_t, std::string> registrants{};  // member: "4711 mpi_rank"
};
using Picture = std::map<xrc::TgtId, Seen>;

Picture picture_of(const xrc::Overview& overview) {
  Picture out;
  for (const xrc::DomainView& d : overview.domains) {
    std::map<std::uint64_t, std::string> names;
    for (const xrc::MemberView& m : d.members) names[m.number] = fmt::format("{} {}", m.process.pid, m.process.command);
    for (const xrc::TgtView& t : d.tgts) {
      Seen& seen = out[t.id];
      seen = {.domain = d.number, .state = t.state};
      for (const std::uint64_t r : t.registrants) seen.registrants[r] = names[r];
    }
  }
  return out;
}

class ChangePrinter {
 public:
  explicit ChangePrinter(Output& out) : out_(out) {}

  void print_changes(const Picture& before, const Picture& now) {
    for (const auto& [id, seen] : before)
      if (!now.contains(id)) say("ended", id, seen, "ended");
    for (const auto& [id, seen] : now) {
      const auto old = before.find(id);
      if (old == before.end()) say("created", id, seen, fmt::format("is there: {}", to_string(seen.state)));
      const Seen was = old == before.end() ? Seen{.state = seen.state} : old->second;
      if (was.state != seen.state)
        say("state", id, seen, fmt::format("{} -> {}", to_string(was.state), to_string(seen.state)));
      for (const auto& [member, name] : was.registrants)
        if (!seen.registrants.contains(member)) say("left", id, seen, "lost " + name, name);
      for (const auto& [member, name] : seen.registrants)
        if (!was.registrants.contains(member)) say("joined", id, seen, "has " + name, name);
    }
  }

 private:
  void say(const char* event, const xrc::TgtId& id, const Seen& seen, const std::string& words,
           const std::string& process = {}) {
    out_.text(fmt::format("domain {}, {}: {}", seen.domain, to_string(id), words));
    Json object{{"event", event}, {"domain", seen.domain}, {"tgt", to_string(id)}, {"state", to_string(seen.state)}};
    if (!process.empty()) object["process"] = process;
    out_.object(object);
  }
  Output& out_;
};

}  // namespace

int run_xrc_watch(const XrcArgs& args, Output& out) {
  const StopSignals stop;
  const Instant begin = clock_now();
  Picture last;
  ChangePrinter teller(out);
  for (bool first = true;; first = false) {
    const auto seen = xrc::overview(args.domain);
    if (!seen && first) return xrc_refused(out, seen.error(), args.domain);
    if (seen) {  // a registry that is unavailable for a moment is queried again
      Picture now = picture_of(*seen);
      teller.print_changes(last, now);
      last = std::move(now);
    }
    if (stop.requested() || (args.during > Duration{} && clock_now() - begin >= args.during)) return code(Exit::ok);
    std::this_thread::sleep_for(args.interval);
  }
}

}  // namespace parley::tools
