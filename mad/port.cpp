// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/port.hpp"

#include <algorithm>

namespace parley::mad {

Port::Port(const TransportFacts& facts, const LocalPort& local, const PortOptions& options)
    : local_(local), transactor_(facts, options) {
  transactor_.set_local(local);
}

std::size_t Port::data_of(MgmtClass mgmt_class) {
  return wire::mad::facts_of_class(static_cast<std::uint32_t>(mgmt_class))->data;
}

Transactor::Id Port::open(MgmtClass mgmt_class, Method method, std::uint16_t attribute, const Path& path,
                          ConstBytes body, const RpcOptions& options) {
  return transactor_.open({.mgmt_class = mgmt_class,
                           .method = method,
                           .attribute = attribute,
                           .modifier = options.modifier,
                           .component_mask = options.component_mask,
                           .key = options.key,
                           .class_number = options.class_number,
                           .class_version = options.class_version,
                           .oui = options.oui},
                          path, body);
}

Call<std::vector<wire::mad::PathRecord>> Port::sa_get_multi(const Path& path,
                                                            const Query<wire::mad::MultiPathRecord>& query,
                                                            std::span<const Gid> gids) {
  using wire::mad::MultiPathRecord;
  constexpr std::size_t fixed = MultiPathRecord::gid.bit / 8U;
  Bytes body(query.record().octets().begin(), query.record().octets().begin() + fixed);
  for (const Gid& gid : gids) body.insert(body.end(), gid.begin(), gid.end());
  return {transactor_,
          open(MgmtClass::subn_adm, Method::get_multi, MultiPathRecord::attribute, path, body,
               {.component_mask = query.component_mask()}),
          0};
}

Call<RawReply> Port::raw(const Path& path, const Rpc& rpc, ConstBytes body) {
  return {transactor_, transactor_.open(rpc, path, body)};
}

Call<RawReply> Port::raw(const Path& path, ConstBytes mad) { return {transactor_, transactor_.open(mad, path)}; }

bool Port::run(Instant now) {
  handle_deadline(now);
  bool any = false;
  for (;; any = true) {
    for (Transactor::Id id; (id = transactor_.poll_done()) != Transactor::none;)
      static_cast<detail::CallBase*>(transactor_.user(id))->wake();
    if (server_ != nullptr && transactor_.has_request()) server_->wake();
    if (!executor_.has_ready()) return any;
    executor_.run(now);
  }
}

void Port::handle_changed(const LocalPort& local) {
  local_ = local;
  transactor_.set_local(local);
}

Instant Port::next_deadline() const { return std::min(transactor_.next_deadline(), executor_.next_deadline()); }

void Port::handle_deadline(Instant now) {
  transactor_.handle_deadline(now);
  executor_.handle_deadline(now);
}

namespace detail {

NextRequest::~NextRequest() {
  if (port_.server_ == this) port_.server_ = nullptr;
}

void NextRequest::start(PromiseBase& task) {
  PARLEY_ASSERT(port_.server_ == nullptr);
  task_ = &task;
  if (task.scope != nullptr && task.scope->stopped()) {
    stopped_ = true;
    return task.executor->make_ready(task);
  }
  if (port_.transactor_.has_request()) return task.executor->make_ready(task);
  if (task.scope != nullptr) task.scope->wait(*this);
  port_.server_ = this;
}

void NextRequest::wake() {
  unlink();
  port_.server_ = nullptr;
  task_->executor->make_ready(*task_);
}

void NextRequest::stop(Fault) {
  stopped_ = true;
  wake();
}

std::optional<Incoming> NextRequest::await_resume() {
  return stopped_ ? std::nullopt : port_.transactor_.poll_request();
}

}  // namespace detail

}  // namespace parley::mad
