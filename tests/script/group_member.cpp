// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A process with a UD queue pair on sockets, for roce_groups_test.py: group_member ADDRESS GROUP HOP-LIMIT, both as IP addresses.
// Commands on standard input, a line each: "join", "leave", "send TEXT"; their end ends it. What it has to say are lines too.
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/gid.hpp"
#include "parley/ib.hpp"
#include "parley/roce.hpp"
#include "parley/roce_host.hpp"
#include "tests/unit/verbs_kit.hpp"

namespace parley {
namespace {

constexpr std::uint32_t q_key = 0x11111111, group_qpn = 0xFFFFFF;
constexpr std::size_t grh_size = 40, slot_size = 256, slots = 8, send_at = slots * slot_size;

void say(const std::string& text) {
  std::puts(text.c_str());
  std::fflush(stdout);
}

std::string outcome(const char* what, const Result<void>& result) {
  return result ? what : std::string("error: ") + result.error().message();
}

class Member {
 public:
  Member(RoceHost& host, const Address& group, int hop_limit) : verbs_(host.device()), group_(gid_of(group)) {
    QpInit init = verbs_.qp();
    init.type = QpType::ud;
    qp_ = std::move(*host.device().create_qp(init));
    (void)qp_->modify({.state = QpState::init, .pkey_index = 0, .port_num = 1, .qkey = q_key});
    (void)qp_->modify({.state = QpState::rtr});
    (void)qp_->modify({.state = QpState::rts, .sq_psn = 0});
    for (std::size_t i = 0; i < slots; ++i) (void)verbs_.recv(*qp_, i * slot_size, slot_size, i);
    const GlobalRoute way{.dgid = group_, .hop_limit = static_cast<std::uint8_t>(hop_limit)};
    auto made = host.device().create_ah(verbs_.pd, {.grh = way});
    if (made) ah_ = std::move(*made);
  }

  void obey(const std::string& line) {
    if (line == "join") return say(outcome("joined", roce::queue_pair(qp_.get())->attach_multicast(group_)));
    if (line == "leave") return say(outcome("left", roce::queue_pair(qp_.get())->detach_multicast(group_)));
    if (line.rfind("send ", 0) != 0) return say("error: no such command");
    const std::string text = line.substr(5);
    std::copy(text.begin(), text.end(), verbs_.memory.begin() + send_at);
    const Sge sge = verbs_.at(send_at, text.size());
    say(outcome("posted", qp_->post_send({.opcode = SendWr::Opcode::send,
                                          .sges = {&sge, 1},
                                          .ah = ah_.get(),
                                          .remote_qp_num = group_qpn,
                                          .remote_qkey = q_key})));
  }

  void report_received() {
    for (const WorkCompletion& wc : verbs_.poll()) {
      if (wc.opcode != WcOpcode::recv || wc.status != WcStatus::success) continue;
      const auto at = verbs_.memory.begin() + static_cast<std::ptrdiff_t>(wc.wr_id * slot_size + grh_size);
      say("got " + std::string(at, at + static_cast<std::ptrdiff_t>(wc.byte_len - grh_size)));
      (void)verbs_.recv(*qp_, wc.wr_id * slot_size, slot_size, wc.wr_id);
    }
  }

 private:
  Verbs verbs_;
  Gid group_;
  std::unique_ptr<AddressHandle> ah_;
  std::unique_ptr<QueuePair> qp_;
};

/// Whether standard input goes on; whole lines go to the member.
bool read_commands(Member& member, std::string& rest) {
  pollfd in{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (::poll(&in, 1, 0) <= 0) return true;
  std::array<char, 512> octets;
  const ssize_t n = ::read(STDIN_FILENO, octets.data(), octets.size());
  if (n <= 0) return false;
  rest.append(octets.data(), static_cast<std::size_t>(n));
  for (std::size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n')) {
    member.obey(rest.substr(0, end));
    rest.erase(0, end + 1);
  }
  return true;
}

int run(const std::string& address, const std::string& group, int hop_limit) {
  auto local = Address::parse(address), to = Address::parse(group);
  auto host = RoceHost::open();
  if (!local || !to || !host) return 2;
  local->port = 7174;
  if (!(*host)->cm().listen(*local)) return 2;
  for (bool there = false; !there;) {
    (*host)->run_once(std::chrono::milliseconds(1));
    while (const auto event = (*host)->cm().poll_event()) {
      there = std::holds_alternative<cm::Listening>(*event);
      if (const auto* failed = std::get_if<cm::ConnectFailed>(&*event)) {
        say("error: " + failed->why.to_string());
        return 1;
      }
    }
  }
  Member member(**host, *to, hop_limit);
  say("listening");
  for (std::string rest; read_commands(member, rest);) {
    (*host)->run_once(std::chrono::milliseconds(1));
    member.report_received();
  }
  return 0;
}

}  // namespace
}  // namespace parley

int main(int count, char** words) { return count == 4 ? parley::run(words[1], words[2], std::atoi(words[3])) : 2; }
