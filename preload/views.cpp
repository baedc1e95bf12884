// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "preload/views.hpp"

#include <net/if.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/gid.hpp"
#include "drivers/asio/gid_addresses.hpp"
#include "drivers/private_folder.hpp"
#include "drivers/secure_env.hpp"
#include "preload/link_layer.hpp"
#include "preload/objects.hpp"
#include "preload/places.hpp"

namespace parley::preload {

namespace {

/// A view of `prefix` itself and, under /sys, of all paths below it.
struct View {
  std::string_view prefix;
  const char* device = nullptr;  // the path to use instead; null: the same path inside the folder
};
// /dev/null: programs check that uverbs0 is a character device, but only libibverbs opens it.
constexpr View views[] = {{"/sys/class/infiniband"},
                          {"/sys/class/infiniband_verbs"},
                          {"/dev/infiniband/uverbs0", "/dev/null"},
                          {"/dev/infiniband/"},
                          {"/dev/infiniband"}};
constexpr std::string_view device = "/sys/devices/virtual/parley", classes = "/sys/class";

const View* view_of(std::string_view path) {
  for (const View& view : views) {
    const bool whole = path.size() == view.prefix.size();
    if (!path.starts_with(view.prefix) || (!whole && view.prefix.starts_with("/dev"))) continue;
    if (whole || path[view.prefix.size()] == '/') return &view;
  }
  return nullptr;
}

/// "0002:c903:0000:1490"
std::string grouped(const std::uint8_t* octets, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; i += 2)
    out += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", octets[i], octets[i + 1]);
  return out;
}

std::string guid_text() {
  std::uint8_t octets[8];
  for (int i = 0; i < 8; ++i) octets[i] = static_cast<std::uint8_t>(device_guid() >> (56 - 8 * i));
  return grouped(octets, sizeof octets);
}

// The same values as ibv_query_port() returns.
void put_port(const PrivateFolder& folder, const std::string& port, const std::vector<Address>& addresses) {
  const bool infiniband = shows_infiniband();
  const std::string lid = fmt::format("0x{:x}", infiniband ? asio_driver::lid_of(addresses.front()) : 0);
  for (const auto& [name, text] : {std::pair{"state", "4: ACTIVE"},
                                   {"phys_state", "5: LinkUp"},
                                   {"link_layer", infiniband ? "InfiniBand" : "Ethernet"},
                                   {"rate", "25 Gb/sec (1X EDR)"},
                                   {"cap_mask", "0x00010000"},
                                   {"lid", lid.c_str()},
                                   {"lid_mask_count", "0"},
                                   {"sm_lid", "0x0"},
                                   {"sm_sl", "0"},
                                   {"pkeys/0", "0xffff"}})
    folder.put(port + name, text);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const Gid gid = gid_of(addresses[i]);
    folder.put(fmt::format("{}gids/{}", port, i), grouped(gid.data(), gid.size()));
    folder.put(fmt::format("{}gid_attrs/types/{}", port, i), infiniband ? "IB/RoCE v1" : "RoCE v2");
    if (infiniband) continue;
    char name[IF_NAMESIZE] = "";
    (void)::if_indextoname(interface_index(addresses[i]), name);
    folder.put(fmt::format("{}gid_attrs/ndevs/{}", port, i), name);
    if (*name != '\0') folder.link(fmt::format("{}/net/{}", device, name), fmt::format("/sys/class/net/{}", name));
  }
}

std::unique_ptr<PrivateFolder> make() {
  auto addresses = places();
  if (!addresses) return nullptr;
  auto folder = PrivateFolder::create("parley-verbs-");
  if (!folder) {
    note("the files of the device", "no folder for them can be created in the temporary folder (TMPDIR)");
    return nullptr;
  }
  const std::string of(device), of_class(classes);
  const std::string hca = of + "/infiniband/parley0/", node = of + "/infiniband_verbs/uverbs0/";
  for (const auto& [name, text] : {std::pair{"node_type", "1: CA"},
                                   {"fw_ver", "parley"},
                                   {"hw_rev", "1"},
                                   {"hca_type", "parley"},
                                   {"node_desc", "parley0"}})
    folder->put(hca + name, text);
  folder->put(hca + "node_guid", guid_text());
  folder->put(hca + "sys_image_guid", guid_text());
  std::vector<Address> distinct;  // in the same order as Engine's GID table
  for (const Address& address : *addresses)
    if (std::find(distinct.begin(), distinct.end(), address) == distinct.end()) distinct.push_back(address);
  put_port(*folder, hca + "ports/1/", distinct);
  folder->put(node + "ibdev", "parley0");
  folder->put(node + "abi_version", "1");
  folder->put(of + "/vendor", "0x0000");
  folder->put(of + "/device", "0x0000");
  folder->put(of + "/numa_node", "-1");
  for (const std::string& part : {hca, node}) folder->link(part + "device", "../..");
  folder->link(of_class + "/infiniband/parley0", "../../devices/virtual/parley/infiniband/parley0");
  folder->link(of_class + "/infiniband_verbs/uverbs0", "../../devices/virtual/parley/infiniband_verbs/uverbs0");
  const bool whole = folder->put(of_class + "/infiniband_verbs/abi_version", "6");
  folder->link("/dev/infiniband/uverbs0", "/dev/null");
  if (!whole) note("the files of the device", "the temporary folder (TMPDIR) has no space for them");
  return folder;
}

/// The folder of this process.
struct ViewFolder {
  std::mutex lock;
  std::unique_ptr<PrivateFolder> folder;
  bool tried = false;
};
ViewFolder& made() {
  static auto* const one = new ViewFolder;  // never deleted: threads may use it until the process ends
  return *one;
}
void remove_folder() {
  const std::scoped_lock hold(made().lock);
  made().folder.reset();
  made().tried = true;
}
void views_before_fork() { made().lock.lock(); }
void views_after_fork_in_parent() { made().lock.unlock(); }
// The folder belongs to the parent, which removes it.
void views_after_fork_in_child() {
  if (made().folder) made().folder->leave_to_parent();
  made().folder.reset();
  made().tried = false;
  made().lock.unlock();
}

std::optional<std::string> folder_path() {
  static const int registered =
      std::atexit(remove_folder) |
      ::pthread_atfork(views_before_fork, views_after_fork_in_parent, views_after_fork_in_child);
  (void)registered;
  const std::scoped_lock hold(made().lock);
  if (!made().tried) {
    made().tried = true;
    made().folder = make();
  }
  if (!made().folder) return std::nullopt;
  return made().folder->path();
}

}  // namespace

bool is_view(std::string_view path) { return view_of(path) != nullptr; }

const char* viewed(const char* path, std::string& kept) {
  // Most paths return here, without allocating memory.
  const View* const view = path == nullptr ? nullptr : view_of(path);
  if (view == nullptr || has_more_rights()) return path;
  if (view->device != nullptr) return view->device;
  const auto folder = folder_path();
  if (!folder) return path;
  kept = *folder + path;
  return kept.c_str();
}

}  // namespace parley::preload
