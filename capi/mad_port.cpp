// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capi/mad_port.hpp"

#include <fmt/format.h>

#include "capi/options.hpp"
#include "drivers/mad/run.hpp"
#include "mad/pump.hpp"
#include "wire/mad/decode.hpp"

namespace parley::capi {

namespace {

constexpr int turns_max = 16;  // of a port, in one call of progress()

int code_of_fault(const mad::MadError& error) {
  switch (error.fault()) {
    case mad::Fault::timeout: return -PARLEY_E_TIMED_OUT;
    case mad::Fault::busy:
    case mad::Fault::status: return -PARLEY_E_MAD_STATUS;
    case mad::Fault::class_status: return error.is_no_records() ? -PARLEY_E_MAD_NO_RECORDS : -PARLEY_E_MAD_STATUS;
    case mad::Fault::cut: return -PARLEY_E_MAD_CUT;
    case mad::Fault::malformed:
    case mad::Fault::rmpp: return -PARLEY_E_PROTOCOL;
    case mad::Fault::refused:
    case mad::Fault::redirect:
    case mad::Fault::redirect_loop: return -PARLEY_E_UNREACHABLE;
    case mad::Fault::cancelled:
    case mad::Fault::deadline: return -PARLEY_E_CANCELLED;
    case mad::Fault::no_space: return -PARLEY_E_NO_SPACE;
    case mad::Fault::invalid: return -PARLEY_E_INVALID_ARGUMENT;
  }
  return -PARLEY_E_INTERNAL;
}

std::string status_meaning(ConstBytes mad) {
  const auto decoded = wire::mad::decode(mad);
  return decoded ? wire::mad::status_text(*decoded) : std::string();
}

}  // namespace

mad::Task<void> MadPort::carry(mad::Port& port, MadRequest& request, mad::List<MadRequest, MadDoneTag>& done) {
  try {
    request.answer = co_await mad::ask(port, request.ask);
  } catch (const std::bad_alloc&) {
    request.answer.reset();  // give() reports it as PARLEY_E_NO_MEMORY
  }
  request.done = true;
  if (!request.is_call) done.push_back(request);
}

int MadPort::query(parley_mad_attr& out) const {
  const mad::LocalPort& local = port_.local();
  parley_mad_attr attr = PARLEY_MAD_ATTR_INIT;
  attr.port = local.port;
  attr.lid = local.lid;
  attr.sm_lid = local.sm_lid;
  attr.sm_sl = local.sm_sl;
  attr.lmc = local.lmc;
  attr.rmpp = transport_->facts().rmpp ? 1 : 0;
  attr.requests = static_cast<std::uint32_t>(requests_.size());
  attr.node_guid = local.node_guid;
  attr.port_guid = local.port_guid;
  std::copy(local.gid.begin(), local.gid.end(), attr.gid);
  return write_attributes(&out, attr);
}

int MadPort::open(const parley_mad_request& given, bool is_call, MadRequest*& out) {
  if (broken_) return gone();
  auto request = std::make_unique<MadRequest>();
  parley_mad_request q = PARLEY_MAD_REQUEST_INIT;
  if (const int rc = read_options(&given, q); rc != 0) return rc;
  if (const int rc = read_mad_request(q, defaults_, request->ask); rc != 0) return rc;
  const mad::TextRequest& ask = request->ask;
  const bool has_lids = port_.facts().lids;
  if (!has_lids && ask.to && !ask.to->gid && !ask.to->path.address.grh)
    return capi::fail(PARLEY_E_INVALID_ARGUMENT, "RoCE has no LIDs: path must be a GID, such as ::ffff:192.0.2.1");
  if (!has_lids && !ask.to) return capi::fail(PARLEY_E_WRONG_STATE, "RoCE has no subnet administration");
  if (has_lids && port_.local().sm_lid == 0 && (!ask.to || ask.to->gid))
    return capi::fail(PARLEY_E_WRONG_STATE,
                      "no subnet manager, and so no subnet administration: PortInfo of this port has no SM LID");
  if (requests_.size() >= PARLEY_MAD_REQUESTS_MAX)
    return capi::fail(PARLEY_E_NO_SPACE, "{a} requests are open; take replies by parley_mad_poll() first",
                      PARLEY_MAD_REQUESTS_MAX);
  request->id = last_ + 1;
  request->user = q.user;
  request->is_call = is_call;
  const auto at = requests_.emplace(request->id, std::move(request)).first;
  ++last_;
  out = at->second.get();
  try {
    out->running.emplace(port_.executor(), carry(port_, *out, done_));
  } catch (...) {
    requests_.erase(at);
    throw;
  }
  return 0;
}

int MadPort::call(const parley_mad_request& given, parley_mad_reply* reply) {
  if (reply != nullptr)
    if (const int rc = check_size<parley_mad_reply>(reply->size); rc != 0) return rc;
  MadRequest* request = nullptr;
  if (const int rc = open(given, true, request); rc != 0) return rc;
  struct Forget {  // also after an exception; `given_` keeps the reply's texts
    MadPort& port;
    std::uint64_t id;
    ~Forget() {
      if (auto node = port.requests_.extract(id)) port.given_ = std::move(node.mapped());
    }
  } const forget{*this, request->id};
  while (!request->done) {
    const Result<bool> moved = mad::pump(port_, *transport_, clock_now());
    if (!moved) {
      const int rc = broke(moved.error());
      if (!request->done) return rc;
    } else if (!*moved && !request->done) {
      mad_driver::wait_for(*transport_, port_.next_deadline());
    }
  }
  arm();
  parley_mad_reply out = PARLEY_MAD_REPLY_INIT;
  give(*request, out);
  if (reply != nullptr)
    if (const int rc = write_attributes(reply, out); rc != 0) return rc;
  return out.status == 0 ? 0 : capi::fail_with(static_cast<parley_error>(-out.status), request->error);
}

int MadPort::post(const parley_mad_request& given, std::uint64_t* id) {
  MadRequest* request = nullptr;
  if (const int rc = open(given, false, request); rc != 0) return rc;
  if (id != nullptr) *id = request->id;
  arm();
  return 0;
}

int MadPort::fd() {
  if (set_ == nullptr) {
    auto set = ReadySet::make();
    if (set == nullptr || !set->add(transport_->fd()))
      return capi::fail(PARLEY_E_NO_SPACE, "epoll and timerfd: no descriptor is left");
    set_ = std::move(set);
    arm();
  }
  return set_->fd();
}

/// Makes the descriptor readable when a turn has work. Nothing signals that the transport can send again, so that
/// sending is retried after 1 ms.
void MadPort::arm() {
  if (set_ == nullptr) return;
  const Instant now = clock_now();
  Instant at = port_.next_deadline();
  if (transport_->wants_to_send()) at = std::min(at, now + std::chrono::milliseconds(1));
  if (port_.executor().has_ready() || answers_wait_) at = now;
  if (broken_) at = never;
  set_->arm(now, done_.empty() && !can_receive() ? at : now);
}

int MadPort::progress() {
  if (broken_) return gone();
  bool any = false, more = true;
  answers_wait_ = false;
  for (int turn = 0; turn < turns_max && more; ++turn) {
    const Result<bool> moved = mad::pump(port_, *transport_, clock_now());
    if (!moved) return broke(moved.error());
    more = *moved;
    any = any || more;
  }
  arm();
  if (more && set_ != nullptr) set_->arm(clock_now(), clock_now());
  return any || !done_.empty() || can_receive() ? 1 : 0;
}

int MadPort::gone() const {
  return capi::fail_with(code_of(broken_->code()), fmt::format("{}: {}", name_, broken_->message()));
}

int MadPort::broke(const Error& error) {
  broken_ = error;
  for (auto& [id, request] : requests_)
    if (!request->done) request->running->cancel();
  port_.run(clock_now());
  arm();
  return gone();
}

int MadPort::poll(parley_mad_reply& out) {
  if (const int rc = check_size<parley_mad_reply>(out.size); rc != 0) return rc;
  if (done_.empty()) return 0;
  MadRequest& request = done_.front();
  parley_mad_reply reply = PARLEY_MAD_REPLY_INIT;
  give(request, reply);  // may throw; the request then stays in done_
  if (const int rc = write_attributes(&out, reply); rc != 0) return rc;
  done_.pop_front();
  given_ = std::move(requests_.extract(request.id).mapped());
  arm();
  return 1;
}

int MadPort::cancel(std::uint64_t id) {
  const auto found = requests_.find(id);
  if (found == requests_.end() || found->second->is_call)
    return capi::fail(PARLEY_E_BAD_HANDLE, "the port has no such request: it was never posted, or its reply was taken");
  if (!found->second->done) {
    found->second->running->cancel();
    port_.run(clock_now());
  }
  arm();
  return 0;
}

void MadPort::give(MadRequest& r, parley_mad_reply& out) const {
  out.id = r.is_call ? 0 : r.id;
  out.user = r.user;
  ConstBytes mad;
  if (!r.answer) {
    out.status = -PARLEY_E_NO_MEMORY;
    out.fault = PARLEY_MAD_FAULT_NO_SPACE;
    r.error = "memory has run out";
  } else if (*r.answer) {
    mad = (*r.answer)->mad;
  } else {
    const mad::MadError& e = r.answer->error();
    const bool ended = broken_ && e.fault() == mad::Fault::cancelled;
    mad = e.reply();
    out.status = ended ? -code_of(broken_->code()) : code_of_fault(e);
    out.fault = static_cast<std::uint32_t>(e.fault()) + 1;
    out.mad_status = e.status();
    out.tries = e.tries();
    if (!e.request().empty()) r.path = mad::path_spec(e.path());
    r.error = ended ? fmt::format("{}: {}", name_, broken_->message()) : e.message();
    if (e.status() != 0) r.status_text = status_meaning(mad);
  }
  out.mad = mad.empty() ? nullptr : mad.data();
  out.mad_length = static_cast<std::uint32_t>(mad.size());
  if (out.status == 0 || out.status == -PARLEY_E_MAD_CUT)
    if (std::string wrong = read_mad_records(mad, r.ask.rpc, out); !wrong.empty()) {
      out.status = -PARLEY_E_PROTOCOL;
      out.fault = PARLEY_MAD_FAULT_MALFORMED;
      r.error = std::move(wrong);
    }
  out.status_text = r.status_text.c_str();
  out.path = r.path.c_str();
  out.error = r.error.c_str();
}

}  // namespace parley::capi
