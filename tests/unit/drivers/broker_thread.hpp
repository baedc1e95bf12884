// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A broker in a thread, with its socket and domains' files in a folder that goes with it.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

#include "drivers/xrcd/broker.hpp"

namespace parley::xrc {

class BrokerThread {
 public:
  /// `started`: false for who wants the folder alone.
  explicit BrokerThread(bool started = true) {
    std::string name = "/tmp/parley-xrcd-test-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    if (started) start();
  }
  ~BrokerThread() {
    stop();
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }
  BrokerThread(const BrokerThread&) = delete;
  BrokerThread& operator=(const BrokerThread&) = delete;

  void start(RegistryOptions registry = {}) {
    registry.grace = std::chrono::milliseconds(100);
    registry.recovery = std::chrono::milliseconds(300);
    auto broker = Broker::open({.socket = socket(), .registry = registry});
    ASSERT_TRUE(broker) << broker.error().code().message();
    stop_ = false;
    thread_ = std::thread([this, b = std::move(*broker)] {
      while (!stop_) b->run_once(std::chrono::milliseconds(5));
    });
  }
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  std::string socket() const { return folder_ + "/broker"; }
  std::string file(const char* name) const { return folder_ + '/' + name; }  ///< domain, other, segment

 private:
  std::string folder_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace parley::xrc
