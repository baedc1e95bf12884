// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A node of an all-to-all exchange as in MPI: its processes send one message to each process of each other node, over
// XRC or over RC. It only uses a connection manager and a device, so that simulated hosts and hosts with sockets run the
// same code.
//
//   XRC  each process has a queue pair (INI) for each other node and a shared receive queue; a service creates the TGT
//        queue pairs, registers all processes of the node with them, and reports the numbers of their queues (SIDR)
//   RC   each process has a queue pair for each process of each other node
#pragma once
#include <set>
#include <string>

#include "cm/xrc/service.hpp"
#include "xrc/node.hpp"

namespace parley::sim {

struct RankOptions {
  std::uint32_t node = 0;          ///< its index in `addresses`
  std::vector<Address> addresses;  ///< addresses of all nodes, with the port
  std::uint32_t processes = 32;    ///< per node
  bool rc = false;                 ///< over RC instead of XRC
  std::uint32_t octets = 64;       ///< per message; at least 4
};

/// Current objects of a node.
struct RankCount {
  std::size_t ini = 0, tgt = 0, rc = 0;  ///< queue pairs
  std::size_t handles = 0;               ///< on the TGT queue pairs, of all processes
  std::size_t queues = 0;                ///< XRC shared receive queues
  std::size_t sent = 0, received = 0;    ///< messages
};

class RankNode {
 public:
  /// `cm` and its device outlive it. Errors: those of the device.
  static Result<std::unique_ptr<RankNode>> create(Instant now, cm::Manager& cm, RankOptions options);
  ~RankNode();

  /// Once the peers listen. Errors: those of cm::Manager::connect.
  Result<void> connect();
  void handle(const cm::Event& event);
  /// In each turn of the device's driver: takes completions.
  void turn(Instant now);
  bool listens() const { return listening_ == (options_.rc ? 1U : 2U); }
  /// Each process has sent its messages, and has received one from each process of the other nodes.
  bool done() const;
  const std::string& trouble() const { return trouble_; }  ///< empty: none
  RankCount count() const;

 private:
  struct Process {
    PdHandle pd = 0;
    std::unique_ptr<CompletionQueue> cq;
    Bytes memory;  ///< the message that it sends, then one receive slot for each sender
    MemoryRegion region{};
    SharedReceiveQueue* srq = nullptr;
    xrc::Node::Member* member = nullptr;
    std::set<std::uint32_t> heard;  ///< ranks that it has heard from
  };
  struct Line {
    cm::Id id;
    std::uint32_t process = 0, peer_node = 0;
    bool up = false, posted = false;
  };
  struct Question {
    cm::Id id;
    std::uint32_t node = 0, process = 0;
  };

  RankNode(cm::Manager& cm, RankOptions options) : cm_(cm), device_(cm.device()), options_(std::move(options)) {}
  std::uint32_t elsewhere() const;
  /// The receive slot for messages from that process.
  std::uint32_t place_of(std::uint32_t node, std::uint32_t process) const;
  Address own_address() const;
  Result<void> make_process(std::uint32_t number);
  Result<void> make_service(Instant now);
  Result<void> add_line(std::uint32_t process, std::uint32_t node, std::uint32_t peer);
  Result<void> ask_queues(std::uint32_t node);
  void on_request(const cm::ConnectRequest& request);
  void on_answer(std::uint64_t question, const cm::Event& event);
  void post(Line& line);
  void post_when_ready();
  void fail(std::string what);
  QpInit init_of(const Process& process) const;
  Result<void> post_receive(Process& process, std::uint32_t place, QueuePair* qp);
  Result<void> send(Process& process, QueuePair& qp, std::uint32_t srqn);
  void complete(Process& process, const WorkCompletion& done);

  cm::Manager& cm_;
  Device& device_;
  RankOptions options_;
  std::vector<Process> processes_;
  std::unique_ptr<xrc::Node> node_;                                         // XRC
  std::unique_ptr<xrc::Service> service_;                                   // XRC
  cm::Id listener_;                                                         // RC
  std::map<std::uint64_t, Line> lines_;                                     // by the id's number
  std::map<std::uint64_t, Question> questions_;                             // by the id's number
  std::map<std::uint32_t, std::map<std::uint32_t, std::uint32_t>> queues_;  // queue numbers by node and process
  std::size_t listening_ = 0, sent_ = 0;
  std::string trouble_;
};

}  // namespace parley::sim
