// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One queue pair in udaddy's exchange of datagrams, or in mckey's, which has one direction only. Each datagram has the
// number of the sender's queue pair as immediate data, from which a server learns where to reply.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "parley/verbs.hpp"
#include "tools/options.hpp"
#include "tools/report.hpp"

namespace parley::tools {

class UdpingLink {
 public:
  /// Errors: environment.
  static Or<std::unique_ptr<UdpingLink>> create(Device& device, PdHandle pd, std::uint32_t messages,
                                                std::uint32_t size);
  ~UdpingLink();
  UdpingLink(const UdpingLink&) = delete;
  UdpingLink& operator=(const UdpingLink&) = delete;

  /// The attributes for the queue pair.
  QpInit init() const;
  void attach(QueuePair& qp) { qp_ = &qp; }
  /// Posts receives for all expected messages.
  void post_receives();
  /// Sets the destination: address handle, Q_Key, and queue pair number (0: not known yet).
  void aim(const AhAttr& way, std::uint32_t qpn, std::uint32_t qkey);
  /// Posts all sends at once, as udaddy does.
  void send_all();
  /// Handles completions. Returns whether there were any.
  bool poll();

  bool aimed() const { return ah_ != nullptr; }
  bool received_all() const { return received_ == messages_; }
  bool sent_all() const { return sent_ == messages_; }
  std::uint32_t received() const { return received_; }
  std::uint32_t sent() const { return sent_; }
  const std::optional<std::string>& fault() const { return fault_; }
  /// Datagrams that are not messages of this exchange. They do not end it.
  std::uint64_t strays() const { return strays_; }
  /// "; 2 other datagrams were dropped, the last because ..."; empty if there were none.
  std::string strays_text() const;

 private:
  UdpingLink(Device& device, PdHandle pd, std::uint32_t messages, std::uint32_t size);
  void post_receive();
  void on_receive(const WorkCompletion& done);
  std::string stray(const WorkCompletion& done) const;
  Sge at(std::size_t offset, std::size_t length) const;
  void fail(std::string text) {
    if (!fault_) fault_ = std::move(text);
  }

  Device& device_;
  const PdHandle pd_;
  const std::uint32_t messages_, size_;
  Bytes memory_;  ///< receive buffer shared by all datagrams, with room for the network header, then the send buffer
  MemoryRegion region_;
  std::unique_ptr<CompletionQueue> cq_;
  std::unique_ptr<AddressHandle> ah_;
  QueuePair* qp_ = nullptr;
  std::uint32_t qpn_ = 0, qkey_ = 0;  ///< of the peer
  std::uint32_t received_ = 0, sent_ = 0;
  std::uint64_t strays_ = 0;
  std::string last_stray_;
  std::optional<std::string> fault_;
};

}  // namespace parley::tools
