// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What Parley uses of libibumad, opened on use.
#include <infiniband/umad.h>

#include "drivers/libraries/forward.hpp"

namespace {
constinit parley::libraries::Library library{parley::libraries::libibumad};
}  // namespace

PARLEY_FORWARD(int, umad_close_port, (int portid), (portid))
PARLEY_FORWARD(int, umad_get_ca, (const char* ca_name, umad_ca_t* ca), (ca_name, ca))
PARLEY_FORWARD(int, umad_get_cas_names, (char cas[][20], int max), (cas, max))
PARLEY_FORWARD(int, umad_get_fd, (int portid), (portid))
PARLEY_FORWARD(void*, umad_get_mad, (void* umad), (umad))
PARLEY_FORWARD(ib_mad_addr_t*, umad_get_mad_addr, (void* umad), (umad))
PARLEY_FORWARD(int, umad_get_pkey, (void* umad), (umad))
PARLEY_FORWARD(int, umad_get_port, (const char* ca_name, int portnum, umad_port_t* port), (ca_name, portnum, port))
PARLEY_FORWARD(int, umad_init, (), ())
PARLEY_FORWARD(int, umad_open_port, (const char* ca_name, int portnum), (ca_name, portnum))
PARLEY_FORWARD(int, umad_poll, (int portid, int timeout_ms), (portid, timeout_ms))
PARLEY_FORWARD(int, umad_recv, (int portid, void* umad, int* length, int timeout_ms),
               (portid, umad, length, timeout_ms))
PARLEY_FORWARD(int, umad_register,
               (int portid, int mgmt_class, int mgmt_version, uint8_t rmpp_version,
                long method_mask[16 / sizeof(long)]),
               (portid, mgmt_class, mgmt_version, rmpp_version, method_mask))
PARLEY_FORWARD(int, umad_register_oui,
               (int portid, int mgmt_class, uint8_t rmpp_version, uint8_t oui[3], long method_mask[16 / sizeof(long)]),
               (portid, mgmt_class, rmpp_version, oui, method_mask))
PARLEY_FORWARD(int, umad_release_ca, (umad_ca_t * ca), (ca))
PARLEY_FORWARD(int, umad_release_port, (umad_port_t * port), (port))
PARLEY_FORWARD(int, umad_send, (int portid, int agentid, void* umad, int length, int timeout_ms, int retries),
               (portid, agentid, umad, length, timeout_ms, retries))
PARLEY_FORWARD(int, umad_set_addr, (void* umad, int dlid, int dqp, int sl, int qkey), (umad, dlid, dqp, sl, qkey))
PARLEY_FORWARD(int, umad_set_pkey, (void* umad, int pkey_index), (umad, pkey_index))
PARLEY_FORWARD(size_t, umad_size, (), ())
PARLEY_FORWARD(int, umad_status, (void* umad), (umad))
