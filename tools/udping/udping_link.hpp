// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One queue pair's part in udaddy's exchange, or in mckey's, which goes one way alone: so many datagrams each way, each with the number
// of its sender's queue pair as immediate data, which is how a server learns where to reply.
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

  /// What the queue pair is to be made with.
  QpInit init() const;
  void attach(QueuePair& qp) { qp_ = &qp; }
  /// For all the messages that are to come.
  void post_receives();
  /// Where datagrams go: the way, the Q_Key, and the queue pair as far as it is known.
  void aim(const AhAttr& way, std::uint32_t qpn, std::uint32_t qkey);
  /// All of them at once, as udaddy does.
  void send_all();
  /// Takes what is complete; whether there was anything.
  bool poll();

  bool aimed() const { return ah_ != nullptr; }
  bool received_all() const { return received_ == messages_; }
  bool sent_all() const { return sent_ == messages_; }
  std::uint32_t received() const { return received_; }
  std::uint32_t sent() const { return sent_; }
  const std::optional<std::string>& fault() const { return fault_; }
  /// Datagrams that were no messages of this exchange, which do not end it.
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
  Bytes memory_;  ///< where all datagrams arrive, behind the network header, and behind that what is sent
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
