/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The invariant CRC: IBA §7.8.1, and for RoCE Annexes A16 and A17. It covers what no router or switch changes, from the
 * first header behind the link's to the pad; what they may change counts as ones. */
#include <string.h>

#include "parley_crc.h"
#include "parley_ib.h"

enum { STAND_IN = 8, UDP_LEN = 8, IPV6_LEN = 40, BELOW_MAX = 8 + PARLEY_ROCE_GRH_LEN + UDP_LEN + PARLEY_IB_BTH_LEN };

static void mask_ipv6(guint8* header) {
  header[0] |= 0x0F; /* traffic class and flow label */
  memset(header + 1, 0xFF, 3);
  header[7] = 0xFF; /* hop limit */
}

static void mask_ipv4(guint8* header) {
  header[1] = 0xFF; /* type of service */
  header[8] = 0xFF; /* time to live */
  header[10] = header[11] = 0xFF;
}

/* All below the payload and the headers behind the BTH. */
static void mask(const parley_ib_packet* p, guint8* octets) {
  guint8* const bth = octets + (p->bth - p->below);
  bth[4] = 0xFF; /* FECN, BECN and reserved bits */
  switch (p->carriage) {
    case PARLEY_IB_NATIVE:
      octets[0] |= 0xF0;     /* virtual lane */
      if (p->grh < 0) break; /* with a GRH a router makes the LRH anew */
      memset(octets, 0xFF, (size_t)(p->grh - p->below));
      mask_ipv6(octets + (p->grh - p->below));
      break;
    case PARLEY_IB_ROCE_V1: mask_ipv6(octets); break;
    case PARLEY_IB_ROCE_V2_IPV4: mask_ipv4(octets); break;
    case PARLEY_IB_ROCE_V2_IPV6: mask_ipv6(octets); break;
  }
  /* The checksum of UDP. */
  if (p->carriage == PARLEY_IB_ROCE_V2_IPV4 || p->carriage == PARLEY_IB_ROCE_V2_IPV6) bth[-1] = bth[-2] = 0xFF;
}

gboolean parley_ib_icrc(const parley_ib_packet* p, guint32* out) {
  static const guint8 ones[STAND_IN] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
  guint8 head[BELOW_MAX];
  const gint behind = p->bth + PARLEY_IB_BTH_LEN, length = behind - p->below;
  const gint rest = p->end - PARLEY_IB_ICRC_LEN - behind;
  if (!p->plain || length > BELOW_MAX || rest < 0 || !parley_ib_has(p, p->below, p->end - p->below)) return FALSE;
  tvb_memcpy(p->tvb, head, p->below, (size_t)length);
  mask(p, head);
  guint32 crc = p->carriage == PARLEY_IB_NATIVE ? 0 : parley_crc32(0, ones, STAND_IN);
  crc = parley_crc32(crc, head, (size_t)length);
  if (rest > 0) crc = parley_crc32(crc, tvb_get_ptr(p->tvb, behind, rest), (size_t)rest);
  *out = GUINT32_SWAP_LE_BE(crc);
  return TRUE;
}
