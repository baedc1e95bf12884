// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A network of stream machines in virtual time, for tests of neg::Peers: delay, pieces of any length, silence, FIN and
// RST when a test wants, and a scripted machine that says and hears plain octets.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "base/pump.hpp"
#include "cm/neg/peers.hpp"
#include "tests/unit/cm/neg_kit.hpp"

namespace parley::neg::kit {

using namespace std::chrono_literals;

/// Hears and says what a test wants; it listens where it is told.
class Plain : public StreamMachine {
 public:
  std::function<void(StreamId, ConstBytes)> on_bytes = [](StreamId, ConstBytes) {};
  std::function<void(StreamId)> on_up = [](StreamId) {};
  bool takes = true;
  std::vector<StreamId> up;
  std::map<StreamId, Bytes> heard;
  std::vector<StreamId> fins, resets;

  void listen(const Address& at) { push({.kind = StreamCommand::Kind::listen, .id = 1, .address = at}); }
  StreamId connect(const Address& to) {
    push({.kind = StreamCommand::Kind::open, .id = serial_ += 2, .address = to});
    return serial_;
  }
  void say(StreamId stream, ConstBytes octets) {
    Bytes& out = out_[stream];
    out.insert(out.end(), octets.begin(), octets.end());
    ready_.push_back(stream);
  }
  void end(StreamId stream, StreamCommand::Kind how) { push({.kind = how, .id = stream}); }

  void handle_listening(Instant, StreamId, const Address&) override {}
  void handle_listen_failed(Instant, StreamId, std::error_code) override {}
  void handle_connected(Instant, StreamId stream, const StreamInfo&) override {
    up.push_back(stream);
    on_up(stream);
  }
  void handle_connect_failed(Instant, StreamId stream, std::error_code) override { resets.push_back(stream); }
  bool handle_accepted(Instant, StreamId, StreamId stream, const StreamInfo&) override {
    if (!takes) return false;
    up.push_back(stream);
    on_up(stream);
    return true;
  }
  void handle_bytes(Instant, StreamId stream, ConstBytes in) override {
    Bytes& all = heard[stream];
    all.insert(all.end(), in.begin(), in.end());
    on_bytes(stream, in);
  }
  void handle_end(Instant, StreamId stream, StreamEnd end) override {
    (end == StreamEnd::fin ? fins : resets).push_back(stream);
  }
  void handle_deadline(Instant) override {}
  bool poll_command(StreamCommand& out) override {
    // What is said before an end leaves before it.
    if (commands_.empty() || !ready_.empty()) return false;
    out = commands_.front();
    commands_.pop_front();
    return true;
  }
  StreamId poll_ready() override {
    if (ready_.empty()) return 0;
    const StreamId stream = ready_.front();
    ready_.pop_front();
    return stream;
  }
  std::size_t gather(StreamId stream, std::span<ConstBytes> out) override {
    if (out_[stream].empty()) return 0;
    out[0] = out_[stream];
    return 1;
  }
  void sent(Instant, StreamId stream, std::size_t n) override {
    Bytes& out = out_[stream];
    out.erase(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(n));
  }
  Instant next_deadline() const override { return never; }

 private:
  void push(const StreamCommand& command) { commands_.push_back(command); }
  std::deque<StreamCommand> commands_;
  std::deque<StreamId> ready_;
  std::map<StreamId, Bytes> out_;
  StreamId serial_ = 1;
};

class Net {
 public:
  Instant now{};
  Duration delay = 1ms;
  std::size_t segment = 1 << 20;            ///< longest piece that is delivered at once
  std::size_t cut_after = ~std::size_t{0};  ///< octets from all hosts until every connection that stands is reset
  std::size_t carried = 0;
  std::function<void(const Address& from, const Address& to, ConstBytes)> spy;

  void add(StreamMachine& machine, const Address& at) {
    hosts_.emplace_back(std::make_unique<Host>(Host{*this, machine, at}));
  }
  void black_hole(const Address& at) { holes_.push_back(at); }
  std::size_t opened = 0;  ///< connections begun

  /// Until `done`, or nothing is left to happen, or the time is over.
  bool run_until(const std::function<bool()>& done, Duration longest = 1h) {
    const Instant limit = now + longest;
    for (;;) {
      for (bool again = true; again;) {
        again = false;
        for (const auto& host : hosts_) again = pump(host->machine, *host) || again;
      }
      if (done()) return true;
      Instant next = items_.empty() ? never : items_.begin()->first.first;
      for (const auto& host : hosts_) next = std::min(next, host->machine.next_deadline());
      if (next == never || next > limit) return false;
      now = std::max(now, next);
      while (!items_.empty() && items_.begin()->first.first <= now) {
        auto what = std::move(items_.begin()->second);
        items_.erase(items_.begin());
        what();
      }
      for (const auto& host : hosts_) host->machine.handle_deadline(now);
    }
  }
  void settle() {
    run_until([] { return false; });
  }

 private:
  struct Host;
  struct End {
    Host* host = nullptr;
    StreamId id = 0;
    End* other = nullptr;
    StreamInfo info{};
    bool closed = false, fin_out = false;
  };
  struct Host {
    Net& net;
    StreamMachine& machine;
    Address at;
    std::map<StreamId, End*> ends{};
    std::map<std::uint16_t, StreamId> listening{};
    StreamId serial = 0;
    std::uint16_t port = 40000;

    void carry_out(const StreamCommand& command) { net.carry_out(*this, command); }
    void write(StreamId stream) { net.write(*this, stream); }
  };

  void later(std::function<void()> what) { items_.emplace(std::pair{now + delay, ++order_}, std::move(what)); }
  End& new_end(Host& host, StreamId id, const StreamInfo& info) {
    ends_.push_back(std::make_unique<End>(End{&host, id, nullptr, info}));
    host.ends[id] = ends_.back().get();
    return *ends_.back();
  }
  Host* host_of(const Address& to) {
    for (const auto& host : hosts_)
      if (host->at.octets == to.octets && host->at.family == to.family && host->listening.contains(to.port))
        return host.get();
    return nullptr;
  }
  void reset_at(End* end) {
    later([end, this] {
      if (std::exchange(end->closed, true)) return;
      end->host->machine.handle_end(now, end->id, StreamEnd::rst);
    });
  }
  void carry_out(Host& host, const StreamCommand& command) {
    using Kind = StreamCommand::Kind;
    if (command.kind == Kind::listen) {
      Address local = host.at;
      local.port = command.address.port;
      if (host.listening.contains(local.port))
        return host.machine.handle_listen_failed(now, command.id, std::make_error_code(std::errc::address_in_use));
      host.listening[local.port] = command.id;
      return host.machine.handle_listening(now, command.id, local);
    }
    if (command.kind == Kind::open) return begin(host, command);
    std::erase_if(host.listening, [&](const auto& at) { return at.second == command.id; });
    const auto at = host.ends.find(command.id);
    if (at == host.ends.end() || at->second->closed) return;
    End* end = at->second;
    if (command.kind == Kind::reset || command.kind == Kind::close) end->closed = true;
    End* other = end->other;
    if (other == nullptr) return;
    if (command.kind == Kind::reset) return reset_at(other);
    if (std::exchange(end->fin_out, true)) return;
    later([other, this] {
      if (!other->closed) other->host->machine.handle_end(now, other->id, StreamEnd::fin);
    });
  }
  void begin(Host& host, const StreamCommand& command) {
    ++opened;
    Address local = host.at;
    local.port = host.port++;
    End& mine = new_end(host, command.id, {.local = local, .peer = command.address});
    if (std::find(holes_.begin(), holes_.end(), command.address) != holes_.end()) return;
    later([&mine, this] {
      if (mine.closed) return;
      Host* peer = host_of(mine.info.peer);
      const auto refuse = [&mine, this] {
        later([&mine, this] {
          if (!std::exchange(mine.closed, true))
            mine.host->machine.handle_connect_failed(now, mine.id, std::make_error_code(std::errc::connection_refused));
        });
      };
      if (peer == nullptr) return refuse();
      End& theirs = new_end(*peer, peer->serial += 2, {.local = mine.info.peer, .peer = mine.info.local});
      theirs.other = &mine;
      mine.other = &theirs;
      later([&mine, this] {
        if (!mine.closed) mine.host->machine.handle_connected(now, mine.id, mine.info);
      });
      if (!peer->machine.handle_accepted(now, peer->listening[mine.info.peer.port], theirs.id, theirs.info)) {
        theirs.closed = true;
        reset_at(&mine);
      }
    });
  }
  void write(Host& host, StreamId stream) {
    const auto at = host.ends.find(stream);
    if (at == host.ends.end() || at->second->closed || at->second->other == nullptr) return;
    End* other = at->second->other;
    std::array<ConstBytes, 4> pieces;
    while (host.machine.gather(stream, pieces) > 0) {
      const ConstBytes piece = pieces[0].first(std::min(pieces[0].size(), segment));
      const Bytes octets(piece.begin(), piece.end());
      if (spy) spy(at->second->info.local, at->second->info.peer, octets);
      host.machine.sent(now, stream, octets.size());
      if (carried + octets.size() > cut_after) {
        reset_at(at->second);
        reset_at(other);
        return;
      }
      carried += octets.size();
      later([other, octets, this] {
        if (!other->closed) other->host->machine.handle_bytes(now, other->id, octets);
      });
    }
  }

  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<End>> ends_;
  std::vector<Address> holes_;
  std::multimap<std::pair<Instant, std::uint64_t>, std::function<void()>> items_;
  std::uint64_t order_ = 0;
};

/// A plug-in of variants that play what a test says.
struct ScriptedPlugin : Plugin {
  std::function<Scripted::Play(Role)> plays = [](Role role) {
    return one_message(role == Role::initiator ? "a" : "b");
  };
  std::shared_ptr<Scripted::Log> log = std::make_shared<Scripted::Log>();
  bool done_stage = true;
  int made = 0;
  std::string id() const override { return "acme"; }
  std::string version() const override { return "1"; }
  std::vector<VariantInfo> variants() const override { return {{.id = "rc"}, {.id = "ud"}}; }
  Outcome<std::unique_ptr<Variant>> make(std::string_view, Role role, const Config&) override {
    ++made;
    return std::make_unique<Scripted>(plays(role), log, done_stage);
  }
};

}  // namespace parley::neg::kit
