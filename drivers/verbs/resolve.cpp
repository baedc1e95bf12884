// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/verbs/resolve.hpp"

#include <cerrno>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include "drivers/verbs/convert.hpp"

namespace parley::verbs {
namespace {

/// Creates an address handle and destroys it.
Result<void> try_path(ibv_context* context, ibv_ah_attr attr) {
  ibv_pd* pd = ibv_alloc_pd(context);
  // Whatever its errno, this failure is independent of the path.
  if (pd == nullptr) return fail(errno == ENOMEM ? Errc::no_space : Errc::io, "ibv_alloc_pd: errno {a}", errno);
  ibv_ah* ah = ibv_create_ah(pd, &attr);
  const int error = ah == nullptr ? errno : 0;
  if (ah != nullptr) ibv_destroy_ah(ah);
  ibv_dealloc_pd(pd);
  if (error != 0) return refused(error, "ibv_create_ah: errno {a}");
  return {};
}

}  // namespace

std::optional<Result<void>> KnownPaths::find(const Path& path, Clock::time_point now) const {
  const auto at = known_.find(path);
  if (at == known_.end() || at->second.first <= now) return std::nullopt;
  return at->second.second;
}

void KnownPaths::keep(const Path& path, const Result<void>& found, Clock::time_point now) {
  std::erase_if(known_, [&](const auto& entry) { return entry.second.first <= now; });
  if (!found && problem_of_path(found.error()) != neg::Problem::invalid_peer_data) return;
  if (known_.size() < most) known_.insert_or_assign(path, std::pair{now + kept, found});
}

Result<void> Resolver::resolve(const std::shared_ptr<NicDevice>& device, const AhAttr& path,
                               std::chrono::milliseconds longest) {
  if (!path.grh) return {};  // a LID needs no look-up
  const KnownPaths::Path key{device->name(), path.port_num, path.grh->sgid_index, path.grh->dgid};
  if (auto known = known_->find(key, KnownPaths::Clock::now())) return *known;
  auto found = look_up(device, path, longest);
  known_->keep(key, found, KnownPaths::Clock::now());
  return found;
}

// The thread may be the last owner of the device: then no one else can reach it, and it closes the device.
Result<void> Resolver::look_up(const std::shared_ptr<NicDevice>& device, const AhAttr& path,
                               std::chrono::milliseconds longest) {
  if (open_->load() >= open_max) return fail(Errc::no_space, "{a} unanswered GID look-ups are in progress", open_max);
  std::promise<Result<void>> promise;
  std::future<Result<void>> answer = promise.get_future();
  ++*open_;
  try {
    std::thread([held = device, attr = to_ibv(path), promise = std::move(promise), open = open_]() mutable {
      auto tried = try_path(held->context(), attr);
      held.reset();
      --*open;
      promise.set_value(std::move(tried));
    }).detach();
  } catch (const std::system_error&) {
    --*open_;
    return fail(Errc::no_space, "the system gives no thread");
  }
  if (answer.wait_for(longest) != std::future_status::ready)
    return fail(Errc::timed_out, "no neighbour answered for the GID within {a} ms", longest.count());
  return answer.get();
}

neg::Problem problem_of_path(const std::error_code& why) {
  if (why == Errc::no_space) return neg::Problem::resource_exhaustion;
  const bool peers = why == Errc::timed_out || why == Errc::unreachable || why == Errc::invalid_argument;
  return peers ? neg::Problem::invalid_peer_data : neg::Problem::vendor_library_error;
}

}  // namespace parley::verbs
