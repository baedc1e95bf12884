/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Finds the packet in a frame. Wireshark's InfiniBand dissector does not report its offset. It only reports that it had
 * the frame, by its name among the frame's layers. So everything that leads to that dissector leads here, too: port
 * 4791, Ethertype 0x8915, the link types of InfiniBand, Decode As. */
#include <string.h>
#include <wiretap/wtap.h>

#include "parley_ib.h"
#include "parley_ip.h"

enum { LRH_LEN = 8, UDP_LEN = 8, ETHERNET_LEN = 14, IPV6_LEN = 40 };

static const parley_ib_operation operations[] = {
#define PARLEY_X(name, value, services, headers, response, text) {value, services, response, headers, text},
    PARLEY_IB_OPERATIONS(PARLEY_X)
#undef PARLEY_X
};

static const struct {
  guint16 mask;
  guint8 length;
} headers[] = {
#define PARLEY_X(name, mask, length) {mask, length},
    PARLEY_IB_HEADERS(PARLEY_X)
#undef PARLEY_X
};

static const parley_ib_operation* look_up(guint8 opcode) {
  guint8 on = 0;
  switch (opcode & PARLEY_IB_SERVICE_MASK) {
    case PARLEY_IB_SERVICE_rc: on = PARLEY_IB_ON_RC; break;
    case PARLEY_IB_SERVICE_uc: on = PARLEY_IB_ON_UC; break;
    case PARLEY_IB_SERVICE_ud: on = PARLEY_IB_ON_UD; break;
    case PARLEY_IB_SERVICE_xrc: on = PARLEY_IB_ON_XRC; break;
    default: return NULL;
  }
  for (guint i = 0; i < G_N_ELEMENTS(operations); i++)
    if (operations[i].value == (opcode & PARLEY_IB_OPERATION_MASK))
      return (operations[i].services & on) != 0 ? &operations[i] : NULL;
  return NULL;
}

const parley_ib_operation* parley_ib_operation_of(guint8 opcode) {
  static const parley_ib_operation* all[256];
  static gboolean known;
  for (guint i = 0; !known && i < G_N_ELEMENTS(all); i++) all[i] = look_up((guint8)i);
  known = TRUE;
  return all[opcode];
}

gboolean parley_ib_has(const parley_ib_packet* p, gint at, gint length) {
  return at >= 0 && at + length <= p->end && at + length <= (gint)tvb_captured_length(p->tvb);
}

gboolean parley_ib_carries(const parley_ib_packet* p, gint octet, gint length) {
  return octet + length <= p->payload_length && parley_ib_has(p, p->payload + octet, length);
}

static guint bit_of(guint16 header) {
  guint bit = 0;
  while ((header >> bit & 1) == 0) bit++;
  return bit;
}

gint parley_ib_header_at(const parley_ib_packet* p, guint16 header) { return p->bth + p->at[bit_of(header)]; }

/* ------------------------------------------------------------------ below the BTH */

static void gid_of_ipv4(tvbuff_t* tvb, gint at, parley_ib_gid* out) {
  memset(out->octets, 0, PARLEY_GID_LEN);
  out->octets[10] = out->octets[11] = 0xFF;
  tvb_memcpy(tvb, out->octets + 12, at, 4);
}

static void gid_of_lid(tvbuff_t* tvb, gint at, parley_ib_gid* out) {
  memset(out->octets, 0, PARLEY_GID_LEN);
  out->octets[0] = 0xFE;
  out->octets[1] = 0x01;
  tvb_memcpy(tvb, out->octets + 14, at, 2);
}

/* Reads the GIDs from a GRH or IPv6 header at p->grh. */
static void gids_of(parley_ib_packet* p) {
  tvb_memcpy(p->tvb, p->source.octets, p->grh + 8, PARLEY_GID_LEN);
  tvb_memcpy(p->tvb, p->destination.octets, p->grh + 24, PARLEY_GID_LEN);
}

/* Native InfiniBand links: IBA §7.7. The packet length counts words of four octets from the LRH to the ICRC. */
static gboolean native_in(tvbuff_t* tvb, parley_ib_packet* p) {
  enum { RAW = 1, LOCAL = 2, GLOBAL = 3 };
  if (tvb_captured_length(tvb) < LRH_LEN) return FALSE;
  const guint8 next = tvb_get_guint8(tvb, 1) & 0x03;
  if (next < LOCAL) return FALSE;
  p->carriage = PARLEY_ENGINE_LINK;
  p->below = 0;
  p->plain = TRUE;
  p->bth = LRH_LEN;
  p->end = (tvb_get_ntohs(tvb, 4) & 0x7FF) * 4;
  if (next == LOCAL) {
    gid_of_lid(tvb, 6, &p->source);
    gid_of_lid(tvb, 2, &p->destination);
    return TRUE;
  }
  if (tvb_captured_length(tvb) < LRH_LEN + PARLEY_ROCE_GRH_LEN) return FALSE;
  p->grh = LRH_LEN;
  p->bth += PARLEY_ROCE_GRH_LEN;
  gids_of(p);
  return TRUE;
}

/* RoCEv1: a GRH behind Ethernet, which may be tagged. */
static gboolean v1_in(tvbuff_t* tvb, const packet_info* pinfo, parley_ib_packet* p) {
  const gint captured = (gint)tvb_captured_length(tvb);
  if (captured < ETHERNET_LEN || pinfo->dl_src.type != AT_ETHER || pinfo->dl_src.data == NULL) return FALSE;
  const guint8 *const octets = tvb_get_ptr(tvb, 0, captured), *const source = (const guint8*)pinfo->dl_src.data;
  if (source < octets + 6 || source + 8 > octets + captured) return FALSE;
  gint at = (gint)(source - octets) + 6;
  for (gint tags = 0; tags < 4 && at + 6 <= captured; tags++, at += 4) {
    const guint16 type = tvb_get_ntohs(tvb, at);
    if (type != 0x8100 && type != 0x88A8 && type != 0x9100) break; /* IEEE 802.1Q, 802.1ad */
  }
  if (at + 2 + PARLEY_ROCE_GRH_LEN > captured || tvb_get_ntohs(tvb, at) != PARLEY_ROCE_ETHERTYPE) return FALSE;
  p->carriage = PARLEY_ENGINE_ROCE_V1;
  p->below = p->grh = at + 2;
  p->plain = tvb_get_guint8(tvb, p->grh + 6) == PARLEY_ROCE_GRH_NEXT_HEADER;
  p->bth = p->grh + PARLEY_ROCE_GRH_LEN;
  p->end = p->bth + tvb_get_ntohs(tvb, p->grh + 4);
  gids_of(p);
  return TRUE;
}

static gboolean v2_in(tvbuff_t* tvb, const packet_info* pinfo, parley_ib_packet* p) {
  enum { UDP = 17, IPV4_LEN = 20 };
  parley_ip_packet ip;
  if (!parley_ip_in(tvb, pinfo, UDP, &ip) || ip.length < UDP_LEN) return FALSE;
  if (tvb_captured_length_remaining(tvb, ip.payload) < UDP_LEN) return FALSE;
  const guint length = tvb_get_ntohs(tvb, ip.payload + 4);
  if (length < UDP_LEN || length > ip.length) return FALSE;
  p->carriage = ip.version == 4 ? PARLEY_ENGINE_ROCE_V2_IPV4 : PARLEY_ENGINE_ROCE_V2_IPV6;
  p->below = ip.ip;
  p->plain = ip.payload - ip.ip == (ip.version == 4 ? IPV4_LEN : IPV6_LEN);
  p->bth = ip.payload + UDP_LEN;
  p->source_port = tvb_get_ntohs(tvb, ip.payload);
  p->end = ip.payload + (gint)length;
  if (ip.version == 4) {
    gid_of_ipv4(tvb, ip.ip + 12, &p->source);
    gid_of_ipv4(tvb, ip.ip + 16, &p->destination);
  } else {
    p->grh = ip.ip;
    gids_of(p);
  }
  return TRUE;
}

/* ------------------------------------------------------------------ BTH and what follows */

/* The headers of an opcode, computed once for each. */
typedef struct layout {
  const parley_ib_operation* operation;
  guint16 headers, size, at[G_N_ELEMENTS(((parley_ib_packet*)NULL)->at)];
} layout;

static void lay_out(guint8 opcode, layout* out) {
  const guint8 service = opcode & PARLEY_IB_SERVICE_MASK;
  out->operation = parley_ib_operation_of(opcode);
  if (out->operation != NULL) {
    out->headers = out->operation->headers;
    if (service == PARLEY_IB_SERVICE_ud) out->headers |= PARLEY_IB_DETH;
    if (service == PARLEY_IB_SERVICE_xrc && !out->operation->response) out->headers |= PARLEY_IB_XRCETH;
  }
  guint16 at = PARLEY_IB_BTH_LEN;
  for (guint i = 0; i < G_N_ELEMENTS(headers); i++) {
    out->at[bit_of(headers[i].mask)] = at;
    if ((out->headers & headers[i].mask) != 0) at = (guint16)(at + headers[i].length);
  }
  out->size = at;
}

static const layout* layout_of(guint8 opcode) {
  static layout all[256];
  if (all[opcode].size == 0) lay_out(opcode, &all[opcode]);
  return &all[opcode];
}

static void find_headers(parley_ib_packet* p) {
  const layout* const all = layout_of(p->opcode);
  p->operation = all->operation;
  p->headers = all->headers;
  memcpy(p->at, all->at, sizeof p->at);
  const gint pad = (tvb_get_guint8(p->tvb, p->bth + 1) & PARLEY_IB_BTH_PAD) >> 4;
  p->payload = p->bth + all->size;
  p->payload_length = p->end - PARLEY_IB_ICRC_LEN - pad - p->payload;
  if (p->payload_length < 0) p->payload_length = -1;
  const gint deth = parley_ib_header_at(p, PARLEY_IB_DETH);
  if ((p->headers & PARLEY_IB_DETH) != 0 && parley_ib_has(p, deth, 8)) p->source_qpn = tvb_get_ntoh24(p->tvb, deth + 5);
}

static gboolean is_native(const packet_info* pinfo) {
  const wtap_packet_header* const h = &pinfo->rec->rec_header.packet_header;
  enum { INFINIBAND = 21 }; /* type of an ERF record */
  if (pinfo->rec->rec_type != REC_TYPE_PACKET) return FALSE;
  if (h->pkt_encap == WTAP_ENCAP_ERF) return (h->pseudo_header.erf.phdr.type & 0x7F) == INFINIBAND;
  return h->pkt_encap == WTAP_ENCAP_INFINIBAND;
}

gboolean parley_ib_find(packet_info* pinfo, parley_ib_packet* out) {
  for (GSList* source = pinfo->data_src; source != NULL; source = source->next) {
    tvbuff_t* const tvb = get_data_source_tvb((const struct data_source*)source->data);
    memset(out, 0, sizeof *out);
    out->tvb = tvb;
    out->grh = -1;
    if (is_native(pinfo) ? !native_in(tvb, out) : !v1_in(tvb, pinfo, out) && !v2_in(tvb, pinfo, out)) continue;
    if (!parley_ib_has(out, out->bth, PARLEY_IB_BTH_LEN)) return FALSE;
    out->opcode = tvb_get_guint8(tvb, out->bth);
    out->qpn = tvb_get_ntoh24(tvb, out->bth + 5);
    out->psn = tvb_get_ntoh24(tvb, out->bth + 9);
    find_headers(out);
    return TRUE;
  }
  return FALSE;
}
