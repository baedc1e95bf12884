/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <wsutil/inet_addr.h>

#include "parley_ib.h"

static const guint32 rnr_timers[] = {PARLEY_IB_RNR_TIMERS}; /* of 10 us */
static const guint16 credits[] = {PARLEY_IB_CREDITS};

const value_string parley_ib_naks[] = {
#define PARLEY_X(name, code, text) {code, text},
    PARLEY_IB_NAKS(PARLEY_X)
#undef PARLEY_X
        {0, NULL}};

static const value_string services[] = {
#define PARLEY_X(name, value, text) {value, text},
    PARLEY_IB_SERVICES(PARLEY_X)
#undef PARLEY_X
        {0, NULL}};

guint32 parley_ib_rnr_timer(guint8 code) { return rnr_timers[code & PARLEY_IB_SYNDROME_VALUE]; }

gint32 parley_ib_credits(guint8 code) {
  const guint8 value = code & PARLEY_IB_SYNDROME_VALUE;
  return value < G_N_ELEMENTS(credits) ? credits[value] : -1;
}

/* Makes the text for an octet. Each text is made once and kept, because every packet needs some. */
typedef char* (*octet_words)(guint8 octet);

static const char* words_of(const char** all, guint8 octet, octet_words make) {
  if (all[octet] == NULL) all[octet] = make(octet);
  return all[octet];
}

static char* syndrome_words(guint8 syndrome) {
  const guint8 value = syndrome & PARLEY_IB_SYNDROME_VALUE;
  switch (syndrome & ~PARLEY_IB_SYNDROME_VALUE) {
    case PARLEY_IB_SYNDROME_ACK: {
      const gint32 n = parley_ib_credits(value);
      return n < 0 ? g_strdup("ACK") : g_strdup_printf("ACK, %d credit%s", n, n == 1 ? "" : "s");
    }
    case PARLEY_IB_SYNDROME_RNR_NAK: {
      const guint32 hundredths = rnr_timers[value];
      return g_strdup_printf("RNR NAK, %u.%02u ms", hundredths / 100, hundredths % 100);
    }
    case PARLEY_IB_SYNDROME_NAK:
      return g_strdup_printf("NAK: %s", val_to_str_const(value, parley_ib_naks, "reserved NAK code"));
    default: return g_strdup_printf("reserved syndrome 0x%02X", syndrome);
  }
}

const char* parley_ib_syndrome_words(guint8 syndrome) {
  static const char* all[256];
  return words_of(all, syndrome, syndrome_words);
}

const char* parley_ib_transport_words(guint8 transport) { return val_to_str_const(transport, services, "reserved"); }

static char* opcode_words(guint8 opcode) {
  if (opcode == PARLEY_IB_OPCODE_CNP) return g_strdup("CNP");
  const parley_ib_operation* const operation = parley_ib_operation_of(opcode);
  const char* const service = parley_ib_transport_words(opcode & PARLEY_IB_SERVICE_MASK);
  if (operation == NULL) return g_strdup_printf("%s opcode 0x%02X", service, opcode);
  return g_strdup_printf("%s %s", service, operation->text);
}

const char* parley_ib_opcode_words(guint8 opcode) {
  static const char* all[256];
  return words_of(all, opcode, opcode_words);
}

const char* parley_ib_service_words(wmem_allocator_t* scope, guint64 service_id) {
  const char* space = NULL;
  switch (service_id >> 16) {
#define PARLEY_X(name, value, text) \
  case value: space = #name; break;
    PARLEY_CMA_PORT_SPACES(PARLEY_X)
#undef PARLEY_X
    default: return wmem_strdup_printf(scope, "0x%016" G_GINT64_MODIFIER "x", service_id);
  }
  return wmem_strdup_printf(scope, "%s:%u", space, (guint)(service_id & 0xFFFF));
}

static guint32 number_of(const guint8* octets, guint length) {
  guint32 value = 0;
  for (guint i = 0; i < length && i < 4; i++) value = value << 8 | octets[i];
  return value;
}

static const char* gid_words(wmem_allocator_t* scope, const guint8* octets) {
  char text[WS_INET6_ADDRSTRLEN];
  ws_inet_ntop6(octets, text, sizeof text);
  return wmem_strdup_printf(scope, "GID that would do: %s", text);
}

/* IBA §12.6.7.2: the additional information of each reason. */
const char* parley_ibcm_ari_words(wmem_allocator_t* scope, guint16 reason, const guint8* info, guint length) {
  static const value_string what[] = {{PARLEY_IBCM_REJECT_primary_lid, "LID"},
                                      {PARLEY_IBCM_REJECT_alternate_lid, "LID"},
                                      {PARLEY_IBCM_REJECT_primary_sl, "SL"},
                                      {PARLEY_IBCM_REJECT_alternate_sl, "SL"},
                                      {PARLEY_IBCM_REJECT_primary_traffic_class, "traffic class"},
                                      {PARLEY_IBCM_REJECT_alternate_traffic_class, "traffic class"},
                                      {PARLEY_IBCM_REJECT_primary_hop_limit, "hop limit"},
                                      {PARLEY_IBCM_REJECT_alternate_hop_limit, "hop limit"},
                                      {PARLEY_IBCM_REJECT_primary_packet_rate, "packet rate"},
                                      {PARLEY_IBCM_REJECT_alternate_packet_rate, "packet rate"},
                                      {PARLEY_IBCM_REJECT_primary_flow_label, "flow label"},
                                      {PARLEY_IBCM_REJECT_alternate_flow_label, "flow label"},
                                      {PARLEY_IBCM_REJECT_invalid_path_mtu, "path MTU"},
                                      {PARLEY_IBCM_REJECT_insufficient_responder_resources, "responder resources"},
                                      {PARLEY_IBCM_REJECT_unsupported_class_version, "class version"},
                                      {0, NULL}};
  if (reason == PARLEY_IBCM_REJECT_timeout && length == 8)
    return wmem_strdup_printf(scope, "CA GUID of the sender: 0x%08x%08x", number_of(info, 4), number_of(info + 4, 4));
  if ((reason == PARLEY_IBCM_REJECT_primary_gid || reason == PARLEY_IBCM_REJECT_alternate_gid) &&
      length == PARLEY_GID_LEN)
    return gid_words(scope, info);
  const char* const text = try_val_to_str(reason, what);
  if (text == NULL || length == 0 || length > 4) return NULL;
  return wmem_strdup_printf(scope, "%s that would do: 0x%0*x", text, (int)(2 * length), number_of(info, length));
}
