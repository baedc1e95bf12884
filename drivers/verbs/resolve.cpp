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

/// Makes an address handle and gives it back: 0, or an errno.
int try_path(ibv_context* context, ibv_ah_attr attr) {
  ibv_pd* pd = ibv_alloc_pd(context);
  if (pd == nullptr) return errno;
  ibv_ah* ah = ibv_create_ah(pd, &attr);
  const int error = ah == nullptr ? errno : 0;
  if (ah != nullptr) ibv_destroy_ah(ah);
  ibv_dealloc_pd(pd);
  return error;
}

}  // namespace

// The thread may be the last that has the device: then nobody else can reach it any more, and it closes it.
Result<void> Resolver::resolve(const std::shared_ptr<NicDevice>& device, const AhAttr& path,
                               std::chrono::milliseconds longest) {
  if (!path.grh) return {};  // a LID needs no look-up
  if (open_->load() >= open_max)
    return fail(Errc::no_space, "{a} look-ups of GIDs that nobody answers for are under way", open_max);
  std::promise<int> promise;
  std::future<int> answer = promise.get_future();
  ++*open_;
  try {
    std::thread([held = device, attr = to_ibv(path), promise = std::move(promise), open = open_]() mutable {
      const int error = try_path(held->context(), attr);
      held.reset();
      --*open;
      promise.set_value(error);
    }).detach();
  } catch (const std::system_error&) {
    --*open_;
    return fail(Errc::no_space, "the system gives no thread");
  }
  if (answer.wait_for(longest) != std::future_status::ready)
    return fail(Errc::timed_out, "nobody has answered for the GID within {a} ms", longest.count());
  if (const int error = answer.get(); error != 0) return refused(error, "ibv_create_ah: errno {a}");
  return {};
}

}  // namespace parley::verbs
