// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The cost of the connection manager: CPU time of one connection without a socket, a negotiation of three stages
// compared with its bare round trips, the memory of an idle established connection, and the cost of its keepalives.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bench/keepalive_cost.hpp"
#include "bench/memory_net.hpp"
#include "bench/parley_peer.hpp"
#include "bench/raw_socket.hpp"
#include "parley/neg_session.hpp"

namespace parley::bench {
namespace {

using namespace std::chrono_literals;

constexpr double own_us_max = 25, negotiation_max = 1.3, idle_octets_max = 8192;

// ---- own cost -------------------------------------------------------------------------------------------------------

double us_each(const Sample& s) { return 1e6 * s.cpu_s / s.count; }

void own_cost(const Settings& settings, Report& report) {
  if (!settings.wants("own cost")) return;
  report.section("The layer's own cost: both ends of a connection, set up, disconnected and destroyed, no socket");
  for (const mpa::Rtr rtr : {mpa::Rtr::send, mpa::Rtr::write, mpa::Rtr::read}) {
    MemoryHost host;
    const mpa::Options options{.rtr = rtr};
    const auto samples = alternate({{"Manager", [&] { return host.connections_for(options, settings.seconds); }},
                                    {"startup", [&] { return bare_startups(options, settings.seconds); }}},
                                   settings.rounds);
    std::vector<double> whole, bare, more;
    for (std::size_t i = 0; i < samples[0].size(); ++i) {
      whole.push_back(us_each(samples[0][i]));
      bare.push_back(us_each(samples[1][i]));
      more.push_back(whole.back() - bare.back());
    }
    report.add({.what = fmt::format("v2 A, 0B {}", to_string(rtr)),
                .unit = "us",
                .figure = median(whole),
                .limit_name = "startup machines",
                .limit = median(bare),
                .goal_kind = Row::Goal::difference_at_most,
                .goal = own_us_max,
                .difference = median(more),
                .note = "with the two lone queue pairs"});
  }
}

// ---- negotiation ----------------------------------------------------------------------------------------------------

constexpr std::size_t said = 64;  // octets of each turn

/// Sends that many octets in each of three stages.
class ThreeStages final : public neg::Variant {
 public:
  neg::Outcome<neg::Turn> exchange(neg::Stage stage, std::optional<ConstBytes> peer) override {
    if (peer && peer->size() != said)
      return tl::unexpected(
          neg::Failure{.problem = neg::Problem::invalid_peer_data, .text = "another length is expected"});
    if (std::exchange(spoken_, stage) == stage) return neg::Turn{.message = {}, .completed = true};
    return neg::Turn{.message = Bytes(said), .completed = true};
  }
  bool has_done_stage() const override { return true; }

 private:
  neg::Stage spoken_ = neg::Stage::none;
};

/// A TCP connection over loopback, with both ends on this thread.
struct Wire {
  Wire() {
    std::uint16_t port = 0;
    const Fd listener = listen_anywhere(port);
    ends[0] = Fd(checked(::socket(AF_INET, SOCK_STREAM, 0), "socket"));
    const sockaddr_in to = loopback_address(port, 0);
    checked(::connect(ends[0].get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), "connect");
    ends[1] = Fd(checked(::accept(listener.get(), nullptr, nullptr), "accept"));
    const int on = 1;
    for (const Fd& fd : ends) checked(::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "TCP_NODELAY");
  }
  void send(std::size_t from, ConstBytes octets) {
    if (::send(ends[from].get(), octets.data(), octets.size(), MSG_NOSIGNAL) != std::ssize(octets))
      throw std::runtime_error("a send was not whole");
  }
  /// Receives what is there; on loopback that is what was just sent.
  ConstBytes receive(std::size_t at) {
    return {buffer.data(),
            static_cast<std::size_t>(checked(::recv(ends[at].get(), buffer.data(), buffer.size(), 0), "recv"))};
  }
  std::array<Fd, 2> ends;
  std::array<std::uint8_t, 4096> buffer{};
};

/// A message with its sender, in order; the raw program sends as many octets.
struct Message {
  std::size_t from = 0, octets = 0;
};

neg::Session session(neg::Role role, const neg::Session::Chooser& chooser) {
  const neg::SessionOptions options{};
  auto made = role == neg::Role::initiator ? neg::Session::initiate({.plugin = "bench", .variant = "three-stages"},
                                                                    std::make_unique<ThreeStages>(), options, Instant{})
                                           : neg::Session::respond(chooser, options, Instant{});
  if (!made) throw std::runtime_error(made.error().to_string());
  return std::move(*made);
}

/// One negotiation over the wire; records its messages in `script` if it is not null.
void negotiate(Wire& wire, const neg::Session::Chooser& chooser, std::vector<Message>* script) {
  std::array<neg::Session, 2> sides{session(neg::Role::initiator, chooser), session(neg::Role::responder, chooser)};
  for (std::size_t side = 0;; side = 1 - side) {
    const Bytes out = sides[side].poll_transmit();
    if (out.empty()) break;
    wire.send(side, out);
    if (script != nullptr) script->push_back({side, out.size()});
    sides[1 - side].handle_bytes(Instant{}, wire.receive(1 - side));
  }
  for (const neg::Session& side : sides)
    if (!side.completed())
      throw std::runtime_error(side.failure() != nullptr ? side.failure()->to_string()
                                                         : "a negotiation was not completed");
}

Sample negotiations(Wire& wire, double seconds) {
  const neg::Session::Chooser chooser = [](const neg::Request&) { return std::make_unique<ThreeStages>(); };
  const Stopwatch watch;
  double made = 0;
  for (; watch.wall_s() < seconds; made += 20)
    for (int i = 0; i < 20; ++i) negotiate(wire, chooser, nullptr);
  return watch.stop(made);
}

Sample raw_exchanges(Wire& wire, const std::vector<Message>& script, double seconds) {
  const Bytes octets(4096);
  const Stopwatch watch;
  double made = 0;
  for (; watch.wall_s() < seconds; made += 20)
    for (int i = 0; i < 20; ++i)
      for (const Message& message : script) {
        wire.send(message.from, ConstBytes(octets).first(message.octets));
        if (wire.receive(1 - message.from).size() != message.octets)
          throw std::runtime_error("a receive was not whole");
      }
  return watch.stop(made);
}

void negotiation(const Settings& settings, Report& report) {
  if (!settings.wants("negotiation")) return;
  Wire wire;
  std::vector<Message> script;
  negotiate(
      wire, [](const neg::Request&) { return std::make_unique<ThreeStages>(); }, &script);
  const std::size_t trips = script.size() / 2;
  report.section(
      fmt::format("Negotiation of three stages, both ends on one thread, beside {} round trips of the same octets "
                  "on the same socket",
                  trips));
  const auto samples = alternate({{"Session", [&] { return negotiations(wire, settings.seconds); }},
                                  {"raw", [&] { return raw_exchanges(wire, script, settings.seconds); }}},
                                 settings.rounds);
  report.add({.what = fmt::format("three stages, {} round trips", trips),
              .unit = "us",
              .figure = 1e6 / median_of(samples[0], Reading::per_cpu_second),
              .limit_name = "raw exchange",
              .limit = 1e6 / median_of(samples[1], Reading::per_cpu_second),
              .ratio = median_ratio(samples[1], samples[0], Reading::per_second),
              .cpu_ratio = median_ratio(samples[1], samples[0], Reading::per_cpu_second),
              .goal_kind = Row::Goal::ratio_at_most,
              .goal = negotiation_max});
}

// ---- idle connections -----------------------------------------------------------------------------------------------

/// Established idle connections of a host with itself, both ends.
class IdleHost {
 public:
  explicit IdleHost(const mpa::Options& mpa) : mpa_(mpa), host_(must(TcpHost::open({}), "TcpHost::open")) {
    must(host_->cm().listen(Address::any(Address::Family::v4, 0)), "listen");
    while (port_ == 0) turn();
  }
  void reach(long n) {
    for (; begun_ < n || up_ < 2 * n; turn()) {
      for (; begun_ < n && 2 * begun_ - up_ < 2 * in_flight; ++begun_)
        must(host_->cm().connect(Address::v4(127, 0, 0, static_cast<std::uint8_t>(1 + begun_ % 200), port_),
                                 {.transport = mpa_}),
             "connect");
    }
  }

 private:
  void turn() {
    host_->run_once(100ms);
    while (auto event = host_->cm().poll_event()) {
      if (auto* listening = std::get_if<cm::Listening>(&*event)) port_ = listening->local.port;
      if (auto* request = std::get_if<cm::ConnectRequest>(&*event)) must(request->id.accept(), "accept");
      if (std::holds_alternative<cm::Established>(*event)) ++up_;
      if (std::holds_alternative<cm::ConnectFailed>(*event)) throw std::runtime_error("a set-up failed");
    }
  }
  mpa::Options mpa_;
  std::unique_ptr<TcpHost> host_;
  std::uint16_t port_ = 0;
  long begun_ = 0, up_ = 0;
};

void idle(const Settings& settings, Report& report, long most) {
  if (!settings.wants("idle")) return;
  const long few = std::min<long>(settings.quick ? 100 : 1000, most / 5),
             many = std::min<long>(settings.quick ? 600 : 9000, most);
  report.section(
      fmt::format("Memory of an idle established connection, one end: {} more where {} stand", many - few, few));
  for (const mpa::Rtr rtr : {mpa::Rtr::send, mpa::Rtr::read}) {
    IdleHost host({.rtr = rtr});
    host.reach(few);
    const auto before = ::mallinfo2();
    host.reach(many);
    const auto after = ::mallinfo2();
    const double octets = static_cast<double>((after.uordblks + after.hblkhd) - (before.uordblks + before.hblkhd)) /
                          static_cast<double>(2 * (many - few));
    report.add({.what = fmt::format("v2 A, 0B {}", to_string(rtr)),
                .unit = "octets",
                .figure = octets,
                .limit_name = "goal",
                .limit = idle_octets_max,
                .ratio = octets / idle_octets_max,
                .goal_kind = Row::Goal::ratio_at_most,
                .goal = 1,
                .note = "heap; the socket's buffers are the kernel's"});
  }
}

int run(int argc, char** argv) {
  const auto settings = parse_settings(argc, argv,
                                       "cm_bench: what the connection manager's layer costs\n"
                                       "groups: own cost, negotiation, idle, keepalive");
  if (!settings) return 2;
  pin_to_cpu(0);
  const long most = (static_cast<long>(raise_open_files()) - 64) / 2;
  Report report("cm_bench", *settings);
  own_cost(*settings, report);
  negotiation(*settings, report);
  idle(*settings, report, most);
  keepalive_cost(*settings, report, most);
  return report.finish();
}

}  // namespace
}  // namespace parley::bench

int main(int argc, char** argv) { return parley::bench::guarded("cm_bench", parley::bench::run, argc, argv); }
