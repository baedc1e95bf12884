// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley udping`: options, in the letters of udaddy(1), and the choice of the side.
#include "tools/udping/udping.hpp"

#include <memory>

#include <fmt/format.h>

#include "tools/command.hpp"
#include "tools/trace_sink.hpp"

namespace parley::tools {

namespace {

constexpr std::uint32_t udping_messages_max = 4096, udping_pairs_max = 1024;
constexpr std::uint32_t udping_octets_max = 1024;  // RoceProviderOptions::mtu

int run_udping(UdpingArgs& args, Context& context) {
  const auto refuse = [&context](const Complaint& c) { return context.out.error(c.exit, c.text); };
  const bool client = !args.server.empty();
  if (client && (args.persistent || args.reject))
    return refuse({Exit::usage, "-P and --reject are for the server, and -s makes this a client"});
  std::optional<Address> own, server;
  if (!args.bind.empty() || !client) {
    const auto found = parse_address(args.bind.empty() ? "0.0.0.0" : args.bind, client ? std::uint16_t{0} : args.port);
    if (!found) return refuse(found.error());
    own = *found;
  }
  if (client) {
    const auto found = parse_address(args.server, args.port);
    if (!found) return refuse(found.error());
    server = *found;
  }
  args.session.provider = "roce";
  auto session = Session::open(args.session, context.out);
  if (!session) return refuse(session.error());
  if (server) return run_udping_client(args, *server, own, **session, context);
  return run_udping_server(args, *own, **session, context);
}

}  // namespace

void register_udping(Command app, Context& context) {
  auto args = std::make_shared<UdpingArgs>();
  Command sub =
      app.subcommand("udping", "Datagrams to and fro over RoCEv2, with udaddy of rdmacm-utils or with itself");
  sub.option("-s", args->server, "Be a client of this server; without it, be the server").type("ADDRESS");
  sub.option("-b", args->bind, "Client: source address; server: address to listen on").type("ADDRESS");
  sub.option("-p", args->port, "Port; server: 0 takes any free one and prints it").shows_default();
  sub.option("-c", args->connections, "Queue pairs on each side; the server ends when it has served so many")
      .range(1U, udping_pairs_max)
      .shows_default();
  sub.option("-C", args->messages, "Messages each way for each queue pair; both sides need the same (0: none)")
      .range(0U, udping_messages_max)
      .shows_default();
  sub.option("-S", args->size, "Octets of each message; both sides need the same")
      .range(1U, udping_octets_max)
      .shows_default();
  sub.flag("-P", args->persistent, "Server: serve any number of clients, until interrupted");
  sub.flag("--reject", args->reject, "Server: reject every client");
  add_duration(
      sub, "--timeout", args->timeout,
      "Longest wait for an answer or the next message (0: no limit; the server waits without limit unless given)")
      .when_given([args] { args->timeout_given = true; });
  sub.option("--pcapng", args->session.pcapng, "Write the packets to this file").type("FILE");
  add_trace_option(sub, args->session.verbose);
  add_json_flag(sub, context);
  sub.footer(
      "Examples:\n"
      "  parley udping                               a server on port 7174\n"
      "  parley udping -s 192.0.2.1 -C 100 -S 1024   a hundred datagrams each way\n"
      "  udaddy -s 192.0.2.1                         the stock client against parley udping\n"
      "  parley udping -s 192.0.2.1                  against the stock server: udaddy");
  sub.run([args, &context] { return run_udping(*args, context); });
}

}  // namespace parley::tools
