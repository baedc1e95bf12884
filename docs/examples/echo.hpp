// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the event loop examples send and receive, so that they show their loops and little else: an end of a connection
// with room for one message each way.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <parley/tcp_host.hpp>

namespace echo {

template <class T>
T must(parley::Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s\n", result.error().message().c_str());
  std::exit(1);
}
inline void must(parley::Result<void> result) {
  if (result) return;
  std::fprintf(stderr, "%s\n", result.error().message().c_str());
  std::exit(1);
}

struct End {
  std::unique_ptr<parley::TcpHost> host = must(parley::TcpHost::open());
  parley::Bytes memory = parley::Bytes(2 * room);  // received, then sent
  parley::PdHandle pd = must(host->device().alloc_pd());
  std::unique_ptr<parley::CompletionQueue> cq = must(host->device().create_cq(16));
  parley::MemoryRegion mr = must(host->device().reg_mr(pd, memory, parley::Access::local_write));
  parley::cm::Id id{};
  parley::Address listening{};
  bool established = false, over = false;
  std::function<void(std::string_view)> on_message = [](std::string_view) {};

  static constexpr std::uint32_t room = 256;

  parley::QpInit qp() const {
    return {.pd = pd, .send_cq = cq.get(), .recv_cq = cq.get(), .max_send_wr = 4, .max_recv_wr = 4};
  }
  void receive() {
    const parley::Sge piece{.addr = mr.addr, .length = room, .lkey = mr.lkey};
    must(id.qp()->post_recv({.sges = {&piece, 1}}));
  }
  void send(std::string_view text) {
    std::memcpy(memory.data() + room, text.data(), text.size());
    const parley::Sge piece{.addr = mr.addr + room, .length = static_cast<std::uint32_t>(text.size()), .lkey = mr.lkey};
    must(id.qp()->post_send({.sges = {&piece, 1}}));
  }

  void handle(const parley::cm::Event& event) {
    using namespace parley;
    if (const auto* up = std::get_if<cm::Listening>(&event)) listening = up->local;
    if (const auto* request = std::get_if<cm::ConnectRequest>(&event)) {
      id = request->id;
      must(id.create_qp(qp()));
      receive();
      must(id.accept());
    }
    if (std::holds_alternative<cm::Established>(event)) established = true;
    if (const auto* failed = std::get_if<cm::ConnectFailed>(&event)) end("set-up failed: " + failed->why.to_string());
    if (const auto* ended = std::get_if<cm::Disconnected>(&event))
      end(ended->graceful ? "" : "connection lost: " + ended->why.to_string());
  }
  /// Events and completions of the turns so far.
  void drain() {
    while (auto event = host->cm().poll_event()) handle(*event);
    parley::WorkCompletion done;
    while (!over && cq->poll({&done, 1}) == 1) {
      if (done.status != parley::WcStatus::success || done.opcode != parley::WcOpcode::recv) continue;
      const std::string text(reinterpret_cast<const char*>(memory.data()), done.byte_len);
      receive();
      on_message(text);
    }
  }
  void end(const std::string& failure) {
    over = true;
    if (failure.empty()) return;
    std::fprintf(stderr, "%s\n", failure.c_str());
    std::exit(1);
  }
};

}  // namespace echo
