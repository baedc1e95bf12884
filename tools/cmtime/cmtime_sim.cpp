// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley cmtime --provider sim`: two hosts on one link, in virtual time, with the same client as over sockets.
#include <chrono>

#include "parley/sim.hpp"
#include "tools/cmtime/cmtime.hpp"
#include "tools/command.hpp"

namespace parley::tools {

namespace {

/// Accepts every connection; the client ends it.
class SimServer final : public sim::App {
 public:
  explicit SimServer(std::uint16_t port) : port_(port) {}
  void on_start(sim::Host& host) override {
    Address local = host.address();
    local.port = port_;
    (void)host.cm().listen(local, {.pending_max = 65536});
  }
  void on_crash(sim::Host&) override {}
  void on_timer(sim::Host&, std::uint64_t) override {}
  void on_turn(sim::Host& host) override {
    while (auto event = host.cm().poll_event()) {
      if (auto* request = std::get_if<cm::ConnectRequest>(&*event)) (void)request->id.accept();
      if (auto* down = std::get_if<cm::Disconnected>(&*event)) down->id.destroy();
      if (auto* failed = std::get_if<cm::ConnectFailed>(&*event)) failed->id.destroy();
    }
  }

 private:
  std::uint16_t port_;
};

class SimClient final : public CmtimeHost, private sim::App {
 public:
  SimClient(sim::World& world, sim::Host& host) : world_(world), host_(host) { host_.set_app(this); }
  ~SimClient() override { host_.set_app(nullptr); }
  SimClient(const SimClient&) = delete;
  SimClient& operator=(const SimClient&) = delete;

  cm::Manager& cm() override { return host_.cm(); }
  Instant now() const override { return host_.now(); }
  void turn(Instant deadline) override {
    host_.set_timer(now() + Duration(1), 0);  // runs what was requested since the last turn
    seen_ = false;
    while (!seen_ && world_.step(deadline)) {
    }
    if (seen_) return;
    if (deadline == never)
      nothing_left_ = true;
    else
      world_.run_for(deadline - now());
  }
  void settle() override { world_.run_for(std::chrono::milliseconds(1)); }
  bool stopped() const override { return nothing_left_ || StopSignals::requested(); }

 private:
  void on_start(sim::Host&) override {}
  void on_crash(sim::Host&) override {}
  void on_timer(sim::Host&, std::uint64_t) override {}
  void on_turn(sim::Host&) override { seen_ = true; }

  sim::World& world_;
  sim::Host& host_;
  StopSignals signals_;
  bool seen_ = false, nothing_left_ = false;
};

}  // namespace

int run_cmtime_sim(const CmtimeArgs& args, Context& context) {
  sim::World world(1);
  sim::Host& server = **world.add_host("server");
  sim::Host& client = **world.add_host("client");
  (void)world.add_link(client.id(), server.id());
  SimServer app(args.port == 0 ? std::uint16_t{1} : args.port);
  server.set_app(&app);
  SimClient host(world, client);
  world.run_for(std::chrono::milliseconds(1));  // the server listens
  Address to = server.address();
  to.port = args.port == 0 ? std::uint16_t{1} : args.port;
  const int code = run_cmtime_client(args, to, std::nullopt, host, context);
  server.set_app(nullptr);
  return code;
}

}  // namespace parley::tools
