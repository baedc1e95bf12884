// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The C library compared with the C++ interface: the same work on the same sockets. One thread, two ends, loopback.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <stdexcept>
#include <string>

#include "bench/harness.hpp"
#include "parley/parley.h"
#include "parley/tcp_host.hpp"

namespace parley::bench {
namespace {

constexpr std::uint32_t message = 64;  // octets

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}
int must(int rc) {
  if (rc < 0) throw std::runtime_error(parley_last_error());
  return rc;
}

/// One end, with the C++ interface.
class CppEnd {
 public:
  CppEnd() : host_(must(TcpHost::open())), pd_(must(device().alloc_pd())), cq_(must(device().create_cq(256))) {
    region_ = must(device().reg_mr(pd_, memory_, Access::local_write));
  }
  ~CppEnd() { id_.destroy(); }
  CppEnd(const CppEnd&) = delete;
  CppEnd& operator=(const CppEnd&) = delete;
  Device& device() { return host_->device(); }
  QpInit qp() { return {.pd = pd_, .send_cq = cq_.get(), .recv_cq = cq_.get()}; }

  void listen() { (void)must(host_->cm().listen(Address::loopback(Address::Family::v4, 0))); }
  std::string address() const { return at_; }
  void connect(const std::string& peer) {
    id_ = must(host_->cm().connect(must(Address::parse(peer)),
                                   {.transport = mpa::Options{.rtr = mpa::Rtr::read}, .qp = qp()}));
  }
  void receive() {
    const Sge piece{region_.addr, message, region_.lkey};
    must(id_.qp()->post_recv({.sges = {&piece, 1}}));
  }
  void send() {
    const Sge piece{region_.addr + message, message, region_.lkey};
    must(id_.qp()->post_send({.sges = {&piece, 1}, .signaled = false}));
  }
  void turn() { (void)host_->run_once(Duration{}); }
  void events() {
    while (auto event = host_->cm().poll_event()) {
      if (auto* listening = std::get_if<cm::Listening>(&*event)) at_ = listening->local.to_string();
      if (std::holds_alternative<cm::Established>(*event)) up = true;
      if (std::holds_alternative<cm::Disconnected>(*event)) down = true;
      if (auto* request = std::get_if<cm::ConnectRequest>(&*event)) {
        id_ = request->id;
        must(id_.accept({.qp = qp()}));
      }
    }
  }
  std::size_t completions() {
    std::array<WorkCompletion, 16> done;
    return cq_->poll(done);
  }
  void disconnect() { must(id_.disconnect()); }
  void destroy() {
    id_.destroy();
    up = down = false;
  }
  bool up = false, down = false;

 private:
  std::unique_ptr<TcpHost> host_;
  PdHandle pd_;
  std::unique_ptr<CompletionQueue> cq_;
  Bytes memory_ = Bytes(2 * message);
  MemoryRegion region_;
  cm::Id id_;
  std::string at_;
};

/// One end, with the C library.
class CEnd {
 public:
  CEnd() {
    must(parley_open(&ctx_, nullptr));
    must(parley_reg_mr(ctx_, memory_.data(), memory_.size(), PARLEY_ACCESS_LOCAL_WRITE, &region_));
  }
  ~CEnd() { parley_close(ctx_); }
  CEnd(const CEnd&) = delete;
  CEnd& operator=(const CEnd&) = delete;

  void listen() {
    parley_id listener = 0;
    must(parley_listen(ctx_, "127.0.0.1:0", nullptr, &listener));
  }
  std::string address() const { return at_; }
  void connect(const std::string& peer) { must(parley_connect(ctx_, peer.c_str(), nullptr, &id_)); }
  void receive() {
    const parley_sge piece{region_.addr, message, region_.lkey};
    const parley_recv_wr wr{sizeof wr, 1, 0, &piece};
    must(parley_post_recv(ctx_, id_, &wr));
  }
  void send() {
    const parley_sge piece{region_.addr + message, message, region_.lkey};
    parley_send_wr wr = PARLEY_SEND_WR_INIT;
    wr.opcode = PARLEY_SEND;
    wr.flags = PARLEY_SEND_UNSIGNALED;
    wr.sges = &piece;
    wr.num_sge = 1;
    must(parley_post_send(ctx_, id_, &wr));
  }
  void turn() { must(parley_progress(ctx_)); }
  void events() {
    while (must(parley_next_event(ctx_, &event_)) == 1) {
      if (event_.type == PARLEY_EVENT_LISTENING) at_ = event_.local;
      if (event_.type == PARLEY_EVENT_ESTABLISHED) up = true;
      if (event_.type == PARLEY_EVENT_DISCONNECTED) down = true;
      if (event_.type == PARLEY_EVENT_CONNECT_REQUEST) must(parley_accept(ctx_, id_ = event_.id, nullptr));
    }
  }
  std::size_t completions() {
    std::array<parley_wc, 16> done;
    return static_cast<std::size_t>(must(parley_poll_cq(ctx_, 0, done.data(), done.size(), sizeof done[0])));
  }
  void disconnect() { must(parley_disconnect(ctx_, id_)); }
  void destroy() {
    must(parley_destroy(ctx_, id_));
    up = down = false;
  }
  bool up = false, down = false;

 private:
  parley_ctx* ctx_ = nullptr;
  Bytes memory_ = Bytes(2 * message);
  parley_mr region_ = PARLEY_MR_INIT;
  parley_id id_ = 0;
  parley_event event_ = PARLEY_EVENT_INIT;  // initialized once, as in the loop of docs/c.md
  std::string at_;
};

template <class End>
class Pair {
 public:
  Pair() {
    server_.listen();
    until([&] { return !server_.address().empty(); });
  }
  void set_up() {
    client_.connect(server_.address());
    until([&] { return client_.up && server_.up; });
  }
  void tear_down() {
    client_.disconnect();
    until([&] { return client_.down && server_.down; });
    client_.destroy();
    server_.destroy();
    (void)client_.completions();
    (void)server_.completions();
  }
  Sample set_ups(double seconds) {
    return measure(seconds, 20, [&] {
      set_up();
      tear_down();
    });
  }
  Sample round_trips(double seconds) {
    set_up();
    const Sample sample = measure(seconds, 500, [&] {
      client_.receive();
      server_.receive();
      client_.send();
      await(server_);
      server_.send();
      await(client_);
    });
    tear_down();
    return sample;
  }

 private:
  template <class Work>
  static Sample measure(double seconds, int batch, Work work) {
    const Stopwatch watch;
    double count = 0;
    do {
      for (int i = 0; i < batch; ++i) work();
      count += batch;
    } while (watch.wall_s() < seconds);
    return watch.stop(count);
  }
  void await(End& end) {
    while (end.completions() == 0) {
      client_.turn();
      server_.turn();
    }
  }
  template <class Condition>
  void until(Condition condition) {
    while (!condition()) {
      client_.turn();
      server_.turn();
      client_.events();
      server_.events();
    }
  }
  End server_, client_;
};

int run(int argc, char** argv) {
  const auto settings = parse_settings(argc, argv, "capi_bench: the C library beside the C++ interface");
  if (!settings) return 2;
  Report report("capi_bench", *settings);
  report.section("two ends on one thread, loopback; the same work by either interface");
  Pair<CEnd> c;
  Pair<CppEnd> cpp;
  const auto row = [&](const char* what, auto work) {
    const auto samples = alternate(
        {{"C", [&] { return work(c, settings->seconds); }}, {"C++", [&] { return work(cpp, settings->seconds); }}},
        settings->rounds);
    report.add({.what = what,
                .unit = "us",
                .figure = 1e6 / median_of(samples[0], Reading::per_cpu_second),
                .limit_name = "C++",
                .limit = 1e6 / median_of(samples[1], Reading::per_cpu_second),
                .ratio = median_ratio(samples[1], samples[0], Reading::per_second),
                .cpu_ratio = median_ratio(samples[1], samples[0], Reading::per_cpu_second),
                .goal_kind = Row::Goal::ratio_at_most,
                .goal = 1.03});
  };
  if (settings->wants("messages"))
    row("a message of 64 octets there and back", [](auto& pair, double s) { return pair.round_trips(s); });
  if (settings->wants("connections"))
    row("a connection set up and closed", [](auto& pair, double s) { return pair.set_ups(s); });
  return report.finish();
}

}  // namespace
}  // namespace parley::bench

int main(int argc, char** argv) { return parley::bench::guarded("capi_bench", parley::bench::run, argc, argv); }
