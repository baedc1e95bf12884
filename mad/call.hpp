// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// An RPC that can be awaited, as Port's functions return it. It is sent when it is awaited, or spawned into a Scope.
#pragma once
#include "mad/task.hpp"
#include "mad/transactor.hpp"
#include "wire/mad/sa.hpp"

namespace parley::mad {

/// The complete records in an answer with a table. For an answer that was cut (Fault::cut), error.reply() has the
/// records that arrived. Errors: truncated (no headers); malformed (AttributeOffset is less than a record).
template <class A>
Result<std::vector<A>> records_in(ConstBytes mad) {
  std::vector<A> out;
  if (mad.size() < rmpp::header_octets) return fail(Errc::truncated);
  const std::size_t step = std::size_t{8} * wire::mad::SaHeader::parse(mad)->get(wire::mad::SaHeader::attribute_offset);
  if (step == 0) return out;
  if (step < A::size)
    return fail(Errc::malformed, "AttributeOffset says {a} octets a record; the record has {b}",
                static_cast<std::int64_t>(step), static_cast<std::int64_t>(A::size));
  mad = mad.subspan(rmpp::header_octets);
  out.reserve(mad.size() / step);
  for (; mad.size() >= step; mad = mad.subspan(step)) out.push_back(*A::parse(mad));
  return out;
}

namespace detail {

class CallBase : Wait {
 public:
  CallBase(Transactor& transactor, Transactor::Id id) : transactor_(&transactor), id_(id) {}
  /// Only before it is awaited.
  CallBase(CallBase&& other) noexcept;
  CallBase& operator=(CallBase&&) = delete;
  ~CallBase();

  bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> task) {
    start(task.promise());
  }

  /// Its request is done.
  void wake();

 protected:
  std::optional<MadError> error() const;
  ConstBytes reply() const { return transactor_->reply(id_); }

  Transactor* transactor_;
  Transactor::Id id_;

 private:
  void start(PromiseBase& task);
  void stop(Fault why) override;

  PromiseBase* task_ = nullptr;
};

}  // namespace detail

/// co_await returns a Reply<T>. T is a structure, a vector of records, or RawReply. The port must outlive it.
template <class T>
class [[nodiscard]] Call : public detail::CallBase {
 public:
  Call(Transactor& transactor, Transactor::Id id, std::size_t data) : CallBase(transactor, id), data_(data) {}
  Reply<T> await_resume() {
    if (auto failed = error()) return tl::unexpected(std::move(*failed));
    Result<T> out = T::parse(reply().subspan(std::min(data_, reply().size())));
    if (!out) return tl::unexpected(transactor_->error(id_, Fault::malformed, out.error().message()));
    return std::move(*out);
  }

 private:
  std::size_t data_;
};

template <class A>
class [[nodiscard]] Call<std::vector<A>> : public detail::CallBase {
 public:
  Call(Transactor& transactor, Transactor::Id id, std::size_t) : CallBase(transactor, id) {}
  Reply<std::vector<A>> await_resume() {
    if (auto failed = error()) return tl::unexpected(std::move(*failed));
    Result<std::vector<A>> out = records_in<A>(reply());
    if (!out) return tl::unexpected(transactor_->error(id_, Fault::malformed, out.error().message()));
    return std::move(*out);
  }
};

template <>
class [[nodiscard]] Call<RawReply> : public detail::CallBase {
 public:
  Call(Transactor& transactor, Transactor::Id id, std::size_t = 0) : CallBase(transactor, id) {}
  Reply<RawReply> await_resume() {
    if (auto failed = error()) return tl::unexpected(std::move(*failed));
    return RawReply{Bytes(reply().begin(), reply().end()), transactor_->replier(id_)};
  }
};

}  // namespace parley::mad
