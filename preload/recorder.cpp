// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "preload/recorder.hpp"

#include "drivers/asio/packet_frame.hpp"
#include "drivers/clock.hpp"
#include "drivers/private_file.hpp"
#include "wire/packet.hpp"

namespace parley::preload {

std::unique_ptr<Recorder> Recorder::create(const std::string& path) {
  std::FILE* const file = create_private(path);
  return file == nullptr ? nullptr : std::unique_ptr<Recorder>(new Recorder(file));
}

Recorder::Recorder(std::FILE* file)
    : file_(file),
      writer_(block_, {.application = "parley verbs",
                       .comment = "Written from the program's own sockets: octets and times are real."}),
      to_epoch_(wall_clock_now() - clock_now()) {
  (void)std::setvbuf(file, nullptr, _IONBF, 0);  // the program may be killed at any time
  (void)writer_.add_interface("parley0", static_cast<std::uint16_t>(wire::LinkType::ethernet));
  write();
}

void Recorder::add(const PacketTapRecord& record) {
  writer_.packet(0, record.at + to_epoch_, asio_driver::frame_of(record),
                 {.direction = record.sent ? wire::PacketDirection::outbound : wire::PacketDirection::inbound});
  write();
}

// If the disk is full, recording stops and the program continues.
void Recorder::write() {
  if (file_ != nullptr && std::fwrite(block_.data(), 1, block_.size(), file_.get()) != block_.size()) file_.reset();
  block_.clear();
}

}  // namespace parley::preload
