// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley replay`: plays one side of a recorded connection against a live peer, or against Parley's own stack in the
// simulator, and reports the first answer whose meaning differs from the recorded one.
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "drivers/asio/machine_loop.hpp"
#include "drivers/asio/packet_loop.hpp"
#include "mpa/quirks.hpp"
#include "replay/machine.hpp"
#include "tools/command.hpp"
#include "tools/pcap/capture.hpp"
#include "tools/pcap/capture_source.hpp"
#include "tools/provenance.hpp"
#include "tools/replay/replay_report.hpp"
#include "tools/replay/replay_sim.hpp"
#include "tools/rping/session.hpp"
#include "wire/ib/quirks.hpp"

namespace parley::tools {

namespace {

struct ReplayArgs {
  std::string file;
  std::string role;
  std::string against;
  std::string listen;
  std::string speed = "1";
  std::string pcapng;
  std::string connection;  ///< a number, "all", or empty
  std::vector<std::string> ignore;
  Duration timeout = std::chrono::seconds(5);
  Duration wait{};
  bool keep_going = false;
  bool list = false;
  bool verbose = false;
};

constexpr std::size_t file_max = std::size_t{256} << 20;  // octets; about 3x in memory. Longer files must be cut

Or<Bytes> read_whole(const std::string& path, draw::InputFile* input = nullptr) {
  const auto cannot = [&path](const std::string& why) {
    return command_error(Exit::environment, fmt::format("cannot read '{}': {}", path, why));
  };
  auto source = CaptureSource::open(path, input != nullptr);
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
      return command_error(
          Exit::environment,
          fmt::format("'{}' is longer than {} MiB: cut the connection out of it first", path, file_max >> 20));
  }
  if (const std::string& why = (*source)->error(); !why.empty()) return cannot(why);
  if (input != nullptr) *input = (*source)->input();
  return out;
}

/// Parses the speed relative to the recording: "1", "0.5", "10", "0", at most three decimal places.
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
    return command_error(Exit::usage,
                         fmt::format("'{}' is not a speed; use a number such as 1, 10, 0.5, or 0 for no pauses", text));
  out.speed_of = of;
  out.speed_in = in;
  return {};
}

/// The checked meaning of the command line.
struct Job {
  const ReplayArgs& args;
  ReplayRun run;
  replay::PlayOptions play;
  std::optional<std::string> quirk;  ///< of the simulated peer; none for a run over sockets
  Address where;
  bool listen = false;
};

/// Plays a recording of MPA over sockets: the machine for the loop, and its state.
struct LiveMpa {
  using Loop = asio_driver::MachineLoop;
  static constexpr const char* toward = "connect to";
  LiveMpa(const replay::Recording& recording, const Job& job)
      : player(recording, job.run.side, job.play), driven(player, job.where, job.listen) {}
  replay::PlayerMachine& machine() { return driven; }
  void start(Instant) {}
  bool over() const { return driven.over(); }
  std::optional<Address> listening() const { return driven.listening(); }
  std::string failed() const { return driven.failed() ? driven.failed().message() : std::string(); }
  bool cut_short(bool) { return !player.result().difference && StopSignals::requested(); }

  replay::Player player;
  replay::PlayerMachine driven;
};

/// The same for RoCE.
struct LiveRoce {
  using Loop = asio_driver::PacketLoop;
  static constexpr const char* toward = "reach";
  LiveRoce(const replay::RoceRecording& recording, const Job& job)
      : player(recording, job.run.side, job.play, {job.where, seed()}), listens(job.listen), where(job.where) {}
  /// Numbers are random, because a peer remembers those of earlier runs.
  static std::uint64_t seed() {
    std::random_device entropy;
    return std::uint64_t{entropy()} << 32 | entropy();
  }
  auto& machine() { return player.machine(); }
  void start(Instant now) { player.start(now); }
  bool over() const { return player.done(); }
  std::optional<Address> listening() const { return listens && player.local() ? std::optional(where) : std::nullopt; }
  const std::string& failed() const { return player.failed(); }
  bool cut_short(bool ended) const { return ended; }

  replay::RocePlayer player;
  bool listens;
  Address where;
};

LiveMpa live_of(const replay::Recording& recording, const Job& job) { return {recording, job}; }
LiveRoce live_of(const replay::RoceRecording& recording, const Job& job) { return {recording, job}; }

/// Plays over sockets until the recording ends, a signal arrives, or the wait for a connection times out.
template <class R>
Played play_live(const Job& job, const R& recording, Output& out) {
  const auto cannot = [&out](Exit exit, const std::string& why) { return Played{out.error(exit, why), {}}; };
  auto live = live_of(recording, job);
  auto& player = live.player;
  auto loop = decltype(live)::Loop::open(live.machine());
  if (!loop) return cannot(Exit::environment, "no sockets: " + loop.error().message());
  std::unique_ptr<CaptureWriter> capture;
  if (!job.args.pcapng.empty()) {
    auto made = CaptureWriter::create(job.args.pcapng);
    if (!made) return cannot(made.error().exit, made.error().text);
    capture = std::move(*made);
    (*loop)->set_tap([&capture](const auto& record) { capture->add(record); });
  }
  live.start((*loop)->now());
  const Instant give_up = job.args.wait == Duration{} ? never : (*loop)->now() + job.args.wait;
  bool told = false;
  while (!live.over() && !StopSignals::requested()) {
    (void)(*loop)->run_once(std::chrono::milliseconds(100));
    if (const auto at = live.listening(); at && !std::exchange(told, true)) {
      out.text(fmt::format("listening on {}", at->to_string()));
      out.object({{"event", "listening"}, {"local", at->to_string()}, {"port", at->port}});
    }
    if (!player.started() && (*loop)->now() >= give_up) break;
  }
  for (int i = 0; i < 10; ++i) (void)(*loop)->run_once(std::chrono::milliseconds(5));  // send the last packets
  if (capture)
    if (const auto written = capture->finish(); !written) return cannot(written.error().exit, written.error().text);
  if (const std::string why = live.failed(); !why.empty())
    return cannot(Exit::environment,
                  fmt::format("cannot {} {}: {}", job.listen ? "listen on" : live.toward, job.where.to_string(), why));
  if (!player.started())
    return cannot(Exit::environment, StopSignals::requested()
                                         ? "ended before anybody connected"
                                         : "no peer connected within " + duration_text(job.args.wait));
  const bool ended = !player.done();
  if (ended) player.fail("ended by a signal before the recording was over");
  Played played = print_result(out, job.run, player.result());
  if (live.cut_short(ended)) played.exit = code(Exit::environment);
  return played;
}

Or<ReplaySimResult> simulate(const Job& job, const replay::Recording& recording) {
  if (!mpa::find_quirk(*job.quirk))
    return command_error(
        Exit::usage, fmt::format("sim:{} plays a quirk of RoCE; against MPA use sim:parley or sim:siw", *job.quirk));
  return replay_in_simulator(recording, job.run.side,
                             {.play = job.play, .quirk = *job.quirk, .pcapng = job.args.pcapng});
}

Or<ReplaySimResult> simulate(const Job& job, const replay::RoceRecording& recording) {
  if (!wire::ib::find_quirk(*job.quirk))
    return command_error(
        Exit::usage, fmt::format("sim:{} plays a quirk of MPA; against RoCE use sim:parley or sim:rxe", *job.quirk));
  return replay_in_simulator(recording, job.run.side,
                             {.play = job.play, .quirk = *job.quirk, .pcapng = job.args.pcapng});
}

template <class R>
Played play_simulated(const Job& job, const R& recording, Output& out) {
  auto result = simulate(job, recording);
  if (!result) return {out.error(result.error().exit, result.error().text), {}};
  ReplayRun run = job.run;
  run.events = std::move(result->events);
  return print_result(out, run, result->played);
}

template <class R>
Played play(const Job& job, const R& recording, Output& out) {
  print_begin(out, job.run, recording);
  return job.quirk ? play_simulated(job, recording, out) : play_live(job, recording, out);
}

/// Returns the result, or why the connection cannot be played.
tl::expected<Played, std::string> play(const Job& job, ConstBytes file, const replay::Contents& contents,
                                       std::size_t number, Output& out) {
  const auto begin = [&](const auto& recording) -> tl::expected<Played, std::string> {
    if (std::string why = why_not_playable(recording, job.run.side); !why.empty())
      return tl::unexpected(std::move(why));
    return play(job, recording, out);
  };
  const capture::ConnectionReport& c = contents.report.connections[number - 1];
  if (c.ib != nullptr) return begin(replay::read_roce_recording(file, contents, number));
  return begin(replay::read_recording(file, contents, number));
}

/// Plays every connection of the file in turn. One that the recording does not contain completely enough is reported
/// and skipped. An unreachable peer ends the run.
int play_all(const Job& job, ConstBytes file, Output& out) {
  const replay::Contents contents = replay::list_connections(file);
  const std::size_t all = contents.report.connections.size();
  if (all == 0) return out.error(Exit::environment, fmt::format("{}: {}", job.args.file, contents.why_empty()));
  ReplayTotal total;
  for (std::size_t number = 1; number <= all && !StopSignals::requested(); ++number) {
    const capture::ConnectionReport& c = contents.report.connections[number - 1];
    tl::expected<Played, std::string> played = tl::unexpected(std::string("its handshake was not captured"));
    if (replay::set_up_captured(c)) played = play(job, file, contents, number, out);
    if (!played) {
      print_not_played(out, job.run, c, number, all, played.error());
      total.not_played.push_back(number);
      continue;
    }
    out.text("");
    total.add(number, *played);
    if (!job.quirk && played->exit == code(Exit::environment)) break;
  }
  return print_total(out, total, all, job.run);
}

/// The quirk after "sim:"; empty for "sim:parley", none if the text has no such prefix.
Or<std::optional<std::string>> simulated_peer(const std::string& against) {
  constexpr std::string_view prefix = "sim:";
  if (!against.starts_with(prefix)) return std::optional<std::string>{};
  const std::string name = against.substr(prefix.size());
  if (name == "parley") return std::optional<std::string>{""};
  if (name.empty() || (!mpa::find_quirk(name) && !wire::ib::find_quirk(name)))
    return command_error(
        Exit::usage,
        fmt::format("'{}' is not a simulated peer; use sim:parley, or sim: and a name of 'parley quirks'", against));
  return std::optional<std::string>{name};
}

int list(const ReplayArgs& args, Output& out) {
  const auto file = read_whole(args.file);
  if (!file) return out.error(file.error().exit, file.error().text);
  const replay::Contents contents = replay::list_connections(*file);
  print_contents(out, args.file, contents);
  // --list prepares a replay. A file without connections is therefore an error (docs/cli.md).
  const std::string wrong = contents.report.connections.empty() ? contents.why_empty() : contents.error;
  if (!wrong.empty()) return out.error(Exit::environment, args.file + ": " + wrong);
  return code(Exit::ok);
}

Or<replay::Ignored> parse_ignored(const std::vector<std::string>& fields) {
  replay::Ignored ignored;
  for (const std::string& name : fields) {
    const auto field = replay::find_compared(name);
    if (!field)
      return command_error(Exit::usage, fmt::format("--ignore: no field is named '{}'; there are: {}", name,
                                                    fmt::join(replay::compared_names(), ", ")));
    ignored.set(static_cast<std::size_t>(*field));
  }
  return ignored;
}

/// The connection's number; 0 if the text is empty or "all".
Or<std::size_t> parse_connection(const std::string& text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || text == "all" || (error == std::errc{} && end == text.data() + text.size())) return number;
  return command_error(Exit::usage, fmt::format("--connection: '{}' is neither a number nor all", text));
}

Or<Job> understand(const ReplayArgs& args) {
  Job job{.args = args, .run = {}, .play = {}, .quirk = {}, .where = {}, .listen = !args.listen.empty()};
  if (args.role.empty())
    return command_error(Exit::usage, "choose the side to play: --role initiator or --role responder");
  if (job.listen == !args.against.empty())
    return command_error(Exit::usage, job.listen ? "--against and --listen cannot be used together"
                                                 : "choose the live peer: --against or --listen");
  if (args.connection == "all" && !args.pcapng.empty())
    return command_error(Exit::usage, "--pcapng keeps one connection: choose it with --connection N instead of all");
  job.play.patience = args.timeout;
  job.play.keep_going = args.keep_going;
  if (const auto speed = parse_speed(args.speed, job.play); !speed) return tl::unexpected(speed.error());
  const auto ignored = parse_ignored(args.ignore);
  if (!ignored) return tl::unexpected(ignored.error());
  job.play.ignored = *ignored;
  auto simulated = simulated_peer(args.against);
  if (!simulated) return tl::unexpected(simulated.error());
  job.quirk = std::move(*simulated);
  job.run.file = args.file;
  job.run.against = job.listen ? "the peer that connects to " + args.listen : args.against;
  job.run.side = args.role == "initiator" ? capture::Side::initiator : capture::Side::responder;
  job.run.verbose = args.verbose;
  if (job.quirk) return job;
  if (job.listen != (job.run.side == capture::Side::responder))
    return command_error(Exit::usage, job.listen ? "an initiator connects: give --against instead of --listen"
                                                 : "a responder waits for a peer: give --listen instead of --against");
  const auto where = parse_address(job.listen ? args.listen : args.against, default_port);
  if (!where) return tl::unexpected(where.error());
  job.where = *where;
  return job;
}

int run_replay(const ReplayArgs& args, Output& out) {
  const auto number = parse_connection(args.connection);
  if (!number) return out.error(number.error().exit, number.error().text);
  if (args.list) return list(args, out);
  auto job = understand(args);
  if (!job) return out.error(job.error().exit, job.error().text);
  draw::InputFile input;
  const auto file = read_whole(args.file, &input);
  if (!file) return out.error(file.error().exit, file.error().text);
  job->run.provenance = provenance(out, {input});
  print_provenance(out, job->run.provenance);
  const StopSignals signals;
  if (args.connection == "all") return play_all(*job, *file, out);
  const replay::Contents contents = replay::list_connections(*file);
  const auto chosen = replay::choose_connection(contents, *number);
  if (!chosen) return out.error(Exit::environment, fmt::format("{}: {}", args.file, chosen.error()));
  const auto played = play(*job, *file, contents, *chosen, out);
  if (!played) return out.error(Exit::environment, fmt::format("{}: {}", args.file, played.error()));
  return played->exit;
}

}  // namespace

void register_replay(Command app, Context& context) {
  auto args = std::make_shared<ReplayArgs>();
  Command sub = app.subcommand("replay", "Replay one side of a recorded connection and compare the answers");
  sub.option("FILE", args->file, "Capture: pcap or pcapng; - is standard input").required();
  sub.option("--role", args->role, "The recorded side that is played").one_of({"initiator", "responder"});
  sub.option("--against", args->against,
             "HOST:PORT of a live responder; or sim:parley, Parley's own stack in the simulator; or sim:QUIRK, the "
             "same playing one of 'parley quirks'");
  sub.option("--listen", args->listen, "ADDRESS:PORT to wait for a live initiator; port 0: any free one, printed");
  sub.option("-n,--connection", args->connection,
             "The n-th connection of the file, if it has several; all: one after the other")
      .type("N|all");
  sub.option("--ignore", args->ignore,
             fmt::format("Report differences in these fields without counting them: {}",
                         fmt::join(replay::compared_names(), ", ")))
      .delimiter(',')
      .type("FIELD,...");
  sub.option("--speed", args->speed, "Recorded pauses are divided by this: 1 keeps them, 0 makes none").shows_default();
  add_duration(sub, "--timeout", args->timeout, "How much longer than the recorded side the live one may take");
  add_duration(sub, "--wait", args->wait, "With --listen: how long to wait for the connection (0: for ever)");
  sub.flag("--keep-going", args->keep_going, "Play on after a difference; the first one is reported all the same");
  sub.option("--pcapng", args->pcapng, "Write the live exchange to this file").type("FILE");
  sub.flag("--list", args->list, "List the connections of the file, of MPA and RoCE, and play nothing");
  sub.flag("-v,--verbose", args->verbose, "Show every step and every answer");
  add_json_flag(sub, context);
  sub.footer(
      "Exit code: 0 every answer means what the recorded one did, 1 there is a difference, 2 usage, 3 the recording "
      "cannot\nbe played or the peer not be reached; of all connections, the worst.\n\n"
      "Examples:\n"
      "  parley replay event.pcap --list\n"
      "  parley replay event.pcap -n 3 --role initiator --against 192.0.2.1:7174\n"
      "  parley replay event.pcap -n all --role initiator --against sim:parley --ignore C,IRD,ORD\n"
      "  parley replay event.pcap --role responder --listen 0.0.0.0:7174 --speed 0\n"
      "  parley replay event.pcap --role initiator --against sim:parley\n"
      "  parley replay event.pcap --role initiator --against sim:siw -v");
  sub.run([args, &context] { return run_replay(*args, context.out); });
}

}  // namespace parley::tools
