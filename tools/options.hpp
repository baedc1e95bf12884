// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Options that several subcommands share: endpoints, durations with units, private data, and MPA set-up. Errors that
// show in the text itself are usage errors (exit 2) during parsing. Functions that return Or check afterwards what
// depends on the system (names, files).
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "mpa/startup_options.hpp"
#include "parley/address.hpp"
#include "parley/mpa.hpp"
#include "tools/cli.hpp"
#include "tools/output.hpp"

namespace parley::tools {

/// Why a command cannot continue: the message for the user and the exit code.
struct CommandError {
  Exit exit = Exit::failed;
  std::string text;
};
template <class T>
using Or = tl::expected<T, CommandError>;
inline tl::unexpected<CommandError> command_error(Exit exit, std::string text) {
  return tl::unexpected(CommandError{exit, std::move(text)});
}

/// Port of `parley listen` and `parley connect` when none is given; `parley rping` has rping's 7174.
inline constexpr std::uint16_t default_port = 7175;

struct Endpoint {
  std::string host;
  std::uint16_t port = default_port;
};
/// "host", "host:port", "192.0.2.1:7175", "[fe80::1%eth0]:7175", "2001:db8::1". Errors: usage.
Or<Endpoint> parse_endpoint(std::string_view text, std::uint16_t port_if_none);
/// Names to addresses, in the system's order. Errors: environment.
Or<std::vector<Address>> resolve(const Endpoint& endpoint);
/// The first address of an endpoint in the syntax of parse_endpoint(). Errors: usage, environment.
Or<Address> parse_address(std::string_view text, std::uint16_t port_if_none);

/// "10s", "250ms", "1.5s", "20us", "2m", "0". A number without a unit is rejected: seconds and milliseconds are too
/// easily confused.
Result<Duration> parse_duration(std::string_view text);
/// The shortest exact text: "10s", "250ms".
std::string duration_text(Duration duration);
/// An option with a unit. Its default is the current value of `target`.
Option add_duration(Command sub, const std::string& name, Duration& target, const std::string& help);

/// "text", "hex:00ff", "@file", "text:@literal". Errors: usage (bad hex, longer than `max`), environment (file).
Or<Bytes> load_private_data(const std::string& text, std::size_t max);

/// The set-up options as the user gave them.
struct MpaArgs {
  mpa::StartupOptions mpa{};
  std::string private_data;
  bool reply_timeout_set = false;  ///< on the command line or by a setting
  std::vector<std::string> given;  ///< names of options on the command line ("--revision"), without settings

  bool was_given(std::string_view option) const { return std::find(given.begin(), given.end(), option) != given.end(); }
};
void add_mpa_options(Command sub, MpaArgs& args);
void add_initiator_options(Command sub, MpaArgs& args);
void add_responder_options(Command sub, MpaArgs& args);
/// Checks the options against each other and loads the private data. `--rtr frame` implies revision 1. With another
/// --revision on the command line, it is rejected if it is on the command line too; if it is a setting, --revision
/// takes precedence over it.
Or<Bytes> settle(MpaArgs& args);

/// Whether the zero-length Send that released the responder reached its program and consumed one of its receives. A
/// Send RTR that was agreed, announced or configured is consumed below the program; a Send in place of another RTR is
/// not.
bool send_rtr_takes_receive(const mpa::Parameters& agreed, const mpa::Options& options);

}  // namespace parley::tools
