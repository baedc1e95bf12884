// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Converts events of the connection manager to C.
#include "capi/context.hpp"
#include "capi/options.hpp"

namespace parley::capi {
namespace {

constexpr const char* event_names[] = {"unknown",     "listening",       "connect_request", "established",
                                       "rejected",    "connect_failed",  "retrying",        "disconnected",
                                       "turned_away", "address_changed", "device_removed",  "srq_limit_reached"};

std::uint64_t ns(Duration d) { return static_cast<std::uint64_t>(std::max(d, Duration{}).count()); }

void give(parley_event& out, const Bytes& private_data) {
  if (private_data.empty()) return;
  out.private_data = private_data.data();
  out.private_data_len = static_cast<std::uint32_t>(private_data.size());
}

void give(parley_event& out, const mpa::Parameters* mpa) {
  if (mpa == nullptr) return;
  out.mpa_revision = mpa->revision;
  out.mpa_rtr = static_cast<std::uint8_t>(static_cast<int>(mpa->rtr) + 1);
  out.mpa_crc = mpa->crc ? 1 : 0;
  out.mpa_markers = mpa->rx_markers || mpa->tx_markers ? 1 : 0;
}

/// Fills the members that are specific to an event type. Returns the event's failure; null if it has none.
struct EventFiller {
  parley_event& out;
  const cm::Failure* operator()(const cm::Listening& e) const {
    out.type = PARLEY_EVENT_LISTENING;
    write_text(out.local, e.local);
    return nullptr;
  }
  const cm::Failure* operator()(const cm::ConnectRequest& e) const {
    out.type = PARLEY_EVENT_CONNECT_REQUEST;
    out.listener = e.listener.number();
    give(out, e.private_data);
    give(out, e.mpa());
    out.mpa_rtr = PARLEY_RTR_DEFAULT;
    out.ird = e.ird;
    out.ord = e.ord;
    return nullptr;
  }
  const cm::Failure* operator()(const cm::Established& e) const {
    out.type = PARLEY_EVENT_ESTABLISHED;
    give(out, e.private_data);
    give(out, e.mpa());
    out.ird = e.ird;
    out.ord = e.ord;
    out.transport_ns = ns(e.steps.transport);
    out.request_ns = ns(e.steps.request);
    out.decision_ns = ns(e.steps.decision);
    out.reply_ns = ns(e.steps.reply);
    out.established_ns = ns(e.steps.established);
    return nullptr;
  }
  const cm::Failure* operator()(const cm::Rejected& e) const {
    out.type = PARLEY_EVENT_REJECTED;
    give(out, e.private_data);
    give(out, e.mpa());
    return &e.why;
  }
  const cm::Failure* operator()(const cm::ConnectFailed& e) const {
    out.type = PARLEY_EVENT_CONNECT_FAILED;
    out.attempts = e.attempts;
    out.elapsed_ns = ns(e.elapsed);
    return &e.why;
  }
  const cm::Failure* operator()(const cm::Retrying& e) const {
    out.type = PARLEY_EVENT_RETRYING;
    write_text(out.peer, e.peer);
    out.wait_ns = ns(e.wait);
    return &e.why;
  }
  const cm::Failure* operator()(const cm::Disconnected& e) const {
    out.type = PARLEY_EVENT_DISCONNECTED;
    return e.graceful ? nullptr : &e.why;
  }
  const cm::Failure* operator()(const cm::TurnedAway& e) const {
    out.type = PARLEY_EVENT_TURNED_AWAY;
    write_text(out.peer, e.peer);
    out.turned_away = static_cast<std::uint32_t>(std::min<std::uint64_t>(e.gave_way + e.refused, UINT32_MAX));
    return &e.why;
  }
  const cm::Failure* operator()(const cm::AddressChanged& e) const {
    out.type = PARLEY_EVENT_ADDRESS_CHANGED;
    return &e.why;
  }
  const cm::Failure* operator()(const cm::DeviceRemoved& e) const {
    out.type = PARLEY_EVENT_DEVICE_REMOVED;
    return &e.why;
  }
  // No function of parley.h causes these.
  const cm::Failure* operator()(const cm::UserEvent&) const { return nullptr; }
  const cm::Failure* operator()(const cm::Resolved&) const { return nullptr; }
  const cm::Failure* operator()(const cm::TimewaitExit&) const { return nullptr; }
};

/// C programs do not get TimewaitExit: the id's last event precedes it.
bool not_for_c(const cm::Event& event) { return std::holds_alternative<cm::TimewaitExit>(event); }

}  // namespace

void Context::Written::give(char (&to)[PARLEY_ADDRSTRLEN], const Address& wanted) {
  if (text[0] == '\0' || wanted != address) {
    write_text(text, wanted);
    address = wanted;
  }
  std::memcpy(to, text, sizeof text);
}

void Context::fill(parley_event& out, cm::Event& event) {
  cm::Id id = std::visit([](const auto& e) { return e.id; }, event);
  const cm::Failure* why = std::visit(EventFiller{out}, event);
  out.id = number_of(id);
  if (out.listener != 0) out.listener = tag_.of(out.listener);
  if (out.local[0] == '\0')
    if (const auto local = id.local_address()) local_.give(out.local, *local);
  if (out.peer[0] == '\0')
    if (const auto peer = id.peer_address()) peer_.give(out.peer, *peer);
  if (why != nullptr) {
    const auto* retrying = std::get_if<cm::Retrying>(&event);
    out.status = -code_of(why->code);
    out.stage = static_cast<std::uint32_t>(why->stage());
    texts_ = {in_c(why->to_string(retrying != nullptr ? retrying->failed.to_string() : out.peer)), why->rule,
              why->received, in_c(why->advice)};
  } else if (!texts_.reason.empty()) {
    texts_ = {};
  }
  out.reason = texts_.reason.c_str();
  out.rule = texts_.rule.c_str();
  out.received = texts_.received.c_str();
  out.advice = texts_.advice.c_str();
  const IdEntry* whose = find(out.id);
  if (whose == nullptr) {
    whose = &name(id);
    if (out.type == PARLEY_EVENT_CONNECT_FAILED) passing_ = out.id;
  }
  if (out.listener != 0) whose = find(out.listener);
  if (whose != nullptr) out.user = whose->user;
}

// A request of a listener that the program has destroyed is dropped.
bool Context::of_no_listener(cm::Event& event) {
  auto* request = std::get_if<cm::ConnectRequest>(&event);
  if (request == nullptr || find(number_of(request->listener)) != nullptr) return false;
  request->id.destroy();
  backend_->called();
  return true;
}

int Context::next_event(parley_event& out) {
  if (event_given_) event_.reset();
  event_given_ = false;
  IdEntry* passing = passing_ == 0 ? nullptr : find(std::exchange(passing_, 0));
  if (passing != nullptr) *passing = {};
  // Most calls in a loop find nothing. After a passing id the Manager must be polled, because that releases the id.
  if (!event_ && (passing != nullptr || manager().has_events())) event_ = manager().poll_event();
  while (event_ && (not_for_c(*event_) || of_no_listener(*event_))) event_ = manager().poll_event();
  if (!event_) {
    const int rc = srq_numbers_.empty() ? 0 : next_srq_event(out);
    if (rc == 0) may_be_drained();
    return rc;
  }
  parley_event filled = PARLEY_EVENT_INIT;
  fill(filled, *event_);
  if (const int rc = write_attributes(&out, filled); rc != 0) return rc;
  event_given_ = true;
  return 1;
}

static_assert(static_cast<int>(cm::Stage::closing) == PARLEY_STAGE_CLOSING);
static_assert(static_cast<int>(cm::Stage::resolve) == PARLEY_STAGE_RESOLVE);
static_assert(static_cast<int>(cm::Stage::ready) == PARLEY_STAGE_READY);

}  // namespace parley::capi

using namespace parley::capi;

extern "C" int parley_next_event(parley_ctx* ctx, struct parley_event* out) {
  return with_context(ctx, [&](Context& c) {
    return out != nullptr ? c.next_event(*out) : fail(PARLEY_E_INVALID_ARGUMENT, "out is null");
  });
}

extern "C" const char* parley_event_name(uint32_t type) {
  return type < std::size(event_names) ? event_names[type] : event_names[0];
}
