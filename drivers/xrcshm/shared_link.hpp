// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A member's access to a registry in shared memory: the member itself does the work of a broker.
#pragma once
#include <memory>
#include <optional>

#include "drivers/xrcd/link.hpp"
#include "drivers/xrcshm/bell_waiter.hpp"
#include "drivers/xrcshm/watcher.hpp"

namespace parley::xrc {

class SharedLink final : public Link {
 public:
  /// Errors: those of Segment::open(), and of the registry; no_space (descriptors, threads).
  static Result<std::shared_ptr<Link>> open(const DomainOptions& options, bool member, int file);
  ~SharedLink() override;

  Result<Answer> call(const Request& request) override;
  Result<std::optional<Event>> wait_event(Duration longest) override;
  Result<int> fd() override;
  Result<Overview> overview() override;
  Result<TgtId> enlist(TgtId id) override;
  Result<std::uint64_t> unregister(TgtId id) override;
  std::uint32_t epoch() const override { return segment_->epoch(); }

 private:
  SharedLink(std::shared_ptr<Segment> segment, const DomainOptions& options)
      : segment_(std::move(segment)), options_(options) {}
  Result<void> join();
  void leave();
  Result<Answer> once(const Request& request);
  Refusal why_not() const;

  std::shared_ptr<Segment> segment_;
  DomainOptions options_;
  int file_ = -1;  // held open, so that the inode is not reused while the domain lives
  OwnProcess process_;
  std::optional<MemberId> member_{};
  std::unique_ptr<Watcher> watcher_;
  std::unique_ptr<BellWaiter> bell_waiter_;  // created when fd() is called
};

}  // namespace parley::xrc
