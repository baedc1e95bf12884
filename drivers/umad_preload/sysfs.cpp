// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/umad_preload/sysfs.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "wire/mad/smp.hpp"

namespace parley::umad {

namespace {

using wire::mad::NodeInfo;
using wire::mad::PortInfo;

constexpr std::string_view infiniband = "/sys/class/infiniband/", mads = "/sys/class/infiniband_mad";
constexpr const char* device = "parley0";

/// "0002:c903:0000:1490"
std::string grouped(ConstBytes octets) {
  std::string out;
  for (std::size_t i = 0; i < octets.size(); i += 2)
    out += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", octets[i], octets[i + 1]);
  return out;
}

std::string state_text(const PortInfo& info) {
  constexpr const char* names[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
  const auto state = static_cast<unsigned>(info.get(PortInfo::port_state));
  return fmt::format("{}: {}", state, state < std::size(names) ? names[state] : "<unknown>");
}

std::string physical_text(const PortInfo& info) {
  constexpr const char* names[] = {
      "", "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp", "LinkErrorRecovery", "Phy Test"};
  const auto state = static_cast<unsigned>(info.get(PortInfo::port_physical_state));
  return fmt::format("{}: {}", state, state >= 1 && state < std::size(names) ? names[state] : "<unknown>");
}

/// "40 Gb/sec (4X QDR)"
std::string rate_text(const PortInfo& info) {
  const unsigned width = info.get(PortInfo::link_width_active);
  const unsigned lanes = width == 8 ? 12 : width == 4 ? 8 : width == 2 ? 4 : width == 16 ? 2 : 1;
  const unsigned speed = info.get(PortInfo::link_speed_active), extended = info.get(PortInfo::link_speed_ext_active);
  struct Row {
    unsigned bit, tenths;
    const char* name;
  };
  constexpr Row extended_rows[] = {{1, 140, " FDR"}, {2, 250, " EDR"}, {4, 500, " HDR"}, {8, 1000, " NDR"}};
  constexpr Row rows[] = {{1, 25, ""}, {2, 50, " DDR"}, {4, 100, " QDR"}};
  Row found = rows[0];
  for (const Row& row : rows)
    if (row.bit == speed) found = row;
  for (const Row& row : extended_rows)
    if (row.bit == extended) found = row;
  const unsigned tenths = found.tenths * lanes;
  return fmt::format("{}{} Gb/sec ({}X{})", tenths / 10, tenths % 10 == 0 ? "" : ".5", lanes, found.name);
}

}  // namespace

bool Sysfs::is_ours(std::string_view path) {
  constexpr std::string_view folder = infiniband.substr(0, infiniband.size() - 1);
  return path == folder || path.starts_with(infiniband) || path.starts_with(mads);
}

std::optional<std::string> Sysfs::place_of(std::string_view path) const {
  if (!is_ours(path)) return std::nullopt;
  return folder_ + std::string(path);
}

namespace {

constexpr std::string_view folder_name = "parley-umad-", lock_name = "/lock";

/// A descriptor that holds the folder's lock; -1: there is no lock file, or another process holds it.
int lock_folder(const std::string& folder, int flags) {
  const int fd = ::open((folder + std::string(lock_name)).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
  if (fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

/// Removes folders of processes that were killed. Only this user's folders, because others could have any content.
void sweep(const std::string& above) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(above, error), end; !error && at != end; at.increment(error)) {
    struct stat is {};
    const std::string path = at->path().string();
    if (!at->path().filename().string().starts_with(folder_name) || ::lstat(path.c_str(), &is) != 0 ||
        !S_ISDIR(is.st_mode) || is.st_uid != ::geteuid())
      continue;
    const int lock = lock_folder(path, 0);
    if (lock < 0) continue;
    std::error_code left;
    std::filesystem::remove_all(path, left);
    ::close(lock);
  }
}

}  // namespace

std::unique_ptr<Sysfs> Sysfs::create(const ibsim::Client& client) {
  std::error_code error;
  const std::string above = std::filesystem::temp_directory_path(error).string();
  if (error) return nullptr;
  sweep(above);
  std::string folder = fmt::format("{}/{}XXXXXX", above, folder_name);
  if (::mkdtemp(folder.data()) == nullptr) return nullptr;
  std::unique_ptr<Sysfs> out(new Sysfs(folder, lock_folder(folder, O_CREAT)));
  return out->lock_ >= 0 && out->fill(client) ? std::move(out) : nullptr;
}

Sysfs::~Sysfs() {
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
  if (lock_ >= 0) ::close(lock_);
}

void Sysfs::put(const std::string& path, const std::string& text) const {
  const std::filesystem::path file = folder_ + path;
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  const std::filesystem::path fresh = folder_ + "/fresh";  // others may be reading the old one
  std::ofstream(fresh, std::ios::binary) << text << '\n';
  std::filesystem::rename(fresh, file, error);
}

bool Sysfs::fill(const ibsim::Client& client) {
  const auto info = client.ask(ibsim::ControlType::node_info), keys = client.ask(ibsim::ControlType::p_keys);
  if (!info || !keys) return false;
  const NodeInfo node = *NodeInfo::parse(*info);
  const std::string of_device = fmt::format("{}{}/", infiniband, device);
  const unsigned number = node.get(NodeInfo::local_port_num);
  port_ = fmt::format("{}ports/{}/", of_device, number);
  constexpr const char* types[] = {"<unknown>", "CA", "SWITCH", "ROUTER"};
  const auto type = static_cast<unsigned>(node.get(NodeInfo::node_type));
  put(of_device + "node_type", fmt::format("{}: {}", type, types[type < std::size(types) ? type : 0]));
  put(of_device + "fw_ver", "1");
  put(of_device + "hw_rev", fmt::format("{:x}", node.get(NodeInfo::revision)));
  put(of_device + "hca_type", "simulator");
  put(of_device + "node_guid", grouped(ConstBytes(*info).subspan(12, 8)));
  put(of_device + "sys_image_guid", grouped(ConstBytes(*info).subspan(4, 8)));
  for (std::size_t i = 0; i < keys->size() / 2; ++i)
    put(fmt::format("{}pkeys/{}", port_, i), fmt::format("0x{:02x}{:02x}", (*keys)[2 * i], (*keys)[2 * i + 1]));
  put(port_ + "link_layer", "InfiniBand");
  const std::string of_mads(mads);
  put(of_mads + "/abi_version", "5");
  for (const char* const kind : {"umad0", "issm0"}) {
    put(fmt::format("{}/{}/ibdev", of_mads, kind), device);
    put(fmt::format("{}/{}/port", of_mads, kind), fmt::format("{}", number));
  }
  refresh(client);
  return true;
}

void Sysfs::refresh(const ibsim::Client& client) const {
  const auto data = client.ask(ibsim::ControlType::port_info), gid = client.ask(ibsim::ControlType::gid);
  if (!data || !gid) return;
  const PortInfo info = *PortInfo::parse(*data);
  put(port_ + "lid", fmt::format("{:#x}", info.get(PortInfo::lid)));
  put(port_ + "lid_mask_count", fmt::format("{}", info.get(PortInfo::lmc)));
  put(port_ + "sm_lid", fmt::format("{:#x}", info.get(PortInfo::master_sm_lid)));
  put(port_ + "sm_sl", fmt::format("{}", info.get(PortInfo::master_sm_sl)));
  put(port_ + "state", state_text(info));
  put(port_ + "phys_state", physical_text(info));
  put(port_ + "rate", rate_text(info));
  put(port_ + "cap_mask", fmt::format("{:#010x}", info.get(PortInfo::capability_mask)));
  put(port_ + "gids/0", grouped(ConstBytes(*gid).subspan(0, 16)));
}

}  // namespace parley::umad
