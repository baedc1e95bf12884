// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/mad/session.hpp"

#include <random>

#include <fmt/format.h>

#include "drivers/mad/where.hpp"

namespace parley::tools {

namespace {

Or<mad_driver::Opened> open_transport(const MadOptions& options, const mad::PathText* path) {
  std::string wanted = options.transport;
  if (wanted.empty() && path != nullptr && !path->device.empty())
    wanted = fmt::format("umad:{}{}", path->device, path->port != 0 ? fmt::format("/{}", path->port) : std::string());
  auto opened = mad_driver::open_where(wanted);
  if (!opened)
    return complain(Exit::environment, fmt::format("{}{}", opened.error(), wanted.empty() ? "; see --transport" : ""));
  return std::move(*opened);
}

}  // namespace

void add_mad_options(Command sub, MadOptions& options) {
  sub.option("--transport", options.transport,
             "ibsim[:NAME[/NODE]]: ibsim's sockets, of the name and node that IBSIM_SOCKNAME and SIM_HOST say; "
             "umad[:DEVICE[/PORT]]: a device of this machine. Without it, ibsim if these are set, else umad")
      .type("TRANSPORT")
      .check(mad_driver::check_where);
  add_duration(sub, "--timeout", options.timeout, "Wait for the first answer; each retry waits twice as long");
  sub.option("--retries", options.retries, "Times that a request is sent again").range(0U, 255U).shows_default();
  sub.option("--window", options.window, "Requests under way at a time").range(1U, 1024U).shows_default();
  sub.option("--mkey", options.m_key, "M_Key of SMPs").type("KEY");
  sub.option("--smkey", options.sm_key, "SM_Key of requests to subnet administration").type("KEY");
  sub.flag("--trace", options.trace, "Show each datagram that is sent or comes, on standard error");
  sub.option("--pcap", options.pcap, "Write them to a capture as packets of an InfiniBand link, which Wireshark reads")
      .type("FILE");
}

Or<std::unique_ptr<MadSession>> MadSession::open(const MadOptions& options, Output& out, const mad::PathText* path) {
  auto opened = open_transport(options, path);
  if (!opened) return tl::unexpected(opened.error());
  auto session = std::make_unique<MadSession>();
  session->options_ = options;
  session->name_ = opened->name;
  session->transport_ = std::move(opened->transport);
  if (options.trace || !options.pcap.empty()) {
    auto tap = Tap::open(std::move(session->transport_), options.trace, options.pcap, out);
    if (!tap) return tl::unexpected(tap.error());
    session->tap_ = tap->get();
    session->transport_ = std::move(*tap);
  }
  const mad::Transport& transport = *session->transport_;
  const std::size_t window = std::min<std::size_t>(options.window, transport.facts().window_max);
  const mad::WindowOptions windows{.start = window, .least = std::min<std::size_t>(window, 4), .most = window};
  const mad::PortOptions port{
      .seed = std::random_device()() | std::uint64_t{1} << 32, .window = windows, .destination_window = windows};
  session->port_ = std::make_unique<mad::Port>(transport.facts(), transport.local(), port);
  return session;
}

mad::PathDefaults MadSession::defaults() const {
  return {.timeout = options_.timeout,
          .retries = static_cast<std::uint8_t>(options_.retries),
          .m_key = options_.m_key,
          .sm_key = options_.sm_key};
}

Json error_json(const mad::MadError& error) {
  return {{"event", "unanswered"},
          {"path", mad::path_spec(error.path())},
          {"fault", mad::word_of(error.fault())},
          {"status", error.status()},
          {"tries", error.tries()},
          {"text", error.message()},
          {"context", error.context()}};
}

int tell_error(const mad::MadError& error, Output& out) {
  out.object(error_json(error));
  std::string text = error.dump();
  while (text.ends_with('\n')) text.pop_back();
  out.note(fmt::format("parley {}: {}", out.command, text));
  return code(Exit::failed);
}

}  // namespace parley::tools
