// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley xrc demo`: the benefit of XRC. Every process of every node sends to every process of every other node, over
// XRC and over RC. The queue pairs and their memory are counted. With --churn, peers come and go at a domain that stays
// open.
#include <malloc.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"
#include "parley/roce_host.hpp"
#include "sim/record/record.hpp"
#include "sim/xrc/all_to_all.hpp"
#include "tools/sim/sim_files.hpp"
#include "tools/version.hpp"
#include "tools/xrc/xrc_demo.hpp"

namespace parley::tools {
namespace {

/// The octets that the program has allocated on its heap.
std::size_t heap_now() {
  const auto info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

struct Exchange {
  std::vector<sim::RankCount> nodes;
  bool done = false;
  std::string trouble;
  std::size_t heap_before = 0, heap_after = 0;
  std::optional<Duration> took{};  ///< virtual time

  sim::RankCount most() const {
    sim::RankCount out;
    for (const sim::RankCount& n : nodes) {
      out.ini = std::max(out.ini, n.ini);
      out.tgt = std::max(out.tgt, n.tgt);
      out.rc = std::max(out.rc, n.rc);
      out.handles = std::max(out.handles, n.handles);
      out.queues = std::max(out.queues, n.queues);
      out.received += n.received;
    }
    return out;
  }
  std::size_t heap_of_node() const {
    return heap_after < heap_before || nodes.empty() ? 0 : (heap_after - heap_before) / nodes.size();
  }
};

Exchange simulate(const XrcDemoArgs& args, bool rc, sim::PcapngTap* pcapng) {
  Exchange out;
  sim::AllToAllOptions options{.nodes = args.nodes, .processes = args.processes, .rc = rc, .seed = args.seed_or_one()};
  options.tap = pcapng;
  if (pcapng != nullptr) options.on_world = [pcapng](const sim::World& world) { pcapng->begin(world); };
  options.look = [&out](bool done) { (done ? out.heap_after : out.heap_before) = heap_now(); };
  auto report = sim::run_all_to_all(options);
  if (!report) {
    out.trouble = report.error();
    return out;
  }
  out.nodes = std::move(report->nodes);
  out.done = report->done;
  out.trouble = report->trouble;
  out.took = report->took;
  return out;
}

/// The same with Parley's own engine on UDP sockets. Each node is a separate host at an address 127.0.0.n.
class Sockets {
 public:
  Sockets(const XrcDemoArgs& args, bool rc) : args_(args), rc_(rc) {}
  Exchange run() {
    if (auto opened = open(); !opened) {
      out_.trouble = opened.error().message();
      return out_;
    }
    const bool ready = turn_until([](const sim::RankNode& r) { return r.listens(); });
    out_.heap_before = heap_now();
    for (const auto& node : nodes_)
      if (auto begun = node->connect(); !begun) out_.trouble = begun.error().message();
    out_.done = ready && out_.trouble.empty() && turn_until([](const sim::RankNode& r) { return r.done(); });
    out_.heap_after = heap_now();
    for (const auto& node : nodes_) {
      out_.nodes.push_back(node->count());
      if (out_.trouble.empty()) out_.trouble = node->trouble();
    }
    if (!out_.done && out_.trouble.empty()) out_.trouble = "the time was over";
    nodes_.clear();
    return out_;
  }

 private:
  Result<void> open() {
    std::vector<Address> addresses;
    for (std::uint32_t i = 0; i < args_.nodes; ++i)
      addresses.push_back(Address::v4(127, 0, 0, static_cast<std::uint8_t>(i + 1), 7471));
    for (std::uint32_t i = 0; i < args_.nodes; ++i) {
      auto host = RoceHost::open({.roce = {.seed = args_.seed_or_one() + i}});
      if (!host) return tl::unexpected(host.error());
      hosts_.push_back(std::move(*host));
      auto node = sim::RankNode::create(hosts_.back()->now(), hosts_.back()->cm(),
                                        {.node = i, .addresses = addresses, .processes = args_.processes, .rc = rc_});
      if (!node) return tl::unexpected(node.error());
      nodes_.push_back(std::move(*node));
    }
    return {};
  }
  template <class What>
  bool turn_until(What what) {
    const Instant end = hosts_.front()->now() + args_.timeout;
    for (;;) {
      for (std::size_t i = 0; i < hosts_.size(); ++i) {
        (void)hosts_[i]->run_once(Duration{});
        nodes_[i]->turn(hosts_[i]->now());
        while (auto event = hosts_[i]->cm().poll_event()) nodes_[i]->handle(*event);
        nodes_[i]->turn(hosts_[i]->now());
        if (!nodes_[i]->trouble().empty()) return false;
      }
      if (std::all_of(nodes_.begin(), nodes_.end(), [&](const auto& node) { return what(*node); })) return true;
      if (hosts_.front()->now() > end) return false;
    }
  }

  const XrcDemoArgs& args_;
  bool rc_;
  Exchange out_;
  std::vector<std::unique_ptr<RoceHost>> hosts_;
  std::vector<std::unique_ptr<sim::RankNode>> nodes_;
};

void print_result(const XrcDemoArgs& args, bool rc, const Exchange& x, Output& out) {
  const sim::RankCount most = x.most();
  const std::string_view transport = rc ? "RC" : "XRC";
  Json object{{"event", "exchange"},
              {"transport", rc ? "rc" : "xrc"},
              {"engine", args.sockets ? "sockets" : "simulator"},
              {"nodes", args.nodes},
              {"processes", args.processes},
              {"done", x.done},
              {"ini", most.ini},
              {"tgt", most.tgt},
              {"rc", most.rc},
              {"handles", most.handles},
              {"srqs", most.queues},
              {"received", most.received},
              {"heap_octets", x.heap_of_node()}};
  if (x.took) object["virtual_us"] = std::chrono::duration_cast<std::chrono::microseconds>(*x.took).count();
  if (!x.trouble.empty()) object["trouble"] = x.trouble;
  out.object(object);
  out.text(fmt::format("  {:<5} {:>10} {:>10} {:>10} {:>10} {:>12}", transport, (most.ini + most.rc) / args.processes,
                       most.ini + most.rc, most.tgt, most.queues,
                       fmt::format("{:.1f} KiB", static_cast<double>(x.heap_of_node()) / 1024)));
}

/// Checks the counts against the formula and that each message arrived. Returns an error message, or an empty string.
std::string judge(const XrcDemoArgs& args, bool rc, const Exchange& x) {
  if (!x.done) return x.trouble;
  const std::size_t peers = args.nodes - 1, p = args.processes;
  for (const sim::RankCount& n : x.nodes) {
    const bool right = rc ? n.rc == p * peers * p && n.ini + n.tgt == 0
                          : n.ini == p * peers && n.tgt == peers * p && n.handles == peers * p * p && n.rc == 0;
    if (!right)
      return fmt::format("the counts are not those of the formula: {} INI, {} TGT, {} RC", n.ini, n.tgt, n.rc);
    if (n.received != p * peers * p) return fmt::format("{} messages came instead of {}", n.received, p * peers * p);
  }
  return {};
}

int run_exchange(const XrcDemoArgs& args, Output& out) {
  std::unique_ptr<OutputFile> file;
  if (!args.pcapng.empty()) {
    auto opened = open_output(args.pcapng, Readers::owner);
    if (!opened) return out.error(opened.error().exit, opened.error().text);
    file = std::move(*opened);
  }
  out.text(fmt::format("{} nodes of {} processes, each sends to each elsewhere ({})", args.nodes, args.processes,
                       args.sockets ? "Parley's engine, UDP sockets" : "simulator"));
  out.text(fmt::format("  {:<5} {:>10} {:>10} {:>10} {:>10} {:>12}", "", "a process", "a node", "TGT", "SRQs",
                       "heap, a node"));
  for (const bool rc : {false, true}) {
    if (args.transport == (rc ? "xrc" : "rc")) continue;
    std::optional<sim::PcapngTap> pcapng;
    if (file)
      pcapng.emplace(
          sim::RecordInfo{application_text(), std::string("xrc demo, ") + (rc ? "RC" : "XRC"), args.seed_or_one()},
          [&file](ConstBytes octets) { return file->write(octets); });
    const Exchange x = args.sockets ? Sockets(args, rc).run() : simulate(args, rc, pcapng ? &*pcapng : nullptr);
    if (pcapng) pcapng->finish(nullptr);
    if (file)
      if (auto finished = file->finish(); !finished) return out.error(finished.error().exit, finished.error().text);
    print_result(args, rc, x, out);
    if (const std::string wrong = judge(args, rc, x); !wrong.empty()) return out.error(Exit::failed, wrong);
  }
  return code(Exit::ok);
}

}  // namespace

int run_xrc_demo(const XrcDemoArgs& args, Output& out) {
  if (!args.pcapng.empty() && (args.sockets || args.transport == "both"))
    return out.error(Exit::usage, "--pcapng is of the simulator, and of --transport xrc or rc");
  if (args.svg.empty() != (args.churn == 0)) return out.error(Exit::usage, "--churn and --svg go together");
  if (const int exchanged = run_exchange(args, out); exchanged != 0) return exchanged;
  return args.churn == 0 ? code(Exit::ok) : run_xrc_churn(args, out);
}

}  // namespace parley::tools
