// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "preload/recorder.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "drivers/asio/packet_frame.hpp"
#include "drivers/clock.hpp"
#include "drivers/recording.hpp"
#include "preload/objects.hpp"
#include "wire/packet.hpp"

namespace parley::preload {

namespace {

/// The file of the process's first recording. A child of fork has none yet.
struct FirstRecording {
  pid_t process = 0;
  std::string name;
};

std::FILE* file_of_this_process(const std::string& named) {
  static FirstRecording taken;
  const pid_t process = ::getpid();
  if (taken.process == process) {
    std::FILE* const again = retake_recording(taken.name);
    if (again != nullptr || errno != EWOULDBLOCK) return again;
  }
  std::string name = named;
  std::FILE* const file = claim_recording(name, process);
  if (file != nullptr) taken = {process, name};
  return file;
}

}  // namespace

std::unique_ptr<Recorder> Recorder::create(const std::string& named) {
  std::FILE* const file = file_of_this_process(named);
  return file == nullptr ? nullptr : std::unique_ptr<Recorder>(new Recorder(file));
}

Recorder::Recorder(std::FILE* file)
    : file_(file),
      writer_(block_, {.application = "parley run",
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
  if (file_ != nullptr && std::fwrite(block_.data(), 1, block_.size(), file_.get()) != block_.size()) {
    print_line("the recording ends", std::strerror(errno));
    file_.reset();
  }
  block_.clear();
}

}  // namespace parley::preload
