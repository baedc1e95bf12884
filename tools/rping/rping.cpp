// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley rping`: the options, with the letters of rping(1), and the choice of client or server.
#include "tools/rping/rping.hpp"
#include "tools/command.hpp"
#include "tools/ops/config.hpp"
#include "tools/trace_sink.hpp"

#include <memory>

#include <fmt/format.h>

namespace parley::tools {

namespace {

/// Metrics settings apply to the server only. Any number of clients may run at the same time, and each would use the
/// server's file and port.
void drop_settings_of_metrics(RpingArgs& args) {
  if (!args.mpa.was_given("--metrics")) args.session.metrics.file.clear();
  if (!args.mpa.was_given("--metrics-http")) args.session.metrics.http.clear();
  if (!args.mpa.was_given("--metrics-interval")) args.session.metrics.interval = MetricsArgs{}.interval;
}

int run_rping(RpingArgs& args, Context& context) {
  const auto refuse = [&context](const CommandError& c) { return context.out.error(c.exit, c.text); };
  if (args.client && args.address.empty()) return refuse({Exit::usage, "the client needs -a ADDRESS of the server"});
  if (args.client) drop_settings_of_metrics(args);
  auto data = settle(args.mpa);
  if (!data) return refuse(data.error());
  if (const auto fits = check_provider(args.session, args.mpa); !fits) return refuse(fits.error());
  if (const auto fits = check_when_full(args.session, args.server); !fits) return refuse(fits.error());
  if (!args.client)
    if (const auto fits = check_answer_data(args.session, *data, false); !fits) return refuse(fits.error());
  args.session.play_quirk = played_over_roce(args.mpa);
  const auto endpoint = parse_endpoint(args.address.empty() ? "0.0.0.0" : args.address, args.port);
  if (!endpoint) return refuse(endpoint.error());
  auto addresses = resolve(*endpoint);
  if (!addresses) return refuse(addresses.error());
  std::optional<Address> source;
  if (!args.source.empty()) {
    const auto from = parse_address(args.source, 0);
    if (!from) return refuse(from.error());
    source = *from;
  }
  auto session = Session::open(args.session, context.out);
  if (!session) return refuse(session.error());
  if (args.server) return run_rping_server(args, std::move(*data), addresses->front(), **session, context);
  return run_rping_client(args, std::move(*data), std::move(*addresses), source, **session, context);
}

void add_rping_letters(Command sub, RpingArgs& args) {
  Command side = sub.one_of("side", "Which side to be");
  side.flag("-s", args.server, "Run as the server");
  side.flag("-c", args.client, "Run as the client");
  sub.option("-a", args.address, "Server: address to listen on (::0 for any IPv6); client: the server's address")
      .type("ADDRESS");
  sub.option("-I", args.source, "Client: source address").type("ADDRESS");
  sub.option("-p", args.port, "Port; server: 0 takes any free one and prints it").shows_default();
  add_trace_option(sub, args.session.verbose, "Print the ping data, and ");
  sub.flag("-V", args.validate, "Validate the ping data");
  sub.flag("-d", args.debug, "Print each step");
  sub.option("-C", args.count, "Pings over the connection (0: without end)").shows_default();
  sub.option("-S", args.size, "Octets of each ping; the server takes any size up to the maximum")
      .range(1U, rping_size_max)
      .shows_default();
  sub.flag("-P", args.persistent, "Server: serve any number of clients, at the same time too, until interrupted");
  sub.flag("-q", args.own_qp, "Accepted for compatibility: Parley always makes the queue pair itself");
}

}  // namespace

void register_rping(Command app, Context& context) {
  auto args = std::make_shared<RpingArgs>();
  Command sub = app.subcommand("rping", "RDMA ping-pong; interoperates with rping of rdmacm-utils");
  add_rping_letters(sub, *args);
  add_mpa_options(sub, args->mpa);
  add_initiator_options(sub, args->mpa);
  add_responder_options(sub, args->mpa);
  add_duration(sub, "--tcp-timeout", args->tcp_timeout, "Client: longest wait for the TCP connection");
  add_duration(sub, "--timeout", args->timeout,
               "Longest wait for the peer's next message (0: no limit, the server's default)")
      .when_given([args] { args->timeout_given = true; });
  add_duration(sub, "--nudge-after", args->nudge_after,
               "Client: if the first message is unanswered for this long, send a zero-length RDMA Write (0: never)");
  sub.option("--retry", args->retries, "Client: connect again so often when the first message stays unanswered")
      .shows_default();
  add_session_options(sub, args->session);
  add_liveness_options(sub, args->session);
  add_provider_options(sub, args->session);
  add_when_full_options(sub, args->session);
  add_offer_option(sub, args->session);
  add_json_flag(sub, context);
  add_settings(sub, context);
  sub.footer(
      "Examples:\n"
      "  parley rping -s -P                          serve everybody on port 7174\n"
      "  parley rping -c -a 192.0.2.1 -C 100 -S 4096 -V -v\n"
      "  parley rping -c -a fe80::1%eth0 -C 10       IPv6 link-local\n"
      "  parley rping -s -a ::0 -p 0 --json          any IPv6, a free port\n"
      "  rping -c -a 192.0.2.1 -C 10 -v              the stock client against parley rping -s");
  sub.run([args, sub, &context] {
    args->mpa.given = sub.given();
    return run_rping(*args, context);
  });
}

}  // namespace parley::tools
