// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Management datagrams: parley/mad.h over mad::Port.
#include "parley/mad.h"

#include <random>

#include "capi/handles.hpp"
#include "capi/mad_port.hpp"
#include "capi/options.hpp"

using namespace parley;
using namespace parley::capi;

namespace {

using Ports = Handles<MadPort, parley_mad, 256>;
Ports& ports() {
  static Ports all;
  return all;
}

/// Null: never opened, closed, or opened before this process was forked.
MadPort* find_port(const parley_mad* handle) {
  MadPort* port = ports().find(handle);
  return port != nullptr && port->forks() == forks_until_now() ? port : nullptr;
}

int no_port() {
  return capi::fail(PARLEY_E_BAD_HANDLE,
                    "there is no such port: it was never opened, or it is closed, or another process opened it");
}

template <class Call>
int with_port(const parley_mad* handle, Call&& call) noexcept {
  return guarded([&] {
    MadPort* port = find_port(handle);
    return port == nullptr ? no_port() : call(*port);
  });
}

int read_open(const parley_mad_opts* given, mad::PortOptions& options, mad::PathDefaults& defaults) {
  parley_mad_opts o = PARLEY_MAD_OPTS_INIT;
  if (const int rc = read_options(given, o); rc != 0) return rc;
  if (o.window > 1024) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "window is {a}; must be 0 to 1024", o.window);
  if (const int rc = read_mad_waits(o.timeout_ms, o.retries, defaults); rc != 0) return rc;
  if (o.window != 0) {
    options.window = {.start = o.window, .least = std::min<std::size_t>(o.window, 4), .most = o.window};
    options.destination_window = options.window;
  }
  if (o.table_max != 0) options.table_octets_max = o.table_max;
  defaults.m_key = o.m_key;
  defaults.sm_key = o.sm_key;
  options.seed = std::random_device()() | std::uint64_t{1} << 32;
  return 0;
}

// A fault's number in C is one higher than in C++; 0 is "none".
#define PARLEY_X(name, text) +1
static_assert(PARLEY_MAD_FAULT_INVALID == 0 PARLEY_MAD_FAULTS(PARLEY_X));
#undef PARLEY_X
static_assert(PARLEY_MAD_FAULT_TIMEOUT == static_cast<int>(mad::Fault::timeout) + 1);
static_assert(PARLEY_MAD_FAULT_CUT == static_cast<int>(mad::Fault::cut) + 1);
static_assert(PARLEY_MAD_FAULT_INVALID == static_cast<int>(mad::Fault::invalid) + 1);

}  // namespace

extern "C" int parley_mad_open(parley_mad** out, const char* where, const struct parley_mad_opts* opts) {
  return guarded([&] {
    if (out == nullptr) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "out is null");
    *out = nullptr;
    mad::PortOptions options;
    mad::PathDefaults defaults;
    if (const int rc = read_open(opts, options, defaults); rc != 0) return rc;
    const std::string_view place = where != nullptr ? where : "";
    if (std::string wrong = mad_driver::check_where(place); !wrong.empty())
      return capi::fail_with(PARLEY_E_INVALID_ARGUMENT, std::move(wrong));
    auto opened = mad_driver::open_where(place);
    if (!opened) return capi::fail_with(PARLEY_E_UNREACHABLE, std::move(opened.error()));
    *out = ports().add(std::make_unique<MadPort>(std::move(*opened), options, defaults));
    return *out != nullptr ? 0 : capi::fail(PARLEY_E_NO_SPACE, "256 ports are open; close some");
  });
}

extern "C" int parley_mad_close(parley_mad* port) {
  return with_port(port, [&](MadPort&) {
    ports().take(port).reset();
    return 0;
  });
}

extern "C" int parley_mad_query(parley_mad* port, struct parley_mad_attr* out) {
  return with_port(port, [&](const MadPort& p) {
    return out == nullptr ? capi::fail(PARLEY_E_INVALID_ARGUMENT, "out is null") : p.query(*out);
  });
}

extern "C" int parley_mad_call(parley_mad* port, const struct parley_mad_request* request,
                               struct parley_mad_reply* reply) {
  return with_port(port, [&](MadPort& p) {
    return request == nullptr ? capi::fail(PARLEY_E_INVALID_ARGUMENT, "request is null") : p.call(*request, reply);
  });
}

extern "C" int parley_mad_post(parley_mad* port, const struct parley_mad_request* request, uint64_t* id) {
  return with_port(port, [&](MadPort& p) {
    return request == nullptr ? capi::fail(PARLEY_E_INVALID_ARGUMENT, "request is null") : p.post(*request, id);
  });
}

extern "C" int parley_mad_fd(parley_mad* port) {
  return with_port(port, [](MadPort& p) { return p.fd(); });
}
extern "C" int parley_mad_progress(parley_mad* port) {
  return with_port(port, [](MadPort& p) { return p.progress(); });
}

extern "C" int parley_mad_poll(parley_mad* port, struct parley_mad_reply* out) {
  return with_port(port, [&](MadPort& p) {
    return out == nullptr ? capi::fail(PARLEY_E_INVALID_ARGUMENT, "out is null") : p.poll(*out);
  });
}

extern "C" int parley_mad_cancel(parley_mad* port, uint64_t id) {
  return with_port(port, [id](MadPort& p) { return p.cancel(id); });
}

extern "C" int parley_mad_serve(parley_mad* port, const struct parley_mad_service* service) {
  return with_port(port, [&](MadPort& p) {
    return service == nullptr ? capi::fail(PARLEY_E_INVALID_ARGUMENT, "service is null") : p.serve(*service);
  });
}

extern "C" int parley_mad_receive(parley_mad* port, struct parley_mad_incoming* out) {
  return with_port(port, [&](MadPort& p) {
    return out == nullptr ? capi::fail(PARLEY_E_INVALID_ARGUMENT, "out is null") : p.receive(*out);
  });
}

extern "C" int parley_mad_respond(parley_mad* port, uint64_t id, const struct parley_mad_response* response) {
  return with_port(port, [&](MadPort& p) { return p.respond(id, response); });
}

extern "C" const char* parley_mad_fault_name(uint32_t fault) {
  if (fault == PARLEY_MAD_FAULT_NONE) return "none";
  return fault > PARLEY_MAD_FAULT_INVALID ? "unknown" : mad::word_of(static_cast<mad::Fault>(fault - 1)).data();
}
