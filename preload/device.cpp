// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The device list with its one device; opening and closing the device; its attributes.
#include <arpa/inet.h>
#include <endian.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include <fmt/format.h>

#include "base/gid.hpp"
#include "drivers/asio/gid_addresses.hpp"
#include "drivers/clock.hpp"
#include "drivers/secure_env.hpp"
#include "preload/link_layer.hpp"
#include "preload/objects.hpp"
#include "preload/places.hpp"

namespace parley::preload {

namespace {

constexpr char device_name[] = "parley0";
// A locally administered OUI, which is assigned to no vendor (IEEE 802 §8.2).
constexpr std::uint32_t vendor_id = 0x025041, vendor_part_id = 1;
constexpr int comp_vectors = 8;
constexpr Duration child_patience = std::chrono::seconds(1);  // on a busy machine a forked child may start this late

void put(char* to, std::size_t room, std::string_view text) {
  const std::size_t n = std::min(room - 1, text.size());
  std::copy_n(text.begin(), n, to);
  to[n] = '\0';
}

ibv_device& the_device() {
  static ibv_device device = [] {
    ibv_device made{};
    made.node_type = IBV_NODE_CA;
    made.transport_type = IBV_TRANSPORT_IB;
    put(made.name, sizeof made.name, device_name);
    put(made.dev_name, sizeof made.dev_name, "uverbs0");
    put(made.dev_path, sizeof made.dev_path, "/sys/class/infiniband_verbs/uverbs0");
    put(made.ibdev_path, sizeof made.ibdev_path, "/sys/class/infiniband/parley0");
    return made;
  }();
  return device;
}

/// A recorder for the file that PARLEY_VERBS_PCAPNG names; null: the variable is unset or empty.
Result<std::unique_ptr<Recorder>> recording() {
  const char* const path = secure_env("PARLEY_VERBS_PCAPNG");
  if (path == nullptr || *path == '\0') return nullptr;
  auto made = Recorder::create(path);
  if (!made) return fail(Errc::io, "the file that PARLEY_VERBS_PCAPNG names cannot be created (errno {a})", errno);
  return made;
}

/// The engine of the process. It ends with its last user.
struct Running {
  std::mutex opening;  // held while an engine opens or closes: its addresses are free before they are bound again
  std::weak_ptr<Engine> engine;
  std::shared_ptr<Engine> forks;  // the engine, while a thread forks
  bool forked = false;  // forked while an engine was open: the child may not yet have closed its copies of the sockets
};

Running& running() {
  static auto* const one = new Running;  // never deleted: threads may use it until the process ends
  return *one;
}

void stop_at_exit() {
  if (const auto engine = running().engine.lock()) engine->stop();
}

void before_fork() {
  running().opening.lock();
  running().forks = running().engine.lock();
  if (running().forks) running().forks->before_fork();
}

void after_fork_in_parent() {
  if (running().forks) {
    running().forks->after_fork(false);
    running().forked = true;
  }
  running().forks.reset();
  running().opening.unlock();
}

// The engine is never destroyed in the child: its thread does not exist there and cannot be joined. The next
// ibv_open_device makes a new engine.
void after_fork_in_child() {
  alignas(std::shared_ptr<Engine>) static std::byte kept[sizeof(std::shared_ptr<Engine>)];
  if (running().forks) {
    running().forks->after_fork(true);
    new (kept) std::shared_ptr<Engine>(std::move(running().forks));
  }
  running().engine.reset();
  running().forked = false;
  running().opening.unlock();
}

Result<std::unique_ptr<Engine>> open_engine(const std::vector<Address>& addresses) {
  auto recorder = recording();
  if (!recorder) return tl::unexpected(recorder.error());
  auto port = PortMember::join(addresses);
  if (!port) return tl::unexpected(port.error());
  return Engine::open(addresses, std::move(*recorder), std::move(*port));
}

/// Which of the addresses no interface has, if that is the error.
Error with_place(const Error& error, const std::vector<Address>& addresses) {
  if (error.code() != std::errc::address_not_available) return error;
  const auto absent = std::find_if_not(addresses.begin(), addresses.end(), asio_driver::can_be_bound);
  if (absent == addresses.end()) return error;
  return {Errc::bad_address, "no interface that is up has the address of GID {a}", absent - addresses.begin()};
}

bool has_gid(ibv_context* context, std::uint32_t port, std::uint32_t index) {
  return port == 1 && index < of(context).engine->gids();
}

/// The largest path MTU that fits into an IP packet of `octets` octets with all headers (IBA Annex A17).
ibv_mtu mtu_of(std::uint32_t octets) {
  constexpr std::uint32_t headers = 40 + 8 + PARLEY_IB_BTH_LEN + 28 + 4 + PARLEY_IB_ICRC_LEN;
  int code = IBV_MTU_4096;
  while (code > IBV_MTU_256 && (128U << code) + headers > octets) --code;
  return static_cast<ibv_mtu>(code);
}

void fill(const DeviceAttr& of, ibv_device_attr& to) {
  put(to.fw_ver, sizeof to.fw_ver, "parley");
  to.node_guid = to.sys_image_guid = htobe64(device_guid());
  to.vendor_id = vendor_id;
  to.vendor_part_id = vendor_part_id;
  to.hw_ver = 1;
  to.max_mr_size = ~std::uint64_t{0};
  to.page_size_cap = 0xFFFFF000;
  to.max_qp = to.max_srq = to.max_ah = 1 << 16;
  to.max_cq = 1 << 16;
  to.max_mr = static_cast<int>(std::min<std::uint32_t>(of.max_mr, INT32_MAX));
  to.max_mw = static_cast<int>(std::min<std::uint32_t>(of.max_mw, INT32_MAX));
  to.max_pd = static_cast<int>(std::min<std::uint32_t>(of.max_pd, INT32_MAX));
  to.max_cqe = static_cast<int>(of.max_cqe);
  to.max_qp_wr = static_cast<int>(of.max_qp_wr);
  to.max_srq_wr = static_cast<int>(of.max_srq_wr);
  to.max_sge = to.max_srq_sge = static_cast<int>(of.max_sge);
  to.max_sge_rd = static_cast<int>(of.max_sge_rd);
  to.max_qp_rd_atom = static_cast<int>(of.max_qp_rd_atom);
  to.max_qp_init_rd_atom = static_cast<int>(of.max_qp_init_rd_atom);
  to.max_res_rd_atom = to.max_qp_rd_atom * 256;
  to.atomic_cap = IBV_ATOMIC_HCA;
  to.max_mcast_grp = to.max_mcast_qp_attach = 64;
  to.max_total_mcast_qp_attach = 64;
  to.max_pkeys = 1;
  to.phys_port_cnt = 1;
  to.device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_CURR_QP_STATE_MOD;
  if (of.xrc) to.device_cap_flags |= IBV_DEVICE_XRC;
  if (of.max_mw > 0) to.device_cap_flags |= IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
}

/// Copies the first `size` octets: a program that was built with older headers has a shorter structure.
template <class T>
void give(const T& all, void* out, std::size_t size) {
  std::memset(out, 0, size);
  std::memcpy(out, &all, std::min(size, sizeof all));
}

}  // namespace

Result<std::shared_ptr<Engine>> engine() {
  static const int registered =
      std::atexit(stop_at_exit) | ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  (void)registered;
  const std::scoped_lock hold(running().opening);
  if (auto there = running().engine.lock()) return there;
  const auto addresses = places();
  if (!addresses) return tl::unexpected(addresses.error());
  if (const std::string why = why_no_link_layer(addresses->front()); !why.empty()) {
    print_line("ibv_open_device", why);
    return fail(Errc::bad_address, "the port cannot be shown with this link layer");
  }
  auto made = open_engine(*addresses);
  const Instant end = clock_now() + child_patience;
  while (!made && made.error() == Errc::address_in_use && running().forked && clock_now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    made = open_engine(*addresses);
  }
  if (!made) return tl::unexpected(with_place(made.error(), *addresses));
  running().forked = false;
  std::shared_ptr<Engine> shared(std::move(*made));
  running().engine = shared;
  return shared;
}

void release(std::shared_ptr<Engine> engine) {
  const std::scoped_lock hold(running().opening);
  engine.reset();
}

ibv_mtu active_mtu(const Engine& engine) {
  ibv_mtu most = IBV_MTU_4096;
  for (std::size_t i = 0; i < engine.gids(); ++i)
    most = std::min(most, mtu_of(interface_mtu(interface_index(engine.address(i)))));
  return most;
}

Context::Context() : verbs_context{} {
  sz = sizeof(verbs_context);
  query_port = preload::query_port;
  query_device_ex = preload::query_device_ex;
  create_qp_ex = preload::create_qp_ex;
  set_data_path(*this);
  set_xrc(*this);
  set_domains(*this);
  set_extended_cq(*this);
  context.device = &the_device();
  context.cmd_fd = -1;
  context.async_fd = bell.fd();
  context.num_comp_vectors = comp_vectors;  // no interrupts, so that all vectors are the same
  ::pthread_mutex_init(&context.mutex, nullptr);
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
}

Context::~Context() {
  if (engine) engine->remove(this);
  ::pthread_mutex_destroy(&context.mutex);
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* out, std::size_t size) {
  if (port != 1) return refused("ibv_query_port", EINVAL, "the device has one port, which is 1");
  ibv_port_attr attr{};
  attr.state = IBV_PORT_ACTIVE;
  attr.max_mtu = IBV_MTU_4096;
  attr.active_mtu = active_mtu(*of(context).engine);
  attr.gid_tbl_len = static_cast<int>(of(context).engine->gids());
  attr.port_cap_flags = IBV_PORT_CM_SUP;
  attr.max_msg_sz = 1U << 31;
  attr.pkey_tbl_len = 1;
  attr.max_vl_num = 1;
  attr.active_width = 1;   // 1X
  attr.active_speed = 32;  // EDR, 25 Gb/s per lane; nominal, the sockets have no rate
  attr.phys_state = 5;     // LinkUp
  attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  if (shows_infiniband()) {
    attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
    attr.lid = asio_driver::lid_of(of(context).engine->address(0));
  }
  give(attr, out, size);
  return 0;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* out,
                    std::size_t size) {
  if (!is_own(context)) return refused("ibv_query_device_ex", EPERM, Engine::not_own);
  if (input != nullptr && input->comp_mask != 0) return refused("ibv_query_device_ex", EINVAL, "no input is known");
  ibv_device_attr_ex attr{};
  fill(with(context, [](Device& device) { return device.query(); }), attr.orig_attr);
  attr.phys_port_cnt_ex = 1;
  attr.completion_timestamp_mask = ~std::uint64_t{0};
  attr.hca_core_clock = 1000000;  // kHz; a tick is a nanosecond
  attr.device_cap_flags_ex = attr.orig_attr.device_cap_flags;
  give(attr, out, size);
  return 0;
}

}  // namespace parley::preload

using namespace parley::preload;  // NOLINT: the functions below are libibverbs' and have no namespace
using parley::Gid;

PARLEY_VERB ibv_device** ibv_get_device_list(int* count) {
  if (count != nullptr) *count = 1;
  return new ibv_device* [2] { &the_device(), nullptr };
}

PARLEY_VERB void ibv_free_device_list(ibv_device** list) { delete[] list; }
PARLEY_VERB const char* ibv_get_device_name(ibv_device* device) { return device->name; }
PARLEY_VERB __be64 ibv_get_device_guid(ibv_device*) { return htobe64(device_guid()); }
PARLEY_VERB int ibv_get_device_index(ibv_device*) { return 0; }

PARLEY_VERB ibv_context* ibv_open_device(ibv_device*) {
  auto opened = engine();
  if (!opened) {  // report the reason: programs report only that the call failed
    const char* const where = parley::secure_env("PARLEY_VERBS_ADDRESS");
    print_line(fmt::format("ibv_open_device at {}", where == nullptr ? "the addresses of all interfaces" : where),
               words_of(opened.error()));
    return none<ibv_context>("ibv_open_device", opened.error());
  }
  auto* const made = new Context;
  made->engine = std::move(*opened);
  made->engine->add(made);
  return &made->context;
}

PARLEY_VERB int ibv_close_device(ibv_context* context) {
  const std::scoped_lock hold(running().opening);
  delete &of(context);
  return 0;
}

PARLEY_VERB ibv_context* ibv_import_device(int) {
  return none<ibv_context>("ibv_import_device", EOPNOTSUPP, "the device is this process's alone");
}

// libibverbs' own functions would call the context's driver, which does not exist.
PARLEY_VERB ibv_pd* ibv_import_pd(ibv_context*, std::uint32_t) {
  return none<ibv_pd>("ibv_import_pd", EOPNOTSUPP, "the device is this process's alone");
}
PARLEY_VERB ibv_mr* ibv_import_mr(ibv_pd*, std::uint32_t) {
  return none<ibv_mr>("ibv_import_mr", EOPNOTSUPP, "the device is this process's alone");
}
PARLEY_VERB ibv_dm* ibv_import_dm(ibv_context*, std::uint32_t) {
  return none<ibv_dm>("ibv_import_dm", EOPNOTSUPP, "the device is this process's alone");
}
PARLEY_VERB void ibv_unimport_pd(ibv_pd*) {}
PARLEY_VERB void ibv_unimport_mr(ibv_mr*) {}
PARLEY_VERB void ibv_unimport_dm(ibv_dm*) {}

PARLEY_VERB int ibv_query_device(ibv_context* context, ibv_device_attr* out) {
  *out = {};
  if (!is_own(context)) return refused("ibv_query_device", EPERM, Engine::not_own);
  fill(with(context, [](parley::Device& device) { return device.query(); }), *out);
  return 0;
}

#undef ibv_query_port
PARLEY_VERB int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* out) {
  // This symbol is defined to fill the structure only up to link_layer.
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(out), offsetof(ibv_port_attr, flags));
}

PARLEY_VERB int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* out) {
  if (index < 0 || !has_gid(context, port, static_cast<std::uint32_t>(index))) {
    errno = EINVAL;
    return -1;
  }
  const Gid gid = parley::gid_of(of(context).engine->address(static_cast<std::size_t>(index)));
  std::copy(gid.begin(), gid.end(), out->raw);
  return 0;
}

PARLEY_VERB int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index, ibv_gid_entry* out,
                                  std::uint32_t flags, std::size_t size) {
  if (flags != 0 || !has_gid(context, port, index)) return refused("ibv_query_gid_ex", EINVAL, "there is no such GID");
  ibv_gid_entry entry{};
  (void)ibv_query_gid(context, static_cast<std::uint8_t>(port), static_cast<int>(index), &entry.gid);
  entry.gid_index = index;
  entry.port_num = port;
  entry.gid_type = shows_infiniband() ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2;
  if (!shows_infiniband()) entry.ndev_ifindex = interface_index(of(context).engine->address(index));
  give(entry, out, size);
  return 0;
}

PARLEY_VERB ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* out, std::size_t most,
                                         std::uint32_t flags, std::size_t size) {
  const std::size_t n = of(context).engine->gids();
  if (flags != 0 || most < n) return -refused("ibv_query_gid_table", EINVAL, "there is no room for all GIDs");
  for (std::uint32_t i = 0; i < n; ++i)
    (void)_ibv_query_gid_ex(context, 1, i, reinterpret_cast<ibv_gid_entry*>(reinterpret_cast<char*>(out) + i * size), 0,
                            size);
  return static_cast<ssize_t>(n);
}

/// Private function of libibverbs, which ibv_devinfo uses. Type 0 is InfiniBand or RoCE v1, type 1 is RoCE v2.
PARLEY_VERB int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned int index, int* type) {
  if (!has_gid(context, port, index)) return refused("ibv_query_gid_type", EINVAL, "there is no such GID");
  *type = shows_infiniband() ? 0 : 1;
  return 0;
}

PARLEY_VERB int ibv_query_pkey(ibv_context*, std::uint8_t port, int index, __be16* out) {
  if (port != 1 || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *out = htons(PARLEY_IB_P_KEY_DEFAULT);
  return 0;
}

PARLEY_VERB int ibv_get_pkey_index(ibv_context*, std::uint8_t port, __be16 pkey) {
  if (port == 1 && ntohs(pkey) == PARLEY_IB_P_KEY_DEFAULT) return 0;
  errno = EINVAL;
  return -1;
}

PARLEY_VERB int ibv_fork_init() { return 0; }
PARLEY_VERB ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }
