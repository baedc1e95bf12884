/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a packet shows of itself, and against what the CM told of its connection (IBA §9.2, §9.4, §9.6, §9.7). */
#include "parley_ib.h"

#define BIT(operation) (1U << PARLEY_IB_OPERATION_##operation)

enum { WORD = 4 };

static guint8 service_of(const parley_ib_packet* p) { return p->opcode & PARLEY_IB_SERVICE_MASK; }

static gboolean is_one_of(const parley_ib_packet* p, guint32 operations) {
  return (operations >> p->operation->value & 1) != 0;
}

static const char* counted(packet_info* pinfo, guint32 n) {
  return wmem_strdup_printf(pinfo->pool, "%u octet%s", n, n == 1 ? "" : "s");
}

static guint8 octet(const parley_ib_packet* p, gint at) { return tvb_get_guint8(p->tvb, p->bth + at); }

static void judge_bth(const parley_ib_packet* p, packet_info* pinfo, proto_item* item, gint who) {
  const guint8 tver = octet(p, 1) & PARLEY_IB_BTH_TVER;
  if (tver != 0)
    parley_ib_tell(pinfo, item, PARLEY_IB_RULE_TVER, who, " sent a packet of transport version %u; there is only 0",
                   tver);
  if ((octet(p, 4) & 0x3F) != 0 || (octet(p, 8) & 0x7F) != 0)
    parley_ib_tell(pinfo, item, PARLEY_IB_RULE_RESERVED, who, "'s BTH has reserved bits set");
}

static void judge_pad(const parley_ib_packet* p, packet_info* pinfo, proto_item* item, gint who) {
  const gint pad = (octet(p, 1) & PARLEY_IB_BTH_PAD) >> 4, at = p->payload + p->payload_length;
  if ((p->payload_length + pad) % WORD != 0) {
    parley_ib_tell(pinfo, item, PARLEY_IB_RULE_PAD, who, "'s packet has %s of payload and %d of pad",
                   counted(pinfo, (guint32)p->payload_length), pad);
    return;
  }
  if (!parley_ib_has(p, at, pad + PARLEY_IB_ICRC_LEN)) return;
  for (gint i = 0; i < pad; i++)
    if (tvb_get_guint8(p->tvb, at + i) != 0) {
      parley_ib_tell(pinfo, item, PARLEY_IB_RULE_PAD_OCTETS, who, "'s pad is not of zeros");
      return;
    }
}

/* IBA §9.7.4. `mtu`: 0 if it is not known. */
static void judge_length(const parley_ib_packet* p, packet_info* pinfo, proto_item* item, gint who, guint16 mtu) {
  enum { FIRSTS_AND_MIDDLES = BIT(send_first) | BIT(send_middle) | BIT(write_first) | BIT(write_middle) };
  enum { LASTS = BIT(send_last) | BIT(send_last_imm) | BIT(send_last_inv) | BIT(write_last) | BIT(write_last_imm) };
  enum { WITHOUT = BIT(read_request) | BIT(cmp_swap) | BIT(fetch_add) };
  const gint most = mtu != 0 ? mtu : PARLEY_IB_MTU_MAX;
  const char* why = NULL;
  if (is_one_of(p, WITHOUT)) {
    if (p->payload_length > 0) why = "it has no payload";
  } else if (is_one_of(p, FIRSTS_AND_MIDDLES)) {
    if (mtu != 0 && p->payload_length != mtu)
      why = wmem_strdup_printf(pinfo->pool, "the path MTU is %u, and only the last packet may be shorter", mtu);
  } else if (p->payload_length > most) {
    why = wmem_strdup_printf(pinfo->pool, "the path MTU is %d", most);
  } else if (p->payload_length == 0 && is_one_of(p, LASTS)) {
    why = "a message of several packets ends with one octet at least";
  }
  if (why != NULL)
    parley_ib_tell(pinfo, item, PARLEY_IB_RULE_LENGTH, who, "'s %s has %s; %s", p->operation->text,
                   counted(pinfo, (guint32)p->payload_length), why);
}

static void judge_request(const parley_ib_packet* p, packet_info* pinfo, proto_item* item, gint who, guint16 mtu) {
  enum { WRITE_ONLYS = BIT(write_only) | BIT(write_only_imm) };
  const gint atomic = parley_ib_header_at(p, PARLEY_IB_ATOMIC_ETH), reth = parley_ib_header_at(p, PARLEY_IB_RETH);
  judge_length(p, pinfo, item, who, mtu);
  if ((p->headers & PARLEY_IB_ATOMIC_ETH) != 0 && tvb_get_ntoh64(p->tvb, atomic) % 8 != 0)
    parley_ib_tell(pinfo, item, PARLEY_IB_RULE_ATOMIC_ADDRESS, who,
                   "'s %s is at 0x%" G_GINT64_MODIFIER "x, which is no multiple of 8", p->operation->text,
                   tvb_get_ntoh64(p->tvb, atomic));
  if (!is_one_of(p, WRITE_ONLYS)) return;
  const guint32 announced = tvb_get_ntohl(p->tvb, reth + 12);
  if (announced != (guint32)p->payload_length)
    parley_ib_tell(pinfo, item, PARLEY_IB_RULE_DMA_LENGTH, who, "'s %s announces %s and has %d", p->operation->text,
                   counted(pinfo, announced), p->payload_length);
}

static gboolean is_assigned(guint8 syndrome) {
  if ((syndrome & 0x80) != 0) return FALSE;
  switch (syndrome & PARLEY_IB_SYNDROME_KIND) {
    case PARLEY_IB_SYNDROME_ACK:
    case PARLEY_IB_SYNDROME_RNR_NAK: return TRUE;
    case PARLEY_IB_SYNDROME_NAK: return try_val_to_str(syndrome & PARLEY_IB_SYNDROME_VALUE, parley_ib_naks) != NULL;
    default: return FALSE;
  }
}

/* IBA §9.7.5.1. */
static void judge_syndrome(const parley_ib_packet* p, packet_info* pinfo, proto_item* item, const parley_ib_end* from,
                           gint who) {
  const guint8 syndrome = tvb_get_guint8(p->tvb, parley_ib_header_at(p, PARLEY_IB_AETH));
  const gboolean ack = (syndrome & PARLEY_IB_SYNDROME_KIND) == PARLEY_IB_SYNDROME_ACK;
  if (!is_assigned(syndrome)) {
    parley_ib_tell(pinfo, item, PARLEY_IB_RULE_SYNDROME, who, "'s %s has the reserved syndrome 0x%02x",
                   p->operation->text, syndrome);
  } else if (p->operation->value != PARLEY_IB_OPERATION_acknowledge && !ack) {
    parley_ib_tell(pinfo, item, PARLEY_IB_RULE_SYNDROME, who, "'s %s has the syndrome of a NAK (0x%02x)",
                   p->operation->text, syndrome);
  } else if (ack && from != NULL && (syndrome & PARLEY_IB_SYNDROME_VALUE) != PARLEY_IB_CREDITS_NONE) {
    if (!from->conn->gives_credits[from->side])
      parley_ib_tell(pinfo, item, PARLEY_IB_RULE_CREDITS, who,
                     " gave credits (syndrome 0x%02x); it had said that it has no flow control", syndrome);
    else if (from->conn->shared_receives[from->side])
      parley_ib_tell(pinfo, item, PARLEY_IB_RULE_CREDITS, who,
                     " gave credits (syndrome 0x%02x); its receives are those of a shared queue", syndrome);
  }
}

/* What was agreed for the connection (IBA §9.6). */
static void judge_keys(const parley_ib_packet* p, packet_info* pinfo, proto_item* item, const parley_ib_end* from,
                       gint who) {
  enum { WITHOUT_MEMBERSHIP = 0x7FFF };
  const parley_ib_conn* const c = from->conn;
  const guint16 p_key = tvb_get_ntohs(p->tvb, p->bth + 2);
  if (c->transport != PARLEY_IB_SERVICE_ud) {
    if ((p_key & WITHOUT_MEMBERSHIP) != (c->p_key & WITHOUT_MEMBERSHIP))
      parley_ib_tell(pinfo, item, PARLEY_IB_RULE_P_KEY, who,
                     "'s packet has P_Key 0x%04x; the connection is in that of 0x%04x", p_key, c->p_key);
    return;
  }
  const gint deth = parley_ib_header_at(p, PARLEY_IB_DETH);
  if (from->side != PARLEY_INITIATOR || c->q_key == 0 || !parley_ib_has(p, deth, 8)) return;
  const guint32 q_key = tvb_get_ntohl(p->tvb, deth);
  if (q_key != c->q_key)
    parley_ib_tell(pinfo, item, PARLEY_IB_RULE_UD_Q_KEY, who,
                   "'s packet has Q_Key 0x%08x; that of the service is 0x%08x", q_key, c->q_key);
}

static const char* name_of_service(guint8 service) {
  switch (service) {
    case PARLEY_IB_SERVICE_rc: return "rc";
    case PARLEY_IB_SERVICE_uc: return "uc";
    case PARLEY_IB_SERVICE_ud: return "ud";
    case PARLEY_IB_SERVICE_xrc: return "xrc";
    default: return "unknown service";
  }
}

static void judge_data(const parley_ib_packet* p, packet_info* pinfo, proto_item* item, const parley_ib_end* from,
                       gint who) {
  const guint8 service = service_of(p);
  if (p->operation == NULL) {
    if (service != PARLEY_IB_SERVICE_rd && service != PARLEY_IB_SERVICE_manufacturer)
      parley_ib_tell(pinfo, item, PARLEY_IB_RULE_UNASSIGNED, who, " sent opcode 0x%02x, which is not assigned",
                     p->opcode);
    return;
  }
  if (from != NULL && from->conn->transport != service) {
    const char* const words = parley_ib_opcode_words(pinfo->pool, p->opcode);
    const gboolean an = service == PARLEY_IB_SERVICE_rc || service == PARLEY_IB_SERVICE_xrc; /* "an RC", "a UD" */
    parley_ib_tell(pinfo, item, PARLEY_IB_RULE_SERVICE, who, " sent %s %s on a queue pair of %s", an ? "an" : "a",
                   words, name_of_service(from->conn->transport));
    return;
  }
  if (from != NULL) judge_keys(p, pinfo, item, from, who);
  const gint behind_bth = p->bth + PARLEY_IB_BTH_LEN;
  if (!parley_ib_has(p, behind_bth, p->payload - behind_bth)) return;
  if (!p->operation->response)
    judge_request(p, pinfo, item, who, from == NULL ? 0 : from->conn->path_mtu);
  else if ((p->headers & PARLEY_IB_AETH) != 0)
    judge_syndrome(p, pinfo, item, from, who);
}

/* What ends before it may: IBA §9.2. */
static void judge_end(const parley_ib_packet* p, packet_info* pinfo, proto_item* item, gint who) {
  const gint pad = (octet(p, 1) & PARLEY_IB_BTH_PAD) >> 4, size = p->end - p->bth;
  const gint left = p->end - PARLEY_IB_ICRC_LEN - p->payload;
  const char* why = "it ends before its headers do";
  if (size < PARLEY_IB_BTH_LEN + PARLEY_IB_ICRC_LEN) {
    parley_ib_tell(
        pinfo, item, PARLEY_IB_RULE_MALFORMED, who,
        " sent a packet that cannot be read: frame %u, octet %d: %d octets have no room for a BTH and an ICRC, "
        "which take %d",
        pinfo->num, p->bth, size, PARLEY_IB_BTH_LEN + PARLEY_IB_ICRC_LEN);
    return;
  }
  if (left >= 0) why = wmem_strdup_printf(pinfo->pool, "the BTH counts %d octets of pad; %d are left", pad, left);
  parley_ib_tell(pinfo, item, PARLEY_IB_RULE_MALFORMED, who,
                 " sent a packet that cannot be read: frame %u, octet %d: %s: %s", pinfo->num, p->bth,
                 p->operation == NULL ? "unassigned opcode" : parley_ib_opcode_words(pinfo->pool, p->opcode), why);
}

void parley_ib_judge(const parley_ib_packet* p, packet_info* pinfo, proto_item* item, const parley_ib_end* from,
                     gint who) {
  if (p->payload_length < 0) {
    judge_end(p, pinfo, item, who);
    return;
  }
  if (p->opcode == PARLEY_IB_OPCODE_CNP) return;
  judge_bth(p, pinfo, item, who);
  judge_pad(p, pinfo, item, who);
  /* Management datagrams are judged as what they carry. */
  const gboolean mad = p->qpn == PARLEY_IB_GSI_QPN && p->operation != NULL && service_of(p) == PARLEY_IB_SERVICE_ud;
  if (!mad) judge_data(p, pinfo, item, from, who);
}
