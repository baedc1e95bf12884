// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley cmtime`: the options, with the letters of cmtime(1), and the choice of the side.
#include "tools/cmtime/cmtime.hpp"

#include <memory>

#include "tools/command.hpp"

namespace parley::tools {

namespace {

class SessionHost final : public CmtimeHost {
 public:
  explicit SessionHost(Session& session) : session_(session) {}
  cm::Manager& cm() override { return session_.cm(); }
  Instant now() const override { return session_.now(); }
  void turn(Instant deadline) override { session_.turn(deadline); }
  void settle() override { session_.settle(); }
  bool stopped() const override { return Session::stopped(); }

 private:
  Session& session_;
};

int run_cmtime(const CmtimeArgs& args, Context& context) {
  const auto refuse = [&context](const CommandError& c) { return context.out.error(c.exit, c.text); };
  if (const auto fits = check_when_full(args.session, args.server.empty()); !fits) return refuse(fits.error());
  if (args.session.provider == "sim") {
    if (!args.server.empty() || !args.bind.empty())
      return refuse({Exit::usage, "--provider sim has both sides in one simulated network: leave -s and -b out"});
    return run_cmtime_sim(args, context);
  }
  const bool client = !args.server.empty();
  if (const auto fits = check_provider(args.session, {}); !fits) return refuse(fits.error());
  std::optional<Address> source;
  if (!args.bind.empty() || !client) {
    const auto from = parse_address(args.bind.empty() ? "0.0.0.0" : args.bind, client ? std::uint16_t{0} : args.port);
    if (!from) return refuse(from.error());
    source = *from;
  }
  std::optional<Address> server;
  if (client) {
    const auto found = parse_address(args.server, args.port);
    if (!found) return refuse(found.error());
    server = *found;
  }
  SessionOptions options = args.session;
  // A slow server may have to answer a thousand disconnects at once, so that each may take as long as the whole run.
  if (client) options.linger = args.timeout == Duration{} ? Duration(std::chrono::hours(1)) : args.timeout;
  auto session = Session::open(options, context.out);
  if (!session) return refuse(session.error());
  if (server) {
    SessionHost host(**session);
    return run_cmtime_client(args, *server, source, host, context);
  }
  return run_cmtime_server(args, *source, **session, context);
}

}  // namespace

void register_cmtime(Command app, Context& context) {
  auto args = std::make_shared<CmtimeArgs>();
  Command sub =
      app.subcommand("cmtime", "Time each step of connection set-up; interoperates with cmtime of rdmacm-utils");
  sub.option("-s", args->server, "Be a client of this server; without it, be the server").type("ADDRESS");
  sub.option("-b", args->bind, "Client: source address; server: address to listen on").type("ADDRESS");
  sub.option("-c", args->count, "Connections (0: client 100, server until interrupted)")
      .range(0U, 50000U)
      .shows_default();
  sub.option("-p", args->port, "Port; server: 0 takes any free one and prints it").shows_default();
  sub.option("--concurrency", args->concurrency, "Client: connections in set-up at once (0: all)").shows_default();
  add_duration(sub, "--timeout", args->timeout, "Client: longest time for all of it (0: no limit)");
  const auto provider =
      sub.option("--provider", args->session.provider,
                 "iwarp: plain TCP sockets, no NIC; roce: RoCEv2 on plain UDP sockets, no NIC; rdmacm: this machine's "
                 "RDMA devices; sim: both sides in virtual time")
          .one_of({"iwarp", "roce", "rdmacm", "sim"})
          .shows_default();
  add_roce_flag(sub, provider, args->session.provider);
  add_when_full_options(sub, args->session);
  add_offer_option(sub, args->session);
  add_json_flag(sub, context);
  sub.footer(
      "Examples:\n"
      "  parley cmtime                                        a server on port 7471\n"
      "  parley cmtime -s 192.0.2.1 -c 1000                   a thousand connections over plain sockets\n"
      "  parley cmtime -s 192.0.2.1 --provider rdmacm         over this machine's RDMA devices\n"
      "  parley cmtime -s 192.0.2.1 --concurrency 1 --json    one after the other\n"
      "  parley cmtime --provider sim -c 1000                 both sides, in a simulated network\n"
      "  cmtime -s 192.0.2.1                                  the stock client against parley cmtime --provider "
      "rdmacm");
  sub.run([args, &context] { return run_cmtime(*args, context); });
}

}  // namespace parley::tools
