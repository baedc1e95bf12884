// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "base/text.hpp"
#include "cm/ib_terms.hpp"
#include "cm/ibcm/busy.hpp"
#include "mpa/quirks.hpp"
#include "parley/tcp_host.hpp"
#include "tools/command.hpp"
#include "tools/hex.hpp"
#include "tools/rping/session.hpp"
#include "tools/rping/traffic.hpp"
#include "wire/ib/quirks.hpp"

namespace parley::tools {

namespace {

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return port;
}

struct TimeUnit {
  std::string_view name;
  double nanoseconds;
};
constexpr std::array<TimeUnit, 5> time_units = {{{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}}};
constexpr double longest_ns = 1e18;  // about 31 years; more would overflow sums of int64 nanoseconds

Or<Bytes> parse_hex(std::string_view digits) {
  Bytes octets;
  if (const std::string wrong = parse_hex_into(digits, octets, digits.size()); !wrong.empty())
    return command_error(Exit::usage, "private data: " + wrong);
  return octets;
}

/// Reads at most max + 1 octets, so that a huge file is rejected without being loaded.
Or<Bytes> read_file(const std::string& path, std::size_t max) {
  std::ifstream file(path, std::ios::binary);
  std::string content(max + 1, '\0');
  if (file) file.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (!file.is_open() || file.bad() || (file.fail() && !file.eof()))
    return command_error(Exit::environment, fmt::format("private data: cannot read '{}'", path));
  content.resize(static_cast<std::size_t>(file.gcount()));
  return Bytes(content.begin(), content.end());
}

Option add_rtr(Command sub, const std::string& name, mpa::Rtr& target, const std::string& help) {
  return sub
      .option(
          name,
          [name, &target](const std::string& text) {
            const auto rtr = mpa::parse_rtr(text);
            if (!rtr) return "'" + text + "' is not one of none, frame, send, write, read";
            target = *rtr;
            return std::string();
          },
          help)
      .type("FORM")
      .shows_default(std::string(mpa::to_string(target)));
}

std::string set_text(const mpa::RtrSet& set) {
  std::string text;
  for (const mpa::Rtr rtr : {mpa::Rtr::send, mpa::Rtr::write, mpa::Rtr::read})
    if (set.has(rtr)) text += (text.empty() ? "" : ",") + std::string(mpa::to_string(rtr));
  return text;
}

Option add_rtr_set(Command sub, const std::string& name, mpa::RtrSet& target, const std::string& help) {
  return sub
      .option(
          name,
          [name, &target](const std::vector<std::string>& names) {
            target = {};
            for (const std::string& text : names) {
              const auto rtr = mpa::parse_rtr(text);
              if (!rtr || *rtr == mpa::Rtr::none || *rtr == mpa::Rtr::frame)
                return "'" + text + "' is not one of send, write, read";
              target.send |= *rtr == mpa::Rtr::send;
              target.write |= *rtr == mpa::Rtr::write;
              target.read |= *rtr == mpa::Rtr::read;
            }
            return std::string();
          },
          help)
      .delimiter(',')
      .type("FORM,...")
      .shows_default(set_text(target));
}

Option add_depth(Command sub, const std::string& name, std::uint16_t& target, const std::string& help) {
  return sub
      .option(
          name,
          [name, &target](const std::string& text) {
            const auto depth = parse_port(text);
            if (text != "none" && (!depth || *depth > mpa::depth_max))
              return fmt::format("'{}' is not 0..{} or none", text, mpa::depth_max);
            target = text == "none" ? mpa::depth_not_negotiated : *depth;
            return std::string();
          },
          help)
      .type("N|none")
      .shows_default(std::to_string(target));
}

void add_quirk(Command sub, const std::string& name, std::string& target, const std::string& help) {
  sub.option(
         name,
         [name, &target](const std::string& text) {
           if (!mpa::find_quirk(text) && !wire::ib::find_quirk(text))
             return "no quirk is named '" + text + "' ('parley quirks' lists them)";
           target = text;
           return std::string();
         },
         help)
      .type("QUIRK");
}

}  // namespace

Or<Endpoint> parse_endpoint(std::string_view text, std::uint16_t port_if_none) {
  Endpoint endpoint{std::string(text), port_if_none};
  std::string_view port;
  bool has_port = false;
  const auto colons = std::count(text.begin(), text.end(), ':');
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return command_error(Exit::usage, fmt::format("'{}' lacks a ']'", text));
    endpoint.host = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    has_port = rest.starts_with(':');
    if (!rest.empty() && !has_port)
      return command_error(Exit::usage, fmt::format("'{}' is not HOST or HOST:PORT", text));
    if (has_port) port = rest.substr(1);
  } else if (colons == 1) {
    const auto colon = text.find(':');
    endpoint.host = text.substr(0, colon);
    port = text.substr(colon + 1);
    has_port = true;
  }
  if (has_port) {
    const auto number = parse_port(port);
    if (!number) return command_error(Exit::usage, fmt::format("'{}' is not a port (0..65535)", port));
    endpoint.port = *number;
  }
  if (endpoint.host.empty()) return command_error(Exit::usage, fmt::format("'{}' names no host", text));
  return endpoint;
}

namespace {

std::string why_unresolved(std::string_view host) {
  const std::size_t scope = host.find('%');
  if (scope == host.npos || !Address::parse(host.substr(0, scope))) return "no such host or address";
  return fmt::format("this host has no interface '{}'", printable(host.substr(scope + 1), false));
}

}  // namespace

Or<std::vector<Address>> resolve(const Endpoint& endpoint) {
  auto addresses = Host::resolve(endpoint.host, endpoint.port);
  if (!addresses || addresses->empty())
    return command_error(Exit::environment, fmt::format("cannot resolve '{}': {}", printable(endpoint.host, false),
                                                        why_unresolved(endpoint.host)));
  return *addresses;
}

Or<Address> parse_address(std::string_view text, std::uint16_t port_if_none) {
  const auto endpoint = parse_endpoint(text, port_if_none);
  if (!endpoint) return tl::unexpected(endpoint.error());
  const auto addresses = resolve(*endpoint);
  if (!addresses) return tl::unexpected(addresses.error());
  return addresses->front();
}

Result<Duration> parse_duration(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0) return fail(Errc::invalid_argument);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.empty() && number == 0) return Duration{0};
  for (const TimeUnit& known : time_units) {
    if (unit != known.name) continue;
    const double ns = number * known.nanoseconds;
    if (!(ns <= longest_ns)) return fail(Errc::invalid_argument);
    return Duration{std::llround(ns)};
  }
  return fail(Errc::invalid_argument);
}

std::string duration_text(Duration duration) {
  const std::int64_t ns = duration.count();
  if (ns == 0) return "0s";
  if (ns % 1'000'000'000 == 0) return fmt::format("{}s", ns / 1'000'000'000);
  if (ns % 1'000'000 == 0) return fmt::format("{}ms", ns / 1'000'000);
  return fmt::format("{}us", static_cast<double>(ns) / 1e3);
}

Option add_duration(Command sub, const std::string& name, Duration& target, const std::string& help) {
  return sub
      .option(
          name,
          [name, &target](const std::string& text) {
            const auto duration = parse_duration(text);
            if (!duration) return "'" + text + "' is not a time with a unit (250ms, 10s, 2m; units us ms s m h)";
            target = *duration;
            return std::string();
          },
          help)
      .type("TIME")
      .shows_default(duration_text(target));
}

Or<Bytes> load_private_data(const std::string& text, std::size_t max) {
  Or<Bytes> octets = Bytes{};
  std::string_view view = text;
  if (view.starts_with('@')) {
    octets = read_file(text.substr(1), max);
  } else if (view.starts_with("hex:")) {
    octets = parse_hex(view.substr(4));
  } else {
    if (view.starts_with("text:")) view.remove_prefix(5);
    octets = Bytes(view.begin(), view.end());
  }
  if (octets && octets->size() > max)
    return command_error(
        Exit::usage,
        fmt::format("private data: {} octets{}, at most {} fit{}", octets->size(),
                    view.starts_with('@') ? " or more" : "", max,
                    max == mpa::private_data_room(2) ? " (revision 2 takes 4 of 512 for IRD and ORD)" : ""));
  return octets;
}

void add_mpa_options(Command sub, MpaArgs& args) {
  mpa::StartupOptions& mpa = args.mpa;
  sub.option(
         "--revision", [&mpa](std::uint16_t revision) { mpa.revision = static_cast<std::uint8_t>(revision); },
         "MPA revision: 1 (RFC 5044) or 2 (RFC 6581); a responder accepts this revision and lower ones")
      .one_of_numbers({1, 2})
      .type("1|2")
      .shows_default(std::to_string(mpa.revision));
  sub.flag("--crc,!--no-crc", mpa.crc, "Ask for CRC32c (the default), or agree to do without");
  sub.flag("--markers,!--no-markers", mpa.markers, "Require markers in what this side receives");
  add_depth(sub, "--ird", mpa.ird, "Inbound RDMA Reads this side can hold; none: leave it to the ULP (0x3FFF)");
  add_depth(sub, "--ord", mpa.ord, "Outbound RDMA Reads this side wants; none: leave it to the ULP (0x3FFF)");
  add_depth(sub, "--ird-max", mpa.ird_max, "To how much IRD may be raised to meet the peer's ORD");
  sub.option("--private-data", args.private_data, "Private data: text, hex:00ff..., @FILE, or text:...").type("DATA");
  sub.option("--private-data-max", mpa.private_data_max, "Longest private data taken from the peer")
      .range(0, mpa::private_data_room(1))
      .shows_default();
  add_quirk(sub, "--peer-quirk", mpa.peer_quirk, "Tolerate the known departures of this peer ('parley quirks')");
  add_quirk(sub, "--play-quirk", mpa.play_quirk, "Play this peer's departures, for tests ('parley quirks')");
}

void add_initiator_options(Command sub, MpaArgs& args) {
  mpa::StartupOptions& mpa = args.mpa;
  add_rtr(sub, "--rtr", mpa.rtr, "Ready-to-receive this side sends first: none, frame (2007), send, write, read");
  add_rtr_set(sub, "--rtr-offer", mpa.rtr_offer, "Revision 2: further forms it can send (flags B, C, D)");
  sub.flag("--rtr-by-s", mpa.rtr_by_s, "Revision 1: announce the form of --rtr with the S flag");
  add_rtr(sub, "--rtr-fallback", mpa.rtr_fallback, "Revision 1: form to use when the Reply does not confirm S");
  sub.option(
         "--rtr-spelling",
         [&mpa](const std::string& text) {
           mpa.rtr_spelling = text == "hex" ? mpa::RtrSpelling::hex : mpa::RtrSpelling::text;
           return std::string();
         },
         "Key of the Rtr frame: text is 'MPA ID Rtr Frame', hex is 'MPA ID RtR Frame'")
      .one_of({"text", "hex"})
      .type("text|hex")
      .shows_default("text");
  sub.flag("!--no-v1-retry", mpa.fall_back_to_v1,
           "Do not try again with revision 1 when the peer closes on revision 2");
  add_duration(sub, "--reply-timeout", mpa.timeouts.reply, "Longest wait for the Reply").when_given([&args] {
    args.reply_timeout_set = true;
  });
}

void add_responder_options(Command sub, MpaArgs& args) {
  mpa::StartupOptions& mpa = args.mpa;
  sub.flag("!--no-rtr-frame", mpa.accept_rtr_frame,
           "Do not support the Rtr frame of 2007 (never confirm S on revision 1)");
  add_rtr_set(sub, "--rtr-accept", mpa.rtr_accept, "Revision 2: ready-to-receive forms taken");
  add_rtr(sub, "--rtr-expected", mpa.rtr_expected, "Revision 1: form to wait for although nothing announced it");
  add_duration(sub, "--request-timeout", mpa.timeouts.request, "Longest wait for a whole Request");
  add_duration(sub, "--rtr-timeout", mpa.timeouts.rtr, "Longest wait for the agreed ready-to-receive");
  add_duration(sub, "--first-fpdu-timeout", mpa.timeouts.first_fpdu,
               "Without ready-to-receive: longest wait for the first FPDU (0: for ever)");
}

void add_traffic_options(Command sub, TrafficOptions& options) {
  sub.option("--send", options.sends, "Send this many messages once established").type("N");
  sub.option("--expect", options.expect, "Receive this many messages before disconnecting").type("N");
  sub.option("--size", options.size, "Octets of each message sent, and the longest received")
      .range(0, 16 << 20)
      .type("N")
      .shows_default();
}

void add_session_options(Command sub, SessionOptions& options) {
  sub.option("--pcapng", options.pcapng, "Write what went over the sockets to this file").type("FILE");
  add_log_options(sub, options.log);
  add_metrics_options(sub, options.metrics);
}

void add_provider_option(Command sub, SessionOptions& options) {
  const auto provider =
      sub.option("--provider", options.provider,
                 "iwarp: plain TCP sockets, no NIC; roce: RoCEv2 on plain UDP sockets, no NIC; rdmacm: this machine's "
                 "RDMA devices ('parley doctor')")
          .one_of({"iwarp", "roce", "rdmacm"})
          .shows_default();
  add_roce_flag(sub, provider, options.provider);
}

void add_roce_flag(Command sub, Option provider, std::string& chosen) {
  sub.flag(
         "--roce", [&chosen] { chosen = "roce"; }, "The same as --provider roce")
      .excludes(provider);
}

void add_qp_type_option(Command sub, SessionOptions& options) {
  sub.option("--qp-type", options.qp_type,
             "roce, rdmacm: of the queue pairs, the same on both sides; with xrc no messages are sent")
      .one_of({"rc", "uc", "xrc"})
      .shows_default();
}

QpType qp_type_of(const SessionOptions& options, bool listens) {
  if (options.qp_type == "uc") return QpType::uc;
  if (options.qp_type == "xrc") return listens ? QpType::xrc_tgt : QpType::xrc_ini;
  return QpType::rc;
}

Or<void> check_qp_type(const SessionOptions& session, const TrafficOptions& traffic) {
  if (session.qp_type != "rc" && session.provider == "iwarp")
    return command_error(Exit::usage, fmt::format("--qp-type {}: iWARP has RC alone", session.qp_type));
  if (session.qp_type == "xrc" && traffic.any())
    return command_error(Exit::usage, "--qp-type xrc sends no messages: 'parley xrc demo' does");
  return {};
}

void add_provider_options(Command sub, SessionOptions& options) {
  add_provider_option(sub, options);
  sub.option("--device", options.device, "rdmacm: the device for a client's buffers, if there are several")
      .type("NAME");
  sub.option("--timers", options.timers,
             "roce: when messages of the CM are sent again: back-off, first after 50 ms; spec, after the response "
             "timeouts of IBA, 4.3 s")
      .one_of({"back-off", "spec"})
      .shows_default();
}

void add_liveness_options(Command sub, SessionOptions& options) {
  add_duration(sub, "--keepalive", options.liveness.keepalive,
               "Ask a silent peer whether it is there after this time (0: never)")
      .when_given([&options] { options.keepalive_given = true; });
  add_duration(sub, "--dead-after", options.liveness.dead_after,
               "A peer that answers nothing for this time is dead (0: never)")
      .when_given([&options] { options.dead_after_given = true; });
}

void add_when_full_options(Command sub, SessionOptions& options) {
  sub.option("--when-full", options.when_full,
             "roce: the answer to a REQ when the listener is full: mra, wait and retransmit; retry-after, the time of "
             "--retry-after for those that heed it; refuse, REJ 3; drop, nothing")
      .one_of({"mra", "retry-after", "refuse", "drop"})
      .shows_default();
  add_duration(sub, "--retry-after", options.retry_after,
               "roce: when peers may come again, with --when-full retry-after")
      .when_given([&options] { options.retry_after_given = true; });
}

void add_offer_option(Command sub, SessionOptions& options) {
  sub.flag("--offer-retry-after", options.offer_retry_after,
           "roce: announce in REQs that this side honours a retry-after, in 8 of their 56 octets of private data");
}

Or<void> check_when_full(const SessionOptions& session, bool listens) {
  constexpr Duration least = cm::ibcm::busy::retry_after_min, most = cm::ibcm::busy::retry_after_max;
  const bool full = session.when_full != "mra" || session.retry_after_given;
  if (session.provider != "roce" && (full || session.offer_retry_after))
    return command_error(Exit::usage, fmt::format("{} is about Parley's RoCE: it belongs to --provider roce",
                                                  session.offer_retry_after    ? "--offer-retry-after"
                                                  : session.when_full != "mra" ? "--when-full"
                                                                               : "--retry-after"));
  if (!listens && full) return command_error(Exit::usage, "--when-full and --retry-after are for the listening side");
  if (listens && session.offer_retry_after)
    return command_error(Exit::usage, "--offer-retry-after is for the connecting side");
  if (session.retry_after_given && session.when_full != "retry-after")
    return command_error(Exit::usage, "--retry-after needs --when-full retry-after");
  if (session.retry_after < least || session.retry_after > most)
    return command_error(Exit::usage,
                         fmt::format("--retry-after {}: it is {} to {}", duration_text(session.retry_after),
                                     duration_text(least), duration_text(most)));
  return {};
}

namespace {

/// --play-quirk and --peer-quirk accept quirks of both transports, and each must belong to the chosen one.
Or<void> check_quirks(const SessionOptions& session, const MpaArgs& args) {
  const bool roce = session.provider == "roce";
  for (const auto& [option, name] :
       {std::pair("--peer-quirk", args.mpa.peer_quirk), {"--play-quirk", args.mpa.play_quirk}}) {
    if (!args.was_given(option)) continue;
    if (roce ? !wire::ib::find_quirk(name) : !mpa::find_quirk(name))
      return command_error(Exit::usage, fmt::format("{} {}: that peer speaks {} ('parley quirks' lists both)", option,
                                                    name, roce ? "MPA; this side RoCE" : "RoCE; this side MPA"));
  }
  return {};
}

}  // namespace

std::string played_over_roce(const MpaArgs& args) {
  return args.was_given("--play-quirk") ? args.mpa.play_quirk : std::string();
}

Or<void> check_provider(const SessionOptions& session, const MpaArgs& args) {
  if (session.provider != "rdmacm" && !session.device.empty())
    return command_error(Exit::usage, "--device names an RDMA device: it belongs to --provider rdmacm");
  if (session.provider != "roce" && session.timers != "back-off")
    return command_error(Exit::usage, "--timers are those of Parley's RoCE: they belong to --provider roce");
  if (session.provider != "rdmacm")
    if (auto known = check_quirks(session, args); !known) return known;
  if (session.provider == "iwarp") return {};
  const bool roce = session.provider == "roce";
  for (const std::string_view option : {"--backlog", "--tcp-timeout", "--nudge-after"})
    if (roce && args.was_given(option))
      return command_error(Exit::usage, fmt::format("{} is about TCP; with --provider roce there is none", option));
  // Settings are defaults of the machine for both providers. Only options on the command line are rejected.
  const bool no_crc = args.was_given("--no-crc") && !args.mpa.crc;
  const bool markers = args.was_given("--markers") && args.mpa.markers;
  for (const std::string_view option : {"--revision",
                                        "--no-crc",
                                        "--markers",
                                        "--ird-max",
                                        "--private-data-max",
                                        "--peer-quirk",
                                        "--play-quirk",
                                        "--rtr",
                                        "--rtr-offer",
                                        "--rtr-by-s",
                                        "--rtr-fallback",
                                        "--rtr-spelling",
                                        "--no-v1-retry",
                                        "--no-rtr-frame",
                                        "--rtr-accept",
                                        "--rtr-expected",
                                        "--request-timeout",
                                        "--rtr-timeout",
                                        "--first-fpdu-timeout",
                                        "--pcapng"}) {
    if (roce && (option == "--pcapng" || option == "--play-quirk")) continue;
    if (option == "--no-crc" ? !no_crc : option == "--markers" ? !markers : !args.was_given(option)) continue;
    return command_error(
        Exit::usage,
        fmt::format("{} is about MPA on sockets; with --provider {} {}", option, session.provider,
                    roce ? "InfiniBand's CM sets connections up" : "the kernel and the NIC speak the protocol"));
  }
  return {};
}

Or<void> check_answer_data(const SessionOptions& session, ConstBytes data, bool reject) {
  const std::size_t most = reject ? cm::ib_private_data.reject : cm::ib_private_data.reply;
  if (session.provider != "roce" || data.size() <= most) return {};
  return command_error(Exit::usage, fmt::format("private data: {} octets, at most {} fit into a {} of InfiniBand's CM",
                                                data.size(), most, reject ? "REJ" : "REP"));
}

Or<Bytes> settle(MpaArgs& args) {
  mpa::StartupOptions& mpa = args.mpa;
  if (mpa.rtr == mpa::Rtr::frame && mpa.revision != 1 && args.was_given("--revision")) {
    if (args.was_given("--rtr"))
      return command_error(Exit::usage, "--rtr frame belongs to revision 1 (OFA 2007-10 Rtr §1): use --revision 1");
    mpa.rtr = mpa::StartupOptions{}.rtr;
  }
  if (mpa.rtr == mpa::Rtr::frame) mpa.revision = 1;
  if (mpa.rtr_fallback == mpa::Rtr::frame)
    return command_error(Exit::usage, "--rtr-fallback frame cannot be: without S the peer does not know the frame");
  if (mpa.rtr_expected == mpa::Rtr::frame)
    return command_error(Exit::usage, "--rtr-expected frame cannot be: the frame is always announced with S");
  return load_private_data(args.private_data, mpa::private_data_room(mpa.revision));
}

bool send_rtr_takes_receive(const mpa::Parameters& agreed, const mpa::Options& options) {
  const bool consumed =
      agreed.answered.has(mpa::Rtr::send) || agreed.announced || options.rtr_expected == mpa::Rtr::send;
  return agreed.rtr == mpa::Rtr::send && !consumed;
}

}  // namespace parley::tools
