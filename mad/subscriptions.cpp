// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/subscriptions.hpp"

#include <algorithm>

#include "mad/scope.hpp"

namespace parley::mad {

using wire::mad::InformInfo;
using wire::mad::InformInfoRecord;
using wire::mad::Notice;
using wire::mad::SaHeader;

namespace {

constexpr std::uint16_t no_resources = 1 << 8, request_invalid = 2 << 8, no_records = 3 << 8, too_many_records = 4 << 8;
constexpr std::uint16_t all_lids = 0xFFFF, all_types = 0xFFFF, all_traps = 0xFFFF;
constexpr std::uint32_t all_producers = 0xFFFFFF;
constexpr std::size_t data_at = rmpp::header_octets, issuer_gid = Notice::size;

bool is_sane(const InformInfo& info) {
  if (info.get(InformInfo::subscribe) > 1 || info.get(InformInfo::is_generic) > 1) return false;
  const std::uint16_t begin = info.get(InformInfo::lid_range_begin), end = info.get(InformInfo::lid_range_end);
  if (info.get(InformInfo::gid) != Gid{} || begin == all_lids) return true;
  return is_unicast_lid(begin) && (end == 0 || (begin <= end && is_unicast_lid(end)));
}

/// What identifies a subscription: all members except the response time, and whether to subscribe or unsubscribe.
InformInfo essence_of(InformInfo info) {
  return info.set(InformInfo::subscribe, 0).set(InformInfo::resp_time_value, 0);
}

bool is_same(const Subscription& a, const Subscription& b) {
  return same_port(a.to, b.to) && essence_of(a.info) == essence_of(b.info);
}

/// Whether the members that `mask` names are the same in both (IBA C15-0.1.27).
bool agree(const InformInfoRecord& a, const InformInfoRecord& b, std::uint64_t mask) {
  const auto differs = [&](std::size_t bit, std::size_t width, const wire::mad::Components& components) {
    if ((mask & components.mask()) == 0) return false;
    for (std::size_t at = bit; at < bit + width; at += 8) {
      const std::size_t rest = std::min<std::size_t>(8, bit + width - at);
      if (read_bits(a.octets(), at, rest) != read_bits(b.octets(), at, rest)) return true;
    }
    return false;
  };
  for (const wire::mad::Field& field : InformInfoRecord::layout.fields) {
    if (field.nested == nullptr) {
      if (differs(field.bit, field.bits(), wire::mad::components_of(InformInfoRecord::layout, field.bit))) return false;
      continue;
    }
    for (const wire::mad::Field& inner : field.nested->fields) {
      const std::size_t bit = inner.bit;
      const auto components = wire::mad::components_of(InformInfoRecord::layout, field.bit, &bit);
      if (differs(field.bit + bit, inner.bits(), components)) return false;
    }
  }
  return true;
}

Bytes octets_of(const std::optional<Datagram>& reply) { return reply ? Bytes(reply->begin(), reply->end()) : Bytes(); }

/// Calls end_report() at the end of the task, whatever the reason.
struct ReportGuard {
  Subscriptions& subscriptions;
  std::uint32_t id;
  std::optional<Fault> fault = Fault::cancelled;
  ~ReportGuard() { subscriptions.end_report(id, fault); }
};

Task<> tell(Port& port, Subscriptions& subscriptions, std::uint32_t id, Bytes body, std::size_t& answered) {
  const std::optional<Path> path = subscriptions.begin_report(id);
  if (!path) co_return;
  ReportGuard under{subscriptions, id};
  const Rpc rpc{.mgmt_class = MgmtClass::subn_adm, .method = Method::report, .attribute = Notice::attribute};
  const Reply<RawReply> reply = co_await port.raw(*path, rpc, body);
  under.fault = reply ? std::nullopt : std::optional(reply.error().fault());
  if (reply) ++answered;
}

}  // namespace

bool is_wanted(const InformInfo& info, const Notice& notice, const Gid& issuer) {
  const Gid gid = info.get(InformInfo::gid);
  const std::uint16_t begin = info.get(InformInfo::lid_range_begin), end = info.get(InformInfo::lid_range_end);
  const std::uint16_t lid = notice.get(Notice::issuer_lid);
  if (gid != Gid{} ? gid != issuer : begin != all_lids && (lid < begin || lid > std::max(begin, end))) return false;
  if ((info.get(InformInfo::is_generic) != 0) != notice.get(Notice::is_generic)) return false;
  const std::uint16_t type = info.get(InformInfo::type), trap = info.get(InformInfo::trap_number);
  if (type != all_types && type != static_cast<std::uint16_t>(notice.get(Notice::notice_type))) return false;
  if (trap != all_traps && trap != notice.get(Notice::trap_number)) return false;
  const auto producer = static_cast<std::uint32_t>(info.get(InformInfo::producer_type));
  return producer == all_producers || producer == static_cast<std::uint32_t>(notice.get(Notice::node_type));
}

Bytes Subscriptions::answer(const Address& from, const Gid& gid, ConstBytes mad) {
  const auto parsed = parse_request(mad);
  if (!parsed || parsed->facts->mgmt_class != MgmtClass::subn_adm) return {};
  if (parsed->attribute == InformInfo::attribute) return set(from, gid, mad);
  if (parsed->attribute == InformInfoRecord::attribute) return get(mad, parsed->method == Method::get_table);
  return {};
}

/// IBA §13.4.8.3: the answer is a copy of the request; if that is refused, with Subscribe = 0.
Bytes Subscriptions::set(const Address& from, const Gid& gid, ConstBytes mad) {
  const auto asked = InformInfo::parse(mad.subspan(data_at));
  if (!asked) return {};
  InformInfo info = *asked;
  const bool subscribes = info.get(InformInfo::subscribe) != 0;
  // Reports go to the queue pair that has sent the request to subscribe. A request to unsubscribe names that queue
  // pair.
  if (subscribes || info.get(InformInfo::qpn) == 0) info.set(InformInfo::qpn, from.qpn);
  const Subscription wanted{.to = from, .subscriber = gid, .info = info};
  std::uint16_t status = request_invalid;
  if (is_sane(info)) status = subscribes ? subscribe(wanted) : unsubscribe(wanted);
  info = *asked;
  if (status != 0) {
    ++counters_.refused;
    info.set(InformInfo::subscribe, 0);
  }
  return octets_of(reply_to(mad, info.octets(), status));
}

std::uint16_t Subscriptions::subscribe(Subscription wanted) {
  std::vector<bool> taken(options_.most_of_port);
  std::size_t of_port = 0;
  for (Subscription& each : all_) {
    if (is_same(each, wanted)) {  // a repetition: the response time may differ
      each.info = wanted.info;
      each.unanswered = 0;
      return 0;
    }
    if (!same_port(each.to, wanted.to)) continue;
    ++of_port;
    if (each.enumeration < taken.size()) taken[each.enumeration] = true;
  }
  if (all_.size() >= options_.most || of_port >= options_.most_of_port) return no_resources;
  wanted.id = next_id_++;
  wanted.enumeration = static_cast<std::uint16_t>(std::find(taken.begin(), taken.end(), false) - taken.begin());
  all_.push_back(std::move(wanted));
  ++counters_.subscribed;
  return 0;
}

std::uint16_t Subscriptions::unsubscribe(const Subscription& wanted) {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const auto& each) { return is_same(each, wanted); });
  if (found == all_.end()) return request_invalid;
  all_.erase(found);
  ++counters_.unsubscribed;
  return 0;
}

Bytes Subscriptions::get(ConstBytes mad, bool table) const {
  const auto asked = InformInfoRecord::parse(mad.subspan(data_at));
  if (!asked) return {};
  const std::uint64_t mask = SaHeader::parse(mad)->get(SaHeader::component_mask);
  Bytes records;
  for (const Subscription& each : all_) {
    InformInfoRecord record;
    record.set(InformInfoRecord::subscriber_gid, each.subscriber).set(InformInfoRecord::enumeration, each.enumeration);
    record.set(InformInfoRecord::inform_info, each.info);
    if (agree(record, *asked, mask)) records.insert(records.end(), record.octets().begin(), record.octets().end());
  }
  if (table) return table_reply(mad, records, InformInfoRecord::size);
  if (records.size() == InformInfoRecord::size) return octets_of(reply_to(mad, records));
  return octets_of(error_reply(mad, records.empty() ? no_records : too_many_records));
}

std::vector<std::uint32_t> Subscriptions::wanting(const Notice& notice, const Gid& issuer) const {
  std::vector<std::uint32_t> out;
  for (const Subscription& each : all_)
    if (is_wanted(each.info, notice, issuer)) out.push_back(each.id);
  return out;
}

Subscription* Subscriptions::find(std::uint32_t id) {
  const auto found = std::find_if(all_.begin(), all_.end(), [id](const auto& each) { return each.id == id; });
  return found == all_.end() ? nullptr : &*found;
}

std::optional<Path> Subscriptions::begin_report(std::uint32_t id) {
  Subscription* const each = find(id);
  if (each == nullptr) return std::nullopt;
  if (each->reports >= options_.under_way_of_one) {
    ++counters_.missed;
    return std::nullopt;
  }
  ++each->reports;
  ++counters_.reported;
  Path path;
  path.address = each->to;
  path.retries = options_.retries;
  path.timeout.reset();
  path.packet_life_time = options_.packet_life_time;
  path.response_time = std::min(each->info.get(InformInfo::resp_time_value), options_.response_time_max);
  return path.reverse();
}

/// Only a missing answer counts against the subscription. An answer with an error status is an answer, and a fault of
/// this side does not count.
void Subscriptions::end_report(std::uint32_t id, std::optional<Fault> fault) {
  const bool silent = fault == Fault::timeout || fault == Fault::refused;
  const bool local =
      fault == Fault::cancelled || fault == Fault::deadline || fault == Fault::no_space || fault == Fault::invalid;
  if (silent) ++counters_.unanswered;
  if (!silent && !local) ++counters_.answered;
  Subscription* const each = find(id);
  if (each == nullptr) return;
  --each->reports;
  if (!local) each->unanswered = silent ? each->unanswered + 1 : 0;
  if (each->unanswered < options_.unanswered_max) return;
  ++counters_.dropped;
  std::erase_if(all_, [id](const Subscription& other) { return other.id == id; });
}

Result<ReportedNotice> parse_report(ConstBytes mad) {
  if (mad.size() < data_at + issuer_gid + sizeof(Gid)) return fail(Errc::truncated);
  ReportedNotice out{.notice = *Notice::parse(mad.subspan(data_at))};
  std::copy_n(mad.begin() + data_at + issuer_gid, out.issuer.size(), out.issuer.begin());
  return out;
}

Task<std::size_t> report(Port& port, Subscriptions& subscriptions, Notice notice, Gid issuer) {
  Bytes body(notice.octets().begin(), notice.octets().end());
  body.insert(body.end(), issuer.begin(), issuer.end());
  std::size_t answered = 0;
  Scope scope(port.executor(), {.on_error = OnError::keep, .limit = subscriptions.options().under_way});
  for (const std::uint32_t id : subscriptions.wanting(notice, issuer)) {
    if (!co_await scope.room()) break;
    scope.spawn(tell(port, subscriptions, id, body, answered));
  }
  (void)co_await scope.join();
  co_return answered;
}

}  // namespace parley::mad
