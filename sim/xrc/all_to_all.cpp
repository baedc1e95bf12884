// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/xrc/all_to_all.hpp"

#include <algorithm>

namespace parley::sim {
namespace {

constexpr std::uint16_t rank_port = 7471;

class RankApp final : public App {
 public:
  RankApp(std::uint32_t node, const AllToAllOptions& options) : node_(node), options_(options) {}
  std::vector<Address> addresses{};
  std::unique_ptr<RankNode> ranks;
  std::string trouble;

  void on_start(Host& host) override {
    auto made =
        RankNode::create(host.now(), host.cm(),
                         {.node = node_, .addresses = addresses, .processes = options_.processes, .rc = options_.rc});
    if (made)
      ranks = std::move(*made);
    else
      trouble = made.error().message();
  }
  void on_crash(Host&) override { ranks.reset(); }
  void on_turn(Host& host) override {
    if (!ranks) return;
    ranks->turn(host.now());
    while (auto event = host.cm().poll_event()) ranks->handle(*event);
    ranks->turn(host.now());
  }
  void on_timer(Host& host, std::uint64_t) override {
    if (ranks)
      if (auto begun = ranks->connect(); !begun) trouble = begun.error().message();
    on_turn(host);
  }

 private:
  std::uint32_t node_;
  const AllToAllOptions& options_;
};

}  // namespace

Checked<AllToAllReport> run_all_to_all(const AllToAllOptions& options) {
  std::vector<std::unique_ptr<RankApp>> apps;  // declared after the world, which calls them
  World world(options.seed);
  HostOptions host_options;
  host_options.engine = NicEngine::roce;
  const auto hub = world.add_switch("switch");
  if (!hub) return tl::unexpected(hub.error());
  for (std::uint32_t i = 0; i < options.nodes; ++i) {
    const auto host = world.add_host("n" + std::to_string(i), host_options);
    if (!host) return tl::unexpected(host.error());
    apps.push_back(std::make_unique<RankApp>(i, options));
    (*host)->set_app(apps.back().get());
    if (const auto link = world.add_link((*host)->id(), *hub); !link) return tl::unexpected(link.error());
  }
  std::vector<Address> addresses;
  for (std::uint32_t i = 0; i < options.nodes; ++i) {
    addresses.push_back(world.host(i).address());
    addresses.back().port = rank_port;
  }
  for (const auto& app : apps) app->addresses = addresses;
  if (options.on_world) options.on_world(world);
  world.set_tap(options.tap);
  const auto all = [&apps](auto what) {
    return std::all_of(apps.begin(), apps.end(), [&](const auto& app) { return app->ranks && what(*app->ranks); });
  };
  const bool ready = world.run_until([&] { return all([](const RankNode& r) { return r.listens(); }); }, options.limit);
  if (options.look) options.look(false);
  const Instant begun = world.now();
  if (ready)
    for (std::uint32_t i = 0; i < options.nodes; ++i) world.host(i).set_timer(world.now(), 0);
  const auto troubled = [&] {
    return std::any_of(apps.begin(), apps.end(), [](const auto& app) {
      return !app->trouble.empty() || (app->ranks && !app->ranks->trouble().empty());
    });
  };
  AllToAllReport report;
  report.done =
      ready &&
      world.run_until([&] { return troubled() || all([](const RankNode& r) { return r.done(); }); }, options.limit) &&
      !troubled();
  report.took = world.now() - begun;
  if (options.look) options.look(true);
  for (const auto& app : apps) {
    report.nodes.push_back(app->ranks ? app->ranks->count() : RankCount{});
    if (report.trouble.empty()) report.trouble = app->trouble;
    if (report.trouble.empty() && app->ranks) report.trouble = app->ranks->trouble();
    app->ranks.reset();
  }
  if (!report.done && report.trouble.empty()) report.trouble = "the time was over";
  return report;
}

}  // namespace parley::sim
