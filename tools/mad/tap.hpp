// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A transport that records the datagrams of another one: each as a line of text, and as a packet in a file.
#pragma once
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "drivers/clock.hpp"
#include "mad/transport.hpp"
#include "tools/options.hpp"
#include "wire/pcap.hpp"

namespace parley::tools {

class Tap final : public mad::Transport {
 public:
  /// `trace`: print a line for each to standard error. `file`: a capture of link type ERF; empty: none. `clock`: the
  /// transport's. Errors: environment.
  static Or<std::unique_ptr<Tap>> open(std::unique_ptr<mad::Transport> inner, bool trace, const std::string& file,
                                       Output& out, std::function<Instant()> clock);

  const mad::TransportFacts& facts() const override { return inner_->facts(); }
  const mad::LocalPort& local() const override { return inner_->local(); }
  Result<bool> send(const mad::Address& to, ConstBytes mad) override;
  Result<std::optional<Received>> receive() override;
  Result<void> serve(const mad::ServedClass& what) override { return inner_->serve(what); }
  bool poll_changed() override { return inner_->poll_changed(); }
  int fd() const override { return inner_->fd(); }
  bool wants_to_send() const override { return inner_->wants_to_send(); }
  /// Errors: environment (the file could not be written).
  Or<void> finish();

 private:
  Tap(std::unique_ptr<mad::Transport> inner, bool trace, Output& out, std::function<Instant()> clock)
      : inner_(std::move(inner)), trace_(trace), out_(out), clock_(std::move(clock)), began_(clock_()) {}
  void write();
  bool written() { return file_ != nullptr && std::fflush(file_.get()) == 0 && std::ferror(file_.get()) == 0; }
  void show(const mad::Address& other, ConstBytes mad, bool sent, std::string_view returned);

  std::unique_ptr<mad::Transport> inner_;
  bool trace_;
  Output& out_;
  std::function<Instant()> clock_;
  Instant began_, wall_began_ = wall_clock_now();
  std::string name_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, std::fclose};
  Bytes octets_;                            // for the file
  std::optional<wire::PcapWriter> writer_;  // none without a file
};

}  // namespace parley::tools
