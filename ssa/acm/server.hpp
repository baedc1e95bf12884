// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Answers ibacm's requests from a PathMap: octets of a client in, octets for it out. A driver has the sockets
// (drivers/ssa/acm_service.hpp).
//
//   resolve     paths by LID or GID (a record with a PathRecord), or by names or IP addresses. Any port of the subnet may be
//               the source; without a source it is the first local port. `query_sa`: the answer is that of subnet
//               administration, which the driver asks
//   perf_query  counters, 64 bits each, big-endian. Those of the server; each endpoint has the same
//   ep_query    a local endpoint, by its index from 1 (data[0]) among those with a port number (data[1], 0: any): node GUID
//               (64 bits), port number (8), ports of the node (8), 16 reserved bits, P_Key (16), number of names (16), all
//               big-endian; 64 octets: name of the provider; 64 octets for each name
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ssa/acm/addresses.hpp"
#include "ssa/paths.hpp"

namespace parley::ssa::acm {

inline constexpr std::size_t endpoint_names_max = 8;
/// A client counts in 8 bits until an endpoint is refused: with 255 of them `ib_acme -P all` would not end.
inline constexpr std::size_t endpoints_max = 254;
inline constexpr std::string_view provider_name = "parley";

/// A P_Key of a port of this node.
struct Endpoint {
  std::uint64_t node_guid = 0;
  Gid gid{};
  std::uint8_t port = 1, ports = 1;
  std::uint16_t p_key = 0xFFFF;
  std::vector<std::string> names{};  ///< the first endpoint_names_max are shown, with name_octets_max each
};

/// What answers are made from. Never changes; any number of threads may read it.
struct Data {
  std::shared_ptr<const PathMap> map{};                                              ///< null: each path is missing
  std::shared_ptr<const Addresses> addresses = std::make_shared<const Addresses>();  ///< not null
  /// With GIDs of the subnet's prefix. The first endpoints_max are shown. The first one's port is the source of requests without one
  std::vector<Endpoint> endpoints{};
};

/// By ibacm's numbers.
enum class Counter : std::uint8_t { error, resolve, no_data, address_query, address_cache, route_query, route_cache };
inline constexpr std::size_t counters = 7;

/// Shared by the sessions of one thread.
class Server {
 public:
  /// `asks_sa`: the driver handles Session::query(). Otherwise the answer to such requests is no_data.
  explicit Server(bool asks_sa) : asks_sa_(asks_sa), data_(std::make_shared<Data>()) {}

  /// `data` must not be null.
  void set_data(std::shared_ptr<const Data> data) { data_ = std::move(data); }
  const Data& data() const { return *data_; }
  bool asks_sa() const { return asks_sa_; }
  std::uint64_t counter(Counter which) const { return counts_[static_cast<std::size_t>(which)]; }
  void count(Counter which) { ++counts_[static_cast<std::size_t>(which)]; }

 private:
  bool asks_sa_;
  std::shared_ptr<const Data> data_;
  std::array<std::uint64_t, counters> counts_{};
};

/// One client. Its requests may follow each other without waiting for answers; they are answered in order.
class Session {
 public:
  explicit Session(Server& server) : server_(server) {}

  /// Appends the answers to `out`: at most 38 octets for each octet of `in` (an ep_query of 16 octets has up to 608). Errors: malformed, as
  /// parse_header(): close the connection.
  Result<void> feed(ConstBytes in, Bytes& out);

  /// A request waits for subnet administration. Later input is kept without an answer: do not feed() more of it than one
  /// buffer.
  bool is_waiting() const { return query_.has_value(); }
  /// The PathRecord to ask for; members that are 0 are wildcards. Null: none. The same until handle_answer().
  const wire::mad::PathRecord* query() const { return query_ ? &*query_ : nullptr; }
  /// The answer of subnet administration, or why there is none. Appends it, and the answers to the requests that waited behind it.
  /// No-op unless is_waiting(). Errors: as feed().
  Result<void> handle_answer(const tl::expected<wire::mad::PathRecord, Status>& answer, Bytes& out);

 private:
  Result<void> process(Bytes& out);
  void answer(const Header& header, ConstBytes message, Bytes& out);
  void resolve(const Header& header, ConstBytes message, Bytes& out);
  Status resolve_path(const Header& header, const Record& asked, Bytes& out);
  Status resolve_addresses(const Header& header, ConstBytes message, Bytes& out);
  Status answer_path(const Header& header, const PathQuery& query, const Record* source, bool reversible, Bytes& out);
  Status ask_sa(const Header& header, ConstBytes message);
  void perf_query(const Header& header, ConstBytes message, Bytes& out);
  void ep_query(const Header& header, Bytes& out) const;
  void refuse(const Header& header, Status status, Bytes& out);
  const Gid* gid_of(const AddressKey& key, Gid& own);
  const Gid* local_gid() const;
  bool is_local(const Record& record);

  Server& server_;
  Bytes unread_;                                // request_octets_max, and what was fed while it waited
  std::optional<wire::mad::PathRecord> query_;  // with its header
  Header query_header_;
};

}  // namespace parley::ssa::acm
