// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/call.hpp"

namespace parley::mad::detail {

CallBase::CallBase(CallBase&& other) noexcept
    : transactor_(other.transactor_), id_(std::exchange(other.id_, Transactor::none)) {
  PARLEY_ASSERT(other.task_ == nullptr);
}

CallBase::~CallBase() {
  if (id_ != Transactor::none) transactor_->release(id_);
}

void CallBase::start(PromiseBase& task) {
  PARLEY_ASSERT(task_ == nullptr);
  task_ = &task;
  if (id_ == Transactor::none) return task.executor->make_ready(task);
  transactor_->user(id_) = this;
  if (task.scope == nullptr) return transactor_->submit(id_);
  if (const auto stopped = task.scope->stopped()) return transactor_->cancel(id_, *stopped);
  task.scope->wait(*this);
  transactor_->submit(id_);
}

void CallBase::stop(Fault why) {
  unlink();
  transactor_->cancel(id_, why);
}

void CallBase::wake() {
  unlink();
  task_->executor->make_ready(*task_);
}

std::optional<MadError> CallBase::error() const {
  if (id_ == Transactor::none) return MadError(Fault::no_space, std::string(too_many_open));
  if (transactor_->ok(id_)) return std::nullopt;
  return transactor_->error(id_);
}

}  // namespace parley::mad::detail
