// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/mad/tap.hpp"

#include <fmt/format.h>

#include "base/bits.hpp"
#include "drivers/private_file.hpp"
#include "mad/frame.hpp"
#include "mad/rmpp.hpp"
#include "wire/mad/decode.hpp"

namespace parley::tools {

namespace {

/// "LID 5 QP 1", "GID fe80::1 QP 1", or the directed route in an SMP: "0,1,3".
std::string place_text(const mad::Address& other, ConstBytes mad) {
  if (mad.size() >= PARLEY_IB_MAD_LEN && mad[1] == static_cast<std::uint8_t>(wire::mad::MgmtClass::subn_directed)) {
    std::string route = "0";
    for (std::size_t hop = 1; hop <= mad[7] && hop < PARLEY_MAD_PATH_MAX; ++hop)
      route += fmt::format(",{}", mad[128 + hop]);
    return route;
  }
  if (other.grh && other.lid == 0) return fmt::format("GID {} QP {}", gid_text(other.grh->gid), other.qpn);
  return fmt::format("LID {} QP {}", other.lid, other.qpn);
}

}  // namespace

Or<std::unique_ptr<Tap>> Tap::open(std::unique_ptr<mad::Transport> inner, bool trace, const std::string& file,
                                   Output& out, std::function<Instant()> clock) {
  std::unique_ptr<Tap> tap(new Tap(std::move(inner), trace, out, std::move(clock)));
  if (file.empty()) return tap;
  tap->name_ = file;
  tap->file_.reset(create_private(file));
  tap->writer_.emplace(tap->octets_, wire::link_type_erf);
  tap->write();
  if (!tap->written()) return command_error(Exit::environment, fmt::format("'{}' cannot be written", file));
  return tap;
}

void Tap::show(const mad::Address& other, ConstBytes mad, bool sent, std::string_view returned) {
  if (trace_) {
    const auto decoded = wire::mad::decode(mad);
    const std::string status = decoded ? wire::mad::status_text(*decoded) : std::string();
    const std::string modifier = mad.size() >= 24 && read_bits(mad, 160, 32) != 0
                                     ? fmt::format(" modifier 0x{:x}", read_bits(mad, 160, 32))
                                     : std::string();
    out_.note(fmt::format("{} {} {}  {}{} tid 0x{:x}{}{}", decimal_seconds(clock_() - began_, 6), sent ? ">" : "<",
                          place_text(other, mad), decoded ? wire::mad::title(*decoded) : "cut short", modifier,
                          mad.size() >= 16 ? read_bits(mad, 96, 32) : 0, status.empty() ? "" : ": " + status,
                          returned));
  }
  // A datagram that the transport returned was not on the link a second time.
  if (!writer_ || !returned.empty()) return;
  const auto put = [&, now = wall_began_ + (clock_() - began_)](ConstBytes datagram) {
    writer_->packet(now, mad::erf_record(now, mad::frame_of(local(), other, datagram, sent)));
    write();
  };
  if (mad.size() <= PARLEY_IB_MAD_LEN) return put(mad);
  // A message that the kernel's RMPP handles as one consists of segments on the link.
  const auto whole = mad::rmpp::Sender::create(Bytes(mad.begin(), mad.end()));
  if (!whole) return put(mad);
  for (std::uint32_t i = 1; i <= whole->segments(); ++i) put(whole->segment(i));
}

void Tap::write() {
  if (file_) (void)std::fwrite(octets_.data(), 1, octets_.size(), file_.get());
  octets_.clear();
}

Result<bool> Tap::send(const mad::Address& to, ConstBytes mad) {
  const auto sent = inner_->send(to, mad);
  if (sent && *sent) show(to, mad, true, {});
  return sent;
}

Result<std::optional<mad::Transport::Received>> Tap::receive() {
  auto came = inner_->receive();
  if (came && *came)
    show((*came)->from, (*came)->mad, false,
         (*came)->refused ? " (came back: not sent)" : ((*came)->lost ? " (came back: dropped on its way)" : ""));
  return came;
}

Or<void> Tap::finish() {
  if (!writer_ || written()) return {};
  return command_error(Exit::environment, fmt::format("'{}' cannot be written", name_));
}

}  // namespace parley::tools
