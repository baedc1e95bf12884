// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/acm/server.hpp"

#include <algorithm>

#include "base/bytes_io.hpp"

namespace parley::ssa::acm {

namespace {

using wire::mad::PathRecord;

constexpr std::size_t endpoint_octets = 80;  // before its names

std::size_t records_of(ConstBytes message) { return (message.size() - header_octets) / record_octets; }
Record record_at(ConstBytes message, std::size_t index) {
  return parse_record(message.subspan(header_octets + index * record_octets));
}

Header answer_to(const Header& request, std::size_t octets) {
  Header out = request;
  out.is_answer = true;
  out.status = Status::success;
  out.data = {};
  out.length = static_cast<std::uint16_t>(octets);
  return out;
}

std::optional<Gid> given(const Gid& gid) { return gid == Gid{} ? std::nullopt : std::optional(gid); }

/// A PathRecord as its client gets it. Without the flag for the way back it is a path in one direction.
Record path_answer(const PathRecord& path) {
  using namespace path_flag;
  Record out{gmp | primary | outbound, record_type::path, {}};
  if (path.get(PathRecord::reversible)) out.flags |= inbound_reverse;
  const ConstBytes octets = path.octets();
  std::copy(octets.begin(), octets.end(), out.info.begin());
  return out;
}

bool has_port(const PathMap& map, const std::optional<Gid>& gid, std::uint16_t lid) {
  return (gid ? map.end_of_gid(*gid) : map.end_of_lid(lid)) != no_end;
}

/// Why a path is missing.
Status missing(const PathMap& map, const PathQuery& query) {
  if (!has_port(map, query.sgid, query.slid)) return Status::source_address;
  if (!has_port(map, query.dgid, query.dlid)) return Status::destination_address;
  return Status::no_data;
}

void append_text(Bytes& out, std::string_view text) {
  const std::size_t at = out.size();
  out.resize(at + info_octets);
  std::copy_n(text.begin(), std::min(text.size(), name_octets_max), out.begin() + static_cast<std::ptrdiff_t>(at));
}

/// Source and destination of a request by addresses.
struct Ends {
  std::optional<Record> source, destination;
  Status status = Status::success;
};

Ends ends_of(ConstBytes message) {
  Ends out;
  for (std::size_t i = 0; i < records_of(message); ++i) {
    const Record record = record_at(message, i);
    const bool is_address = record.type >= record_type::name && record.type <= record_type::ipv6;
    if ((record.flags & flag::source) != 0) {
      if (out.source) return {{}, {}, Status::source_address};
      if (!is_address) return {{}, {}, Status::source_type};
      out.source = record;
    }
    if ((record.flags & flag::destination) != 0) {
      if (out.destination) return {{}, {}, Status::destination_address};
      if (!is_address) return {{}, {}, Status::destination_type};
      out.destination = record;
    }
  }
  if (!out.destination) out.status = Status::destination_type;
  return out;
}

}  // namespace

Result<void> Session::feed(ConstBytes in, Bytes& out) {
  unread_.insert(unread_.end(), in.begin(), in.end());
  return process(out);
}

Result<void> Session::process(Bytes& out) {
  std::size_t at = 0;
  while (!is_waiting() && unread_.size() - at >= header_octets) {
    const ConstBytes rest = ConstBytes(unread_).subspan(at);
    const auto header = parse_header(rest);
    if (!header) return tl::unexpected(header.error());
    if (header->is_answer) return fail(Errc::malformed, "the message is an answer; it must be a request");
    if (header->length > rest.size()) break;
    answer(*header, rest.first(header->length), out);
    at += header->length;
  }
  unread_.erase(unread_.begin(), unread_.begin() + static_cast<std::ptrdiff_t>(at));
  return {};
}

void Session::answer(const Header& header, ConstBytes message, Bytes& out) {
  switch (header.operation) {
    case Operation::resolve: return resolve(header, message, out);
    case Operation::perf_query: return perf_query(header, message, out);
    case Operation::ep_query: return ep_query(header, out);
  }
}

void Session::refuse(const Header& header, Status status, Bytes& out) {
  server_.count(status == Status::no_data ? Counter::no_data : Counter::error);
  Header refused = answer_to(header, header_octets);
  refused.status = status;
  append(out, refused);
}

void Session::resolve(const Header& header, ConstBytes message, Bytes& out) {
  server_.count(Counter::resolve);
  Status status = Status::invalid;
  const bool whole = (message.size() - header_octets) % record_octets == 0;
  const std::optional<Record> first = records_of(message) > 0 ? std::optional(record_at(message, 0)) : std::nullopt;
  if (!whole) return refuse(header, status, out);
  if (first && first->type == record_type::path)
    status = (first->flags & flag::query_sa) != 0 ? ask_sa(header, message) : resolve_path(header, *first, out);
  else
    status = resolve_addresses(header, message, out);
  if (status != Status::success) refuse(header, status, out);
}

Status Session::resolve_path(const Header& header, const Record& asked, Bytes& out) {
  const auto record = PathRecord::parse(asked.info);
  if (!record) return Status::invalid;
  PathQuery query{.sgid = given(record->get(PathRecord::sgid)),
                  .dgid = given(record->get(PathRecord::dgid)),
                  .slid = record->get(PathRecord::slid),
                  .dlid = record->get(PathRecord::dlid),
                  .p_key = record->get(PathRecord::p_key)};
  if (!query.dgid && query.dlid == 0) return Status::destination_address;
  if (!query.sgid && query.slid == 0) {
    const Gid* const own = local_gid();
    if (own == nullptr) return Status::source_address;
    query.sgid = *own;
  }
  return answer_path(header, query, nullptr, record->get(PathRecord::reversible), out);
}

Status Session::resolve_addresses(const Header& header, ConstBytes message, Bytes& out) {
  const Ends ends = ends_of(message);
  if (ends.status != Status::success) return ends.status;
  Gid own_source{}, own_destination{};
  std::optional<Record> chosen;
  const Gid* source = nullptr;
  const auto wanted = address_key(*ends.destination);
  if (ends.source) {
    if (const auto key = address_key(*ends.source)) source = gid_of(*key, own_source);
  } else if ((source = local_gid()) != nullptr) {
    // librdmacm needs the address of the source: without one it reads through a null pointer.
    const AddressKey* const address = server_.data().addresses->address_of(*source, ends.destination->type);
    if (address != nullptr)
      chosen = record_of(*address, flag::source);
    else if (ends.destination->type == record_type::ipv6)
      chosen = record_of({record_type::ipv6, std::string(source->begin(), source->end())}, flag::source);
    else
      source = nullptr;
  }
  if (source == nullptr) return Status::source_address;
  const Gid* const destination = wanted ? gid_of(*wanted, own_destination) : nullptr;
  if (destination == nullptr) return Status::destination_address;
  server_.count(Counter::address_cache);
  return answer_path(header, {.sgid = *source, .dgid = *destination}, chosen ? &*chosen : nullptr, false, out);
}

Status Session::answer_path(const Header& header, const PathQuery& query, const Record* source, bool reversible,
                            Bytes& out) {
  const PathMap* const map = server_.data().map.get();
  if (map == nullptr) return Status::no_data;
  const auto path = map->find(query);
  if (!path) return missing(*map, query);
  if (reversible && !path->get(PathRecord::reversible)) return Status::no_data;
  server_.count(Counter::route_cache);
  append(out, answer_to(header, header_octets + (source == nullptr ? 1 : 2) * record_octets));
  append(out, path_answer(*path));
  if (source != nullptr) append(out, *source);
  return Status::success;
}

Status Session::ask_sa(const Header& header, ConstBytes message) {
  if (records_of(message) != 1) return Status::invalid;
  if (!server_.asks_sa()) return Status::no_data;
  const auto record = PathRecord::parse(record_at(message, 0).info);
  if (!record) return Status::invalid;
  server_.count(Counter::route_query);
  query_ = *record;
  query_header_ = header;
  return Status::success;
}

Result<void> Session::handle_answer(const tl::expected<PathRecord, Status>& answer, Bytes& out) {
  if (!is_waiting()) return {};
  query_.reset();
  if (answer) {
    append(out, answer_to(query_header_, header_octets + record_octets));
    append(out, path_answer(*answer));
  } else {
    refuse(query_header_, answer.error(), out);
  }
  return process(out);
}

bool Session::is_local(const Record& record) {
  const auto key = address_key(record);
  Gid own{};
  const Gid* const gid = key ? gid_of(*key, own) : nullptr;
  const auto& all = server_.data().endpoints;
  return gid != nullptr && std::any_of(all.begin(), all.end(), [&](const Endpoint& e) { return e.gid == *gid; });
}

void Session::perf_query(const Header& header, ConstBytes message, Bytes& out) {
  const std::uint8_t index = header.data[1];
  const bool by_address = records_of(message) > 0 && (record_at(message, 0).flags & flag::source) != 0;
  if ((by_address && !is_local(record_at(message, 0))) ||
      (!by_address && records_of(message) == 0 && index > std::min(endpoints_max, server_.data().endpoints.size())))
    return refuse(header, Status::source_address, out);
  Header good = answer_to(header, header_octets + counters * sizeof(std::uint64_t));
  good.data[0] = counters;
  append(out, good);
  for (std::size_t i = 0; i < counters; ++i) {
    out.resize(out.size() + sizeof(std::uint64_t));
    store(out.data() + out.size() - sizeof(std::uint64_t), server_.counter(static_cast<Counter>(i)), std::endian::big);
  }
}

void Session::ep_query(const Header& header, Bytes& out) const {
  std::size_t left = header.data[0] <= endpoints_max ? header.data[0] : 0;
  const Endpoint* found = nullptr;
  for (const Endpoint& endpoint : server_.data().endpoints)
    if ((header.data[1] == 0 || header.data[1] == endpoint.port) && left > 0 && --left == 0) found = &endpoint;
  if (found == nullptr) {
    Header refused = answer_to(header, header_octets);
    refused.status = Status::invalid;
    return append(out, refused);
  }
  const std::size_t names = std::min(found->names.size(), endpoint_names_max);
  append(out, answer_to(header, header_octets + endpoint_octets + names * info_octets));
  std::array<std::uint8_t, endpoint_octets - info_octets> fixed{};
  Writer writer{MutBytes(fixed)};
  writer.be64(found->node_guid);
  writer.u8(found->port);
  writer.u8(found->ports);
  writer.be16(0);
  writer.be16(found->p_key);
  writer.be16(static_cast<std::uint16_t>(names));
  out.insert(out.end(), fixed.begin(), fixed.end());
  append_text(out, provider_name);
  for (std::size_t i = 0; i < names; ++i) append_text(out, found->names[i]);
}

/// The GID behind an address. An IPv6 address that no file has may be a GID itself, which is put in `own`.
const Gid* Session::gid_of(const AddressKey& key, Gid& own) {
  if (const Gid* const found = server_.data().addresses->find(key)) return found;
  const PathMap* const map = server_.data().map.get();
  if (key.type != record_type::ipv6 || map == nullptr) return nullptr;
  std::copy_n(key.octets.begin(), own.size(), own.begin());
  const EndId end = map->end_of_gid(own);
  if (end == no_end) return nullptr;
  own = gid_of_port(map->gid_prefix(), map->end(end).guid);
  return &own;
}

const Gid* Session::local_gid() const {
  const auto& all = server_.data().endpoints;
  return all.empty() ? nullptr : &all.front().gid;
}

}  // namespace parley::ssa::acm
