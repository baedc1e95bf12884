// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The schema itself, and the texts of its enumerations.
#include <array>

#include "sim/fault/fault_text.hpp"
#include "sim/net/topology.hpp"
#include "sim/scenario/scenario_forms.hpp"

namespace parley::sim {

std::string_view to_string(AddressKind kind) {
  constexpr std::array<std::string_view, 3> words{"v4", "v6", "link_local"};
  return words[static_cast<std::size_t>(kind)];
}
std::string_view to_string(QpKind kind) {
  constexpr std::array<std::string_view, 3> words{"rc", "ud", "xrc"};
  return words[static_cast<std::size_t>(kind)];
}
std::string_view to_string(Transfer transfer) {
  constexpr std::array<std::string_view, 3> words{"send", "write", "read"};
  return words[static_cast<std::size_t>(transfer)];
}
std::string_view to_string(ClosingSide closer) {
  constexpr std::array<std::string_view, 4> words{"initiator", "responder", "both", "nobody"};
  return words[static_cast<std::size_t>(closer)];
}
std::string_view to_string(ExitKind kind) { return kind == ExitKind::kill ? "kill" : "leave"; }
std::string_view to_string(Expect expect) {
  constexpr std::array<std::string_view, 4> words{"established", "rejected", "failed", "settled"};
  return words[static_cast<std::size_t>(expect)];
}

std::string group_text(const Address& group) {
  std::string text = group.to_string();
  text.erase(text.rfind(':'));
  if (text.starts_with('[')) return text.substr(1, text.size() - 2);
  return text;
}

std::string default_link_name(const ScenarioLink& link) { return link.ends[0] + "-" + link.ends[1]; }

bool is_momentary(const ScenarioFault& fault) {
  if (is_host_action(fault.rule.action)) return fault.link.empty();
  return fault.rule.action == FaultAction::set_rate;
}

namespace {

using namespace forms;
using mpa::Options;
using mpa::Timeouts;

struct RtrSpellingForm {
  static std::string form() { return "one of text, hex"; }
  static std::string read(const DocValue& value, mpa::RtrSpelling& out) {
    if (value.kind != Kind::text || (value.text != "text" && value.text != "hex")) return wrong(value, form());
    out = value.text == "hex" ? mpa::RtrSpelling::hex : mpa::RtrSpelling::text;
    return {};
  }
  static std::string write(mpa::RtrSpelling in) { return in == mpa::RtrSpelling::hex ? "\"hex\"" : "\"text\""; }
};

/// 64 bits; TOML's integers have 63.
struct Number {
  static std::string form() { return "a number of up to 64 bits"; }
  static std::string read(const DocValue& value, std::uint64_t& out) { return read_as("number", value, out); }
  static std::string read_as(std::string_view noun, const DocValue& value, std::uint64_t& out) {
    std::optional<std::uint64_t> number;
    if (value.kind == Kind::text) number = parse_mask(value.text);
    if (value.kind == Kind::integer && value.integer >= 0) number = static_cast<std::uint64_t>(value.integer);
    if (!number) return wrong(value, fmt::format("a {} such as 7, 0x51ab or \"0xffffffffffffffff\"", noun));
    out = *number;
    return {};
  }
  static std::string write(std::uint64_t in) { return in >> 63 != 0 ? quote(mask_text(in)) : std::to_string(in); }
};
struct Seed : Number {
  static std::string read(const DocValue& value, std::uint64_t& out) { return read_as("seed", value, out); }
};

/// An optional value.
template <class Form>
struct OptionalForm {
  static std::string form() { return Form::form(); }
  template <class N>
  static std::string read(const DocValue& value, std::optional<N>& out) {
    N given{};
    std::string error = Form::read(value, given);
    if (error.empty()) out = given;
    return error;
  }
  template <class N>
  static std::string write(const std::optional<N>& in) {
    return Form::write(*in);
  }
};

/// The number of hosts of a [[host]].
struct HostCount {
  static std::string form() { return fmt::format("1..{}", Topology::nodes_max); }
  static std::string read(const DocValue& value, std::uint32_t& out) {
    if (value.kind == Kind::integer && value.integer > static_cast<std::int64_t>(Topology::nodes_max))
      return fmt::format("{} hosts are too many: a scenario has at most {} hosts and switches", value.integer,
                         Topology::nodes_max);
    return IntegerForm<1, Topology::nodes_max>::read(value, out);
  }
  static std::string write(std::uint32_t in) { return std::to_string(in); }
};

/// Every n-th request, or all.
struct Reject {
  static std::string form() { return "true, false, or n for every n-th"; }
  static std::string read(const DocValue& value, std::uint32_t& out) {
    if (value.kind == Kind::boolean) return out = value.boolean ? 1 : 0, std::string();
    if (value.kind != Kind::integer) return wrong(value, form());
    return IntegerForm<0, 1'000'000>::read(value, out);
  }
  static std::string write(std::uint32_t in) { return in == 0 ? "false" : in == 1 ? "true" : std::to_string(in); }
};

/// drop has two additional names that users look for.
struct Action {
  using Plain = Choice<FaultAction, FaultAction::continue_process>;
  static std::string form() { return Plain::form() + "; loss and partition mean drop"; }
  static std::string read(const DocValue& value, FaultAction& out) {
    if (value.kind == Kind::text && (value.text == "loss" || value.text == "partition"))
      return out = FaultAction::drop, std::string();
    return Plain::read(value, out);
  }
  static std::string write(FaultAction in) { return Plain::write(in); }
};

constexpr std::uint64_t any_number = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
constexpr std::uint64_t u32_max = 0xFFFF'FFFF;

// ---- match: nth and times -----------------------------------------------------------------------------------------
// `nth = 2` alone means the second and no other, as in everyday language.

std::string read_times(const DocValue& value, ScenarioFault& out) {
  if (value.kind == Kind::text && value.text == "all") return out.rule.match.times = 0, std::string();
  if (value.kind == Kind::text) return wrong(value, "a number from 1, or \"all\"");
  return IntegerForm<1, u32_max>::read(value, out.rule.match.times);
}
std::string write_nth(const ScenarioFault& in) {
  const Match& match = in.rule.match;
  return match.nth != 1 || match.times == 1 ? std::to_string(match.nth) : std::string();
}
std::string write_times(const ScenarioFault& in) {
  const Match& match = in.rule.match;
  if (match.times == 1) return {};
  if (match.times == 0) return match.nth == 1 ? std::string() : "\"all\"";
  return std::to_string(match.times);
}
std::string times_form() { return "a number from 1, or \"all\""; }

// ---- time: from, or at for single events --------------------------------------------------------------------------

std::string read_from(const DocValue& value, ScenarioFault& out) { return Moment::read(value, out.rule.from); }
std::string write_from(const ScenarioFault& in) {
  return in.rule.from == Instant{} || is_momentary(in) ? std::string() : Moment::write(in.rule.from);
}
std::string write_at(const ScenarioFault& in) { return is_momentary(in) ? Moment::write(in.rule.from) : std::string(); }

// ---- the action is always written: a reader should not have to know the default -----------------------------------

std::string read_may_miss(const DocValue& value, ScenarioFault& out) { return Flag::read(value, out.may_miss); }
std::string write_may_miss(const ScenarioFault& in) { return in.may_miss ? "true" : std::string(); }
std::string may_miss_standard() { return "false"; }

std::string read_action(const DocValue& value, ScenarioFault& out) { return Action::read(value, out.rule.action); }
std::string write_action(const ScenarioFault& in) { return Action::write(in.rule.action); }

// ---- ends = ["a", "b"], or with the NIC of a host: "a/n1" -----------------------------------------------------------

/// Empty, or the error.
std::string split(const std::string& text, std::string& node, std::string& nic) {
  const std::size_t slash = text.find('/');
  node = text.substr(0, slash);
  nic = slash == std::string::npos ? std::string() : text.substr(slash + 1);
  if (slash == std::string::npos || !nic.empty()) return {};
  return fmt::format("'{}': the name of a NIC is missing behind '/'", text.substr(0, 60));
}

std::string read_ends(const DocValue& value, ScenarioLink& out) {
  constexpr std::string_view words = "two names, as in [\"a\", \"b\"]";
  if (value.kind != Kind::array || value.items.size() != 2) return wrong(value, words);
  for (std::size_t i = 0; i < 2; ++i) {
    if (value.items[i].kind != Kind::text) return wrong(value.items[i], words);
    if (std::string error = split(value.items[i].text, out.ends[i], out.nics[i]); !error.empty()) return error;
  }
  return {};
}
std::string write_ends(const ScenarioLink& in) {
  return fmt::format("[{}, {}]", quote(end_text(in.ends[0], in.nics[0])), quote(end_text(in.ends[1], in.nics[1])));
}

template <auto Node, auto Nic>
std::string read_end_name(const DocValue& value, ScenarioConnect& out) {
  std::string text;
  std::string error = Text::read(value, text);
  if (error.empty()) error = split(text, out.*Node, out.*Nic);
  return error;
}
template <auto Node, auto Nic>
std::string write_end_name(const ScenarioConnect& in) {
  const std::string text = end_text(in.*Node, in.*Nic);
  return text.empty() ? std::string() : quote(text);
}

struct Names {
  static std::string form() { return "an array of names"; }
  static std::string read(const DocValue& value, std::vector<std::string>& out) {
    if (value.kind != Kind::array || value.items.size() > cm::backups_max)
      return wrong(value, "an array of up to 16 names");
    for (const DocValue& item : value.items) {
      if (item.kind != Kind::text) return wrong(item, "a text in quotes");
      out.push_back(item.text);
    }
    return {};
  }
  static std::string write(const std::vector<std::string>& in) {
    std::vector<std::string> words;
    for (const std::string& name : in) words.push_back(quote(name));
    return fmt::format("[{}]", fmt::join(words, ", "));
  }
};

struct NicMtu {
  static std::string form() { return "576..9000"; }
  static std::string read(const DocValue& value, std::uint16_t& out) {
    return IntegerForm<576, 9000>::read(value, out);
  }
  static std::string write(std::uint16_t in) { return in == 0 ? std::string() : std::to_string(in); }
};

std::string ends_form() { return "two names"; }
std::string read_link_name(const DocValue& value, ScenarioLink& out) { return Text::read(value, out.name); }
std::string write_link_name(const ScenarioLink& in) {
  return in.name.empty() || in.name == default_link_name(in) ? std::string() : quote(in.name);
}

// ---- the tables ---------------------------------------------------------------------------------------------------

constexpr Key<Scenario> scenario_table[] = {
    key<Text, &Scenario::name>("name", "shown in reports; the file's name when left out"),
    key<Text, &Scenario::description>("description", "one sentence: what happens and what must come of it"),
    key<Seed, &Scenario::seed>("seed", "used when the command line names none"),
    key<Choice<Neighbours, Neighbours::known>, &Scenario::neighbours>(
        "neighbours",
        "known: hosts have each other's MAC addresses from the start, and send no ARP or ND; see Many hosts"),
};

constexpr Key<ScenarioBounds> bounds_table[] = {
    key<Time, &ScenarioBounds::time>("time", "virtual time after which a run that is not over has failed"),
    key<OptionalForm<IntegerForm<1, any_number>>, &ScenarioBounds::events>(
        "events", "the same as a number of events; when left out 50000000, or more in a large scenario"),
    key<Time, &ScenarioBounds::converge>("converge", "after the last fault has healed all is settled within this"),
    key<Size<1, 1 << 30>, &ScenarioBounds::send_queue>("send_queue", "of one TCP connection: queued and in flight"),
    key<Size<1, 1 << 30>, &ScenarioBounds::reassembly>("reassembly", "of one TCP connection: out of order"),
    key<OptionalForm<IntegerForm<1, any_number>>, &ScenarioBounds::frames>(
        "frames", "in flight in the whole world; when left out 1048576, or more in a large scenario"),
    key<Flag, &ScenarioBounds::fence>(
        "fence", "the responder must be silent before the first FPDU (RFC 5044 §7.1.2 rule 4); false for such quirks"),
};

template <auto Part>
constexpr auto liveness_key(std::string_view name, std::string_view text) {
  return key<Time, &ScenarioHost::options, &HostOptions::manager, &cm::ManagerOptions::liveness, Part>(name, text);
}

constexpr Key<ScenarioHost> host_table[] = {
    key<Text, &ScenarioHost::name>("name", "letters, digits, '.', '_' and '-'"),
    key<HostCount, &ScenarioHost::count>("count", "that many hosts: name1, name2, ...; see Many hosts"),
    key<Choice<NicEngine, NicEngine::roce>, &ScenarioHost::options, &HostOptions::engine>(
        "engine", "what speaks RDMA behind its NICs; those of [[host.nic]] have their own"),
    key<Flag, &ScenarioHost::options, &HostOptions::ipv6>("ipv6", "has IPv6 addresses"),
    key<Flag, &ScenarioHost::options, &HostOptions::learn_announcements>(
        "learn_announcements", "learns neighbours from announcements too, and need not ask (RFC 9131)"),
    key<IntegerForm<0, u32_max>, &ScenarioHost::options, &HostOptions::ring>("ring", "frames kept while paused"),
    liveness_key<&cm::Liveness::keepalive>("keepalive",
                                           "asks a silent peer whether it is there after this time; 0s: never"),
    liveness_key<&cm::Liveness::dead_after>(
        "dead_after", "a peer that answers nothing for this time is dead; 0s: the transport's own retries decide"),
};

constexpr Key<ScenarioHost> switch_table[] = {
    key<Text, &ScenarioHost::name>("name", "as of a host"),
    key<Size<0, 1 << 30>, &ScenarioHost::switching, &SwitchOptions::ecn_threshold>(
        "ecn_threshold", "marks packets that can be marked (CE) while more than this waits for their link; 0B: none"),
};

template <auto Part>
constexpr auto tcp_time(std::string_view name, std::string_view text) {
  return key<Time, &ScenarioHost::options, &HostOptions::tcp, Part>(name, text);
}
template <auto Part>
constexpr auto tcp_flag(std::string_view name, std::string_view text) {
  return key<Flag, &ScenarioHost::options, &HostOptions::tcp, Part>(name, text);
}
template <class Form, auto Part>
constexpr auto tcp_key(std::string_view name, std::string_view text) {
  return key<Form, &ScenarioHost::options, &HostOptions::tcp, Part>(name, text);
}

constexpr Key<ScenarioHost> tcp_table[] = {
    tcp_key<Size<2048, 1 << 30>, &TcpOptions::send_buffer>("send_buffer", "of each connection"),
    tcp_key<Size<2048, 1 << 30>, &TcpOptions::receive_buffer>("receive_buffer", "of each connection"),
    tcp_flag<&TcpOptions::window_scale>("window_scale", "RFC 7323 §2"),
    tcp_flag<&TcpOptions::sack_permitted>("sack_permitted", "RFC 2018 §2"),
    tcp_flag<&TcpOptions::timestamps>("timestamps", "RFC 7323 §3"),
    tcp_time<&TcpOptions::rto_initial>("rto_initial", "retransmission timeout before anything was measured"),
    tcp_time<&TcpOptions::rto_min>("rto_min", "the least"),
    tcp_time<&TcpOptions::rto_max>("rto_max", "the most"),
    tcp_time<&TcpOptions::delayed_ack>("delayed_ack", "the longest that an ACK waits"),
    tcp_key<IntegerForm<0, 255>, &TcpOptions::syn_retries>("syn_retries", "then opening has failed"),
    tcp_key<IntegerForm<0, 255>, &TcpOptions::retries>("retries", "of data; then the connection has failed"),
    tcp_time<&TcpOptions::time_wait>("time_wait", "how long a closed connection is remembered"),
};

template <auto Part>
constexpr auto rnic_time(std::string_view name, std::string_view text) {
  return key<Time, &ScenarioHost::options, &HostOptions::rnic, Part>(name, text);
}

constexpr Key<ScenarioHost> rnic_table[] = {
    key<IntegerForm<1, 16'777'216>, &ScenarioHost::options, &HostOptions::manager, &cm::ManagerOptions::endpoints_max>(
        "endpoints_max", "ids alive at once"),
    key<IntegerForm<0, any_number>, &ScenarioHost::options, &HostOptions::rnic,
        &cm::IwarpProviderOptions::tagged_offset_base>("tagged_offset_base", "of the first registered region"),
    rnic_time<&cm::IwarpProviderOptions::linger>("linger", "closing: longest wait without progress"),
    rnic_time<&cm::IwarpProviderOptions::half_close_grace>("half_close_grace", "time to answer after the peer's FIN"),
    rnic_time<&cm::IwarpProviderOptions::echo_watch>("echo_watch",
                                                     "how long an Rtr frame's sender watches for a Terminate"),
};

struct IbMtu {
  static std::string form() { return "one of 256, 512, 1024, 2048, 4096"; }
  static std::string read(const DocValue& value, Mtu& out) {
    for (int n = 1; n <= 5; ++n)
      if (value.kind == Kind::integer && value.integer == 128 << n) return out = static_cast<Mtu>(n), std::string();
    return wrong(value, form());
  }
  static std::string write(Mtu in) { return std::to_string(128 << static_cast<int>(in)); }
};

using OverloadAction = Choice<cm::RoceWhenFull, cm::RoceWhenFull::drop>;

template <class Form, auto Part>
constexpr auto hca_key(std::string_view name, std::string_view text) {
  return key<Form, &ScenarioHost::options, &HostOptions::hca, Part>(name, text);
}

constexpr Key<ScenarioHost> hca_table[] = {
    hca_key<IbMtu, &cm::RoceProviderOptions::mtu>("mtu", "octets of payload in a packet, at most"),
    hca_key<IntegerForm<1, 31>, &cm::RoceProviderOptions::ack_timeout>(
        "ack_timeout", "of the queue pairs on both sides: 4.096 us times 2 to the power of it (IBA §9.9.1)"),
    hca_key<Time, &cm::RoceProviderOptions::reply_timeout>("reply_timeout",
                                                           "longest wait for the answer to a REQ or REP"),
    hca_key<Time, &cm::RoceProviderOptions::ack_delay>("ack_delay",
                                                       "how long the ACK of a short message waits for further ones"),
    hca_key<Time, &cm::RoceProviderOptions::resend_first>("resend_first", "when a message of the CM is sent again"),
    hca_key<Time, &cm::RoceProviderOptions::resend_cap>("resend_cap",
                                                        "the most that this wait, doubled each time, becomes"),
    hca_key<OverloadAction, &cm::RoceProviderOptions::when_full>(
        "when_full", "what a REQ gets for which its listeners have no room: an MRA, REJ 28, REJ 3, or nothing"),
    hca_key<Time, &cm::RoceProviderOptions::retry_after>(
        "retry_after", "when_full retry_after: when the peer may come again, 1ms to 65535ms"),
    hca_key<Flag, &cm::RoceProviderOptions::offer_retry_after>(
        "offer_retry_after",
        "its REQs announce that it honours a retry-after, in 8 of their 56 octets of private data"),
    hca_key<Flag, &cm::RoceProviderOptions::spec_timers>(
        "spec_timers", "messages of the CM are sent again after IBA's response timeouts, 4.3 s each time"),
    hca_key<IntegerForm<0, 255>, &cm::RoceProviderOptions::traffic_class>(
        "traffic_class",
        "of connections that it asks for: DSCP, and in the lower two bits ECN; 106 can be marked (ECT(0))"),
    hca_key<Text, &cm::RoceProviderOptions::play_quirk>("play_quirk",
                                                        "whose known departures it plays (parley quirks)"),
    hca_key<Time, &cm::RoceProviderOptions::linger>("linger", "closing: longest wait, each for requests and the peer"),
};

constexpr Key<NicOptions> nic_table[] = {
    key<Text, &NicOptions::name>("name", "as of a host; elsewhere \"host/name\""),
    key<NicMtu, &NicOptions::mtu>("mtu", "octets of the IP packet; the link's when left out, and never more than that"),
    key<Choice<NicEngine, NicEngine::none>, &NicOptions::engine>(
        "engine", "what speaks RDMA behind it; none is plain Ethernet, which no connection uses"),
    key<Number, &NicOptions::interface_id>("interface_id",
                                           "the lower half of its link-local address; 0: made of its MAC address"),
};

constexpr Key<ScenarioLink> link_table[] = {
    Key<ScenarioLink>{"ends", ends_form, "what it joins: hosts, NICs of hosts (\"a/n1\") and switches", read_ends,
                      write_ends, nullptr},
    Key<ScenarioLink>{"name", Text::form, "the names of its ends, joined by '-', when left out", read_link_name,
                      write_link_name, nullptr},
    key<Rate, &ScenarioLink::options, &LinkOptions::rate_bps>("rate", "of each direction"),
    key<Time, &ScenarioLink::options, &LinkOptions::delay>("delay", "from end to end"),
    key<Size<0, 1 << 30>, &ScenarioLink::options, &LinkOptions::queue_octets>("queue",
                                                                              "waiting to be sent, per direction"),
    key<IntegerForm<576, 9000>, &ScenarioLink::options, &LinkOptions::mtu>("mtu", "octets of the IP packet"),
};

template <class Form, class Owner, auto... Part>
constexpr auto mpa_key(std::string_view name, std::string_view text) {
  return key<Form, &Owner::mpa, Part...>(name, text);
}

constexpr Key<ScenarioListen> listen_table[] = {
    key<Text, &ScenarioListen::host>("host", "which host listens"),
    key<IntegerForm<1, 65535>, &ScenarioListen::port>("port", "TCP port; of RoCE, that of the service ID"),
    key<Choice<AddressKind, AddressKind::link_local>, &ScenarioListen::address>("address", "at which of its addresses"),
    key<Choice<QpKind, QpKind::xrc>, &ScenarioListen::qp>(
        "qp", "RoCE: connections, the service of a UD queue pair, or a node of processes with XRC"),
    key<Moment, &ScenarioListen::at>("at", "when it begins to listen"),
    key<Time, &ScenarioListen::accept_after>("accept_after", "how long it thinks before it answers a Request"),
    key<Reject, &ScenarioListen::reject_every>("reject", "which requests it rejects"),
    key<PrivateData, &ScenarioListen::private_data>("private_data", "of its Replies"),
    key<IntegerForm<1, 1'000'000>, &ScenarioListen::pending_max>(
        "pending_max", "connections in set-up at once, and half-open in TCP; more SYNs are not answered"),
    key<IntegerForm<1, 16>, &ScenarioListen::processes>("processes", "XRC: how many, each with a shared receive queue"),
    key<Flag, &ScenarioListen::relisten>("relisten", "listens again after a restart of the host"),
    mpa_key<Depth, ScenarioListen, &mpa::StartupOptions::ird>("ird", "inbound RDMA Reads it can hold"),
    mpa_key<Depth, ScenarioListen, &mpa::StartupOptions::ord>("ord", "outbound RDMA Reads it wants"),
};

constexpr Key<ScenarioListen> listen_mpa_table[] = {
    mpa_key<IntegerForm<1, 2>, ScenarioListen, &Options::revision>("revision", "the highest MPA revision accepted"),
    mpa_key<Flag, ScenarioListen, &Options::crc>("crc", "asks for CRC32c (RFC 5044 §4.4)"),
    mpa_key<Flag, ScenarioListen, &Options::markers>("markers", "requires markers in what it receives (RFC 5044 §4.3)"),
    mpa_key<Flag, ScenarioListen, &Options::accept_rtr_frame>("accept_rtr_frame", "takes the Rtr frame of 2007"),
    mpa_key<RtrForms, ScenarioListen, &Options::rtr_accept>("rtr_accept", "RTR forms taken under revision 2"),
    mpa_key<RtrForm, ScenarioListen, &Options::rtr_expected>(
        "rtr_expected", "RTR waited for under revision 1 although nothing announced it"),
    mpa_key<Time, ScenarioListen, &Options::timeouts, &Timeouts::request>("request_timeout",
                                                                          "TCP up to a whole Request"),
    mpa_key<Time, ScenarioListen, &Options::timeouts, &Timeouts::rtr>("rtr_timeout", "Reply up to the agreed RTR"),
    mpa_key<Time, ScenarioListen, &Options::timeouts, &Timeouts::first_fpdu>(
        "first_fpdu_timeout", "without an RTR: Reply up to the first FPDU; 0s waits for ever"),
    mpa_key<IntegerForm<0, mpa::depth_max>, ScenarioListen, &Options::ird_max>("ird_max",
                                                                               "to how much IRD may be raised"),
    mpa_key<IntegerForm<0, mpa::private_data_room(1)>, ScenarioListen, &Options::private_data_max>(
        "private_data_max", "longest taken from a peer"),
    mpa_key<Text, ScenarioListen, &Options::peer_quirk>("peer_quirk", "whose known departures it tolerates"),
    mpa_key<Text, ScenarioListen, &Options::play_quirk>("play_quirk", "whose known departures it plays"),
};

constexpr Key<ScenarioConnect> connect_table[] = {
    Key<ScenarioConnect>{"from", Text::form, "the initiator's host, or its NIC as in \"a/n1\"",
                         read_end_name<&ScenarioConnect::from, &ScenarioConnect::from_nic>,
                         write_end_name<&ScenarioConnect::from, &ScenarioConnect::from_nic>, nullptr},
    Key<ScenarioConnect>{"to", Text::form, "the responder's host, or its NIC",
                         read_end_name<&ScenarioConnect::to, &ScenarioConnect::to_nic>,
                         write_end_name<&ScenarioConnect::to, &ScenarioConnect::to_nic>, nullptr},
    key<Names, &ScenarioConnect::backups>("backups",
                                          "other NICs of the responder, tried in turn when the one before has failed"),
    key<IntegerForm<1, 65535>, &ScenarioConnect::port>("port", "TCP port; of RoCE, that of the service ID"),
    key<Choice<AddressKind, AddressKind::link_local>, &ScenarioConnect::address>("address",
                                                                                 "which of the responder's addresses"),
    key<Choice<QpKind, QpKind::xrc>, &ScenarioConnect::qp>(
        "qp", "RoCE: a connection, datagrams to the queue pair of a service (SIDR), or XRC to a node's processes"),
    key<Moment, &ScenarioConnect::at>("at", "when it begins"),
    key<IntegerForm<1, 1'000'000>, &ScenarioConnect::count>("count", "how many such connections"),
    key<Time, &ScenarioConnect::interval>("interval", "between the starts of two"),
    key<Choice<Expect, Expect::settled>, &ScenarioConnect::expect>("expect", "how each must end; see below"),
    key<Time, &ScenarioConnect::established_within>("established_within",
                                                    "expect established: longest set-up on either end; 0s is any"),
    key<Choice<Transfer, Transfer::read>, &ScenarioConnect::transfer>("transfer", "what goes over it"),
    key<IntegerForm<0, 1'000'000>, &ScenarioConnect::messages>("messages",
                                                               "each way for Sends, else from the initiator"),
    key<Octets<16'777'216>, &ScenarioConnect::octets>("octets", "of each message"),
    key<Flag, &ScenarioConnect::both_ways>("both_ways", "the responder sends too"),
    key<IntegerForm<0, 16>, &ScenarioConnect::srq>("srq", "XRC: to the queue of which process; 0: to each in turn"),
    key<Choice<ClosingSide, ClosingSide::nobody>, &ScenarioConnect::closer>("close", "the side that disconnects"),
    key<Time, &ScenarioConnect::close_after>("close_after", "after the last transfer"),
    key<IntegerForm<0, 1000>, &ScenarioConnect::retries>("retries", "how often a failed connection is retried"),
    key<Time, &ScenarioConnect::retry_after>("retry_after", "and after which time"),
    key<PrivateData, &ScenarioConnect::private_data>("private_data", "of its Request"),
    key<Time, &ScenarioConnect::transport_timeout>("transport_timeout", "longest wait for TCP to open"),
    key<Time, &ScenarioConnect::timeout>("timeout", "longest time until it is up, over all its backups; 0s is any"),
    mpa_key<Depth, ScenarioConnect, &mpa::StartupOptions::ird>("ird", "inbound RDMA Reads it can hold"),
    mpa_key<Depth, ScenarioConnect, &mpa::StartupOptions::ord>("ord", "outbound RDMA Reads it wants"),
};

constexpr Key<ScenarioConnect> connect_mpa_table[] = {
    mpa_key<IntegerForm<1, 2>, ScenarioConnect, &Options::revision>("revision", "MPA revision of the Request"),
    mpa_key<Flag, ScenarioConnect, &Options::fall_back_to_v1>("fall_back_to_v1", "tries revision 1 after RST or FIN"),
    mpa_key<Flag, ScenarioConnect, &Options::crc>("crc", "asks for CRC32c (RFC 5044 §4.4)"),
    mpa_key<Flag, ScenarioConnect, &Options::markers>("markers",
                                                      "requires markers in what it receives (RFC 5044 §4.3)"),
    mpa_key<RtrForm, ScenarioConnect, &Options::rtr>("rtr", "the ready-to-receive it sends first"),
    mpa_key<RtrForms, ScenarioConnect, &Options::rtr_offer>("rtr_offer", "revision 2: further forms offered"),
    mpa_key<Flag, ScenarioConnect, &Options::rtr_by_s>("rtr_by_s", "revision 1: announces its RTR with the S flag"),
    mpa_key<RtrForm, ScenarioConnect, &Options::rtr_fallback>("rtr_fallback",
                                                              "revision 1: RTR when the Reply does not confirm S"),
    mpa_key<RtrSpellingForm, ScenarioConnect, &Options::rtr_spelling>("rtr_spelling",
                                                                      "key of the Rtr frame: Rtr or RtR"),
    mpa_key<Time, ScenarioConnect, &Options::timeouts, &Timeouts::reply>("reply_timeout",
                                                                         "Request sent up to a whole Reply"),
    mpa_key<IntegerForm<0, mpa::depth_max>, ScenarioConnect, &Options::ird_max>("ird_max",
                                                                                "to how much IRD may be raised"),
    mpa_key<IntegerForm<0, mpa::private_data_room(1)>, ScenarioConnect, &Options::private_data_max>(
        "private_data_max", "longest taken from a peer"),
    mpa_key<Text, ScenarioConnect, &Options::peer_quirk>("peer_quirk", "whose known departures it tolerates"),
    mpa_key<Text, ScenarioConnect, &Options::play_quirk>("play_quirk", "whose known departures it plays"),
};

constexpr Key<ScenarioMember> member_table[] = {
    key<Text, &ScenarioMember::host>("host", "which host receives"),
    key<Group, &ScenarioMember::group>("group", "what goes to this multicast group"),
    key<Moment, &ScenarioMember::at>("at", "when it joins"),
    key<Moment, &ScenarioMember::until>("until", "when it leaves"),
    key<Flag, &ScenarioMember::rejoin>("rejoin", "joins again after a restart of the host"),
    key<OptionalForm<IntegerForm<0, u32_max>>, &ScenarioMember::expect>(
        "expect", "how many datagrams it gets; when left out each that is sent meanwhile"),
};

constexpr Key<ScenarioSend> send_table[] = {
    key<Text, &ScenarioSend::from>("from", "which host sends; it need not be a member"),
    key<Group, &ScenarioSend::group>("group", "to which multicast group"),
    key<Moment, &ScenarioSend::at>("at", "when it begins"),
    key<IntegerForm<0, 100'000>, &ScenarioSend::messages>("messages", "how many datagrams"),
    key<Octets<4096>, &ScenarioSend::octets>("octets", "of each, 8 or more"),
    key<Time, &ScenarioSend::interval>("interval", "between two of them; 0s: as fast as they leave"),
};

constexpr Key<ScenarioExit> exit_table[] = {
    key<Text, &ScenarioExit::host>("host", "on which host a process ends"),
    key<IntegerForm<1, 65535>, &ScenarioExit::port>("port", "one of the listener at this port"),
    key<IntegerForm<1, 16>, &ScenarioExit::process>("process", "which of its processes"),
    key<Moment, &ScenarioExit::at>("at", "when"),
    key<Choice<ExitKind, ExitKind::leave>, &ScenarioExit::how>(
        "how", "kill: it ends, and the system closes its objects; leave: it releases them itself"),
};

template <class Form, auto... Part>
constexpr auto rule_key(std::string_view name, std::string_view text) {
  return key<Form, &ScenarioFault::rule, Part...>(name, text);
}

constexpr Key<ScenarioFault> fault_table[] = {
    Key<ScenarioFault>{"action", Action::form, "what happens; see below", read_action, write_action, nullptr},
    key<Text, &ScenarioFault::link>("link", "on which link; none for the actions of a host at a time"),
    key<Text, &ScenarioFault::toward>("to", "only towards this end of the link; both ways when left out"),
    key<Text, &ScenarioFault::host>(
        "host", "crash, restart, pause, resume, end_process, stop_process, continue_process: of which host"),
    rule_key<MessageWord, &FaultRule::match, &Match::message>("match", "which frames"),
    rule_key<IntegerForm<0, u32_max>, &FaultRule::match, &Match::fpdu>("fpdu",
                                                                       "match fpdu: its number from 1; 0 is any"),
    rule_key<IntegerForm<0, u32_max>, &FaultRule::match, &Match::connection>(
        "connection",
        "only the n-th TCP connection over this link, with a match of RoCE the n-th RoCE connection; 0 is each"),
    rule_key<OptionalForm<IntegerForm<0, 0xFF'FFFF>>, &FaultRule::match, &Match::psn>(
        "psn", "only packets of RoCE with this PSN, as it is on the wire"),
    Key<ScenarioFault>{"nth", IntegerForm<1, u32_max>::form,
                       "the n-th frame that matches, and no other unless `times` is given",
                       Member<IntegerForm<1, u32_max>, &ScenarioFault::rule, &FaultRule::match, &Match::nth>::read,
                       write_nth, nullptr},
    Key<ScenarioFault>{"times", times_form, "so many frames from the n-th (or the first) on", read_times, write_times,
                       nullptr},
    rule_key<RatioForm, &FaultRule::chance>("chance", "how likely a matching frame is hit"),
    rule_key<Mask, &FaultRule::mask>("mask", "instead of chance: bit i (from 0, the last written) hits match i"),
    Key<ScenarioFault>{"from", Moment::form, "the rule holds from this time on", read_from, write_from, nullptr},
    Key<ScenarioFault>{"at", Moment::form, "when a host or a rate changes", read_from, write_at, nullptr},
    rule_key<Moment, &FaultRule::until>("until", "and no more from this time on"),
    rule_key<Time, &FaultRule::delay>("delay", "delay: of the frame; host actions on a link: after the frame"),
    rule_key<Time, &FaultRule::jitter>("jitter", "delay: up to this much more, drawn for each frame"),
    rule_key<Flag, &FaultRule::reorder>("reorder", "delay: later frames may overtake"),
    rule_key<IntegerForm<1, 64>, &FaultRule::count>("count", "duplicate: copies; corrupt: bits"),
    rule_key<Octets<9018>, &FaultRule::octets>("octets", "truncate, cut_stream: how many are left"),
    rule_key<Choice<MessageField, MessageField::status>, &FaultRule::field>(
        "field", "corrupt_mpa, corrupt_roce: what is damaged"),
    rule_key<OptionalForm<Number>, &FaultRule::value>("value",
                                                      "corrupt_roce: what the field is set to; else one bit flips"),
    rule_key<Rate, &FaultRule::rate_bps>("rate", "set_rate: the new one, of both directions or towards `to`"),
    Key<ScenarioFault>{"may_miss", Flag::form, "the run may pass although this fault hits nothing; else it fails",
                       read_may_miss, write_may_miss, may_miss_standard},
    rule_key<Text, &FaultRule::name>("name", "shown in captures and reports"),
};

}  // namespace

std::span<const Key<Scenario>> scenario_keys() { return scenario_table; }
std::span<const Key<ScenarioBounds>> bounds_keys() { return bounds_table; }
std::span<const Key<ScenarioHost>> host_keys() { return host_table; }
std::span<const Key<ScenarioHost>> switch_keys() { return switch_table; }
std::span<const Key<ScenarioHost>> tcp_keys() { return tcp_table; }
std::span<const Key<ScenarioHost>> rnic_keys() { return rnic_table; }
std::span<const Key<ScenarioHost>> hca_keys() { return hca_table; }
std::span<const Key<NicOptions>> nic_keys() { return nic_table; }
std::span<const Key<ScenarioLink>> link_keys() { return link_table; }
std::span<const Key<ScenarioListen>> listen_keys() { return listen_table; }
std::span<const Key<ScenarioListen>> listen_mpa_keys() { return listen_mpa_table; }
std::span<const Key<ScenarioConnect>> connect_keys() { return connect_table; }
std::span<const Key<ScenarioConnect>> connect_mpa_keys() { return connect_mpa_table; }
std::span<const Key<ScenarioMember>> member_keys() { return member_table; }
std::span<const Key<ScenarioSend>> send_keys() { return send_table; }
std::span<const Key<ScenarioExit>> exit_keys() { return exit_table; }
std::span<const Key<ScenarioFault>> fault_keys() { return fault_table; }

}  // namespace parley::sim
