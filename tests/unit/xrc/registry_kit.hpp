// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A Registry with processes that are only names, for tests.
#pragma once
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "xrc/registry.hpp"

namespace parley::xrc::kit {

using namespace std::chrono_literals;

inline constexpr Instant t0{Duration(1h)};
inline const DomainKey shared{.device = 1, .st_dev = 8, .st_ino = 100};
inline const DomainKey other{.device = 1, .st_dev = 8, .st_ino = 200};
inline const Peer peer{.ca_guid = 0x505400FFFE000001, .qpn = 0x11};

inline std::error_code code_of(Refusal r) { return make_error_code(r); }
/// "not_registered", or "ok".
template <class T>
std::string refusal_of(const Result<T>& result) {
  if (result) return "ok";
  if (result.error().code().category() != refusal_category()) return result.error().message();
  return std::string(to_string(static_cast<Refusal>(result.error().code().value())));
}

struct Bench {
  explicit Bench(RegistryOptions options = {}) : registry(*Registry::create(t0, options)) {}

  MemberId join(std::uint32_t pid, const DomainKey& key = shared) {
    const auto member = registry.open(now, {.key = key, .process = {.pid = pid, .command = "test"}});
    EXPECT_TRUE(member) << refusal_of(member);
    return member.value_or(MemberId{});
  }
  TgtId make(MemberId member, std::optional<Peer> for_peer = {}) {
    const auto created = registry.create(now, member, {.peer = for_peer});
    EXPECT_TRUE(created) << refusal_of(created);
    return created ? created->id : TgtId{};
  }
  /// One that receives.
  TgtId receiver(MemberId member, std::optional<Peer> for_peer = {}) {
    const TgtId id = make(member, for_peer);
    EXPECT_EQ(refusal_of(registry.modify(now, member, id, State::init, 1)), "ok");
    EXPECT_EQ(refusal_of(registry.modify(now, member, id, State::rtr, 2)), "ok");
    return id;
  }
  std::string enlist(MemberId member, TgtId id) { return refusal_of(registry.enlist(now, member, id)); }
  std::string unregister(MemberId member, TgtId id) { return refusal_of(registry.unregister(now, member, id)); }
  std::string report(TgtId id, EventKind kind) { return refusal_of(registry.report(now, id, kind, 0)); }
  /// All that the member has to hear.
  std::vector<Event> events(MemberId member) {
    std::vector<Event> out;
    while (const auto event = registry.poll_event(member)) out.push_back(*event);
    return out;
  }
  std::string event_names(MemberId member) {
    std::string out;
    for (const Event& e : events(member)) out += (out.empty() ? "" : " ") + std::string(to_string(e.kind));
    return out;
  }
  std::optional<TgtView> find(TgtId id) const {
    for (const DomainView& domain : registry.domains(now))
      for (const TgtView& tgt : domain.tgts)
        if (tgt.id == id) return tgt;
    return std::nullopt;
  }
  std::string state(TgtId id) const {
    const auto tgt = find(id);
    return std::string(to_string(tgt ? tgt->state : State::gone));
  }
  std::size_t registrants(TgtId id) const {
    const auto tgt = find(id);
    return tgt ? tgt->registrants.size() : 0;
  }
  std::vector<TgtId> ended() {
    std::vector<TgtId> out;
    while (const auto id = registry.poll_ended()) out.push_back(*id);
    return out;
  }
  void wait(Duration time) {
    now += time;
    registry.handle_deadline(now);
  }

  Registry registry;
  Instant now = t0;
};

}  // namespace parley::xrc::kit
