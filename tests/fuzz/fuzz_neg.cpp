// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A session of a staged negotiation in both roles and with each of Parley's variants, with any octets in any pieces: it
// stays within its bounds, an end is an end, and what comes out does not depend on how the octets were cut.
#include <string>
#include <vector>

#include "base/assert.hpp"
#include "parley/neg_qp.hpp"
#include "parley/neg_session.hpp"
#include "tests/fuzz/draw.hpp"

namespace parley::fuzz {
namespace {

using namespace neg;

constexpr std::string_view variants[] = {"verbs-rc", "verbs-uc", "verbs-ud", "verbs-xrc",
                                         "manual",   "pingpong", "perftest"};

struct Drawn {
  Role role = Role::responder;
  std::string variant;
  Config config{{"qpn", "0x11"}, {"gid", "::1"}, {"srqn", "1"}, {"ini_qpn", "2"}};
  SessionOptions options{};
};

Drawn draw_session(Draw& draw) {
  Drawn out;
  const std::uint8_t flags = draw.u8();
  out.role = (flags & 1) != 0 ? Role::initiator : Role::responder;
  out.variant = variants[draw.u8() % std::size(variants)];
  if ((flags & 2) != 0 && out.variant != "pingpong") out.config["done"] = "true";
  if ((flags & 4) != 0 && out.variant == "perftest") out.config["validation"] = "true";
  if (out.variant == "pingpong" || out.variant == "perftest") out.config["qps"] = (flags & 8) != 0 ? "3" : "1";
  out.options.rounds_max = static_cast<std::uint16_t>(1 + draw.u8() % 80);
  out.options.message_max = 16 + draw.u16() % 4096U;
  return out;
}

class Drive {
 public:
  Drive(const Framework& framework, const Drawn& drawn) : options_(drawn.options) {
    const bool raw = (*framework.find("parley", drawn.variant))->variant.framing == Framing::raw;
    const Request request{.plugin = "parley", .variant = drawn.variant};
    if (drawn.role == Role::responder && !raw) {
      session_.emplace(*Session::respond(
          [&framework, config = drawn.config](const Request& r) {
            return framework.make(r.plugin, r.variant, Role::responder, config);
          },
          options_, {}));
      return;
    }
    auto variant = framework.make("parley", drawn.variant, drawn.role, drawn.config);
    PARLEY_ASSERT(variant.has_value());
    auto made = raw ? Session::raw(drawn.role, request, std::move(*variant), options_, {})
                    : Session::initiate(request, std::move(*variant), options_, {});
    if (made) session_.emplace(std::move(*made));
  }
  void feed(ConstBytes in, std::size_t piece) {
    if (!session_) return;
    settle();
    while (!in.empty()) {
      const ConstBytes part = in.first(std::min(piece, in.size()));
      in = in.subspan(part.size());
      const bool was_over = session_->state() == Session::State::over;
      session_->handle_bytes({}, part);
      PARLEY_ASSERT(!was_over || session_->state() == Session::State::over);
      settle();
    }
  }
  void end() {
    if (!session_) return;
    session_->handle_end({}, "FIN");
    settle();
    PARLEY_ASSERT(session_->state() == Session::State::over && session_->next_deadline() == never);
    PARLEY_ASSERT(session_->completed() == (session_->failure() == nullptr));
    if (session_->failure() != nullptr) PARLEY_ASSERT(!session_->failure()->to_string().empty());
    if (session_->variant() != nullptr) (void)session_->variant()->agreed();
  }
  bool same_as(const Drive& other) const {
    if (!session_ || !other.session_) return !session_ == !other.session_;
    const Failure *mine = session_->failure(), *theirs = other.session_->failure();
    if (mine == nullptr || theirs == nullptr) return mine == theirs && out_ == other.out_;
    // Who speaks another protocol is told its first octets, as many as had come.
    return mine->problem == theirs->problem && (mine->problem == Problem::protocol_violation || out_ == other.out_);
  }
  void feed_deadline() {
    if (!session_ || session_->next_deadline() == never) return;
    session_->handle_deadline(session_->next_deadline());
    settle();
    PARLEY_ASSERT(session_->state() == Session::State::over);
  }

 private:
  void settle() {
    const Bytes more = session_->poll_transmit();
    out_.insert(out_.end(), more.begin(), more.end());
    // Hello or Welcome, the turns of three stages, an Abort with its words.
    PARLEY_ASSERT(out_.size() <= 4096 + 3 * std::size_t{options_.rounds_max} * (16 + options_.message_max));
    PARLEY_ASSERT(session_->history().size() <= options_.history_max);
    PARLEY_ASSERT(session_->poll_transmit().empty());
  }
  SessionOptions options_;
  std::optional<Session> session_;
  Bytes out_;
};

void run(ConstBytes in) {
  Draw draw(in);
  static const Framework framework = [] {
    Framework made;
    PARLEY_ASSERT(made.add(make_builtin_plugin()).has_value());
    return made;
  }();
  const Drawn drawn = draw_session(draw);
  const std::size_t piece = 1 + std::size_t{draw.u8()};
  const bool late = draw.bit();
  const ConstBytes octets = draw.rest();
  Drive whole(framework, drawn), cut(framework, drawn);
  whole.feed(octets, octets.size() + 1);
  cut.feed(octets, piece);
  if (late) cut.feed_deadline();
  whole.end();
  cut.end();
  PARLEY_ASSERT(late || whole.same_as(cut));
}

}  // namespace
}  // namespace parley::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parley::fuzz::run({data, size});
  return 0;
}
