// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley mad ping`: tests whether the peer answers management datagrams, and how fast. The class and its answer, the
// host name, are those of ibping. --size requests that many octets by RMPP, which only Parley answers.
#include <unistd.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "base/gid.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "mad/rmpp.hpp"
#include "mad/serve.hpp"
#include "tools/mad/mad.hpp"
#include "tools/mad/session.hpp"
#include "tools/rping/session.hpp"

namespace parley::tools {

namespace {

using wire::mad::Method;
using wire::mad::MgmtClass;

// As in ibping.
constexpr std::uint8_t ping_class = 0x32;
constexpr std::uint32_t ping_oui = 0x001405;
constexpr std::size_t header_octets = mad::rmpp::header_octets_of(ping_class);
constexpr std::uint32_t ping_octets_max = 1 << 20;

struct PingArgs {
  MadOptions mad;
  std::string to;
  bool serve = false;
  std::uint64_t count = 0;
  Duration interval = std::chrono::seconds(1);
  unsigned size = 0;
  mad::PathText path;
};

Bytes pattern(std::uint32_t octets) {
  Bytes out(octets);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  return out;
}

/// The text in an answer's data, up to the first zero.
std::string text_in(ConstBytes data) {
  const auto end = std::find(data.begin(), data.end(), std::uint8_t{0});
  return printable(std::string(data.begin(), end), false);
}

class Pings {
 public:
  Pings(const PingArgs& args, MadSession& session, Output& out) : args_(args), session_(session), out_(out) {}

  mad::Task<> run(mad::Port& port) {
    const mad::Reply<mad::Path> path = co_await session_.resolve(args_.path);
    if (!path) {
      print_error(path.error(), out_);
      co_return;
    }
    while (args_.count == 0 || sent_ < args_.count) {
      if (sent_ > 0 && !co_await port.sleep(args_.interval)) break;
      ++sent_;
      const Instant began = session_.now();
      const auto reply = co_await port.raw(*path, rpc(), {});
      if (reply)
        show(*reply, session_.now() - began);
      else if (reply.error().fault() != mad::Fault::cancelled)
        print_error(reply.error(), out_);
    }
  }
  int tell(const mad::Port& port) const {
    const std::uint64_t resent = port.counters().resent;
    out_.text(fmt::format("{} sent, {} answered, {} retransmitted", sent_, answered_, resent));
    out_.object({{"event", "summary"}, {"sent", sent_}, {"answered", answered_}, {"resent", resent}});
    return code(sent_ > 0 && answered_ == sent_ ? Exit::ok : Exit::failed);
  }

 private:
  mad::Rpc rpc() const {
    return {.mgmt_class = MgmtClass::vendor_oui,
            .method = args_.size > 0 ? Method::get_table : Method::get,
            .modifier = args_.size,
            .class_number = ping_class,
            .oui = ping_oui};
  }
  void show(const mad::RawReply& reply, Duration took) {
    const ConstBytes data = ConstBytes(reply.mad).subspan(std::min(header_octets, reply.mad.size()));
    const bool by_size = args_.size > 0;
    if (by_size && !std::ranges::equal(data, pattern(args_.size)))
      return out_.note(fmt::format("answer {}: {} with wrong content", sent_, counted(data.size(), "octet")));
    ++answered_;
    out_.text(fmt::format("{}: {} in {}", by_size ? "answered" : text_in(data), counted(data.size(), "octet"),
                          measured_duration_text(took)));
    out_.object({{"event", "pong"},
                 {"number", sent_},
                 {"text", by_size ? Json() : Json(text_in(data))},
                 {"octets", data.size()},
                 {"took_s", in_seconds(took)}});
  }

  const PingArgs& args_;
  MadSession& session_;
  Output& out_;
  std::uint64_t sent_ = 0, answered_ = 0;
};

std::string host_name() {
  std::array<char, 200> out{};
  ::gethostname(out.data(), out.size() - 1);
  return out.data();
}

/// Answers a request. Another class or method, or a size above the maximum, gets an error reply.
Result<void> answer(mad::Port& port, const mad::Incoming& request) {
  const auto parsed = mad::parse_request(request.mad);
  const auto post = [&](const std::optional<mad::Datagram>& reply) {
    return reply ? port.post(request.from, *reply) : Result<void>();
  };
  constexpr std::uint16_t unsupported_method = 0x08, invalid_value = 0x1C;
  if (!parsed)
    return parsed.error().status == 0 ? Result<void>() : post(mad::error_reply(request.mad, parsed.error().status));
  if (request.mad[1] != ping_class) return post(mad::error_reply(request.mad, unsupported_method));
  if (parsed->method == Method::get) {
    const std::string name = host_name();
    return post(mad::reply_to(request.mad, Bytes(name.begin(), name.end())));
  }
  if (parsed->method != Method::get_table) return post(mad::error_reply(request.mad, unsupported_method));
  if (parsed->modifier > ping_octets_max) return post(mad::error_reply(request.mad, invalid_value));
  return port.post(request.from, mad::long_reply(request.mad, pattern(parsed->modifier)));
}

mad::Task<> serve_pings(mad::Port& port, std::uint64_t count, std::uint64_t& answered) {
  while (const std::optional<mad::Incoming> request = co_await port.next_request()) {
    if (answer(port, *request)) ++answered;
    if (answered == count && count != 0) {
      co_await port.sleep(std::chrono::milliseconds(500));  // for retransmitted requests
      break;
    }
  }
}

int serve(const PingArgs& args, MadSession& session, Output& out) {
  mad::Port& port = session.port();
  const mad::LocalPort& local = port.local();
  constexpr std::array methods{Method::get, Method::get_table};
  if (const auto served = session.serve({.mgmt_class = ping_class, .oui = ping_oui, .methods = methods}); !served)
    return out.error(served.error().exit, served.error().text);
  out.text(fmt::format("listening at {}GID {}, QP {}", session.has_lids() ? fmt::format("LID {}, ", local.lid) : "",
                       gid_text(local.gid), session.qp_num()));
  out.object({{"event", "serving"}, {"lid", local.lid}, {"gid", gid_text(local.gid)}, {"qp", session.qp_num()}});
  const StopSignals signals;
  std::uint64_t answered = 0;
  const auto ran =
      session.run(serve_pings(port, args.count, answered), {.stop = [] { return StopSignals::requested(); }});
  out.text(fmt::format("{} answered", answered));
  out.object({{"event", "summary"}, {"sent", 0}, {"answered", answered}, {"resent", 0}});
  if (!ran) return out.error(ran.error().exit, ran.error().text);
  return code(Exit::ok);
}

int run_ping(const PingArgs& args, Output& out) {
  auto session = MadSession::open(args.mad, out, args.serve ? nullptr : &args.path);
  if (!session) return out.error(session.error().exit, session.error().text);
  int status = code(Exit::ok);
  if (args.serve) {
    status = serve(args, **session, out);
  } else {
    if (const auto leads = (*session)->check(args.path); !leads)
      return out.error(leads.error().exit, leads.error().text);
    const StopSignals signals;
    Pings pings(args, **session, out);
    const auto ran = (*session)->run(pings.run((*session)->port()), {.stop = [] { return StopSignals::requested(); }});
    status = pings.tell((*session)->port());
    if (!ran) return out.error(ran.error().exit, ran.error().text);
  }
  if (const auto written = (*session)->finish(); !written) return out.error(written.error().exit, written.error().text);
  return status;
}

std::string understand(PingArgs& args) {
  if (args.serve) return args.to.empty() ? "" : "--serve and a path cannot be used together";
  if (args.to.empty()) return "the destination is missing: a LID, a GID or IBPath(...); or --serve";
  auto path = mad::parse_path(args.to);
  if (!path) return path.error();
  if (path->path.route) return "only subnet management can use directed routes";
  args.path = std::move(*path);
  return {};
}

}  // namespace

void register_mad_ping(Command mad, Context& context) {
  auto args = std::make_shared<PingArgs>();
  Command sub = mad.subcommand("ping", "Ping another port as ibping does, or answer pings");
  sub.option("path", args->to, "Destination: a LID, a port's GID, or IBPath(DGID=...,dqpn=17)").type("PATH");
  sub.flag("--serve", args->serve, "Answer pings");
  sub.option("--count", args->count, "End after this many requests; 0: at Ctrl-C").shows_default();
  add_duration(sub, "--interval", args->interval, "Time between two requests");
  sub.option("--size", args->size, "Octets of the answer, by RMPP; the peer must be Parley")
      .range(0U, unsigned{ping_octets_max});
  add_mad_options(sub, args->mad);
  add_json_flag(sub, context);
  sub.footer(
      "Exit status 1: a request was not answered.\n"
      "Examples:\n"
      "  parley mad ping 5\n"
      "  parley mad ping --serve --transport roce:192.0.2.1\n"
      "  parley mad ping ::ffff:192.0.2.1 --transport roce:192.0.2.2 --size 100000");
  sub.run([args, &context] { return run_ping(*args, context.out); }, [args] { return understand(*args); });
}

}  // namespace parley::tools
