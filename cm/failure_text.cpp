// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Failures as text: the driver's error code of the system becomes an Errc and a suggestion.
#include "cm/failure_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace parley::cm {
namespace {

struct SystemText {
  std::errc system;
  Errc code;
  const char* advice;
};

constexpr SystemText connect_texts[] = {
    {std::errc::connection_refused, Errc::refused, "start the peer's listener, or check address and port"},
    {std::errc::network_unreachable, Errc::unreachable,
     "check the route to the peer, and that this address family is configured"},
    {std::errc::host_unreachable, Errc::unreachable, "check that the peer is up and on this network"},
    {std::errc::network_down, Errc::unreachable, "bring the network interface up"},
    {std::errc::no_such_device, Errc::unreachable, "no RDMA device belongs to the interface that leads there"},
    {std::errc::timed_out, Errc::timed_out, "check that the peer is up and that no firewall drops the packets"},
    {std::errc::connection_reset, Errc::peer_reset, "look at the peer's log: it accepted and reset at once"},
    {std::errc::address_in_use, Errc::address_in_use, "choose another local address or port, or none"},
    {std::errc::address_not_available, Errc::bad_address, "use an address of this machine as the source"},
    {std::errc::invalid_argument, Errc::bad_address, "give the interface of a link-local address, as in fe80::1%eth0"},
    {std::errc::permission_denied, Errc::not_permitted, "check the firewall's rules and the port's privileges"},
    {std::errc::operation_not_permitted, Errc::not_permitted, "check the firewall's rules"},
    {std::errc::address_family_not_supported, Errc::unsupported, "use the other IP version"},
    {std::errc::too_many_files_open, Errc::no_space, "raise the limit of open files (ulimit -n)"},
    {std::errc::too_many_files_open_in_system, Errc::no_space, "raise fs.file-max"},
};

constexpr SystemText listen_texts[] = {
    {std::errc::address_in_use, Errc::address_in_use, "stop the program that listens there, or choose another port"},
    {std::errc::address_not_available, Errc::bad_address, "listen on an address of this machine, or on any"},
    {std::errc::permission_denied, Errc::not_permitted,
     "choose a port above 1023, or run with the privilege to bind it"},
    {std::errc::invalid_argument, Errc::bad_address, "give the interface of a link-local address, as in fe80::1%eth0"},
    {std::errc::address_family_not_supported, Errc::unsupported, "use the other IP version"},
    {std::errc::too_many_files_open, Errc::no_space, "raise the limit of open files (ulimit -n)"},
    {std::errc::too_many_files_open_in_system, Errc::no_space, "raise fs.file-max"},
};

template <std::size_t n>
Failure from_table(const SystemText (&table)[n], const Step& step, std::error_code why) {
  Failure failure{.step = step, .code = make_error_code(Errc::io), .received = why.message()};
  if (why.category() == error_category()) {
    failure.code = why;
    for (const SystemText& words : table)
      if (make_error_code(words.code) == why) failure.advice = words.advice;
  } else {
    for (const SystemText& words : table) {
      if (why != words.system) continue;
      failure.code = make_error_code(words.code);
      failure.advice = words.advice;
    }
  }
  if (failure.advice.empty()) failure.advice = "look up the system's message";
  return failure;
}

}  // namespace

Failure plain_failure(const Step& step, Errc code, std::string rule, std::string received, std::string advice) {
  return {.step = step,
          .code = make_error_code(code),
          .rule = std::move(rule),
          .received = std::move(received),
          .advice = std::move(advice)};
}

Failure system_failure(const Step& step, std::error_code why, const Address& address) {
  Failure failure = from_table(connect_texts, step, why);
  failure.received = fmt::format("{}: {}", address.to_string(), failure.received);
  return failure;
}

Failure ports_exhausted(const Step& step, const Address& address) {
  return plain_failure(step, Errc::address_in_use, {},
                       fmt::format("no local port is free towards {}", address.to_string()),
                       "close connections first (a port stays taken through TIME-WAIT), spread them over more local or "
                       "remote addresses or remote ports, or widen the range of local ports");
}

Failure listen_failure(const Step& step, std::error_code why, const Address& address) {
  Failure failure = from_table(listen_texts, step, why);
  failure.received = fmt::format("cannot listen on {}: {}", address.to_string(), failure.received);
  return failure;
}

Failure no_answer(const Step& step, std::string rule, const Address& peer, const std::string& how_long) {
  return plain_failure(step, Errc::timed_out, std::move(rule), "no answer of " + peer.to_string() + how_long,
                       silent_peer_advice);
}

Failure requests_left(const Step& step, std::size_t left, bool known) {
  const std::string open = counted(left, "request") + (left == 1 ? " was" : " were") + " not complete";
  return plain_failure(step, Errc::peer_closed, {},
                       known ? "a disconnect while " + open
                             : "closed by the peer while " + open + "; whether all was delivered is not known",
                       "agree on who disconnects, and when");
}

Duration last_word(Duration keepalive, Duration dead_after) {
  return std::max(std::min(dead_after / 6, (dead_after - keepalive) / 2), Duration{});
}

Failure closed_in_silence(const Address& peer, Duration silent) {
  return plain_failure(
      step::data, Errc::peer_closed, {},
      "no answer of " + peer.to_string() + " for " + duration_text(silent) +
          ", but its connection manager answers: closed by the peer; whether all was delivered is not known",
      "agree on who disconnects, and when");
}

Failure out_of_time(const Step& step, Duration timeout) {
  return plain_failure(step, Errc::timed_out, {}, "not established within " + limit_text(timeout) + " in all",
                       "allow more time (ConnectOptions::timeout), or see what took it");
}

Result<void> check_detach(bool there, bool deciding, bool has_queue_pair) {
  if (!there) return fail(Errc::wrong_state, "the id is not a connection, or it was destroyed");
  if (!deciding)
    return fail(Errc::wrong_state,
                "only a request that waits for accept() or reject() can move; this one was decided, or has ended");
  if (has_queue_pair)
    return fail(Errc::wrong_state,
                "the request has a queue pair of this Manager's device; move it before create_qp(), and make it there");
  return {};
}

Failure no_room(const Step& step, ReachedLimit scarce, std::uint32_t limit, std::string received) {
  std::string advice;
  switch (scarce) {
    case ReachedLimit::pending_max:
      advice = fmt::format(
          "pending_max is {}, and that many connections were pending; raise it, decide sooner, or keep the busiest "
          "address out",
          limit);
      break;
    case ReachedLimit::endpoints_max:
      advice =
          fmt::format("endpoints_max is {}, and that many ids were in use; raise it, or destroy ids sooner", limit);
      break;
    case ReachedLimit::streams:
      advice = "the host had no stream or descriptor left; raise streams_max and the limit of open files (ulimit -n)";
      break;
  }
  return plain_failure(step, Errc::no_space, {}, std::move(received), std::move(advice));
}

}  // namespace parley::cm
