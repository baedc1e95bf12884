// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley extcap`: Wireshark's interface to external capture programs (extcap(4)). It lists the interfaces, their link
// types and their options, and then captures into a FIFO. Parley's interfaces are the simulator's shipped scenarios and
// its own endpoints. The capture itself is `parley sim run`, `parley listen` or `parley connect`, which replaces this
// process.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <sstream>

#include <fmt/format.h>

#include "tools/command.hpp"
#include "tools/options.hpp"
#include "tools/sim/sim_files.hpp"

namespace parley::tools {

namespace {

struct ExtcapArgs {
  bool interfaces = false, dlts = false, config = false, capture = false;
  std::string version, interface, filter, fifo;
  std::string seed, endpoint, options;
};

constexpr std::string_view scenario_prefix = "parley-sim-";

/// One of Parley's own endpoints: its interface, the command behind it, and the endpoint that it listens on or connects
/// to.
struct OwnEndpoint {
  std::string_view interface, command, display, endpoint_display, endpoint;
};
constexpr OwnEndpoint owns[] = {
    {"parley-listen", "listen", "Parley: a listening endpoint", "Address and port to listen on", "0.0.0.0:7175"},
    {"parley-connect", "connect", "Parley: a connecting endpoint", "Host and port to connect to", "127.0.0.1:7175"}};

const OwnEndpoint* find_own(std::string_view interface) {
  for (const OwnEndpoint& own : owns)
    if (own.interface == interface) return &own;
  return nullptr;
}

/// The scenario of an interface; empty if it has none.
std::string scenario_of(std::string_view interface) {
  if (!interface.starts_with(scenario_prefix)) return {};
  const std::string name(interface.substr(scenario_prefix.size()));
  for (const std::string& known : shipped_scenarios())
    if (known == name) return name;
  return {};
}

void print_extcap_interfaces(Output& out) {
  out.verbatim(fmt::format("extcap {{version={}}}{{display=Parley}}", PARLEY_VERSION));
  for (const OwnEndpoint& own : owns)
    out.verbatim(fmt::format("interface {{value={}}}{{display={}}}", own.interface, own.display));
  for (const std::string& name : shipped_scenarios())
    out.verbatim(fmt::format("interface {{value={}{}}}{{display=Parley, simulated: {}}}", scenario_prefix, name, name));
}

void list_options(const OwnEndpoint* own, Output& out) {
  if (own == nullptr) {
    out.verbatim(
        "arg {number=0}{call=--seed}{display=Seed}{type=string}{required=false}"
        "{tooltip=Decimal or 0x hexadecimal; the scenario's own unless given}");
    return;
  }
  out.verbatim(fmt::format("arg {{number=0}}{{call=--endpoint}}{{display={}}}{{type=string}}{{default={}}}",
                           own->endpoint_display, own->endpoint));
  out.verbatim(
      fmt::format("arg {{number=1}}{{call=--options}}{{display=Options of parley {}}}{{type=string}}{{required=false}}"
                  "{{tooltip=As on the command line, such as --revision 1 --markers; parley {} --help lists them}}",
                  own->command, own->command));
}

/// Replaces this process with the command, so that Wireshark's signals reach it. Returns only on failure.
int become(const std::vector<std::string>& words, Output& out) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv("/proc/self/exe", argv.data());
  return out.error(Exit::environment, fmt::format("cannot start parley {}: {}", words[1], std::strerror(errno)));
}

int capture(const ExtcapArgs& args, const OwnEndpoint* own, const std::string& scenario, Output& out) {
  // Wireshark calls this without a FIFO to validate a filter: any output is the reason why the filter is invalid.
  if (!args.filter.empty())
    return out.error(Exit::usage, "these interfaces take no capture filter; filter what is shown instead");
  if (args.fifo.empty()) return args.capture ? out.error(Exit::usage, "--fifo FILE is missing") : code(Exit::ok);
  if (own == nullptr) {
    std::vector<std::string> words{"parley", "sim", "run", scenario, "--pcapng", args.fifo};
    if (!args.seed.empty()) words.insert(words.end(), {"--seed", args.seed});
    return become(words, out);
  }
  std::vector<std::string> words{"parley", std::string(own->command)};
  std::istringstream options(args.options);
  for (std::string word; options >> word;) words.push_back(word);
  words.insert(words.end(),
               {"--pcapng", args.fifo, args.endpoint.empty() ? std::string(own->endpoint) : args.endpoint});
  return become(words, out);
}

int run_extcap(const ExtcapArgs& args, Output& out) {
  if (args.interfaces) {
    print_extcap_interfaces(out);
    return code(Exit::ok);
  }
  const OwnEndpoint* own = find_own(args.interface);
  const std::string scenario = scenario_of(args.interface);
  if (own == nullptr && scenario.empty())
    return out.error(Exit::usage, fmt::format("no interface '{}'; --extcap-interfaces lists them", args.interface));
  if (args.dlts) {
    out.verbatim("dlt {number=1}{name=EN10MB}{display=Ethernet}");
    return code(Exit::ok);
  }
  if (args.config) {
    list_options(own, out);
    return code(Exit::ok);
  }
  if (!args.capture)
    return out.error(Exit::usage, "say what to do: --extcap-interfaces, --extcap-dlts, --extcap-config or --capture");
  return capture(args, own, scenario, out);
}

}  // namespace

void register_extcap(Command app, Context& context) {
  auto args = std::make_shared<ExtcapArgs>();
  Command sub = app.subcommand("extcap", "Capture from scenarios and endpoints in Wireshark (extcap)");
  sub.flag("--extcap-interfaces", args->interfaces, "List the interfaces");
  sub.option("--extcap-version", args->version, "Wireshark's version, which changes nothing").type("VERSION");
  sub.option("--extcap-interface", args->interface, "The interface that is meant").type("INTERFACE");
  sub.flag("--extcap-dlts", args->dlts, "Say what the interface captures");
  sub.flag("--extcap-config", args->config, "List what can be chosen for the interface");
  sub.option("--extcap-capture-filter", args->filter, "A capture filter; not supported by any interface")
      .type("FILTER");
  sub.flag("--capture", args->capture, "Capture until it is over, or the FIFO's reader goes, or a signal comes");
  sub.option("--fifo", args->fifo, "Where the capture goes, as pcapng").type("FILE");
  sub.option("--seed", args->seed, "Seed of the simulated scenario, in place of its own").type("N");
  sub.option("--endpoint", args->endpoint, "Of Parley's own endpoints: where to listen, where to connect to")
      .type("HOST:PORT");
  sub.option("--options", args->options, "Of Parley's own endpoints: options of parley listen or parley connect")
      .type("WORDS");
  sub.footer(
      "Wireshark runs it so, by the name parley-extcap in its extcap folder ('./dev install-plugin'; "
      "docs/wireshark.md).\n\n"
      "Examples:\n"
      "  tshark -D\n"
      "  tshark -i parley-sim-lossy_handshake\n"
      "  tshark -i parley-listen -o extcap.parley_listen.endpoint:0.0.0.0:7471");
  sub.run([args, &context] { return run_extcap(*args, context.out); });
}

}  // namespace parley::tools
