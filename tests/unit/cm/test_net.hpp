// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A network of hosts in virtual time, for tests of everything above the stream seam: connections with delay, any
// segmentation, narrow windows, FIN and RST at any moment, silence, and raw peers that say whatever a test wants.
#pragma once
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/pump.hpp"
#include "cm/providers/iwarp/iwarp.hpp"
#include "parley/cm.hpp"
#include "tests/unit/cm/event_log.hpp"
#include "tests/unit/verbs_kit.hpp"

namespace parley::testing_net {

using namespace std::chrono_literals;

struct NetOptions {
  Duration delay = 10us;
  std::size_t segment = 0;       // longest piece delivered at once; 0: as written
  std::uint64_t seed = 0;        // not 0: pieces of random length up to `segment` (or 64)
  std::size_t window = 1 << 20;  // octets under way in one direction
};

class Net;
class Host;

/// One end of a connection: a host's stream, or raw (host == nullptr) and then in the test's hand.
struct End {
  Net* net = nullptr;
  Host* host = nullptr;
  StreamId id = 0;
  End* other = nullptr;
  StreamInfo info;
  bool closed = false;  // the owner forgot it
  bool fin_out = false;
  bool blocked = false;
  std::size_t in_flight = 0;
  // What a raw end has seen.
  Bytes in;
  bool fin_in = false, rst_in = false, up = false;

  void send(ConstBytes octets);
  void fin();
  void rst();
  bool closed_by_peer() const { return fin_in || rst_in; }
};

class Host final : public StreamMover, public parley::test::EventLog {
 public:
  Host(Net& net, Address address, const cm::IwarpProviderOptions& options, const cm::ManagerOptions& manager)
      : net_(net), ip(address), provider(cm::make_iwarp_provider(options)), cm(*provider, manager) {
    provider->set_mover(this);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  /// Commands, deadlines, output; then events into `events`. True if anything happened.
  bool turn();

  // StreamMover.
  std::unique_ptr<LooseStream> detach(StreamId stream) override;
  Result<StreamId> attach(std::unique_ptr<LooseStream>& stream) override;

  // Port of base/pump.hpp.
  void carry_out(const StreamCommand& command);
  void write(StreamId stream);

 private:
  friend class Net;
  Net& net_;

 public:
  Address ip;
  std::unique_ptr<cm::IwarpProvider> provider;
  cm::Manager cm;
  std::function<void(cm::ConnectRequest&)> on_request;  // empty: the test decides
  bool poll_events = true;

 private:
  std::map<StreamId, End*> ends_;
  std::map<std::uint16_t, StreamId> listening_;
  StreamId serial_ = 0;
  std::uint16_t next_port_ = 40000;
};

class Net {
 public:
  explicit Net(NetOptions net_options = {}) : options(net_options) {}

  Host& add_host(std::uint8_t last_octet, const cm::IwarpProviderOptions& provider = {},
                 const cm::ManagerOptions& manager = {}) {
    hosts_.push_back(std::make_unique<Host>(*this, Address::v4(192, 0, 2, last_octet, 0), provider, manager));
    return *hosts_.back();
  }
  /// A raw peer that listens; connections to it appear in raw_accepted.
  Address add_raw(std::uint8_t last_octet, std::uint16_t port = 7471) {
    raw_.push_back(Address::v4(192, 0, 2, last_octet, port));
    return raw_.back();
  }
  /// Nobody answers there, not even with a RST.
  void black_hole(const Address& address) { holes_.push_back(address); }
  /// A raw peer connects to a host.
  End& raw_connect(const Address& to, Address from = Address::v4(192, 0, 2, 250, 0)) {
    End& raw = new_end(nullptr);
    from.port = next_raw_port_++;
    raw.info = {.local = from, .peer = to, .emss = options.emss()};
    begin_connect(raw, to);
    return raw;
  }

  /// Runs until the condition holds; false when nothing is left to happen or `limit` of virtual time has passed.
  template <class Condition>
  bool run_until(Condition condition, Duration limit = 60s) {
    const Instant end = now + limit;
    for (;;) {
      turns();
      if (condition()) return true;
      Instant next = items_.empty() ? never : items_.begin()->first.first;
      for (const auto& host : hosts_) next = std::min(next, host->provider->next_deadline());
      if (next == never || next > end) {
        now = next == never ? now : end;
        return false;
      }
      now = std::max(now, next);
      deliver_due();
    }
  }
  void run_for(Duration time) {
    const Instant end = now + time;
    (void)run_until([] { return false; }, time);
    now = std::max(now, end);
    turns();
  }
  void settle() {
    (void)run_until([] { return false; }, 1ms);
  }

  struct Opts : NetOptions {
    Opts(NetOptions o) : NetOptions(o) {}
    std::uint16_t emss() const { return 1460; }
  };
  Opts options;
  Instant now{1s};
  std::errc refusal = std::errc::connection_refused;  ///< what a host is told where nobody listens
  std::vector<End*> raw_accepted;
  bool partitioned = false;                               // nothing arrives while set; what was sent is lost
  std::function<void(End& from, ConstBytes octets)> spy;  // sees what hosts send

 private:
  friend struct End;
  friend class Host;
  enum class What { bytes, fin, rst, accept, connected, refused };
  struct Item {
    End* to = nullptr;
    What what = What::bytes;
    Bytes octets{};
    Address address{};
  };

  End& new_end(Host* host) {
    ends_.push_back(std::make_unique<End>());
    ends_.back()->net = this;
    ends_.back()->host = host;
    return *ends_.back();
  }
  void post(Duration after, Item item) { items_.emplace(std::pair{now + after, ++order_}, std::move(item)); }
  void turns() {
    for (bool again = true; again;) {
      again = false;
      for (const auto& host : hosts_) again = host->turn() || again;
    }
  }
  std::uint64_t random() {  // splitmix64
    std::uint64_t z = (options.seed += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  void transmit(End& from, ConstBytes octets) {
    from.in_flight += octets.size();
    while (!octets.empty()) {
      std::size_t n = options.segment != 0 ? options.segment : octets.size();
      if (options.seed != 0) n = 1 + random() % (options.segment != 0 ? options.segment : 64);
      n = std::min(n, octets.size());
      post(options.delay,
           {from.other, What::bytes, Bytes(octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(n))});
      octets = octets.subspan(n);
    }
  }
  void begin_connect(End& from, const Address& to) {
    if (std::find(holes_.begin(), holes_.end(), to) != holes_.end()) return;
    post(options.delay, {&from, What::accept, {}, to});
  }
  void deliver_due() {
    while (!items_.empty() && items_.begin()->first.first <= now) {
      Item item = std::move(items_.begin()->second);
      items_.erase(items_.begin());
      if (!partitioned) deliver(item);
    }
  }
  inline void deliver(Item& item);
  inline void accept(End& from, const Address& to);

  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<End>> ends_;
  std::vector<Address> raw_, holes_;
  std::multimap<std::pair<Instant, std::uint64_t>, Item> items_;
  std::uint64_t order_ = 0;
  std::uint16_t next_raw_port_ = 50000;
};

inline void End::send(ConstBytes octets) { net->transmit(*this, octets); }
inline void End::fin() {
  fin_out = true;
  net->post(net->options.delay, {other, Net::What::fin});
}
inline void End::rst() {
  closed = true;
  net->post(net->options.delay, {other, Net::What::rst});
}

inline void Net::accept(End& from, const Address& to) {
  for (const Address& raw : raw_) {
    if (raw != to) continue;
    End& end = new_end(nullptr);
    end.info = {.local = to, .peer = from.info.local, .emss = options.emss()};
    end.up = true;
    end.other = &from;
    from.other = &end;
    raw_accepted.push_back(&end);
    post(options.delay, {&from, What::connected});
    return;
  }
  for (const auto& host : hosts_) {
    if (host->ip.octets != to.octets || !host->listening_.contains(to.port)) continue;
    End& end = new_end(host.get());
    end.info = {.local = to, .peer = from.info.local, .emss = options.emss()};
    end.id = host->serial_ += 2;
    end.other = &from;
    from.other = &end;
    host->ends_[end.id] = &end;
    post(options.delay, {&from, What::connected});
    if (!host->provider->handle_accepted(now, host->listening_[to.port], end.id, end.info)) {
      host->ends_.erase(end.id);
      end.rst();
    }
    pump(*host->provider, *host);
    return;
  }
  post(options.delay, {&from, What::refused});
}

inline void Net::deliver(Item& item) {
  End& to = *item.to;
  if (item.what == What::accept) return accept(to, item.address);
  if (item.what == What::bytes) {
    End& from = *to.other;
    from.in_flight -= item.octets.size();
    if (from.blocked && from.host != nullptr && !from.closed) {
      from.blocked = false;
      from.host->write(from.id);
    }
  }
  if (to.closed) {  // as a kernel does: octets for a forgotten socket are answered by a RST
    if (item.what == What::bytes && !to.other->closed) post(options.delay, {to.other, What::rst});
    return;
  }
  if (to.host == nullptr) {
    if (item.what == What::bytes) to.in.insert(to.in.end(), item.octets.begin(), item.octets.end());
    to.fin_in = to.fin_in || item.what == What::fin;
    to.rst_in = to.rst_in || item.what == What::rst || item.what == What::refused;
    to.up = to.up || item.what == What::connected;
    return;
  }
  Host& host = *to.host;
  switch (item.what) {
    case What::bytes: host.provider->handle_bytes(now, to.id, item.octets); break;
    case What::fin: host.provider->handle_end(now, to.id, StreamEnd::fin); break;
    case What::rst:
      to.closed = true;
      host.ends_.erase(to.id);
      host.provider->handle_end(now, to.id, StreamEnd::rst);
      break;
    case What::connected: host.provider->handle_connected(now, to.id, to.info); break;
    case What::refused:
      to.closed = true;
      host.ends_.erase(to.id);
      host.provider->handle_connect_failed(now, to.id, std::make_error_code(refusal));
      break;
    case What::accept: break;
  }
  pump(*host.provider, host);
}

inline bool Host::turn() {
  provider->handle_deadline(net_.now);
  bool any = pump(*provider, *this);
  while (poll_events) {
    auto event = cm.poll_event();
    if (!event) break;
    any = true;
    if (auto* request = std::get_if<cm::ConnectRequest>(&*event); request != nullptr && on_request)
      on_request(*request);
    events.push_back(std::move(*event));
  }
  return any;
}

inline void Host::carry_out(const StreamCommand& command) {
  using Kind = StreamCommand::Kind;
  if (command.kind == Kind::listen) {
    Address local = command.address;
    if (local.port == 0) local.port = next_port_++;
    if (listening_.contains(local.port)) {
      provider->handle_listen_failed(net_.now, command.id, std::make_error_code(std::errc::address_in_use));
      return;
    }
    local.octets = ip.octets;
    listening_[local.port] = command.id;
    provider->handle_listening(net_.now, command.id, local);
    return;
  }
  if (command.kind == Kind::open) {
    End& end = net_.new_end(this);
    end.id = command.id;
    end.info = {.local = ip, .peer = command.address, .emss = net_.options.emss()};
    end.info.local.port = next_port_++;
    ends_[command.id] = &end;
    net_.begin_connect(end, command.address);
    return;
  }
  for (auto at = listening_.begin(); at != listening_.end(); ++at) {
    if (at->second != command.id) continue;
    listening_.erase(at);
    return;
  }
  const auto at = ends_.find(command.id);
  if (at == ends_.end()) return;
  End& end = *at->second;
  if (command.kind == Kind::pause || command.kind == Kind::resume) return;
  if (command.kind == Kind::reset) {
    if (end.other != nullptr) end.rst();
  } else if (!end.fin_out) {
    end.fin();
  }
  if (command.kind == Kind::shutdown) return;
  end.closed = true;
  ends_.erase(at);
  if (command.kind == Kind::finish) provider->handle_end(net_.now, command.id, StreamEnd::delivered);
}

inline void Host::write(StreamId stream) {
  const auto at = ends_.find(stream);
  if (at == ends_.end() || at->second->blocked) return;
  End& end = *at->second;
  std::array<ConstBytes, 8> pieces;
  for (;;) {
    const std::size_t count = provider->gather(stream, pieces);
    if (count == 0) return;
    Bytes octets;
    for (std::size_t i = 0; i < count; ++i) octets.insert(octets.end(), pieces[i].begin(), pieces[i].end());
    const std::size_t room = net_.options.window - std::min(net_.options.window, end.in_flight);
    if (room == 0) {
      end.blocked = true;
      return;
    }
    octets.resize(std::min(octets.size(), room));
    if (net_.spy) net_.spy(end, octets);
    net_.transmit(end, octets);
    provider->sent(net_.now, stream, octets.size());
  }
}

/// Between two hosts the end is raw: it keeps what comes.
struct LooseEnd final : LooseStream {
  ~LooseEnd() override {
    if (end != nullptr && !end->closed && !end->rst_in) end->rst();
  }
  End* end = nullptr;
};

inline std::unique_ptr<LooseStream> Host::detach(StreamId stream) {
  const auto at = ends_.find(stream);
  if (at == ends_.end()) return nullptr;
  auto loose = std::make_unique<LooseEnd>();
  loose->end = at->second;
  loose->end->host = nullptr;
  ends_.erase(at);
  return loose;
}

inline Result<StreamId> Host::attach(std::unique_ptr<LooseStream>& stream) {
  auto* loose = dynamic_cast<LooseEnd*>(stream.get());
  if (loose == nullptr) return fail(Errc::unsupported, "another network's");
  End& end = *std::exchange(loose->end, nullptr);
  stream.reset();
  end.host = this;
  end.id = serial_ += 2;
  ends_[end.id] = &end;
  if (Bytes kept = std::exchange(end.in, {}); !kept.empty()) {
    end.other->in_flight += kept.size();
    net_.post({}, {&end, Net::What::bytes, std::move(kept)});
  }
  if (end.fin_in) net_.post({}, {&end, Net::What::fin});
  if (end.rst_in) net_.post({}, {&end, Net::What::rst});
  return end.id;
}

}  // namespace parley::testing_net
