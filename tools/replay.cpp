// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley replay`: plays one side of a recorded connection against a live peer, or against Parley's own stack in the
// simulator, and tells the first answer that means something else than the recorded one.
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "drivers/asio/machine_loop.hpp"
#include "mpa/quirks.hpp"
#include "replay/machine.hpp"
#include "tools/capture.hpp"
#include "tools/capture_source.hpp"
#include "tools/command.hpp"
#include "tools/replay_report.hpp"
#include "tools/replay_sim.hpp"
#include "tools/session.hpp"

namespace parley::tools {

namespace {

struct ReplayArgs {
  std::string file;
  std::string role;
  std::string against;
  std::string listen;
  std::string speed = "1";
  std::string pcapng;
  std::size_t connection = 0;
  Duration timeout = std::chrono::seconds(5);
  Duration wait{};
  bool keep_going = false;
  bool list = false;
  bool verbose = false;
};

constexpr std::size_t file_max =
    std::size_t{256} << 20;  // octets, kept about three times over; the connections of a longer file are cut out of it

Or<Bytes> read_whole(const std::string& path) {
  const auto cannot = [&path](const std::string& why) {
    return complain(Exit::environment, fmt::format("cannot read '{}': {}", path, why));
  };
  auto source = CaptureSource::open(path);
  if (!source) return cannot(source.error().text);
  Bytes out;
  constexpr std::size_t chunk = 1 << 20;
  for (;;) {
    const std::size_t had = out.size();
    out.resize(had + chunk);
    const std::size_t n = (*source)->read(MutBytes(out).subspan(had));
    out.resize(had + n);
    if (n == 0) break;
    if (out.size() > file_max)
      return complain(Exit::environment, fmt::format("'{}' is longer than {} MiB: cut the connection out of it first",
                                                     path, file_max >> 20));
  }
  if (const std::string& why = (*source)->error(); !why.empty()) return cannot(why);
  return out;
}

/// "1", "0.5", "10", "0": how many times as fast as recorded; at most three digits behind the point.
Or<void> parse_speed(const std::string& text, replay::PlayOptions& out) {
  const std::size_t point = text.find('.');
  std::string digits = text.substr(0, point);
  std::uint32_t in = 1;
  bool good = point == std::string::npos || (text.size() > point + 1 && text.size() <= point + 4);
  if (good && point != std::string::npos) {
    digits += text.substr(point + 1);
    for (std::size_t i = point + 1; i < text.size(); ++i) in *= 10;
  }
  std::uint32_t of = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), of);
  good = good && error == std::errc{} && end == digits.data() + digits.size() && of <= 1'000'000;
  if (!good)
    return complain(Exit::usage,
                    fmt::format("'{}' is no speed: a number such as 1, 10, 0.5, or 0 for no pauses", text));
  out.speed_of = of;
  out.speed_in = in;
  return {};
}

/// Plays over sockets until it is over, a signal comes, or nobody connects.
int play_live(const ReplayArgs& args, const ReplayRun& run, const replay::Recording& recording,
              const replay::PlayOptions& options, const Address& where, bool listen, Output& out) {
  replay::Player player(recording, run.side, options);
  replay::PlayerMachine machine(player, where, listen);
  auto loop = asio_driver::MachineLoop::open(machine);
  if (!loop) return out.error(Exit::environment, "no sockets: " + loop.error().message());
  std::unique_ptr<CaptureWriter> capture;
  if (!args.pcapng.empty()) {
    auto made = CaptureWriter::create(args.pcapng);
    if (!made) return out.error(made.error().exit, made.error().text);
    capture = std::move(*made);
    (*loop)->set_tap([&capture](const TapRecord& record) { capture->add(record); });
  }
  const StopSignals signals;
  const Instant give_up = args.wait == Duration{} ? never : (*loop)->now() + args.wait;
  bool told = false;
  while (!machine.over() && !StopSignals::requested()) {
    (void)(*loop)->run_once(std::chrono::milliseconds(100));
    if (machine.listening() && !std::exchange(told, true)) {
      out.text(fmt::format("listening on {}", machine.listening()->to_string()));
      out.object(
          {{"event", "listening"}, {"address", machine.listening()->to_string()}, {"port", machine.listening()->port}});
    }
    if (!player.started() && (*loop)->now() >= give_up) break;
  }
  for (int i = 0; i < 10; ++i) (void)(*loop)->run_once(std::chrono::milliseconds(5));  // a FIN or RST leaves
  if (capture)
    if (const auto written = capture->finish(); !written) return out.error(written.error().exit, written.error().text);
  if (machine.failed())
    return out.error(Exit::environment, fmt::format("cannot {} {}: {}", listen ? "listen on" : "connect to",
                                                    where.to_string(), machine.failed().message()));
  if (!player.started())
    return out.error(Exit::environment, StopSignals::requested()
                                            ? "ended before anybody connected"
                                            : "nobody connected within " + duration_text(args.wait));
  if (!player.done()) player.fail("ended by a signal before the recording was over");
  const int exit = print_result(out, run, player.result());
  return player.result().difference || !StopSignals::requested() ? exit : code(Exit::environment);
}

int play_simulated(const ReplayArgs& args, ReplayRun run, const replay::Recording& recording,
                   const replay::PlayOptions& options, const std::string& quirk, Output& out) {
  auto result = replay_in_simulator(recording, run.side, {.play = options, .quirk = quirk, .pcapng = args.pcapng});
  if (!result) return out.error(result.error().exit, result.error().text);
  run.events = std::move(result->events);
  return print_result(out, run, result->played);
}

/// What the words after sim: name; none: it is no such word.
Or<std::optional<std::string>> simulated_peer(const std::string& against) {
  constexpr std::string_view prefix = "sim:";
  if (!against.starts_with(prefix)) return std::optional<std::string>{};
  const std::string name = against.substr(prefix.size());
  if (name == "parley") return std::optional<std::string>{""};
  if (name.empty() || !mpa::find_quirk(name))
    return complain(
        Exit::usage,
        fmt::format("'{}' is no simulated peer: sim:parley, or sim: and a name of 'parley quirks'", against));
  return std::optional<std::string>{name};
}

int run_replay(const ReplayArgs& args, Output& out) {
  if (args.list) {
    const auto file = read_whole(args.file);
    if (!file) return out.error(file.error().exit, file.error().text);
    const replay::Contents contents = replay::list_connections(*file);
    print_contents(out, args.file, contents);
    // Whoever lists the connections of a file means to play one: a file without any is of no use (docs/cli.md).
    const std::string wrong = contents.report.connections.empty() ? contents.why_empty() : contents.error;
    if (!wrong.empty()) return out.error(Exit::environment, args.file + ": " + wrong);
    return code(Exit::ok);
  }
  const bool listen = !args.listen.empty();
  if (args.role.empty()) return out.error(Exit::usage, "say which side to play: --role initiator or --role responder");
  if (listen == !args.against.empty())
    return out.error(Exit::usage, listen ? "--against and --listen exclude each other"
                                         : "say whom to play against: --against or --listen");
  replay::PlayOptions play;
  play.patience = args.timeout;
  play.keep_going = args.keep_going;
  if (const auto speed = parse_speed(args.speed, play); !speed)
    return out.error(speed.error().exit, speed.error().text);
  const auto simulated = simulated_peer(args.against);
  if (!simulated) return out.error(simulated.error().exit, simulated.error().text);
  ReplayRun run;
  run.file = args.file;
  run.against = listen ? "whoever connects to " + args.listen : args.against;
  run.side = args.role == "initiator" ? verdict::Side::initiator : verdict::Side::responder;
  run.verbose = args.verbose;
  if (!*simulated && listen != (run.side == verdict::Side::responder))
    return out.error(Exit::usage, listen ? "an initiator connects: give --against instead of --listen"
                                         : "a responder waits for a peer: give --listen instead of --against");
  Address where;
  if (!*simulated) {
    const auto endpoint = parse_endpoint(listen ? args.listen : args.against, default_port);
    if (!endpoint) return out.error(endpoint.error().exit, endpoint.error().text);
    const auto addresses = resolve(*endpoint);
    if (!addresses) return out.error(addresses.error().exit, addresses.error().text);
    where = addresses->front();
  }
  const auto file = read_whole(args.file);
  if (!file) return out.error(file.error().exit, file.error().text);
  const auto recording = replay::read_recording(*file, args.connection);
  if (!recording) return out.error(Exit::environment, fmt::format("{}: {}", args.file, recording.error()));
  if (const std::string why = why_not_playable(*recording, run.side); !why.empty())
    return out.error(Exit::environment, fmt::format("{}: {}", args.file, why));
  print_begin(out, run, *recording);
  if (*simulated) return play_simulated(args, run, *recording, play, **simulated, out);
  return play_live(args, run, *recording, play, where, listen, out);
}

}  // namespace

void register_replay(CLI::App& app, Context& context) {
  auto args = std::make_shared<ReplayArgs>();
  CLI::App* sub = app.add_subcommand("replay", "Play one side of a recorded connection and compare the answers");
  sub->add_option("FILE", args->file, "Capture: pcap or pcapng; - is standard input")->required();
  sub->add_option("--role", args->role, "The recorded side that is played")
      ->check(CLI::IsMember({"initiator", "responder"}));
  sub->add_option(
      "--against", args->against,
      "HOST:PORT of a live responder; or sim:parley, Parley's own stack in the simulator; or sim:QUIRK, the "
      "same playing one of 'parley quirks'");
  sub->add_option("--listen", args->listen, "ADDRESS:PORT to wait for a live initiator; port 0: any free one, printed");
  sub->add_option("-n,--connection", args->connection, "The n-th MPA connection of the file, if it has several");
  sub->add_option("--speed", args->speed, "Recorded pauses are divided by this: 1 keeps them, 0 makes none")
      ->capture_default_str();
  add_duration(*sub, "--timeout", args->timeout, "How much longer than the recorded side the live one may take");
  add_duration(*sub, "--wait", args->wait, "With --listen: how long to wait for the connection (0: for ever)");
  sub->add_flag("--keep-going", args->keep_going, "Play on after a difference; the first one is reported all the same");
  sub->add_option("--pcapng", args->pcapng, "Write the live exchange to this file");
  sub->add_flag("--list", args->list, "List the MPA connections of the file, and play nothing");
  sub->add_flag("-v,--verbose", args->verbose, "Show every step and every answer");
  add_json_flag(*sub, context);
  sub->footer(
      "Exit code: 0 every answer means what the recorded one did, 1 there is a difference, 2 usage, 3 the recording "
      "cannot\nbe played or the peer not be reached.\n\n"
      "Examples:\n"
      "  parley replay event.pcap --list\n"
      "  parley replay event.pcap -n 3 --role initiator --against 192.0.2.1:7174\n"
      "  parley replay event.pcap --role responder --listen 0.0.0.0:7174 --speed 0\n"
      "  parley replay event.pcap --role initiator --against sim:parley\n"
      "  parley replay event.pcap --role initiator --against sim:siw -v");
  sub->callback([args, &context] { context.run = [args, &context] { return run_replay(*args, context.out); }; });
}

}  // namespace parley::tools
