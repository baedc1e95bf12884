// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The object behind a parley_mad: a mad::Port over its transport, and the open requests of a C program.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "capi/backend.hpp"
#include "drivers/mad/where.hpp"
#include "drivers/ready_set.hpp"
#include "mad/rpc_text.hpp"
#include "mad/text_request.hpp"
#include "parley/mad.h"

namespace parley::capi {

struct MadDoneTag;

/// A request. It exists until the program takes the reply after its own.
struct MadRequest : mad::Link<MadDoneTag> {
  using Answer = mad::Reply<mad::RawReply>;

  std::uint64_t id = 0;
  void* user = nullptr;
  bool is_call = false;  // parley_mad_call()'s: not for parley_mad_poll()
  mad::TextRequest ask;
  bool done = false;
  std::optional<Answer> answer;  // none although done: memory ran out
  std::string status_text, path, error;
  std::optional<mad::Running<mad::Task<void>>> running;  // last member, because it uses the others
};

/// The requests that a program has registered for.
struct MadService {
  std::uint8_t mgmt_class = 0, class_version = 0;
  std::uint32_t oui = 0;
  std::uint64_t methods[2]{};
};

/// A request of another port. It exists until it is answered.
struct MadIncoming {
  mad::Incoming request;
  std::string path;
};

class MadPort {
 public:
  MadPort(mad_driver::Opened opened, const mad::PortOptions& options, const mad::PathDefaults& defaults)
      : name_(std::move(opened.name)),
        transport_(std::move(opened.transport)),
        defaults_(defaults),
        port_(transport_->facts(), transport_->local(), options) {}

  /// forks_until_now() when it was opened.
  std::uint32_t forks() const { return forks_; }
  int query(parley_mad_attr& out) const;
  int call(const parley_mad_request& given, parley_mad_reply* reply);
  int post(const parley_mad_request& given, std::uint64_t* id);
  int fd();
  int progress();
  int poll(parley_mad_reply& out);
  int cancel(std::uint64_t id);
  int serve(const parley_mad_service& given);
  int receive(parley_mad_incoming& out);
  /// `given` null: drops the request.
  int respond(std::uint64_t id, const parley_mad_response* given);

 private:
  static mad::Task<void> carry(mad::Port& port, MadRequest& request, mad::List<MadRequest, MadDoneTag>& done);
  int open(const parley_mad_request& given, bool is_call, MadRequest*& out);
  void give(MadRequest& request, parley_mad_reply& out) const;
  bool can_receive() const { return (next_ || port_.has_request()) && incoming_.size() < PARLEY_MAD_INCOMING_MAX; }
  void find_incoming();
  void describe(MadIncoming& incoming, parley_mad_incoming& out) const;
  int answer(const mad::Incoming& request, const parley_mad_response& given);
  /// The transport failed: ends every request. Returns the error's code.
  int broke(const Error& error);
  int gone() const;
  void arm();

  std::uint32_t forks_ = forks_until_now();
  std::string name_;
  std::unique_ptr<mad::Transport> transport_;
  mad::PathDefaults defaults_;
  std::optional<Error> broken_;
  std::unique_ptr<ReadySet> set_;
  mad::Port port_;
  std::uint64_t last_ = 0;                                                    // the last id, of either kind
  std::unordered_map<std::uint64_t, std::unique_ptr<MadRequest>> requests_;   // at most PARLEY_MAD_REQUESTS_MAX
  std::unique_ptr<MadRequest> given_;                                         // the program may still read its reply
  mad::List<MadRequest, MadDoneTag> done_;                                    // for poll()
  bool answers_wait_ = false;                                                 // to be sent by the next progress()
  std::vector<MadService> services_;                                          // at most services_max
  std::unique_ptr<MadIncoming> next_;                                         // for receive()
  std::unique_ptr<MadIncoming> unanswerable_;                                 // the program may still read it
  std::unordered_map<std::uint64_t, std::unique_ptr<MadIncoming>> incoming_;  // at most PARLEY_MAD_INCOMING_MAX
};

/// Reads a program's timeout and retries; 0 keeps the present value. Returns 0, or a code after fail().
int read_mad_waits(std::uint32_t timeout_ms, std::uint32_t retries, mad::PathDefaults& out);
/// Reads a program's request. Returns 0, or a code after fail().
int read_mad_request(const parley_mad_request& given, const mad::PathDefaults& defaults, mad::TextRequest& out);
/// Points the reply to the answer's records. Returns an error text, or an empty string.
std::string read_mad_records(ConstBytes mad, const mad::Rpc& rpc, parley_mad_reply& out);

}  // namespace parley::capi
