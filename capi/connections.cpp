// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Listeners and connections.
#include "capi/context.hpp"
#include "capi/options.hpp"
#include "parley/tcp_host.hpp"

using namespace parley;
using namespace parley::capi;

namespace {

int null_argument(const char* name) {
  return capi::fail_with(PARLEY_E_INVALID_ARGUMENT, std::string(name) + " is null");
}

/// A `given` of 0 selects the default.
std::uint16_t depth_or(std::uint16_t given, std::uint16_t otherwise) {
  return given == 0 ? otherwise : given == PARLEY_DEPTH_NONE ? std::uint16_t{0} : given;
}
std::optional<std::uint16_t> depth(std::uint16_t given) {
  return given == 0 ? std::nullopt : std::optional(depth_or(given, 0));
}
std::optional<Duration> liveness_time(std::uint32_t ms) {
  if (ms == 0) return std::nullopt;
  return ms == PARLEY_NEVER ? Duration{} : Duration(std::chrono::milliseconds(ms));
}
void set_time(Duration& to, std::uint32_t ms) {
  if (ms != 0) to = std::chrono::milliseconds(ms);
}

int read_private_data(const void* data, std::uint32_t length, ConstBytes& out) {
  if (data == nullptr && length != 0)
    return capi::fail(PARLEY_E_INVALID_ARGUMENT, "private_data is null and its length {a}", length);
  out = {static_cast<const std::uint8_t*>(data), length};
  return 0;
}

int read_address(const char* text, Address& out) {
  const auto address = Address::parse(text);
  if (!address)
    return capi::fail_with(PARLEY_E_BAD_ADDRESS,
                           '"' + std::string(std::string_view(text).substr(0, 80)) +
                               "\" is not an address: \"192.0.2.1:7471\" and \"[2001:db8::1]:7471\" are; "
                               "parley_resolve() turns names into them");
  out = *address;
  return 0;
}

int read_mpa(const parley_connect_opts& o, mpa::Options& mpa) {
  if (o.mpa_revision > 2)
    return capi::fail(PARLEY_E_INVALID_ARGUMENT, "mpa_revision is {a}; must be 1 or 2, or 0 for either",
                      o.mpa_revision);
  if (o.mpa_rtr > PARLEY_RTR_READ)
    return capi::fail(PARLEY_E_INVALID_ARGUMENT, "mpa_rtr is {a}; must be a value of enum parley_rtr, 0 to {b}",
                      o.mpa_rtr, PARLEY_RTR_READ);
  if (o.mpa_revision != 0) mpa.revision = o.mpa_revision;
  // Both enumerations have the same order; the values in C are one higher.
  static_assert(static_cast<int>(mpa::Rtr::read) + 1 == PARLEY_RTR_READ && static_cast<int>(mpa::Rtr::none) == 0);
  mpa.rtr = o.mpa_rtr == PARLEY_RTR_DEFAULT ? mpa::Rtr::read : static_cast<mpa::Rtr>(o.mpa_rtr - 1);
  set_time(mpa.timeouts.reply, o.reply_timeout_ms);
  return 0;
}

int read_peers(const parley_connect_opts& o, cm::ConnectOptions& options) {
  if (o.local != nullptr) {
    Address local;
    if (const int rc = read_address(o.local, local); rc != 0) return rc;
    options.local = local;
  }
  if (o.backups == nullptr && o.backup_count != 0) return null_argument("backups");
  if (o.backup_count > cm::backups_max)
    return capi::fail(PARLEY_E_INVALID_ARGUMENT, "backup_count is {a}; it is at most {b}", o.backup_count,
                      cm::backups_max);
  for (std::uint32_t i = 0; i < o.backup_count; ++i) {
    if (o.backups[i] == nullptr) return null_argument("one of backups");
    Address backup;
    if (const int rc = read_address(o.backups[i], backup); rc != 0) return rc;
    options.backups.push_back(backup);
  }
  return 0;
}

int read_transport(const parley_connect_opts& o, std::string_view provider, cm::ConnectOptions& options) {
  mpa::Options mpa;
  if (const int rc = read_mpa(o, mpa); rc != 0) return rc;
  options.transport = std::move(mpa);
  if (provider != "rdmacm" && provider != "roce") return 0;
  if (o.mpa_revision != 0 || o.mpa_rtr != PARLEY_RTR_DEFAULT)
    return capi::fail(PARLEY_E_UNSUPPORTED,
                      "mpa_revision and mpa_rtr are given; they belong to MPA, which this provider does not use");
  ib::Options ib;
  set_time(ib.reply_timeout, o.reply_timeout_ms);
  options.transport = ib;
  return 0;
}

int read_connect(const parley_connect_opts& o, std::string_view provider, cm::ConnectOptions& options) {
  if (o.reserved != 0 || o.reserved2 != 0)
    return capi::fail(PARLEY_E_INVALID_ARGUMENT, "reserved is {a}, and reserved2 {b}; both are 0", o.reserved,
                      o.reserved2);
  if (const int rc = read_transport(o, provider, options); rc != 0) return rc;
  options.ird = depth_or(o.ird, options.ird);
  options.ord = depth_or(o.ord, options.ord);
  set_time(options.transport_timeout, o.timeout_ms);
  set_time(options.timeout, o.total_timeout_ms);
  options.keepalive = liveness_time(o.keepalive_ms);
  options.dead_after = liveness_time(o.dead_after_ms);
  if (o.retry_rounds != 0) options.retry.rounds = o.retry_rounds;
  set_time(options.retry.first, o.retry_first_ms);
  set_time(options.retry.cap, o.retry_cap_ms);
  if (const int rc = read_peers(o, options); rc != 0) return rc;
  return read_private_data(o.private_data, o.private_data_len, options.private_data);
}

/// Calls `what` at the end of the block, also after an exception.
template <class Do>
class Finally {
 public:
  explicit Finally(Do what) : what_(std::move(what)) {}
  ~Finally() { what_(); }
  Finally(const Finally&) = delete;
  Finally& operator=(const Finally&) = delete;

 private:
  Do what_;
};

}  // namespace

extern "C" int parley_resolve(const char* host, uint16_t port, char (*out)[PARLEY_ADDRSTRLEN], int n) {
  return guarded([&] {
    if (host == nullptr) return null_argument("host");
    if (out == nullptr) return null_argument("out");
    if (n < 1) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "n is {a}; must be at least 1", n);
    const auto found = Host::resolve(host, port);
    if (!found) return capi::fail(found.error());
    int count = 0;
    for (; count < n && static_cast<std::size_t>(count) < found->size(); ++count)
      write_text(out[count], (*found)[static_cast<std::size_t>(count)]);
    return count;
  });
}

extern "C" int parley_listen(parley_ctx* ctx, const char* local, const struct parley_listen_opts* opts,
                             parley_id* out) {
  return with_context(ctx, [&](Context& c) {
    if (local == nullptr) return null_argument("local");
    if (out == nullptr) return null_argument("out");
    *out = 0;
    parley_listen_opts o = PARLEY_LISTEN_OPTS_INIT;
    if (const int rc = read_options(opts, o); rc != 0) return rc;
    Address address;
    if (const int rc = read_address(local, address); rc != 0) return rc;
    cm::ListenOptions options;
    options.ird = depth_or(o.ird, options.ird);
    options.ord = depth_or(o.ord, options.ord);
    if (o.backlog > INT32_MAX)
      return capi::fail(PARLEY_E_INVALID_ARGUMENT, "backlog is {a}; it is at most {b}", o.backlog, INT32_MAX);
    if (o.backlog != 0) options.backlog = static_cast<int>(o.backlog);
    if (o.pending_max != 0) options.pending_max = o.pending_max;
    options.keepalive = liveness_time(o.keepalive_ms);
    options.dead_after = liveness_time(o.dead_after_ms);
    auto id = c.manager().listen(address, options);
    if (!id) return capi::fail(id.error());
    c.name(*id).user = o.user;
    *out = c.number_of(*id);
    c.backend().called();
    return 0;
  });
}

extern "C" int parley_connect(parley_ctx* ctx, const char* peer, const struct parley_connect_opts* opts,
                              parley_id* out) {
  return with_context(ctx, [&](Context& c) {
    if (peer == nullptr) return null_argument("peer");
    if (out == nullptr) return null_argument("out");
    *out = 0;
    parley_connect_opts o = PARLEY_CONNECT_OPTS_INIT;
    if (const int rc = read_options(opts, o); rc != 0) return rc;
    Address address;
    if (const int rc = read_address(peer, address); rc != 0) return rc;
    cm::ConnectOptions options;
    if (const int rc = read_connect(o, c.backend().provider(), options); rc != 0) return rc;
    QpInit init;
    IdEntry uses;
    if (const int rc = c.read_qp(o.qp, init, uses); rc != 0) return rc;
    options.qp = init;
    auto id = c.manager().connect(address, options);
    if (!id) return capi::fail(id.error());
    IdEntry& named = c.name(*id);
    named.user = o.user;
    c.use(named, uses);
    *out = c.number_of(*id);
    c.backend().called();
    return 0;
  });
}

extern "C" int parley_create_qp(parley_ctx* ctx, parley_id id, const struct parley_qp_init* init) {
  return with_id(ctx, id, [&](Context& c, IdEntry& named) {
    QpInit qp;
    IdEntry uses;
    if (const int rc = c.read_qp(init, qp, uses); rc != 0) return rc;
    if (auto made = named.id.create_qp(qp); !made) return capi::fail(made.error());
    c.use(named, uses);
    return 0;
  });
}

extern "C" int parley_accept(parley_ctx* ctx, parley_id id, const struct parley_accept_opts* opts) {
  return with_id(ctx, id, [&](Context& c, IdEntry& named) {
    parley_accept_opts o = PARLEY_ACCEPT_OPTS_INIT;
    if (const int rc = read_options(opts, o); rc != 0) return rc;
    if (o.reserved != 0) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "reserved is {a}; must be 0", o.reserved);
    cm::AcceptOptions options;
    options.ird = depth(o.ird);
    options.ord = depth(o.ord);
    if (const int rc = read_private_data(o.private_data, o.private_data_len, options.private_data); rc != 0) return rc;
    IdEntry uses;
    const bool makes_qp = !named.has_qp;
    if (makes_qp) {
      QpInit init;
      if (const int rc = c.read_qp(o.qp, init, uses); rc != 0) return rc;
      options.qp = init;
    }
    // accept() may create the queue pair and then run out of memory.
    const Finally count_users([&] {
      if (makes_qp && named.id.qp() != nullptr) c.use(named, uses);
    });
    if (auto accepted = named.id.accept(options); !accepted) return capi::fail(accepted.error());
    named.user = o.user;
    c.backend().called();
    return 0;
  });
}

extern "C" int parley_reject(parley_ctx* ctx, parley_id id, const void* data, uint32_t len) {
  return with_id(ctx, id, [&](Context& c, IdEntry& named) {
    ConstBytes private_data;
    if (const int rc = read_private_data(data, len, private_data); rc != 0) return rc;
    if (auto rejected = named.id.reject(private_data); !rejected) return capi::fail(rejected.error());
    c.backend().called();
    return 0;
  });
}

extern "C" int parley_disconnect(parley_ctx* ctx, parley_id id) {
  return with_id(ctx, id, [&](Context& c, IdEntry& named) {
    if (auto done = named.id.disconnect(); !done) return capi::fail(done.error());
    c.backend().called();
    return 0;
  });
}

extern "C" int parley_destroy(parley_ctx* ctx, parley_id id) {
  return with_id(ctx, id, [&](Context& c, IdEntry& named) {
    c.destroy(named);
    c.backend().called();
    return 0;
  });
}

extern "C" int parley_query_id(parley_ctx* ctx, parley_id id, struct parley_id_attr* out) {
  return with_id(ctx, id, [&](Context&, IdEntry& named) {
    if (out == nullptr) return null_argument("out");
    parley_id_attr attr = PARLEY_ID_ATTR_INIT;
    if (const QueuePair* qp = named.id.qp(); qp != nullptr) {
      attr.has_qp = 1;
      attr.qp_num = qp->qp_num();
      static_assert(static_cast<int>(QpState::err) == PARLEY_QPS_ERR);
      attr.qp_state = static_cast<std::uint32_t>(qp->state());
    }
    if (const auto local = named.id.local_address()) write_text(attr.local, *local);
    if (const auto peer = named.id.peer_address()) write_text(attr.peer, *peer);
    attr.user = named.user;
    return write_attributes(out, attr);
  });
}
