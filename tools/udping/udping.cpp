// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley udping`: the options, with the letters of udaddy(1) and mckey(1), and the choice of the role.
#include "tools/udping/udping.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/gid.hpp"
#include "tools/command.hpp"
#include "tools/trace_sink.hpp"

namespace parley::tools {

namespace {

constexpr std::uint32_t udping_messages_max = 4096, udping_pairs_max = 1024;
constexpr std::uint32_t udping_octets_max = 1024;  // RoceProviderOptions::mtu

/// Rejects options that have no meaning with -m. `given`: names of options on the command line.
Or<void> check_group_options(const UdpingArgs& args, const std::vector<std::string>& given) {
  for (const std::string& option : given)
    for (const std::string_view other : {"-s", "-p", "-c", "-P", "--reject"})
      if (option == other)
        return command_error(Exit::usage,
                             fmt::format("{} is about clients and servers, and -m makes this a {} of a group", other,
                                         args.send ? "sender" : "receiver"));
  if (args.send && args.bind.empty())
    return command_error(Exit::usage, "--send needs -b ADDRESS, by whose interface the messages leave");
  return {};
}

/// Runs a receiver or a sender of a multicast group.
int run_group(UdpingArgs& args, const std::vector<std::string>& given, Context& context) {
  const auto refuse = [&context](const CommandError& c) { return context.out.error(c.exit, c.text); };
  if (const auto fits = check_group_options(args, given); !fits) return refuse(fits.error());
  const auto group = parse_address(args.group, 0);
  if (!group) return refuse(group.error());
  if (!is_multicast(gid_of(*group)) || group->port != 0)
    return refuse({Exit::usage, fmt::format("-m {}: no multicast address (224.0.0.0/4, ff00::/8)", args.group)});
  if (args.bind.empty()) args.bind = group->family == Address::Family::v4 ? "0.0.0.0" : "::";
  const auto local = parse_address(args.bind, 0);
  if (!local) return refuse(local.error());
  const auto refuse_bind = [&](std::string_view why) {
    return refuse({Exit::usage, fmt::format("-b {}: {}", args.bind, why)});
  };
  if (args.send && local->is_any())
    return refuse_bind("--send needs one address, by whose interface the messages leave");
  if (local->family != group->family) return refuse_bind("the group is of the other family of addresses");
  if (args.session.provider != "roce")
    return refuse({Exit::usage, "-m needs --provider roce: groups on real NICs are not there"});
  auto session = Session::open(args.session, context.out);
  if (!session) return refuse(session.error());
  return run_udping_group(args, *group, *local, **session, context);
}

int run_udping(UdpingArgs& args, const std::vector<std::string>& given, Context& context) {
  const auto refuse = [&context](const CommandError& c) { return context.out.error(c.exit, c.text); };
  if (!args.group.empty()) return run_group(args, given, context);
  if (args.send) return refuse({Exit::usage, "--send needs -m GROUP"});
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
  if (args.session.provider != "roce" && !args.session.pcapng.empty())
    return refuse(
        {Exit::usage, "--pcapng is for --provider roce: the packets of a NIC do not pass through this program"});
  if (args.session.provider != "rdmacm" && !args.session.device.empty())
    return refuse({Exit::usage, "--device names an RDMA device: it belongs to --provider rdmacm"});
  auto session = Session::open(args.session, context.out);
  if (!session) return refuse(session.error());
  if (server) return run_udping_client(args, *server, own, **session, context);
  return run_udping_server(args, *own, **session, context);
}

}  // namespace

void register_udping(Command app, Context& context) {
  auto args = std::make_shared<UdpingArgs>();
  Command sub = app.subcommand("udping", "Datagrams over RoCEv2; interoperates with udaddy and mckey of rdmacm-utils");
  sub.option("-s", args->server, "Be a client of this server; without it, be the server").type("ADDRESS");
  sub.option("-b", args->bind, "Client: source address; server: address to listen on; group: whose interface to use")
      .type("ADDRESS");
  sub.option("-m,--group", args->group, "Receive from this multicast group, as mckey does").type("ADDRESS");
  sub.flag("--send", args->send, "Group: send to it");
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
  add_duration(sub, "--timeout", args->timeout,
               "Longest wait for an answer or the next message (0: no limit; server and receiver wait without limit "
               "unless given)")
      .when_given([args] { args->timeout_given = true; });
  sub.option("--provider", args->session.provider,
             "roce: RoCEv2 on plain UDP sockets, no NIC; rdmacm: this machine's RDMA devices ('parley doctor')")
      .one_of({"roce", "rdmacm"})
      .shows_default();
  sub.option("--device", args->session.device, "rdmacm: the device for a client's buffers, if there are several")
      .type("NAME");
  sub.option("--pcapng", args->session.pcapng, "Write the packets to this file").type("FILE");
  add_trace_option(sub, args->session.verbose);
  add_json_flag(sub, context);
  sub.footer(
      "Examples:\n"
      "  parley udping                               a server on port 7174\n"
      "  parley udping -s 192.0.2.1 -C 100 -S 1024   a hundred datagrams each way\n"
      "  udaddy -s 192.0.2.1                         the stock client against parley udping\n"
      "  parley udping -s 192.0.2.1                  against the stock server: udaddy\n"
      "  parley udping -m 239.1.2.3                  ten messages from a group; mckey -m 239.1.2.3 -s sends them\n"
      "  parley udping -m 239.1.2.3 -b 192.0.2.2 --send   ten messages to it, which mckey -m 239.1.2.3 receives");
  sub.run([args, sub, &context] { return run_udping(*args, sub.given(), context); });
}

}  // namespace parley::tools
