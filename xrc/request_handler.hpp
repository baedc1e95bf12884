// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Serves a member's requests on a registry. The same code works for each kind of registry store.
#pragma once
#include "xrc/message.hpp"

namespace parley::xrc {
namespace answers {

inline Answer no(Refusal refusal) { return {.refusal = refusal}; }
template <class T>
Answer no(const Result<T>& result) {
  return no(static_cast<Refusal>(result.error().code().value()));
}
inline Answer yes() { return {}; }
template <class T>
Answer plain(const Result<T>& result) {
  return result ? yes() : no(result);
}

inline Answer of_view(const TgtView& v) {
  return {.flags = static_cast<std::uint16_t>(v.peer ? Answer::has_peer : 0),
          .state = v.state,
          .why = v.why,
          .reason = v.reason,
          .tgt = v.id,
          .value = static_cast<std::uint64_t>(v.age.count()),
          .peer = v.peer.value_or(Peer{}),
          .attributes = v.attributes,
          .events = v.events};
}

}  // namespace answers

template <class Registry>
class RequestHandler {
 public:
  RequestHandler(Registry& registry, Instant now, MemberId member) : registry_(registry), now_(now), member_(member) {}

  /// The caller adds the answer's number and epoch.
  Answer serve(const Request& r) {
    Answer out = served(r);
    out.about = r.ask;
    return out;
  }
  /// The TGT queue pair that serve() has modified.
  const std::optional<TgtId>& changed() const { return changed_; }
  /// An answer with all that the member needs to declare the queue pair to another registry.
  Answer known(TgtId id, bool already) const {
    const auto view = registry_.glance(now_, member_, id);
    if (!view) return answers::no(view);
    Answer out = answers::of_view(*view);
    if (already) out.flags |= Answer::already;
    return out;
  }

 private:
  Answer served(const Request& r) {
    switch (r.ask) {
      case RequestType::close: return answers::plain(registry_.close(now_, member_, (r.flags & Request::force) != 0));
      case RequestType::add_srq: return answers::plain(registry_.add_srq(member_, r.other));
      case RequestType::remove_srq: return answers::plain(registry_.remove_srq(member_, r.other));
      case RequestType::note_other: return answers::plain(registry_.note_other(member_, r.other));
      case RequestType::report:
      case RequestType::report_device:
      case RequestType::route: return handle_report(r);
      default: return of_tgt(r);
    }
  }
  /// Reports of a member's own device, and `route`. For a queue pair, the member must be registered with it.
  Answer handle_report(const Request& r) {
    if (r.ask == RequestType::report_device) {
      if (r.kind != EventKind::device_failed && r.kind != EventKind::device_removed)
        return answers::no(Refusal::invalid);
      registry_.report_device(now_, member_, r.kind, r.reason);
      return answers::yes();
    }
    if (const auto known = registry_.glance(now_, member_, r.tgt); !known) return answers::no(known);
    if (!registry_.is_registered(member_, r.tgt)) return answers::no(Refusal::not_registered);
    if (r.ask == RequestType::route) {
      const auto route = registry_.route(r.tgt, r.other);
      return route ? Answer{.value = static_cast<std::uint64_t>(*route)} : answers::no(route);
    }
    if (r.kind == EventKind::killed) return answers::no(Refusal::not_permitted);
    return answers::plain(registry_.report(now_, r.tgt, r.kind, r.reason));
  }
  Answer of_tgt(const Request& r) {
    const std::optional<Peer> peer = (r.flags & Request::has_peer) != 0 ? std::optional(r.peer) : std::nullopt;
    switch (r.ask) {
      case RequestType::create: {
        const auto made = registry_.create(
            now_, member_, {.peer = peer, .qpn = r.tgt.qpn, .reserve = (r.flags & Request::reserve) != 0});
        return made ? known(made->id, made->existing) : answers::no(made);
      }
      case RequestType::publish: {
        const auto id = registry_.publish(now_, member_, r.tgt, r.other);
        return id ? Answer{.state = State::reset, .tgt = *id} : answers::no(id);
      }
      case RequestType::enlist: {
        const auto joined = registry_.enlist(now_, member_, r.tgt);
        return joined ? known(joined->id, joined->already) : answers::no(joined);
      }
      case RequestType::unregister: {
        const auto purged = registry_.unregister(now_, member_, r.tgt);
        return purged ? Answer{.tgt = r.tgt, .value = *purged} : answers::no(purged);
      }
      case RequestType::modify: {
        const auto done = registry_.modify(now_, member_, r.tgt, r.state, r.value);
        if (!done) return answers::no(done);
        if (!*done) changed_ = r.tgt;
        return known(r.tgt, *done);
      }
      case RequestType::query: {
        const auto view = registry_.glance(now_, member_, r.tgt);
        return view ? answers::of_view(*view) : answers::no(view);
      }
      case RequestType::find: {
        const auto id = registry_.find(member_, r.peer);
        return id ? Answer{.tgt = *id} : answers::no(id);
      }
      case RequestType::restore: {
        const auto joined = registry_.restore(now_, member_,
                                              {.id = r.tgt,
                                               .state = r.state,
                                               .peer = peer,
                                               .attributes = r.attributes,
                                               .why = r.kind,
                                               .reason = r.reason,
                                               .events = r.events});
        return joined ? known(joined->id, joined->already) : answers::no(joined);
      }
      default: return answers::no(Refusal::unsupported);
    }
  }

  Registry& registry_;
  Instant now_;
  MemberId member_;
  std::optional<TgtId> changed_{};
};

}  // namespace parley::xrc
