// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley xrc`: lists XRC domains, the users of each TGT queue pair, and counters.
#include "tools/xrc/xrc.hpp"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "base/text.hpp"
#include "drivers/secure_env.hpp"
#include "drivers/xrcd/link.hpp"
#include "drivers/xrcd/place.hpp"
#include "drivers/xrcshm/segment.hpp"
#include "tools/own_program.hpp"
#include "tools/sim/sim_once.hpp"
#include "tools/xrc/xrc_demo.hpp"

namespace parley::tools {

void add_xrc_socket(Command sub, std::string& socket) {
  sub.option(
         "--socket", socket,
         "The broker's socket; else $PARLEY_XRCD, /run/parley-xrcd.sock if it is there or this is root, or the user's")
      .type("FILE");
}

void add_xrc_segment(Command sub, std::string& segment) {
  sub.option("--segment", segment, "The shared registry's file; else $PARLEY_XRC_SEGMENT, or /dev/shm/parley-xrc-UID")
      .type("FILE");
}

void add_xrc_rules(Command sub, xrc::RegistryOptions& rules) {
  add_duration(
      sub, "--grace", rules.grace,
      "How long a TGT queue pair whose peer is gone waits for its registrants (0: until the last unregisters)");
  add_duration(sub, "--error-grace", rules.error_grace,
               "How long one that failed does, before that (0: without limit)");
  add_duration(sub, "--linger", rules.linger, "How long one that received is kept without registrants");
  add_duration(sub, "--quarantine", rules.quarantine, "How long the number of one that ended is not used again");
  sub.option("--members", rules.members_per_domain, "Most members of one domain").range(1U, 4096U).shows_default();
  sub.option("--events", rules.events_max, "Events that a member may leave waiting; beyond that limit it must query")
      .range(1U, 65536U)
      .shows_default();
  sub.option("--qpn-first", rules.qpn_first, "The first of the numbers that are assigned").range(2U, 0xFFFFFFU);
  sub.option("--qpn-last", rules.qpn_last, "The last; each is used again when all others were").range(2U, 0xFFFFFFU);
  sub.flag(
      "--device-numbers", [&rules] { rules.assigns_numbers = false; },
      "Assign no numbers: the creator supplies the number that its device chose");
}

std::string xrc_refusal_name(const Error& error) {
  if (error.code().category() != xrc::refusal_category()) return "system";
  return std::string(to_string(static_cast<xrc::Refusal>(error.code().value())));
}

int xrc_refused(Output& out, const Error& error, const xrc::DomainOptions& o) {
  using xrc::Refusal;
  bool environment = error.code().category() != xrc::refusal_category();
  for (const Refusal r :
       {Refusal::no_broker, Refusal::not_permitted, Refusal::no_segment, Refusal::segment_full, Refusal::segment_owner,
        Refusal::segment_foreign, Refusal::segment_version, Refusal::segment_elsewhere, Refusal::socket_foreign,
        Refusal::lock_foreign, Refusal::lock_unwritable})
    environment = environment || error == make_error_code(r);
  const std::string text = fmt::format("{}: {}", xrc_refusal_name(error), error.message());
  if (!environment) return out.error(Exit::failed, text);
  const bool shared = xrc::form_of(o) == xrc::RegistryKind::shared;
  const std::string where = shared ? "segment " + (o.segment.empty() ? xrc::default_segment() : o.segment)
                                   : "socket " + (o.socket.empty() ? xrc::default_socket() : o.socket);
  if (error == make_error_code(Refusal::lock_foreign) || error == make_error_code(Refusal::lock_unwritable))
    return out.error(Exit::environment, fmt::format("{} ({}.lock)", text, where));
  return out.error(Exit::environment, fmt::format("{} ({})", text, where));
}

Json xrc_tgt_json(const xrc::DomainView& domain, const xrc::TgtView& tgt) {
  Json registrants = Json::array();
  for (const std::uint64_t number : tgt.registrants)
    for (const xrc::MemberView& m : domain.members)
      if (m.number == number)
        registrants.push_back({{"member", number}, {"pid", m.process.pid}, {"command", m.process.command}});
  Json peer = nullptr;
  if (tgt.peer) peer = {{"ca_guid", fmt::format("{:016x}", tgt.peer->ca_guid)}, {"qpn", tgt.peer->qpn}};
  return {{"tgt", to_string(tgt.id)},
          {"qpn", tgt.id.qpn},
          {"state", to_string(tgt.state)},
          {"last_event", to_string(tgt.why)},
          {"code", tgt.reason},
          {"age_us", std::chrono::duration_cast<std::chrono::microseconds>(tgt.age).count()},
          {"ini", peer},
          {"registrants", registrants}};
}

namespace {

/// This program can run as a broker. The environment variable selects another program.
std::string broker_program() {
  return secure_env("PARLEY_XRCD_PROGRAM") != nullptr ? std::string() : own_program().string();
}

Json domain_json(const xrc::DomainView& d) {
  Json members = Json::array(), tgts = Json::array();
  for (const xrc::MemberView& m : d.members)
    members.push_back({{"member", m.number},
                       {"pid", m.process.pid},
                       {"uid", m.process.uid},
                       {"command", m.process.command},
                       {"registrations", m.registrations},
                       {"srqs", m.srqs},
                       {"events_waiting", m.events_waiting},
                       {"events_lost", m.events_lost}});
  for (const xrc::TgtView& t : d.tgts) tgts.push_back(xrc_tgt_json(d, t));
  Json out{{"event", "domain"}, {"domain", d.number}, {"shared", d.key.has_value()}};
  if (d.key) out.update({{"device", d.key->device}, {"st_dev", d.key->st_dev}, {"st_ino", d.key->st_ino}});
  out["members"] = members;
  out["tgts"] = tgts;
  return out;
}

std::string registrants_text(const xrc::DomainView& d, const xrc::TgtView& t) {
  std::string out;
  for (const std::uint64_t number : t.registrants)
    for (const xrc::MemberView& m : d.members)
      if (m.number == number) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", m.process.pid, m.process.command);
  return out.empty() ? "nobody" : out;
}

void print_domain(Output& out, const xrc::DomainView& d) {
  const std::string key = d.key ? fmt::format("device {}, file {}:{}", d.key->device, d.key->st_dev, d.key->st_ino)
                                : std::string("private");
  out.text(fmt::format("domain {} ({}): {}, {}", d.number, key, counted(d.members.size(), "member"),
                       counted(d.tgts.size(), "TGT queue pair")));
  if (d.tgts.empty()) return;
  out.text(fmt::format("  {:<24} {:<9} {:<9} {:<26} {}", "QPN@generation", "state", "age", "peer", "registered"));
  for (const xrc::TgtView& t : d.tgts) {
    const std::string peer = t.peer ? fmt::format("{:016x}/{}", t.peer->ca_guid, t.peer->qpn) : std::string("-");
    out.text(fmt::format("  {:<24} {:<9} {:<9} {:<26} {}", to_string(t.id), to_string(t.state),
                         brief_duration_text(std::chrono::floor<std::chrono::seconds>(t.age)), peer,
                         registrants_text(d, t)));
  }
}

int run_ls(const XrcArgs& args, Output& out) {
  const auto seen = xrc::overview(args.domain);
  if (!seen) return xrc_refused(out, seen.error(), args.domain);
  for (const xrc::DomainView& d : seen->domains) {
    out.object(domain_json(d));
    print_domain(out, d);
  }
  if (seen->domains.empty()) out.text("no process has an XRC domain open");
  return code(Exit::ok);
}

int run_stats(const XrcArgs& args, Output& out) {
  const auto seen = xrc::overview(args.domain);
  if (!seen) return xrc_refused(out, seen.error(), args.domain);
  std::size_t members = 0, tgts = 0, lingering = 0;
  for (const xrc::DomainView& d : seen->domains) {
    members += d.members.size();
    tgts += d.tgts.size();
    lingering += static_cast<std::size_t>(std::count_if(
        d.tgts.begin(), d.tgts.end(), [](const xrc::TgtView& t) { return t.state == xrc::State::linger; }));
  }
  Json object{{"event", "stats"},   {"epoch", seen->epoch}, {"domains", seen->domains.size()},
              {"members", members}, {"tgts", tgts},         {"lingering", lingering}};
  out.text(
      fmt::format("{:>10}  domains\n{:>10}  members\n{:>10}  TGT queue pairs\n{:>10}  of those without registrants",
                  seen->domains.size(), members, tgts, lingering));
#define PARLEY_X(name, words)          \
  object[#name] = seen->counters.name; \
  out.text(fmt::format("{:>10}  {}", seen->counters.name, words));
  PARLEY_XRC_COUNTERS(PARLEY_X)
#undef PARLEY_X
  out.object(object);
  return code(Exit::ok);
}

int run_kill(const XrcArgs& args, Output& out) {
  const auto id = xrc::parse_tgt(args.tgt);
  const auto killed = xrc::kill(*id, args.domain);
  if (!killed) return xrc_refused(out, killed.error(), args.domain);
  out.text(
      fmt::format("{} drains: it ends when its registrants have unregistered, or the grace time is over", args.tgt));
  out.object({{"event", "killed"}, {"tgt", args.tgt}});
  return code(Exit::ok);
}

Command add(Command xrc, const std::string& name, const std::string& help, const std::shared_ptr<XrcArgs>& args,
            Context& context, int (*run)(const XrcArgs&, Output&)) {
  Command sub = xrc.subcommand(name, help);
  add_xrc_socket(sub, args->domain.socket);
  add_xrc_segment(sub, args->domain.segment);
  sub.option("--form", args->form,
             "Who keeps the registry: broker or shared; else shared if --segment or its variable says where, and "
             "--socket and its variable do not")
      .one_of({"broker", "shared"});
  add_json_flag(sub, context);
  sub.run([args, run, &context] {
    // The location option of the other form would be ignored silently, so that it is rejected.
    const bool shared = args->form == "shared";
    if (!args->form.empty()) args->domain.form = shared ? xrc::RegistryKind::shared : xrc::RegistryKind::broker;
    if (shared && !args->domain.socket.empty())
      return context.out.error(Exit::usage, "--socket is a broker's, and --form is shared: leave one of them out");
    if (args->form == "broker" && !args->domain.segment.empty())
      return context.out.error(Exit::usage,
                               "--segment is of the shared registry, and --form is broker: leave one of them out");
    return run(*args, context.out);
  });
  return sub;
}

void add_demo(Command xrc, Context& context) {
  auto args = std::make_shared<XrcDemoArgs>();
  Command sub =
      xrc.subcommand("demo", "What XRC is for: an all-to-all over XRC and over RC, with its queue pairs counted");
  sub.option("--nodes", args->nodes, "Nodes").range(2U, 16U).shows_default();
  sub.option("--processes", args->processes, "Processes of each").range(1U, 64U).shows_default();
  sub.option("--transport", args->transport, "Over which").one_of({"both", "xrc", "rc"}).shows_default();
  sub.flag("--sockets", args->sockets, "Parley's engine on UDP sockets (127.0.0.1 and on) instead of the simulator");
  sub.option("--churn", args->churn, "Then let peers come and go so often, in the simulator").range(1U, 1000000U);
  sub.option("--svg", args->svg, "The plot of --churn").type("FILE");
  sub.option("--pcapng", args->pcapng, "Record the frames of one transport").type("FILE");
  add_seed(sub, "--seed", args->seed, "Seed of the simulator; decimal or 0x hexadecimal");
  add_duration(sub, "--timeout", args->timeout, "Longest time for an exchange over sockets");
  add_json_flag(sub, context);
  sub.run([args, &context] { return run_xrc_demo(*args, context.out); });
}

}  // namespace

void register_xrc(Command app, Context& context) {
  Command xrc = app.subcommand("xrc", "Share the TGT queue pairs of XRC domains between processes");
  xrc.requires_subcommand();
  xrc.footer(
      "Examples:\n"
      "  parley xrc ls                            every domain, its TGT queue pairs and the registered members\n"
      "  parley xrc kill 8388608@1795641000.1     end one, for all its holders");
  // Commands that only display state do not start a broker: a new broker would have no state.
  auto looks = std::make_shared<XrcArgs>();
  looks->domain.start = false;
  looks->domain.patience = std::chrono::seconds(1);
  add(xrc, "ls", "Every domain: members, TGT queue pairs, states, peers, registrants", looks, context, run_ls);
  add(xrc, "stats", "What has been counted", looks, context, run_stats);
  Command watch = add(xrc, "watch", "What changes, as it does", looks, context, run_xrc_watch);
  add_duration(watch, "--interval", looks->interval, "How often to look");
  add_duration(watch, "--for", looks->during, "How long to watch (0: until interrupted)");
  Command kill =
      add(xrc, "kill", "End a TGT queue pair: its registrants are notified, and have the grace time to unregister",
          looks, context, run_kill);
  kill.option("TGT", looks->tgt, "QPN@generation, as ls shows it").required().check([](const std::string& text) {
    const auto id = xrc::parse_tgt(text);
    return id && id->generation != 0 ? std::string() : "'" + text + "' is not a QPN@generation as ls shows it";
  });
  register_xrc_segment(xrc, context);
  add_demo(xrc, context);
  auto takes_part = std::make_shared<XrcArgs>();
  takes_part->domain.program = broker_program();
  Command member = add(xrc, "member", "Be a member of a file's domain, by commands on standard input", takes_part,
                       context, run_xrc_member);
  member.option("DOMAIN", takes_part->file, "Which file; \"private\": none").type("FILE").required();
  member.flag("--exclusive", takes_part->domain.exclusive, "Only if no process has it open");
  member.flag(
      "--no-create", [takes_part] { takes_part->domain.create = false; }, "Only if some process has it open");
  member.flag("--carrier", takes_part->domain.carrier, "This process carries the domain's device, which ends with it");
  member.flag(
      "--no-start", [takes_part] { takes_part->domain.start = false; }, "Start no broker");
  member.footer(
      "Commands, one a line; each is answered by a line, and events come between:\n"
      "  create [PEER]          a TGT queue pair, or the one that is there for the peer's INI queue pair number\n"
      "  reserve [PEER]         the same, hidden from others until: publish TGT [N], with the number of a device\n"
      "  register TGT           TGT is QPN@generation, or the number alone\n"
      "  unregister TGT, query TGT\n"
      "  modify TGT STATE N     STATE: init, rtr, rts, error, reset; N represents the attributes\n"
      "  report TGT EVENT       EVENT: established, fatal, peer_gone, peer_reused, ...\n"
      "  srq N, no-srq N, other N, route TGT N\n"
      "  close, force-close\n"
      "The end of standard input closes the domain as the death of the process would.");
}

}  // namespace parley::tools
