// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley mad top`: the busiest ports of a subnet and new errors, repeatedly.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "mad/topology_print.hpp"
#include "tools/mad/counters.hpp"
#include "tools/mad/mad.hpp"
#include "tools/mad/subnet.hpp"
#include "tools/rping/session.hpp"

namespace parley::tools {

namespace {

using wire::mad::PortCountersExtended;

struct TopArgs {
  MadOptions mad;
  Duration interval = std::chrono::seconds(2);
  std::uint64_t count = 0;
  unsigned lines = 20;
  TopArgs() { mad.window = 32; }
};

/// Counters of a port. Data in octets.
struct Reading {
  std::uint64_t sent = 0, received = 0, sent_packets = 0, received_packets = 0, waits = 0, errors = 0;
};

Reading reading_of(const PortCountersExtended& c) {
  using P = PortCountersExtended;
  return {c.get(P::port_xmit_data) * 4,
          c.get(P::port_rcv_data) * 4,
          c.get(P::port_xmit_pkts),
          c.get(P::port_rcv_pkts),
          c.get(P::port_xmit_wait),
          c.get(P::symbol_error_counter) + c.get(P::link_error_recovery_counter) + c.get(P::link_downed_counter) +
              c.get(P::port_rcv_errors) + c.get(P::port_rcv_remote_physical_errors) + c.get(P::port_xmit_discards) +
              c.get(P::local_link_integrity_errors) + c.get(P::excessive_buffer_overrun_errors) +
              c.get(P::vl15_dropped)};
}

/// If a counter was cleared meanwhile, it restarted at 0.
std::uint64_t since(std::uint64_t before, std::uint64_t now) { return now >= before ? now - before : now; }

struct LastReading {
  std::uint64_t round = 0;
  Reading reading;
};

struct Row {
  CounterPlace place;
  Reading in_interval;
  std::uint64_t busy() const { return in_interval.sent + in_interval.received; }
};

class Top {
 public:
  Top(const TopArgs& args, MadSession& session, const mad::Topology& topology, std::vector<CounterPlace> places,
      Output& out)
      : args_(args), session_(session), topology_(topology), places_(std::move(places)), out_(out) {}

  int run() {
    const StopSignals signals;
    const mad_driver::RunHooks hooks{.stop = [] { return StopSignals::requested(); }, .tick = {}};
    for (std::uint64_t round = 0; args_.count == 0 || round <= args_.count; ++round) {
      rows_.clear();
      tally_ = {};
      const Instant at = session_.now();
      const auto take = [this, round](const CounterPlace& place, const mad::Reply<PortCountersExtended>& counters) {
        if (counters) add(place, round, reading_of(*counters));
      };
      const auto ran = session_.run(each_extended(session_, places_, topology_, tally_, take), hooks);
      if (!ran) return out_.error(ran.error().exit, ran.error().text);
      if (tally_.cut) return interrupted(round > 0 ? round - 1 : 0);
      if (tally_.read == 0) return out_.error(Exit::failed, "no port answers for PortCountersExtended");
      if (round > 0) show(round, at - read_at_);
      read_at_ = at;
      if (round == args_.count && args_.count != 0) break;
      const auto rested = session_.run(rest(session_.port()), hooks);
      if (!rested) return out_.error(rested.error().exit, rested.error().text);
      if (StopSignals::requested()) return interrupted(round);
    }
    return code(Exit::ok);
  }

 private:
  mad::Task<bool> rest(mad::Port& port) { co_return co_await port.sleep(args_.interval); }

  /// Ctrl-C is the normal end of a run without --count, after the first report.
  int interrupted(std::uint64_t shown) {
    if (args_.count == 0 && shown > 0) return code(Exit::ok);
    out_.note(fmt::format("parley {}: partial: interrupted after {}", out_.command, counted(shown, "report")));
    return code(Exit::failed);
  }

  /// A port that was not read in the previous round is skipped: there is nothing to compare with.
  void add(const CounterPlace& place, std::uint64_t round, const Reading& now) {
    const auto [last, is_new] = last_.try_emplace({place.node, place.port});
    const Reading& before = last->second.reading;
    if (!is_new && last->second.round + 1 == round)
      rows_.push_back(
          {place,
           {since(before.sent, now.sent), since(before.received, now.received),
            since(before.sent_packets, now.sent_packets), since(before.received_packets, now.received_packets),
            since(before.waits, now.waits), since(before.errors, now.errors)}});
    last->second = {round, now};
  }

  /// Errors first, then data.
  void show(std::uint64_t round, Duration interval) {
    std::stable_sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
      if (a.in_interval.errors != b.in_interval.errors) return a.in_interval.errors > b.in_interval.errors;
      return a.busy() > b.busy();
    });
    const double seconds = std::max(in_seconds(interval), 1e-9);
    const auto per_second = [seconds](std::uint64_t n) { return static_cast<double>(n) / seconds; };
    if (out_.terminal && !out_.json) out_.draw("\x1b[H\x1b[J");
    out_.text(fmt::format("{}, {} without an answer; {} since the last reading", counted(tally_.read, "port"),
                          tally_.lost, measured_duration_text(interval)));
    out_.text(fmt::format("{:>12} {:>12} {:>12} {:>12} {:>8}  port", "sent MB/s", "received", "packets/s", "waits",
                          "errors"));
    for (std::size_t i = 0; i < std::min<std::size_t>(args_.lines, rows_.size()); ++i) {
      const Row& row = rows_[i];
      const Reading& r = row.in_interval;
      const std::uint64_t packets = r.sent_packets + r.received_packets;
      out_.text(fmt::format("{:>12.3f} {:>12.3f} {:>12.0f} {:>12} {:>8}  {}", per_second(r.sent) / 1e6,
                            per_second(r.received) / 1e6, per_second(packets), r.waits, r.errors,
                            mad::port_text(topology_, row.place.node, row.place.port)));
      const mad::TopologyNode& node = topology_.nodes()[row.place.node];
      out_.object({{"event", "port"},
                   {"round", round},
                   {"guid", mad::guid_text(node.guid)},
                   {"name", topology_.description(node)},
                   {"port", row.place.port},
                   {"sent_octets", r.sent},
                   {"received_octets", r.received},
                   {"packets", packets},
                   {"waits", r.waits},
                   {"errors", r.errors}});
    }
    out_.object(
        {{"event", "round"}, {"round", round}, {"read", tally_.read}, {"lost", tally_.lost}, {"interval_s", seconds}});
  }

  const TopArgs& args_;
  MadSession& session_;
  const mad::Topology& topology_;
  std::vector<CounterPlace> places_;
  Output& out_;
  CounterTally tally_;
  std::map<std::pair<std::uint32_t, std::uint8_t>, LastReading> last_;
  std::vector<Row> rows_;
  Instant read_at_{};
};

int run_top(const TopArgs& args, Output& out) {
  auto session = MadSession::open(args.mad, out);
  if (!session) return out.error(session.error().exit, session.error().text);
  const DiscoveredSubnet subnet = discover_subnet(**session, {}, out);
  if (!subnet.cut_by.empty()) return out.error(Exit::environment, subnet.cut_by);
  std::vector<CounterPlace> places = ports_with_counters(subnet.found.topology);
  if (places.empty())
    return out.error(Exit::environment,
                     "no linked port has a LID, which reading counters needs: no subnet manager has run");
  const bool good = print_doubts(subnet, out);
  int status = Top(args, **session, subnet.found.topology, std::move(places), out).run();
  if (status == code(Exit::ok) && !good) status = code(Exit::failed);
  if (const auto written = (*session)->finish(); !written) return out.error(written.error().exit, written.error().text);
  return status;
}

}  // namespace

void register_mad_top(Command mad, Context& context) {
  auto args = std::make_shared<TopArgs>();
  Command sub = mad.subcommand("top", "Show the busiest ports and new errors repeatedly");
  add_duration(sub, "--interval", args->interval, "Time between two readings");
  sub.option("--count", args->count, "End after this many reports; 0: at Ctrl-C").shows_default();
  sub.option("--lines", args->lines, "Ports in each report").range(1U, 100000U).shows_default();
  add_mad_options(sub, args->mad);
  add_json_flag(sub, context);
  sub.footer("Examples:\n  parley mad top\n  parley mad top --interval 10s --count 6 --json");
  sub.run([args, &context] { return run_top(*args, context.out); });
}

}  // namespace parley::tools
