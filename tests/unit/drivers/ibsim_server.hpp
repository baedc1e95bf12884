// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The server's side of ibsim's sockets, in a thread: it answers with what the test has put there, and sends back each MAD.
#pragma once
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "drivers/ibsim/client.hpp"
#include "drivers/ibsim/socket.hpp"

namespace parley::ibsim {

class TestServer {
 public:
  enum class Answers : std::uint8_t { right, none, short_, foreign, behind_a_late_one };

  explicit TestServer(std::string name) : name_(std::move(name)), control_(bound(control_name(name_))) {
    thread_ = std::thread([this] { run(); });
  }
  ~TestServer() {
    stop_ = true;
    thread_.join();
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  /// What is not there it refuses.
  void put(ControlType type, const ControlData& data) {
    const std::lock_guard lock(mutex_);
    answers_[type] = data;
  }
  void remove(ControlType type) {
    const std::lock_guard lock(mutex_);
    answers_.erase(type);
  }
  void refuse_clients() { refuses_ = true; }
  void set_answers(Answers how) { how_ = how; }
  /// Each that asked for a place, and the types of what came, in their order.
  std::vector<Connect> clients() {
    const std::lock_guard lock(mutex_);
    return clients_;
  }
  std::vector<ControlType> asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  static int bound(const std::string& name) {
    const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    EXPECT_TRUE(bind_to(fd, name)) << name;
    return fd;
  }
  void run() {
    while (!stop_) {
      std::vector<pollfd> waits{{control_.fd, POLLIN, 0}};
      for (const auto& socket : data_) waits.push_back({socket->fd, POLLIN, 0});
      if (::poll(waits.data(), waits.size(), 10) < 1) continue;
      for (const auto& socket : data_)
        for (Data data; ::recv(socket->fd, &data, sizeof data, 0) == sizeof data;) {
          std::swap(data.dlid, data.slid);
          ::send(socket->fd, &data, sizeof data, MSG_NOSIGNAL);
        }
      answer();
    }
  }
  void answer() {
    Control control{};
    sockaddr_un sender{};
    socklen_t length = sizeof sender;
    auto* const address = reinterpret_cast<sockaddr*>(&sender);
    if (::recvfrom(control_.fd, &control, sizeof control, 0, address, &length) != sizeof control) return;
    const std::lock_guard lock(mutex_);
    asked_.push_back(control.type);
    if (control.type == ControlType::connect) {
      connect(control);
    } else if (const auto found = answers_.find(control.type); found != answers_.end()) {
      control.data = found->second;
    } else if (control.type != ControlType::disconnect) {
      control.type = ControlType::error;
    }
    if (how_ == Answers::none) return;
    if (how_ == Answers::foreign) control.magic = ~control.magic;
    if (how_ == Answers::behind_a_late_one) {
      Control late = control;
      late.type = ControlType::guid;
      late.data = {1};
      ::sendto(control_.fd, &late, sizeof late, MSG_NOSIGNAL, address, length);
    }
    ::sendto(control_.fd, &control, sizeof control - (how_ == Answers::short_ ? 1 : 0), MSG_NOSIGNAL, address, length);
  }
  void connect(Control& control) {
    auto asked = message_in<Connect>(control.data);
    clients_.push_back(asked);
    if (refuses_) {
      control.type = ControlType::error;
      return;
    }
    const std::uint32_t own = asked.id;
    asked.id = static_cast<std::uint32_t>(data_.size()) + 1;
    if (asked.node[0] == 0) std::string("first").copy(asked.node.data(), asked.node.size() - 1);
    data_.push_back(std::make_unique<asio_driver::Descriptor>(bound(server_data_name(name_, asked.id))));
    (void)connect_to(data_.back()->fd, client_data_name(name_, own));  // a client that gave up has no socket any more
    control.data = data_with(asked);
  }

  std::string name_;
  asio_driver::Descriptor control_;
  std::vector<std::unique_ptr<asio_driver::Descriptor>> data_;  // its thread's
  std::mutex mutex_;                                            // of the next three
  std::map<ControlType, ControlData> answers_;
  std::vector<Connect> clients_;
  std::vector<ControlType> asked_;
  std::atomic<Answers> how_ = Answers::right;
  std::atomic<bool> stop_ = false, refuses_ = false;
  std::thread thread_;
};

}  // namespace parley::ibsim
