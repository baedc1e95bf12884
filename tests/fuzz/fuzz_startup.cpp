// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The startup machine in both roles, under any options, with any octets and any order of events: it stays within its
// bounds, an end is an end, and what comes out does not depend on how the octets were cut (RFC 5044 §7.1, RFC 6581).
#include <string>
#include <vector>

#include "mpa/startup.hpp"
#include "tests/fuzz/draw.hpp"
#include "wire/mpa.hpp"

namespace parley::fuzz {
namespace {

using namespace mpa;

bool over(StartupState state) {
  return state == StartupState::open || state == StartupState::rejected || state == StartupState::failed;
}

std::string draw_quirk(Draw& draw) {
  const std::uint8_t number = draw.u8();
  const auto known = all_quirks();
  return number != 0 && number <= known.size() ? std::string(known[number - 1].name) : std::string();
}

RtrSet draw_set(std::uint8_t bits) { return {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0}; }

/// 15 octets.
StartupOptions draw_options(Draw& draw) {
  StartupOptions o;
  const std::uint8_t flags = draw.u8();
  o.revision = (flags & 1) != 0 ? 1 : 2;
  o.fall_back_to_v1 = (flags & 2) == 0;
  o.crc = (flags & 4) == 0;
  o.markers = (flags & 8) != 0;
  o.rtr_by_s = (flags & 16) != 0;
  o.accept_rtr_frame = (flags & 32) == 0;
  o.rtr_spelling = (flags & 64) != 0 ? RtrSpelling::hex : RtrSpelling::text;
  const std::uint8_t rtr = draw.u8();
  o.rtr = static_cast<Rtr>(rtr % 8 % 5);
  o.rtr_fallback = static_cast<Rtr>(rtr / 8 % 5);
  const std::uint8_t sets = draw.u8();
  o.rtr_offer = draw_set(sets);
  o.rtr_accept = draw_set(static_cast<std::uint8_t>(~sets >> 4));
  o.rtr_expected = static_cast<Rtr>(draw.u8() % 5);
  o.ird = draw.u16();
  o.ord = draw.u16();
  o.ird_max = draw.u16();
  o.private_data_max = static_cast<std::uint16_t>(512 - draw.u16() % 513);
  o.timeouts.first_fpdu = Duration(draw.u8());
  return o;
}

class Drive {
 public:
  Drive(Startup machine, Role role, bool plain) : machine_(std::move(machine)), role_(role), plain_(plain) { settle(); }

  void feed(ConstBytes in) {
    Startup octet_wise = machine_;
    const bool was_over = over(machine_.state());
    std::size_t taken = machine_.handle_bytes(now_, in);
    PARLEY_ASSERT(taken <= in.size());
    PARLEY_ASSERT(machine_.leftover().size() <= 3);
    for (std::size_t i = 0; i < in.size(); ++i)
      if (octet_wise.handle_bytes(now_, in.subspan(i, 1)) == 0) break;
    // An initiator that gets octets behind the Reply in one piece knows that they came too early (RFC 5044 §7.1.2 rule
    // 4); with a pause between them they are FPDUs. A quirk may be about segments.
    const bool glued = role_ == Role::initiator && machine_.state() == StartupState::failed &&
                       octet_wise.state() == StartupState::open;
    if (plain_ && !glued) PARLEY_ASSERT(octet_wise.state() == machine_.state());
    if (was_over) PARLEY_ASSERT(over(machine_.state()));
    settle();
  }

  void step(Draw& draw, const StartupOptions& options) {
    switch (draw.below(8)) {
      case 0:
      case 1: feed(draw.bytes(1 + std::size_t{draw.u8()})); break;
      case 2: feed(draw.bytes(draw.u16() % 700)); break;
      case 3:
        if (machine_.next_deadline() != never) now_ = std::max(now_, machine_.next_deadline());
        machine_.handle_deadline(now_);
        break;
      case 4: machine_.handle_end(now_, draw.bit()); break;
      case 5: decide(draw, options); break;
      case 6: machine_.handle_first_fpdu(now_, static_cast<Rtr>(draw.below(5))); break;
      default:
        now_ += Duration(draw.u16());
        if (draw.u8() == 7) machine_.handle_local_error(now_, "out of memory");
        machine_.handle_deadline(now_);
    }
    settle();
  }

 private:
  void decide(Draw& draw, const StartupOptions& options) {
    const std::uint8_t how = draw.u8();
    const Bytes private_data(how % 8 == 7 ? draw.u16() % 600 : how / 8, 0x50);
    StartupOptions own = options;
    if ((how & 2) != 0) own = draw_options(draw);
    (void)((how & 1) != 0 ? machine_.reject(now_, private_data) : machine_.accept(now_, own, private_data));
  }

  /// Takes everything out and looks at it.
  void settle() {
    const Bytes sent = machine_.poll_transmit();
    PARLEY_ASSERT(sent.size() <= 2 * PARLEY_MPA_STARTUP_MAX);
    if (!sent.empty()) PARLEY_ASSERT(wire::MpaFrameView::parse(sent).has_value());
    PARLEY_ASSERT(machine_.poll_transmit().empty());
    int events = 0;
    while (auto event = machine_.poll_event()) {
      PARLEY_ASSERT(++events <= 4);
      PARLEY_ASSERT(event->private_data.size() <= PARLEY_MPA_PD_MAX);
      PARLEY_ASSERT(event->parameters.reasons.size() <= 16);
      if (event->kind == StartupEvent::Kind::failed || event->kind == StartupEvent::Kind::retry_v1)
        PARLEY_ASSERT(event->failure.code && !event->failure.to_string("peer").empty());
    }
    if (over(state_)) PARLEY_ASSERT(machine_.state() == state_ || state_ == StartupState::open);
    state_ = machine_.state();
    if (over(state_)) PARLEY_ASSERT(machine_.next_deadline() == never);
  }

  Startup machine_;
  Role role_;
  bool plain_;
  StartupState state_ = StartupState::wait_request;
  Instant now_{};
};

void run(ConstBytes in) {
  Draw draw(in);
  const std::uint8_t flags = draw.u8();
  const Role role = (flags & 1) != 0 ? Role::initiator : Role::responder;
  StartupOptions options = draw_options(draw);
  options.peer_quirk = draw_quirk(draw);
  options.play_quirk = draw_quirk(draw);
  const bool plain = options.peer_quirk.empty() && options.play_quirk.empty();
  const Bytes private_data((flags & 2) != 0 ? draw.u16() % 520 : flags >> 2, 0x41);
  auto machine = Startup::create(role, options, role == Role::initiator ? ConstBytes(private_data) : ConstBytes(), {});
  if (!machine) return;
  Drive drive(std::move(*machine), role, plain);
  for (int step = 0; step < 64 && !draw.empty(); ++step) drive.step(draw, options);
}

}  // namespace
}  // namespace parley::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parley::fuzz::run({data, size});
  return 0;
}
