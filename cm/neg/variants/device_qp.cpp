// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/neg/variants/device_qp.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "base/gid.hpp"
#include "cm/neg/guarded.hpp"
#include "cm/neg/variants/manual_driver.hpp"

namespace parley::neg {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t test_max = 64;         // octets of a test message
constexpr std::size_t length_max = 1 << 30;  // of the memory that is registered
constexpr std::size_t datagram_max = 4096;   // octets of the longest path MTU
constexpr std::size_t whole_page = 4096;
constexpr std::uint32_t play_sends = 128, play_receives = 512, test_depth = 8;
constexpr std::uint64_t test_receives = 4;  // of UD: datagrams of others may come first
constexpr std::uint8_t hop_limit = 64;
constexpr Duration look_time = 5ms;    // how long receive_test() waits: other sessions wait as long
constexpr int looks_before_again = 8;  // UC and UD: the test message may be lost

tl::unexpected<Failure> not_registered(const Error& why) {
  return device_failed("memory", why,
                       why == Errc::no_space ? "raise the limit of locked memory (ulimit -l), or use less" : "");
}

/// The peer's access to the memory: what the test needs, or everything that the transport has.
Access rights_of(const Config& config, Transport transport) {
  const std::string needed = text_in(config, access_parameter);
  if (needed == "none" || number_of(config, "length") == 0) return Access::none;
  if (needed == "write") return Access::remote_write;
  if (needed == "read") return Access::remote_read;
  if (transport == Transport::rc || transport == Transport::xrc) return Access::remote_write | Access::remote_read;
  return transport == Transport::uc ? Access::remote_write : Access::none;
}

/// Memory of whole pages.
class Pages {
 public:
  explicit Pages(std::size_t octets) : octets_((octets + whole_page - 1) / whole_page * whole_page) {
    if (octets_ == 0) return;
    at_.reset(static_cast<std::uint8_t*>(::operator new (octets_, std::align_val_t{whole_page}, std::nothrow)));
    if (at_) std::memset(at_.get(), 0, octets_);
  }
  bool ok() const { return octets_ == 0 || at_; }
  MutBytes all() const { return {at_.get(), octets_}; }

 private:
  struct Free {
    void operator()(std::uint8_t* at) const { ::operator delete (at, std::align_val_t{whole_page}); }
  };
  std::size_t octets_;
  std::unique_ptr<std::uint8_t, Free> at_;
};

class DeviceQp final : public QpDriver, public DataPath {
 public:
  DeviceQp(std::unique_ptr<QpEnvironment> environment, const DeviceQpOptions& options, const Config& config);
  ~DeviceQp() override;
  DeviceQp(const DeviceQp&) = delete;
  DeviceQp& operator=(const DeviceQp&) = delete;

  Outcome<QpAttributes> open() override;
  std::string where() const override { return where_; }
  Outcome<void> to_rtr(const QpPair& pair) override;
  Outcome<void> to_rts(const QpPair& pair) override;
  bool can_test() const override { return true; }
  Outcome<void> expect_test() override;
  Outcome<void> send_test(ConstBytes message) override;
  Outcome<std::optional<Bytes>> receive_test() override;

  DataPath* path() override { return length_ == 0 ? nullptr : this; }
  MutBytes memory() override { return memory_.all().first(length_); }
  std::size_t send_depth() const override { return sends_; }
  std::size_t receive_depth() const override { return receives_; }
  Outcome<void> post_receive(std::size_t at, std::size_t length) override;
  Outcome<void> post(SendWr::Opcode opcode, std::size_t at, std::size_t length) override;
  std::size_t poll(std::span<WorkCompletion> out) override;

 private:
  bool ud() const { return transport_ == Transport::ud; }
  bool xrc() const { return transport_ == Transport::xrc; }
  bool reliable() const { return transport_ == Transport::rc || xrc(); }
  QueuePair& sender() { return xrc() ? *ini_ : *qp_; }
  Outcome<void> make_objects();
  Outcome<void> make_ends_of_xrc();
  Outcome<void> modify_both(const QpAttr& sending, const QpAttr& receiving, std::string_view what);
  Outcome<void> receive(const RecvWr& wr, std::string_view what);
  Outcome<void> register_memory();
  std::size_t test_slot() const { return grh_len + (ud() ? datagram_max : test_max); }
  Outcome<void> post_test();
  Outcome<void> post_test_receive(std::uint64_t slot);
  Outcome<void> send_from(const MemoryRegion& region, SendWr::Opcode opcode, std::size_t at, std::size_t length);
  AhAttr path_to(const QpAttributes& peer) const;

  std::unique_ptr<QpEnvironment> environment_;
  Transport transport_;
  std::uint8_t port_, gid_index_;
  std::string where_;
  std::size_t length_;
  Access rights_;
  Pages memory_, test_;
  QpAttributes own_, peer_;
  std::uint32_t sends_, receives_;
  PdHandle pd_ = 0;
  std::optional<MemoryRegion> region_, test_region_;
  std::unique_ptr<CompletionQueue> cq_;
  QueuePair* qp_ = nullptr;  // XRC: the receiving end
  std::unique_ptr<XrcDomain> xrcd_;
  std::unique_ptr<SharedReceiveQueue> srq_;  // XRC
  std::unique_ptr<QueuePair> ini_;           // XRC: the sending end
  std::unique_ptr<AddressHandle> ah_;
  Bytes test_message_;
  int looks_ = 0;
};

DeviceQp::DeviceQp(std::unique_ptr<QpEnvironment> environment, const DeviceQpOptions& options, const Config& config)
    : environment_(std::move(environment)),
      transport_(options.transport),
      port_(options.port),
      gid_index_(options.gid_index),
      where_(options.where),
      length_(number_of(config, "length")),
      rights_(rights_of(config, options.transport)),
      memory_(length_),
      test_(test_max + test_receives * test_slot()),
      own_(options.own) {
  own_.mtu = std::min(static_cast<std::uint32_t>(number_of(config, "mtu")), options.own.mtu);
  own_.psn = static_cast<std::uint32_t>(number_of(config, "psn"));
  if (own_.psn == 0) own_.psn = options.random & 0xFFFFFF;
  const DeviceAttr attr = environment_->device().query();
  const auto at_most = [&](std::string_view name, std::uint32_t limit) {
    return static_cast<std::uint8_t>(std::min<std::uint64_t>({number_of(config, name), limit, 255}));
  };
  own_.ird = at_most("ird", attr.max_qp_rd_atom);
  own_.ord = at_most("ord", attr.max_qp_init_rd_atom);
  own_.qkey = static_cast<std::uint32_t>(number_of(config, "qkey"));
  if (own_.qkey == 0) own_.qkey = qkey_of_programs;
  sends_ = std::min(length_ != 0 ? play_sends : test_depth, attr.max_qp_wr);
  receives_ = std::min(length_ != 0 ? play_receives : test_depth, attr.max_qp_wr);
}

DeviceQp::~DeviceQp() {
  ah_.reset();
  if (qp_ != nullptr) environment_->drop_qp();
  ini_.reset();
  srq_.reset();
  xrcd_.reset();
  cq_.reset();
  for (const auto& region : {region_, test_region_})
    if (region) (void)environment_->device().dereg_mr(region->lkey);
  if (pd_ != 0) (void)environment_->device().dealloc_pd(pd_);
}

Outcome<void> DeviceQp::register_memory() {
  if (!memory_.ok() || !test_.ok())
    return failed(Problem::resource_exhaustion, fmt::format("no memory of {} octets", length_));
  auto test = environment_->device().reg_mr(pd_, test_.all(), Access::local_write);
  if (!test) return not_registered(test.error());
  test_region_ = *test;
  if (length_ == 0) return {};
  auto region = environment_->device().reg_mr(pd_, memory(), Access::local_write | rights_);
  if (!region) return not_registered(region.error());
  region_ = *region;
  own_.rkey = region_->rkey;
  own_.vaddr = region_->addr;
  own_.length = length_;
  return {};
}

Outcome<void> DeviceQp::make_objects() {
  auto pd = environment_->device().alloc_pd();
  if (!pd) return device_failed("protection domain", pd.error());
  pd_ = *pd;
  if (auto registered = register_memory(); !registered) return registered;
  auto cq = environment_->device().create_cq(sends_ + receives_);
  if (!cq) return device_failed("completion queue", cq.error());
  cq_ = std::move(*cq);
  if (xrc()) return make_ends_of_xrc();
  const QpType type = ud() ? QpType::ud : reliable() ? QpType::rc : QpType::uc;
  auto qp = environment_->make_qp({.type = type,
                                   .pd = pd_,
                                   .send_cq = cq_.get(),
                                   .recv_cq = cq_.get(),
                                   .max_send_wr = sends_,
                                   .max_recv_wr = receives_});
  if (!qp) return device_failed(fmt::format("a queue pair of {}", to_string(transport_)), qp.error());
  qp_ = *qp;
  own_.qpn = qp_->qp_num();
  return {};
}

// IBA Annex A14: requests of the sending end name the peer's shared receive queue. The receiving end has no queues.
Outcome<void> DeviceQp::make_ends_of_xrc() {
  auto domain = environment_->device().open_xrcd();
  if (!domain) return device_failed("an XRC domain", domain.error());
  xrcd_ = std::move(*domain);
  auto srq =
      environment_->device().create_srq({.pd = pd_, .capacity = receives_, .xrcd = xrcd_.get(), .cq = cq_.get()});
  if (!srq) return device_failed("an XRC shared receive queue", srq.error());
  srq_ = std::move(*srq);
  own_.srqn = srq_->srq_num().value_or(0);
  auto ini = environment_->device().create_qp(
      {.type = QpType::xrc_ini, .pd = pd_, .send_cq = cq_.get(), .max_send_wr = sends_});
  if (!ini) return device_failed("a queue pair of XRC that sends", ini.error());
  ini_ = std::move(*ini);
  own_.ini_qpn = ini_->qp_num();
  auto tgt = environment_->make_qp({.type = QpType::xrc_tgt, .xrcd = xrcd_.get()});
  if (!tgt) return device_failed("a queue pair of XRC that receives", tgt.error());
  qp_ = *tgt;
  own_.qpn = qp_->qp_num();
  return {};
}

// Modifies the sending end and, for XRC, the receiving end.
Outcome<void> DeviceQp::modify_both(const QpAttr& sending, const QpAttr& receiving, std::string_view what) {
  if (auto moved = sender().modify(sending); !moved) return device_failed(what, moved.error());
  if (!xrc()) return {};
  if (auto moved = qp_->modify(receiving); !moved) return device_failed(what, moved.error());
  return {};
}

Outcome<QpAttributes> DeviceQp::open() {
  if (auto made = make_objects(); !made) return tl::unexpected(made.error());
  if (environment_->connects()) return own_;
  QpAttr attr{.state = QpState::init, .pkey_index = std::uint16_t{0}, .port_num = port_};
  if (ud())
    attr.qkey = own_.qkey;
  else
    attr.access = rights_;
  if (auto moved = modify_both(attr, attr, "to INIT"); !moved) return tl::unexpected(moved.error());
  return own_;
}

AhAttr DeviceQp::path_to(const QpAttributes& peer) const {
  AhAttr out{.dlid = peer.lid, .port_num = port_};
  if (peer.has_gid()) out.grh = GlobalRoute{.dgid = peer.gid, .sgid_index = gid_index_, .hop_limit = hop_limit};
  return out;
}

Outcome<void> DeviceQp::to_rtr(const QpPair& pair) {
  peer_ = pair.peer;
  if (environment_->connects()) return {};
  if (auto reached = environment_->reach(path_to(peer_)); !reached) return reached;
  QpAttr attr{.state = QpState::rtr};
  if (ud()) {
    auto ah = environment_->device().create_ah(pd_, path_to(peer_));
    if (!ah) return device_failed("an address handle of the peer's GID", ah.error());
    ah_ = std::move(*ah);
  } else {
    attr.ah = path_to(peer_);
    attr.path_mtu = static_cast<Mtu>(std::countr_zero(pair.mtu) - 7);
    attr.dest_qp_num = peer_.qpn;
    attr.rq_psn = peer_.psn;
  }
  QpAttr answering = attr;
  answering.dest_qp_num = peer_.ini_qpn;
  answering.max_dest_rd_atomic = pair.ird;
  answering.min_rnr_timer = std::uint8_t{12};
  if (transport_ == Transport::rc) {
    attr.max_dest_rd_atomic = answering.max_dest_rd_atomic;
    attr.min_rnr_timer = answering.min_rnr_timer;
  }
  return modify_both(attr, answering, "to RTR");
}

Outcome<void> DeviceQp::to_rts(const QpPair& pair) {
  if (environment_->connects()) return {};
  QpAttr attr{.state = QpState::rts, .sq_psn = own_.psn};
  QpAttr answering = attr;
  answering.timeout = std::uint8_t{14};
  if (reliable()) {
    attr.timeout = answering.timeout;
    attr.retry_cnt = std::uint8_t{7};
    attr.rnr_retry = std::uint8_t{7};
    attr.max_rd_atomic = pair.ord;
  }
  return modify_both(attr, answering, "to RTS");
}

Outcome<void> DeviceQp::receive(const RecvWr& wr, std::string_view what) {
  if (auto posted = xrc() ? srq_->post_recv(wr) : qp_->post_recv(wr); !posted)
    return device_failed(what, posted.error());
  return {};
}

Outcome<void> DeviceQp::expect_test() {
  for (std::uint64_t slot = 0; slot < (ud() ? test_receives : 1); ++slot)
    if (auto posted = post_test_receive(slot); !posted) return posted;
  return {};
}

Outcome<void> DeviceQp::post_test_receive(std::uint64_t slot) {
  const Sge sge{.addr = test_region_->addr + test_max + slot * test_slot(),
                .length = static_cast<std::uint32_t>(test_slot()),
                .lkey = test_region_->lkey};
  return receive({.wr_id = slot, .sges = {&sge, 1}}, "the receive of the test message");
}

Outcome<void> DeviceQp::send_test(ConstBytes message) {
  test_message_.assign(message.begin(), message.end());
  return post_test();
}

Outcome<void> DeviceQp::post_test() {
  if (test_message_.size() > test_max)
    return failed(Problem::serialization_failure, "the test message is longer than its memory");
  std::copy(test_message_.begin(), test_message_.end(), test_.all().begin());
  return send_from(*test_region_, SendWr::Opcode::send, 0, test_message_.size());
}

Outcome<std::optional<Bytes>> DeviceQp::receive_test() {
  const Instant end = environment_->now() + look_time;
  do {
    WorkCompletion done;
    if (poll({&done, 1}) == 0) {
      environment_->work(std::max(end - environment_->now(), Duration{}));
      continue;
    }
    const bool receive = done.opcode == WcOpcode::recv;
    if (done.status != WcStatus::success)
      return failed(Problem::vendor_library_error,
                    fmt::format("the test message {}: {}", receive ? "did not come in" : "did not arrive",
                                to_string(done.status)),
                    "check GIDs, path MTU and that nothing on the path drops RoCE's UDP port 4791");
    if (!receive) continue;
    const std::size_t before = ud() ? grh_len : 0;
    const ConstBytes came = test_.all().subspan(test_max + done.wr_id * test_slot(), done.byte_len);
    if (came.size() < before)
      return failed(Problem::vendor_library_error, "a datagram came without its global route header");
    Bytes out(came.begin() + static_cast<std::ptrdiff_t>(before), came.end());
    // The datagram may be from another sender: then the peer's is still to come.
    if (ud())
      if (auto again = post_test_receive(done.wr_id); !again) return tl::unexpected(again.error());
    return out;
  } while (environment_->now() < end);
  if (!reliable() && !test_message_.empty() && ++looks_ % looks_before_again == 0)
    if (auto again = post_test(); !again) return tl::unexpected(again.error());
  return std::nullopt;
}

Outcome<void> DeviceQp::send_from(const MemoryRegion& region, SendWr::Opcode opcode, std::size_t at,
                                  std::size_t length) {
  const Sge sge{.addr = region.addr + at, .length = static_cast<std::uint32_t>(length), .lkey = region.lkey};
  SendWr wr{.opcode = opcode, .sges = {&sge, 1}};
  if (ud()) {
    wr.ah = ah_.get();
    wr.remote_qp_num = peer_.qpn;
    wr.remote_qkey = peer_.qkey;
  } else if (opcode != SendWr::Opcode::send) {
    wr.remote_addr = peer_.vaddr;
    wr.rkey = peer_.rkey;
  }
  if (xrc()) wr.remote_srq_num = peer_.srqn;
  if (auto posted = sender().post_send(wr); !posted) return device_failed(to_string(opcode), posted.error());
  return {};
}

Outcome<void> DeviceQp::post_receive(std::size_t at, std::size_t length) {
  const Sge sge{.addr = region_->addr + at, .length = static_cast<std::uint32_t>(length), .lkey = region_->lkey};
  return receive({.wr_id = 0, .sges = {&sge, 1}}, "a receive");
}

Outcome<void> DeviceQp::post(SendWr::Opcode opcode, std::size_t at, std::size_t length) {
  return send_from(*region_, opcode, at, length);
}

std::size_t DeviceQp::poll(std::span<WorkCompletion> out) {
  environment_->work({});
  return cq_->poll(out);
}

}  // namespace

tl::unexpected<Failure> device_failed(std::string_view what, const Error& why, std::string advice) {
  return failed(why == Errc::no_space ? Problem::resource_exhaustion : Problem::vendor_library_error,
                fmt::format("{}: {}", what, why.message()), std::move(advice));
}

Outcome<void> check_device_qp(const Config& config) {
  if (number_of(config, "length") > length_max)
    return failed(Problem::configuration_error, fmt::format("'length': more than {} octets", length_max));
  return {};
}

Outcome<std::unique_ptr<QpDriver>> make_device_qp(std::unique_ptr<QpEnvironment> environment,
                                                  const DeviceQpOptions& options, const Config& config) {
  if (auto sane = check_device_qp(config); !sane) return tl::unexpected(sane.error());
  return std::make_unique<DeviceQp>(std::move(environment), options, config);
}

Outcome<std::optional<Address>> toward_of(const Config& config) {
  const std::string toward = text_in(config, toward_parameter);
  if (toward.empty()) return std::nullopt;
  const auto parsed = Address::parse(toward);
  if (!parsed)
    return failed(Problem::configuration_error, fmt::format("'toward': '{}' cannot be", toward.substr(0, 60)),
                  "write the peer's IPv4 or IPv6 address");
  return *parsed;
}

std::vector<Parameter> device_parameters(std::string_view driver) {
  using Kind = Parameter::Kind;
  return {
      {.name = std::string(toward_parameter),
       .help = fmt::format("{}: the IP address to choose the GID for; otherwise the peer's", driver)},
      {.name = "psn",
       .kind = Kind::number,
       .help = fmt::format("first packet sequence number; of {} 0: a random one", driver),
       .otherwise = "0",
       .most = 0xFFFFFF},
      {.name = "qkey",
       .kind = Kind::number,
       .help = fmt::format("Q_Key, of UD; of {} 0: 0x11111111", driver),
       .otherwise = "0",
       .most = 0xFFFFFFFF},
      {.name = "length",
       .kind = Kind::number,
       .help = fmt::format("length of memory; {}: so much is registered and advertised to the peer", driver),
       .otherwise = "0"},
  };
}

}  // namespace parley::neg
